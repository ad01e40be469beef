"""JSON lines of `kafkalog undelete`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kafkalog.cli.shapes.shared_lines import UnreadableLine
from kafkalog.codec.common.shapes import shaped
from kafkalog.jobs.undelete.results import PutBack, UndeleteResult
from kafkalog.jobs.undelete.taking_out import TakenOut
from kafkalog.recovery.decide.actions import ActionJson

__all__ = ["Line", "RemainsLine", "RemainsOfDirectoryLine", "put_back_line", "taken_out_line"]


class SegmentLine(Struct, frozen=True, kw_only=True):
    """Segment of deleted data."""

    base_offset: int
    """base offset in the segment's file name"""
    path: str
    """path of the segment's `.log` file, relative to the log directory or, if a run keeps it, to the run's directory of
    kept files
    """
    bytes: int
    """size of the `.log` file in bytes; for `deleted records`, size of its part below the log start offset"""
    first_offset: int | None
    """first offset that can be read; null if no batch is undamaged"""
    last_offset: int | None
    """last offset that can be read (inclusive); null if no batch is undamaged"""
    records: int
    """number of records that can be read, without control records"""
    damage: str | None
    """kind of the segment's first damage, and its byte position; null if there is none"""


class RemainsLine(Struct, frozen=True, kw_only=True):
    """Deleted data of one partition in one directory."""

    topic: str
    """name of the topic"""
    partition: int
    """partition number"""
    kind: str
    """form of the deleted data: `deleted partition` (`-delete` directory), `stray partition` (`-stray` directory),
    `deleted segments` (`.deleted` files), `deleted records` (in live segments, below the log start offset), or `kept by
    a recovery` (in the quarantine of a run)
    """
    path: str
    """absolute path of the partition directory"""
    topic_id: str | None
    """topic id from `partition.metadata`; null if it is missing or unreadable"""
    name_is_cut: bool
    """whether `topic` may be only the beginning of the topic's name, because the directory's name has the maximum
    length of 255 bytes
    """
    run_id: str | None
    """id of the run that keeps the data; null if the data is in the log directory"""
    first_offset: int | None
    """first offset that can be read; null if none can be"""
    last_offset: int | None
    """last offset that can be read (inclusive); null if none can be"""
    records: int
    """number of records that can be read, without control records"""
    bytes: int
    """total size of the deleted segments, in bytes; for `deleted records`, size of their parts below the log start
    offset
    """
    deleted_ms: int | None
    """time of deletion, in ms since 1970: last change of the file's or directory's name or attributes (ctime); null if
    unknown
    """
    modified_ms: int | None
    """time of the last write to any of the segments, in ms since 1970 (mtime); null if there are no segments"""
    segments: list[SegmentLine]
    """deleted segments, in the order of their base offsets"""
    outcome: str
    """result of restoring the data in place, in words; empty if it cannot be restored; for data that a run keeps, the
    way to extract it
    """
    why_not: str | None
    """reason why the data cannot be restored in place; null if it can"""


class RemainsOfDirectoryLine(Struct, frozen=True, kw_only=True):
    """Deleted data of one log directory that is still on disk."""

    path: str
    """path of the log directory"""
    remains: list[RemainsLine]
    """deleted data by partition, sorted by topic and partition number"""
    changed: bool = False
    """whether anything was changed on disk: always false, as the data is only listed"""
    unreadable: list[UnreadableLine]
    """directories that could not be read; their deleted data is not listed"""


class PutBackLine(Struct, frozen=True, kw_only=True):
    """Result of restoring deleted data in one log directory or, with --hold, of renaming it so that no broker deletes
    it.
    """

    path: str
    """path of the log directory"""
    put_back: tuple[PutBack, ...]
    """restored partitions; with --hold, partitions whose directories were renamed"""
    left: tuple[str, ...]
    """deleted segments that were not restored, as sentences with the reason"""
    notes: tuple[str, ...]
    """consequences to know before a broker is started, as sentences"""
    actions: list[ActionJson]
    """changes of files, in the order in which they were made"""
    run_id: str
    """id of the run, for `undo`"""
    quarantine: str
    """directory in which the run keeps the files that it removed or replaced"""
    changed: bool = True
    """whether anything was changed on disk: always true"""


class TakenOutLine(Struct, frozen=True, kw_only=True):
    """Result of writing deleted data to a new log directory (--into)."""

    target: str
    """path of the new log directory"""
    put_back: tuple[PutBack, ...]
    """written partitions"""
    lost: Mapping[str, Sequence[tuple[int, int]]]
    """offsets that are lost to damage: partition directory -> pairs of first and last offset (inclusive)"""
    left: tuple[str, ...]
    """deleted segments that were not written, as sentences with the reason"""
    unreadable: list[UnreadableLine]
    """directories that could not be read; their deleted data was not written"""
    changed: bool = True
    """whether anything was changed on disk: always true"""


Line = RemainsOfDirectoryLine | PutBackLine | TakenOutLine
"""One line per log directory for a list or a result in place; one line with --into."""


def put_back_line(result: UndeleteResult) -> PutBackLine:
    """Return the `--json` line of a log directory in which deleted data was restored, with the file operations and the
    execution that `undo` can reverse.
    """
    done = result.done
    return PutBackLine(
        path=done.root, put_back=done.put_back, left=done.left, notes=done.notes,
        actions=shaped(done.actions, list[ActionJson]), run_id=result.run_id, quarantine=result.quarantine,
    )  # fmt: skip


def taken_out_line(taken: TakenOut) -> TakenOutLine:
    """Return the line of a new log directory that was written with --into."""
    unreadable = [UnreadableLine(*each) for each in taken.unreadable]
    return TakenOutLine(
        target=taken.target, put_back=taken.put_back, lost=taken.lost, left=taken.left, unreadable=unreadable
    )
