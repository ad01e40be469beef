"""Records that a damage writes into logs of a stage, under right checksums: of the metadata, and of coordinators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kafkalog.cluster.layout import cluster_metadata
from kafkalog.cluster.records.framed_records import FramedRecord, encode_framed
from kafkalog.cluster.records.messages import Decoded
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import BatchHeader, Record, TimestampType
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner

__all__ = ["MetadataRecord", "append_metadata", "displace", "new_topic", "partition_change", "with_first_value"]

MetadataRecord = tuple[str, int, dict[str, Any]]
"""name of the schema, version, fields"""


def partition_change(topic_id: str) -> MetadataRecord:
    """A change of the leader of partition 0 of a topic."""
    fields: dict[str, Any] = {
        "partition_id": 0, "topic_id": topic_id, "isr": None, "leader": 1, "replicas": None, "removing_replicas": None,
        "adding_replicas": None, "leader_recovery_state": -1, "directories": None, "eligible_leader_replicas": None,
        "last_known_elr": None,
    }  # fmt: skip
    return "PartitionChangeRecord", 0, fields


def new_topic(name: str, topic_id: str, broker: int) -> tuple[MetadataRecord, ...]:
    """Records of a topic with one partition on the broker."""
    fields: dict[str, Any] = {
        "partition_id": 0, "topic_id": topic_id, "replicas": [broker], "isr": [broker], "removing_replicas": [],
        "adding_replicas": [], "leader": broker, "leader_recovery_state": 0, "leader_epoch": 0, "partition_epoch": 0,
        "directories": [], "eligible_leader_replicas": None, "last_known_elr": None,
    }  # fmt: skip
    return ("TopicRecord", 0, {"name": name, "topic_id": topic_id}), ("PartitionRecord", 0, fields)


def _value(record: MetadataRecord) -> bytes:
    name, version, fields = record
    kind, message = next(
        (kind, each) for kind, known in cluster_metadata.VALUES.items() for each in known if each.name == name
    )
    encoded = encode_framed(FramedRecord(kind, version, None, Decoded(message, version, fields, 0)))
    assert encoded is not None
    return encoded


def append_metadata(log: Path, *records: MetadataRecord) -> None:
    """Append one batch to a metadata log, in the epoch of its last batch."""
    data = log.read_bytes()
    last = None
    for batch in Scanner(BufferSource(data)):
        if isinstance(batch.header, BatchHeader):
            last = batch.header
    assert last is not None
    made = build_batch(
        [
            Record(last.next_offset + number, last.max_timestamp, TimestampType.CREATE_TIME, None, _value(record))
            for number, record in enumerate(records)
        ],
        partition_leader_epoch=last.partition_leader_epoch,
    )
    log.write_bytes(data + made)


def with_first_value(data: bytes, version: int) -> bytes:
    """A coordinator's log whose first value has another version."""
    made = b""
    done = False
    for batch in Scanner(BufferSource(data)):
        header = batch.header
        part = data[batch.position : batch.position + batch.size]
        if not done and isinstance(header, BatchHeader) and not header.is_control:
            records = list(decode_batch(batch).records)
            place = next((number for number, each in enumerate(records) if each.value is not None), None)
            if place is not None:
                value = records[place].value
                assert value is not None
                records[place] = replace(records[place], value=version.to_bytes(2) + value[2:])
                part = build_batch(records, partition_leader_epoch=header.partition_leader_epoch)
                done = True
        made += part
    return made


def displace(log: Path, offset: int, past_end: int) -> int:
    """Let the batch at `offset` claim offsets of which the last is `past_end` above the end of the log, and return that
    end. No checksum covers the base offset.
    """
    data = bytearray(log.read_bytes())
    batches = [batch for batch in Scanner(BufferSource(bytes(data))) if isinstance(batch.header, BatchHeader)]
    end = batches[-1].last_offset + 1
    batch = next(batch for batch in batches if batch.header.first_offset == offset)
    base = end + past_end - (batch.last_offset - offset)
    data[batch.position : batch.position + 8] = base.to_bytes(8)
    log.write_bytes(data)
    return end
