"""Broker registrations and configurations in ZooKeeper, parsed (`BrokerIdZNode`, `ConfigEntityZNode`; before 1.1
`ZkUtils.registerBrokerInZk`, `AdminUtils`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct
from msgspec.structs import replace

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
    """Decode a part of an entity's path to the entity's name (`Sanitizer.desanitize`)."""
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


class BrokerRegistration(Struct, frozen=True, kw_only=True, tag_field="kind", tag="broker"):
    """A broker's registration."""

    chroot: str
    """the node that the cluster lies below; empty at the root"""
    broker: int
    """its id"""
    version: int
    """of the format"""
    host: str | None
    """for clients of 0.8; null without a plain listener"""
    port: int
    """the same"""
    endpoints: tuple[Endpoint, ...]
    """its listeners"""
    jmx_port: int | None
    """null if not given"""
    timestamp: int | None
    """when it registered, in ms since 1970; null if not given"""
    rack: str | None
    """null if there is none"""
    features: Mapping[str, Any] | None
    """null if there is none"""


class ConfigEntity(Struct, frozen=True, kw_only=True, tag_field="kind", tag="config"):
    """A configuration."""

    chroot: str
    """the node that the cluster lies below; empty at the root"""
    type: str
    """`topics`, `clients`, `users`, `brokers`, `ips` or `client-metrics`"""
    name: str
    """of what"""
    config: Mapping[str, str]
    """settings; secrets are [hidden]"""

    @property
    def shown_name(self) -> str:
        """Decoded name; `(default)` for the default of all entities of a kind."""
        return "/".join("(default)" if part == DEFAULT_ENTITY else entity_name(part) for part in self.name.split("/"))

    def hidden(self) -> ConfigEntity:
        """Return a copy whose possible secrets are replaced by `[hidden]`."""
        shown = {name: HIDDEN if is_secret_config(name) else value for name, value in self.config.items()}
        return replace(self, config=shown)


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
    """Parse the broker registration at `path`; None if it is not the path of a broker's node, the data cannot be
    parsed, or version or port is not an integer.

    Endpoints that cannot be parsed are omitted. A registration without a list of endpoints gets one with PLAINTEXT if
    it has a host, else none. Other missing fields are None.
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
    texts = listed if isinstance(listed, list) else [f"PLAINTEXT://{host}:{port}"] if isinstance(host, str) else []
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
    """Parse the configuration at `path`, secrets included; None if it is not the path of an entity's node, or the data
    cannot be parsed.

    Values are converted to text. The configuration of a user's client is an entity of its own:
    `/config/users/U/clients/C` has the name `U/clients/C`.
    """
    place = _CONFIG.fullmatch(path)
    fields = json_object(data) if place is not None else None
    config = fields.get("config") if fields is not None else None
    if place is None or not isinstance(config, dict):
        return None
    return ConfigEntity(
        chroot=place["chroot"],
        type=place["type"],
        name=place["name"],
        config={name: str(value) for name, value in config.items()},
    )
