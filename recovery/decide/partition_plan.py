"""Summarize a plan for each partition: what is kept, truncated, set aside and rebuilt, and which offsets are lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from kafkalog.codec.names import DirectoryState, parse_partition_directory, parse_segment_file, segment_file
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.safe.normalize import read_high_watermarks

__all__ = ["PartitionPlan", "partition_plans"]


class PartitionPlan(Struct, kw_only=True):
    """Changes of one partition directory; sizes in bytes."""

    name: str
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    """log end offset afterwards; None for a directory that waits for deletion, whose log no broker opens"""
    last_offset_before: int | None = None
    """offset of the last readable batch in removed bytes; None if there is none"""
    kept_bytes: int = 0
    """bytes of logs afterwards, with what comes from other copies"""
    cut_bytes: int = 0
    """bytes of logs that are removed, tails and whole segments"""
    cut_files: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    renamed_to: str | None = None
    high_watermark: int | None = None
    """from `replication-offset-checkpoint`: consumers may have read up to it, and other replicas have it; None if
    unknown
    """
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """first and last offset of ranges lost inside the log that is kept"""

    @property
    def offsets_lost(self) -> tuple[int, int] | None:
        """First and last offset that are lost at the log's end, as far as removed bytes can be read; None
        if none are.
        """
        last, end = self.last_offset_before, self.log_end_offset
        return None if last is None or end is None or last < end else (end, last)

    @property
    def is_cut_below_high_watermark(self) -> bool:
        """Whether committed records are removed: consumers lose what they have read, unless a replica that has it leads
        first.
        """
        if self.high_watermark is None or self.log_end_offset is None or not self.cut_bytes:
            return False
        return self.log_end_offset < self.high_watermark

    @property
    def changes(self) -> bool:
        """Whether anything is changed."""
        return bool(self.cut_files or self.quarantined or self.rebuilt or self.renamed_to)


def partition_plans(
    survey: Survey,
    results: Iterable[LoadedPartition],
    actions: list[RecoveryAction],
    gaps: Mapping[str, list[tuple[int, int]]],
) -> list[PartitionPlan]:
    """Return a summary for each partition directory: names of truncated, removed and rebuilt files and of removed
    directories in it, kept and removed bytes of logs, and lost offsets. The summaries are in the order of `results`:
    the directories as a start loads them after the plan. A directory that waits for deletion has no log end offset;
    only a live one has a high watermark.

    `actions` are those of the plan, `gaps` lost offset ranges by directory, both ends inclusive. Reads removed parts of
    logs to find their last offsets; raises `StorageError` if that fails.
    """
    watermarks = read_high_watermarks(survey.tree())
    plans = {}
    for result in results:
        parsed = parse_partition_directory(result.name)
        is_deleted = parsed is not None and parsed.state is DirectoryState.DELETE
        end = None if is_deleted else result.log_end_offset
        plan = PartitionPlan(
            name=result.name,
            log_start_offset=result.log_start_offset,
            log_end_offset=end,
            renamed_to=result.stray,
            gaps=gaps.get(result.name, []),
        )
        if parsed is not None and parsed.state is DirectoryState.LIVE:
            plan.high_watermark = watermarks.get((parsed.topic, parsed.partition))
        plans[result.name] = plan
    for path, facts in survey.files.items():
        directory, _, name = path.partition("/")
        if directory in plans and _is_log(name):
            plans[directory].kept_bytes += facts.size
    for action in actions:
        directory, _, name = action.path.partition("/")
        if directory not in plans or not name:
            continue
        plan = plans[directory]
        before = survey.files[action.path].size if action.path in survey.files else 0
        if action.kind is ActionKind.WRITE:
            plan.rebuilt.append(name)
            if _is_log(name):
                plan.cut_bytes += max(before - (action.size or 0), 0)  # pieces are left out of it
                plan.kept_bytes += (action.size or 0) - before
        elif action.kind in (ActionKind.REMOVE, ActionKind.REMOVE_DIRECTORY):
            plan.quarantined.append(name)
        elif action.kind is ActionKind.TRUNCATE:
            (plan.cut_files if _is_log(name) else plan.rebuilt).append(name)
        if _is_log(name) and action.kind in (ActionKind.REMOVE, ActionKind.TRUNCATE):
            kept = action.size or 0
            plan.cut_bytes += before - kept
            plan.kept_bytes -= before - kept
            _see_last_offset(survey, plan, action.path, kept)
    return list(plans.values())


def _is_log(name: str) -> bool:
    """Whether a file is a segment's log under the exact name that Kafka gives it."""
    parsed = parse_segment_file(name)
    return parsed is not None and parsed.is_live_log and segment_file(parsed.base_offset, parsed.kind) == name


def _see_last_offset(survey: Survey, plan: PartitionPlan, path: str, start: int) -> None:
    """Raise `plan.last_offset_before` to the highest offset of the batches in the log `path`, from byte `start` on, if
    that is higher. Checksums are not verified. Reading ends at the first place without a complete batch; a batch cut
    short there counts if its header is whole. Nothing changes if no batch is found. Raises `StorageError` if the log
    cannot be read.
    """
    scanner = Scanner(survey.source(path), position=start, check_crc=False)
    lasts = [batch.last_offset for batch in scanner]
    lasts += [finding.batch.last_offset for finding in scanner.findings if finding.batch is not None]
    plan.last_offset_before = max([*lasts, *([] if plan.last_offset_before is None else [plan.last_offset_before])],
                                  default=None)  # fmt: skip
