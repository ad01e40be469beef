"""Compute the result of one pass of the log cleaner over a log directory, without changing the directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct, structs

from kafkalog.codec.common.advice import Advice, Ask, Sentence
from kafkalog.codec.common.errors import FormatError, RecoveryRefused
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import MIB
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    SWAP,
    DirectoryState,
    FileKind,
    PartitionName,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.codec.native.thresholds import together
from kafkalog.jobs.compact.cleaner_checkpoint import CleanerCheckpoint
from kafkalog.jobs.compact.request import Compaction
from kafkalog.jobs.compact.steps import compaction_actions
from kafkalog.log.directories.workers import Group, Workers
from kafkalog.log.storage.cleaning.cleanable_log import CleanableLog, Dirty, dirty_part
from kafkalog.log.storage.cleaning.cleaner import CleanedGroup, Cleaner
from kafkalog.log.storage.content import Content
from kafkalog.log.storage.java import FullIndexError, JavaError, JavaIOError, OffsetOverflowError
from kafkalog.log.storage.loader import LoadedLog, LoadRequest, LogLoader
from kafkalog.log.storage.segment import LogSegment
from kafkalog.log.storage.segment_deletion import delete_old_segments
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.first_damage import first_damage
from kafkalog.recovery.broker.manager import Offsets, is_kraft, read_checkpoints, topic_id_or_none
from kafkalog.recovery.decide.actions import RecoveryAction
from kafkalog.recovery.facts.cleaner_settings import CleanerConfig
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.facts.topic_facts import TopicFacts
from kafkalog.recovery.facts.unreadable import findings_of_unreadable, sentences_of_unreadable
from kafkalog.recovery.safe.normalize import read_high_watermarks

__all__ = ["CompactedPartition", "CompactionPlan", "CompactionRules", "plan_directory"]

MODE = "compact"
_MOST_GROWTH = 4
"""Most bytes that a process writes of a partition, as a multiple of the bytes of its logs."""


class CompactionRules(Struct, frozen=True, kw_only=True):
    """Everything besides the bytes that a pass depends on."""

    topics: TopicFacts
    now_ms: int
    config: Mapping[str, str] = {}
    """settings under Kafka's names; a topic's own settings in the metadata take precedence"""


class CompactedPartition(Struct, kw_only=True):
    """One compacted partition: what a pass has to do, and what it leaves. Sizes are in bytes."""

    name: str
    first_dirty_offset: int
    dirty_ratio: float
    is_cleaned: bool
    """whether the pass cleans it"""
    cleaned_to: int | None = None
    """first offset that is dirty afterwards; None if it was not cleaned"""
    problem: str | None = None
    """why a broker would mark it as uncleanable, None if it would not; what was done before that is kept"""
    bytes_before: int = 0
    """bytes of its logs"""
    bytes_after: int = 0
    segments_before: int = 0
    segments_after: int = 0
    records_read: int = 0
    """records read, including those of control batches"""
    records_dropped: int = 0
    """records dropped, including those of aborted transactions and control batches"""
    records_without_key: int = 0
    """dropped records without a key, which no later record could supersede"""
    deleted_segments: list[int] = []
    """base offsets of segments deleted by retention or below the log start offset"""


@dataclass(slots=True)
class CompactionPlan:
    """Plan for one log directory. It is valid only for its survey."""

    root: str
    survey: Survey = field(repr=False)
    topics: TopicFacts
    actions: list[RecoveryAction] = field(default_factory=list)
    partitions: list[CompactedPartition] = field(default_factory=list)
    """partitions whose topics are compacted, without the declined ones"""
    declined: dict[str, str] = field(default_factory=dict)
    """why a partition directory is left as it is, by name"""
    findings: list[Finding] = field(default_factory=list)
    mode: str = MODE
    request: Compaction | None = None
    """the `Compaction` that it was made for"""

    @property
    def changes(self) -> bool:
        """Whether anything would be changed."""
        return bool(self.actions)

    @property
    def is_unreadable(self) -> bool:
        """Whether something in it cannot be read."""
        return bool(self.survey.unreadable)

    @property
    def has_findings(self) -> bool:
        """Whether a partition is left alone, or cannot be cleaned by a broker either."""
        return bool(self.declined or self.findings or any(partition.problem for partition in self.partitions))


class _LeftAloneError(Exception):
    """Raised for a partition that is not cleaned; `why` is the reason."""

    def __init__(self, why: str, finding: Finding | None = None) -> None:
        self.why = why
        super().__init__(why)
        self.finding = finding


def plan_directory(
    found: Survey, names: list[str], rules: CompactionRules, workers: Workers | None = None
) -> CompactionPlan:
    """Plan one cleaner pass over each compacted partition of the survey `found`; nothing is written to the log
    directory. Computed bytes may be written to the survey's scratch file.

    `names` are all directories in the log directory. Partitions that are left alone are in the plan's `declined`, with
    the reason: for example damaged ones, ones with remote storage, and ones that the survey could not read. The plan's
    `partitions` has the others, in the order of a broker's start, also those that are not dirty enough to be cleaned.
    Raises `RecoveryRefused` if a checkpoint cannot be parsed, because a broker would take the directory offline. Raises
    `UsageError` for a setting that Kafka would refuse. Raises `StorageError` if a file cannot be read that the survey
    could read.
    """
    plan = CompactionPlan(found.root, found, rules.topics)
    after = found.tree()
    checkpoints = read_checkpoints(after)
    if checkpoints is None:
        raise RecoveryRefused(
            Sentence("a checkpoint of recovery points or log starts cannot be read; ", _repairs(found.root)),
            reason="checkpoint",
        )
    live = {name: parsed for name in names if (parsed := _live(name)) is not None}
    configs = {name: rules.topics.cleaner_config(parsed.topic, rules.config) for name, parsed in live.items()}
    compacted = [name for name in after.subdirectories() if name in live and configs[name].is_compacted]
    tiered = [name for name in compacted if rules.topics.tiering.has_remote_log(live[name].topic)]
    plan.declined |= dict.fromkeys(tiered, "its topic has remote storage, and Kafka compacts no such topic")
    chosen = [name for name in compacted if name not in plan.declined]
    groups: dict[str, list[CleanedGroup]] = {}
    if compacted:
        checkpoint = CleanerCheckpoint(after, {(parsed.topic, parsed.partition) for parsed in live.values()})

        def clean(group: Group) -> _Cleaned | _LeftAlone:
            (name,) = group
            of_log = after, name, live[name], configs[name], rules.now_ms
            return _Pass(*of_log, checkpoints, checkpoint, root=found.root).result()

        for name, result in _each(found, chosen, clean, workers or Workers()):
            if isinstance(result, _LeftAlone):
                plan.declined[name] = result.why
                plan.findings += [] if result.finding is None else [result.finding]
                continue
            plan.partitions.append(result.partition)
            groups[name] = result.groups
            after.put(name, result.files)
            after.times.update(result.times)
            for offset in result.checkpoints:
                checkpoint.put((live[name].topic, live[name].partition), offset)
    if plan.partitions:
        checkpoint.create()
    plan.actions = compaction_actions(found, after, groups)
    plan.declined |= sentences_of_unreadable(found)
    plan.findings += findings_of_unreadable(found)
    return plan


def _live(directory: str) -> PartitionName | None:
    """Return the parsed name if a broker's cleaner considers the directory: live, and not the metadata
    log; else None.
    """
    name = parse_partition_directory(directory)
    if name is None or name.state is not DirectoryState.LIVE or name.topic == CLUSTER_METADATA_TOPIC:
        return None
    return name


class _LeftAlone(Struct, frozen=True):
    """A partition that is left alone, and why."""

    why: str
    finding: Finding | None


class _Cleaned(Struct, frozen=True, kw_only=True):
    """Plan of a cleaning pass for one partition."""

    partition: CompactedPartition
    groups: list[CleanedGroup]
    files: Mapping[str, Content]
    """all files of its directory afterwards, by name"""
    times: Mapping[str, int]
    """path -> modification time in ms, for files to which the pass gives one"""
    checkpoints: list[int]
    """offsets that the broker's cleaner writes into its checkpoint, in order"""


