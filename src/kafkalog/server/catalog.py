"""What is served: topics and their partitions, as the directories have them now, and what the cluster knew of them.

Listed again and again; a catalog's `topics` are replaced as a whole, so that whoever answers a request sees one moment.
Who answers a request sees one broker.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from kafkalog.cluster.kraft.cluster_facts import ClusterFacts, cluster_facts, live_partitions, metadata_partition
from kafkalog.codec.errors import KafkaLogError, StorageError
from kafkalog.codec.findings import FindingCode
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.log.directories.follow import settled
from kafkalog.log.directories.inventory import Inventory
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike, exists
from kafkalog.log.disk.holders import told_held_by_others
from kafkalog.server.files import OpenLogs
from kafkalog.server.served_log import ServedLog

__all__ = ["NO_TOPIC_ID", "Catalog", "Permitted", "Served", "Topic"]

NO_TOPIC_ID = "A" * 22
"""16 zeros: the topic has none."""
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Topic(Struct, frozen=True):
    """One topic; `partitions` are those whose logs are here, `partition_count` all there ever were."""

    name: str
    id: str
    """its own, or one that is made of its name where it has none"""
    partitions: Mapping[int, ServedLog]
    partition_count: int

    @property
    def is_internal(self) -> bool:
        """Whether it is one of a broker's own."""
        return self.name in _INTERNAL


