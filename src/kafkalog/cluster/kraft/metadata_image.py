"""State of a KRaft cluster, built record by record (`MetadataDelta`, `MetadataImage`).

Records between BeginTransaction and EndTransaction take effect when the transaction ends, or not at all. A record that
contradicts the image is noted in `problems`, and skipped if it cannot be applied; Kafka may stop there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from kafkalog.cluster.records.framed_records import FramedRecord
from kafkalog.codec.layout.text_values import uuid_bytes

__all__ = ["MIGRATING", "UNASSIGNED", "BrokerImage", "MetadataImage", "PartitionImage", "TopicImage", "resource_name"]

MIGRATING = "A" * 22
"""directory id of a replica whose directory is unknown"""
UNASSIGNED = "A" * 21 + "Q"
"""directory id of a replica that its broker has not placed yet"""
_NO_LEADER_CHANGE = -2
_KRAFT_VERSION = "kraft.version"
_RESOURCES = {2: "topic", 4: "broker", 8: "broker_logger", 16: "client_metrics", 32: "group"}
_TOPIC_RESOURCE = 2
_FENCING = {1: True, -1: False}

Fields = Mapping[str, Any]


class PartitionImage(Struct, frozen=True):
    """A partition (`PartitionRegistration`)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0

    @property
    def recovering(self) -> bool:
        """Whether the leader was elected uncleanly and has not recovered yet."""
        return self.leader_recovery_state != 0


class TopicImage(Struct, frozen=True):
    """A topic with its partitions by number."""

    name: str
    id: str
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


class BrokerImage(Struct, frozen=True, kw_only=True):
    """A broker's registration (`BrokerRegistration`)."""

    id: int
    epoch: int
    incarnation_id: str
    listeners: tuple[tuple[str, str, int], ...]
    """(name, host, port)"""
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[str, ...]
    features: tuple[tuple[str, int, int], ...] = ()
    """(name, smallest level it supports, largest)"""
    cordoned_directories: tuple[str, ...] = ()
    """those of `directories` that get no new partitions (`metadata.version` 4.3-IV0 and later)"""


def resource_name(kind: int, name: str) -> str:
    """Name of a configuration resource, for example `topic:orders`; `broker:` for the cluster's default. `kind` is
    Kafka's resource type; an unknown one is written as its number.
    """
    return f"{_RESOURCES.get(kind, str(kind))}:{name}"


def _uuid_order(text: str) -> tuple[int, int]:
    """Sort key of a UUID in the order of `Uuid.compareTo`: two signed longs."""
    data = uuid_bytes(text)
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big", signed=True)


