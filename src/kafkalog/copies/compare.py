"""Compare several brokers' volumes of one cluster: find the content of each copy of a partition, and choose the best
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, field

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC
from kafkalog.copies.batch_epochs import BatchEpochs, trusted_lineage
from kafkalog.copies.cleaned_part import CleanedPart
from kafkalog.copies.cluster_memory import ClusterMemory, read_cluster_memory
from kafkalog.copies.common_history import Lineage, common_past
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.copies.copy_walk import CopyWalk, Resumes
from kafkalog.copies.difference import compare_contents
from kafkalog.copies.jumps import Displaced, Jumps, without_disproved
from kafkalog.copies.stretches import Stretch
from kafkalog.copies.volumes import Copy, Shelf, gather, reason
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.directories.workers import in_order
from kafkalog.log.disk.files import PathLike

__all__ = ["compare"]

_MOST_EPOCHS = 100_000
"""Most leader epochs that are taken from the batches of one copy."""


def compare(
    *paths: PathLike,
    select: Selection = ALL,
    limits: Limits = DEFAULT_LIMITS,
    jobs: Count = 1,
    on_read: Callable[[int], None] | None = None,
) -> Comparison:
    """Compare the copies of each topic-partition in log directories or partition directories of several brokers, and
    return the result; change nothing.

    The paths may include parents of log directories, and ZooKeeper's data directory. `jobs` topic-partitions are
    compared at a time, in forked processes if that saves time. `on_read` is called with the number of log bytes after
    each read; bytes that are read again do not count.

    Raises `UsageError` for a path that does not exist or has no Kafka data, or if everything selected is excluded.
    Raises it also for fewer than two different directories if all can be read. Raises `UnknownName` for a topic or
    partition that does not exist. Anything unreadable is part of the result; `StorageError` is raised only if a copy
    that was read cannot be read again.

    * `paths`: log directories, or partition directories, two or more
    * `select`: the topic-partitions to compare; all of them without it
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    shelf = gather(paths, chosen=select, limits=limits)
    memory = read_cluster_memory(shelf.metadata, shelf.zookeeper)
    compared = list(
        in_order(
            list(shelf.copies),
            lambda key, on_bytes: _Partition(shelf, key, memory, limits, on_bytes).compared(),
            size=lambda key: sum(copy.partition.size for copy in shelf.copies[key] if copy.partition is not None),
            jobs=jobs,
            on_read=on_read,
        )
    )
    unreadable = list(shelf.unreadable)
    unreadable += [
        (copy.path, copy.error)
        for partition in compared
        for copy in partition.copies
        if copy.error is not None and (copy.path, copy.error) not in shelf.unreadable
    ]
    return Comparison(
        paths=shelf.paths,
        partitions=compared,
        memory=memory.source,
        memory_problem=memory.problem,
        left_out=shelf.left_out,
        unreadable=unreadable,
        findings=shelf.findings,
    )


class _Facts(Struct, kw_only=True):
    """Results of the first walk over a copy, in addition to its report."""

    copy: Copy
    report: CopyReport
    start: int = 0
    """first offset that is compared"""
    lineage: Lineage = field(default_factory=lambda: Lineage((), 0))
    batch_epochs: BatchEpochs = field(default_factory=BatchEpochs)
    cleaned_until: int = 0
    ends_in_damage: bool = False
    resumes: Resumes = field(default_factory=dict)
    records_deleted: int = 0
    """records below the log start offset in another copy's checkpoint"""
    knows_deleted: bool = True
    """whether the copy begins no lower than that offset, so that it has no such records"""
    known_start: int = 0
    """the higher of both log start offsets"""
    jumps: Jumps = field(default_factory=Jumps)
    displaced: Displaced = field(default_factory=dict)

    @property
    def deleted_until(self) -> int:
        """Offset below which records were deleted (`Copy.deleted_until`)."""
        return self.copy.deleted_until(self.report.log_end_offset)


