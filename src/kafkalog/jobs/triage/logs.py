"""What each broker will have of each partition once it is up: its logs after its own start has cut torn ends.

The model of a broker's start (`forecast`) runs on each log directory; nothing is changed.  A partition that should be
in a directory and is not there is made by the broker, and is empty.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from kafkalog.codec.errors import FormatError, StorageError
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    DirectoryState,
    FileKind,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.codec.text import LeaderEpoch, decode_leader_epochs
from kafkalog.copies.common_history import Lineage
from kafkalog.copies.volumes import reason
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.workers import OnProgress, Workers
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.forecast import load_directory
from kafkalog.recovery.broker.identity import with_identity
from kafkalog.recovery.broker.manager import LoadedPartition, StartResult
from kafkalog.recovery.broker.node.answer import ConsequenceKind, StartOutcome
from kafkalog.recovery.broker.node.sentences import node_findings, node_sentences
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, settled
from kafkalog.recovery.facts.survey import survey
from kafkalog.recovery.modes.table import Mode

__all__ = ["BrokerDisks", "ReplicaLog", "read_brokers", "unread"]

Key = tuple[str, int]
_READ = (DirectoryState.LIVE, DirectoryState.FUTURE)
_TAKES = (ConsequenceKind.DELETED, ConsequenceKind.STRAY, ConsequenceKind.FUTURE_TRUNCATED)


class ReplicaLog(Struct, frozen=True):
    """One broker's log of a partition, as the broker will have it when it is up."""

    node: int
    path: str | None
    """the partition directory; None where the broker will make an empty one"""
    start: int
    end: int
    lineage: Lineage
    high_watermark: int | None = None
    """the last that the broker wrote down: below it everything was committed"""
    cut_bytes: int = 0
    """bytes of segments that the broker's own start removes, beginning at `end`: damage, and all after it"""

    @property
    def rank(self) -> tuple[int, int]:
        """What makes one copy go further than another: its last leader epoch, then its end."""
        last = self.lineage.last_epoch
        return (-1 if last is None else last), self.end


