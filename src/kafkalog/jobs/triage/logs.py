"""Read each broker's logs in the state that they have after the broker's own start has truncated torn tails."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.files.text import LeaderEpoch, decode_leader_epochs
from kafkalog.codec.model import ProducerEntry
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    DirectoryState,
    FileKind,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.volumes import reason
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.disk.files import absolute
from kafkalog.log.storage.java import as_printed
from kafkalog.log.storage.producers.snapshots import newest_entries
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.forecast import load_directory
from kafkalog.recovery.broker.identity import with_identity
from kafkalog.recovery.broker.manager import LoadedPartition, StartResult
from kafkalog.recovery.broker.node.answer import (
    ID_OF_ANOTHER_TOPIC,
    OF_OLDER_LOGS,
    ConsequenceKind,
    OlderCopyConsequence,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.older_copies import live_entries
from kafkalog.recovery.broker.node.releases import NEWEST, release_of
from kafkalog.recovery.broker.node.sentences import (
    is_lost_and_emptied,
    node_findings,
    node_sentences,
    sentence_of_consequence,
)
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.checks.deleted_beyond_end import DeletedBeyondEnd, beyond_end_in
from kafkalog.recovery.checks.missing_partitions import topic_id_in
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, settled
from kafkalog.recovery.facts.survey import LINKED_DIRECTORY, Survey, survey
from kafkalog.recovery.facts.unreadable import unreadable_directories, why_not_predicted
from kafkalog.recovery.modes.table import Mode

__all__ = ["BrokerDisks", "ReplicaLog", "empty_log", "read_brokers", "topic_id_of", "unread"]

Key = tuple[str, int]
_READ = (DirectoryState.LIVE, DirectoryState.FUTURE)
_TAKES = (ConsequenceKind.DELETED, ConsequenceKind.STRAY, ConsequenceKind.FUTURE_TRUNCATED)


class ReplicaLog(Struct, frozen=True, kw_only=True):
    """One broker's log of a partition, as the broker will have it when it is up."""

    node: int
    path: str | None
    """the partition directory; None if the broker will create an empty one"""
    start: int
    end: int
    lineage: Lineage
    high_watermark: int | None = None
    """the last that the broker wrote: below it everything was committed; None if unknown"""
    cut_bytes: int = 0
    """bytes of segments that the broker's own start removes from offset `end` on: damage, and everything after it"""
    topic_id: str | None = None
    """as `partition.metadata` says; None without it"""
    producer_id: int = -1
    """highest id of a producer that has not expired; -1 without one"""

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key for how far a copy reaches: last leader epoch (-1 without one), then end offset."""
        last = self.lineage.last_epoch
        return (-1 if last is None else last), self.end


def empty_log(node: int) -> ReplicaLog:
    """Return the log of a partition that a broker begins at offset 0."""
    return ReplicaLog(node=node, path=None, start=0, end=0, lineage=Lineage((), 0))


class BrokerDisks(Struct, kw_only=True):
    """Log directories of one broker that are among the given paths, and the effect of the broker's start on them."""

    node: int
    directories: list[LogDir]
    beside: Sequence[str] = ()
    """directories that do not name their broker, and belong to this one as far as is known"""
    logs: dict[Key, ReplicaLog] = {}
    futures: dict[str, tuple[Key, ReplicaLog]] = {}
    """path of a `-future` directory -> partition and log"""
    lost_by_start: list[str] = []
    """what its start removes from deleted, stray or future directories, or begins again empty, and which logs are
    older than the metadata; in sentences
    """
    deleted: dict[Key, DeletedBeyondEnd] = {}
    """deleted segments, which its start removes, with records at or beyond the end of their log"""
    online: list[LogDir] = []
    """directories that its start does not take offline"""
    refusal: str | None = None
    """why it does not start; None if it does"""
    misidentified: frozenset[Key] = frozenset()
    """partitions whose `partition.metadata` has the topic id of another topic in the metadata: the log stays, and is
    not served
    """
    is_whole: bool = True
    """whether all its known directories are here, so that a log in none of them is gone"""

    @property
    def is_up(self) -> bool:
        """Whether the broker starts, with at least one directory."""
        return self.refusal is None and bool(self.online)

    @property
    def lacks_directories(self) -> bool:
        """Whether one of its known directories is not here or goes offline."""
        return not self.is_whole or len(self.online) != len(self.directories)

    @property
    def all_directory_ids(self) -> frozenset[str | None]:
        """Ids of its given directories; None for a directory without an id."""
        return frozenset(
            None if log_dir.meta_properties is None else log_dir.meta_properties.directory_id
            for log_dir in self.directories
        )

    @property
    def directory_ids(self) -> tuple[str, ...] | None:
        """Ids of its directories that are online; None if one of them has none."""
        metas = [log_dir.meta_properties for log_dir in self.online]
        ids = [None if meta is None else meta.directory_id for meta in metas]
        return None if None in ids else tuple(directory_id for directory_id in ids if directory_id is not None)

    def was_stopped(self, epoch: int) -> bool:
        """Whether every directory has a clean-shutdown marker of the broker with this broker epoch."""
        return all(
            log_dir.clean_shutdown is not None and log_dir.clean_shutdown.broker_epoch == epoch
            for log_dir in self.directories
        )