class _Partition:
    """Comparison of the copies of one topic-partition. `on_read` is called with the number of log bytes at the first
    read.
    """

    def __init__(
        self,
        shelf: Shelf,
        key: tuple[str, int],
        memory: ClusterMemory,
        limits: Limits,
        on_read: Callable[[int], None] | None,
    ) -> None:
        self._shelf = shelf
        self._key = key
        self._copies = shelf.copies[key]
        self._state = None if key[0] == CLUSTER_METADATA_TOPIC else memory.replica_state(*key)
        self._is_compacted = memory.is_compacted(key[0])
        self._limits = limits
        self._on_read = on_read

    def compared(self) -> PartitionComparison:
        """Read all copies, rank them, and compare the others with the best one; return the result. `best` is None if no
        copy can be read; a copy that cannot be read has its `error`. Raises `StorageError` if a copy that could be read
        cannot be read again for the comparison.
        """
        facts = [self._facts(copy, on_read=self._on_read) for copy in self._copies]
        facts = [self._disproved(copy_facts, facts) for copy_facts in facts]
        readable = [copy_facts for copy_facts in facts if copy_facts.report.error is None]
        self._note_deleted(readable)
        self._lineages(readable)
        ranked = sorted(readable, key=self._rank, reverse=True)
        best = ranked[0] if ranked else None
        for worse in ranked[1:]:
            self._against(worse, ranked[0])
        return PartitionComparison(
            topic=self._key[0],
            partition=self._key[1],
            copies=[copy_facts.report for copy_facts in facts],
            best=None if best is None else best.report,
            why=self._why(ranked),
            replica_state=self._state,
            missing=self._missing(),
        )

    # -- one copy ----------------------------------------------------------------------------------------------------

    def _disproved(self, facts: _Facts, everything: Sequence[_Facts]) -> _Facts:
        others = [other for other in everything if other.copy is not facts.copy and other.report.error is None]
        return without_disproved(
            facts, lambda: {other.copy.path: self._stretches(other) for other in others}, self._facts
        )

    def _facts(
        self, copy: Copy, wrong: Displaced | None = None, on_read: Callable[[int], None] | None = None
    ) -> _Facts:
        report = CopyReport(
            path=copy.path, node_id=copy.node_id, cluster_id=copy.cluster_id, topic_id=copy.topic_id, error=copy.error
        )
        facts = _Facts(copy=copy, report=report, displaced=wrong or {})
        if self._state is not None and copy.node_id is not None:
            report.in_sync = copy.node_id in self._state.may_lead
            report.led = copy.node_id == self._state.leader
        if copy.partition is None:
            return facts
        partition = copy.partition
        facts.start = report.log_start_offset = partition.log_start_offset
        if partition.begins_remotely:  # each replica deletes its local part when it likes
            report.log_start_offset = partition.checkpointed_log_start_offset or 0
        report.bytes = partition.size
        report.leader_epochs = partition.leader_epochs
        report.findings = [finding for finding in partition.findings if finding.severity is not Severity.INFO]
        if copy.log_dir is not None:
            report.high_watermark = copy.log_dir.high_watermarks.get(copy.key)
        try:
            self._walk(facts, on_read)
        except StorageError as error:
            report.error = reason(error, report.path)
        return facts

    def _walk(self, facts: _Facts, on_read: Callable[[int], None] | None) -> None:
        report, partition = facts.report, facts.copy.partition
        if partition is None:
            raise AssertionError(report.path)
        walk = CopyWalk(
            partition.segments,
            resumes=facts.resumes,
            displaced=facts.displaced,
            limits=self._limits,
            on_bytes=on_read,
        )
        cleaned = CleanedPart(facts.copy, is_compacted=self._is_compacted)
        for stretch in walk:
            count = stretch.records(0, len(stretch), self._limits)
            report.batches += len(stretch)
            report.records += count
            if walk.damage is not None:
                report.records_behind_damage += count
            cleaned.note(stretch)
            facts.batch_epochs.note(stretch)
        facts.jumps, facts.cleaned_until = walk.jumps, cleaned.until
        report.damage, report.damaged_places = walk.damage, walk.damaged_places
        report.log_end_offset = walk.end_offset
        report.sound_end_offset = walk.sound_end_offset
        _note_unread_log(facts)
        if partition.segments and walk.end_offset < report.log_start_offset:
            facts.start = partition.segments[0].base_offset
        report.findings += _end_findings(report) if partition.segments else ()
        below, below_behind_damage = self._below(facts, facts.start)
        report.records -= below
        report.records_behind_damage -= below_behind_damage
        facts.ends_in_damage = walk.damage is not None and walk.end_offset == walk.sound_end_offset

    def _below(self, facts: _Facts, offset: int) -> tuple[int, int]:
        """Return the number of sound records below `offset`, without control records, and the number of these that come
        after damage. Both are 0 if the first segment begins at or above the offset, or there is none. Otherwise the log
        is read up to the offset. Raises `StorageError` if it cannot be read.
        """
        records = behind_damage = 0
        segments = () if facts.copy.partition is None else facts.copy.partition.segments
        if not segments or segments[0].base_offset >= offset:
            return 0, 0
        walk = self._stretches(facts)
        for stretch in walk:
            if stretch.row(0).first >= offset:
                break
            count = stretch.records_below(offset, self._limits)
            records += count
            behind_damage += count if walk.damage is not None else 0
        return records, behind_damage

    def _note_deleted(self, facts: Sequence[_Facts]) -> None:
        """Set in each copy how many of its records another copy's checkpoint shows as deleted (`records_deleted`).
        These are the records from the copy's own start up to the highest log start offset in a checkpoint of any copy.
        Also set `known_start`, the higher of these two offsets, and `knows_deleted`, which is True if the copy's own
        start is not the lower one. Raises `StorageError` if a copy cannot be read again.
        """
        deleted = max((copy_facts.deleted_until for copy_facts in facts), default=0)
        for copy_facts in facts:
            copy_facts.known_start = max(copy_facts.start, deleted)
            copy_facts.knows_deleted = copy_facts.start >= deleted
            if not copy_facts.knows_deleted:
                copy_facts.records_deleted = (
                    self._below(copy_facts, deleted)[0] - self._below(copy_facts, copy_facts.start)[0]
                )

    def _lineages(self, facts: Sequence[_Facts]) -> None:
        """Set the leader epochs of each copy (`lineage`, see `trusted_lineage`), and `last_epoch` in its report."""
        known = {entry.epoch for copy_facts in facts for entry in copy_facts.report.leader_epochs}
        for copy_facts in facts:
            report = copy_facts.report
            copy_facts.lineage = trusted_lineage(
                report.leader_epochs, copy_facts.batch_epochs.runs, known, report.log_end_offset
            )
            report.last_epoch = copy_facts.lineage.last_epoch

    # -- which is best -----------------------------------------------------------------------------------------------

    def _rank(self, facts: _Facts) -> tuple[int, ...]:
        report = facts.report
        return (
            -1 if report.last_epoch is None else report.last_epoch,
            report.log_end_offset if report.sound_end_offset is None else report.sound_end_offset,
            int(report.damage is None),
            int(not facts.copy.hides_records(report.log_end_offset)),
            int(facts.knows_deleted),
            int(bool(report.in_sync)),
            int(bool(report.led)),
            report.records - facts.records_deleted,
            -facts.known_start,
        )

    def _why(self, ranked: Sequence[_Facts]) -> str:
        """Return the reason for the choice of the best copy, as a clause to follow "because". `ranked` are the readable
        copies, best first. The reason is the first part of the rank in which the best copy differs from the second. If
        they differ in none, the clause says that no copy is better. If no copy or only one can be read, the clause says
        so.
        """
        if not ranked:
            return "no copy can be read"
        if len(ranked) == 1:
            return "it is the only copy that can be read" if len(self._copies) > 1 else "it is the only copy"
        first, second = self._rank(ranked[0]), self._rank(ranked[1])
        pairs = enumerate(zip(first, second, strict=True))
        differing = next((number for number, pair in pairs if len({*pair}) > 1), -1)
        report = ranked[0].report
        return (
            f"its last leader epoch, {report.last_epoch}, is the highest",
            f"its log is sound for longest, up to offset {first[1]}",
            "no copy is longer, and it is not damaged",
            "no copy is longer, and its log start offset hides none of its records",
            "no copy is longer, and it begins after what was deleted",
            "no copy is better, and it is in sync according to the cluster's metadata",
            "no copy is better, and it was the last leader",
            "no copy is longer, and it holds the most records",
            "no copy is longer, and it begins first",
            "no copy is better than any other",
        )[differing]

    def _missing(self) -> list[int]:
        """Return the ids of brokers that should hold a replica, according to the cluster's metadata, but whose log
        directories here have no copy. They are in the order of the replicas. Brokers without a log directory among the
        paths are left out. Empty if the metadata is unknown.
        """
        if self._state is None:
            return []
        known = {
            log_dir.meta_properties.node_id for log_dir in self._shelf.log_dirs if log_dir.meta_properties is not None
        }
        holding = {copy.node_id for copy in self._copies}
        return [node for node in self._state.replicas if node in known and node not in holding]

    # -- against the best --------------------------------------------------------------------------------------------

    def _against(self, facts: _Facts, best: _Facts) -> None:
        report = facts.report
        report.past = common_past(facts.lineage, best.lineage)
        cut = report.log_end_offset if report.past is None else report.past.offset
        counted = _Counted(self._stretches(facts), cut, self._limits)
        try:
            report.difference = compare_contents(
                counted,
                self._stretches(best),
                start=max(facts.start, best.start),
                cleaned_until=max(facts.cleaned_until, best.cleaned_until),
                ends_in_damage=(facts.ends_in_damage, best.ends_in_damage),
                limits=self._limits,
            )
        except StorageError as error:
            report.error = reason(error, report.path)
            return
        report.records_cut = counted.records

    def _stretches(self, facts: _Facts) -> CopyWalk:
        segments = () if facts.copy.partition is None else facts.copy.partition.segments
        is_damaged = facts.report.damage is not None
        return CopyWalk(
            segments, check_crc=is_damaged, resumes=facts.resumes, displaced=facts.displaced, limits=self._limits
        )


