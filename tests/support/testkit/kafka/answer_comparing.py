"""The same requests to a broker and to `kafkalog serve` over a copy of its directory, and how the answers differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkalog.codec.messages.field import Field
from testkit.serving.raw_client import RawClient, kind_of

ASKED = (
    "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "Heartbeat", "LeaveGroup",
    "SyncGroup", "DescribeGroups", "ListGroups", "OffsetForLeaderEpoch", "DescribeCluster", "DescribeTopicPartitions",
    "DescribeProducers", "DescribeQuorum", "ListPartitionReassignments", "DescribeClientQuotas",
    "DescribeUserScramCredentials",
)  # fmt: skip
_KEYS = ("name", "topic", "topic_name", "topic_id", "partition_index", "partition", "group_id", "key", "node_id",
         "broker_id", "user", "producer_id")  # fmt: skip

NUMBERS: Mapping[str, Sequence[int]] = {
    "replica_id": (-1, -1, -1, -1, -1, -2, 5), "max_wait_ms": (0, 0, 1, -1), "min_bytes": (0, 1, -1),
    "max_bytes": (1 << 20, 1 << 20, 1000, 1, 0, -1), "partition_max_bytes": (1 << 20, 1000, 1, 0, -1),
    "isolation_level": (0, 1, 0, 1, 2, -1), "session_id": (0, 0, 0, 7), "session_epoch": (-1, -1, -1, 0, 3),
    "fetch_offset": (0, 1, 5, 30, 61, -1, 1 << 40), "current_leader_epoch": (-1, -1, -1, 0, 1, 9),
    "last_fetched_epoch": (-1, -1, 0, 1), "leader_epoch": (-1, 0, 1, 9), "log_start_offset": (-1, 0),
    "timestamp": (-1, -2, -3, -4, -5, -6, -7, 0, 1, 1_700_000_000_050, 1 << 60), "key_type": (0, 0, 1, 2, 3, -1),
    "partition_index": (0, 1, 2, 0, 1, 7, -1), "partition": (0, 1, 2, 7, -1), "partition_indexes": (0, 1, 2, 7, -1),
    "partitions": (0, 1, 2, 7, -1), "committed_offset": (0, 3, -1, 1 << 40), "committed_leader_epoch": (-1, 0, 9),
    "generation_id_or_member_epoch": (-1, -1, 0, 5), "generation_id": (-1, 0, 5), "member_epoch": (-1, -1, 0, 5),
    "retention_time_ms": (-1,), "endpoint_type": (1, 1, 1, 2, 0), "response_partition_limit": (2000, 1, 0, -1),
    "timeout_ms": (1000,), "match_type": (0, 1, 2, 3),
}  # fmt: skip
TEXTS: Mapping[str, Sequence[str]] = {
    "member_id": ("", "", "nobody"), "group_instance_id": ("i",), "committed_metadata": ("", "note"),
    "topic_name": ("__cluster_metadata", "__cluster_metadata", "plain", "none"),
    "rack_id": ("",), "protocol_type": ("consumer", "connect"), "protocol_name": ("range",),
    "states_filter": ("Empty", "empty", "Dead", "Nonsense"), "types_filter": ("classic", "consumer", "Nonsense"),
    "entity_type": ("user", "client-id", "ip", "nonsense"), "match": ("a",), "reason": ("r",),
}  # fmt: skip


@dataclass(frozen=True)
class Names:
    """What there is to ask for, and some of what there is not."""

    topics: tuple[str, ...]
    ids: tuple[str, ...]
    groups: tuple[str, ...]


def plausible(fields: Iterable[Field], version: int, chance: random.Random, names: Names) -> dict[str, Any]:
    """A request of that version as a client might send it, and some that none sends."""
    return {field.name: _value(field, version, chance, names) for field in fields if field.in_version(version)}


def _value(field: Field, version: int, chance: random.Random, names: Names) -> Any:
    if not field.array:
        return None if version in field.nullable and chance.random() < 0.3 else _one(field, version, chance, names)
    if version in field.nullable and chance.random() < 0.2:
        return None
    found = [_one(field, version, chance, names) for _ in range(chance.choice((0, 1, 1, 1, 2, 3)))]
    return found * 2 if chance.random() < 0.05 else found


def _one(field: Field, version: int, chance: random.Random, names: Names) -> Any:
    if field.type == "struct":
        return plausible(field.fields, version, chance, names)
    if field.name in NUMBERS and field.type.startswith("int"):
        return chance.choice(NUMBERS[field.name])
    if field.name in TEXTS:
        return chance.choice(TEXTS[field.name])
    if field.type == "uuid":
        return chance.choice(names.ids)
    if field.type == "string":
        some = names.groups if "group" in field.name or field.name in ("key", "coordinator_keys") else names.topics
        return chance.choice(some)
    if field.type == "bool":
        return chance.random() < 0.2 and "auto" not in field.name
    return b"" if field.type == "bytes" else chance.choice((0, -1, 1))


@dataclass(frozen=True)
class Difference:
    """A field that differs."""

    api: str
    version: int
    path: str
    ours: object
    theirs: object
    asked: str = ""

    def __str__(self) -> str:
        what = f"{self.api} v{self.version} {self.path}: {str(self.ours)[:60]!r}, a broker {str(self.theirs)[:60]!r}"
        return f"{what}; asked {self.asked[:1000]}{TWICE * self.asked.endswith(TWICE)}"


def differences(api: str, version: int, ours: Any, theirs: Any, path: str = "") -> Iterator[Difference]:
    """Field by field; elements of arrays are compared by what they are about."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            if not str(name).startswith("_"):
                yield from differences(api, version, ours.get(name), theirs.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(ours, list) and isinstance(theirs, list):
        one, other = sorted(ours, key=_order), sorted(theirs, key=_order)
        if len(one) != len(other):
            yield Difference(api, version, f"{path}[]", len(one), len(other))
            return
        for left, right in zip(one, other, strict=True):
            yield from differences(api, version, left, right, path)
    elif ours != theirs:
        yield Difference(api, version, path, ours, theirs)


def _order(each: Any) -> str:
    if not isinstance(each, dict):
        return str(each)
    return str([str(each.get(key)) for key in _KEYS])


TWICE = " [twice]"


def _names_twice(body: Mapping[str, Any]) -> bool:
    """Whether a request names a topic, or a partition of it, more than once."""
    named = [str(topic.get("topic_id") or topic.get("topic") or topic.get("name")) for topic in body.get("topics") or ()
             if isinstance(topic, dict)]  # fmt: skip
    numbers = [
        [each.get("partition", each.get("partition_index")) for each in topic.get("partitions") or ()
         if isinstance(each, dict)]
        for topic in body.get("topics") or () if isinstance(topic, dict)
    ]  # fmt: skip
    return len(set(named)) < len(named) or any(len(set(each)) < len(each) for each in numbers)


class Asking:
    """One connection to each; a request that one of them does not answer ends both."""

    def __init__(self, ours: tuple[str, int], theirs: tuple[str, int]) -> None:
        self._addresses = ours, theirs
        self._clients: list[RawClient] = []

    def __call__(self, api: str, version: int, body: dict[str, Any]) -> list[Difference]:
        """How the answers differ."""
        if not self._clients:
            self._clients = [RawClient(address) for address in self._addresses]
        answers: list[Any] = []
        for client in self._clients:
            try:
                answers.append(client.ask(api, version, **body))
            except (AssertionError, OSError):
                answers.append(None)
        if None in answers:
            self.close()
        if answers == [None, None]:
            return []
        if None in answers:
            return [Difference(api, version, "the connection", *("closed" if each is None else "answered"
                                                                 for each in answers))]  # fmt: skip
        twice = TWICE if _names_twice(body) else ""
        return [replace(each, asked=f"{body}{twice}") for each in differences(api, version, *answers)]

    def close(self) -> None:
        """End the connections."""
        for each in self._clients:
            each.socket.close()
        self._clients = []


def requests(
    count: int, versions: Mapping[str, range], names: Names, seed: int, keep: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """So many requests of all kinds and versions."""
    chance = random.Random(seed)
    kinds = [name for name in ASKED if name in versions and keep(name)]
    for number in range(count):
        name = kinds[number % len(kinds)]
        version = chance.choice(versions[name])
        yield name, version, plausible(kind_of(name).request.fields, version, chance, names)