class BrokerDisks(Struct):
    """The log directories of one broker, as far as they were given."""

    node: int
    directories: list[LogDir]
    beside: Sequence[str] = ()
    """directories that do not say whose they are, and that are this broker's as far as is known"""
    logs: dict[Key, ReplicaLog] = {}
    futures: dict[str, tuple[Key, ReplicaLog]] = {}
    """path of a `-future` directory -> partition, and its log"""
    lost_by_start: list[str] = []
    """what its start takes from directories that are put away or half moved, in sentences"""
    online: list[LogDir] = []
    """those that its start does not take offline"""
    refusal: str | None = None
    """why it does not start"""
    is_whole: bool = True
    """all directories that it had are here, as far as is known: a log that is in none of them is gone"""

    @property
    def is_up(self) -> bool:
        """Whether it starts, with one directory at least."""
        return self.refusal is None and bool(self.online)

    @property
    def all_directory_ids(self) -> frozenset[str | None]:
        """The ids of its directories that are here; None for one that has none."""
        return frozenset(
            None if each.meta_properties is None else each.meta_properties.directory_id for each in self.directories
        )

    @property
    def directory_ids(self) -> tuple[str, ...] | None:
        """The ids of the directories that it has when it is up; None if one of them has none."""
        ids = [None if each.meta_properties is None else each.meta_properties.directory_id for each in self.online]
        return None if None in ids else tuple(each for each in ids if each is not None)

    def was_stopped(self, epoch: int) -> bool:
        """All of its directories say that the broker of this epoch was stopped in an orderly way."""
        return all(
            each.clean_shutdown is not None and each.clean_shutdown.broker_epoch == epoch for each in self.directories
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
    """Start each broker on a copy of its directories in memory; one that cannot be read is taken to stay down."""
    found: dict[int, BrokerDisks] = {}
    workers = Workers(jobs, on_progress)
    for node, log_dirs in sorted(directories.items()):
        disks = found[node] = BrokerDisks(node, list(log_dirs), beside.get(node, ()))
        known = LogSettings.from_server_properties(config or {})
        rules = settled(Recovery(mode=Mode.KAFKA, config=known), [each.path for each in log_dirs])
        for log_dir in log_dirs:
            try:
                _read(disks, log_dir, rules, workers, findings)
            except StorageError as error:
                findings.append(unread(log_dir.path, error))
                disks.refusal = f"{log_dir.path} cannot be read: {reason(error, log_dir.path)}"
        if disks.refusal is None:
            _ask_node(disks, rules, findings)
    return found


def _ask_node(disks: BrokerDisks, rules: Rules, findings: list[Finding]) -> None:
    """Note why the broker does not start if no release starts on its directories, whatever is in its logs.

    If it starts, note what becomes of directories that are `-future`, `-delete` or `-stray`.
    """
    roots = [each.path for each in disks.directories]
    start = node_start([*roots, *disks.beside], loads_others=False, now_ms=rules.at)
    if start.never_starts:
        disks.refusal = f"broker {disks.node}: {'; '.join(node_sentences(start))}"
        findings += node_findings(start)
        return
    answer = next(each for each in start.answers if each.outcome is not StartOutcome.FAILS)
    for each in answer.consequences:
        name = None if each.file is None else parse_partition_directory(os.path.basename(each.file))
        if name is None or not name.state.value or each.file is None:
            continue
        if each.kind in (ConsequenceKind.FUTURE_PROMOTED, ConsequenceKind.DELETED) and each.file in disks.futures:
            key, log = disks.futures[each.file]
            disks.logs[key] = log
        if each.kind in _TAKES:
            disks.lost_by_start.append(f"broker {disks.node}: {each.detail}")
    if disks.lost_by_start:
        findings += node_findings(start)


def unread(path: str, error: StorageError) -> Finding:
    """What could not be read of a directory."""
    place = os.fspath(error.filename) if isinstance(error.filename, str) else path
    return Finding.of(FindingCode.UNREADABLE, None, None, error.strerror or str(error), place)


def _read(disks: BrokerDisks, log_dir: LogDir, rules: Rules, workers: Workers, findings: list[Finding]) -> None:
    with survey(log_dir.path, on_read=workers.read) as listed:
        workers.begin("reading", {path: facts.size for path, facts in listed.files.items()})
        result = with_identity(load_directory(listed.tree(), rules, workers), listed.tree(), listed.root)
        if result.outcome != StartResult.LOADED:
            offline = result.outcome == StartResult.DIR_OFFLINE
            end = "takes the directory offline" if offline else "ends"
            why = f"the start of broker {disks.node} {end}: {result.exception}: {result.message}"
            findings.append(Finding.of(FindingCode.BROKER_REFUSES, None, None, why, log_dir.path))
            if not offline:
                disks.refusal = why
            return
        disks.online.append(log_dir)
        before = _segment_bytes({path: facts.size for path, facts in listed.files.items()})
        after = _segment_bytes({path: result.tree.source(path).size for path in result.tree.files})
        for each in result.partitions.values():
            name = parse_partition_directory(each.name)
            if name is None or name.state not in _READ or each.stray is not None:
                continue
            key = name.topic, name.partition
            cut = _cut_bytes(before.get(each.name, {}), after.get(each.name, {}), each.log_end_offset)
            log = _log(disks.node, log_dir, key, each, result.tree, cut)
            if name.state is DirectoryState.FUTURE:
                disks.futures[os.path.join(listed.root, each.name)] = key, log
            else:
                disks.logs[key] = log


def _segment_bytes(sizes: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """Partition directory -> base offset -> bytes of the segment, from the size of each file of a log directory."""
    found: dict[str, dict[int, int]] = {}
    for path, size in sizes.items():
        directory, _, name = path.rpartition("/")
        segment = parse_segment_file(name)
        if segment is not None and segment.kind is FileKind.LOG:
            found.setdefault(directory, {})[segment.base_offset] = size
    return found


def _cut_bytes(before: Mapping[int, int], after: Mapping[int, int], end: int) -> int:
    """Bytes that go from the segments at and after offset `end`; 0 if none do."""
    first = max((base for base in before if base <= end), default=0)
    return sum(max(size - after.get(base, 0), 0) for base, size in before.items() if base >= first)


def _log(node: int, log_dir: LogDir, key: Key, found: LoadedPartition, tree: Tree, cut_bytes: int) -> ReplicaLog:
    path = f"{found.name}/{LEADER_EPOCH_CHECKPOINT}"
    entries: list[LeaderEpoch] = []
    if path in tree.files:
        with suppress(FormatError):  # a broker's own file after its start: it was written by the model
            entries = decode_leader_epochs(tree.read(path))
    return ReplicaLog(
        node,
        f"{log_dir.path}/{found.name}",
        found.log_start_offset,
        found.log_end_offset,
        Lineage.of(entries, found.log_end_offset),
        log_dir.high_watermarks.get(key),
        cut_bytes,
    )
