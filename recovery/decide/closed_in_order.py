"""What the checks of `verify` find in a directory that is planned for, so that a plan never contradicts them.

A partition that a broker closed in order stays as it is where they find nothing.  Such a start reads no log
(`LogLoader.recoverLog`): it trusts the marker, and so does recovery.  What only a start after a crash would rewrite, an
index or a snapshot that says the same in other bytes, does not justify changing a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalog.codec.errors import KafkaLogError, StorageError
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, FileKind, parse_partition_directory
from kafkalog.log.directories.partition import Partition, read_partition
from kafkalog.recovery.decide.counting import are_counted
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.safe.normalize import Checkpoints, read_high_watermarks
from kafkalog.recovery.safe.partition_run import Checks, no_checks
from kafkalog.tiers.tiering import Tiering

if TYPE_CHECKING:
    from kafkalog.recovery.checks.partition import Beside
    from kafkalog.recovery.decide.actions import RecoveryAction

__all__ = ["checks_of", "left_by", "told_by_checks"]

_OF_INDEXES = frozenset({
    FindingCode.INDEX_MISSING, FindingCode.INDEX_SIZE_INVALID, FindingCode.INDEX_NOT_INCREASING,
    FindingCode.INDEX_ENTRY_MISMATCH, FindingCode.TXN_INDEX_MISMATCH,
})  # fmt: skip
_STAYS = "; below the recovery point, where only a full examination changes anything"


class _Checks:
    """The checks of the partitions of a survey; without decoding records, which no plan depends on."""

    def __init__(self, found: Survey, tiering: Tiering) -> None:
        from kafkalog.recovery.checks.partition import Beside  # checks every index: most plans need none of it

        tree = found.tree()
        self._found = found
        self._log_starts = Checkpoints.read(tree).log_starts
        tiering = tiering.with_checkpoint(tree.directories, self._log_starts)
        self._beside: Beside = Beside(self._log_starts, read_high_watermarks(tree), tiering)
        logs = (facts.size for path, facts in found.files.items() if path.endswith(FileKind.LOG.value))
        self.reads_all = are_counted(logs)

    def findings(self, directory: str, first: int = 0) -> list[Finding] | None:
        """What is wrong with a partition directory; None where it cannot be read.

        Where there are more logs than a plan counts, from the segment at `first` on.
        """
        from kafkalog.recovery.checks.partition import verify_beside

        try:
            partition = self._partition(directory)
            if partition is None:
                return []
            if not self.reads_all:
                examined = tuple(each for each in partition.segments if each.base_offset >= first)
                partition = replace(partition, segments=examined)
            found = verify_beside(partition, self._beside, deep=False, tables=self._found.tables)
        except StorageError:
            return None
        return [*_worse_than_info(found.findings)]

    def _partition(self, directory: str) -> Partition | None:
        name = parse_partition_directory(directory)
        if name is None:
            return None
        start = None if name.state.value else self._log_starts.get((name.topic, name.partition))
        return read_partition(os.path.join(self._found.root, directory), name, start)


def _worse_than_info(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (each for each in findings if each.severity is not Severity.INFO)


def checks_of(found: Survey, tiering: Tiering) -> Checks:
    """For safe recovery: what the checks find in a partition of a log directory that was closed in order."""
    return _Checks(found, tiering).findings if CLEAN_SHUTDOWN_FILE in found.files else no_checks


def told_by_checks(
    found: Survey, tiering: Tiering, known: Mapping[str, Sequence[Finding]] = MappingProxyType({})
) -> Iterator[Finding]:
    """What is wrong although nothing is to be done; nothing where there are more logs than a plan counts.

    `known` is what the checks have found already, by partition directory.
    """
    checks = _Checks(found, tiering)
    if not checks.reads_all:
        return
    for each in [*_worse_than_info(_of_directory(found)), *_of_partitions(found, checks, known)]:
        yield replace(each, file=None if each.file is None else os.path.relpath(each.file, found.root))


def left_by(
    actions: Iterable[RecoveryAction], findings: Iterable[Finding], found: Survey, tiering: Tiering
) -> Iterator[Finding]:
    """What is wrong before a plan and after it, in files that it does not change, and that its findings do not tell.

    A start examines a log from its recovery point on; what is wrong before stays, and is for `--full` or a copy.
    """
    changed = {path for action in actions for path in (action.path, action.target) if path is not None}
    told = {_place(each) for each in findings}
    for each in told_by_checks(found, tiering):
        if _place(each) in told or (each.file is not None and _is_mended(each, each.file, changed)):
            continue
        yield replace(each, detail=f"{each.detail}{_STAYS}") if each.code in _OF_INDEXES else each


def _place(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.file, finding.position, finding.offset


def _is_mended(finding: Finding, file: str, changed: Set[str]) -> bool:
    """Whether what a finding is about, which may be a file beside the log that it names, is changed."""
    directory, (stem, _) = os.path.dirname(file), os.path.splitext(file)
    match finding.code:
        case FindingCode.TXN_INDEX_MISMATCH:
            return stem + FileKind.TRANSACTION_INDEX in changed
        case FindingCode.INDEX_MISSING:
            return not changed.isdisjoint((stem + FileKind.OFFSET_INDEX, stem + FileKind.TIME_INDEX))
        case _:
            return not changed.isdisjoint((file, directory))


def _of_directory(found: Survey) -> Iterator[Finding]:
    if found.is_partial:
        return
    from kafkalog.log.directories.directory import open_log_dir

    try:
        yield from open_log_dir(found.root, tolerant=True).findings
    except KafkaLogError:
        return  # an empty directory is none


def _of_partitions(found: Survey, checks: _Checks, known: Mapping[str, Sequence[Finding]]) -> Iterator[Finding]:
    for directory in found.directories:
        if directory in known:
            yield from known[directory]
        elif "/" not in directory:
            yield from checks.findings(directory) or ()  # what cannot be read is told by whoever needs it
