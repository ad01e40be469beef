"""Run the checks of `verify` on a surveyed directory, so that a plan does not contradict them.

A partition that a broker closed cleanly is left as it is if they find nothing. A start after that reads no log
(`LogLoader.recoverLog`): it trusts the marker, and so does recovery. Something that only a start after a crash would
rewrite, such as an index with equal meaning in other bytes, does not justify changing a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from kafkalog.codec.common.errors import KafkaLogError, StorageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, LEADER_EPOCH_CHECKPOINT, FileKind, parse_partition_directory
from kafkalog.log.directories.directory import log_dir_findings
from kafkalog.log.directories.partition import Partition, read_partition
from kafkalog.recovery.damage.other_segment import OTHER_SEGMENT
from kafkalog.recovery.decide.counting import are_counted
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.safe.normalize import Checkpoints, read_high_watermarks
from kafkalog.recovery.safe.recovery import InOrder, no_checks
from kafkalog.tiers.tiering import Tiering

if TYPE_CHECKING:
    from kafkalog.recovery.checks.checkpoint_checks import Beside
    from kafkalog.recovery.decide.actions import RecoveryAction

__all__ = ["Look", "checks_of", "findings_of_checks", "is_for_full", "left_by", "left_in_place"]

Look = Callable[[str], Sequence[Finding] | None]
"""Function of a partition directory's name that returns the warnings and errors of the checks; None if it is
unreadable.
"""
Checked = Mapping[str, Sequence[Finding]]
"""warnings and errors by partition directory, for those that were checked"""
_NOTHING: Checked = MappingProxyType({})

_OF_INDEXES = codes_with(Trait.REBUILT)
_BELIEVED = {
    FindingCode.LOG_END_BEYOND_CHECKPOINT, FindingCode.OFFSETS_BELOW_LOG_START, FindingCode.DELETED_BEYOND_END,
}  # fmt: skip
"""codes of findings about where a log begins and ends, which recovery believes as a start does"""
_STAYS = "; below the recovery point, where only a full examination changes anything"
_BY_LOG_BEFORE = "; compared with the log as it is before this plan repairs it"


class _Checks:
    """Checks of the partitions of a survey, without decoding records, which no plan depends on. Creating it raises
    `StorageError` if a checkpoint cannot be read.
    """

    def __init__(self, survey: Survey, tiering: Tiering) -> None:
        from kafkalog.recovery.checks.checkpoint_checks import Beside  # checks every index: most plans need none of it

        tree = survey.tree()
        self._survey = survey
        checkpoints = Checkpoints.read(tree)
        self._log_starts = checkpoints.log_starts
        tiering = tiering.with_checkpoint(tree.directories, self._log_starts)
        closed_at = checkpoints.closed_at(tree)
        self._beside: Beside = Beside(
            log_starts=self._log_starts,
            high_watermarks=read_high_watermarks(tree),
            closed_at=closed_at,
            was_closed=CLEAN_SHUTDOWN_FILE in tree.files,
            tiering=tiering,
        )
        logs = (facts.size for path, facts in survey.files.items() if path.endswith(FileKind.LOG.value))
        self.reads_all = are_counted(logs)
        self._last: tuple[str, list[Finding] | None] | None = None

    def findings(self, directory: str, first: int = 0) -> list[Finding] | None:
        """Return the warnings and errors about one partition directory; empty if it is not a partition directory, None
        if it cannot be read. If there are more logs than a plan counts (1 GiB), only segments with a base offset of at
        least `first` are examined. The result for the last directory is kept, and returned again if all segments are
        examined.
        """
        if self.reads_all and self._last is not None and self._last[0] == directory:
            return self._last[1]
        try:
            findings = self._findings(directory, first)
        except StorageError:
            findings = None
        self._last = directory, findings
        return findings

    def _findings(self, directory: str, first: int) -> list[Finding]:
        from kafkalog.recovery.checks.checkpoint_checks import verify_beside

        partition = self._partition(directory)
        if partition is None:
            return []
        if not self.reads_all:
            examined = tuple(segment for segment in partition.segments if segment.base_offset >= first)
            partition = replace(partition, segments=examined)
        report = verify_beside(partition, self._beside, deep=False, tables=self._survey.tables)
        return [*_worse_than_info(report.findings)]

    def _partition(self, directory: str) -> Partition | None:
        name = parse_partition_directory(directory)
        if name is None:
            return None
        start = None if name.state.value else self._log_starts.get((name.topic, name.partition))
        return read_partition(os.path.join(self._survey.root, directory), name, start)


def _worse_than_info(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity is not Severity.INFO)


def checks_of(survey: Survey, tiering: Tiering) -> tuple[InOrder, Look | None]:
    """Return two functions that run the checks on partition directories of the survey:

    * The first takes a directory and a base offset. It returns whether the checks find no warnings and errors except
      those with codes in `_BELIEVED`. If there are more logs than a plan counts (1 GiB), segments below the base offset
      are not checked. It returns False if the directory cannot be read, and always without a clean-shutdown marker.
    * The second (`Look`) returns the warnings and errors of a directory, None if it cannot be read. There is no second
      function (None) without a clean-shutdown marker, or if there are more logs than a plan counts.

    Raises `StorageError` if a checkpoint cannot be read.
    """
    if CLEAN_SHUTDOWN_FILE not in survey.files:
        return no_checks, None
    checks = _Checks(survey, tiering)

    def finds_nothing(directory: str, first: int) -> bool:
        findings = checks.findings(directory, first)
        return findings is not None and all(finding.code in _BELIEVED for finding in findings)

    return finds_nothing, checks.findings if checks.reads_all else None


def findings_of_checks(survey: Survey, tiering: Tiering, checked: Checked = _NOTHING) -> Iterator[Finding]:
    """Yield the warnings and errors of the checks about the log directory and its partitions, with relative file paths;
    nothing if there are more logs than a plan counts. A partition that cannot be read is left out. So is the log
    directory itself if it cannot be read or only a part of it was surveyed. `checked` are findings that are already
    known, by partition directory; they are yielded, and these directories are not checked again. Raises `StorageError`
    while iterating if a checkpoint cannot be read.
    """
    checks = _Checks(survey, tiering)
    if not checks.reads_all:
        return
    for finding in [*_worse_than_info(_of_directory(survey)), *_of_partitions(survey, checks, checked)]:
        yield structs.replace(
            finding, file=None if finding.file is None else os.path.relpath(finding.file, survey.root)
        )


class Left(NamedTuple):
    """A problem that a plan's findings do not mention, and whether the plan repairs it all the same."""

    finding: Finding
    is_repaired: bool

    @property
    def needs_full(self) -> bool:
        """Whether it stays, and a full recovery repairs it."""
        return not self.is_repaired and is_for_full(self.finding)


