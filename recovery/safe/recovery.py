"""Mode safe over a whole log directory, one topic-partition at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache
from types import MappingProxyType

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding
from kafkalog.codec.names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    CLUSTER_METADATA_TOPIC_ID,
    DirectoryState,
    PartitionName,
)
from kafkalog.log.directories.workers import Group, Workers, groups_of
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.changed_files import ChangedFiles, changed_files
from kafkalog.recovery.broker.manager import (
    BrokerResult,
    PartitionResult,
    StartResult,
    read_checkpoints,
)
from kafkalog.recovery.damage.soundness import (
    Cut,
    log_segments,
)
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.safe.normalize import (
    Change,
    Checkpoints,
    clear_places,
    normalize_partition,
    normalize_root,
    partitions_of,
    topic_ids,
)
from kafkalog.recovery.safe.partition_run import CannotSettleError, PartitionRun
from kafkalog.recovery.safe.result import SafeResult

__all__ = ["InOrder", "Recovered", "SafeRecovery", "no_checks", "recover_safely"]

InOrder = Callable[[str, int], bool]
"""Whether checks find nothing in a partition directory, from the segment with this base offset on."""


def no_checks(_directory: str, _first: int) -> bool:
    """For those who want everything as a start after a crash leaves it: no partition stays as it is."""
    return False


class _Known:
    """What the broker made of partitions when it was started on several, where each alone gives the same."""

    def __init__(self, tree: Tree, changes: Sequence[Change]) -> None:
        checkpoints = read_checkpoints(tree)
        self._is_any = not changes and checkpoints is not None and CLEAN_SHUTDOWN_FILE not in tree.directories
        self._points, self._starts = checkpoints or ({}, {})
        self._forecast: BrokerResult | None = None
        self._of: dict[str, PartitionResult] = {}

    def take(self, forecast: BrokerResult | None) -> None:
        """What it made of them is this."""
        self._forecast = forecast
        self._of = {}
        if self._is_any and forecast is not None and forecast.outcome == StartResult.LOADED:
            self._of = {each.name: each for each in forecast.partitions if each.stray is None}

    def result(self, run: PartitionRun, before: Tree) -> BrokerResult | None:
        """The result of the only directory in a tree; None where it is to be loaded."""
        found = self._of.get(run.directory)
        if self._forecast is None or found is None or run.name.state is not DirectoryState.LIVE:
            return None
        if run.name.topic == CLUSTER_METADATA_TOPIC or before.subdirectories() != [run.directory]:
            return None
        if (self._points.get(run.key, 0), self._starts.get(run.key, 0)) != (run.recovery_point, run.log_start):
            return None
        tree = self._forecast.tree.part(run.directory)
        return BrokerResult(StartResult.LOADED, tree, self._forecast.clean, partitions=[found])


@dataclass(slots=True)
class Recovered:
    """What became of one partition directory."""

    directory: str
    name: PartitionName
    refusal: str | None = None
    changes: list[Change] = field(default_factory=list)
    cut: Cut | None = None
    repeat: Cut | None = None
    repairs: list[Finding] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    result: PartitionResult | None = None
    files: ChangedFiles = field(default_factory=ChangedFiles)
    removed_directories: list[str] = field(default_factory=list)
    """inside it"""
    log_start: int = 0
    is_whole: bool = False
    """all of its log was examined"""

    @property
    def new_directory(self) -> str:
        """The directory's name after recovery."""
        return (self.result.stray if self.result is not None else None) or self.directory


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
        self._known = _Known(tree, self._result.changes)
        self._points = Checkpoints.read(self._result.tree)
        self._names = dict(partitions_of(self._result.tree, rules.cluster_metadata))
        self._donors = cache(lambda: topic_ids(self._result.tree))  # seldom asked for
        self._topic_id = topic_id
        self.groups = groups_of(list(self._names))

    @property
    def takes_the_root_as_it_is(self) -> bool:
        """Nothing in the log directory itself had to be put out of the way."""
        return not self._result.changes

    def knows(self, forecast: BrokerResult | None) -> None:
        """What the broker makes of the same partitions by the same rules."""
        self._known.take(forecast)

    def recover(self, group: Group) -> list[Recovered]:
        """The directories of one topic-partition; the tree stays as it is."""
        own = self._result.tree.part(*group)
        outcomes = []
        for directory in group:
            if directory in self._names:
                outcomes.append(self._recover(own, directory))
                if len(group) > 1:
                    _put(own, outcomes[-1])
        return outcomes

    def part(self, outcomes: Sequence[Recovered]) -> SafeResult:
        """The result of one topic-partition alone, its checkpoints apart."""
        result = SafeResult(self._result.tree.part(*(each.directory for each in outcomes)))
        for outcome in outcomes:
            _take_over(result, outcome, Checkpoints({}, {}))
        return result

    def whole(self, recovered: Iterable[Sequence[Recovered]]) -> SafeResult:
        """The result of all, from those of all topic-partitions."""
        result, points = self._result, self._points
        found = {outcome.directory: outcome for outcomes in recovered for outcome in outcomes}
        after = Checkpoints(dict(points.recovery_points), dict(points.log_starts))
        for directory in self._names:
            _take_over(result, found[directory], after)
        after.write(result.tree)
        return result

    def _id_of(self, topic: str) -> str | None:
        """The id of a topic by its other partitions, or as the caller knows it; that of the metadata never changes."""
        if topic == CLUSTER_METADATA_TOPIC:
            return CLUSTER_METADATA_TOPIC_ID
        return self._donors().get(topic) or self._topic_id(topic)

    def _recover(self, tree: Tree, directory: str) -> Recovered:
        """One directory, in a tree of its own with those of the same topic-partition."""
        name = self._names[directory]
        if directory in self._declined:
            return Recovered(directory, name, self._declined[directory])
        directories = set(tree.directories)
        cleared = clear_places(tree, directory)
        left = set(tree.directories)
        untouched = _with_copy(tree, directory, name)
        changes = normalize_partition(tree, directory, lambda: self._id_of(name.topic))
        run = PartitionRun(_with_copy(tree, directory, name), directory, name, self._points, self._rules)
        try:
            loaded = run.run(self._is_clean, untouched, None if cleared else self._known.result(run, untouched))
        except CannotSettleError as error:
            return self._as_it_is(run) or Recovered(directory, name, error.refusal)
        new = run.result_directory(loaded)
        files = changed_files(untouched, directory, loaded.tree, new)
        stays = None if cleared or not (files or changes) else self._as_it_is(run)
        return stays or Recovered(
            directory,
            name,
            changes=cleared if run.took_theirs else [*cleared, *changes],
            cut=run.cut,
            repeat=run.repeat,
            repairs=run.repairs,
            lost=run.lost,
            result=run.result_of(loaded),
            removed_directories=sorted(directories - (left if run.took_theirs else set(tree.directories))),
            files=files,
            log_start=run.log_start,
            is_whole=run.start <= min((base for base, _ in log_segments(loaded.tree, new)), default=0),
        )

    def _as_it_is(self, run: PartitionRun) -> Recovered | None:
        """A partition that a broker closed in order, trusts and takes nothing from; and no check finds anything in it.

        None if it is not such a one, or more than that is wanted.
        """
        if run.trusted is None or run.takes_something or self._rules.full or run.is_metadata:
            return None
        if run.result_directory(run.trusted) != run.directory or not self._is_in_order(run.directory, run.start):
            return None
        return Recovered(run.directory, run.name, result=run.result_of(run.trusted), log_start=run.given_log_start)


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
    recovery.knows(forecast)
    return recovery.whole((workers or Workers()).each(recovery.groups, recovery.recover))


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


