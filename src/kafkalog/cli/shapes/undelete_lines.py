"""Lines of `kafkalog undelete`."""

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
    """A segment of what is left."""

    base_offset: int
    """the offset in its name"""
    path: str
    """its log"""
    bytes: int
    """of the log"""
    first_offset: int | None
    """null if there are no batches"""
    last_offset: int | None
    """null if there are no batches"""
    records: int
    """sound records"""
    damage: str | None
    """what is wrong with it; null otherwise"""


class RemainsLine(Struct, frozen=True, kw_only=True):
    """What is left of one partition in one directory."""

    topic: str
    """its topic"""
    partition: int
    """its number"""
    kind: str
    """`deleted partition`, `stray partition`, `deleted segments`, `deleted records` (in live segments, below the log
    start), or what a recovery keeps"""
    path: str
    """the directory"""
    topic_id: str | None
    """of partition.metadata; null if there is none"""
    name_is_cut: bool
    """the topic's name may be longer: names of such directories end at 255 bytes"""
    run_id: str | None
    """the run that keeps it; null if it is in the log directory"""
    first_offset: int | None
    """null if nothing can be read"""
    last_offset: int | None
    """null if nothing can be read"""
    records: int
    """sound records"""
    bytes: int
    """of its logs"""
    deleted_ms: int | None
    """when it was deleted, in ms since 1970; null if unknown"""
    modified_ms: int | None
    """when a log of it was last written to, in ms since 1970; null without logs"""
    segments: list[SegmentLine]
    """segment by segment"""
    outcome: str
    """what restoring it would do, in words"""
    why_not: str | None
    """why it cannot be restored; null otherwise"""


class RemainsOfDirectoryLine(Struct, frozen=True, kw_only=True):
    """Deleted data that is still on disk."""

    path: str
    """the log directory"""
    remains: list[RemainsLine]
    """by topic and partition"""
    changed: bool = False
    """always false"""
    unreadable: list[UnreadableLine]
    """directories that could not be read"""


class PutBackLine(Struct, frozen=True, kw_only=True):
    """What was restored."""

    path: str
    """the log directory"""
    put_back: tuple[PutBack, ...]
    """partition by partition"""
    left: tuple[str, ...]
    """what stays deleted, and why"""
    notes: tuple[str, ...]
    """what to know before a broker starts"""
    actions: list[ActionJson]
    """every change of a file, in order"""
    run_id: str
    """the run that reverses it"""
    quarantine: str
    """where that run is kept"""
    changed: bool = True
    """always true"""


class TakenOutLine(Struct, frozen=True, kw_only=True):
    """With --into: what was written."""

    target: str
    """the new directory"""
    put_back: tuple[PutBack, ...]
    """partition by partition"""
    lost: Mapping[str, Sequence[tuple[int, int]]]
    """partition directory, and pairs of the first and last offset that damage took"""
    left: tuple[str, ...]
    """what was not taken, and why"""
    unreadable: list[UnreadableLine]
    """directories that could not be read"""
    changed: bool = True
    """always true"""


Line = RemainsOfDirectoryLine | PutBackLine | TakenOutLine
"""One line: what there is, what was restored, or what was written with --into."""


def put_back_line(result: UndeleteResult) -> PutBackLine:
    """Line of what was restored."""
    done = result.done
    return PutBackLine(
        path=done.root, put_back=done.put_back, left=done.left, notes=done.notes,
        actions=shaped(done.actions, list[ActionJson]), run_id=result.run_id, quarantine=result.quarantine,
    )  # fmt: skip


def taken_out_line(taken: TakenOut) -> TakenOutLine:
    """Line of what was written with --into."""
    unreadable = [UnreadableLine(*each) for each in taken.unreadable]
    return TakenOutLine(
        target=taken.target, put_back=taken.put_back, lost=taken.lost, left=taken.left, unreadable=unreadable
    )
