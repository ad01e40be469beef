"""Predict elections from the metadata that one of the KRaft controllers will have when it leads.

If there are several controllers, it is unknown which one wins the vote. Each can win whose log a majority would not
refuse (`CandidateState`, `UnattachedState`). Records that only the others have are lost then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kafkalog.cluster.kraft.departures import TopicRules, topic_rules
from kafkalog.cluster.kraft.fencing import fencing_order, software_level
from kafkalog.cluster.kraft.metadata_image import BrokerImage, MetadataImage, PartitionImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.kraft.quorum import Quorum, best_first, read_quorum
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.cluster.kraft.starts import Starts, possible_leaders
from kafkalog.cluster.rules.departures import NO_LEADER
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.jobs.triage.logs import BrokerDisks
from kafkalog.jobs.triage.memory import ELECTION_COMMAND, Key, KnownReplicas, Memory
from kafkalog.log.directories.partition import open_partition
from kafkalog.recovery.broker.node.older_copies import KRAFT_PAGE

__all__ = ["KRaftMemory", "kraft_memory"]


@dataclass(slots=True)
class KRaftMemory(Memory):
    """Metadata of a KRaft cluster, from which leaders are predicted. Each of `images` is one with which the next
    controller may lead.
    """

    source: str
    images: list[MetadataImage]
    voters: frozenset[int]
    """ids of the voters in force"""
    static: Mapping[str, str]
    controller: int | None
    first_step: str = ""
    unclean_election: str = ELECTION_COMMAND
    page: str = KRAFT_PAGE
    elected: str = ""
    held: Sequence[tuple[int | None, str]] = ()
    static_voters: frozenset[int] = frozenset()
    logs: Sequence[QuorumLog] = ()
    """all copies of the metadata log: first those that can win, the furthest first"""
    _removed: frozenset[str] | None = None
    _others: list[tuple[str, MetadataImage]] | None = None
    _starts: list[tuple[MetadataImage, Starts]] = field(default_factory=list)
    _rules: dict[tuple[int, str], TopicRules] = field(default_factory=dict)
    _known: dict[object, frozenset[int] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Set `first_step`, the beginning of a sentence that a list of brokers completes. It advises to start the
        controllers before the brokers if a majority of the voters are controllers only.
        """
        alone = len(self.voters - self.brokers) > len(self.voters) // 2
        wait = "wait for longer than broker.session.timeout.ms"
        one_by_one = "tart the brokers one after the other"
        self.first_step = f"Start the controllers alone and {wait}, then s{one_by_one}" if alone else (
            f"S{one_by_one}, and once a majority of the controllers runs, {wait} before the next"
        )  # fmt: skip

    @property
    def next_producer_id(self) -> int:
        """First producer id that the controllers allocate next; the lowest of the images, -1 if one has none."""
        return min(image.next_producer_id for image in self.images)

    @property
    def brokers(self) -> frozenset[int]:
        """Ids of all registered brokers."""
        return frozenset(self.images[0].brokers)

    def partitions(self) -> dict[Key, KnownReplicas]:
        """Return the replicas, ISR and leader of every partition by (topic, partition), sorted, from the first
        image.
        """
        partitions = {}
        for name, topic in sorted(self.images[0].topics.items()):
            for number, partition in sorted(topic.partitions.items()):
                partitions[name, number] = KnownReplicas(
                    replicas=partition.replicas,
                    isr=partition.isr,
                    leader=partition.leader,
                    leader_epoch=partition.leader_epoch,
                    elr=partition.elr,
                    last_known_elr=partition.last_known_elr,
                    topic_id=topic.id,
                )
        return partitions

    def eligible(self, key: Key) -> frozenset[int]:
        """Ids of brokers that may lead without an unclean election, once they are up: those in the ISR or ELR; if both
        are empty, in the last known ELR. Raises `KeyError` for an unknown partition.
        """
        partition_image = self.images[0].topics[key[0]].partitions[key[1]]
        return frozenset(partition_image.isr + partition_image.elr) or frozenset(partition_image.last_known_elr)

    def min_isr(self, key: Key) -> int:
        """`min.insync.replicas` of a known partition, at most its replication factor."""
        return topic_rules(self.images[0], self.images[0].topics[key[0]], self.controller, self.static).min_isr

    def directories_of(self, node: int) -> frozenset[str]:
        """Ids of the log directories with which a broker has registered; empty if there are none. Raises `KeyError` for
        an unknown broker.
        """
        return frozenset(self.images[0].brokers[node].directories or ())

    def unknown(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Reason why the metadata does not have the partition; None if it has it or shows that its topic was deleted.
        The partition is missing if it is missing in one of the images, as any of these may win. `topic_id` None
        compares by name only. Raises `StorageError` if the log with the deletions cannot be read.
        """
        why = next((why for image in self.images if (why := _lacks(image, topic, partition, topic_id))), None)
        return None if why is None or topic_id in self._removed_topics() else why

    def _removed_topics(self) -> frozenset[str]:
        """Return the ids of the topics whose removal is recorded in the first copy's metadata log. The log is read
        once; the result is cached. Raises `StorageError` if the log cannot be read.
        """
        if self._removed is None:
            self._removed = MetadataLog(open_partition(self.logs[0].directory)).removed_topics()
        return self._removed

    def known_elsewhere(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Return the path of the first copy of the metadata log whose state has the partition; None if none has it.
        `topic_id` None compares by name only. The copies are read at the first call and kept; raises `StorageError` if
        that fails.
        """
        if self._others is None:
            states = ((log, MetadataLog(open_partition(log.directory)).state(log.end)) for log in self.logs)
            self._others = [(quorum_log.directory, state.image) for quorum_log, state in states]
        places = (path for path, image in self._others if _lacks(image, topic, partition, topic_id) is None)
        return next(places, None)

    def begin(self, disks: Mapping[int, BrokerDisks]) -> None:
        """Set the brokers that are about to be started, with their directories. Must be called before `leaders`;
        earlier predictions are forgotten.
        """
        self._starts, self._known = [], {}
        for image in self.images:
            level = software_level(image)
            groups = fencing_order(image.brokers.values(), level)
            there: dict[int, BrokerImage] = dict(image.brokers)
            for node, broker_disks in disks.items():
                if node in there and (ids := broker_disks.directory_ids) is not None:
                    there[node] = replace(there[node], directories=ids)
            up = frozenset(node for node, broker_disks in disks.items() if broker_disks.is_up and node in there)
            clean = frozenset(node for node in up if disks[node].was_stopped(there[node].epoch))
            after = _with_brokers(image, there)
            counts = Starts.counts_registrations(level)
            self._starts.append(
                (image, Starts(image=after, fencing=groups, running=up, clean=clean, registration_counts=counts))
            )

    def leaders(self, key: Key, order: tuple[int, ...] | None, *, cautious: bool = False) -> frozenset[int] | None:
        """Return the ids of all brokers that may lead, under any controller that may win, and `NO_LEADER` if there may
        be no leader. Return `NO_LEADER` alone if `order` elects no controller, and an empty set if no image has the
        partition. Return None if there are too many cases to simulate. `order` is the order in which brokers are
        started, None for any. `begin` must be called before. `cautious` has no effect here.
        """
        if order is not None and not self.elects_a_controller(order):
            return frozenset({NO_LEADER})
        leaders: set[int] = set()
        for number, (image, starts) in enumerate(self._starts):
            topic = image.topics.get(key[0])
            partition = None if topic is None else topic.partitions.get(key[1])
            if topic is None or partition is None:
                continue
            rules = self._rules.get((number, key[0]))
            if rules is None:
                rules = self._rules[number, key[0]] = topic_rules(image, topic, self.controller, self.static)
            these = self._of_one(number, partition, rules, starts, order)
            if these is None:
                return None
            leaders |= these
        return frozenset(leaders)

    def elects_a_controller(self, order: tuple[int, ...]) -> bool:
        """Whether the controllers that are up with only the brokers of `order` are a majority of the voters. True if
        all that can be started are none either: `kraft_memory` then says what must be done first.
        """
        down = self._starts[0][1].running.difference(order)
        needed = len(self.voters) // 2 + 1
        there = self.voters - (self.brokers - self._starts[0][1].running)
        return len(there - down) >= needed or len(there) < needed

    def _of_one(
        self, number: int, partition: PartitionImage, rules: TopicRules, starts: Starts, order: tuple[int, ...] | None
    ) -> frozenset[int] | None:
        alike = replace(partition, leader_epoch=0, partition_epoch=0)
        key = (number, alike, rules, order)
        if key not in self._known:
            if order is not None:
                racing = self._racing(order)
                starts = replace(starts, racing=racing & starts.running, order=self._after(order, racing, starts))
            self._known[key] = possible_leaders(alike, rules, starts)
        return self._known[key]

    def _racing(self, order: Sequence[int]) -> frozenset[int]:
        """Return the brokers that are up before the old sessions end, which happens once a majority of the controllers
        is up. Brokers start in the given order, so these are the first in `order`, including the one that completes the
        majority; all of `order` if none does. Empty if the controllers that are not brokers are a majority alone.
        """
        alone = self.voters - self.brokers
        needed = len(self.voters) // 2 + 1 - len(alone)
        racing: list[int] = []
        for node in order:
            if needed <= 0:
                break
            racing.append(node)
            needed -= node in self.voters
        return frozenset(racing)

    @staticmethod
    def _after(order: Sequence[int], racing: frozenset[int], starts: Starts) -> tuple[int, ...]:
        return tuple(node for node in order if node not in racing and node in starts.running)


def _with_brokers(image: MetadataImage, brokers: dict[int, BrokerImage]) -> MetadataImage:
    """Return a new image that has only the data that elections depend on: the registrations `brokers`, and the features
    of `image`.
    """
    after = MetadataImage()
    after.brokers = brokers
    after.features = image.features
    return after


def _lacks(image: MetadataImage, topic: str, partition: int, topic_id: str | None) -> str | None:
    """Return why the image does not have the partition; None if it has. `topic_id` None compares by name only."""
    known = image.topics.get(topic)
    if topic_id is not None and image.topic_names.get(topic_id) != topic:
        if known is None:
            return "the metadata knows no such topic"
        return f"the metadata knows another topic of this name, with id {known.id}"
    if known is None:
        return "the metadata knows no such topic"
    return (
        None if partition in known.partitions else f"the metadata knows {counted(len(known.partitions), 'partition')}"
    )


def kraft_memory(paths: Sequence[str], static: Mapping[str, str], findings: list[Finding]) -> KRaftMemory:
    """Read copies of `__cluster_metadata`. Return the different metadata images with which a controller that may win
    the election would lead, and the voters, last leader and logs; voters and leader are from the first possible
    winner's log.

    Findings are appended to `findings`. `static` are the controllers' settings. Raises `RecoveryRefused` if the copies
    are of several clusters or the first image has no topics and no brokers. Raises `UsageError` for a path without a
    metadata log. Raises `StorageError` if a log cannot be read.
    """
    quorums = read_quorum(*paths)
    if len(quorums) > 1:
        ids = ", ".join(str(quorum.cluster_id) for quorum in quorums)
        raise RecoveryRefused(f"the directories are of {len(quorums)} clusters ({ids}): give those of one")
    quorum = quorums[0]
    findings += quorum.findings
    able = _able(quorum, findings)
    winners = list({log.position: log for log in reversed(best_first(able))}.values())[::-1]
    images: list[MetadataImage] = []
    for log in winners:
        state = MetadataLog(open_partition(log.directory)).state(log.end)
        findings += [finding for finding in state.findings if finding not in findings]
        if not any(_same(state.image, other) for other in images):
            images.append(state.image)
    first = winners[0]
    if not images[0].topics and not images[0].brokers:
        raise RecoveryRefused(
            f"the metadata log {first.directory} can be read up to offset {first.end} and says nothing"
        )
    controller = first.terms[-1].leader if first.terms else None
    source = f"{first.directory} up to offset {first.end}"
    logs = [*winners, *(survivor.log for survivor in quorum.survivors if survivor.log not in winners)]
    furthest = best_first([survivor.log for survivor in quorum.survivors if survivor.log.end])
    return KRaftMemory(
        source, images, frozenset(first.voter_ids), static, controller, logs=logs, elected=_elected(quorum, able),
        held=[(log.node, log.root) for log in furthest], static_voters=frozenset(first.static_voters),
    )  # fmt: skip


def _elected(quorum: Quorum, able: Sequence[QuorumLog]) -> str:
    """Return a sentence that only the controllers in `able` can be elected. Return an empty string if no other voter
    starts whose metadata ends before theirs, or if one in `able` is not a voter.
    """
    behind = sorted(str(survivor.log.node) for survivor in quorum.survivors if survivor.log.is_voter
                    and survivor.log.refusal is None and survivor.log not in able)  # fmt: skip
    if not behind or not all(log.is_voter for log in able):
        return ""
    nodes = " or ".join(sorted(str(log.node) for log in able))
    gets = "gets" if len(behind) == 1 else "get"
    return (
        f"Node {nodes} is elected as the controller, in any order of starts: the metadata of {' and '.join(behind)} "
        f"is older, and {'it' if len(behind) == 1 else 'they'} {gets} the rest from the controller."
    )


def _same(first: MetadataImage, second: MetadataImage) -> bool:
    return (first.topics, first.brokers, first.configs, first.features) == (
        second.topics, second.brokers, second.configs, second.features,
    )  # fmt: skip


def _able(quorum: Quorum, findings: list[Finding]) -> list[QuorumLog]:
    """Return the logs of the controllers that may be elected: those which at least a majority of the voters is not
    ahead of. Only logs of voters without a `refusal` count. If these voters are fewer than a majority, return only the
    best log, and append a finding to `findings`.
    """
    logs = [survivor.log for survivor in quorum.survivors]
    voters = [log for log in logs if log.is_voter and log.refusal is None]
    needed = len(quorum.best.voter_ids) // 2 + 1
    able = [log for log in voters if sum(other.position <= log.position for other in voters) >= needed]
    if not able:
        detail = (
            f"{len(voters)} of {len(quorum.best.voter_ids)} voters are here, which elect no controller: what is "
            "foreseen holds once `kafkalog quorum recover` has brought one back from the best copy"
        )
        findings.append(Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, detail, None))
        able = [quorum.best]
    return able
