"""Broker registrations and configurations in ZooKeeper, parsed (`BrokerIdZNode`, `ConfigEntityZNode`; before 1.1
`ZkUtils.registerBrokerInZk`, `AdminUtils`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_plus

from msgspec import Struct

from kafkalog.cluster.rules.secrets import HIDDEN, is_secret_config
from kafkalog.cluster.zookeeper.kafka_nodes import json_object

__all__ = [
    "DEFAULT_ENTITY",
    "BrokerRegistration",
    "ConfigEntity",
    "Endpoint",
    "broker_registration",
    "config_entity",
    "entity_name",
]

_BROKER = re.compile(r"(?P<chroot>.*)/brokers/ids/(?P<id>[0-9]{1,10})", re.DOTALL)
_CONFIG = re.compile(
    r"(?P<chroot>.*)/config/(?P<type>topics|clients|users|brokers|ips|client-metrics)/(?P<name>.+)", re.DOTALL
)
_ENDPOINT = re.compile(r"(?P<listener>[^:/]*)://\[?(?P<host>[^\[\]]*?)\]?:(?P<port>-?[0-9]{1,5})")


DEFAULT_ENTITY = "<default>"
"""Name of the node with the default of all entities of a kind (`ConfigEntityName.DEFAULT`); an entity of that name is
encoded.
"""


def entity_name(part: str) -> str:
    """Decode a part of an entity's path to the name (`Sanitizer.desanitize`)."""
    return unquote_plus(part)


class Endpoint(Struct, frozen=True, kw_only=True):
    """One listener of a broker."""

    listener: str
    """its name"""
    host: str
    """the host"""
    port: int
    """the port"""
    security_protocol: str
    """`PLAINTEXT`, `SSL` …"""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """`/brokers/ids/N`; what a version of the format does not have is None or empty."""

    chroot: str
    broker: int
    version: int
    host: str | None
    """for clients of 0.8; None where the broker has no plain listener"""
    port: int
    endpoints: tuple[Endpoint, ...]
    """in version 1 the one that host and port say"""
    jmx_port: int | None
    timestamp: int | None
    """when it registered, by its own clock, ms"""
    rack: str | None
    features: Mapping[str, object] | None


class ConfigEntity(Struct, frozen=True):
    """A configuration `/config/<type>/<name>`: settings of a topic, client, user, broker or address."""

    chroot: str
    type: str
    name: str
    config: Mapping[str, str]

    @property
    def shown_name(self) -> str:
        """Decoded name; `(default)` for the default of all entities of a kind."""
        return "/".join("(default)" if part == DEFAULT_ENTITY else entity_name(part) for part in self.name.split("/"))

    def hidden(self) -> dict[str, str]:
        """Settings, with possible secrets replaced by [hidden]."""
        return {name: HIDDEN if is_secret_config(name) else value for name, value in self.config.items()}


def _endpoint(text: object, protocols: Mapping[str, object]) -> Endpoint | None:
    match = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    protocol = protocols.get(match["listener"])
    return Endpoint(
        listener=match["listener"],
        host=match["host"],
        port=int(match["port"]),
        security_protocol=protocol if isinstance(protocol, str) else match["listener"],
    )


def _whole(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII):
        return int(value)
    return value if type(value) is int else None


def broker_registration(path: str, data: bytes | None) -> BrokerRegistration | None:
    """Parse the broker registration at `path`; None if that is not a broker's node, its data cannot be parsed, or it
    has no integer version or port.

    Endpoints that cannot be parsed are omitted. A registration without a list of endpoints gets one with PLAINTEXT;
    other missing fields are None.
    """
    place = _BROKER.fullmatch(path)
    fields = json_object(data) if place is not None else None
    if place is None or fields is None:
        return None
    version, port = fields.get("version"), fields.get("port")
    host, rack, features = (fields.get(name) for name in ("host", "rack", "features"))
    if type(version) is not int or type(port) is not int:
        return None
    listed = fields.get("endpoints")
    protocols = fields.get("listener_security_protocol_map")
    known = protocols if isinstance(protocols, dict) else {}
    texts = listed if isinstance(listed, list) else [f"PLAINTEXT://{host}:{port}"]
    endpoints = [_endpoint(text, known) for text in texts]
    return BrokerRegistration(
        chroot=place["chroot"],
        broker=int(place["id"]),
        version=version,
        host=host if isinstance(host, str) else None,
        port=port,
        endpoints=tuple(endpoint for endpoint in endpoints if endpoint is not None),
        jmx_port=_whole(fields.get("jmx_port")),
        timestamp=_whole(fields.get("timestamp")),
        rack=rack if isinstance(rack, str) else None,
        features=features if isinstance(features, dict) else None,
    )


def config_entity(path: str, data: bytes | None) -> ConfigEntity | None:
    """Parse the configuration at `path`, secrets included; None if that is not an entity's node or its data cannot be
    parsed.

    Values are converted to text. A user's clients are entities below the user's: `/config/users/U/clients/C` has the
    name `U/clients/C`.
    """
    place = _CONFIG.fullmatch(path)
    fields = json_object(data) if place is not None else None
    config = fields.get("config") if fields is not None else None
    if place is None or not isinstance(config, dict):
        return None
    return ConfigEntity(
        place["chroot"], place["type"], place["name"], {name: str(value) for name, value in config.items()}
    )