def _each(
    surveyed: Survey, names: Sequence[str], clean: Callable[[Group], _Cleaned | _LeftAlone], workers: Workers
) -> Iterator[tuple[str, _Cleaned | _LeftAlone]]:
    """Yield (name, result of `clean`) for each partition, in the order of `names`; worker processes may share the work.

    In a worker each partition writes its computed bytes into its own part of the scratch file. A partition that needs
    more than this part is cleaned in this process. Raises `StorageError` while iterating if the scratch file or a log
    cannot be read or written.
    """
    groups: list[Group] = [(name,) for name in names]
    wanted = frozenset(names)
    sizes = {path: facts.size for path, facts in surveyed.files.items() if path.partition("/")[0] in wanted}
    logs: dict[str, int] = dict.fromkeys(names, 0)
    for path, size in sizes.items():
        if path.endswith(FileKind.LOG.value):
            logs[path.partition("/")[0]] += size
    workers.begin("cleaning", sizes)
    scratch, here = surveyed.scratch, os.getpid()
    rooms = {}
    if scratch is not None and workers.is_worthwhile(groups):
        most = [_MOST_GROWTH * size + MIB for size in logs.values()]
        rooms = dict(zip(names, zip(scratch.divide(most), most, strict=True), strict=True))

    def work(group: Group) -> _Cleaned | _LeftAlone:
        if scratch is not None and rooms and os.getpid() != here:
            scratch.stay_in(*rooms[group[0]])
        return clean(group)

    with together(sum(logs.values())):
        yield from zip(names, workers.each(groups, work), strict=True)