def _put(tree: Tree, outcome: Recovered) -> None:
    """Put a partition's result into a tree."""
    if outcome.result is None:
        return
    for path in outcome.removed_directories:
        tree.remove_directory(path)
    outcome.files.put(tree, outcome.directory)
    if outcome.new_directory != outcome.directory:
        tree.rename_directory(outcome.directory, outcome.new_directory)


def _take_over(result: SafeResult, outcome: Recovered, after: Checkpoints) -> None:
    """Put a partition's result into the whole, and say in the checkpoints what is known now."""
    if outcome.result is None:
        result.refusals[outcome.directory] = outcome.refusal or "it cannot be recovered"
        return
    _put(result.tree, outcome)
    result.changes += outcome.changes
    result.repairs += outcome.repairs
    if outcome.cut is not None:
        result.cuts[outcome.directory] = outcome.cut
    if outcome.repeat is not None:
        result.repeats[outcome.directory] = outcome.repeat
    if outcome.lost:
        result.lost[outcome.directory] = outcome.lost
    partition, name = outcome.result, outcome.name
    result.partitions.append(partition)
    if name.state.value or name.topic == CLUSTER_METADATA_TOPIC:
        return
    key = (name.topic, name.partition)
    if partition.stray is not None:  # under its new name too it is this topic-partition to the checkpoint
        if key in after.log_starts:
            after.log_starts[key] = outcome.log_start
        return
    if outcome.is_whole:
        after.recovery_points[key] = partition.log_end_offset
    elif key in after.recovery_points:
        after.recovery_points[key] = min(after.recovery_points[key], partition.log_end_offset)
    if key in after.log_starts:
        after.log_starts[key] = outcome.log_start
