"""How completely a coordinator's topic was read. This decides whether a missing name is unknown or certainly absent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.records.checkpoints import checkpoint_in
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.wording import first_of
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    DirectoryState,
    parse_partition_directory,
)
from kafkalog.log.directories.checkpoint_findings import checkpoint_findings
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.directories.lost_start import lost_start
from kafkalog.log.directories.missing_partitions import missing_directories
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import Partition, open_partition
from kafkalog.log.disk.files import is_directory, scan_directory
from kafkalog.log.walk.behind_damage import BehindDamage, tell_what_is_behind

__all__ = ["CoordinatorLogs", "coordinator_logs"]

_TAILS = codes_with(Trait.TAIL)
_HIDES = codes_with(Trait.HIDES_NAMES)
_NAMED = 3
_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT)


class CoordinatorLogs(Struct, frozen=True, kw_only=True):
    """The partitions of `__consumer_offsets` or `__transaction_state`, and how completely they were read."""

    topic: str
    count: int | None
    """number of partitions by the cluster's metadata beside them; None if unknown"""
    read: Mapping[int, str | None]
    """partitions that were read, with the reason why that was incomplete; None if it was complete"""
    lost: Mapping[int, str]
    """partitions that should be here and are missing, with the reason why that is known"""

    watermarked: frozenset[int]
    """partitions whose high watermark a checkpoint records"""

    @property
    def are_whole(self) -> bool:
        """Whether all known partitions were read completely."""
        return not self.lost and self._first_why(set(self.read).union(range(self.count or 0))) is None

    def is_whole(self, number: int) -> bool:
        """Whether a partition was read completely."""
        return number in self.read and self.read[number] is None

    def why_partial(self, number: int) -> str | None:
        """Return the reason why a partition is missing or was read incompletely; None if no reason is known."""
        return self.lost.get(number) or self.read.get(number)

    def first_partial(self) -> str | None:
        """Return the reason for the first partition that is missing or was read incompletely; None if there is none."""
        return next(filter(None, map(self.why_partial, sorted({*self.read, *self.lost}))), None)

    def why_unknown(self, name: str | None, count: int | None = None) -> str | None:
        """Return the reason why an object that was not read may still exist, as text. Return None if all examined
        partitions were read completely, or if no partition is known.

        `name` is the object's key: a group or a transactional id. If it is None, the object may be in any partition, so
        all known partitions are examined. If the metadata states the number of partitions, only the partition for the
        hash of `name` is examined. Otherwise `count` is that number, and all other known partitions are examined too,
        because `count` may be wrong. If neither number is known, all known partitions are examined.
        """
        known = self.count or count
        if name is None or known is None:
            return self._first_why({*self.read, *self.lost, *range(known or 0)})
        number = coordinator_partition(name, known)
        return self._first_why({number} if self.count is not None else {number, *self.read, *self.lost})

    def not_here(self) -> list[Finding]:
        """Return one warning about the partitions that exist by the cluster's metadata, but were not read and are not
        in `lost`. It has their number and names the first `_NAMED`. Empty if there are none, or if no partition of the
        topic was read.
        """
        numbers = sorted({*range(self.count or 0)} - {*self.read, *self.lost}) if self.read else []
        if not numbers:
            return []
        names = first_of([f"{self.topic}-{number}" for number in numbers], _NAMED)
        detail = (
            f"{len(numbers)} of the {self.count} partitions of {self.topic} {'is' if len(numbers) == 1 else 'are'} not "
            f"in the given paths ({names}), so the answer lacks their records; give the other log directories too"
        )
        return [Finding.of(FindingCode.PARTITION_MISSING, None, None, detail)]

    def _first_why(self, numbers: Iterable[int]) -> str | None:
        for number in sorted(numbers):
            if self.why_partial(number) is not None:
                return self.why_partial(number)
            if number not in self.read:
                return f"{self.topic}-{number}, where its coordinator keeps it, is not among what was read"
        return None


def coordinator_logs(
    partitions: Sequence[Partition], topic: str, findings: list[Finding], limits: Limits = DEFAULT_LIMITS
) -> CoordinatorLogs:
    """Determine which partitions of `topic` were read completely, and which are missing. `partitions` are all
    partitions that were read. Partitions of other topics only show which log directories were read.

    `findings` are the findings of that reading. Findings about missing directories, segments and ends of logs are
    appended to it. Reads checkpoints and the cluster's metadata in the log directories; those that cannot be read count
    as missing. Raises `StorageError` if other files cannot be read, and no other error of this library.
    """
    of_topic = [each for each in partitions if each.topic == topic and each.partition is not None]
    for partition in of_topic:
        findings += [*_short(partition, findings, limits)]
    read = {each.partition or 0: _why(each, findings) for each in of_topic}
    roots = dict.fromkeys(os.path.dirname(each.path) for each in partitions if is_directory(each.path))
    count, lost = None, dict[int, str]()
    for root in roots:
        known = _known(root, topic)
        count = max(count or 0, known.count) or None
        here = {os.path.basename(each.path) for each in partitions if os.path.dirname(each.path) == root}
        for number, finding in _lost_in(root, topic, set(read), known, here):
            lost[number] = _as_reason(finding)
            findings.append(finding)
    watermarked = frozenset(each.partition or 0 for each in of_topic if _watermark(each) is not None)
    return CoordinatorLogs(topic=topic, count=count, read=read, lost=lost, watermarked=watermarked)


