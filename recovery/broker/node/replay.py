"""Replay the metadata: compute the metadata image that a start arrives at, and the record at which it ends.

Two readers replay each batch: the loader (`MetadataLoader`, on every node) and, on controllers, the controllers' own
state (`QuorumController.replay`). A record that either cannot apply ends a controller; a node that is only a broker
continues without it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field, structs

from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage, TopicImage
from kafkalog.cluster.records.framed_records import FramedRecord
from kafkalog.recovery.broker.node.ending import RUNTIME
from kafkalog.recovery.broker.node.reading import MetaBatch
from kafkalog.recovery.broker.node.releases import Release, release_of

__all__ = [
    "Contradiction",
    "Replay",
    "newest_metadata_version",
    "oldest_with_metadata_version",
    "unknown_metadata_version",
]

_ILLEGAL_STATE = "java.lang.IllegalStateException"
_ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
_NULL = "java.lang.NullPointerException"
_METADATA_VERSION = "metadata.version"
_KRAFT_VERSION = "kraft.version"

_NEWEST: tuple[tuple[str, int], ...] = (
    ("4.4", 33), ("4.3", 30), ("4.2", 29), ("4.1", 29), ("4.0", 27), ("3.9", 23), ("3.8", 21), ("3.7.0", 20),
    ("3.6", 14), ("3.5", 11), ("3.4", 8), ("3.3", 7),
)  # fmt: skip
"""highest `metadata.version` that the classes of a release know, released or not; newest release first"""
_RELEASED: tuple[tuple[str, int], ...] = (
    ("4.4", 33), ("4.3", 30), ("4.2", 29), ("4.1", 27), ("4.0", 25), ("3.9", 21), ("3.8", 20), ("3.7.0", 19),
    ("3.6", 14), ("3.5", 11), ("3.4", 8), ("3.3", 7),
)  # fmt: skip
"""highest `metadata.version` that a release's own tools set"""
_LEAST_SINCE_4_0 = 7
_OF_TRANSACTIONS = ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord")
_LAST_MIGRATION_STATE = 4


def newest_metadata_version(release: Release) -> int:
    """Highest `metadata.version` that a release supports."""
    return next((level for since, level in _RELEASED if release.at_least(since)), _RELEASED[-1][1])


def oldest_with_metadata_version(level: int) -> Release:
    """Oldest release that supports a `metadata.version`; the newest known release if none does."""
    return release_of(next((since for since, highest in reversed(_RELEASED) if highest >= level), _RELEASED[0][0]))


class Contradiction(Struct, frozen=True, kw_only=True):
    """A record that a reader cannot apply, and the exception."""

    offset: int
    record: str
    exception: str
    message: str
    of_controller: bool
    """whether only controllers refuse it"""


