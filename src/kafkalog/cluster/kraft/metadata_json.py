"""Conversion of a metadata image to JSON objects. Secrets are hidden unless the caller asks for them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_image import BrokerImage, PartitionImage
from kafkalog.cluster.kraft.metadata_log import MetadataState
from kafkalog.cluster.rules.secrets import HIDDEN, is_secret_config

__all__ = ["SCRAM_MECHANISMS", "ImageLine", "KraftStateJson", "partition_json", "state_json"]

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_RECOVERY = {0: "RECOVERED", 1: "RECOVERING"}
_SCRAM_SECRETS = ("salt", "stored_key", "server_key")


class KraftStateJson(Struct, frozen=True, kw_only=True):
    """A partition as the KRaft controller has it (`PartitionRegistration`)."""

    replicas: tuple[int, ...]
    """brokers that hold it"""
    isr: tuple[int, ...]
    """brokers in sync"""
    leader: int
    """the leader; -1 if there is none"""
    leader_epoch: int
    """leader epoch, which rises with elections and some other changes of the partition"""
    partition_epoch: int
    """how often it was changed"""
    directories: tuple[str, ...]
    """directory id on each replica"""
    adding_replicas: tuple[int, ...]
    """being added"""
    removing_replicas: tuple[int, ...]
    """being removed"""
    elr: tuple[int, ...]
    """eligible leader replicas (KIP-966)"""
    last_known_elr: tuple[int, ...]
    """the last ones"""
    leader_recovery_state: str
    """`RECOVERED` or `RECOVERING`"""


class TopicJson(Struct, frozen=True, kw_only=True):
    """A topic."""

    id: str
    """topic id"""
    partitions: dict[str, KraftStateJson]
    """by number"""


class BrokerJson(Struct, frozen=True, kw_only=True):
    """A broker's registration."""

    epoch: int
    """of its registration"""
    incarnation_id: str
    """of its process"""
    listeners: dict[str, str]
    """name, and HOST:PORT"""
    rack: str | None
    """null if there is none"""
    fenced: bool
    """it leads nothing"""
    in_controlled_shutdown: bool
    """it is leaving"""
    directories: tuple[str, ...]
    """ids of its log directories"""
    cordoned_directories: tuple[str, ...]
    """ids of those into which no new partition is put"""
    features: dict[str, tuple[int, int]]
    """name, and the lowest and highest supported level"""


class CredentialJson(Struct, frozen=True, kw_only=True):
    """A SCRAM credential."""

    salt: str
    """base64, or [hidden]"""
    stored_key: str
    """base64, or [hidden]"""
    server_key: str
    """base64, or [hidden]"""
    iterations: int
    """number of iterations"""


class ImageLine(Struct, frozen=True, kw_only=True):
    """The image."""

    next_offset: int
    """the first offset of the metadata log that is not in it"""
    epoch: int
    """of the controller that wrote the last record; -1 if there is none"""
    timestamp: int
    """of the last record, in ms since 1970; -1 if there is none"""
    snapshot: str | None
    """file that it begins with; null if there is none"""
    kraft_version: int
    """of the quorum"""
    voters: Sequence[Mapping[str, Any]]
    """of the quorum, with the fields of Kafka's VotersRecord"""
    topics: dict[str, TopicJson]
    """by name"""
    configs: dict[str, dict[str, str]]
    """settings by resource, as `topic:NAME` or `broker:ID`; secrets are [hidden]"""
    brokers: dict[str, BrokerJson]
    """by id"""
    controllers: dict[str, Mapping[str, Any]]
    """by id, with the fields of Kafka's RegisterControllerRecord"""
    features: dict[str, int]
    """name and level"""
    client_quotas: dict[str, dict[str, float]]
    """entity, and its quotas"""
    acls: dict[str, Mapping[str, Any]]
    """by id, with the fields of Kafka's AccessControlEntryRecord"""
    scram_users: dict[str, list[str]]
    """mechanism, and users"""
    scram_credentials: dict[str, dict[str, CredentialJson]]
    """mechanism, user and credential; secrets are [hidden]"""
    delegation_tokens: list[dict[str, Any]]
    """with the fields of Kafka's DelegationTokenRecord; ids are [hidden]"""
    next_producer_id: int
    """first of the next block; -1 where none was given out"""
    zk_migration_state: int | None
    """null if there was no migration"""
    open_transaction: bool
    """the log ends inside a transaction of the controller's"""
    quorum_state: Mapping[str, Any] | None = None
    """what the file quorum-state says; null if there is none"""