class _Pass:
    """One cleaner pass over one partition, from start to stop, on a copy of the directory's tree in memory."""

    def __init__(
        self,
        tree: Tree,
        directory: str,
        name: PartitionName,
        config: CleanerConfig,
        now_ms: int,
        checkpoints: tuple[Offsets, Offsets],
        checkpoint: CleanerCheckpoint,
        *,
        root: str,
    ) -> None:
        self._repairs = _repairs(root)
        self._gives_id = Advice("{} gives it one", Ask.RECOVER_TOPIC_ID, {"root": root})
        self._tree = tree.part(directory)
        self._directory = directory
        self._key = name.topic, name.partition
        self._config = config
        self._now_ms = now_ms
        self._checkpoints = checkpoints
        self._checkpoint = checkpoint
        self._groups: list[CleanedGroup] = []
        self._cleaned_to: list[int] = []
        """offsets for the cleaner's checkpoint"""

    def result(self) -> _Cleaned | _LeftAlone:
        """Run the pass; return the new files of the partition, or `_LeftAlone` with the reason why it is not cleaned.

        The tree that was passed to the constructor is not changed. Raises `StorageError` if a file cannot be read.
        """
        try:
            partition = self._run()
        except _LeftAloneError as left:
            return _LeftAlone(left.why, left.finding)
        tree, directory = self._tree, self._directory
        files = {name: tree.files[f"{directory}/{name}"] for name in tree.all_names(directory)}
        times = {path: modified_ms for path, modified_ms in tree.times.items() if path.rpartition("/")[0] == directory}
        return _Cleaned(
            partition=partition, groups=self._groups, files=files, times=times, checkpoints=self._cleaned_to
        )

    def _run(self) -> CompactedPartition:
        """Load the log as a broker does, clean it if it is dirty enough, and delete segments past retention; return the
        numbers. Changes this object's tree, and appends to the offsets for the cleaner's checkpoint.

        If the cleaner fails as a broker's would, the reason is in the result's `problem`, and retention deletes
        nothing. Raises `StorageError` if a file cannot be read. Raises `_LeftAloneError` in these cases; the tree is
        undefined then:

        * the partition is damaged, or was interrupted in a compaction
        * it lacks its topic id in a KRaft cluster
        * a start would change it, or it would make a broker fail
        """
        before = self._logs()
        self._refuse_damage()
        loader, loaded = self._load(before)
        log = CleanableLog(
            disk=self._tree,
            directory=self._directory,
            settings=self._config,
            segments=loader.segments,
            producers=loader.producers,
            epochs=loader.epochs,
            log_start_offset=loaded.log_start_offset,
            end_offset=loaded.log_end_offset,
            high_watermark=read_high_watermarks(self._tree).get(self._key, loaded.log_end_offset),
            retire=LogSegment.delete_files,
        )
        bytes_before, segments_before = _size(log), len(log.segments)
        try:
            dirty = dirty_part(log, self._checkpoint.offset(self._key), self._now_ms)
            is_cleaned = dirty.is_cleaned(self._config.min_cleanable_dirty_ratio)
            compacted = CompactedPartition(
                name=self._directory,
                first_dirty_offset=dirty.first_offset,
                dirty_ratio=dirty.ratio,
                is_cleaned=is_cleaned,
            )
            if is_cleaned:
                self._clean(log, dirty, compacted)
            if compacted.problem is None:
                compacted.deleted_segments = delete_old_segments(log, self._now_ms)
            loaded.segments = log.segments.all()
            loader.epochs.flush()
            loader.close(loaded)
        except JavaError as error:
            raise _LeftAloneError(f"a broker would fail at it ({error})") from error
        compacted.bytes_before, compacted.segments_before = bytes_before, segments_before
        compacted.bytes_after, compacted.segments_after = _size(log), len(log.segments)
        if dirty.is_reset:
            self._cleaned_to.append(dirty.first_offset)
        if compacted.cleaned_to is not None:
            self._cleaned_to.append(compacted.cleaned_to)
        return compacted

    def _logs(self) -> dict[str, object]:
        """Return the content of each log file (`.log` and `.log.swap`) of the partition, by name; to compare before and
        after a start.
        """
        suffix = FileKind.LOG.value
        return {
            name: self._tree.files[f"{self._directory}/{name}"].parts
            for name in self._tree.all_names(self._directory)
            if name.endswith((suffix, suffix + SWAP))
        }

    def _refuse_damage(self) -> None:
        """Raise `_LeftAloneError` if a segment is damaged or an interrupted compaction left `.swap` files. Every batch
        is read and its checksum verified, because cleaning would give damaged records a valid checksum. Raises
        `StorageError` if a log cannot be read.
        """
        names = self._tree.all_names(self._directory)
        if any(name.endswith(SWAP) for name in names):
            raise _LeftAloneError(Sentence("a compaction of it was interrupted; ", self._repairs))
        bases = sorted(
            parsed.base_offset
            for parsed in map(parse_segment_file, names)
            if parsed is not None and parsed.kind is FileKind.LOG and not parsed.pending
        )
        for name in names:
            parsed = parse_segment_file(name)
            if parsed is None or parsed.kind is not FileKind.LOG or parsed.pending:
                continue
            finding = self._first_damage(
                name, parsed.base_offset, next((base for base in bases if base > parsed.base_offset), None)
            )
            if finding is not None:
                raise self._damaged(finding)

    def _damaged(self, finding: Finding) -> _LeftAloneError:
        why = Sentence(f"it is damaged ({finding}), and cleaning would hide that; ", self._repairs)
        return _LeftAloneError(why, finding)

    def _first_damage(self, name: str, base: int, next_base: int | None) -> Finding | None:
        path = f"{self._directory}/{name}"
        finding, _end = first_damage(self._tree.source(path), base, next_base, self._tree.headers(path))
        return None if finding is None else finding.in_file(path)

    def _load(self, before: dict[str, object]) -> tuple[LogLoader, LoadedLog]:
        untouched = self._tree.copy()
        try:
            loader = self._loader(self._tree, self._config)
            loaded = loader.load()
        except JavaError as error:
            why = Sentence(f"a broker would not open it ({error}); ", self._way_out(untouched))
            raise _LeftAloneError(why) from error
        if self._logs() != before:
            raise _LeftAloneError(Sentence("a broker's start would change its log; ", self._repairs))
        if is_kraft(self._tree) and topic_id_or_none(self._tree, self._directory) is None:
            unknown = "it has no topic id, so that a broker would not recognize it as its own; "
            raise _LeftAloneError(Sentence(unknown, self._gives_id))
        return loader, loaded

    def _loader(self, tree: Tree, config: CleanerConfig) -> LogLoader:
        points, starts = self._checkpoints
        request = LoadRequest(
            directory=self._directory,
            settings=config,
            now_ms=self._now_ms,
            clean=tree.exists(CLEAN_SHUTDOWN_FILE),
            recovery_point=points.get(self._key, 0),
            log_start_offset=starts.get(self._key, 0),
        )
        return LogLoader(tree, request)

    def _way_out(self, untouched: Tree) -> str:
        """Return advice for a log that a broker would not open. It names larger index settings if the log loads with
        them, and otherwise recovery. `untouched` is the tree before the failed load. The attempt changes this tree.
        Raises `StorageError` if a file cannot be read.
        """
        config, usual = self._config, CleanerConfig()
        roomy = structs.replace(
            config,
            segment_index_bytes=max(config.segment_index_bytes, usual.segment_index_bytes),
            index_interval_bytes=max(config.index_interval_bytes, usual.index_interval_bytes),
        )
        if roomy == config:
            return self._repairs
        try:
            self._loader(untouched, roomy).load()
        except JavaError:
            return self._repairs
        return (
            f"segment.index.bytes={config.segment_index_bytes} does not fit its indexes (index.interval.bytes="
            f"{config.index_interval_bytes}): give the settings that its topic had, or a larger segment.index.bytes"
        )

    def _clean(self, log: CleanableLog, dirty: Dirty, made: CompactedPartition) -> None:
        cleaner = Cleaner(log, dirty, self._now_ms)
        made.cleaned_to = dirty.first_offset
        try:
            made.cleaned_to = cleaner.clean()
        except FormatError as error:
            code = FindingCode(error.code) if error.code else FindingCode.MESSAGE_INVALID
            finding = Finding(code, Severity.ERROR, error.position, None, error.message, error.source)
            raise self._damaged(finding.in_file(finding.file or self._directory)) from error
        except (OffsetOverflowError, JavaIOError) as error:
            raise _LeftAloneError(f"a broker's cleaner would fail at it ({error})") from error
        except JavaError as error:
            made.problem = f"a broker marks it as one that cannot be cleaned: {error.java_class}: {error}"
            if isinstance(error, FullIndexError):
                made.problem += f" (segment.index.bytes={self._config.segment_index_bytes} is too small for it)"
        self._groups = cleaner.groups
        counts = cleaner.counts
        made.records_read = counts.records_read
        made.records_dropped = counts.records_read - counts.records_kept
        made.records_without_key = counts.records_without_key


def _size(log: CleanableLog) -> int:
    return sum(segment.log.size for segment in log.segments.all())


def _repairs(root: str) -> Sentence:
    return Sentence(Advice("{} repairs it", Ask.RECOVER, {"root": root}))
