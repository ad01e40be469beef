"""Log directories with many of one thing, all else small: what costs with the square of a number shows there."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from kafkalog import recover
from kafkalog.cluster.groups.commit_offsets import commit_offsets
from kafkalog.codec.encode.batch import build_end_transaction_marker
from kafkalog.codec.model import ControlType, EndTransactionMarker
from testkit.made.batches import batch, record

__all__ = ["STRUCTURES"]

_TIME = 1_700_000_000_000
_TRANSACTIONAL = 1 << 4


def _plain(offset: int, epoch: int = 0, value: bytes = b"v") -> bytes:
    payload = record(key=b"k%d" % offset, value=value)
    return batch(payload, 1, base_offset=offset, leader_epoch=epoch, base_timestamp=_TIME, max_timestamp=_TIME)


def _of_producer(offset: int, producer_id: int, attributes: int = 0) -> bytes:
    return batch(
        record(), 1, base_offset=offset, leader_epoch=0, attributes=attributes, base_timestamp=_TIME,
        max_timestamp=_TIME, producer_id=producer_id, producer_epoch=0, base_sequence=0,
    )  # fmt: skip


def _abort(offset: int, producer_id: int) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(ControlType.ABORT, 0), base_offset=offset, timestamp=_TIME, producer_id=producer_id,
        producer_epoch=0, partition_leader_epoch=0,
    )  # fmt: skip


def _partition(root: Path, name: str = "t-0", logs: dict[int, bytes] | None = None) -> Path:
    path = root / name
    path.mkdir(parents=True)
    for base, data in ({0: _plain(0)} if logs is None else logs).items():
        (path / f"{base:020d}.log").write_bytes(data)
    topic_id = base64.urlsafe_b64encode(name.rpartition("-")[0].encode().ljust(16, b"x")[-16:]).decode().rstrip("=")
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    return path


def _batches(root: Path, count: int) -> None:
    _partition(root, logs={0: b"".join(map(_plain, range(count)))})


def _gaps(root: Path, count: int) -> None:
    _partition(root, logs={0: b"".join(_plain(2 * number) for number in range(count))})


def _gaps_between_segments(root: Path, count: int) -> None:
    _partition(root, logs={3 * number: _plain(3 * number) for number in range(count)})


def _segments(root: Path, count: int) -> None:
    _partition(root, logs={number: _plain(number) for number in range(count)})


def _partitions(root: Path, count: int) -> None:
    for number in range(count):
        _partition(root, f"t-{number}")


def _topics(root: Path, count: int) -> None:
    for number in range(count):
        _partition(root, f"t{number}-0")


def _producers(root: Path, count: int) -> None:
    _partition(root, logs={0: b"".join(_of_producer(number, number) for number in range(count))})


def _open_transactions(root: Path, count: int) -> None:
    _partition(root, logs={0: b"".join(_of_producer(each, each, _TRANSACTIONAL) for each in range(count))})


def _aborted_transactions(root: Path, count: int) -> None:
    begun = b"".join(_of_producer(each, each, _TRANSACTIONAL) for each in range(count))
    _partition(root, logs={0: begun + b"".join(_abort(count + each, each) for each in range(count))})


def _epochs(root: Path, count: int) -> None:
    _partition(root, logs={0: b"".join(_plain(number, number) for number in range(count))})


def _deleted_files(root: Path, count: int) -> None:
    path = _partition(root)
    for number in range(count):
        (path / f"{number + 1:020d}.log.deleted").write_bytes(_plain(number + 1))


def _damaged_places(root: Path, count: int) -> None:
    large = bytes(32 * 1024)  # each larger than what a walk reads at first, which else is all of a small file
    damaged = bytearray(_plain(0, value=large))
    damaged[-3:] = b"xyz"
    written = b"".join(
        _plain(number, value=large) if number % 2 else number.to_bytes(8, "big") + bytes(damaged[8:])
        for number in range(count)
    )
    _partition(root, logs={0: written})


def _groups(root: Path, count: int) -> None:
    root.mkdir()
    for number in range(count):
        commit_offsets(root, f"group-{number}", {("t", 0): number}, offsets_topic_num_partitions=1)


def _runs(root: Path, count: int) -> None:
    path = _partition(root)
    for _ in range(count // 5):
        (path / f"{0:020d}.log").write_bytes(_plain(0) + b"torn")
        recover(root)


STRUCTURES: dict[str, Callable[[Path, int], None]] = {
    "batches": _batches,
    "gaps": _gaps,
    "gaps between segments": _gaps_between_segments,
    "segments": _segments,
    "partitions": _partitions,
    "topics": _topics,
    "producers": _producers,
    "open transactions": _open_transactions,
    "aborted transactions": _aborted_transactions,
    "leader epochs": _epochs,
    "deleted files": _deleted_files,
    "damaged places": _damaged_places,
    "groups": _groups,
    "runs": _runs,
}