def left_by(
    actions: Iterable[RecoveryAction], findings: Collection[Finding], survey: Survey, tiering: Tiering, checked: Checked
) -> Iterator[Left]:
    """Yield the warnings and errors of the checks that a plan's `findings` do not have (with equal code, file, position
    and offset), in three cases:

    * The plan's `actions` do not change the file. If the finding is about an index, the detail says that only a full
      examination changes anything below the recovery point.
    * The plan changes only the log beside the index that the finding is about. This counts as repaired; the detail says
      that the index was compared with the unrepaired log.
    * The plan changes the file, there is a clean-shutdown marker (with it a start repairs nothing), and the finding is
      an error about an index or is about leader epochs. This counts as repaired; the detail says that the plan rebuilds
      it. For a finding with `OTHER_SEGMENT` in its detail, it is enough that the plan changes the file.

    `checked` are findings that are already known, by partition directory. Reads the logs. Yields nothing if they have
    more than 1 GiB in total. A partition that cannot be read is left out. Raises `StorageError` while iterating if a
    checkpoint cannot be read.
    """
    is_trusted = CLEAN_SHUTDOWN_FILE in survey.files
    changed = {path for action in actions for path in (action.path, action.target) if path is not None}
    reported = {_place(finding) for finding in findings}
    for finding in findings_of_checks(survey, tiering, checked):
        if _place(finding) in reported:
            continue
        if finding.file is not None and _is_mended(finding, finding.file, changed):
            is_told = is_trusted and (is_for_full(finding) or finding.code is FindingCode.LEADER_EPOCH_MISMATCH)
            if is_told or OTHER_SEGMENT in finding.detail:
                repaired = structs.replace(finding, detail=f"{finding.detail}; this plan rebuilds it")
                yield Left(repaired, is_repaired=True)
            continue
        if finding.code in _OF_INDEXES and _changes_log(finding, changed):
            yield Left(structs.replace(finding, detail=f"{finding.detail}{_BY_LOG_BEFORE}"), is_repaired=True)
            continue
        stays = _STAYS if finding.code in _OF_INDEXES else ""
        yield Left(structs.replace(finding, detail=f"{finding.detail}{stays}"), is_repaired=False)


