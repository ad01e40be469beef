"""Check a log directory as a whole, and collect the facts in it with which its partitions are compared. All commands
use these functions.

The findings do not depend on whether a directory and its partitions are checked one after another or in separate
processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.codec.common.findings import Finding
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import REMOTE_LOG_METADATA_TOPIC, DirectoryState
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import real, scan_directory
from kafkalog.recovery.broker.start_question import ANYTHING, StartQuestion
from kafkalog.recovery.checks.checkpoint_checks import Beside
from kafkalog.recovery.checks.lost_and_found import EndsAt, batches_outside
from kafkalog.recovery.checks.lost_directories import read_only_finding
from kafkalog.recovery.checks.missing_partitions import missing_partitions_of
from kafkalog.recovery.checks.moments import Reached, different_moments
from kafkalog.recovery.checks.owners import other_owners, shared_files
from kafkalog.recovery.checks.report import BrokerStart
from kafkalog.recovery.checks.unfinished_moves import unfinished_moves
from kafkalog.recovery.facts.brokers import brothers_of
from kafkalog.recovery.facts.topic_facts import TopicFacts, read_topic_facts
from kafkalog.tiers.tiering import NO_TIERING, LocalStart

if TYPE_CHECKING:
    from kafkalog.recovery.checks.broker_start import Loading

__all__ = ["AsListed", "beside_of", "in_no_log_directory", "listed_findings", "lost_starts"]


def listed_findings(log_dir: LogDir, facts: TopicFacts | None) -> list[Finding]:
    """Return the findings about a log directory for which no log has to be read, with absolute paths. `facts` come from
    its broker's metadata log; pass None if only some of the partitions are selected.

    With None, the result has only the findings in `log_dir` itself. Otherwise it also has findings about missing
    partitions, unfinished moves, a read-only file system, files of another owner, and files that partitions share.
    Raises `StorageError` if a directory cannot be listed.
    """
    findings = [*log_dir.findings]
    if facts is not None:
        findings += missing_partitions_of(log_dir, facts)
        findings += unfinished_moves(
            log_dir.path, (os.path.basename(partition.path) for partition in log_dir.partitions), facts.roots
        )
        findings += read_only_finding(log_dir.path, facts)
        findings += other_owners(log_dir.path, facts)
        findings += shared_files(log_dir.path)
    return findings


class AsListed:
    """A log directory as it was listed, before its logs are read. `facts` are the same as for `listed_findings`."""

    def __init__(self, log_dir: LogDir, facts: TopicFacts, asked: StartQuestion = ANYTHING) -> None:
        from kafkalog.recovery.checks import broker_start  # the whole model of the broker

        self._log_dir = log_dir
        self.facts = facts
        self._asked = asked
        self._start = broker_start
        self._survey = broker_start.surveyed(log_dir.path)
        self._findings = listed_findings(log_dir, facts)

    def checked(
        self, ends_at: EndsAt, reached: Reached, tables: HeaderTables | None = None, *, jobs: int = 1
    ) -> tuple[Loading, list[Finding]]:
        """Load the logs in the model of the broker. Return the result (`loading`), and the findings about the directory
        as a whole, without its start.

        `ends_at` says whether a log ends at an offset, and `reached` up to which offset it may have been written.
        `tables` has headers of logs that were read meanwhile; `jobs` partitions are loaded at a time.
        """
        outside = batches_outside(self._log_dir, ends_at)
        loaded = self._start.loading(self._survey, tables, jobs=jobs, facts=self.facts)
        moments = different_moments(self._log_dir, reached)
        return loaded, [*self._findings, *outside, *moments]

    def started(self, loadings: Mapping[str, Loading]) -> tuple[BrokerStart, list[Finding]]:
        """Return the forecast of a broker's start on the directory, and the findings about it. `loadings` are the
        results of `checked` for all directories, by path.
        """
        return self._start.broker_start(self._log_dir.path, loadings, self.facts, self._asked)


def beside_of(log_dir: LogDir, log_dirs: Sequence[LogDir] = (), facts: TopicFacts | None = None) -> Beside:
    """Return the facts of a log directory with which its partitions are compared, for `verify_beside`. `log_dirs` may
    be other log directories of its broker. `facts` come from the broker's metadata log; their tiering is used only if
    the first segment of some partition does not begin at 0. If `facts` is None, they are read here in this case only.
    Raises `StorageError` if the directory cannot be listed.
    """
    names = [entry.name for entry in scan_directory(log_dir.path)]
    begin_late = any(partition.segments and partition.segments[0].base_offset for partition in log_dir.partitions)
    if begin_late and facts is None:
        facts = read_topic_facts(brothers_of(log_dir.path, [each.path for each in log_dirs]))
    tiering = facts.tiering if begin_late and facts is not None else NO_TIERING
    tiering = tiering.with_checkpoint(names, log_dir.log_start_offsets)
    return Beside.of(log_dir, tiering, None if facts is None else facts.leader_epochs)


def lost_starts(broker: Sequence[LogDir]) -> Mapping[str, LocalStart]:
    """Return the start of each live log that has lost offsets below its first segment, by the path of its partition
    directory; empty if there is none. `broker` has all log directories of one broker. Reads the broker's metadata log
    and tiered-storage events only if some log looks incomplete. The log end offset is not computed. Raises
    `StorageError` if a directory cannot be listed.
    """
    late = {log_dir.path: [each for each in log_dir.partitions if _begins_late(each)] for log_dir in broker}
    if any(late.values()) and not any(map(_has_remote_metadata, broker)):  # then a start that is there stays so
        alone = Beside()
        late = {path: [log for log in logs if _is_lost(alone.local_start(log, 0))] for path, logs in late.items()}
    if not any(late.values()):
        return {}
    facts = read_topic_facts([real(each.path) for each in broker])
    starts = {}
    for log_dir in broker:
        beside = beside_of(log_dir, facts=facts)
        for partition in late[log_dir.path]:
            # where the log ends decides only where its start is said to be, not what is lost below the first segment
            start = beside.local_start(partition, 0)
            if start is not None and _is_lost(start):
                starts[partition.path] = start
    return starts


def _begins_late(partition: Partition) -> bool:
    is_live = partition.state is DirectoryState.LIVE
    return is_live and bool(partition.segments) and partition.segments[0].base_offset > 0


def _has_remote_metadata(log_dir: LogDir) -> bool:
    return any(entry.name.startswith(REMOTE_LOG_METADATA_TOPIC) for entry in scan_directory(log_dir.path))


def _is_lost(local_start: LocalStart | None) -> bool:
    return local_start is not None and local_start.lost is not None


def in_no_log_directory(inventory: Inventory) -> list[Partition]:
    """Return the partitions that were passed by their own path and are in no checked log directory."""
    if not inventory.standalone:
        return []
    counted = {real(partition.path) for log_dir in inventory.log_dirs for partition in log_dir.partitions}
    return [partition for partition in inventory.standalone if real(partition.path) not in counted]
