"""A log directory with a partition that is worth compacting, and what such a log means to who reads it."""

from __future__ import annotations

import os
from pathlib import Path

import kafkalog
from kafkalog.types import CompactionResult

__all__ = ["CONFIG", "T0", "compactable", "compacted", "meaning"]

T0 = 1_700_000_000_000
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "index.interval.bytes": "80"}
_WRITING = kafkalog.LogConfig(segment_bytes=400, index_interval_bytes=80, retention_ms=-1)
_META = "#\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=1\ndirectory.id=AAAAAAAAAAMAAAAAAAAABA\n"


def compactable(root: Path, name: str = "t-0", count: int = 14) -> Path:
    """A partition of several segments with few keys, a tombstone and an aborted transaction, changed at T0."""
    root.mkdir(exist_ok=True)
    with kafkalog.Log.open(root / name, _WRITING, clock=lambda: T0) as log:
        for number in range(count):
            codec = "gzip" if number % 5 == 0 else "none"
            log.append([kafkalog.NewRecord(key=b"k%d" % (number % 4), value=b"%d" % number * 9)], compression=codec)
        log.append([kafkalog.NewRecord(key=b"k1", value=None)])
        log.append(
            [(b"k9", b"aborted")],
            producer=kafkalog.ProducerState(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.end_transaction(5, 0, commit=False)
        log.roll()
        log.append([(b"last", b"of the last segment")])
    (root / "meta.properties").write_text(_META)
    for path in (root / name).iterdir():
        os.utime(path, ns=(T0 * 1_000_000 + 123_456,) * 2)
    return root


def compacted(root: Path, quarantine: Path | None = None, into: Path | None = None) -> CompactionResult:
    """One pass over it."""
    request = kafkalog.Compaction(config=CONFIG, at=T0 + 5, quarantine=quarantine)
    if into is not None:
        return kafkalog.compact_into(request, root, target=into)
    return kafkalog.compact(request, root)[0]


def meaning(partition: Path) -> dict[bytes | None, bytes | None]:
    """What a consumer makes of a log: the last value of each key, deleted keys left out."""
    records = kafkalog.open_partition(partition).records(kafkalog.RecordFilter(isolation_level="read_committed"))
    latest = {record.key: record.value for record in records}
    return {key: value for key, value in latest.items() if value is not None}