class Replay(Struct, kw_only=True):
    """Metadata as one release replays it, record by record."""

    release: Release
    is_controller: bool
    accepts_unreleased: bool = False
    """whether the controller accepts every `metadata.version` that it knows (`unstable.feature.versions.enable`)"""
    image: MetadataImage = field(default_factory=MetadataImage)
    contradiction: Contradiction | None = None
    """first record at which a controller ends; None if there is none"""
    skipped: list[Contradiction] = field(default_factory=list)
    """records without which a broker continues"""
    records: int = 0
    """number of replayed records"""
    _has_seen_record: bool = False
    """whether a replayed record is none that begins or ends a metadata transaction"""
    features: list[tuple[str, int]] = field(default_factory=list)
    """name and level of each feature that was set, in order"""
    _is_open: bool = False

    def is_that_of(self, release: Release) -> bool:
        """Whether `release` would replay these records with equal results, except for `is_empty`: it accepts and
        refuses the same feature levels.
        """
        return all(
            self._feature_words(*feature, release) == self._feature_words(*feature, self.release)
            for feature in self.features
        )

    def as_of(self, release: Release) -> Replay:
        """Return this replay for another release; the image is shared."""
        return structs.replace(self, release=release)

    def take(self, batches: Iterable[MetaBatch]) -> None:
        """Replay batches into `image`; control batches are skipped. A controller stops at the first record that it
        cannot apply, and `contradiction` describes it; later calls apply nothing. A broker applies the records that
        only controllers refuse. It skips those that it cannot apply itself, and adds them to `skipped`. Exceptions of
        `batches` are passed on, such as `ReaderError`.
        """
        for batch in batches:
            if self.contradiction is not None:
                return
            if not batch.is_control:
                self._batch(batch)

    def _batch(self, batch: MetaBatch) -> None:
        for number, record in enumerate(batch.records):
            problem = self._problem(batch.base_offset + number, record)
            self.records += 1
            self._has_seen_record = self._has_seen_record or record.name not in _OF_TRANSACTIONS
            if problem is None:
                self.image.apply(record)
            elif self.is_controller:
                self.contradiction = problem
                return
            elif not problem.of_controller:
                self.skipped.append(problem)
            else:
                self._apply_as_broker(record)

    def _apply_as_broker(self, record: FramedRecord) -> None:
        """Apply to `image` a record that a broker accepts although a controller refuses it. After a second TopicRecord
        with one name, the image knows both topic ids by this name (`TopicsImage`).
        """
        fields = {} if record.decoded is None else record.decoded.fields
        before = self.image.topics.get(fields.get("name", "")) if record.name == "TopicRecord" else None
        self.image.apply(record)
        if before is not None:
            self.image.topic_names.setdefault(before.id, before.name)

    def _feature_words(self, name: str, level: int, release: Release) -> _Words | None:
        refusal = unknown_metadata_version(level, release) if name == _METADATA_VERSION else None
        return refusal or _of_feature(name, level, release, accepts_unreleased=self.accepts_unreleased)

    def _problem(self, offset: int, record: FramedRecord) -> Contradiction | None:
        if record.decoded is None:
            return None
        if record.name == "FeatureLevelRecord":
            self.features.append((record.decoded.fields["name"], record.decoded.fields["feature_level"]))
        refusal = _of_transactions(record, self) or _of_loader(record, self.image, self.release)
        of_controller = False
        if refusal is None:
            refusal = _of_controller(record, self.image, self.release, accepts_unreleased=self.accepts_unreleased)
            of_controller = refusal is not None
        if refusal is None:
            return None
        words = f"Error loading metadata log record from offset {offset}" if refusal[0] == _NULL else refusal[1]
        return Contradiction(
            offset=offset, record=record.name, exception=refusal[0], message=words, of_controller=of_controller
        )

    @property
    def ends_at_old_version(self) -> bool:
        """Whether `contradiction` is a `metadata.version` that is too old for the release."""
        if self.contradiction is None or self.contradiction.record != "FeatureLevelRecord":
            return False
        name, level = self.features[-1]
        return name == _METADATA_VERSION and is_too_old(level, self.release)

    @property
    def is_empty(self) -> bool:
        """Whether a leading controller treats the metadata as empty, and appends its bootstrap records."""
        return not self.has_version if self.release.at_least("4.1") else not self.records

    @property
    def has_version(self) -> bool:
        """Whether the metadata has a `metadata.version`."""
        return _METADATA_VERSION in self.image.features

    @property
    def is_without_version(self) -> bool:
        """Whether the loader ends a controller because the metadata has records and no `metadata.version`. With no
        record it waits for the bootstrap records (`MetadataLoader.stillNeedToCatchUp`). Never before 4.1, where a
        missing version counts as the lowest.
        """
        is_loaded = self.is_controller and self._has_seen_record
        return self.release.at_least("4.1") and is_loaded and not self.has_version

    def transaction(self, name: str) -> str | None:
        """Apply a Begin-, End- or AbortTransactionRecord (`name`) to the state of the metadata transaction. Return the
        start of Kafka's error message if a begin finds an open transaction, or an end or abort finds none; the state
        then stays unchanged. Otherwise return None.
        """
        if name == "BeginTransactionRecord":
            if self._is_open:
                return "Can't replay a BeginTransactionRecord at"
            self._is_open = True
        elif not self._is_open:
            article = "an AbortTransactionRecord" if name.startswith("Abort") else "an EndTransactionRecord"
            return f"Can't replay {article} at"
        else:
            self._is_open = False
        return None


_Words = tuple[str, str]


def _of_transactions(record: FramedRecord, replay: Replay) -> _Words | None:
    if record.name not in _OF_TRANSACTIONS:
        return None
    problem = replay.transaction(record.name)
    return None if problem is None else (RUNTIME, problem)


def _of_loader(record: FramedRecord, image: MetadataImage, release: Release) -> _Words | None:
    """Return the exception class and message with which Kafka (`MetadataDelta`) of this release refuses to apply a
    record to `image`. An example is an unknown topic or broker. Return None if the record is accepted. Records of types
    that are never refused are accepted. Changes nothing.
    """
    fields = {} if record.decoded is None else record.decoded.fields
    match record.name:
        case "PartitionRecord" | "PartitionChangeRecord":
            return _of_partition(record.name, fields["topic_id"], fields["partition_id"], image)
        case "RemoveTopicRecord" if fields["topic_id"] not in image.topic_names:
            return RUNTIME, f"Unable to delete topic with id {fields['topic_id']}: no such topic found."
        case "FenceBrokerRecord":
            return _of_broker(image, fields["id"], fields["epoch"], "fence")
        case "UnfenceBrokerRecord":
            return _of_broker(image, fields["id"], fields["epoch"], "unfence")
        case "BrokerRegistrationChangeRecord":
            return _of_broker(image, fields["broker_id"], fields["broker_epoch"], "change")
        case "RemoveAccessControlEntryRecord" if fields["id"] not in image.acls:
            return _ILLEGAL_STATE, f"Failed to find existing ACL with ID {fields['id']} in either image or changes"
        case "FeatureLevelRecord" if fields["name"] == _METADATA_VERSION:
            return unknown_metadata_version(fields["feature_level"], release)
        case "ZkMigrationStateRecord" if not release.at_least("4.0"):
            state = fields["zk_migration_state"]
            if not 0 <= state <= _LAST_MIGRATION_STATE:
                return _ILLEGAL_ARGUMENT, f"Value {state} is not a valid Zk migration state"
    return None


