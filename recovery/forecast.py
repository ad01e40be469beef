"""What the broker makes of a whole log directory, several partitions at a time.

A broker's start is one sequence: the first failure decides.  As long as nothing fails, though, each topic-partition is
loaded and closed for itself, so they are tried apart; where one of them fails, all is done again in the broker's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, REMOTE_INDEX_CACHE, parse_partition_directory
from kafkalog.log.storage.content import Content
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import (
    BrokerResult,
    Outcome,
    PartitionResult,
    load_log_directory,
    read_checkpoints,
)
from kafkalog.recovery.rules import Rules
from kafkalog.recovery.workers import Group, Workers, groups_of

__all__ = ["load_directory"]


@dataclass(frozen=True, slots=True)
class _Part:
    """The directories of one topic-partition after the broker's start and stop."""

    group: Group
    partitions: list[PartitionResult]
    renamed: list[tuple[str, str]]
    files: dict[str, Content]


def load_directory(tree: Tree, rules: Rules, workers: Workers, *, keeps_files: bool = True) -> BrokerResult:
    """As `load_log_directory`, with the same result; without `keeps_files` its tree may be the one before the start."""
    checkpoints = read_checkpoints(tree)

    def load(part: Tree, on_partition: Callable[[str], None] = lambda directory: None) -> BrokerResult:
        return load_log_directory(
            part,
            checkpoints=checkpoints,
            settings=rules.settings,
            now_ms=rules.now_ms,
            unique=rules.unique,
            cluster_metadata=rules.cluster_metadata,
            on_partition=on_partition,
        )

    left_alone = {REMOTE_INDEX_CACHE} if rules.cluster_metadata else {REMOTE_INDEX_CACHE, CLUSTER_METADATA_DIRECTORY}
    directories = [name for name in tree.subdirectories() if name not in left_alone]
    groups = groups_of(directories)
    if not workers.is_worthwhile(groups) or any(parse_partition_directory(name) is None for name in directories):
        return load(tree, workers.done)

    def load_group(group: Group) -> _Part | None:
        result = load(tree.part(*group))
        if result.outcome != Outcome.LOADED:
            return None
        files = {path: content for path, content in result.tree.files.items() if "/" in path and keeps_files}
        return _Part(group, result.partitions, result.tree.renamed_directories, files)

    parts = list(workers.each(groups, load_group))
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return load(tree)
    root = load(tree.part())
    if root.outcome != Outcome.LOADED:
        return load(tree)
    for part in found if keeps_files else ():
        for directory in part.group:
            for name in tree.names(directory):
                tree.delete(f"{directory}/{name}")
        for old, new in part.renamed:
            tree.rename_directory(old, new)
        tree.files.update(part.files)
    for name in tree.names(""):
        if name not in root.tree.files:
            tree.delete(name)
    for name in root.tree.names(""):
        tree.files[name] = root.tree.files[name]
    order = {name: number for number, name in enumerate(directories)}
    partitions = sorted((each for part in found for each in part.partitions), key=lambda each: order[each.name])
    return BrokerResult(Outcome.LOADED, tree, root.clean, partitions=partitions)
