"""What a plan means for each partition: what is kept, cut, put away and rebuilt, and which offsets go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from kafkalog.classes import dataclass
from kafkalog.codec.names import DirectoryState, parse_partition_directory, parse_segment_file, segment_file
from kafkalog.codec.scanner import Scanner
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.safe.normalize import read_high_watermarks

__all__ = ["PartitionPlan", "partition_plans"]


@dataclass(slots=True)
class PartitionPlan:
    """What happens to one partition directory; sizes in bytes."""

    name: str
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    """afterwards; None of a directory that waits for its deletion, whose log nobody opens"""
    last_offset_before: int | None = None
    """of the last readable batch among the bytes that go; None if nothing goes or nothing there can be read"""
    kept_bytes: int = 0
    """of logs"""
    cut_bytes: int = 0
    """of logs, tails and whole segments"""
    cut_files: list[str] = field(default_factory=list)
    quarantined: list[str] = field(default_factory=list)
    rebuilt: list[str] = field(default_factory=list)
    renamed_to: str | None = None
    high_watermark: int | None = None
    """as `replication-offset-checkpoint` has it: what consumers may have seen and other replicas hold"""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """first and last offset of ranges that are gone inside the log that is kept"""

    @property
    def offsets_lost(self) -> tuple[int, int] | None:
        """First and last offset that no consumer will see any more, as far as the bytes tell."""
        last, end = self.last_offset_before, self.log_end_offset
        return None if last is None or end is None or last < end else (end, last)

    @property
    def is_cut_below_high_watermark(self) -> bool:
        """Committed records go: consumers lose what they have seen, unless a replica that has it leads first."""
        if self.high_watermark is None or self.log_end_offset is None or not self.cut_bytes:
            return False
        return self.log_end_offset < self.high_watermark

    @property
    def changes(self) -> bool:
        """Anything happens."""
        return bool(self.cut_files or self.quarantined or self.rebuilt or self.renamed_to)


def partition_plans(
    survey: Survey,
    results: Iterable[LoadedPartition],
    actions: list[RecoveryAction],
    gaps: Mapping[str, list[tuple[int, int]]],
) -> list[PartitionPlan]:
    """What the actions on a survey mean for each partition directory, in the order of `results`.

    `results` are the directories as a start loads them afterwards; `gaps` are the offsets that are gone, by directory.
    """
    watermarks = read_high_watermarks(survey.tree())
    plans = {}
    for each in results:
        parsed = parse_partition_directory(each.name)
        is_deleted = parsed is not None and parsed.state is DirectoryState.DELETE
        end = None if is_deleted else each.log_end_offset
        plan = PartitionPlan(
            each.name, each.log_start_offset, end, renamed_to=each.stray, gaps=gaps.get(each.name, [])
        )
        if parsed is not None and parsed.state is DirectoryState.LIVE:
            plan.high_watermark = watermarks.get((parsed.topic, parsed.partition))
        plans[each.name] = plan
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
            if _is_log(name) and before > (action.size or 0):  # pieces are left out of it
                plan.cut_bytes += before - (action.size or 0)
                plan.kept_bytes -= before - (action.size or 0)
        elif action.kind is ActionKind.REMOVE:
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
    """A segment's log under the name that Kafka gives it; what only ends like one holds no record of this partition."""
    parsed = parse_segment_file(name)
    return parsed is not None and parsed.is_live_log and segment_file(parsed.base_offset, parsed.kind) == name


def _see_last_offset(survey: Survey, plan: PartitionPlan, path: str, start: int) -> None:
    """The last offset among bytes that go, a batch included that is not whole; checksums are not examined."""
    scanner = Scanner(survey.source(path), position=start, check_crc=False)
    lasts = [batch.last_offset for batch in scanner]
    lasts += [each.batch.last_offset for each in scanner.findings if each.batch is not None]
    plan.last_offset_before = max([*lasts, *([] if plan.last_offset_before is None else [plan.last_offset_before])],
                                  default=None)  # fmt: skip
