"""What is found out about one log directory before a plan is made: a broker's start, this recovery, the other ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache

from kafkalog.classes import dataclass
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, META_PROPERTIES
from kafkalog.log.directories.workers import Workers
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.forecast import load_directory
from kafkalog.recovery.broker.identity import with_identity
from kafkalog.recovery.broker.manager import BrokerResult
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.choosing import compare_ways
from kafkalog.recovery.decide.closed_in_order import Look
from kafkalog.recovery.decide.examination import Examination, examine
from kafkalog.recovery.decide.remote_part import without_uploaded_damage
from kafkalog.recovery.decide.set_aside import set_aside
from kafkalog.recovery.decide.ways import Unit
from kafkalog.recovery.facts.coordinators import Coordinators
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.facts.survey import Survey
from kafkalog.recovery.safe.normalize import Change, topic_ids
from kafkalog.recovery.safe.recovery import InOrder, recover_safely
from kafkalog.recovery.safe.result import SafeResult

__all__ = ["Forecasts", "find_out"]


@dataclass(frozen=True, slots=True)
class Forecasts:
    """What each would leave; nothing on disk is different."""

    kafka: BrokerResult
    own: SafeResult | None
    """what the rules that were given leave; None in mode kafka, where that is the broker's"""
    choice: RecoveryChoice
    is_compared: bool
    """the ways are counted and side by side; else there is nothing in `choice`"""
    checked: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    """partition directory -> what checks found, where they looked"""
    coordinators: Coordinators = field(default_factory=lambda: Coordinators(()))
    """the topics of the coordinators beside the partitions"""


def find_out(
    found: Survey,
    rules: Rules,
    is_in_order: InOrder,
    workers: Workers,
    *,
    compare: bool = True,
    copies: Sequence[str] = (),
    look: Look | None = None,
) -> Forecasts:
    """Let the rules, which are settled, run over virtual copies.

    `is_in_order` is that of `SafeRecovery`; `compare`: count too what this and every other way would keep; `copies` are
    directories that hold other copies; `look`: what checks find in a partition directory, where that is to be told.
    """
    examining = _Examining(found, rules, is_in_order, copies)
    examined = examining.apart(workers, counts=compare, look=look)
    if examined is None:
        workers.begin("what Kafka would do", examining.sizes)
    loaded = load_directory(found.tree(), rules, workers) if examined is None else examined.kafka
    is_known = META_PROPERTIES not in found.unreadable  # or nobody can say what is in it
    kafka = with_identity(loaded, found.tree(), found.root, rules.facts) if is_known else loaded
    own = None if examined is None else examined.own
    if own is None and rules.mode is not Mode.KAFKA:
        workers.begin("what recovery would do", examining.sizes)
        own = examining.recovered(found.tree(), rules, workers, kafka)
    if own is not None and rules.identity is not None:
        reason = "rewritten, by the broker's other log directories and its metadata log"
        change = Change(META_PROPERTIES, reason, FindingCode.META_PROPERTIES_INVALID, Severity.ERROR)
        own.changes.append(change)
        own.tree.write(META_PROPERTIES, rules.identity)
    if not compare:
        return Forecasts(kafka, own, RecoveryChoice(), is_compared=False)
    counted = None if examined is None else examined.counted
    coordinators = Coordinators([found.root, *rules.facts.roots])
    choice = compare_ways(
        found.tree(), rules, kafka, own, examining.recovered, examining.copies_of, counted, coordinators.highest_commit
    )
    checked = {} if examined is None else examined.checked
    return Forecasts(kafka, own, choice, is_compared=True, checked=checked, coordinators=coordinators)


class _Examining:
    """The rules of examining, for whatever tree is asked about."""

    def __init__(self, found: Survey, rules: Rules, is_in_order: InOrder, copies: Sequence[str]) -> None:
        self._found = found
        self._rules = rules
        self._is_in_order = is_in_order
        self._copies = copies
        self._donors = cache(lambda: topic_ids(found.tree()))  # seldom asked for: most trees know their own
        unread: str | tuple[()] = () if rules.cluster_metadata else f"{CLUSTER_METADATA_DIRECTORY}/"
        self.sizes = {path: facts.size for path, facts in found.files.items() if not path.startswith(unread)}

    def topic_id(self, topic: str) -> str | None:
        """What the cluster knew, or another partition of the topic knows, or somebody said."""
        return self._rules.facts.topic_ids.get(topic) or self._donors().get(topic, self._rules.topic_id)

    def copies_of(self, unit: Unit) -> list[str]:
        """The directories of a partition among the other copies that were given."""
        if not self._copies or len(unit.directories) > 1 or not unit.is_live:
            return []
        from kafkalog.recovery.decide.merge_in_place import copies_of  # merges: most plans know no other copy

        return copies_of(unit.topic, unit.partition, self._found.root, self._copies)

    def apart(self, workers: Workers, *, counts: bool, look: Look | None) -> Examination | None:
        """Everything in one go, a topic-partition at a time, where that is possible."""
        if self._rules.mode in (Mode.KAFKA, Mode.SET_ASIDE, Mode.MERGE, Mode.REMOTE):
            return None
        tree = self._found.tree()
        return examine(
            tree, self._rules, self.topic_id, self._is_in_order, workers, self.sizes, counts=counts, look=look
        )

    def recovered(
        self, tree: Tree, rules: Rules, workers: Workers | None = None, forecast: BrokerResult | None = None
    ) -> SafeResult:
        """What rules leave of a tree, where that is not the broker's own result."""
        if rules.mode is Mode.SET_ASIDE:
            return set_aside(tree)
        if rules.mode is Mode.MERGE:
            return self._merged(tree, rules)
        if rules.mode is Mode.REMOTE:
            return self._left_to_remote(tree, rules, workers)
        return recover_safely(
            tree, rules, topic_id=self.topic_id, is_in_order=self._is_in_order, workers=workers, forecast=forecast
        )

    def _in_order_but(self, changed: frozenset[str]) -> InOrder:
        return lambda directory, first: directory not in changed and self._is_in_order(directory, first)

    def _left_to_remote(self, tree: Tree, rules: Rules, workers: Workers | None) -> SafeResult:
        after, changed = without_uploaded_damage(tree, rules.facts.tiering)
        in_order = self._in_order_but(changed)
        result = recover_safely(after, rules, topic_id=self.topic_id, is_in_order=in_order, workers=workers)
        result.left_to_remote = changed
        return result

    def _merged(self, tree: Tree, rules: Rules) -> SafeResult:
        from kafkalog.recovery.decide.merge_in_place import merge_in_place

        def recover(after: Tree, merged: frozenset[str], declined: Mapping[str, str]) -> SafeResult:
            in_order = self._in_order_but(merged)
            return recover_safely(after, rules, topic_id=self.topic_id, is_in_order=in_order, declined=declined)

        return merge_in_place(self._found, tree, self._copies, rules, recover)
