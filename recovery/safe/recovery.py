"""Recover a whole log directory in mode safe, one topic-partition at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    CLUSTER_METADATA_TOPIC_ID,
    DirectoryState,
    PartitionName,
)
from kafkalog.log.directories.workers import Group, Workers, groups_of
from kafkalog.log.storage.producers.snapshots import newest_entries
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.changed_files import changed_files
from kafkalog.recovery.broker.manager import BrokerResult, StartResult, read_checkpoints
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.safe.normalize import (
    Change,
    Checkpoints,
    clear_places,
    normalize_partition,
    normalize_root,
    partitions_of,
    topic_ids,
)
from kafkalog.recovery.safe.partition_recovery import CannotSettleError, PartitionRecovery
from kafkalog.recovery.safe.result import RecoveredPartition, SafeResult

__all__ = ["InOrder", "SafeRecovery", "no_checks", "recover_safely"]

InOrder = Callable[[str, int], bool]
"""Function of a partition directory and a base offset: whether checks find nothing from that segment on."""


def no_checks(_directory: str, _first: int) -> bool:
    """Return False, so that every partition is recovered as after a crash."""
    return False


class _ForecastResults:
    """Results of one simulated start over many partitions, reused for each.

    Valid only if starting one alone gives the same result.
    """

    def __init__(self, tree: Tree, changes: Sequence[Change]) -> None:
        checkpoints = read_checkpoints(tree)
        self._is_valid = not changes and checkpoints is not None and CLEAN_SHUTDOWN_FILE not in tree.directories
        self._points, self._starts = checkpoints or ({}, {})

    def of(self, start: BrokerResult | None, recovery: PartitionRecovery, before: Tree) -> BrokerResult | None:
        """Return the broker's result for the only directory in `before`, taken from a start over more directories.
        Return None if the directory must be loaded by itself, in these cases:

        * There is no such start, it failed, or it did not load this directory.
        * Something in the log directory was set aside, or a directory is in place of the clean-shutdown marker.
        * The checkpoints cannot be read or do not have the offsets in `recovery`.
        * The partition is not live, became stray, or is the metadata log; or `before` has other directories.
        """
        loaded = None if start is None else start.partitions.get(recovery.directory)
        if start is None or loaded is None or loaded.stray is not None or not (self._is_valid and start.is_loaded):
            return None
        name, key = recovery.name, recovery.key
        if name.state is not DirectoryState.LIVE or name.topic == CLUSTER_METADATA_TOPIC:
            return None
        if before.subdirectories() != [recovery.directory]:
            return None
        if (self._points.get(key, 0), self._starts.get(key, 0)) != (recovery.recovery_point, recovery.log_start):
            return None
        tree = start.tree.part(recovery.directory)
        return BrokerResult(outcome=StartResult.LOADED, tree=tree, clean=start.clean, partitions={loaded.name: loaded})


class SafeRecovery:
    """Recovery of a log directory by settled rules, one topic-partition at a time.

    `topic_id` returns the id of a topic whose partitions have lost it, or None. `is_in_order` decides whether a
    partition directory that was closed cleanly is left unchanged. `declined` maps directories that are left unchanged,
    whatever their content, to the reason.
    """

    def __init__(
        self,
        tree: Tree,
        rules: Rules,
        topic_id: Callable[[str], str | None],
        is_in_order: InOrder = no_checks,
        declined: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._rules = rules
        self._declined = declined
        self._is_in_order = is_in_order
        self._result = SafeResult(tree=tree.copy())
        self._is_clean = CLEAN_SHUTDOWN_FILE in tree.files
        self._result.changes += normalize_root(self._result.tree)
        self._forecast = _ForecastResults(tree, self._result.changes)
        self._points = Checkpoints.read(self._result.tree)
        self._names = dict(partitions_of(self._result.tree, rules.cluster_metadata))
        self._donors = cache(lambda: topic_ids(self._result.tree))  # seldom asked for
        self._topic_id = topic_id
        self.groups = groups_of(list(self._names))

    @property
    def takes_the_root_as_it_is(self) -> bool:
        """Whether nothing in the log directory itself had to be set aside."""
        return not self._result.changes

    def recover(self, group: Group, start: BrokerResult | None = None) -> list[RecoveredPartition]:
        """Recover the directories of one topic-partition; return a result for each partition directory in `group`, in
        its order. Nothing is raised for one that cannot be recovered: its result has a `refusal`. The log directory's
        tree is not changed. `start` is the broker's result on this tree, or on this group alone, if known. Raises
        `StorageError` if a file cannot be read.
        """
        own = self._result.tree.part(*group)
        recovered = []
        for directory in group:
            if directory in self._names:
                recovered.append(self._recover(own, directory, start))
                if len(group) > 1:
                    recovered[-1].put(own)
        return recovered

    def part(self, recovered: Sequence[RecoveredPartition]) -> SafeResult:
        """Return the result for one topic-partition alone, without its checkpoints."""
        result = SafeResult(tree=self._result.tree.part(*(partition.directory for partition in recovered)))
        for partition in recovered:
            result.add(partition)
        return result

    def whole(self, recovered: Iterable[Sequence[RecoveredPartition]]) -> SafeResult:
        """Combine the results of all topic-partitions into one, put them into its tree, and write the checkpoints of
        recovery points and log start offsets there. Returns this object's own `SafeResult`, which is changed in place.
        `recovered` must have every partition directory, else `KeyError` is raised. Raises `StorageError` if a file
        cannot be read.
        """
        by_directory = {partition.directory: partition for group in recovered for partition in group}
        after = Checkpoints(dict(self._points.recovery_points), dict(self._points.log_starts))
        for directory in self._names:
            self._result.add(by_directory[directory])
            _note_checkpoints(after, by_directory[directory])
        after.write(self._result.tree)
        return self._result

    def _id_of(self, topic: str) -> str | None:
        """Id of a topic from its other partitions, else from the caller; None if unknown. The metadata topic has a
        fixed id.
        """
        if topic == CLUSTER_METADATA_TOPIC:
            return CLUSTER_METADATA_TOPIC_ID
        return self._donors().get(topic) or self._topic_id(topic)

    def _recover(self, tree: Tree, directory: str, start: BrokerResult | None) -> RecoveredPartition:
        """Recover one directory; `tree` has all directories of its topic-partition and is changed by the clean-up.
        Return the result. It has a refusal if the directory is declined, or if it cannot be recovered and may not stay
        unchanged either (`_as_it_is`). `start` is the broker's result on the unchanged directory, if known. Raises
        `StorageError` if a file cannot be read.
        """
        name = self._names[directory]
        if directory in self._declined:
            return RecoveredPartition(directory=directory, name=name, refusal=self._declined[directory])
        directories = set(tree.directories)
        cleared = clear_places(tree, directory)
        left = set(tree.directories)
        untouched = _with_copy(tree, directory, name)
        changes = normalize_partition(
            tree, directory, lambda: self._id_of(name.topic), has_metadata=self._rules.has_metadata
        )
        own = PartitionRecovery(_with_copy(tree, directory, name), directory, name, self._points, self._rules)
        try:
            known = None if cleared else self._forecast.of(start, own, untouched)
            result = own.recover(self._is_clean, untouched, known)
        except CannotSettleError as error:
            return self._as_it_is(own) or RecoveredPartition(directory=directory, name=name, refusal=error.refusal)
        loaded = own.loaded_of(result)
        files = changed_files(untouched, result.tree, loaded)
        stays = None if cleared or not (files or changes) else self._as_it_is(own)
        is_trusted = own.trusted is not None and not own.takes_something
        if stays is None and files and is_trusted and newest_entries(own.original, directory) == []:
            # a start after a clean stop would forget all producers
            whole = PartitionRecovery(own.original, directory, name, self._points, self._rules)
            rescanned = whole.recover_whole(untouched)
            if newest_entries(rescanned.tree, directory) != newest_entries(result.tree, directory):
                own, result, loaded = whole, rescanned, whole.loaded_of(rescanned)
                files = changed_files(untouched, result.tree, loaded)
        bases = [base for base, _path in result.tree.logs(own.directory_of(result))]
        return stays or RecoveredPartition(
            directory=directory,
            name=name,
            changes=cleared if own.took_theirs else [*cleared, *changes],
            cut=own.cut,
            repeat=own.repeat,
            repairs=own.repairs,
            lost=own.lost,
            loaded=loaded,
            removed_directories=sorted(directories - (left if own.took_theirs else set(tree.directories))),
            files=files,
            log_start=own.log_start,
            is_whole=own.start <= min(bases, default=0),
        )

    def _as_it_is(self, own: PartitionRecovery) -> RecoveredPartition | None:
        """Return a result that leaves the partition unchanged, or None if it must be recovered. It is left unchanged if
        a broker closed it cleanly and trusts it, if its recovery would remove nothing, and if no check finds anything.
        The result is always None in a full recovery, for the metadata log, and for a partition that becomes stray. May
        read the log for the checks. Raises `StorageError` if a file cannot be read.
        """
        if own.trusted is None or own.takes_something or self._rules.full or own.is_metadata:
            return None
        loaded = own.loaded_of(own.trusted)
        if loaded.stray is not None or not self._is_in_order(own.directory, own.start):
            return None
        return RecoveredPartition(directory=own.directory, name=own.name, loaded=loaded, log_start=own.given_log_start)


def recover_safely(
    tree: Tree,
    rules: Rules,
    *,
    topic_id: Callable[[str], str | None] = lambda topic: None,
    is_in_order: InOrder = no_checks,
    workers: Workers | None = None,
    forecast: BrokerResult | None = None,
    declined: Mapping[str, str] = MappingProxyType({}),
) -> SafeResult:
    """Recover a log directory by settled rules; return the resulting tree with its changes and their reasons. `tree`
    itself is not changed. Raises `StorageError` if a file cannot be read.

    With `repair_bits` single bits are corrected if their proof is strong enough. In mode `salvage` a log continues
    after damage. `rebuild_indexes` rebuilds all indexes of sound logs and truncates nothing. `topic_id`, `is_in_order`
    and `declined` are as in `SafeRecovery`; `forecast` is the broker's result on this tree by these rules, if known.
    `workers` distributes the partitions to processes.
    """
    recovery = SafeRecovery(tree, rules, topic_id, is_in_order, declined)
    recovered = (workers or Workers()).each(recovery.groups, lambda group: recovery.recover(group, forecast))
    return recovery.whole(recovered)


def _with_copy(tree: Tree, directory: str, name: PartitionName) -> Tree:
    """Return an independent tree with the root's files and the partition directory. For a live partition it also has
    the `-future` directories of the partition, because a broker does not close a log that has one.
    """
    if name.state is not DirectoryState.LIVE:
        return tree.part(directory)
    same = (name.topic, name.partition)
    futures = [
        other
        for other, parsed in partitions_of(tree)
        if (parsed.topic, parsed.partition) == same and parsed.state is DirectoryState.FUTURE
    ]
    return tree.part(directory, *futures)


def _note_checkpoints(after: Checkpoints, recovered: RecoveredPartition) -> None:
    """Update the checkpoints `after` for a recovered live partition. An existing log start offset is replaced. If the
    whole log was examined, the recovery point becomes the log end offset. Otherwise an existing recovery point is
    lowered to the log end offset if it is higher. If the partition became stray, the recovery point is not changed.
    Does nothing after a refusal or for the metadata log.
    """
    loaded, name = recovered.loaded, recovered.name
    if loaded is None or name.state.value or name.topic == CLUSTER_METADATA_TOPIC:
        return
    key = (name.topic, name.partition)
    if key in after.log_starts:
        after.log_starts[key] = recovered.log_start
    if loaded.stray is not None:  # under its new name too it is this topic-partition to the checkpoint
        return
    if recovered.is_whole:
        after.recovery_points[key] = loaded.log_end_offset
    elif key in after.recovery_points:
        after.recovery_points[key] = min(after.recovery_points[key], loaded.log_end_offset)