def _of_partition(name: str, topic_id: str, number: int, image: MetadataImage) -> _Words | None:
    if topic_id not in image.topic_names:
        return _NULL, "no topic with that ID was found"
    topic = image.topics.get(image.topic_names[topic_id])
    if name == "PartitionChangeRecord" and (topic is None or number not in topic.partitions):
        return RUNTIME, f"Unable to find partition {topic_id}:{number}"
    return None


def _of_broker(image: MetadataImage, number: int, epoch: int, action: str) -> _Words | None:
    broker = image.brokers.get(number)
    if broker is None:
        return _ILLEGAL_STATE, f"Tried to {action} broker {number}, but that broker was not registered."
    if broker.epoch != epoch:
        return _ILLEGAL_STATE, f"Tried to {action} broker {number}, but the given epoch, {epoch}, did not match"
    return None


def is_too_old(level: int, release: Release) -> bool:
    """Whether a `metadata.version` number is lower than any that a release knows."""
    return level < (_LEAST_SINCE_4_0 if release.at_least("4.0") else 1)


def unknown_metadata_version(level: int, release: Release) -> _Words | None:
    """Return the exception class and message with which a release refuses the `metadata.version` number `level`; None
    if it knows this number. A release knows all numbers from 1 (from 4.0 on: 7, which is 3.3-IV3) to its newest.
    """
    newest = next((known for since, known in _NEWEST if release.at_least(since)), _NEWEST[-1][1])
    if level <= newest and not is_too_old(level, release):
        return None
    words = "feature level" if release.at_least("3.8") else "metadata version"  # KAFKA-15949
    return _ILLEGAL_ARGUMENT, f"No MetadataVersion with {words} {level}"


def _of_controller(
    record: FramedRecord, image: MetadataImage, release: Release, *, accepts_unreleased: bool
) -> _Words | None:
    """Return the exception class and message with which a controller (its `*ControlManager`) refuses a record that the
    broker accepts. An example is a second TopicRecord of one name. Return None if the controller accepts it too.
    """
    fields = {} if record.decoded is None else record.decoded.fields
    match record.name:
        case "TopicRecord" if fields["name"] in image.topics:
            same = image.topics[fields["name"]].id == fields["topic_id"]
            how = "with topic ID" if same else "with a different ID than before."
            return RUNTIME, f"Found duplicate TopicRecord for {fields['name']} {how}"
        case "UnregisterBrokerRecord":
            broker = image.brokers.get(fields["broker_id"])
            if broker is None or broker.epoch != fields["broker_epoch"]:
                return RUNTIME, "Unable to replay UnregisterBrokerRecord"
        case "ProducerIdsRecord" if 0 <= fields["next_producer_id"] <= image.next_producer_id:
            return RUNTIME, f"Next Producer ID from replayed record ({fields['next_producer_id']}) is not greater than"
        case "RemoveUserScramCredentialRecord":
            if (fields["mechanism"], fields["name"]) not in image.scram:
                return RUNTIME, "Unable to find credential to delete"
        case "FeatureLevelRecord":
            return _of_feature(fields["name"], fields["feature_level"], release, accepts_unreleased=accepts_unreleased)
    return None


_FEATURES = frozenset(
    {_METADATA_VERSION, _KRAFT_VERSION, "transaction.version", "group.version", "eligible.leader.replicas.version",
     "share.version", "streams.version"}
)  # fmt: skip


def _of_feature(name: str, level: int, release: Release, *, accepts_unreleased: bool) -> _Words | None:
    if name == _METADATA_VERSION:
        if accepts_unreleased or level <= newest_metadata_version(release):
            return None
    elif name == _KRAFT_VERSION:
        if 0 <= level <= (1 if release.at_least("3.9") else 0):
            return None
    elif name in _FEATURES:
        return None
    return RUNTIME, "Tried to apply FeatureLevelRecord"


def replicas_of(image: MetadataImage, topic_id: str, partition: int) -> PartitionImage | None:
    """Return a partition of the metadata by topic id and partition number; None if the image has no such topic or
    partition.
    """
    name = image.topic_names.get(topic_id)
    topic: TopicImage | None = None if name is None else image.topics.get(name)
    if topic is None or topic.id != topic_id:
        return None
    return topic.partitions.get(partition)