def _short(partition: Partition, earlier: Sequence[Finding], limits: Limits) -> Iterable[Finding]:
    """Yield findings about the missing beginning or end of a live partition's log. Yields nothing for a stray, deleted
    or future replica, or if the partition is not a directory.

    The log is compared with its leader epochs and its checkpoints of log start offset and high watermark, which are
    read from disk. A checkpoint that cannot be read counts as missing. `earlier` are the findings so far, including the
    damage of the partition's segments. Raises `StorageError` if another file cannot be read.
    """
    name = partition.name
    if name is None or name.state is not DirectoryState.LIVE or not is_directory(partition.path):
        return
    root, key = os.path.dirname(partition.path), (name.topic, name.partition)
    start = (checkpoint_in(root, LOG_START_OFFSET_CHECKPOINT) or {}).get(key, 0)
    end = partition.log_end_offset(limits=limits)
    behind = tell_what_is_behind([*earlier], partition.segments, log_start=start, limits=limits) or BehindDamage()
    yield from checkpoint_findings(partition, end, start, _watermark(partition), end_behind=behind.next_offset)
    if partition.segments:
        # a compacted log keeps its first segment, so without epochs, which follow the start, it is 0 or checkpointed
        epochs = [leader_epoch.start_offset for leader_epoch in partition.leader_epochs] or [start]
        gone = lost_start([entry.name for entry in scan_directory(partition.path)], epochs, is_remote=False)
        bases = [segment.base_offset for segment in partition.segments]
        yield from () if gone is None else missing_segments(partition.path, [gone], start, bases)


def _watermark(partition: Partition) -> int | None:
    known = checkpoint_in(os.path.dirname(partition.path), REPLICATION_OFFSET_CHECKPOINT) or {}
    return known.get((partition.topic or "", partition.partition or 0))


def _why(partition: Partition, findings: Iterable[Finding]) -> str | None:
    """Describe the first finding about a partition's files that may hide records; return None if there is none. Every
    error may hide records. So may warnings about missing segments, unknown record versions, records that were removed
    since, and a log that ends below its high watermark.

    Damage at the end of the log is ignored if a high watermark is recorded. If the log ends below it, there is another
    finding about that.
    """
    own = [each for each in findings if each.file is not None
           and (each.file == partition.path or each.file.startswith(os.path.join(partition.path, "")))]  # fmt: skip
    for finding in own:
        if finding.code in _TAILS and _watermark(partition) is not None:
            continue  # else a finding says that the log ends below it
        if finding.severity is Severity.ERROR or finding.code in _HIDES:
            return _as_reason(finding)
    return None


def _as_reason(finding: Finding) -> str:
    return f"{finding.code.value} ({finding.file}): {finding.detail}"


class _Known(Struct, frozen=True):
    """Facts about the topic from the cluster's metadata in a log directory."""

    count: int = 0
    assigned: frozenset[tuple[str, int]] = frozenset()
    """partitions that are assigned to this log directory"""


def _known(root: str, topic: str) -> _Known:
    path = os.path.join(root, CLUSTER_METADATA_DIRECTORY)
    if not is_directory(path):
        return _Known()
    try:
        state = MetadataLog(open_partition(path)).state()
    except KafkaLogError:
        return _Known()
    known = state.image.topics.get(topic)
    if known is None or any(each.severity is Severity.ERROR and each.code not in _TAILS for each in state.findings):
        return _Known()
    node, directory = _identity(root)
    assigned = {
        (topic, number)
        for number, image in known.partitions.items()
        if node in image.replicas and len(image.directories) == len(image.replicas) and directory is not None
        and image.directories[image.replicas.index(node)] == directory
    }  # fmt: skip
    return _Known(len(known.partitions), frozenset(assigned))


def _identity(root: str) -> tuple[int, str | None]:
    meta = meta_properties_of(root)
    if meta is None:
        return -1, None
    return (-1 if meta.node_id is None else int(meta.node_id)), meta.directory_id


def _lost_in(root: str, topic: str, read: set[int], known: _Known, here: set[str]) -> Iterable[tuple[int, Finding]]:
    """Yield (partition number, finding) for each partition of `topic` that is missing in the log directory `root`. A
    partition is expected there if a checkpoint file or `known.assigned` names it. `read` has the numbers of the
    partitions that were read in any directory; these are never yielded. `here` has the names of the directories in
    `root` that were read.

    Yields nothing if `root` may not have been read as a whole: if it has a live partition of the topic that is not in
    `read`; or if it has none of the topic, and a live partition of another topic, except the metadata log, is not in
    `here`. A checkpoint file that cannot be read counts as missing. Raises `StorageError` if `root` cannot be listed.
    """
    names = [entry.name for entry in scan_directory(root)]
    parsed = {name: directory for name in names if (directory := parse_partition_directory(name)) is not None}
    there = {(directory.topic, directory.partition) for directory in parsed.values()}
    live = {name: directory for name, directory in parsed.items() if directory.state is DirectoryState.LIVE}
    of_topic = {directory.partition for directory in live.values() if directory.topic == topic}
    are_all_read = live.keys() - {CLUSTER_METADATA_DIRECTORY} <= here
    if not of_topic <= read or not (of_topic or are_all_read):
        return
    checkpoints = {
        name: {key: offset for key, offset in (checkpoint_in(root, name) or {}).items() if key[0] == topic}
        for name in _CHECKPOINTS
    }
    findings = missing_directories(there, set(names), checkpoints, known.assigned)
    for finding in findings:
        directory = parse_partition_directory(finding.file or "")
        if directory is not None and directory.partition not in read:
            yield directory.partition, finding.in_file(os.path.join(root, finding.file or ""))