def partition_json(partition: PartitionImage) -> KraftStateJson:
    """Convert a partition's state to its JSON object. An unknown recovery state is written as its number, as text."""
    return KraftStateJson(
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        adding_replicas=partition.adding_replicas,
        removing_replicas=partition.removing_replicas,
        elr=partition.elr,
        last_known_elr=partition.last_known_elr,
        leader_recovery_state=_RECOVERY.get(partition.leader_recovery_state, str(partition.leader_recovery_state)),
    )


def _broker(broker: BrokerImage) -> BrokerJson:
    return BrokerJson(
        epoch=broker.epoch,
        incarnation_id=broker.incarnation_id,
        listeners={name: f"{host}:{port}" for name, host, port in broker.listeners},
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        directories=broker.directories,
        cordoned_directories=broker.cordoned_directories,
        features={name: (least, most) for name, least, most in broker.features},
    )


def _entity(entity: tuple[tuple[str, str | None], ...]) -> str:
    """Format an entity as Java prints a map: `{client-id=null, user=alice}`."""
    return "{" + ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity) + "}"


def _config(name: str, value: str, *, show_secrets: bool) -> str:
    return HIDDEN if not show_secrets and value and is_secret_config(name) else value


def _credential(fields: dict[str, Any], *, show_secrets: bool) -> CredentialJson:
    shown = {name: base64.b64encode(fields[name]).decode() if show_secrets else HIDDEN for name in _SCRAM_SECRETS}
    return CredentialJson(**shown, iterations=fields["iterations"])


def state_json(state: MetadataState, *, show_secrets: bool = False) -> ImageLine:
    """Convert the metadata image and its position in the log to a JSON object. Maps are sorted by name or id.

    Secrets (passwords, SCRAM credentials, ids of delegation tokens) are hidden unless `show_secrets` is set. `snapshot`
    is the name of the snapshot file that was read first, null if there was none.
    """
    image = state.image
    scram: dict[str, dict[str, CredentialJson]] = {}
    for (mechanism, user), fields in sorted(image.scram.items()):
        users = scram.setdefault(SCRAM_MECHANISMS.get(mechanism, str(mechanism)), {})
        users[user] = _credential(fields, show_secrets=show_secrets)
    return ImageLine(
        next_offset=state.next_offset,
        epoch=state.epoch,
        timestamp=state.timestamp,
        snapshot=None if state.snapshot is None else state.snapshot.rsplit("/", 1)[-1],
        kraft_version=state.kraft_version,
        voters=state.voters,
        topics={
            name: TopicJson(
                id=topic.id,
                partitions={str(number): partition_json(each) for number, each in sorted(topic.partitions.items())},
            )
            for name, topic in sorted(image.topics.items())
        },
        configs={
            resource: {name: _config(name, value, show_secrets=show_secrets) for name, value in sorted(values.items())}
            for resource, values in sorted(image.configs.items())
        },
        brokers={str(number): _broker(broker_image) for number, broker_image in sorted(image.brokers.items())},
        controllers={str(number): each for number, each in sorted(image.controllers.items())},
        features=dict(sorted(image.features.items())),
        client_quotas={
            _entity(entity): dict(sorted(values.items()))
            for entity, values in sorted(image.client_quotas.items(), key=lambda item: _entity(item[0]))
        },
        acls=dict(sorted(image.acls.items())),
        scram_users={mechanism: list(users) for mechanism, users in scram.items()},
        scram_credentials=scram,
        delegation_tokens=[
            {**fields, "token_id": fields["token_id"] if show_secrets else HIDDEN}
            for _, fields in sorted(image.delegation_tokens.items())
        ],
        next_producer_id=image.next_producer_id,
        zk_migration_state=image.zk_migration_state,
        open_transaction=image.in_transaction,
    )
