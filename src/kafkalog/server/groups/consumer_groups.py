"""All groups of the new consumer protocol, driven by heartbeats (`GroupMetadataManager`). Safe for several threads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock

from kafkalog.cluster.rules.patterns import PatternError, matching
from kafkalog.codec.layout.text_values import uuid_text
from kafkalog.server.catalog import Catalog, Topic
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.groups.assigning import Place
from kafkalog.server.groups.consumer_group import ConsumerGroup, ConsumerMember, Wishes
from kafkalog.server.wire import Fields, Request

__all__ = ["ConsumerGroups"]

LEAVES, LEAVES_FOR_A_WHILE = -1, -2
_ASSIGNORS = ("uniform", "range")
"""Assignors a client may ask for. Both have the same result here."""
_SESSION_S = 45.0
_HEARTBEAT_MS = 1000
"""A broker asks for a heartbeat every 5 s, and a member waits as long for another to revoke."""
_LONGEST_REBALANCE_MS = 1_800_000
_MOST_GROUPS = 1000
_MOST_MEMBERS = 1000
_MOST_IN_ALL = 20_000
_MOST_CHARACTERS = 16 << 20
"""Limit for ids and subscriptions of all groups together."""
_FIRST_WITH_OWN_ID = 1
_FIRST_COMMIT = 9
_UNKNOWN_OPERATIONS = -(1 << 31)


class _RefusedError(Exception):
    """A heartbeat answered with an error."""

    def __init__(self, code: Code, message: str = "") -> None:
        self.code, self.message = code, brief(message)
        super().__init__(code, message)


class ConsumerGroups:
    """Consumer groups (KIP-848) over the topics in `catalog`. `is_classic` tells whether a group id has members of the
    classic protocol.
    """

    def __init__(self, catalog: Catalog, is_classic: Callable[[str], bool]) -> None:
        self._catalog = catalog
        self._is_classic = is_classic
        self._lock = Lock()
        self._groups: dict[str, ConsumerGroup] = {}
        self._seen: tuple[Mapping[str, Topic], dict[str, int]] = {}, {}
        """the topics last seen, and the number of partitions of each"""

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def tick(self) -> None:
        """Remove members whose session has ended or that did not revoke in time, and groups that become empty. A group
        that loses some of its members gets a new target assignment and epoch.
        """
        now = time.monotonic()
        with self._lock:
            for group in list(self._groups.values()):
                gone = group.expire(now)
                if not group.members:
                    del self._groups[group.id]
                elif gone:
                    group.retarget(self._counts())

    def states(self) -> dict[str, str]:
        """Return the state of each group with members."""
        with self._lock:
            return {name: group.state for name, group in self._groups.items()}

    def _counts(self) -> dict[str, int]:
        """Partitions by topic. The same object while nothing changes."""
        topics = self._catalog.topics
        if topics is not self._seen[0]:
            self._seen = topics, {name: topic.partition_count for name, topic in topics.items()}
        return self._seen[1]

    def heartbeat(self, request: Request, host: str) -> Fields:
        """Answer `ConsumerGroupHeartbeat` of a client at address `host`: the member joins, stays, or leaves (epoch -1,
        or -2 for a static member that will return). The group gets a new target assignment if members, subscriptions or
        topics have changed.

        The response has the member's id, epoch and, if it changed or was asked for, its assignment. An invalid or
        refused request is answered with an error code and message.
        """
        body = request.body
        try:
            _check(body, request.version)
            with self._lock:
                if body["member_epoch"] < 0:
                    return self._leave(body)
                return self._beat(request, host)
        except _RefusedError as error:
            return {"error_code": error.code, "error_message": error.message, "member_id": None, "member_epoch": 0,
                    "heartbeat_interval_ms": 0, "assignment": None}  # fmt: skip

    def _leave(self, body: Fields) -> Fields:
        group = self._groups.get(body["group_id"])
        member = None if group is None else group.members.get(body["member_id"])
        if group is None or member is None:
            raise _RefusedError(Code.UNKNOWN_MEMBER_ID, f"{body['member_id']} is not a member of {body['group_id']}")
        if body["member_epoch"] == LEAVES_FOR_A_WHILE:
            member.is_away = True
        else:
            group.remove(member.id)
            if group.members:
                group.retarget(self._counts())
            else:
                del self._groups[group.id]
        return _beaten(member.id, body["member_epoch"], None)

    def _beat(self, request: Request, host: str) -> Fields:
        body, now = request.body, time.monotonic()
        group = self._group(body)
        member = self._member(group, request, host, now)
        is_back = member.id in group.members and member.id != body["member_id"]
        owned = self._owned(body["topic_partitions"])
        _check_epoch(member, body["member_epoch"], owned)
        counts = self._counts()
        wishes = self._wishes(member, body, counts)
        is_new = group.members.get(member.id) is not member
        self._refuse_too_much(member if is_new else None, wishes.size - member.wishes.size)
        self._groups.setdefault(group.id, group)
        if is_new:
            group.members[member.id] = member
        elif is_back:
            self._replace(group, member, body)
        member.expires, member.is_away = now + _SESSION_S, False
        if body["rebalance_timeout_ms"] > 0:
            member.rebalance_s = min(body["rebalance_timeout_ms"], _LONGEST_REBALANCE_MS) / 1000
        changed, member.wishes = wishes.topics != member.wishes.topics, wishes
        if is_new or changed or group.is_outdated(counts):
            group.retarget(counts)
        before = member.assigned
        group.reconcile(member, owned, now)
        is_full = body["member_epoch"] == 0 or (owned is not None and body["rebalance_timeout_ms"] >= 0)
        told = member.assigned if is_full or is_new or member.assigned != before else None
        return _beaten(member.id, member.epoch, None if told is None else {"topic_partitions": self._by_id(told)})

    def _group(self, body: Fields) -> ConsumerGroup:
        name = body["group_id"]
        consumer_group = self._groups.get(name)
        if consumer_group is not None:
            return consumer_group
        if self._is_classic(name):
            raise _RefusedError(Code.GROUP_ID_NOT_FOUND, f"the members of {name} use the classic protocol")
        if body["member_epoch"] != 0:
            raise _RefusedError(Code.UNKNOWN_MEMBER_ID, f"{name} has no members")
        if len(self._groups) >= _MOST_GROUPS:
            raise _RefusedError(Code.COORDINATOR_NOT_AVAILABLE, "there are too many groups")
        return ConsumerGroup(id=name)

    def _member(self, group: ConsumerGroup, request: Request, host: str, now: float) -> ConsumerMember:
        """Return the member that sent the request: a known one, or, for epoch 0, a new one that is not added to the
        group yet.

        If a static member (same instance id) returns after it left temporarily, its member of the group is returned
        unchanged, still with the former member id. Raises `_RefusedError` if the group is full, for an instance id that
        another member uses, or for an unknown member id with another epoch than 0.
        """
        body = request.body
        instance = body["instance_id"]
        if instance is not None:
            standing = next((member for member in group.members.values() if member.instance_id == instance), None)
            if standing is not None and standing.id != body["member_id"]:
                if body["member_epoch"] != 0:
                    raise _RefusedError(Code.FENCED_INSTANCE_ID, f"{instance} is another member now")
                if not standing.is_away:
                    raise _RefusedError(Code.UNRELEASED_INSTANCE_ID, f"{instance} is a member that has not left")
                return standing
        consumer_member = group.members.get(body["member_id"])
        if consumer_member is not None:
            return consumer_member
        if body["member_epoch"] != 0:
            raise _RefusedError(Code.UNKNOWN_MEMBER_ID, f"{body['member_id']} is not a member of {group.id}")
        if len(group.members) >= _MOST_MEMBERS:
            raise _RefusedError(Code.GROUP_MAX_SIZE_REACHED, f"{group.id} has {_MOST_MEMBERS} members")
        return ConsumerMember(
            id=body["member_id"] or _new_id(), instance_id=instance, rack_id=body["rack_id"],
            client_id=request.client_id or "", client_host=host, rebalance_s=0.0, expires=now,
        )  # fmt: skip

    @staticmethod
    def _replace(group: ConsumerGroup, standing: ConsumerMember, body: Fields) -> None:
        """Give the static member `standing` the member id in the request, or a random one if that is empty. The member
        keeps its assignment and target, and starts again at epoch 0. A pending revocation is dropped. Changes the
        group.
        """
        del group.members[standing.id]
        target = group.target.pop(standing.id, None)
        standing.id = body["member_id"] or _new_id()
        standing.epoch = standing.previous_epoch = 0
        standing.revoking, standing.revoked_by = frozenset(), None
        group.members[standing.id] = standing
        if target is not None:
            group.target[standing.id] = target

    def _wishes(self, member: ConsumerMember, body: Fields, counts: Mapping[str, int]) -> Wishes:
        names, pattern = body["subscribed_topic_names"], body.get("subscribed_topic_regex")
        known = member.wishes.names if names is None else frozenset(names)
        text = member.wishes.pattern if pattern is None else pattern or None
        if (known, text, counts) == (member.wishes.names, member.wishes.pattern, member.wishes.among):
            return member.wishes
        found = known & counts.keys()
        if text is not None:
            try:
                found |= matching(text, tuple(counts))
            except PatternError as error:
                raise _RefusedError(Code.INVALID_REGULAR_EXPRESSION, str(error)) from None
        return Wishes(names=known, pattern=text, topics=frozenset(found), among=counts)

    def _refuse_too_much(self, new: ConsumerMember | None, growth: int) -> None:
        """Raise `_RefusedError` if the members of all groups would be too many or hold too much text.

        `new` is a member to be added, or None; `growth` is the number of characters by which the member's subscription
        grows. Nothing is checked if no member is added and the subscription does not grow.
        """
        if new is None and growth <= 0:
            return
        members = [member for group in self._groups.values() for member in group.members.values()]
        more = growth + (0 if new is None else new.size)
        if (new is not None and len(members) >= _MOST_IN_ALL) or (
            more + sum(member.size for member in members) > _MOST_CHARACTERS
        ):
            raise _RefusedError(Code.GROUP_MAX_SIZE_REACHED, "all groups together have too many members")

    def _owned(self, topics: list[Fields] | None) -> frozenset[Place] | None:
        if topics is None:
            return None
        names = self._catalog.names
        return frozenset((names[each["topic_id"]], number) for each in topics if each["topic_id"] in names
                         for number in each["partitions"])  # fmt: skip

    def _by_id(self, places: Iterable[Place]) -> list[Fields]:
        topics = self._catalog.topics
        numbers: dict[str, list[int]] = {}
        for name, number in sorted(places):
            if name in topics:
                numbers.setdefault(name, []).append(number)
        return [{"topic_id": topics[name].id, "topic_name": name, "partitions": each}
                for name, each in numbers.items()]  # fmt: skip

    def check(self, group_id: str, member_id: str | None, epoch: int, version: int = _FIRST_COMMIT) -> Code:
        """Return UNKNOWN_MEMBER_ID if the group or the member is unknown, or `member_id` is None. Otherwise return
        UNSUPPORTED_VERSION if the request `version` is too old for such a group. Otherwise return NONE if the member is
        at `epoch`, STALE_MEMBER_EPOCH if not.
        """
        with self._lock:
            group = self._groups.get(group_id)
            member = None if group is None else group.members.get(member_id or "")
            if member is None:
                return Code.UNKNOWN_MEMBER_ID
            if version < _FIRST_COMMIT:
                return Code.UNSUPPORTED_VERSION
            return Code.NONE if member.epoch == epoch else Code.STALE_MEMBER_EPOCH

    def describe(self, request: Request, recorded: Mapping[str, int | None]) -> Fields:
        """Answer `ConsumerGroupDescribe`. `recorded` has the epochs of groups known from the files, which have no
        members.
        """
        with self._lock:
            return {"groups": [self._described(name, recorded) for name in dict.fromkeys(request.body["group_ids"])]}

    def _described(self, name: str, recorded: Mapping[str, int | None]) -> Fields:
        answer: Fields = {
            "error_code": Code.NONE, "error_message": None, "group_id": name, "group_state": "Empty", "group_epoch": 0,
            "assignment_epoch": 0, "assignor_name": _ASSIGNORS[0], "members": [],
            "authorized_operations": _UNKNOWN_OPERATIONS,
        }  # fmt: skip
        group = self._groups.get(name)
        if group is not None:
            return {**answer, "group_state": group.state, "group_epoch": group.epoch, "assignment_epoch": group.epoch,
                    "members": [self._described_member(group, each) for each in group.members.values()]}  # fmt: skip
        if name in recorded and not self._is_classic(name):
            epoch = recorded[name] or 0
            return {**answer, "group_epoch": epoch, "assignment_epoch": epoch}
        return {**answer, "error_code": Code.GROUP_ID_NOT_FOUND, "group_state": "Dead",
                "error_message": f"Group {brief(name)} is not a consumer group."}  # fmt: skip

    def _described_member(self, group: ConsumerGroup, member: ConsumerMember) -> Fields:
        return {
            "member_id": member.id, "instance_id": member.instance_id, "rack_id": member.rack_id,
            "member_epoch": LEAVES_FOR_A_WHILE if member.is_away else member.epoch, "client_id": member.client_id,
            "client_host": member.client_host, "subscribed_topic_names": sorted(member.wishes.names),
            "subscribed_topic_regex": member.wishes.pattern,
            "assignment": {"topic_partitions": self._by_id(member.held)},
            "target_assignment": {"topic_partitions": self._by_id(group.target.get(member.id, ()))},
            "member_type": 1,
        }  # fmt: skip


def _check(body: Fields, version: int) -> None:
    """Raise `_RefusedError` for an invalid heartbeat: INVALID_REQUEST for missing or impossible fields,
    UNSUPPORTED_ASSIGNOR for an unknown assignor (`throwIfConsumerGroupHeartbeatRequestIsInvalid`).
    """
    epoch = body["member_epoch"]
    if not body["group_id"]:
        message = "a group has a name"
    elif epoch < LEAVES_FOR_A_WHILE:
        message = f"there is no member epoch {epoch}"
    elif not body["member_id"] and (epoch != 0 or version >= _FIRST_WITH_OWN_ID):
        message = "a member has an id"
    elif body["instance_id"] == "" or (epoch == LEAVES_FOR_A_WHILE and body["instance_id"] is None):
        message = "an instance has an id"
    elif epoch == 0 and body["rebalance_timeout_ms"] < 0:
        message = "who joins says how long a rebalance may take"
    elif epoch == 0 and body["topic_partitions"] != []:
        message = "who joins has no partitions"
    elif epoch == 0 and body["subscribed_topic_names"] is None and body.get("subscribed_topic_regex") is None:
        message = "who joins says what it wants to read"
    else:
        if body["server_assignor"] is not None and body["server_assignor"] not in _ASSIGNORS:
            raise _RefusedError(Code.UNSUPPORTED_ASSIGNOR, f"the assignors are {' and '.join(_ASSIGNORS)}")
        return
    raise _RefusedError(Code.INVALID_REQUEST, message)


def _check_epoch(member: ConsumerMember, epoch: int, owned: frozenset[Place] | None) -> None:
    """Raise `_RefusedError` for a wrong epoch. Allowed are joining again and the epoch before a lost response."""
    lost_an_answer = epoch == member.previous_epoch and owned is not None and owned <= member.assigned
    if epoch not in (0, member.epoch) and not lost_an_answer:
        raise _RefusedError(Code.FENCED_MEMBER_EPOCH, f"{member.id} is at epoch {member.epoch}, and says {epoch}")


def _beaten(member_id: str, epoch: int, assignment: Fields | None) -> Fields:
    return {"error_code": Code.NONE, "error_message": None, "member_id": member_id, "member_epoch": epoch,
            "heartbeat_interval_ms": _HEARTBEAT_MS, "assignment": assignment}  # fmt: skip


def _new_id() -> str:
    return uuid_text(secrets.token_bytes(16))
