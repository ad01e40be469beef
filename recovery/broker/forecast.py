"""Simulate a broker's start on a whole log directory, several partitions at a time.

A broker's start is one sequence: the first failure decides. While nothing fails, each topic-partition is loaded and
closed independently, so they are simulated separately; if one fails, everything is repeated in the broker's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, REMOTE_INDEX_CACHE, parse_partition_directory
from kafkalog.log.directories.workers import Group, Workers, groups_of
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.changed_files import ChangedFiles, changed_files
from kafkalog.recovery.broker.manager import (
    BrokerResult,
    LoadedPartition,
    StartResult,
    load_log_directory,
    read_checkpoints,
)
from kafkalog.recovery.facts.recovery_request import Rules

__all__ = ["Forecast", "Started", "load_directory"]

Started = list[tuple[LoadedPartition, ChangedFiles]]
"""Each directory of one topic-partition after the broker's start and stop, with its changed files."""


class Forecast:
    """Simulates a broker's start on one tree (a log directory in memory) by settled rules, whole or one topic-partition
    at a time.
    """

    def __init__(self, tree: Tree, rules: Rules) -> None:
        self._tree = tree
        self._rules = rules
        self._checkpoints = read_checkpoints(tree)
        apart = {REMOTE_INDEX_CACHE} if rules.cluster_metadata else {REMOTE_INDEX_CACHE, CLUSTER_METADATA_DIRECTORY}
        self._directories = [name for name in tree.subdirectories() if name not in apart]
        self.groups = groups_of(self._directories)

    @property
    def is_divisible(self) -> bool:
        """Whether every directory is of a topic-partition, so that each can be started by itself."""
        return all(parse_partition_directory(name) is not None for name in self._directories)

    def load(self, tree: Tree, on_partition: Callable[[str], None] = lambda directory: None) -> BrokerResult:
        """Simulate the start on `tree`, the whole tree or a part of it, and change it to the state after the start and
        a clean stop. `on_partition` is called with each directory after it is loaded. If the start fails, the result
        says so; nothing is raised for that. Raises `StorageError` if a file cannot be read.
        """
        return load_log_directory(
            tree,
            checkpoints=self._checkpoints,
            has_metadata=self._rules.has_metadata,
            settings=self._rules.settings,
            now_ms=self._rules.now_ms,
            unique=self._rules.unique,
            cluster_metadata=self._rules.cluster_metadata,
            on_partition=on_partition,
        )

    def started(self, result: BrokerResult, *, keeps_files: bool = True) -> Started | None:
        """Return, for each directory in the result of starting one topic-partition, the loaded partition and its
        changed files; None if the start failed. With `keeps_files` False the changed files are empty. Raises
        `StorageError` if a file cannot be read.
        """
        if not result.is_loaded:
            return None
        return [
            (partition, changed_files(self._tree, result.tree, partition) if keeps_files else ChangedFiles())
            for partition in result.partitions.values()
        ]

    def whole(self, parts: Sequence[Started | None]) -> BrokerResult:
        """Combine the results of starting every topic-partition separately into the result of one start on the whole
        tree. Change the tree to the state after this start, but not in partition directories if `parts` were made
        without `keeps_files`. Partitions in the result are in the order of the directories.

        If a separate start failed (None in `parts`), the whole start is simulated in the broker's order instead. It is
        too if files of the log directory itself make the start fail. Raises `StorageError` if a file cannot be read.
        """
        tree = self._tree
        groups = [part for part in parts if part is not None]
        if len(groups) < len(parts):
            return self.load(tree)
        root = self.load(tree.part())
        if not root.is_loaded:
            return self.load(tree)
        for partition, files in (partition_and_files for group in groups for partition_and_files in group):
            files.put(tree, partition)
        for name in tree.names(""):
            if name not in root.tree.files:
                tree.delete(name)
        for name in root.tree.names(""):
            tree.files[name] = root.tree.files[name]
        order = {name: number for number, name in enumerate(self._directories)}
        loaded = (partition for group in groups for partition, _files in group)
        partitions = sorted(loaded, key=lambda partition: order[partition.name])
        by_name = {partition.name: partition for partition in partitions}
        return BrokerResult(outcome=StartResult.LOADED, tree=tree, clean=root.clean, partitions=by_name)


def load_directory(tree: Tree, rules: Rules, workers: Workers, *, keeps_files: bool = True) -> BrokerResult:
    """Simulate a broker's start on `tree`; return a result equal to the one of `load_log_directory`. `workers` load
    partitions in parallel if this is worthwhile. `tree` is changed to the state after the start. With `keeps_files`
    False, a parallel start may leave partition directories in it unchanged. A failed start is a result, not an
    exception. Raises `StorageError` if a file cannot be read.
    """
    forecast = Forecast(tree, rules)
    if not workers.is_worthwhile(forecast.groups) or not forecast.is_divisible:
        return forecast.load(tree, workers.done)

    def start(group: Group) -> Started | None:
        return forecast.started(forecast.load(tree.part(*group)), keeps_files=keeps_files)

    return forecast.whole(list(workers.each(forecast.groups, start)))
