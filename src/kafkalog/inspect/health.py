"""Examine the health of log directories and partitions in one walk over their batches.

Checksums and headers are verified; records are not decoded, which is left to `verify`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import META_PROPERTIES, DirectoryState, parse_partition_directory
from kafkalog.log import Inventory, LogDir, Partition, open_all
from kafkalog.log.directories.checkpoint_findings import checkpoint_findings, too_high_end
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import OnRead, in_order
from kafkalog.log.disk.files import PathLike, real, unreadable
from kafkalog.log.walk.behind_damage import BehindDamage, tell_what_is_behind
from kafkalog.log.walk.segment import logs_of
from kafkalog.log.walk.summary import SegmentSummary, summarize
from kafkalog.recovery.act.unfinished_business import Standing, standing
from kafkalog.recovery.checks.beside_running import is_in_use, look_again, read_again, settled_findings
from kafkalog.recovery.checks.checkpoint_checks import Beside
from kafkalog.recovery.checks.log_directory import beside_of, listed_findings
from kafkalog.recovery.checks.lost_and_found import (
    MISNAMED_BY,
    batches_outside,
    known_ends,
    misnamed_segments,
    offered_once,
)
from kafkalog.recovery.checks.lost_directories import with_what_was_there
from kafkalog.recovery.checks.missing_segments import missing_by_summaries
from kafkalog.recovery.checks.moments import different_moments, offset_reached
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.tiers.tiering import LocalStart

__all__ = ["DirectoryHealth", "PartitionHealth", "health", "health_of"]


class PartitionHealth(Struct, frozen=True, kw_only=True):
    """One partition directory after a walk that verified every batch's checksum. Offsets, and timestamps in ms since
    1970, are None if no batch has them.
    """

    partition: Partition
    segments: tuple[SegmentSummary, ...]
    findings: tuple[Finding, ...]
    behind: BehindDamage
    is_read: bool = True
    """False: the operating system could not read it"""
    is_settled: bool = False
    """whether a running broker has the directory open, so that only the findings say how the logs end"""
    local_start: LocalStart | None = None
    """where the log begins, according to the log directory around it; None without a segment"""

    @property
    def log_start_offset(self) -> int:
        """Log start offset, in whichever tier it is."""
        start = self.local_start
        return self.partition.log_start_offset if start is None or not start.is_tiered else start.log_start

    @property
    def local_log_start_offset(self) -> int | None:
        """First local offset of a tiered log whose first segments are remote only; None for other logs."""
        start = self.local_start
        return start.local_log_start if start is not None and start.is_tiered else None

    @property
    def log_end_offset(self) -> int | None:
        """Offset that the next record gets; None if the log could not be read."""
        if not self.is_read:
            return None
        return max((segment.next_offset for segment in self.segments), default=self.partition.log_start_offset)

    @property
    def is_unknown(self) -> bool:
        """Whether there are bytes but no offset is known."""
        return self.first_offset is None and (not self.is_read or self.partition.size > 0)

    @property
    def is_listed(self) -> bool:
        """Whether the directory could be listed; if not, its size is unknown too."""
        return self.is_read or bool(self.partition.segments)

    @property
    def first_offset(self) -> int | None:
        """First offset of the first readable batch; None if there is none."""
        return next((segment.first_offset for segment in self.segments if segment.first_offset is not None), None)

    @property
    def last_offset(self) -> int | None:
        """Last offset of the last readable batch; None if there is none."""
        return next(
            (segment.last_offset for segment in reversed(self.segments) if segment.last_offset is not None), None
        )

    @property
    def first_timestamp(self) -> int | None:
        """Smallest timestamp of a batch; None if there is none."""
        return min(
            (segment.first_timestamp for segment in self.segments if segment.first_timestamp is not None), default=None
        )

    @property
    def last_timestamp(self) -> int | None:
        """Largest timestamp of a batch; None if there is none."""
        return max(
            (segment.last_timestamp for segment in self.segments if segment.last_timestamp is not None), default=None
        )

    @property
    def codecs(self) -> dict[str, int]:
        """Number of batches by name of their codec, sorted."""
        total: Counter[str] = Counter()
        for segment in self.segments:
            total.update(segment.codecs)
        return dict(sorted(total.items()))

    @property
    def words(self) -> tuple[str, ...]:
        """Return the reasons why segments do not end well, and then the codes of warnings and errors, each once; empty
        if all is well. If a broker has the log open (`is_settled`), only the codes are returned.
        """
        stops = [
            str(segment.stop) for segment in self.segments if segment.stop is not StopReason.END and not self.is_settled
        ]
        serious = [str(finding.code) for finding in self.findings if finding.severity is not Severity.INFO]
        return tuple(dict.fromkeys([*stops, *serious]))

    @property
    def is_sound(self) -> bool:
        """Whether `words` is empty, and there are no sound batches after damage."""
        return not self.words and not self.behind.batches


def _health_of(
    partition: Partition, log_dir: LogDir | None, beside: Beside | None, on_read: OnRead | None
) -> PartitionHealth:
    def read(listed: Partition) -> PartitionHealth:
        return _read(listed, log_dir, beside, on_read)

    try:
        return read_again(read, partition)
    except StorageError as error:
        findings = (*partition.findings, unreadable(error, partition.path))
        return PartitionHealth(
            partition=partition, segments=(), findings=findings, behind=BehindDamage(), is_read=False
        )


def _read(partition: Partition, log_dir: LogDir | None, beside: Beside | None, told: OnRead | None) -> PartitionHealth:
    following: list[int | None] = [segment.base_offset for segment in partition.segments[1:]]
    segments = tuple(
        summarize(segment, next_segment=base, limits=partition.limits, on_bytes=told)
        for segment, base in zip(partition.segments, [*following, None], strict=False)
    )
    findings = [*partition.findings, *(finding for segment in segments for finding in segment.findings)]
    if segments and segments[-1].ends_below is not None:
        findings.append(segments[-1].ends_below)
    logs = logs_of(partition.segments)
    if any(finding.code in MISNAMED_BY for finding in findings):
        findings += misnamed_segments(logs)
    told_of = tell_what_is_behind(
        findings, partition.segments, log_start=partition.log_start_offset, limits=partition.limits
    )
    behind = told_of or BehindDamage()
    findings += missing_by_summaries(partition, segments)
    local_start = None
    if log_dir is not None and partition.name is not None and partition.state is DirectoryState.LIVE:
        key = (partition.name.topic, partition.name.partition)
        end = max((segment.next_offset for segment in segments), default=partition.log_start_offset)
        start = log_dir.log_start_offsets.get(key, 0)
        findings += checkpoint_findings(
            partition, end, start, log_dir.high_watermarks.get(key), end_behind=behind.next_offset
        )
        findings += too_high_end(logs, partition.snapshots, max(end, behind.next_offset), log_dir.closed_at.get(key))
        local_start = None if beside is None else beside.local_start(partition, end)
    return PartitionHealth(
        partition=partition, segments=segments, findings=tuple(findings), behind=behind, local_start=local_start
    )


class DirectoryHealth(Struct, frozen=True, kw_only=True):
    """Health of a log directory and its selected partitions, or of a partition directory, segment or unreadable path
    that was passed by its own path.
    """

    path: str
    log_dir: LogDir | None
    """None for a partition directory, a segment, or a path that cannot be read"""
    standing: Standing | None
    """state of its recoveries; None if it is not a log directory"""
    partitions: tuple[PartitionHealth, ...]
    findings: tuple[Finding, ...]
    """findings other than those of the partitions"""
    is_in_use: bool = False
    """whether another process, such as a running broker, has it open; then only findings that persisted are listed"""


def health(
    *paths: PathLike,
    select: Selection = ALL,
    jobs: Count = 1,
    limits: Limits = DEFAULT_LIMITS,
    on_read: OnRead | None = None,
) -> tuple[DirectoryHealth, ...]:
    """Walk over every batch of log directories, partition directories or segments; change nothing. Return what
    `kafkalog ls` prints: first unreadable paths, then log directories, then partitions passed by their own path.

    Raises `UsageError` for paths that hold nothing of Kafka's or if everything selected is excluded, `UnknownName` for
    an unknown topic or partition. Anything unreadable is a finding.

    * `paths`: log directories, their parents, partition directories or segments
    * `select`: the topic-partitions to examine
    * `jobs`: how many partitions are read at a time, each in its own process
    * `limits`: what a batch or file may hold at most (`Limits`)
    * `on_read`: called with the number of bytes of logs after each read
    """
    inventory = open_all(*paths, tolerant=True, missing_too=True, limits=limits)
    select.check(inventory.names)
    wanted = [partition for partition in inventory.partitions if select.takes(partition.topic, partition.partition)]
    return health_of(inventory, select, wanted, jobs, on_read or (lambda _count: None))


def health_of(
    inventory: Inventory, select: Selection, wanted: Sequence[Partition], jobs: int, on_read: OnRead
) -> tuple[DirectoryHealth, ...]:
    """Return the health of opened directories and their `wanted` partitions, as `health` does."""
    healths = _looked(inventory, select, wanted, jobs, on_read)
    return tuple(_settled(health, select, jobs) if is_in_use(health.path) else health for health in healths)


def _settled(found: DirectoryHealth, select: Selection, jobs: int) -> DirectoryHealth:
    """Check the findings about a directory that a broker has open, because the broker may have been writing during the
    first examination. Directories with warnings or errors are read again. Return the health without the warnings and
    errors that are gone then, and without findings of kinds that a running broker causes (`settled_findings`). It is
    marked `is_in_use`, and its partitions are marked `is_settled`. Partitions that were deleted meanwhile are omitted.
    """
    limits = next((each.partition.limits for each in found.partitions), DEFAULT_LIMITS)

    def again(paths: frozenset[str]) -> dict[str, Sequence[Finding]]:
        inventory = open_all(found.path, tolerant=True, missing_too=True, limits=limits)
        wanted = [partition for partition in inventory.partitions if partition.path in paths]
        looked = _looked(inventory, select, wanted, jobs, lambda _count: None, is_again=True)
        of_partitions: dict[str, Sequence[Finding]] = {
            partition.partition.path: settled_findings(partition.findings, partition.partition)
            for directory in looked
            for partition in directory.partitions
        }
        return of_partitions | {health.path: settled_findings(health.findings) for health in looked}

    by_path = {each.partition.path: settled_findings(each.findings, each.partition) for each in found.partitions}
    left = look_again({**by_path, found.path: settled_findings(found.findings)}, again)
    partitions = tuple(
        replace(partition, findings=tuple(kept), is_settled=True)
        for partition in found.partitions
        if (kept := left[partition.partition.path]) is not None
    )
    return replace(found, partitions=partitions, findings=tuple(left[found.path] or ()), is_in_use=True)


def _looked(
    inventory: Inventory,
    select: Selection,
    wanted: Sequence[Partition],
    jobs: int,
    on_read: OnRead,
    *,
    is_again: bool = False,
) -> tuple[DirectoryHealth, ...]:
    """Read the wanted partitions once. Return one health for each unreadable path, then for each log directory, then
    for each wanted partition that was passed by its own path. A log directory that has partitions, but none of the
    wanted ones, is omitted. It is kept if `is_again` is set, or something unreadable in it may be selected.

    `jobs` processes read at a time, and `on_read` is called with the number of bytes read. Checks of a whole directory
    are made only if `select` is `ALL`.
    """
    together = inventory.findings_together()
    known = facts_of_each([each.path for each in inventory.log_dirs]) if select == ALL else {}
    meant = {id(partition) for partition in wanted}
    unusable = with_what_was_there(inventory.unreadable, [each.path for each in inventory.log_dirs])
    healths = [
        DirectoryHealth(path=finding.file or "", log_dir=None, standing=None, partitions=(), findings=(finding,))
        for finding in unusable
    ]
    for log_dir in inventory.log_dirs:
        partitions = [each for each in log_dir.partitions if id(each) in meant]
        hidden = [finding for finding in log_dir.findings if finding.code is FindingCode.UNREADABLE]
        if log_dir.partitions and not partitions and not is_again and not select.of_unreadable(hidden):
            continue
        places = {os.path.join(log_dir.path, META_PROPERTIES), *(each.path for each in partitions)}
        facts = known.get(real(log_dir.path))
        findings = [*listed_findings(log_dir, facts), *(finding for finding in together if finding.file in places)]
        read = _several(partitions, log_dir, beside_of(log_dir, inventory.log_dirs, facts), jobs, on_read)
        if select == ALL:
            ends = {partition_health.partition.path: partition_health.log_end_offset for partition_health in read}
            findings += batches_outside(log_dir, known_ends(ends))
            findings += different_moments(log_dir, {health.partition.path: _reached(health) for health in read}.get)
        findings, unread = _as_rows(log_dir, findings, select)
        read += unread
        healths.append(
            DirectoryHealth(
                path=log_dir.path,
                log_dir=log_dir,
                standing=standing(log_dir.path),
                partitions=read,
                findings=tuple(findings),
            )
        )
    once = offered_once({os.path.abspath(health.path): health.findings for health in healths})
    healths = [replace(health, findings=tuple(once[os.path.abspath(health.path)])) for health in healths]
    for partition in inventory.standalone:
        if id(partition) in meant:
            findings = [finding for finding in together if finding.file == partition.path]
            read = _several([partition], None, None, jobs, on_read)
            healths.append(
                DirectoryHealth(
                    path=partition.path, log_dir=None, standing=None, partitions=read, findings=tuple(findings)
                )
            )
    return tuple(healths)


def _reached(read: PartitionHealth) -> int | None:
    """Offset up to which a log may have been written; None if it is damaged or could not be read."""
    end = read.log_end_offset
    return None if end is None else offset_reached(max(end, read.behind.next_offset), read.findings)


def _as_rows(
    log_dir: LogDir, findings: Sequence[Finding], select: Selection
) -> tuple[list[Finding], tuple[PartitionHealth, ...]]:
    """Separate the findings about partition directories of this log directory that cannot be listed. Return two
    results: the other findings, and a health without segments for each such directory that is selected. Findings about
    such directories that are not selected are dropped.
    """
    rest, rows = [], []
    for finding in findings:
        path = finding.file or ""
        name = parse_partition_directory(os.path.basename(path))
        if finding.code is not FindingCode.UNREADABLE or name is None or os.path.dirname(path) != log_dir.path:
            rest.append(finding)
        elif select.takes(name.topic, name.partition):
            hidden = Partition(path, name, (), findings=(finding,))
            rows.append(
                PartitionHealth(
                    partition=hidden, segments=(), findings=(finding,), behind=BehindDamage(), is_read=False
                )
            )
    return rest, tuple(rows)


def _several(
    partitions: Sequence[Partition], log_dir: LogDir | None, beside: Beside | None, jobs: int, on_read: OnRead
) -> tuple[PartitionHealth, ...]:
    def work(partition: Partition, told: OnRead | None) -> PartitionHealth:
        return _health_of(partition, log_dir, beside, told)

    return tuple(in_order(partitions, work, size=lambda each: each.size, jobs=jobs, on_read=on_read))