class Catalog:
    """The directories at `paths`; `replica` and `chosen` as in other commands, `as_of` (ms) a moment of the past.

    `on_damage` is told of damage that is left out; without it damage is served as it is.  `complain` is told of what
    goes wrong while a directory is listed again.
    """

    def __init__(
        self,
        paths: Sequence[PathLike],
        *,
        replica: PathLike | None = None,
        chosen: Selection = ALL,
        as_of: int | None = None,
        on_damage: Callable[[str], None] | None = None,
        complain: Callable[[str], None] = lambda _: None,
        open_logs: int = 512,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._paths = tuple(paths)
        self._replica = replica
        self._chosen = chosen
        self.as_of = as_of
        self._on_damage = on_damage
        self._complain = complain
        self._limits = limits
        self.files = OpenLogs(open_logs)
        self.topics: Mapping[str, Topic] = {}
        self.names: Mapping[str, str] = {}
        """topic id -> name"""
        self._logs: dict[tuple[str, int], ServedLog] = {}
        self._complaint = ""
        inventory = settled(*self._paths, tolerant=True, limits=limits)
        self.findings = list(inventory.all_unreadable)
        for finding in inventory.findings:
            if finding.code is FindingCode.RUN_UNFINISHED:
                complain(f"{finding.file}: {finding.detail}; what is served is half done")
        self.partitions: tuple[Partition, ...] = ()
        self.metadata: Partition | None = None
        """the log of the cluster's metadata, if there is one"""
        self.cluster = cluster_facts(inventory, as_of=as_of, limits=limits)
        if self.cluster.problem is not None:
            complain(self.cluster.problem)
        self._take(inventory)
        self.held = tuple(each.path for each in inventory.log_dirs if told_held_by_others(each.path))
        """directories that another process has locked"""

    def _take(self, inventory: Inventory) -> bool:
        live = [*live_partitions(inventory, replica=self._replica, select=self._chosen), *self._unread(inventory)]
        self.metadata = metadata_partition(inventory)
        self.partitions = tuple(live)
        found: dict[tuple[str, int], ServedLog] = {}
        changed = False
        for each in live:
            key = each.topic or "", each.partition or 0
            if not self._chosen.takes(*key):
                continue
            log = self._logs.get(key)
            if log is None or log.listed.path != each.path:
                log = ServedLog(each, self.files, as_of=self.as_of, on_damage=self._on_damage,
                                complain=self._complain, limits=self._limits)  # fmt: skip
                changed = True
            else:
                changed |= self._updated(log, each)
            found[key] = log
        if changed or found.keys() != self._logs.keys():
            self._logs = found
            self.topics = self._by_topic(found)
            self.names = {topic.id: name for name, topic in self.topics.items()}
            changed = True
        return changed

    def _unread(self, inventory: Inventory) -> list[Partition]:
        """Partitions that are still there and could not be listed again: they stay as they were."""
        if not inventory.all_unreadable:
            return []
        listed = {each.path for each in inventory.partitions}
        kept = [log.listed for log in self._logs.values() if log.listed.path not in listed and
                exists(log.listed.path)]  # fmt: skip
        if kept:
            self._once(f"{len(kept)} partition(s) could not be listed again, and are served as they were: "
                       f"{inventory.all_unreadable[0].detail}")  # fmt: skip
        return kept

    def _updated(self, log: ServedLog, listed: Partition) -> bool:
        try:
            return log.update(listed)
        except StorageError as error:  # a request meets it again, and is told
            self._once(str(error))
            return True

    def _by_topic(self, logs: Mapping[tuple[str, int], ServedLog]) -> dict[str, Topic]:
        numbers: dict[str, dict[int, ServedLog]] = {}
        for (name, number), log in sorted(logs.items(), key=lambda pair: pair[0]):
            numbers.setdefault(name, {})[number] = log
        topics = {}
        for name, partitions in numbers.items():
            image_id, _ = self.cluster.topics.get(name, (NO_TOPIC_ID, 0))
            ids = [log.listed.metadata.topic_id for log in partitions.values() if log.listed.metadata is not None]
            topic_id = _first([*ids, image_id]) or _made_id(name)
            topics[name] = Topic(name, topic_id, partitions, self.cluster.partition_count(name, partitions))
        return topics

    def refresh(self) -> bool:
        """List the directories again; whether anything changed.  What goes wrong is told once, and nothing changes."""
        try:
            inventory = settled(*self._paths, tolerant=True, limits=self._limits)
            if not inventory.all_unreadable:
                self._complaint = ""
            changed = self._take(inventory)
        except (KafkaLogError, OSError) as error:
            self._once(f"the directory cannot be listed again: {error}")
            return False
        return changed

    def _once(self, complaint: str) -> None:
        if complaint != self._complaint:
            self._complaint = complaint
            self._complain(complaint)

    @property
    def partition_count(self) -> int:
        """Partitions that are served."""
        return len(self._logs)

    @property
    def absent_count(self) -> int:
        """Partitions that were chosen, that the cluster's metadata has, and whose logs are not here."""
        return sum(
            (name, number) not in self._logs and self._chosen.takes(name, number)
            for name, (_, count) in self.cluster.topics.items() for number in range(count)
        )  # fmt: skip

    def log(self, topic: str, partition: int) -> ServedLog | None:
        """The log of a partition, if it is here."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def permits(self, _topic: str) -> bool:
        """Whether one may know of a topic of that name."""
        return True


class Served(Protocol):
    """What a client is served: a catalog, or the part of it that its user may read."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """By name."""

    @property
    def names(self) -> Mapping[str, str]:
        """Topic id -> name."""

    @property
    def cluster(self) -> ClusterFacts:
        """Who the directories belong to."""

    @property
    def metadata(self) -> Partition | None:
        """The log of the cluster's metadata."""

    def log(self, topic: str, partition: int) -> ServedLog | None:
        """The log of a partition, if it is here."""

    def permits(self, topic: str) -> bool:
        """Whether one may know of a topic of that name, if there is one."""


class Permitted:
    """The topics of a catalog that a user may read: names, or their beginnings with `*` behind (`PatternType`)."""

    def __init__(self, catalog: Catalog, patterns: Sequence[str]) -> None:
        self._catalog = catalog
        self._literal = frozenset(each for each in patterns if not each.endswith("*"))
        self._prefixes = tuple(each[:-1] for each in patterns if each.endswith("*"))
        self._seen: tuple[Mapping[str, Topic], dict[str, Topic], dict[str, str]] = {}, {}, {}

    def permits(self, topic: str) -> bool:
        """Whether a topic of that name may be read."""
        return topic in self._literal or topic.startswith(self._prefixes)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics that may be read, by name."""
        return self._look()[1]

    def _look(self) -> tuple[Mapping[str, Topic], dict[str, Topic], dict[str, str]]:
        topics, seen = self._catalog.topics, self._seen
        if seen[0] is not topics:
            found = {name: each for name, each in topics.items() if self.permits(name)}
            seen = self._seen = topics, found, {each.id: name for name, each in found.items()}
        return seen

    @property
    def names(self) -> Mapping[str, str]:
        """Their ids -> names."""
        return self._look()[2]

    @property
    def cluster(self) -> ClusterFacts:
        """As it is."""
        return self._catalog.cluster

    @property
    def metadata(self) -> Partition | None:
        """Not theirs to know."""
        return None

    def log(self, topic: str, partition: int) -> ServedLog | None:
        """The log of a partition that may be read."""
        return self._catalog.log(topic, partition) if self.permits(topic) else None


def _first(ids: Iterable[str]) -> str | None:
    return next((each for each in ids if each != NO_TOPIC_ID), None)


def _made_id(name: str) -> str:
    """For a topic of before 2.8, which has none: the new protocol of groups knows topics by their ids alone."""
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16])[:22].decode()