def read_brokers(
    directories: Mapping[int, Sequence[LogDir]],
    beside: Mapping[int, Sequence[str]],
    *,
    config: Mapping[str, str] | None = None,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
    findings: list[Finding],
) -> dict[int, BrokerDisks]:
    """Simulate the start of each broker on its directories; return the result by broker id, in ascending order. Nothing
    on disk is changed.

    `beside` are further directories of a broker, which are empty or name no broker. `config` are the broker's settings.
    A broker with a directory that cannot be read gets a `refusal` and a finding, and is assumed to stay down. `jobs` is
    the number of worker processes, `on_progress` is called with a `ProgressState`. Findings are appended to `findings`.
    Raises `UsageError` for an invalid setting, `StorageError` if the metadata log cannot be read.
    """
    brokers: dict[int, BrokerDisks] = {}
    workers = Workers(jobs, on_progress)
    for node, log_dirs in sorted(directories.items()):
        disks = brokers[node] = BrokerDisks(node=node, directories=list(log_dirs), beside=beside.get(node, ()))
        known = LogSettings.from_server_properties(config or {})
        rules = settled(Recovery(mode=Mode.KAFKA, config=known), [log_dir.path for log_dir in log_dirs])
        for log_dir in log_dirs:
            try:
                _read(disks, log_dir, rules, workers, findings)
            except StorageError as error:
                findings.append(unread(log_dir.path, error))
                disks.refusal = f"{log_dir.path} cannot be read: {reason(error, log_dir.path)}"
        if disks.refusal is None:
            _ask_node(disks, rules, findings)
    return brokers


def _ask_node(disks: BrokerDisks, rules: Rules, findings: list[Finding]) -> None:
    """Simulate the start of the whole node without its logs, and change `disks`. If no release starts, set `refusal`.
    Otherwise remove the directories that go offline, with their logs, and add promoted `-future` logs to `logs`. Set
    `misidentified`. Add a sentence to `lost_by_start` for each loss: a `-future`, `-delete` or `-stray` directory that
    the start changes or removes, a log older than the metadata, a lost directory, or misidentified partitions.

    Findings are appended to `findings` if the broker never starts, if `lost_by_start` is not empty, or if a directory
    goes offline. Raises `StorageError` if the metadata log cannot be read.
    """
    roots = [log_dir.path for log_dir in disks.directories]
    start = node_start([*roots, *disks.beside], loads_others=False, now_ms=rules.at)
    if start.never_starts:
        disks.refusal = f"broker {disks.node}: {'; '.join(node_sentences(start))}"
        findings += node_findings(start)
        return
    answer = next(answer for answer in start.answers if answer.outcome is not StartOutcome.FAILS)
    offline = [each for each in answer.consequences if each.kind is ConsequenceKind.DIRECTORY_OFFLINE]
    _take_offline(disks, offline)
    misidentified = {fault.file for fault in start.faults if fault.kind == ID_OF_ANOTHER_TOPIC}
    names = [parse_partition_directory(os.path.basename(os.path.dirname(path))) for path in misidentified]
    disks.misidentified = frozenset((name.topic, name.partition) for name in names if name is not None)
    for consequence in answer.consequences:
        if consequence.file in misidentified:
            disks.lost_by_start.append(f"broker {disks.node}: {consequence.detail}")
            continue
        is_older = isinstance(consequence, OlderCopyConsequence) and consequence.kind in OF_OLDER_LOGS
        if is_older or is_lost_and_emptied(consequence):
            disks.lost_by_start.append(f"broker {disks.node}: {sentence_of_consequence(consequence)}")
        name = None if consequence.file is None else parse_partition_directory(os.path.basename(consequence.file))
        if name is None or not name.state.value or consequence.file is None:
            continue
        if (
            consequence.kind in (ConsequenceKind.FUTURE_PROMOTED, ConsequenceKind.DELETED)
            and consequence.file in disks.futures
        ):
            key, log = disks.futures[consequence.file]
            disks.logs[key] = log
        if consequence.kind in _TAKES:
            disks.lost_by_start.append(f"broker {disks.node}: {consequence.detail}")
    if disks.lost_by_start or offline:
        findings += node_findings(start)


def _take_offline(disks: BrokerDisks, offline: Sequence[StartConsequence]) -> None:
    """Remove the directories that a start takes offline from `disks.online`, and their logs from `disks.logs`. Each of
    `offline` is about such a directory, or about a file or partition directory in it.
    """
    files = {absolute(consequence.file) for consequence in offline if consequence.file is not None}
    roots = files | {os.path.dirname(file) for file in files}
    gone = {log_dir.path for log_dir in disks.online if absolute(log_dir.path) in roots}
    disks.online = [log_dir for log_dir in disks.online if log_dir.path not in gone]
    disks.logs = {key: log for key, log in disks.logs.items() if os.path.dirname(log.path or "") not in gone}