def is_for_full(finding: Finding) -> bool:
    """Whether a finding is an error in files that are rebuilt from a log, which a full recovery repairs
    wherever it is.
    """
    return finding.severity is Severity.ERROR and finding.code in _OF_INDEXES


def left_in_place(
    actions: Iterable[RecoveryAction],
    findings: Collection[Finding],
    survey: Survey,
    tiering: Tiering,
    directories: Collection[str],
) -> Iterator[Left]:
    """Yield some of the problems that a plan leaves (see `left_by`), for a start without a clean-shutdown marker. In
    all partitions, these are the problems that a full recovery repairs. Segments that perhaps do not belong to their
    time index and producer snapshot are added (`OTHER_SEGMENT`), and segments with a wrong name. In the partition
    directories `directories`, a log start beyond the log's end is added. So is each problem at a file position that
    `findings` do not name. Yields nothing if there are more logs than a plan counts (1 GiB). Raises `StorageError`
    while iterating if a checkpoint cannot be read.
    """
    reported = {(finding.file, finding.position) for finding in findings}
    for left in left_by(actions, findings, survey, tiering, _NOTHING):
        file, position = left.finding.file, left.finding.position
        is_new = position is not None and (file, position) not in reported
        is_new |= left.finding.code is FindingCode.LOG_END_BELOW_LOG_START
        is_new &= (file or "").partition("/")[0] in directories
        is_new |= left.finding.code is FindingCode.SEGMENT_MISNAMED
        if left.needs_full or is_new or OTHER_SEGMENT in left.finding.detail:
            yield left


def _place(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.file, finding.position, finding.offset


def _is_mended(finding: Finding, file: str, changed: Set[str]) -> bool:
    """Whether a plan changes the file that a finding is about. `changed` are the paths that the plan changes. For a
    finding about a transaction index, it must be that index, also if it is missing; for another missing index, the
    offset or time index beside the log. For a leader epoch, it must be the log or the epoch checkpoint. For all other
    findings, it must be the file or its directory.
    """
    directory, (stem, _) = os.path.dirname(file), os.path.splitext(file)
    match finding.code:
        case FindingCode.TXN_INDEX_MISMATCH:
            return stem + FileKind.TRANSACTION_INDEX in changed
        case FindingCode.LEADER_EPOCH_MISMATCH:
            return f"{directory}/{LEADER_EPOCH_CHECKPOINT}" in changed or file in changed
        case FindingCode.INDEX_MISSING:
            return not changed.isdisjoint((stem + FileKind.OFFSET_INDEX, stem + FileKind.TIME_INDEX))
        case _:
            return not changed.isdisjoint((file, directory))


def _changes_log(finding: Finding, changed: Set[str]) -> bool:
    """Whether a plan that changes the paths `changed` changes the log beside the index that a finding is about."""
    return finding.file is not None and os.path.splitext(finding.file)[0] + FileKind.LOG in changed


def _of_directory(survey: Survey) -> Iterator[Finding]:
    if survey.is_partial:
        return
    try:
        yield from log_dir_findings(survey.root)
    except KafkaLogError:
        return


def _of_partitions(survey: Survey, checks: _Checks, checked: Checked) -> Iterator[Finding]:
    for directory in survey.directories:
        if "/" not in directory:
            known = checked.get(directory)  # what cannot be read is told by whoever needs it
            yield from (checks.findings(directory) or ()) if known is None else known
