"""Topics, and the single broker that has them: this server (`MetadataRequest` and later requests)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkalog.server.catalog import NO_TOPIC_ID, Served, Topic
from kafkalog.server.error_codes import Code
from kafkalog.server.wire import Fields, Request

__all__ = ["Address", "MetadataHandler"]

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
_NOBODY = -1
_UNKNOWN_OPERATIONS = -(1 << 31)
_DEFAULT_DESCRIBED = 2000
_BROKERS, _CONTROLLERS = 1, 2
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
_MISMATCHED = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
_NAME_MAY_BE_NULL = 12
"""Version of the metadata response."""

Address = tuple[str, int]


class MetadataHandler:
    """Answers requests about the cluster, whose only broker is this server. `address` is the host and port told to
    clients.
    """

    def __init__(self, catalog: Served, address: Address) -> None:
        self._catalog = catalog
        self._host, self._port = address

    @property
    def _node(self) -> int:
        return self._catalog.cluster.node_id

    @property
    def broker(self) -> Fields:
        """Description of this server for clients."""
        return {"node_id": self._node, "host": self._host, "port": self._port, "rack": None}

    def metadata(self, request: Request) -> Fields:
        """Answer `Metadata`: this broker, and all topics or the topics that are requested by name or id.

        A null list requests all topics; in version 0 an empty list does too. If a requested topic has an id, names are
        ignored. An unknown or forbidden topic has an error code, and a partition without a log here has
        LEADER_NOT_AVAILABLE. Before version 12, topic ids and null names are refused with INVALID_REQUEST.
        """
        asked = request.body["topics"]
        everything = asked is None or (request.version == 0 and not asked)
        if everything:
            topics = [self._topic(topic) for topic in self._catalog.topics.values()]
        else:
            named = dict.fromkeys((each.get("name"), each.get("topic_id", NO_TOPIC_ID)) for each in asked)
            by_id = [each for each in named if each[0] is None or each[1] != NO_TOPIC_ID]
            if by_id and request.version < _NAME_MAY_BE_NULL:
                return {"brokers": [], "cluster_id": None, "controller_id": _NOBODY, "topics": [
                    _missing(each["name"] or "", each["topic_id"], Code.INVALID_REQUEST) for each in asked
                ]}  # fmt: skip
            if by_id:  # names count only where there are no ids
                named = dict.fromkeys((None, topic_id) for _, topic_id in by_id if topic_id != NO_TOPIC_ID)
            topics = list({each["name"] or each["topic_id"]: each for each in
                           (self._named(*name) for name in named)}.values())  # fmt: skip
            if request.version < _NAME_MAY_BE_NULL:
                topics = [{**topic, "name": topic["name"] or ""} for topic in topics]
        return {
            "brokers": [self.broker], "cluster_id": self._catalog.cluster.id, "controller_id": self._node,
            "topics": topics,
        }  # fmt: skip

    def _named(self, name: str | None, topic_id: str) -> Fields:
        if name is None:
            name = self._catalog.names.get(topic_id)
            if name is None:
                return _missing(None, topic_id, Code.UNKNOWN_TOPIC_ID)
        topic = self._catalog.topics.get(name)
        if topic is None:
            return _missing(name, topic_id, missing_code(self._catalog, name))
        return self._topic(topic)

    def _topic(self, topic: Topic) -> Fields:
        return {
            "error_code": Code.NONE, "name": topic.name, "topic_id": topic.id, "is_internal": topic.is_internal,
            "partitions": [self._partition(topic, number) for number in range(topic.partition_count)],
            "topic_authorized_operations": _UNKNOWN_OPERATIONS,
        }  # fmt: skip

    def _partition(self, topic: Topic, number: int) -> Fields:
        log = topic.partitions.get(number)
        here = [self._node] if log is not None else []
        return {
            "error_code": Code.NONE if log is not None else Code.LEADER_NOT_AVAILABLE,
            "partition_index": number,
            "leader_id": self._node if log is not None else _NOBODY,
            "leader_epoch": log.leader_epoch if log is not None else _NOBODY,
            "replica_nodes": here, "isr_nodes": here, "offline_replicas": [],
        }  # fmt: skip

    def describe_topic_partitions(self, request: Request) -> Fields:
        """Answer `DescribeTopicPartitions`: the requested topics, or all if none is requested, sorted by name. A page
        has at most 2000 partitions or the requested limit, if that is lower, but at least one. An unknown or
        forbidden topic has an error code.

        The page begins with the topic and partition in `cursor`. `next_cursor` is where the next page begins; None
        after the last one. If the cursor has a negative partition, or a topic that is not requested, each requested
        topic has the error INVALID_REQUEST.
        """
        names = sorted({each["name"] for each in request.body["topics"]}) or sorted(self._catalog.topics)
        cursor = request.body["cursor"]
        first = 0
        if cursor is not None:
            asked = [each["name"] for each in request.body["topics"]]
            if cursor["partition_index"] < 0 or (asked and cursor["topic_name"] not in asked):
                return {"topics": [_missing(name, NO_TOPIC_ID, Code.INVALID_REQUEST) for name in asked],
                        "next_cursor": None}  # fmt: skip
            names = [name for name in names if name >= cursor["topic_name"]]
            first = max(0, cursor["partition_index"]) if names[:1] == [cursor["topic_name"]] else 0
        left = max(1, min(request.body["response_partition_limit"], _DEFAULT_DESCRIBED))
        topics, following = self._page(names, first, left)
        return {"topics": topics, "next_cursor": following}

    def _page(self, names: Iterable[str], first: int, left: int) -> tuple[list[Fields], Fields | None]:
        topics: list[Fields] = []
        for name in names:
            if left == 0:
                return topics, {"topic_name": name, "partition_index": first}
            topic = self._catalog.topics.get(name)
            if topic is None:
                topics.append(_missing(name, NO_TOPIC_ID, missing_code(self._catalog, name)))
                first = 0
                continue
            first = min(first, topic.partition_count)
            last = min(topic.partition_count, first + left)
            fields = self._topic(topic)
            fields["partitions"] = [
                {**field, "eligible_leader_replicas": [], "last_known_elr": []}  # null ends the Java client
                for field in fields["partitions"][first:last]
            ]
            topics.append(fields)
            left -= last - first
            if last < topic.partition_count:
                return topics, {"topic_name": name, "partition_index": last}
            first = 0
        return topics, None

    def describe_cluster(self, request: Request) -> Fields:
        """Answer `DescribeCluster`: the cluster id ('' if unknown), and this server as the only broker and controller.
        A request for controllers has the error MISMATCHED_ENDPOINT_TYPE, one for another endpoint type
        UNSUPPORTED_ENDPOINT_TYPE.
        """
        kind = request.body.get("endpoint_type", _BROKERS)
        if kind != _BROKERS:
            if kind == _CONTROLLERS:
                code, why = Code.MISMATCHED_ENDPOINT_TYPE, _MISMATCHED
            else:
                code, why = Code.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {kind}"
            return {"error_code": code, "error_message": why}
        broker = {"broker_id": self._node, "host": self._host, "port": self._port, "rack": None}
        return {
            "error_code": Code.NONE, "endpoint_type": request.body.get("endpoint_type", 1),
            "cluster_id": self._catalog.cluster.id or "", "controller_id": self._node, "brokers": [broker],
            "cluster_authorized_operations": _UNKNOWN_OPERATIONS,
        }  # fmt: skip

    def find_coordinator(self, request: Request) -> Fields:
        """Answer `FindCoordinator`: this server for groups and transactions. For other types, such as share groups, the
        error is INVALID_REQUEST and the node -1. In versions with a list of keys, each key has an entry.
        """
        kind, is_single = request.body.get("key_type", _GROUP), "key" in request.body
        if kind in (_GROUP, _TRANSACTION):
            message = "NONE" if is_single else ""
            here = {"error_code": Code.NONE, "error_message": message, "node_id": self._node, "host": self._host,
                    "port": self._port}  # fmt: skip
        else:
            message = _MALFORMED if is_single or kind != _SHARE else ""
            here = {"error_code": Code.INVALID_REQUEST, "error_message": message, "node_id": _NOBODY, "host": "",
                    "port": _NOBODY}  # fmt: skip
        if is_single:
            return here
        return {"coordinators": [{**here, "key": key} for key in request.body["coordinator_keys"]]}


def missing_code(catalog: Served, name: str) -> Code:
    """Error for a topic that is not served. Without permission it does not show whether the topic exists."""
    if not catalog.permits(name):
        return Code.TOPIC_AUTHORIZATION_FAILED
    legal = _LEGAL.match(name) and name not in (".", "..")
    return Code.UNKNOWN_TOPIC_OR_PARTITION if legal else Code.INVALID_TOPIC_EXCEPTION


def _missing(name: str | None, topic_id: str, code: Code) -> Fields:
    return {"error_code": code, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": [],
            "topic_authorized_operations": _UNKNOWN_OPERATIONS}  # fmt: skip
