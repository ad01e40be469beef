"""Log directories of many small partitions, as a broker leaves them after a clean stop or after a crash."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kafkalog.codec.encode.batch import ProducerState
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CONSUMER_OFFSETS_TOPIC,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from kafkalog.codec.text import (
    NEW_CLEAN_SHUTDOWN,
    OffsetCheckpointEntry,
    PartitionMetadata,
    encode_clean_shutdown,
    encode_offset_checkpoint,
    encode_partition_metadata,
    encode_uuid,
)
from kafkalog.log.config import LogConfig
from kafkalog.log.writer import Log
from support.corpora import CACHE

__all__ = ["broker_directory"]

_PARTITIONS_OF_A_TOPIC = 100
_START_MS = 1_700_000_000_000
_RESERVED = 10 * 1024 * 1024
_OFFSETS_PARTITIONS = 50
_BATCHES = 3
_RECORDS = 20


def broker_directory(partitions: int, *, segments: int = 1, crashed: bool = False) -> Path:
    """A log directory of partitions with some small batches in each segment, and of empty `__consumer_offsets`.

    It is made once.

    After a crash there is no marker, no checkpoint says that a log was flushed, there is no snapshot at the end, and
    the newest segment has indexes of 10 MiB, most of which is a hole.
    """
    root = CACHE / f"broker-{partitions}-{segments}{'-crashed' if crashed else ''}"
    if (root / "complete").exists():
        return root / "data"
    shutil.rmtree(root, ignore_errors=True)
    (root / "data").mkdir(parents=True)
    (root / "template").mkdir()
    end = _template(root / "template" / "template-0", segments)
    with Log.open(root / "template" / "empty-0", LogConfig(flush_seconds=None), clock=lambda: _START_MS):
        pass
    if crashed:
        _as_after_a_crash(root / "template" / "template-0", end)
    for number in range(partitions):
        topic, partition = divmod(number, _PARTITIONS_OF_A_TOPIC)
        _copy(root / "template" / "template-0", root / "data" / f"topic{topic}-{partition}", topic)
    for number in range(_OFFSETS_PARTITIONS):
        _copy(root / "template" / "empty-0", root / "data" / f"{CONSUMER_OFFSETS_TOPIC}-{number}", partitions)
    _files_beside(root / "data", partitions, end, crashed)
    shutil.rmtree(root / "template")
    (root / "complete").touch()
    return root / "data"


def _template(path: Path, segments: int) -> int:
    """Write one partition; gives where its log ends."""
    producer, sequence = 7, 0
    with Log.open(path, LogConfig(flush_seconds=None), clock=lambda: _START_MS) as log:
        for segment in range(segments):
            if segment:
                log.roll()
            for batch in range(_BATCHES):
                values = [b"%0100d" % (batch * _RECORDS + record) for record in range(_RECORDS)]
                log.append(values, producer=ProducerState(producer, 0, sequence), leader_epoch=0)
                sequence += _RECORDS
        return log.end_offset


def _as_after_a_crash(path: Path, end: int) -> None:
    (path / f"{end:020}.snapshot").unlink(missing_ok=True)
    for kind in ("index", "timeindex"):
        newest = max(path.glob(f"*.{kind}"))
        os.truncate(newest, _RESERVED - _RESERVED % (8 if kind == "index" else 12))


def _copy(source: Path, target: Path, topic: int) -> None:
    target.mkdir()
    for file in source.iterdir():
        size = file.stat().st_size
        with (target / file.name).open("wb") as copy:
            copy.write(file.read_bytes().rstrip(b"\0") if size > _RESERVED // 2 else file.read_bytes())
            copy.truncate(size)
    identity = PartitionMetadata(0, encode_uuid((topic + 1).to_bytes(16, "big")))
    (target / PARTITION_METADATA).write_bytes(encode_partition_metadata(identity))


def _files_beside(root: Path, partitions: int, end: int, crashed: bool) -> None:
    names = [divmod(number, _PARTITIONS_OF_A_TOPIC) for number in range(partitions)]

    def write(name: str, offset: int) -> None:
        entries = [OffsetCheckpointEntry(f"topic{topic}", partition, offset) for topic, partition in names]
        (root / name).write_bytes(encode_offset_checkpoint(entries))

    write(RECOVERY_POINT_CHECKPOINT, 0 if crashed else end)
    write(REPLICATION_OFFSET_CHECKPOINT, end)
    (root / LOG_START_OFFSET_CHECKPOINT).write_bytes(encode_offset_checkpoint([]))
    (root / META_PROPERTIES).write_bytes(b"#\n#\nversion=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
                                         b"directory.id=AAAAAAAAAAAAAAAAAAAAZA\n")  # fmt: skip
    if not crashed:
        (root / CLEAN_SHUTDOWN_FILE).write_bytes(encode_clean_shutdown(NEW_CLEAN_SHUTDOWN))
