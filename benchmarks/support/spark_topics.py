"""Seeded topics of 100-byte values in 16 KiB batches, with the offset index that a broker leaves."""

from __future__ import annotations

import random
from pathlib import Path

from kafkalog.codec.files.index_files import OffsetEntry, encode_offset_index
from kafkalog.codec.layout.record_batch import RECORD
from kafkalog.codec.model import BATCH, LOG_OVERHEAD
from kafkalog.codec.plain.crc32c import crc32c

VALUE_BYTES = 100
RECORDS_OF_A_BATCH = 140
START_MS = 1_700_000_000_000


def batch_template(seed: int) -> bytes:
    """One batch of random records; only its base offset differs from copy to copy, and no checksum covers that."""
    source = random.Random(seed)
    records = bytearray()
    for number in range(RECORDS_OF_A_BATCH):
        fields = {"attributes": 0, "timestamp_delta": number, "offset_delta": number, "headers": [],
                  "key": source.randbytes(10), "value": source.randbytes(VALUE_BYTES)}  # fmt: skip
        size = len(RECORD.build(fields | {"length": 0})) - 1
        records += RECORD.build(fields | {"length": size})
    values = dict.fromkeys(BATCH.names, 0) | {
        "batch_length": BATCH.size - LOG_OVERHEAD.size + len(records), "magic": 2,
        "last_offset_delta": RECORDS_OF_A_BATCH - 1, "base_timestamp": START_MS,
        "max_timestamp": START_MS + RECORDS_OF_A_BATCH - 1, "producer_id": -1, "producer_epoch": -1,
        "base_sequence": -1, "records_count": RECORDS_OF_A_BATCH,
    }  # fmt: skip
    values["crc"] = crc32c((BATCH.struct.pack(*values.values()) + records)[BATCH.end("crc") :])
    return BATCH.struct.pack(*values.values()) + bytes(records)


def write_topic(folder: Path, topic: str, rows: int, partitions: int) -> int:
    """The partition directories of one topic, a segment in each; returns how many rows there are."""
    batches = -(-rows // partitions // RECORDS_OF_A_BATCH)
    templates = [batch_template(seed)[8:] for seed in range(16)]
    for partition in range(partitions):
        directory = folder / f"{topic}-{partition}"
        directory.mkdir(parents=True)
        index: list[OffsetEntry] = []
        with (directory / f"{0:020}.log").open("wb") as log:
            for number in range(batches):
                if number:  # every batch is larger than index.interval.bytes
                    index.append(OffsetEntry((number + 1) * RECORDS_OF_A_BATCH - 1, log.tell()))
                log.write((number * RECORDS_OF_A_BATCH).to_bytes(8, "big") + templates[number % len(templates)])
        (directory / f"{0:020}.index").write_bytes(encode_offset_index(index))
    return batches * RECORDS_OF_A_BATCH * partitions
