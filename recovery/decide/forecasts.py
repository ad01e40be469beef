"""Simulate a broker's start and the requested recovery for one log directory, before ways are compared.

Each topic-partition is examined by itself if possible, in this process or another one: it reads the partition's files
once, simulates both, counts what both keep, and returns only the differences from the survey.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES, FileKind
from kafkalog.log.directories.workers import Group, Workers
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.forecast import Forecast, Started, load_directory
from kafkalog.recovery.broker.identity import with_identity
from kafkalog.recovery.broker.manager import BrokerResult
from kafkalog.recovery.decide.closed_in_order import Look
from kafkalog.recovery.decide.counting import Comparer, CountedPartition, TopicPartitions, are_counted
from kafkalog.recovery.decide.remote_part import without_uploaded_damage
from kafkalog.recovery.decide.set_aside import set_aside
from kafkalog.recovery.decide.ways import PartitionFacts
from kafkalog.recovery.facts.coordinators import Coordinators
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.safe.normalize import Change, topic_ids
from kafkalog.recovery.safe.recovery import InOrder, SafeRecovery, no_checks, recover_safely
from kafkalog.recovery.safe.result import RecoveredPartition, SafeResult

__all__ = ["Forecasts", "SurveyedDirectory", "examine_apart", "forecast"]


class Forecasts(Struct, frozen=True, kw_only=True):
    """Results of a simulated broker's start and of the simulated recovery; nothing on disk is changed."""

    kafka: BrokerResult
    own: SafeResult | None
    """result of the requested recovery; None in mode kafka, where it is the broker's"""
    counted: Sequence[CountedPartition] | None = None
    """counts for every topic-partition, in the order of `TopicPartitions`; None if they were not counted"""
    checked: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    """findings of checks by partition directory, where they were run"""


class SurveyedDirectory:
    """A surveyed log directory, and the settled rules for recovering it.

    `is_in_order` is as in `SafeRecovery`; `copies` are directories with other copies; `look` runs checks on a partition
    directory, None to skip them.
    """

    def __init__(
        self,
        survey: Survey,
        rules: Rules,
        is_in_order: InOrder = no_checks,
        copies: Sequence[str] = (),
        look: Look | None = None,
    ) -> None:
        self.survey = survey
        self.rules = rules
        self.is_in_order = is_in_order
        self.copies = copies
        self.look = look
        self.coordinators = Coordinators([survey.root, *rules.facts.roots])
        self._donors = cache(lambda: topic_ids(survey.tree()))  # seldom asked for: most trees know their own
        unread: str | tuple[()] = () if rules.cluster_metadata else f"{CLUSTER_METADATA_DIRECTORY}/"
        self.sizes = {path: facts.size for path, facts in survey.files.items() if not path.startswith(unread)}
        """size in bytes of the files that are examined, by path"""

    def topic_id(self, topic: str) -> str | None:
        """Topic id from the cluster's metadata, else from another partition of the topic, else from the request; None
        if unknown.
        """
        return self.rules.facts.topic_ids.get(topic) or self._donors().get(topic, self.rules.topic_id)

    def copies_of(self, partition: PartitionFacts) -> list[str]:
        """Return the paths of the partition directories with other copies of a partition, in the order of `copies`;
        empty if it is not live here, or has several directories here.
        """
        if not self.copies or len(partition.directories) > 1 or not partition.is_live:
            return []
        from kafkalog.recovery.decide.merge_in_place import copies_of  # merges: most plans know no other copy

        return copies_of(partition.topic, partition.partition, self.survey.root, self.copies)

    def recover(
        self, tree: Tree, rules: Rules, workers: Workers | None = None, start: BrokerResult | None = None
    ) -> SafeResult:
        """Simulate a recovery of `tree` by `rules`; return its result, with the tree that it leaves. `start` is the
        broker's result on `tree`, None if unknown. `tree` is not changed. Raises `StorageError` if a file cannot be
        read.
        """
        result: SafeResult = rules.mode.spec.carry_out(_Carrier(self, rules, workers, start), tree)
        return result


class _Carrier:
    """Implementation of `Carrier` for a surveyed directory."""

    def __init__(
        self, directory: SurveyedDirectory, rules: Rules, workers: Workers | None, start: BrokerResult | None
    ) -> None:
        self.directory = directory
        self.rules = rules
        self.workers = workers
        self.start = start

    def safely(self, tree: Tree) -> SafeResult:
        return self._recover(tree, frozenset(), forecast=self.start, workers=self.workers)

    def set_aside(self, tree: Tree) -> SafeResult:
        return set_aside(tree)

    def merge(self, tree: Tree) -> SafeResult:
        from kafkalog.recovery.decide.merge_in_place import merge_in_place

        def recover(after: Tree, merged: frozenset[str], declined: Mapping[str, str]) -> SafeResult:
            return self._recover(after, merged, declined=declined)

        return merge_in_place(self.directory.survey, tree, self.directory.copies, self.rules, recover)

    def leave_to_remote(self, tree: Tree) -> SafeResult:
        after, changed = without_uploaded_damage(tree, self.rules.facts.tiering)
        result = self._recover(after, changed, workers=self.workers)
        result.helped = changed
        return result

    def _recover(self, tree: Tree, changed: frozenset[str], **more: Any) -> SafeResult:
        directory = self.directory

        def is_in_order(name: str, first: int) -> bool:
            return name not in changed and directory.is_in_order(name, first)

        in_order = is_in_order if changed else directory.is_in_order
        return recover_safely(tree, self.rules, topic_id=directory.topic_id, is_in_order=in_order, **more)


