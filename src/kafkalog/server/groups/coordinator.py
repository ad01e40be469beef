"""Classic groups of connected clients: join, sync, heartbeat, leave (`GroupMetadataManager`)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from threading import Lock

from kafkalog.server.answers import Answer, Change, Later
from kafkalog.server.error_codes import Code
from kafkalog.server.groups.group import Group, Member, State
from kafkalog.server.wire import Fields, Request

__all__ = ["Coordinator"]

_MOST_GROUPS = 1000
_MOST_MEMBERS = 1000
_MOST_IN_ALL = 20_000
_MOST_BYTES = 64 << 20
"""Limit for metadata and assignments of all groups together."""
_LONGEST_PREFIX = 255
"""Longest part of a client id used in a member id."""
_TEXTS = 2
"""An id may be held both by a member and as an unused one."""
_LONGEST_SESSION_MS = 1_800_000
_ID_REQUIRED = 4
"""From this version of JoinGroup on, a member joins with an id from the server (KIP-394)."""
_NULL_PROTOCOL = 7
_GRACE_MS = 5_000
_FIRST_WITH_PROTOCOL = 5
"""Version of SyncGroup."""
_FIRST_TOLD_OF_GROUPS = 9
"""Version of OffsetCommit."""


class Coordinator:
    """The coordinator of all classic groups. Safe for several threads.

    `announce` is called when waiting join and sync requests should be polled again. `is_taken` tells whether a group id
    has members of the new consumer protocol.
    """

    def __init__(self, announce: Callable[[], None], is_taken: Callable[[str], bool] = lambda _: False) -> None:
        self._announce = announce
        self._is_taken = is_taken
        self._lock = Lock()
        self._groups: dict[str, Group] = {}

    def tick(self) -> None:
        """Advance the timers of all groups: expire members, finish rebalances that are due, and remove empty groups. If
        anything changed, waiting requests are polled.
        """
        now = time.monotonic()
        with self._lock:
            changed = [group.tick(now) for group in self._groups.values()]
            for group in [each for each in self._groups.values() if not each.members and not each.pending]:
                del self._groups[group.id]
        if any(changed):
            self._announce()

    def has_members(self, group_id: str) -> bool:
        """Whether a classic group has members, or member ids that were assigned but have not joined yet."""
        group = self._groups.get(group_id)
        return group is not None and bool(group.members or group.pending)

    def groups(self) -> dict[str, Group]:
        """Return the groups by id, including groups with only member ids that have not joined yet."""
        with self._lock:
            return dict(self._groups)

    def join(self, request: Request, host: str) -> Answer:
        """Answer `JoinGroup` of a client at address `host`: return the response, or a promise of it until the rebalance
        is finished.

        Adds the member to its group, which is created if necessary, and starts a rebalance. No rebalance starts if a
        member joins again with the same protocols, and is not the leader of a stable group. The response has an error
        if the member is refused or unknown, or if the rebalance takes too long (REBALANCE_IN_PROGRESS). A member that
        first needs an id gets the error MEMBER_ID_REQUIRED, with the id. Only the leader's response has the list of
        members. If the client leaves during the wait, the member counts as not joining any more.
        """
        body, now = request.body, time.monotonic()
        with self._lock:
            code, member, group = self._joined(request, host, now)
            # before anybody is told: who looks at a promise then may complete the join, this member's with it
            generation = -1 if group is None else group.generation
        if group is None or member is None or code is not Code.NONE:
            name = body["member_id"] if member is None else member.id
            return _not_joined(request, code, name)
        self._announce()

        def poll(is_over: bool) -> Fields | None:
            with self._lock:
                has_moved = group.tick(time.monotonic())
                answer = self._answer(request, group, member, generation)
            if has_moved:  # others were looked at before
                self._announce()
            if answer is None and is_over:
                return _not_joined(request, Code.REBALANCE_IN_PROGRESS, member.id)
            return answer

        def cancel() -> None:
            with self._lock:
                member.is_joining = False
                member.seen(time.monotonic())

        at_once = poll(is_over=False)
        wait = int(max(member.rebalance_s, member.session_s) * 1000) + _GRACE_MS
        return at_once if at_once is not None else Later(poll, wait, Change.GROUPS, cancel)

    @staticmethod
    def _answer(request: Request, group: Group, member: Member, generation: int) -> Fields | None:
        if group.members.get(member.id) is not member:
            return _not_joined(request, Code.UNKNOWN_MEMBER_ID, member.id)
        if member.joined > generation or (group.state is not State.PREPARING and not member.is_joining):
            return _joined(request, group, member)
        return None

    def _joined(self, request: Request, host: str, now: float) -> tuple[Code, Member | None, Group | None]:
        body = request.body
        if not body["group_id"]:
            return Code.INVALID_GROUP_ID, None, None
        if not 0 < body["session_timeout_ms"] <= _LONGEST_SESSION_MS:
            return Code.INVALID_SESSION_TIMEOUT, None, None
        if self._is_taken(body["group_id"]):
            return Code.INCONSISTENT_GROUP_PROTOCOL, None, None
        group = self._groups.get(body["group_id"])
        if group is None:
            if len(self._groups) >= _MOST_GROUPS:
                return Code.COORDINATOR_NOT_AVAILABLE, None, None
            if body["member_id"]:
                return Code.UNKNOWN_MEMBER_ID, None, None
            group = self._groups[body["group_id"]] = Group(id=body["group_id"])
        protocols = [(each["name"], each["metadata"]) for each in body["protocols"]]
        if not group.accepts(body["protocol_type"], protocols, body["member_id"]):
            return Code.INCONSISTENT_GROUP_PROTOCOL, None, group
        if len(group.members) + len(group.pending) >= _MOST_MEMBERS or self._is_full(
            _TEXTS * len(body["member_id"]) + sum(len(name) + len(data) for name, data in protocols)
        ):
            return Code.GROUP_MAX_SIZE_REACHED, None, group
        return self._member(request, host, group, protocols, now)

    def _is_full(self, more: int) -> bool:
        """Return whether the members of all groups are too many or too large."""
        count = sum(len(group.members) + len(group.pending) for group in self._groups.values())
        return count >= _MOST_IN_ALL or more + sum(group.size for group in self._groups.values()) > _MOST_BYTES

    def _member(
        self, request: Request, host: str, group: Group, protocols: list[tuple[str, bytes]], now: float
    ) -> tuple[Code, Member | None, Group]:
        body = request.body
        number, instance = body["member_id"], body.get("group_instance_id")
        session = body["session_timeout_ms"] / 1000
        rebalance = min(max(body.get("rebalance_timeout_ms", -1) / 1000, session), _LONGEST_SESSION_MS / 1000)
        known = group.members.get(number)
        if instance is not None:
            standing = next((each for each in group.members.values() if each.instance_id == instance), None)
            if standing is not None and number not in ("", standing.id):
                return Code.FENCED_INSTANCE_ID, None, group
            if standing is not None and not number:  # the same instance has come back
                del group.members[standing.id]
        if known is None and number and number not in group.pending:
            return Code.UNKNOWN_MEMBER_ID, None, group
        if known is not None and known.protocols == protocols:
            if group.state is State.COMPLETING:  # the answer was lost
                return Code.NONE, known, group
            if group.state is State.STABLE and known.id != group.leader:
                known.seen(now)
                return Code.NONE, known, group
        member = Member(
            id=number or _new_id(instance or request.client_id),
            instance_id=instance,
            client_id=request.client_id or "",
            client_host=host,
            session_s=session,
            rebalance_s=rebalance,
            protocol_type=body["protocol_type"],
            protocols=protocols,
            expires=now + session,
        )
        if not number and instance is None and request.version >= _ID_REQUIRED:
            group.pending[member.id] = now + session
            return Code.MEMBER_ID_REQUIRED, member, group
        group.pending.pop(number, None)
        member.is_joining = True
        group.members[member.id] = member
        group.protocol_type = body["protocol_type"]
        group.prepare(now)
        group.deadline = max(group.deadline, now + member.rebalance_s)
        return Code.NONE, member, group

    def sync(self, request: Request) -> Answer:
        """Answer `SyncGroup`: return the member's assignment, or a promise of it until the leader has sent the
        assignments. A request of the leader stores its assignments for all members, and the group becomes stable. A
        member's session timer restarts when it gets its assignment.

        The response has an error if group, member or generation is unknown. It has COORDINATOR_NOT_AVAILABLE if the
        assignments are too large. It has INCONSISTENT_GROUP_PROTOCOL if the protocol is null in a version that has this
        field. It has REBALANCE_IN_PROGRESS if a new rebalance has begun or the leader is too late.
        """
        body, now = request.body, time.monotonic()
        if request.version >= _FIRST_WITH_PROTOCOL and None in (body["protocol_type"], body["protocol_name"]):
            return _synced(None, Code.INCONSISTENT_GROUP_PROTOCOL)
        with self._lock:
            code, group, member = self._known(body)
            if code is Code.NONE and group is not None and member is not None:
                if group.state is State.PREPARING:
                    code = Code.REBALANCE_IN_PROGRESS
                elif group.state is State.COMPLETING:
                    member.is_syncing = True
                    if member.id == group.leader:
                        if self._is_full(sum(len(each["assignment"]) for each in body["assignments"])):
                            return _synced(None, Code.COORDINATOR_NOT_AVAILABLE)
                        group.assign(body["assignments"], now)
        if code is not Code.NONE or group is None or member is None:
            return _synced(None, code)
        generation = body["generation_id"]

        def poll(is_over: bool) -> Fields | None:
            with self._lock:
                if group.members.get(member.id) is not member:
                    return _synced(None, Code.UNKNOWN_MEMBER_ID)
                if group.generation != generation or group.state is State.PREPARING:
                    return _synced(None, Code.REBALANCE_IN_PROGRESS)
                if group.state is State.STABLE:
                    member.seen(time.monotonic())
                    return _synced(group, Code.NONE, member.assignment)
                return _synced(None, Code.REBALANCE_IN_PROGRESS) if is_over else None

        def cancel() -> None:
            with self._lock:
                member.is_syncing = False
                member.seen(time.monotonic())

        at_once = poll(is_over=False)
        if at_once is not None:
            self._announce()
            return at_once
        return Later(poll, int(member.rebalance_s * 1000) + _GRACE_MS, Change.GROUPS, cancel)

    def heartbeat(self, request: Request) -> Fields:
        """Answer `Heartbeat` of a member. The error code is NONE, or REBALANCE_IN_PROGRESS if the member must join
        again; in both cases the member's session timer restarts. Otherwise no timer restarts, and the error code says
        what is wrong: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID (also for an unknown group), FENCED_INSTANCE_ID or
        ILLEGAL_GENERATION.
        """
        with self._lock:
            code, group, member = self._known(request.body)
            if member is not None and group is not None and code is Code.NONE:
                member.seen(time.monotonic())
                if group.state is State.PREPARING:
                    code = Code.REBALANCE_IN_PROGRESS
        return {"error_code": code}

    def leave(self, request: Request) -> Fields:
        """Answer `LeaveGroup`: remove the named members from the group, which starts a rebalance of the others. A
        member is named by its instance id or its member id. A member id that was assigned but has not joined yet is
        removed too.

        From version 3 on, the response has an error code for each member; before, it has the code of the only member.
        The code is UNKNOWN_MEMBER_ID if the group or member is unknown. For an empty group id the response has
        INVALID_GROUP_ID, and nothing is removed.
        """
        body, now = request.body, time.monotonic()
        asked = body.get("members", [{"member_id": body.get("member_id", ""), "group_instance_id": None}])
        results: list[Fields] = []
        if not body["group_id"]:
            return {"error_code": Code.INVALID_GROUP_ID, "members": results}
        with self._lock:
            group = self._groups.get(body["group_id"])
            for each in asked:
                member = _find(group, each["member_id"], each["group_instance_id"])
                if member is None or group is None:
                    code = Code.UNKNOWN_MEMBER_ID
                    if group is not None and group.pending.pop(each["member_id"], None) is not None:
                        code = Code.NONE
                else:
                    code = Code.NONE
                    group.remove(member.id, now)
                results.append({**each, "error_code": code})
        self._announce()
        if request.version < 3:
            return {"error_code": results[0]["error_code"]}
        return {"error_code": Code.NONE, "members": results}

    def may_commit(self, body: Fields, version: int, *, is_recorded: bool) -> Code:
        """Return NONE if a commit is allowed, otherwise the error code. `body` is the `OffsetCommit` request in version
        `version`. `is_recorded` says that the group has commits already.

        If the group exists here, a member of the current generation may commit, and its session timer restarts. While
        the leader's assignments are missing, the code is REBALANCE_IN_PROGRESS. A commit with a negative generation and
        without a member id is allowed if the group has no members; otherwise the code is UNKNOWN_MEMBER_ID. For other
        commits it is a code of `heartbeat`.

        If the group does not exist here, a commit with a negative generation is allowed. For any other generation the
        code is UNKNOWN_MEMBER_ID if the group has commits, else GROUP_ID_NOT_FOUND (ILLEGAL_GENERATION before version
        9).
        """
        with self._lock:
            if body["group_id"] not in self._groups:
                if body["generation_id_or_member_epoch"] < 0:
                    return Code.NONE
                if is_recorded:
                    return Code.UNKNOWN_MEMBER_ID
                return Code.GROUP_ID_NOT_FOUND if version >= _FIRST_TOLD_OF_GROUPS else Code.ILLEGAL_GENERATION
        if body["generation_id_or_member_epoch"] < 0 and not body["member_id"]:
            with self._lock:
                group = self._groups.get(body["group_id"])
                return Code.UNKNOWN_MEMBER_ID if group is not None and group.members else Code.NONE
        with self._lock:
            code, group, member = self._known({**body, "generation_id": body["generation_id_or_member_epoch"]})
            if code is Code.NONE and group is not None and member is not None:
                member.seen(time.monotonic())
                if group.state is State.COMPLETING:
                    code = Code.REBALANCE_IN_PROGRESS
        return code

    def _known(self, body: Fields) -> tuple[Code, Group | None, Member | None]:
        if not body["group_id"]:
            return Code.INVALID_GROUP_ID, None, None
        group = self._groups.get(body["group_id"])
        if group is None:
            return Code.UNKNOWN_MEMBER_ID, None, None
        instance = body.get("group_instance_id")
        member = group.members.get(body["member_id"])
        if instance is not None:
            standing = _find(group, "", instance)
            if standing is not None and standing.id != body["member_id"]:
                return Code.FENCED_INSTANCE_ID, group, None
        if member is None:
            return Code.UNKNOWN_MEMBER_ID, group, None
        if body["generation_id"] != group.generation:
            return Code.ILLEGAL_GENERATION, group, member
        return Code.NONE, group, member


def _find(group: Group | None, number: str, instance: str | None) -> Member | None:
    if group is None:
        return None
    if instance is not None:
        return next((member for member in group.members.values() if member.instance_id == instance), None)
    return group.members.get(number)


def _new_id(prefix: str | None) -> str:
    return f"{(prefix or 'consumer')[:_LONGEST_PREFIX]}-{secrets.token_hex(16)}"


def _not_joined(request: Request, code: Code, member_id: str) -> Fields:
    return {"error_code": code, "generation_id": -1, "protocol_type": None, "leader": "", "member_id": member_id,
            "protocol_name": None if request.version >= _NULL_PROTOCOL else "", "members": []}  # fmt: skip


def _joined(request: Request, group: Group, member: Member) -> Fields:
    members = []
    if member.id == group.leader:
        members = [{"member_id": each.id, "group_instance_id": each.instance_id,
                    "metadata": each.metadata(group.protocol)} for each in group.members.values()]  # fmt: skip
    return {"error_code": Code.NONE, "generation_id": group.generation, "protocol_type": group.protocol_type,
            "protocol_name": group.protocol, "leader": group.leader, "member_id": member.id,
            "members": members}  # fmt: skip


def _synced(group: Group | None, code: Code, assignment: bytes = b"") -> Fields:
    return {"error_code": code, "protocol_type": None if group is None else group.protocol_type,
            "protocol_name": None if group is None else group.protocol, "assignment": assignment}  # fmt: skip
