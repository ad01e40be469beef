"""A metadata image as JSON, secrets hidden unless they are asked for."""

from __future__ import annotations

import base64
from typing import Any

from kafkalog.cluster.kraft.metadata_image import Broker, MetadataImage, PartitionImage
from kafkalog.cluster.kraft.metadata_log import MetadataState
from kafkalog.cluster.rules.secrets import HIDDEN, is_secret_config

__all__ = ["SCRAM_MECHANISMS", "image_json", "partition_json", "state_json"]

SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_RECOVERY = {0: "RECOVERED", 1: "RECOVERING"}
_SCRAM_SECRETS = ("salt", "stored_key", "server_key")


def partition_json(partition: PartitionImage) -> dict[str, Any]:
    """One partition, in the names of `PartitionRegistration`."""
    return {
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "directories": list(partition.directories),
        "adding_replicas": list(partition.adding_replicas),
        "removing_replicas": list(partition.removing_replicas),
        "elr": list(partition.elr),
        "last_known_elr": list(partition.last_known_elr),
        "leader_recovery_state": _RECOVERY.get(partition.leader_recovery_state, str(partition.leader_recovery_state)),
    }


def _broker(broker: Broker) -> dict[str, Any]:
    return {
        "epoch": broker.epoch,
        "incarnation_id": broker.incarnation_id,
        "listeners": {name: f"{host}:{port}" for name, host, port in broker.listeners},
        "rack": broker.rack,
        "fenced": broker.fenced,
        "in_controlled_shutdown": broker.in_controlled_shutdown,
        "directories": list(broker.directories),
        "cordoned_directories": list(broker.cordoned_directories),
        "features": {name: [least, most] for name, least, most in broker.features},
    }


def _entity(entity: tuple[tuple[str, str | None], ...]) -> str:
    """As Java prints a map: `{client-id=null, user=alice}`."""
    return "{" + ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity) + "}"


def _config(name: str, value: str, *, show_secrets: bool) -> str:
    return HIDDEN if not show_secrets and value and is_secret_config(name) else value


def _credential(fields: dict[str, Any], *, show_secrets: bool) -> dict[str, Any]:
    shown = {name: base64.b64encode(fields[name]).decode() if show_secrets else HIDDEN for name in _SCRAM_SECRETS}
    return {**shown, "iterations": fields["iterations"]}


def image_json(image: MetadataImage, *, show_secrets: bool = False) -> dict[str, Any]:
    """The whole image; every map ordered by its keys."""
    scram: dict[str, dict[str, Any]] = {}
    for (mechanism, user), fields in sorted(image.scram.items()):
        users = scram.setdefault(SCRAM_MECHANISMS.get(mechanism, str(mechanism)), {})
        users[user] = _credential(fields, show_secrets=show_secrets)
    return {
        "topics": {
            name: {
                "id": topic.id,
                "partitions": {str(number): partition_json(each) for number, each in sorted(topic.partitions.items())},
            }
            for name, topic in sorted(image.topics.items())
        },
        "configs": {
            resource: {name: _config(name, value, show_secrets=show_secrets) for name, value in sorted(values.items())}
            for resource, values in sorted(image.configs.items())
        },
        "brokers": {str(number): _broker(each) for number, each in sorted(image.brokers.items())},
        "controllers": {str(number): each for number, each in sorted(image.controllers.items())},
        "features": dict(sorted(image.features.items())),
        "client_quotas": {
            _entity(entity): dict(sorted(values.items()))
            for entity, values in sorted(image.client_quotas.items(), key=lambda item: _entity(item[0]))
        },
        "acls": dict(sorted(image.acls.items())),
        "scram_users": {mechanism: list(users) for mechanism, users in scram.items()},
        "scram_credentials": scram,
        "delegation_tokens": [
            {**fields, "token_id": fields["token_id"] if show_secrets else HIDDEN}
            for _, fields in sorted(image.delegation_tokens.items())
        ],
        "next_producer_id": image.next_producer_id,
        "zk_migration_state": image.zk_migration_state,
        "open_transaction": image.in_transaction,
    }


def state_json(state: MetadataState, *, show_secrets: bool = False) -> dict[str, Any]:
    """The image and where it comes from."""
    return {
        "next_offset": state.next_offset,
        "epoch": state.epoch,
        "timestamp": state.timestamp,
        "snapshot": None if state.snapshot is None else state.snapshot.rsplit("/", 1)[-1],
        "kraft_version": state.kraft_version,
        "voters": state.voters,
        **image_json(state.image, show_secrets=show_secrets),
    }