def forecast(directory: SurveyedDirectory, workers: Workers, *, counts: bool = True) -> Forecasts:
    """Simulate a broker's start and the requested recovery on trees in memory; return both results. Nothing on disk is
    changed. The recovery also writes `meta.properties` into its tree if the rules have its content (`rules.identity`).

    With `counts`, also count the records that both keep and lose; otherwise `counted` is None. In mode kafka there is
    no recovery, and its result is None. `workers` run partitions in parallel and report progress. Raises `StorageError`
    if a file cannot be read.
    """
    survey, rules = directory.survey, directory.rules
    apart = examine_apart(directory, workers, counts=counts)
    if apart is None:
        workers.begin("what Kafka would do", directory.sizes)
    kafka = load_directory(survey.tree(), rules, workers) if apart is None else apart.kafka
    if META_PROPERTIES not in survey.unreadable:  # else nobody can say what is in it
        kafka = with_identity(kafka, survey.tree(), survey.root, rules.facts)
    own = None if apart is None else apart.own
    if own is None and not rules.mode.spec.is_as_broker:
        workers.begin("what recovery would do", directory.sizes)
        own = directory.recover(survey.tree(), rules, workers, kafka)
    if own is not None and rules.identity is not None:
        reason = "rewritten, by the broker's other log directories and its metadata log"
        change = Change(
            path=META_PROPERTIES, reason=reason, code=FindingCode.META_PROPERTIES_INVALID, severity=Severity.ERROR
        )
        own.changes.append(change)
        own.tree.write(META_PROPERTIES, rules.identity)
    counted = None if apart is None else apart.counted
    if counted is None and counts:
        before = survey.tree()
        counted = Comparer(before, kafka, own, rules).count(TopicPartitions(before, rules).facts(before))
    return Forecasts(kafka=kafka, own=own, counted=counted, checked={} if apart is None else apart.checked)


class _PartitionForecast(Struct, frozen=True, kw_only=True):
    """Compact forecasts of one topic-partition."""

    started: Started | None
    """None if the start failed"""
    recovered: list[RecoveredPartition]
    counted: list[CountedPartition]
    checked: dict[str, Sequence[Finding] | None]


def examine_apart(directory: SurveyedDirectory, workers: Workers, *, counts: bool) -> Forecasts | None:
    """Simulate the start and the recovery for each topic-partition by itself, and combine the results. Return None if
    the log directory has to be simulated as a whole. This is so if it has a directory that is not of a topic-partition,
    or if the recovery sets something in the log directory itself aside. It is also so if the mode is not safe, salvage
    or strict.

    In the result, `counted` is None if `counts` is False, if a start failed, or if the logs exceed 1 GiB in total. With
    `counts`, `checked` has what `look` found, by partition directory, without directories that it cannot read.
    `workers` run partitions in parallel and report progress. Raises `StorageError` if a file cannot be read.
    """
    rules, sizes, look = directory.rules, directory.sizes, directory.look
    if not (rules.mode.spec.is_compared or rules.mode.spec.way is None):
        return None
    tree = directory.survey.tree()
    workers.begin("what Kafka and recovery would do", sizes)
    start = Forecast(tree.copy(), rules)
    if not start.is_divisible:
        return None
    recovery = SafeRecovery(tree, rules, directory.topic_id, directory.is_in_order)
    if not recovery.takes_the_root_as_it_is:
        return None
    logs = (size for path, size in sizes.items() if path.endswith(FileKind.LOG.value))
    partitions = TopicPartitions(tree, rules) if counts and are_counted(logs) else None

    def examine(group: Group) -> _PartitionForecast:
        kafka = start.load(tree.part(*group))
        recovered = recovery.recover(group, kafka)
        counted: list[CountedPartition] = []
        if partitions is not None and kafka.is_loaded:
            before = tree.part(*group)
            comparer = Comparer(before, kafka, recovery.part(recovered), rules)
            counted = comparer.count(partitions.facts_among(before, group))
        checked = {} if look is None or not counts else {directory: look(directory) for directory in group}
        return _PartitionForecast(started=start.started(kafka), recovered=recovered, counted=counted, checked=checked)

    examined = list(workers.each(start.groups, examine))
    counted = None
    if partitions is not None and all(partition_forecast.started is not None for partition_forecast in examined):
        counted = partitions.in_order(partition for examined_group in examined for partition in examined_group.counted)
    return Forecasts(
        kafka=start.whole([partition_forecast.started for partition_forecast in examined]),
        own=recovery.whole(partition_forecast.recovered for partition_forecast in examined),
        counted=counted,
        checked={name: found for forecast in examined for name, found in forecast.checked.items() if found is not None},
    )
