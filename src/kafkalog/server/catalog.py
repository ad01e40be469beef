"""Topics and partitions that are served, and facts about the cluster.

The directories are listed again and again. `topics` is replaced as a whole, so a request sees one moment. To clients
there is a single broker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from kafkalog.cluster.kraft.cluster_facts import ClusterFacts, cluster_facts, live_partitions, metadata_partition
from kafkalog.codec.common.errors import KafkaLogError, StorageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.layout.text_values import uuid_text
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
"""16 zero bytes: the topic has no id."""
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Topic(Struct, frozen=True, kw_only=True):
    """A topic. `partitions` has those with a log here, `partition_count` is the number in the cluster."""

    name: str
    id: str
    """its own id, or one derived from the name"""
    partitions: Mapping[int, ServedLog]
    partition_count: int

    @property
    def is_internal(self) -> bool:
        """Whether it is one of a broker's internal topics."""
        return self.name in _INTERNAL


class Catalog:
    """The topics in the directories at `paths`.

    `replica` chooses among several copies of a partition, `chosen` selects topics and partitions. With `as_of` (ms
    since 1970) logs end before the first later record. `on_damage` is called with a message for damage that is left
    out; without it damage is served unchanged. `complain` is called with errors while listing.
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
        self.findings = chosen.of_unreadable(inventory.all_unreadable)
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
        self.held = tuple(log_dir.path for log_dir in inventory.log_dirs if told_held_by_others(log_dir.path))
        """directories locked by another process"""

    def _take(self, inventory: Inventory) -> bool:
        live = [*live_partitions(inventory, replica=self._replica, select=self._chosen), *self._unread(inventory)]
        self.metadata = metadata_partition(inventory)
        self.partitions = tuple(live)
        found: dict[tuple[str, int], ServedLog] = {}
        changed = False
        for partition in live:
            key = partition.topic or "", partition.partition or 0
            if not self._chosen.takes(*key):
                continue
            log = self._logs.get(key)
            if log is None or log.listed.path != partition.path:
                log = ServedLog(partition, self.files, as_of=self.as_of, on_damage=self._on_damage,
                                complain=self._complain, limits=self._limits)  # fmt: skip
                changed = True
            else:
                changed |= self._updated(log, partition)
            found[key] = log
        if changed or found.keys() != self._logs.keys():
            self._logs = found
            self.topics = self._by_topic(found)
            self.names = {topic.id: name for name, topic in self.topics.items()}
            changed = True
        return changed

    def _unread(self, inventory: Inventory) -> list[Partition]:
        """Return the served partitions that are missing in the new listing `inventory` but still exist; they are served
        as before. Empty if everything could be read. The number of these partitions and the first error are reported,
        but the same message only once. Raises `StorageError` if a path cannot be examined.
        """
        if not inventory.all_unreadable:
            return []
        listed = {partition.path for partition in inventory.partitions}
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
            topics[name] = Topic(
                name=name,
                id=topic_id,
                partitions=partitions,
                partition_count=self.cluster.partition_count(name, partitions),
            )
        return topics

    def refresh(self) -> bool:
        """List the directories again and update the served topics; return whether anything changed.

        If listing fails, the error is reported, the topics stay as they are, and False is returned. A partition that
        still exists but cannot be listed is reported and served as before. A partition whose log cannot be read is
        reported and counts as changed. An error equal to the last one is not reported again, until everything could be
        listed.
        """
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
        """Number of served partitions."""
        return len(self._logs)

    @property
    def absent_count(self) -> int:
        """Number of selected partitions that are in the cluster metadata but have no log here."""
        return sum(
            (name, number) not in self._logs and self._chosen.takes(name, number)
            for name, (_, count) in self.cluster.topics.items() for number in range(count)
        )  # fmt: skip

    def log(self, topic: str, partition: int) -> ServedLog | None:
        """Return the log of a partition; None if it is not here."""
        found = self.topics.get(topic)
        return None if found is None else found.partitions.get(partition)

    def permits(self, _topic: str) -> bool:
        """Always true: every topic may be read."""
        return True


class Served(Protocol):
    """What a client is served: a catalog, or the part of it that the user may read."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Topics by name."""

    @property
    def names(self) -> Mapping[str, str]:
        """Topic id -> name."""

    @property
    def cluster(self) -> ClusterFacts:
        """Facts about the cluster that the directories belong to."""

    @property
    def metadata(self) -> Partition | None:
        """The log of the cluster's metadata; None if there is none or it is not shown."""

    def log(self, topic: str, partition: int) -> ServedLog | None:
        """Return the log of a partition; None if it is not here or may not be read."""

    def permits(self, topic: str) -> bool:
        """Return whether a topic of that name may be read, whether or not it exists."""


class Permitted:
    """The topics of a catalog that a user may read. A pattern is a name, or a prefix followed by `*`
    (`PatternType`).
    """

    def __init__(self, catalog: Catalog, patterns: Sequence[str]) -> None:
        self._catalog = catalog
        self._literal = frozenset(pattern for pattern in patterns if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
        self._seen: tuple[Mapping[str, Topic], dict[str, Topic], dict[str, str]] = {}, {}, {}

    def permits(self, topic: str) -> bool:
        """Return whether a topic of that name may be read."""
        return topic in self._literal or topic.startswith(self._prefixes)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics that may be read, by name."""
        return self._look()[1]

    def _look(self) -> tuple[Mapping[str, Topic], dict[str, Topic], dict[str, str]]:
        topics, seen = self._catalog.topics, self._seen
        if seen[0] is not topics:
            found = {name: topic for name, topic in topics.items() if self.permits(name)}
            seen = self._seen = topics, found, {topic.id: name for name, topic in found.items()}
        return seen

    @property
    def names(self) -> Mapping[str, str]:
        """Ids of the topics that may be read -> names."""
        return self._look()[2]

    @property
    def cluster(self) -> ClusterFacts:
        """The cluster of the catalog, unrestricted."""
        return self._catalog.cluster

    @property
    def metadata(self) -> Partition | None:
        """Always None: the metadata log is not shown to such a user."""
        return None

    def log(self, topic: str, partition: int) -> ServedLog | None:
        """Return the log of a partition; None if it is not here or may not be read."""
        return self._catalog.log(topic, partition) if self.permits(topic) else None


def _first(ids: Iterable[str]) -> str | None:
    return next((each for each in ids if each != NO_TOPIC_ID), None)


def _made_id(name: str) -> str:
    """Return an id derived from the name. Topics from before 2.8 have none, and the new group protocol needs one."""
    return uuid_text(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16])