def _note_unread_log(facts: _Facts) -> None:
    """Change the report of a copy if logs of segments are links or special files, which are not read: count them as one
    more damaged place. If the first of them precedes all other damage, it becomes the first damage, and the sound part
    of the log ends there.
    """
    unread, report = facts.copy.unread_log, facts.report
    if unread is None:
        return
    base, finding = unread
    report.damaged_places += 1
    if report.damage is None or (report.sound_end_offset is not None and base <= report.sound_end_offset):
        report.damage = finding
        report.sound_end_offset = min(base, report.log_end_offset)


def _end_findings(report: CopyReport) -> Iterator[Finding]:
    """Yield LOG_END_BELOW_LOG_START (ERROR) if the log ends below its log start offset, and
    LOG_END_BELOW_HIGH_WATERMARK (WARNING) if it ends below its checkpointed high watermark.
    """
    end, start, seen = report.log_end_offset, report.log_start_offset, report.high_watermark

    def found(code: FindingCode, severity: Severity, detail: str) -> Finding:
        return Finding(code, severity, None, end, f"the log ends at {end}, {detail}", report.path)

    if end < start:
        detail = f"its start is {start}: a broker would delete all of it"
        yield found(FindingCode.LOG_END_BELOW_LOG_START, Severity.ERROR, detail)
    if seen is not None and end < seen:
        yield found(FindingCode.LOG_END_BELOW_HIGH_WATERMARK, Severity.WARNING, f"the high watermark was {seen}")


class _Counted:
    """Iterator over stretches that counts, in `records`, the records of batches that end at or above `offset`."""

    def __init__(self, stretches: CopyWalk, offset: int, limits: Limits) -> None:
        self._stretches = stretches
        self._offset = offset
        self._limits = limits
        self.records = 0

    def __iter__(self) -> Iterator[Stretch]:
        for stretch in self._stretches:
            number = stretch.ending_below(self._offset)
            if number < len(stretch):
                self.records += stretch.records(number, len(stretch), self._limits)
            yield stretch