def _directories(ids: list[str] | None, replicas: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(ids) if ids else (MIGRATING,) * len(replicas)


OnChange = Callable[[TopicImage, int, PartitionImage | None, PartitionImage | None], None]


class MetadataImage:
    """The state after the records that were applied so far. `problems` has a sentence for each contradiction."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.topic_names: dict[str, str] = {}
        """id -> name"""
        self.brokers: dict[int, BrokerImage] = {}
        self.controllers: dict[int, dict[str, Any]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.client_quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {}
        self.acls: dict[str, dict[str, Any]] = {}
        self.scram: dict[tuple[int, str], dict[str, Any]] = {}
        """(mechanism, user) -> credential"""
        self.delegation_tokens: dict[str, dict[str, Any]] = {}
        self.next_producer_id = -1
        self.zk_migration_state: int | None = None
        self.problems: list[str] = []
        self.on_change: OnChange | None = None
        """called for every change of a partition with topic, number, before and after"""
        self._transaction: list[FramedRecord] | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open; its records are not in the image."""
        return self._transaction is not None

    def apply(self, record: FramedRecord) -> None:
        """Apply a record to the image. A record that could not be decoded changes nothing, and so does a record type
        that is unknown here.

        Records inside a metadata transaction are held back until it ends, and dropped if it is aborted. If a
        transaction begins inside another, a sentence is added to `problems`, and the records held back so far are
        dropped. A record that contradicts the image adds a sentence to `problems` too; it is skipped if it cannot be
        applied.
        """
        name = record.name
        if name == "BeginTransactionRecord":
            if self._transaction is not None:
                self.problems.append("a metadata transaction begins inside another")
            self._transaction = []
        elif name == "AbortTransactionRecord":
            self._transaction = None
        elif name == "EndTransactionRecord":
            waiting, self._transaction = self._transaction or [], None
            for framed_record in waiting:
                self._replay(framed_record)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._replay(record)

    def _replay(self, record: FramedRecord) -> None:
        handler = _HANDLERS.get(record.name)
        if handler is not None and record.decoded is not None:
            getattr(self, handler)(record.decoded.fields)

    # topics

    def _topic(self, fields: Fields) -> None:
        topic = TopicImage(fields["name"], fields["topic_id"])
        key, other = topic.name, self.topics.get(topic.name)
        if other is not None and other.id != topic.id:
            key = f"{topic.name} (id {topic.id})"
            self.problems.append(
                f"topic {topic.name} is made again with id {topic.id} while id {other.id} has the name: a controller "
                "ends there, a broker alone keeps both"
            )
        self.topics[key] = topic
        self.topic_names[topic.id] = key

    def _remove_topic(self, fields: Fields) -> None:
        name = self.topic_names.pop(fields["topic_id"], None)
        if name is None:
            self.problems.append(f"topic {fields['topic_id']} is removed, but never existed")
            return
        topic = self.topics.pop(name)
        for number, partition in sorted(topic.partitions.items()):
            self._note(topic, number, partition, None)
        self.configs.pop(resource_name(_TOPIC_RESOURCE, name), None)

    def _note(
        self, topic: TopicImage, number: int, before: PartitionImage | None, after: PartitionImage | None
    ) -> None:
        if self.on_change is not None and before != after:
            self.on_change(topic, number, before, after)

    def _set(self, topic: TopicImage, number: int, after: PartitionImage) -> None:
        before = topic.partitions.get(number)
        topic.partitions[number] = after
        self._note(topic, number, before, after)

    def _topic_of(self, fields: Fields) -> TopicImage | None:
        name = self.topic_names.get(fields["topic_id"])
        if name is None:
            self.problems.append(f"partition {fields['partition_id']} of unknown topic {fields['topic_id']}")
            return None
        return self.topics[name]

    def _partition(self, fields: Fields) -> None:
        topic = self._topic_of(fields)
        if topic is None:
            return
        replicas = tuple(fields["replicas"])
        partition = PartitionImage(
            replicas=replicas,
            isr=tuple(fields["isr"]),
            leader=fields["leader"],
            leader_epoch=fields["leader_epoch"],
            partition_epoch=fields["partition_epoch"],
            directories=_directories(fields.get("directories"), replicas),
            adding_replicas=tuple(fields["adding_replicas"]),
            removing_replicas=tuple(fields["removing_replicas"]),
            elr=tuple(fields.get("eligible_leader_replicas") or ()),
            last_known_elr=tuple(fields.get("last_known_elr") or ()),
            leader_recovery_state=fields["leader_recovery_state"],
        )
        self._note_epochs(topic, fields["partition_id"], partition)
        self._set(topic, fields["partition_id"], partition)

    def _note_epochs(self, topic: TopicImage, number: int, after: PartitionImage) -> None:
        """Add a sentence to `self.problems` for each epoch (leader epoch, partition epoch) that is smaller in `after`
        than in the known partition. Nothing is added for a new partition.
        """
        before = topic.partitions.get(number)
        if before is None:
            return
        for name, old, new in (
            ("leader epoch", before.leader_epoch, after.leader_epoch),
            ("partition epoch", before.partition_epoch, after.partition_epoch),
        ):
            if new < old:
                self.problems.append(f"the {name} of {topic.name}-{number} goes back from {old} to {new}")

    def _partition_change(self, fields: Fields) -> None:
        topic = self._topic_of(fields)
        number = fields["partition_id"]
        if topic is None:
            return
        before = topic.partitions.get(number)
        if before is None:
            self.problems.append(f"partition {number} of {topic.name} changes, but never existed")
            return

        def changed(name: str, old: tuple[Any, ...]) -> tuple[Any, ...]:
            value = fields.get(name)
            return old if value is None else tuple(value)

        replicas = changed("replicas", before.replicas)
        directories = changed("directories", before.directories)
        if all(directory == MIGRATING for directory in directories):
            directories = (MIGRATING,) * len(replicas)
        if len(directories) != len(replicas):
            self.problems.append(
                f"{topic.name}-{number} has {len(replicas)} replicas and {len(directories)} directories"
            )
        led = fields["leader"] != _NO_LEADER_CHANGE
        recovery = fields["leader_recovery_state"]
        after = PartitionImage(
            replicas=replicas,
            isr=changed("isr", before.isr),
            leader=fields["leader"] if led else before.leader,
            leader_epoch=before.leader_epoch + led,
            partition_epoch=before.partition_epoch + 1,
            directories=directories,
            adding_replicas=changed("adding_replicas", before.adding_replicas),
            removing_replicas=changed("removing_replicas", before.removing_replicas),
            elr=changed("eligible_leader_replicas", before.elr),
            last_known_elr=changed("last_known_elr", before.last_known_elr),
            leader_recovery_state=before.leader_recovery_state if recovery == -1 else recovery,
        )
        self._set(topic, number, after)

    def _clear_elr(self, fields: Fields) -> None:
        for topic in self.topics.values():
            if fields["topic_name"] not in ("", topic.name):
                continue
            for number, image in list(topic.partitions.items()):
                if image.elr or image.last_known_elr:
                    after = replace(image, elr=(), last_known_elr=(), partition_epoch=image.partition_epoch + 1)
                    self._set(topic, number, after)

    # brokers and controllers

    def _register_broker(self, fields: Fields) -> None:
        known = self.brokers.get(fields["broker_id"])
        if known is not None and fields["broker_epoch"] < known.epoch:
            self.problems.append(
                f"the epoch of broker {known.id} goes back from {known.epoch} to {fields['broker_epoch']}"
            )
        self.brokers[fields["broker_id"]] = BrokerImage(
            id=fields["broker_id"],
            epoch=fields["broker_epoch"],
            incarnation_id=fields["incarnation_id"],
            listeners=tuple(sorted((field["name"], field["host"], field["port"]) for field in fields["end_points"])),
            rack=fields["rack"],
            fenced=fields["fenced"],
            in_controlled_shutdown=fields.get("in_controlled_shutdown", False),
            directories=tuple(sorted(fields.get("log_dirs", ()), key=_uuid_order)),
            features=tuple(
                sorted(
                    (field["name"], field["min_supported_version"], field["max_supported_version"])
                    for field in fields["features"]
                )
            ),
            cordoned_directories=tuple(sorted(fields.get("cordoned_log_dirs") or (), key=_uuid_order)),
        )

    def _known_broker(self, number: int, epoch: int) -> BrokerImage | None:
        broker = self.brokers.get(number)
        if broker is None or broker.epoch != epoch:
            self.problems.append(f"broker {number} of epoch {epoch} changes, but is not registered")
            return None
        return broker

    def _broker_change(self, fields: Fields) -> None:
        broker = self._known_broker(fields["broker_id"], fields["broker_epoch"])
        if broker is None:
            return
        directories, cordoned = fields.get("log_dirs"), fields.get("cordoned_log_dirs")
        self.brokers[broker.id] = replace(
            broker,
            fenced=_FENCING.get(fields["fenced"], broker.fenced),
            in_controlled_shutdown=broker.in_controlled_shutdown or fields.get("in_controlled_shutdown", 0) == 1,
            directories=tuple(sorted(directories, key=_uuid_order)) if directories else broker.directories,
            cordoned_directories=(
                broker.cordoned_directories if cordoned is None else tuple(sorted(cordoned, key=_uuid_order))
            ),
        )

    def _fence(self, fields: Fields) -> None:
        broker = self._known_broker(fields["id"], fields["epoch"])
        if broker is not None:
            self.brokers[broker.id] = replace(broker, fenced=True)

    def _unfence(self, fields: Fields) -> None:
        broker = self._known_broker(fields["id"], fields["epoch"])
        if broker is not None:
            self.brokers[broker.id] = replace(broker, fenced=False)

    def _unregister_broker(self, fields: Fields) -> None:
        if self._known_broker(fields["broker_id"], fields["broker_epoch"]) is not None:
            del self.brokers[fields["broker_id"]]

    def _register_controller(self, fields: Fields) -> None:
        named = {name: sorted(fields[name], key=lambda each: str(each["name"])) for name in ("end_points", "features")}
        self.controllers[fields["controller_id"]] = {**fields, **named}  # Kafka keeps both as maps

    def _unregister_controller(self, fields: Fields) -> None:
        self.controllers.pop(fields["controller_id"], None)

    # everything else

    def _config(self, fields: Fields) -> None:
        resource = resource_name(fields["resource_type"], fields["resource_name"])
        values = self.configs.setdefault(resource, {})
        if fields["value"] is None:
            values.pop(fields["name"], None)
        else:
            values[fields["name"]] = fields["value"]
        if not values:
            del self.configs[resource]

    def _feature(self, fields: Fields) -> None:
        if fields["name"] == _KRAFT_VERSION:
            return  # it is in the control records; controllers ignore this (KAFKA-18979)
        level = fields.get("feature_level", fields.get("max_feature_level", 0))
        if level:
            self.features[fields["name"]] = level
        else:
            self.features.pop(fields["name"], None)

    def _remove_feature(self, fields: Fields) -> None:
        self.features.pop(fields["name"], None)

    def _quota(self, fields: Fields) -> None:
        entity = tuple(sorted((field["entity_type"], field["entity_name"]) for field in fields["entity"]))
        values = self.client_quotas.setdefault(entity, {})
        if fields["remove"]:
            values.pop(fields["key"], None)
        else:
            values[fields["key"]] = fields["value"]
        if not values:
            del self.client_quotas[entity]

    def _producer_ids(self, fields: Fields) -> None:
        self.next_producer_id = fields["next_producer_id"]

    def _acl(self, fields: Fields) -> None:
        identity = fields.get("id") or repr(sorted(fields.items()))  # 2.8-3.2 had no ids
        self.acls[identity] = {name: value for name, value in fields.items() if name != "id"}

    def _remove_acl(self, fields: Fields) -> None:
        if self.acls.pop(fields["id"], None) is None:
            self.problems.append(f"access control entry {fields['id']} is removed, but never existed")

    def _scram(self, fields: Fields) -> None:
        self.scram[fields["mechanism"], fields["name"]] = dict(fields)

    def _remove_scram(self, fields: Fields) -> None:
        self.scram.pop((fields["mechanism"], fields["name"]), None)

    def _token(self, fields: Fields) -> None:
        self.delegation_tokens[fields["token_id"]] = dict(fields)

    def _remove_token(self, fields: Fields) -> None:
        self.delegation_tokens.pop(fields["token_id"], None)

    def _zk_migration(self, fields: Fields) -> None:
        self.zk_migration_state = fields["zk_migration_state"]


_HANDLERS = {
    "TopicRecord": "_topic",
    "RemoveTopicRecord": "_remove_topic",
    "PartitionRecord": "_partition",
    "PartitionChangeRecord": "_partition_change",
    "ClearElrRecord": "_clear_elr",
    "RegisterBrokerRecord": "_register_broker",
    "UnregisterBrokerRecord": "_unregister_broker",
    "BrokerRegistrationChangeRecord": "_broker_change",
    "FenceBrokerRecord": "_fence",
    "UnfenceBrokerRecord": "_unfence",
    "RegisterControllerRecord": "_register_controller",
    "UnregisterControllerRecord": "_unregister_controller",
    "ConfigRecord": "_config",
    "FeatureLevelRecord": "_feature",
    "RemoveFeatureLevelRecord": "_remove_feature",
    "ClientQuotaRecord": "_quota",
    "ProducerIdsRecord": "_producer_ids",
    "AccessControlRecord": "_acl",
    "AccessControlEntryRecord": "_acl",
    "RemoveAccessControlEntryRecord": "_remove_acl",
    "UserScramCredentialRecord": "_scram",
    "RemoveUserScramCredentialRecord": "_remove_scram",
    "DelegationTokenRecord": "_token",
    "RemoveDelegationTokenRecord": "_remove_token",
    "ZkMigrationStateRecord": "_zk_migration",
}
"""Record type -> method that applies it; other types change nothing."""