def unread(path: str, error: StorageError) -> Finding:
    """Return an UNREADABLE finding about the file that caused the error; if the error names none, about `path`."""
    place = os.fspath(error.filename) if isinstance(error.filename, str) else path
    return Finding.of(FindingCode.UNREADABLE, None, None, error.strerror or str(error), place)


def _read(disks: BrokerDisks, log_dir: LogDir, rules: Rules, workers: Workers, findings: list[Finding]) -> None:
    with _surveyed(log_dir.path, workers) as listed:
        workers.begin("reading", {path: facts.size for path, facts in listed.files.items()})
        result = with_identity(load_directory(listed.tree(), rules, workers), listed.tree(), listed.root)
        if result.outcome != StartResult.LOADED:
            offline = result.outcome == StartResult.DIR_OFFLINE
            end = "takes the directory offline" if offline else "ends"
            why = f"the start of broker {disks.node} {end}: {as_printed(result.exception, result.message)}"
            findings.append(Finding.of(FindingCode.BROKER_REFUSES, None, None, why, log_dir.path))
            if not offline:
                disks.refusal = why
            return
        disks.online.append(log_dir)
        before = _segment_bytes({path: facts.size for path, facts in listed.files.items()})
        after = _segment_bytes({path: result.tree.source(path).size for path in result.tree.files})
        for partition in result.partitions.values():
            name = parse_partition_directory(partition.name)
            if name is None or name.state not in _READ or partition.stray is not None:
                continue
            key = name.topic, name.partition
            cut = _cut_bytes(before.get(partition.name, {}), after.get(partition.name, {}), partition.log_end_offset)
            entries = newest_entries(result.tree, partition.name) or ()
            producers = live_entries(entries, rules.server, rules.now_ms, release_of(NEWEST))
            log = _log(disks.node, log_dir, key, partition, result.tree, cut, producers)
            if name.state is DirectoryState.FUTURE:
                disks.futures[os.path.join(listed.root, partition.name)] = key, log
            else:
                disks.logs[key] = log
                deleted = beyond_end_in(listed.tree(), partition.name)
                disks.deleted |= {} if deleted is None else {key: deleted}


def _surveyed(path: str, workers: Workers) -> Survey:
    """Survey a log directory; a link to a directory is followed, as by a broker. Raises `StorageError` if something
    that a start reads cannot be read, such as a link in place of a file.
    """
    listed = survey(path, on_read=workers.read)
    error = why_not_predicted(unreadable_directories(listed))
    if error is None and LINKED_DIRECTORY not in listed.special.values():
        return listed
    listed.close()
    if error is not None:
        raise error
    return survey(path, on_read=workers.read, follows=True)


def _segment_bytes(sizes: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """Return the size in bytes of each segment's `.log` file, by partition directory and then base offset. `sizes` are
    the sizes of all files by path. Files with a suffix after `.log`, such as `.deleted`, are left out.
    """
    segments: dict[str, dict[int, int]] = {}
    for path, size in sizes.items():
        directory, _, name = path.rpartition("/")
        segment = parse_segment_file(name)
        if segment is not None and segment.kind is FileKind.LOG and not segment.pending:
            segments.setdefault(directory, {})[segment.base_offset] = size
    return segments


def _cut_bytes(before: Mapping[int, int], after: Mapping[int, int], end: int) -> int:
    """Number of bytes removed from the segment that holds offset `end` and the segments after it. `before` and `after`
    are sizes in bytes by base offset.
    """
    first = max((base for base in before if base <= end), default=0)
    return sum(max(size - after.get(base, 0), 0) for base, size in before.items() if base >= first)


def _log(
    node: int,
    log_dir: LogDir,
    key: Key,
    loaded: LoadedPartition,
    tree: Tree,
    cut_bytes: int,
    producers: Iterable[ProducerEntry],
) -> ReplicaLog:
    path = f"{loaded.name}/{LEADER_EPOCH_CHECKPOINT}"
    entries: list[LeaderEpoch] = []
    if path in tree.files:
        with suppress(FormatError):  # a broker's own file after its start: it was written by the model
            entries = decode_leader_epochs(tree.read(path))
    return ReplicaLog(
        node=node,
        path=f"{log_dir.path}/{loaded.name}",
        start=loaded.log_start_offset,
        end=loaded.log_end_offset,
        lineage=Lineage.of(entries, loaded.log_end_offset),
        high_watermark=log_dir.high_watermarks.get(key),
        cut_bytes=cut_bytes,
        topic_id=topic_id_of(f"{log_dir.path}/{loaded.name}"),
        producer_id=max((entry.producer_id for entry in producers), default=-1),
    )


def topic_id_of(directory: str) -> str | None:
    """Return the topic id in a partition directory's `partition.metadata`; None if the file is missing, malformed or
    cannot be read.
    """
    with suppress(StorageError):
        return topic_id_in(directory)
    return None
