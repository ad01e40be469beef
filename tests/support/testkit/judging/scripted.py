"""The scripts of ``histories``, carried out by our own log: the same operations that Kafka's append path was given.

A compressed batch, and one of an old format, is handed over as Kafka wrote it (with other offsets, so that ours has to
assign them): compressors differ between languages, and so do the bytes that they give for the same records.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

import kafkalog
from kafkalog.codec.encode import build_batch, build_raw_batch
from kafkalog.codec.model import BatchHeader

Op = dict[str, Any]
_CONFIG = {
    "segment.bytes": "segment_bytes",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "max.message.bytes": "max_message_bytes",
    "segment.ms": "segment_ms",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
}


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def batches_of(root: Path) -> list[kafkalog.RecordBatch]:
    """Every batch of the partition t-0 of a log directory, copied."""
    found = kafkalog.open_partition(root / "t-0").batches()
    return [replace(batch, data=bytes(batch.data)) for batch in found]


def config_of(script: Op) -> kafkalog.LogConfig:
    """The settings of a script, as ours; deleted files go when the log is closed."""
    known: dict[str, Any] = {_CONFIG[name]: int(value) for name, value in script["config"].items() if name in _CONFIG}
    append_time = script["config"].get("message.timestamp.type") == "LogAppendTime"
    kind = kafkalog.TimestampType.LOG_APPEND_TIME if append_time else kafkalog.TimestampType.CREATE_TIME
    return kafkalog.LogConfig(message_timestamp_type=kind, file_delete_delay_ms=0, **known)


class Player:
    """Carries out one script in ``root``/t-0; ``kafka`` are the batches that Kafka wrote for it."""

    def __init__(self, script: Op, root: Path, kafka: list[kafkalog.RecordBatch]) -> None:
        self._script = script
        self._path = root / "t-0"
        self._config = config_of(script)
        self._clock = Clock(script["now_ms"])
        self._kafka = {_first(batch): number for number, batch in enumerate(kafka)}
        self._batches = kafka
        self.operations = 0
        self.appended = 0

    def _open(self) -> kafkalog.Log:
        return kafkalog.Log.open(self._path, self._config, topic_id=self._script["topic_id"], clock=self._clock)

    def play(self) -> None:
        """All operations, then an orderly close."""
        log = self._open()
        try:
            for op in self._script["ops"]:
                self._clock.now_ms = op.get("now_ms", self._clock.now_ms)
                self.operations += 1
                if op["op"] == "reopen":
                    log.close()
                    log = self._open()
                else:
                    self._perform(log, op)
        finally:
            log.close()

    def _perform(self, log: kafkalog.Log, op: Op) -> None:
        match op["op"]:
            case "append" if op.get("role") == "follower":
                log.append(list(self._fetched(op)), keep_offsets=True)
            case "append":
                self._append(log, op)
            case "marker":
                log.end_transaction(
                    op["pid"],
                    op["epoch"],
                    commit=op["type"] == "COMMIT",
                    coordinator_epoch=op["coord_epoch"],
                    leader_epoch=op["leader_epoch"],
                    timestamp=op["ts"],
                )
                self.appended += 1
            case "roll":
                log.roll()
            case "flush":
                log.flush()
            case "delete_before":
                log.delete_records_before(op["offset"])
                if op.get("retention"):
                    log.delete_old_segments()
            case "truncate":
                log.truncate_to(op["offset"])
            case other:
                raise ValueError(f"operation {other} is not ours")

    def _append(self, log: kafkalog.Log, op: Op) -> None:
        plain = op.get("codec", "none") == "none" and op.get("magic", 2) == 2
        number = self._kafka.get(log.end_offset)
        self.appended += 1
        if not plain and number is not None:
            self._append_kafkas(log, op, number)
            return
        producer = kafkalog.ProducerState()
        if "pid" in op:
            producer = kafkalog.ProducerState(
                producer_id=op["pid"],
                producer_epoch=op["epoch"],
                base_sequence=op["seq"],
                is_transactional=op.get("txn", False),
            )
        codec = op.get("codec", "none")
        log.append(
            [_record(fields) for fields in op["records"]],
            compression=codec,
            producer=producer,
            leader_epoch=op["leader_epoch"],
        )

    def _append_kafkas(self, log: kafkalog.Log, op: Op, number: int) -> None:
        batch, end = self._batches[number], log.end_offset + len(op["records"])
        if not isinstance(batch.header, BatchHeader):
            last = number
            while self._batches[last].header.next_offset < end:
                last += 1
            log.append(self._batches[number : last + 1], keep_offsets=True)
            return
        assert batch.header.next_offset == end
        header = structs.replace(batch.header, base_offset=0, partition_leader_epoch=-1)
        sent = build_raw_batch(header, bytes(batch.payload))
        log.append(list(kafkalog.scan(sent).batches), leader_epoch=op["leader_epoch"])

    def _fetched(self, op: Op) -> Iterator[kafkalog.RecordBatch]:
        for fields in op["batches"]:
            self.appended += 1
            number = self._kafka.get(fields["base"])
            if number is not None:
                yield self._batches[number]
                continue
            kind, base = kafkalog.TimestampType.CREATE_TIME, fields["base"]
            records = enumerate(_record(each) for each in fields["records"])
            numbered = [kafkalog.Record(base + n, r.timestamp or 0, kind, r.key, r.value) for n, r in records]
            epoch = fields["leader_epoch"]
            yield from kafkalog.scan(build_batch(numbered, partition_leader_epoch=epoch)).batches


def _first(batch: kafkalog.RecordBatch) -> int:
    if isinstance(batch.header, BatchHeader):
        return batch.header.base_offset
    return kafkalog.iter_records(batch)[0].offset


def _record(fields: Op) -> kafkalog.NewRecord:
    headers = tuple(kafkalog.Header(key, _bytes(value)) for key, value in fields.get("h", ()))
    return kafkalog.NewRecord(_bytes(fields["v"]), _bytes(fields["k"]), fields["ts"], headers)
