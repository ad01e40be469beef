"""Lines of `kafkalog runs`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkalog.recovery.act.history import RunInfo, RunOriginal, RunState
from kafkalog.recovery.act.journal import LossOfRun
from kafkalog.recovery.decide.ways import LostRange

__all__ = ["Line", "PurgeLine", "RunsLine", "run_line"]


class LossLine(Struct, frozen=True, kw_only=True):
    """What a run lost of a partition, as its plan had counted it."""

    partition: str
    """partition directory"""
    records_lost: int | None
    """how many; null if unknown"""
    records_lost_is_exact: bool
    """false: there may be more"""
    offsets_lost: list[LostRange]
    """which"""


class RunLine(Struct, frozen=True, kw_only=True):
    """An earlier recovery."""

    run_id: str
    """its name"""
    state: RunState
    """`finished`, `cut short`, `undo cut short`, `undone`, `superseded`, `not begun`, `half purged` or `unreadable`"""
    began: str
    """when, in UTC, ISO 8601"""
    mode: str | None
    """a mode of `recover`, or another command; null if that cannot be read"""
    machine: str | None
    """a fingerprint of the machine that began it; null if unknown"""
    foreign: bool
    """another machine began it"""
    owner: str | None
    """id of the log directory, where a quarantine serves several; null otherwise"""
    recorded_root: str | None
    """where the log directory was then; null if that cannot be read"""
    tool_version: str | None
    """the version of kafkalog; null if that cannot be read"""
    directory: str
    """where it is kept"""
    steps: Mapping[str, int]
    """kind of action, and how many"""
    originals: tuple[RunOriginal, ...]
    """what it removed or replaced, and keeps"""
    files: int
    """files that it keeps"""
    allocated_bytes: int
    """bytes on disk that it keeps"""
    undoable: bool
    """nothing was found that prevents undoing it"""
    why_not: str | None
    """why it cannot be undone, or what is wrong with it; null otherwise"""
    lost: list[LossLine] | None
    """partitions of which it lost records, as its plan had counted them; null if it was not noted"""


class RunsLine(Struct, frozen=True, kw_only=True):
    """What earlier recoveries left."""

    path: str
    """the log directory"""
    runs: list[RunLine]
    """oldest first"""
    changed: bool = False
    """always false"""


class PurgeLine(Struct, frozen=True, kw_only=True):
    """With --purge or --purge-older-than: what was removed."""

    path: str
    """the log directory"""
    purged: list[str]
    """runs that were removed"""
    freed_bytes: int
    """bytes on disk"""
    left: Mapping[str, str]
    """run that stays, and why"""
    changed: bool
    """something was removed"""


Line = RunsLine | PurgeLine
"""One line for each log directory: what there is, or with --purge what was removed."""


def run_line(run: RunInfo) -> RunLine:
    """Line of one run."""
    return RunLine(
        run_id=run.run_id, state=run.state, began=run.began, mode=run.mode, machine=run.machine,
        foreign=run.is_foreign, owner=run.owner, recorded_root=run.recorded_root, tool_version=run.tool_version,
        directory=run.directory, steps=run.steps, originals=run.originals, files=run.files,
        allocated_bytes=run.allocated_bytes, undoable=run.undoable, why_not=run.why_not,
        lost=None if run.lost is None else list(map(_loss_line, run.lost)),
    )  # fmt: skip


def _loss_line(loss: LossOfRun) -> LossLine:
    return LossLine(
        partition=loss.partition,
        records_lost=loss.records,
        records_lost_is_exact=loss.is_exact and loss.records is not None,
        offsets_lost=[LostRange(loss.partition, first, last) for first, last in loss.ranges],
    )
