"""Mode safe over a whole log directory, one topic-partition at a time."""

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
"""Whether checks find nothing in a partition directory, from the segment with this base offset on."""


def no_checks(_directory: str, _first: int) -> bool:
    """For those who want everything as a start after a crash leaves it: no partition stays as it is."""
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
        """The result for the only directory in a tree, taken from a start on more; None if it has to be loaded."""
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
        return BrokerResult(StartResult.LOADED, tree, start.clean, partitions={loaded.name: loaded})


class SafeRecovery:
    """Safe recovery of a log directory by settled rules, one topic-partition at a time.

    `topic_id` tells the id of a topic whose partitions have lost it; `is_in_order` whether a partition directory that
    was closed in order is to stay as it is; `declined` why others are, whatever is in them.
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
        self._result = SafeResult(tree.copy())
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
        """Nothing in the log directory itself had to be put out of the way."""
        return not self._result.changes

    def recover(self, group: Group, start: BrokerResult | None = None) -> list[RecoveredPartition]:
        """The directories of one topic-partition; the tree stays as it is.

        `start` is the broker's result on the same tree, or on this group of it alone, if that is known.
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
        """The result of one topic-partition alone, its checkpoints apart."""
        result = SafeResult(self._result.tree.part(*(each.directory for each in recovered)))
        for each in recovered:
            result.add(each)
        return result

    def whole(self, recovered: Iterable[Sequence[RecoveredPartition]]) -> SafeResult:
        """The result of all, from those of all topic-partitions."""
        by_directory = {each.directory: each for group in recovered for each in group}
        after = Checkpoints(dict(self._points.recovery_points), dict(self._points.log_starts))
        for directory in self._names:
            self._result.add(by_directory[directory])
            _note_checkpoints(after, by_directory[directory])
        after.write(self._result.tree)
        return self._result

    def _id_of(self, topic: str) -> str | None:
        """The id of a topic by its other partitions, or as the caller knows it; that of the metadata never changes."""
        if topic == CLUSTER_METADATA_TOPIC:
            return CLUSTER_METADATA_TOPIC_ID
        return self._donors().get(topic) or self._topic_id(topic)

    def _recover(self, tree: Tree, directory: str, start: BrokerResult | None) -> RecoveredPartition:
        """One directory, in a tree of its own with those of the same topic-partition."""
        name = self._names[directory]
        if directory in self._declined:
            return RecoveredPartition(directory, name, self._declined[directory])
        directories = set(tree.directories)
        cleared = clear_places(tree, directory)
        left = set(tree.directories)
        untouched = _with_copy(tree, directory, name)
        changes = normalize_partition(tree, directory, lambda: self._id_of(name.topic))
        own = PartitionRecovery(_with_copy(tree, directory, name), directory, name, self._points, self._rules)
        try:
            known = None if cleared else self._forecast.of(start, own, untouched)
            result = own.recover(self._is_clean, untouched, known)
        except CannotSettleError as error:
            return self._as_it_is(own) or RecoveredPartition(directory, name, error.refusal)
        loaded = own.loaded_of(result)
        files = changed_files(untouched, result.tree, loaded)
        stays = None if cleared or not (files or changes) else self._as_it_is(own)
        bases = [base for base, _path in result.tree.logs(own.directory_of(result))]
        return stays or RecoveredPartition(
            directory,
            name,
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
        """A partition that a broker closed in order, trusts and takes nothing from; and no check finds anything in it.

        None if it is not such a one, or more than that is wanted.
        """
        if own.trusted is None or own.takes_something or self._rules.full or own.is_metadata:
            return None
        loaded = own.loaded_of(own.trusted)
        if loaded.stray is not None or not self._is_in_order(own.directory, own.start):
            return None
        return RecoveredPartition(own.directory, own.name, loaded=loaded, log_start=own.given_log_start)


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
    """The tree that safe recovery leaves of a log directory, by rules that are settled.

    With their `repair_bits` single bits are corrected if proven so well, in mode `salvage` a log goes on after
    damage, and `rebuild_indexes` rebuilds all indexes of sound logs and cuts nothing.  `topic_id`, `is_in_order` and
    `declined` are those of `SafeRecovery`; `forecast` is what the broker makes of the same tree by the same rules.
    """
    recovery = SafeRecovery(tree, rules, topic_id, is_in_order, declined)
    recovered = (workers or Workers()).each(recovery.groups, lambda group: recovery.recover(group, forecast))
    return recovery.whole(recovered)


def _with_copy(tree: Tree, directory: str, name: PartitionName) -> Tree:
    """The partition's own tree; with its `-future` copy, beside which a broker does not close it."""
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
    """Say in the checkpoints what is known now of a partition directory."""
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
