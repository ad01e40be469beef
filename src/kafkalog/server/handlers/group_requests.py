"""Committed offsets and descriptions of groups, from the files and from connected clients."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.cluster.groups.groups import Group as RecordedGroup
from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.groups.commits import Commit, Commits, TooManyCommitsError
from kafkalog.server.groups.consumer_groups import ConsumerGroups
from kafkalog.server.groups.coordinator import Coordinator
from kafkalog.server.groups.group import Group, State
from kafkalog.server.handlers.leader_epochs import absent_code
from kafkalog.server.wire import Fields, Request

__all__ = ["GroupHandler"]

_LONGEST_METADATA = 4096
_CLASSIC, _CONSUMER = "classic", "consumer"
_FIRST_WITH_IDS = 10
_FIRST_WITH_GROUPS = 8
_UNKNOWN_OPERATIONS = -(1 << 31)
_FIRST_NOT_FOUND = 6


class GroupHandler:
    """Answers requests about groups, from the log directories and from commits and members of this server."""

    def __init__(
        self, catalog: Served, coordinator: Coordinator, consumer_groups: ConsumerGroups, commits: Commits
    ) -> None:
        self._catalog = catalog
        self._coordinator = coordinator
        self._consumer_groups = consumer_groups
        self._commits = commits

    def offset_commit(self, request: Request) -> Fields:
        """Answer `OffsetCommit`: keep the commits in this server, and in its file if there is one, but never in a log.
        Valid partitions are committed even if others are not. Each partition in the response has an error code.

        The code is UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION for an unknown partition, and
        TOPIC_AUTHORIZATION_FAILED if the user may not read the topic. If the member may not commit, it is the code of
        `Coordinator.may_commit` or `ConsumerGroups.check`. It is OFFSET_METADATA_TOO_LARGE for metadata of more than
        4096 characters. If the valid commits cannot be kept, it is COORDINATOR_NOT_AVAILABLE (too many commits) or
        UNKNOWN_SERVER_ERROR (the file cannot be written). May read the files of committed offsets: raises
        `StorageError` if that fails.
        """
        body = request.body
        code = self._may_commit(request)
        kept: dict[tuple[str, str, int], Commit] = {}
        codes: dict[tuple[str, int], Code] = {}
        for topic in body["topics"]:
            name = self._name(topic)
            for each in topic["partitions"]:
                key = _label(topic), each["partition_index"]
                codes[key] = code
                known = None if name is None else self._catalog.topics.get(name)
                if name is None:
                    codes[key] = Code.UNKNOWN_TOPIC_ID
                elif known is None or not 0 <= each["partition_index"] < known.partition_count:
                    codes[key] = absent_code(self._catalog, name)
                elif code is not Code.NONE:
                    continue
                elif len(each["committed_metadata"] or "") > _LONGEST_METADATA:
                    codes[key] = Code.OFFSET_METADATA_TOO_LARGE
                else:
                    kept[body["group_id"], name, each["partition_index"]] = Commit(
                        each["committed_offset"],
                        each.get("committed_leader_epoch", -1),
                        each["committed_metadata"] or "",
                    )
        failed = self._keep(kept)
        found: dict[str, Fields] = {}
        for topic in body["topics"]:
            name = self._name(topic)
            if not topic["partitions"] and name is not None and name in self._catalog.topics:
                continue  # a broker names only what it does not know
            one = found.setdefault(_label(topic), {**_named(topic), "partitions": []})
            one["partitions"] += [
                {"partition_index": each["partition_index"],
                 "error_code": codes[_label(topic), each["partition_index"]] or failed}
                for each in topic["partitions"]
            ]  # fmt: skip
        topics = list(found.values())
        return {"topics": topics}

    def _may_commit(self, request: Request) -> Code:
        body = request.body
        name = body["group_id"]
        if name in self._consumer_groups:
            epoch = body["generation_id_or_member_epoch"]
            return self._consumer_groups.check(name, body["member_id"], epoch, request.version)
        return self._coordinator.may_commit(body, request.version, is_recorded=bool(self._commits.of_group(name)))

    def _keep(self, commits: dict[tuple[str, str, int], Commit]) -> Code:
        if not commits:
            return Code.NONE
        try:
            self._commits.commit(commits)
        except TooManyCommitsError:
            return Code.COORDINATOR_NOT_AVAILABLE
        except (KafkaLogError, OSError):
            return Code.UNKNOWN_SERVER_ERROR
        return Code.NONE

    def _name(self, topic: Fields) -> str | None:
        return topic["name"] if "name" in topic else self._catalog.names.get(topic["topic_id"])

    def offset_fetch(self, request: Request) -> Fields:
        """Answer `OffsetFetch`: for each requested partition the offset committed to this server, else the one in the
        log directories, else -1. A requested topic that the user may not read has the error TOPIC_AUTHORIZATION_FAILED
        for each partition; an unknown topic id has UNKNOWN_TOPIC_ID. A null list of topics requests all commits of the
        group. The answer then omits topics that the user may not read, and from version 10 on those that are not
        served.

        If commits of the group may be missing from the files, a partition without a commit has the error
        KAFKA_STORAGE_ERROR. So has a request for all commits. A wrong member id or epoch of the new consumer protocol
        is an error of its group, which then has no topics. Raises `StorageError` if the files cannot be read.
        """
        body = request.body
        if request.version < _FIRST_WITH_GROUPS:
            topics = self._fetched(body["group_id"], body["topics"], request.version)
            return {"topics": topics, "error_code": self._of_all(body["group_id"], body["topics"])}
        return {"groups": [self._fetched_group(each, request.version) for each in _once(body["groups"])]}

    def _fetched_group(self, asked: Fields, version: int) -> Fields:
        name = asked["group_id"]
        member, epoch = asked.get("member_id"), asked.get("member_epoch", -1)
        if name in self._consumer_groups and (member is not None or epoch >= 0):
            code = self._consumer_groups.check(name, member, epoch)
            if code is not Code.NONE:
                return {"group_id": name, "error_code": code, "topics": []}
        topics = self._fetched(name, asked["topics"], version)
        return {"group_id": name, "error_code": self._of_all(name, asked["topics"]), "topics": topics}

    def _of_all(self, group: str, asked: list[Fields] | None) -> Code:
        """Error for a request for all commits of a group, if some may be missing."""
        return Code.NONE if asked is not None or self._commits.why_partial(group) is None else Code.KAFKA_STORAGE_ERROR

    def _fetched(self, group: str, asked: list[Fields] | None, version: int) -> list[Fields]:
        known = self._commits.of_group(group)
        if asked is None:
            numbers: dict[str, list[int]] = {}
            for topic, number in sorted(known):
                numbers.setdefault(topic, []).append(number)
            asked = [{"name": name, "partition_indexes": each} for name, each in numbers.items()
                     if self._catalog.permits(name)]  # fmt: skip
            if version >= _FIRST_WITH_IDS:
                ids = {name: topic.id for name, topic in self._catalog.topics.items()}
                asked = [{"topic_id": ids[each["name"]], **each} for each in asked if each["name"] in ids]
        without = Code.NONE if self._commits.why_partial(group) is None else Code.KAFKA_STORAGE_ERROR
        return [{**_named(each), "partitions": self._fetched_of(each, known, without)} for each in asked]

    def _fetched_of(self, topic: Fields, known: Mapping[tuple[str, int], Commit], without: Code) -> list[Fields]:
        """Return the requested partitions of a topic with their committed offsets, -1 without a commit.

        `known` has the group's commits by (topic, partition); `without` is the error code of a partition without a
        commit. For an unknown topic id or a topic that the user may not read, each partition has an error.
        """
        name = self._name(topic)
        if name is None:
            known, without = {}, Code.UNKNOWN_TOPIC_ID
        elif not self._catalog.permits(name):
            known, without = {}, Code.TOPIC_AUTHORIZATION_FAILED
        return [_fetched(number, known.get((name or "", number)), without) for number in topic["partition_indexes"]]

    def list_groups(self, request: Request) -> Fields:
        """Answer `ListGroups`: all groups with members or commits here or in the files, sorted by name, each with
        protocol type, state and group type.

        Groups known only from files or commits are `Empty`. The filters for states and types ignore case. May read the
        files of committed offsets. Raises `StorageError` if that fails.
        """
        found: dict[str, tuple[str, str, str]] = {
            each.group_id: (each.protocol_type, State.EMPTY.value, each.type.lower())  # its members are gone
            for each in self._commits.recorded_groups()
        }
        for name in self._commits.groups_here():
            found.setdefault(name, ("", State.EMPTY.value, _CLASSIC))
        for name, group in self._coordinator.groups().items():
            found[name] = group.protocol_type, group.state.value, _CLASSIC
        for name, state in self._consumer_groups.states().items():
            found[name] = _CONSUMER, state, _CONSUMER
        states = {each.lower() for each in request.body.get("states_filter", ())}
        types = {each.lower() for each in request.body.get("types_filter", ())}
        groups = [
            {"group_id": name, "protocol_type": protocol, "group_state": state, "group_type": kind}
            for name, (protocol, state, kind) in sorted(found.items())
            if (not states or state.lower() in states) and (not types or kind in types)
        ]
        return {"error_code": Code.NONE, "groups": groups}

    def describe_groups(self, request: Request) -> Fields:
        """Answer `DescribeGroups`: state, protocol and members of each requested group, in the order of the request,
        each once. May read the files of committed offsets.
        """
        recorded = {each.group_id: each for each in self._commits.recorded_groups() if each.type.lower() == _CLASSIC}
        here = self._coordinator.groups()
        return {"groups": [self._described(name, here.get(name), recorded.get(name), request.version)
                           for name in dict.fromkeys(request.body["groups"])]}  # fmt: skip

    def describe_consumer_groups(self, request: Request) -> Fields:
        """Answer `ConsumerGroupDescribe`: epochs, state and members of each requested group, in the order of the
        request, each once. May read the files of committed offsets.
        """
        recorded = {recorded_group.group_id: recorded_group.epoch for recorded_group in self._commits.recorded_groups()
                    if recorded_group.type.lower() == _CONSUMER}  # fmt: skip
        return self._consumer_groups.describe(request, recorded)

    def _described(self, name: str, group: Group | None, recorded: RecordedGroup | None, version: int) -> Fields:
        answer: Fields = {"error_code": Code.NONE, "error_message": None, "group_id": name, "protocol_type": "",
                          "group_state": State.DEAD.value, "protocol_data": "", "members": [],
                          "authorized_operations": _UNKNOWN_OPERATIONS}  # fmt: skip
        if group is not None:
            members = [
                {"member_id": member.id, "group_instance_id": member.instance_id, "client_id": member.client_id,
                 "client_host": member.client_host, "member_metadata": member.metadata(group.protocol),
                 "member_assignment": member.assignment}
                for member in group.members.values()
            ]  # fmt: skip
            return {**answer, "group_state": group.state.value, "protocol_type": group.protocol_type,
                    "protocol_data": group.protocol, "members": members}  # fmt: skip
        if recorded is not None:  # nobody of it is there any more
            return {**answer, "group_state": State.EMPTY.value, "protocol_type": recorded.protocol_type}
        if name in self._commits.groups_here() and name not in self._consumer_groups:
            return {**answer, "group_state": State.EMPTY.value}
        if self._commits.why_partial(name) is not None:
            return {**answer, "error_code": Code.KAFKA_STORAGE_ERROR}
        if version >= _FIRST_NOT_FOUND:
            return {**answer, "error_code": Code.GROUP_ID_NOT_FOUND, "error_message": f"Group {brief(name)} not found."}
        return answer


def _once(groups: list[Fields]) -> list[Fields]:
    """Drop repeated groups."""
    return list({group["group_id"]: group for group in groups}.values())


def _label(topic: Fields) -> str:
    return str(topic["name"] if "name" in topic else topic["topic_id"])


def _named(topic: Fields) -> Fields:
    return {name: topic[name] for name in ("name", "topic_id") if name in topic}


def _fetched(number: int, commit: Commit | None, without: Code) -> Fields:
    code = Code.NONE if commit is not None else without
    commit = commit or Commit(-1)
    return {"partition_index": number, "committed_offset": commit.offset, "committed_leader_epoch": commit.leader_epoch,
            "metadata": commit.metadata, "error_code": code}  # fmt: skip
