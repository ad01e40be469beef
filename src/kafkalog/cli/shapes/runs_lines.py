"""JSON lines of `kafkalog runs`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kafkalog.recovery.act.history import RunInfo, RunOriginal, RunState
from kafkalog.recovery.act.journal import LossOfRun
from kafkalog.recovery.decide.ways import LostRange

__all__ = ["Line", "PurgeLine", "RunsLine", "run_line"]


class LossLine(Struct, frozen=True, kw_only=True):
    """Records of one partition that a run lost, as counted by its plan."""

    partition: str
    """name of the partition directory"""
    records_lost: int | None
    """number of records that were lost; null if unknown"""
    records_lost_is_exact: bool
    """whether `records_lost` is exact; false if more may have been lost, or if unknown"""
    offsets_lost: list[LostRange]
    """ranges of offsets that were lost"""


class RunLine(Struct, frozen=True, kw_only=True):
    """Run: one execution of `recover`, or of another command that changes log directories."""

    run_id: str
    """id of the run"""
    state: RunState
    """state of the run: `finished`, `cut short` (interrupted), `undo cut short` (its undo was interrupted), `undone`,
    `superseded` (interrupted, and the directory was changed since), `not begun` (interrupted before the first change),
    `half purged` (its purge was interrupted) or `unreadable`
    """
    began: str
    """time at which the run began, UTC, ISO 8601; empty if the run's id has no valid time"""
    mode: str | None
    """mode of `recover`, or name of another command; null if the run's journal cannot be read"""
    machine: str | None
    """fingerprint of the machine that began the run; null if unknown"""
    foreign: bool
    """whether the run was begun on another or an unknown machine; false if the run's journal cannot be read"""
    owner: str | None
    """id that kafkalog gave the log directory, to distinguish runs in a shared quarantine; null if the run's journal
    cannot be read
    """
    recorded_root: str | None
    """path of the log directory when the run began; null if the run's journal cannot be read"""
    tool_version: str | None
    """version of kafkalog that began the run; null if the run's journal cannot be read"""
    directory: str
    """path of the directory that holds the run's journal and kept files"""
    steps: Mapping[str, int]
    """number of the run's steps, by kind of action"""
    originals: tuple[RunOriginal, ...]
    """files and directories that the run removed or replaced, and keeps; empty if it was undone, had not begun, or is
    half purged
    """
    files: int
    """number of files that the run keeps, without its journal"""
    allocated_bytes: int
    """disk space used by the run's kept files and journal, in bytes"""
    undoable: bool
    """whether a quick check found nothing that prevents undoing the run; `undo` itself checks every byte"""
    why_not: str | None
    """reason why the run cannot be undone or read; null if it can be undone"""
    lost: list[LossLine] | None
    """losses by partition, as counted by the run's plan, for partitions that lost or may have lost records; empty if
    none did; null if losses were not counted
    """


class RunsLine(Struct, frozen=True, kw_only=True):
    """Runs on one log directory."""

    path: str
    """path of the log directory"""
    runs: list[RunLine]
    """runs in the order in which they began; unreadable runs come last"""
    changed: bool = False
    """whether anything was changed on disk: always false, as runs are only listed"""


class PurgeLine(Struct, frozen=True, kw_only=True):
    """Result of purging runs of one log directory (--purge or --purge-older-than)."""

    path: str
    """path of the log directory"""
    purged: list[str]
    """ids of the runs whose kept files were permanently deleted"""
    freed_bytes: int
    """disk space that the purged runs used, in bytes"""
    left: Mapping[str, str]
    """runs that are old enough and were not purged: run id -> reason"""
    changed: bool
    """whether any run was purged"""


Line = RunsLine | PurgeLine
"""One line per log directory: its runs or, with --purge or --purge-older-than, the result of purging."""


def run_line(run: RunInfo) -> RunLine:
    """Return the JSON object of one execution. `lost` in it is None if its loss is unknown."""
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
