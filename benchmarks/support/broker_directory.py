"""Log directories of many small partitions, as a broker leaves them after a clean stop or after a crash."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from kafkalog.codec.encode import build_batch
from kafkalog.codec.encode.batch import ProducerState
from kafkalog.codec.files.index_files import TIME_ENTRY, encode_producer_snapshot
from kafkalog.codec.files.text import (
    NEW_CLEAN_SHUTDOWN,
    LeaderEpoch,
    OffsetCheckpointEntry,
    PartitionMetadata,
    encode_clean_shutdown,
    encode_leader_epochs,
    encode_offset_checkpoint,
    encode_partition_metadata,
    encode_uuid,
)
from kafkalog.codec.model import Record, TimestampType
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CONSUMER_OFFSETS_TOPIC,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FileKind,
    segment_file,
)
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.writer import Log
from support.corpora import CACHE, made_once

__all__ = ["broker_directory", "one_partition"]

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
    with made_once(root) as is_new:
        if is_new:
            _fill(root, partitions, segments, crashed)
    return root / "data"


def _fill(root: Path, partitions: int, segments: int, crashed: bool) -> None:
    (root / "data").mkdir()
    (root / "template").mkdir()
    end = _template(root / "template" / "template-0", segments)
    with Log.open(root / "template" / "empty-0", LogConfig(flush_seconds=None), clock=lambda: _START_MS):
        pass
    if crashed:
        _as_after_a_crash(root / "template" / "template-0", end)
    content = _content(root / "template" / "template-0")
    for number in range(partitions):
        topic, partition = divmod(number, _PARTITIONS_OF_A_TOPIC)
        _write(content, root / "data" / f"topic{topic}-{partition}", topic)
    content = _content(root / "template" / "empty-0")
    for number in range(_OFFSETS_PARTITIONS):
        _write(content, root / "data" / f"{CONSUMER_OFFSETS_TOPIC}-{number}", partitions)
    _files_beside(root / "data", partitions, end, crashed)
    shutil.rmtree(root / "template")


def _template(path: Path, segments: int) -> int:
    """Write one partition; gives where its log ends."""
    producer, sequence = 7, 0
    with Log.open(path, LogConfig(flush_seconds=None), clock=lambda: _START_MS) as log:
        for segment in range(segments):
            if segment:
                log.roll()
            for batch in range(_BATCHES):
                values = [b"%0100d" % (batch * _RECORDS + record) for record in range(_RECORDS)]
                log.append(
                    values,
                    producer=ProducerState(producer_id=producer, producer_epoch=0, base_sequence=sequence),
                    leader_epoch=0,
                )
                sequence += _RECORDS
        return log.end_offset


def _as_after_a_crash(path: Path, end: int) -> None:
    (path / f"{end:020}.snapshot").unlink(missing_ok=True)
    for kind in ("index", "timeindex"):
        newest = max(path.glob(f"*.{kind}"))
        os.truncate(newest, _RESERVED - _RESERVED % (8 if kind == "index" else 12))


def one_partition(segments: int) -> Path:
    """A log directory of one partition after a clean stop, with one small batch in each of its segments.

    It is made once.  A broker takes a snapshot of the producers with every segment that it begins, even of none.
    """
    root = CACHE / f"one-{segments}-with-snapshots"
    with made_once(root) as is_new:
        if is_new:
            _fill_one(root, segments)
    return root / "data"


def _fill_one(root: Path, segments: int) -> None:
    path = root / "data" / "many-0"
    path.mkdir(parents=True)
    for base in range(segments):
        time = _START_MS + base
        record = Record(base, time, TimestampType.CREATE_TIME, None, b"%0100d" % base)
        (path / segment_file(base, FileKind.LOG)).write_bytes(
            build_batch([record], base_offset=base, partition_leader_epoch=0)
        )
        (path / segment_file(base, FileKind.OFFSET_INDEX)).touch()
        (path / segment_file(base, FileKind.TIME_INDEX)).write_bytes(TIME_ENTRY.struct.pack(time, 0))
    for end in range(1, segments + 1):
        (path / segment_file(end, FileKind.PRODUCER_SNAPSHOT)).write_bytes(encode_producer_snapshot([]))
    (path / LEADER_EPOCH_CHECKPOINT).write_bytes(encode_leader_epochs([LeaderEpoch(0, 0)]))
    identity = PartitionMetadata(0, encode_uuid((1).to_bytes(16, "big")))
    (path / PARTITION_METADATA).write_bytes(encode_partition_metadata(identity))
    _own_files(root / "data", [[OffsetCheckpointEntry("many", 0, segments)]] * 2, crashed=False)


def _content(source: Path) -> dict[str, tuple[bytes, int]]:
    """Name -> bytes and size of each file of a partition; what an index has reserved is a hole after the bytes."""
    found = {}
    for file in source.iterdir():
        data = file.read_bytes()
        found[file.name] = data.rstrip(b"\0") if len(data) > _RESERVED // 2 else data, len(data)
    return found


def _write(content: dict[str, tuple[bytes, int]], target: Path, topic: int) -> None:
    target.mkdir()
    for name, (data, size) in content.items():
        with (target / name).open("wb") as copy:
            copy.write(data)
            copy.truncate(size)
    identity = PartitionMetadata(0, encode_uuid((topic + 1).to_bytes(16, "big")))
    (target / PARTITION_METADATA).write_bytes(encode_partition_metadata(identity))


def _files_beside(root: Path, partitions: int, end: int, crashed: bool) -> None:
    names = [divmod(number, _PARTITIONS_OF_A_TOPIC) for number in range(partitions)]
    points, watermarks = (
        [OffsetCheckpointEntry(f"topic{topic}", partition, offset) for topic, partition in names]
        for offset in (0 if crashed else end, end)
    )
    _own_files(root, [points, watermarks], crashed=crashed)


def _own_files(root: Path, entries: Sequence[Sequence[OffsetCheckpointEntry]], *, crashed: bool) -> None:
    """Those of the log directory; `entries` are of the recovery points and of the high watermarks."""
    for name, lines in zip((RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT), entries, strict=True):
        (root / name).write_bytes(encode_offset_checkpoint(lines))
    (root / LOG_START_OFFSET_CHECKPOINT).write_bytes(encode_offset_checkpoint([]))
    (root / META_PROPERTIES).write_bytes(b"#\n#\nversion=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
                                         b"directory.id=AAAAAAAAAAAAAAAAAAAAZA\n")  # fmt: skip
    if not crashed:
        (root / CLEAN_SHUTDOWN_FILE).write_bytes(encode_clean_shutdown(NEW_CLEAN_SHUTDOWN))
