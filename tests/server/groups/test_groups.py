"""Groups and committed offsets: members that come and go, and what the files say of groups that were."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cluster.groups.offsets import read_offsets
from kafkalog.codec.common.errors import UsageError
from kafkalog.log import open_all
from kafkalog.log.directories.selection import Selection
from kafkalog.server.answers import Later
from kafkalog.server.broker import ServerOptions
from kafkalog.server.error_codes import Code
from kafkalog.server.groups import commits, group
from kafkalog.server.groups.commits import CommitsFile
from kafkalog.server.groups.coordinator import Coordinator
from kafkalog.server.wire import Request
from testkit.recorded.broker_dirs import brokers
from testkit.serving.raw_client import RawClient, kind_of
from testkit.serving.serving import serving

GROUPS = brokers("4.3.0/groups")[0]
TXN = brokers("4.3.0/txn")[0]


def recorded() -> dict[tuple[str, str, int], int]:
    found = read_offsets(open_all(GROUPS).readable())
    return {(each.key.group, each.key.topic, each.key.partition): each.offset for each in found.committed}


@pytest.mark.parametrize("version", [1, 7, 9])
def test_committed_offsets_are_those_of_the_files(version: int) -> None:
    expected = recorded()
    assert expected
    with serving(GROUPS) as server, RawClient(server.address) as client:
        for group in {key[0] for key in expected}:
            own = [key for key in expected if key[0] == group]
            topics = [{"name": topic, "partition_indexes": [number]} for _, topic, number in own]
            if version < 8:
                answer = client.ask("OffsetFetch", version, group_id=group, topics=topics)
            else:
                asked = [{"group_id": group, "topics": topics}]
                (answer,) = client.ask("OffsetFetch", version, groups=asked)["groups"]
            found = {
                (group, topic["name"], each["partition_index"]): each["committed_offset"]
                for topic in answer["topics"] for each in topic["partitions"]
            }  # fmt: skip
            assert found == {key: offset for key, offset in expected.items() if key[0] == group}


def test_offsets_are_known_if_one_topic_is_served() -> None:
    group, topic, number = min(recorded())
    with serving(GROUPS, chosen=Selection.of([topic])) as server, RawClient(server.address) as client:
        asked = [{"name": topic, "partition_indexes": [number]}]
        ((answer,),) = [each["partitions"] for each in
                        client.ask("OffsetFetch", 5, group_id=group, topics=asked)["topics"]]  # fmt: skip
        assert answer["committed_offset"] == recorded()[group, topic, number] >= 0


def test_all_offsets_of_a_group_and_of_none() -> None:
    expected = recorded()
    group = next(iter(expected))[0]
    with serving(GROUPS) as server, RawClient(server.address) as client:
        answer = client.ask("OffsetFetch", 5, group_id=group, topics=None)
        assert sum(len(topic["partitions"]) for topic in answer["topics"]) == sum(key[0] == group for key in expected)
        assert client.ask("OffsetFetch", 5, group_id="nobody", topics=None)["topics"] == []
        asked = [{"name": "t", "partition_indexes": [0]}]
        ((none,),) = [each["partitions"] for each in
                      client.ask("OffsetFetch", 5, group_id="nobody", topics=asked)["topics"]]  # fmt: skip
        assert none["committed_offset"] == -1


def test_the_groups_of_the_files_are_listed() -> None:
    with serving(GROUPS) as server, RawClient(server.address) as client:
        listed = {each["group_id"] for each in client.ask("ListGroups", 5)["groups"]}
        assert {key[0] for key in recorded()} <= listed
        (described,) = client.ask("DescribeGroups", 5, groups=[min(listed)])["groups"]
        assert described["group_state"] == "Empty"
        (missing,) = client.ask("DescribeGroups", 5, groups=["nobody"])["groups"]
        assert missing["group_state"] == "Dead"


def joining(group: str, member_id: str = "", **other: Any) -> dict[str, Any]:
    return {"group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": member_id,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"m"}], **other}  # fmt: skip


def given_id(client: RawClient, group: str) -> str:
    """The id that a new member is to join with."""
    answer = client.ask("JoinGroup", 9, **joining(group))
    assert answer["error_code"] == Code.MEMBER_ID_REQUIRED
    return str(answer["member_id"])


def test_two_members_agree_and_one_leaves() -> None:
    with serving(TXN) as server, RawClient(server.address) as one, RawClient(server.address) as two:
        joined: dict[str, dict[str, Any]] = {}
        clients = {"one": one, "two": two}
        ids = {name: given_id(client, "g") for name, client in clients.items()}  # nobody joins before both have come

        def join(name: str) -> None:
            joined[name] = clients[name].ask("JoinGroup", 9, **joining("g", ids[name]))

        joiners = [threading.Thread(target=join, args=(name,)) for name in clients]
        for each in joiners:
            each.start()
        for each in joiners:
            each.join()
        members = {name: each["member_id"] for name, each in joined.items()}
        assert {each["generation_id"] for each in joined.values()} == {joined["one"]["generation_id"]}
        leader = joined["one"]["leader"]
        assert {each["leader"] for each in joined.values()} == {leader}
        (told,) = [each["members"] for each in joined.values() if each["members"]]
        assert {each["member_id"] for each in told} == set(members.values())
        generation = joined["one"]["generation_id"]
        assignments = [{"member_id": each, "assignment": each.encode()} for each in members.values()]
        synced: dict[str, dict[str, Any]] = {}

        def sync(client: RawClient, name: str) -> None:
            given = assignments if members[name] == leader else []
            synced[name] = client.ask("SyncGroup", 4, group_id="g", generation_id=generation, member_id=members[name],
                                      assignments=given)  # fmt: skip

        threads = [threading.Thread(target=sync, args=(client, name)) for name, client in clients.items()]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert {name: each["assignment"] for name, each in synced.items()} == {
            name: member.encode() for name, member in members.items()
        }
        beat = {"group_id": "g", "generation_id": generation, "member_id": members["two"]}
        assert two.ask("Heartbeat", 4, **beat)["error_code"] == Code.NONE
        assert two.ask("Heartbeat", 4, **{**beat, "generation_id": 99})["error_code"] == Code.ILLEGAL_GENERATION
        assert two.ask("Heartbeat", 4, **{**beat, "member_id": "x"})["error_code"] == Code.UNKNOWN_MEMBER_ID
        one.ask("LeaveGroup", 4, group_id="g", members=[{"member_id": members["one"], "group_instance_id": None}])
        assert two.ask("Heartbeat", 4, **beat)["error_code"] == Code.REBALANCE_IN_PROGRESS
        alone = two.ask("JoinGroup", 9, **joining("g", members["two"]))
        assert (alone["leader"], len(alone["members"])) == (members["two"], 1)


def test_a_join_whose_answer_was_lost_is_answered_again() -> None:
    """Kafka's coordinator repeats the answer (`GroupCoordinator.doJoinGroup`, CompletingRebalance)."""
    with serving(TXN) as server, RawClient(server.address) as client:
        again = joining("g", given_id(client, "g"))
        first = client.ask("JoinGroup", 9, **again)
        assert client.ask("JoinGroup", 9, **again) == first
        changed = {**again, "protocols": [{"name": "range", "metadata": b"other"}]}
        assert client.ask("JoinGroup", 9, **changed)["generation_id"] == first["generation_id"] + 1


def test_a_member_that_is_silent_is_dropped() -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        body = joining("g", session_timeout_ms=200, rebalance_timeout_ms=200)
        given = client.ask("JoinGroup", 9, **body)["member_id"]
        answer = client.ask("JoinGroup", 9, **{**body, "member_id": given})
        sync = {"group_id": "g", "generation_id": answer["generation_id"], "member_id": given,
                "assignments": [{"member_id": given, "assignment": b"all"}]}  # fmt: skip
        assert client.ask("SyncGroup", 4, **sync)["assignment"] == b"all"
        beat = {"group_id": "g", "generation_id": answer["generation_id"], "member_id": given}
        assert client.ask("Heartbeat", 4, **beat)["error_code"] == Code.NONE
        threading.Event().wait(0.6)
        assert client.ask("Heartbeat", 4, **beat)["error_code"] == Code.UNKNOWN_MEMBER_ID


def asked(name: str, version: int, **body: Any) -> Request:
    return Request(kind_of(name), version, 1, "raw", body)


def new_id(coordinator: Coordinator) -> str:
    answer = coordinator.join(asked("JoinGroup", 5, **joining("g")), "here")
    assert isinstance(answer, dict)
    return str(answer["member_id"])


def test_who_completes_a_join_is_answered_even_if_another_thread_looks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "_INITIAL_DELAY_S", 0)
    coordinator = Coordinator(lambda: coordinator.tick())  # as another thread does that is woken at once
    one = new_id(coordinator)
    alone = coordinator.join(asked("JoinGroup", 5, **joining("g", one)), "here")
    assert isinstance(alone, dict)
    sync = {"group_id": "g", "generation_id": alone["generation_id"], "member_id": one, "group_instance_id": None,
            "assignments": [{"member_id": one, "assignment": b"all"}]}  # fmt: skip
    assert isinstance(coordinator.sync(asked("SyncGroup", 3, **sync)), dict)
    waiting = coordinator.join(asked("JoinGroup", 5, **joining("g", new_id(coordinator))), "here")
    assert isinstance(waiting, Later)
    again = coordinator.join(asked("JoinGroup", 5, **joining("g", one)), "here")
    assert isinstance(again, dict)
    told = waiting.poll(False)
    assert isinstance(told, dict)
    assert again["generation_id"] == told["generation_id"] == alone["generation_id"] + 1


def test_who_was_looked_at_too_early_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    announced: list[str] = []
    coordinator = Coordinator(lambda: announced.append("look"))
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ids = [new_id(coordinator), new_id(coordinator)]
    one, two = (coordinator.join(asked("JoinGroup", 5, **joining("g", each)), "here") for each in ids)
    assert isinstance(one, Later)
    assert isinstance(two, Later)
    assert two.poll(False) is None
    announced.clear()
    now += 1  # the time for others to come is over, and one of the two is looked at
    assert one.poll(False) is not None
    assert announced
    assert two.poll(False) is not None


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group_id": ""}, Code.INVALID_GROUP_ID),
        ({"session_timeout_ms": 0}, Code.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, Code.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_who_may_not_join(changed: dict[str, Any], code: Code) -> None:
    with serving(TXN) as server, RawClient(server.address) as client:
        assert client.ask("JoinGroup", 9, **{**joining("g"), **changed})["error_code"] == code


def commit(client: RawClient, group: str, offset: int, **other: Any) -> int:
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}]
    topics = [{"name": "orders-20", "partitions": partitions}]
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics, **other}
    answer = client.ask("OffsetCommit", 8, **body)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def test_commits_are_kept_in_a_file_and_beside_the_log(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    options = ServerOptions(commits_file=CommitsFile(str(path)))
    with serving(TXN, options=options) as server, RawClient(server.address) as client:
        assert commit(client, "g", 5) == Code.NONE
        assert commit(client, "g", 6, member_id="nobody", generation_id_or_member_epoch=3) == Code.UNKNOWN_MEMBER_ID
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"group": "g", "topic": "orders-20", "partition": 0, "offset": 5, "leader_epoch": -1, "metadata": "note"}
    ]
    again = ServerOptions(commits_file=CommitsFile(str(path)))
    with serving(TXN, options=again) as server, RawClient(server.address) as client:
        answer = client.ask("OffsetFetch", 5, group_id="g", topics=None)
        assert answer["topics"][0]["partitions"][0]["committed_offset"] == 5


def test_a_file_of_offsets_that_cannot_be_one(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    endless = '{"group": "g", "topic": "t", "partition": 0, "offset": Infinity, "leader_epoch": -1, "metadata": ""}'
    for text in ("nonsense\n", "[" * 100_000, endless):
        path.write_text(text)
        with pytest.raises(UsageError, match="does not hold committed offsets"):
            CommitsFile(str(path)).load()
    with pytest.raises(UsageError, match="inside the log directory"):
        CommitsFile(str(TXN / "offsets.jsonl"))


def test_a_member_names_its_protocol_and_its_group() -> None:
    """As `SyncGroup` asks it from version 5 on, and every request of a group."""
    sync = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": []}
    with serving(TXN) as server, RawClient(server.address) as client:
        assert client.ask("SyncGroup", 5, **sync)["error_code"] == Code.INCONSISTENT_GROUP_PROTOCOL
        given = {**sync, "protocol_type": "consumer", "protocol_name": "range"}
        assert client.ask("SyncGroup", 5, **given)["error_code"] == Code.UNKNOWN_MEMBER_ID
        assert client.ask("SyncGroup", 5, **{**given, "group_id": ""})["error_code"] == Code.INVALID_GROUP_ID
        beat = {"group_id": "", "generation_id": 1, "member_id": "m"}
        assert client.ask("Heartbeat", 3, **beat)["error_code"] == Code.INVALID_GROUP_ID
        assert client.ask("LeaveGroup", 3, group_id="", members=[]) == {
            "throttle_time_ms": 0, "error_code": Code.INVALID_GROUP_ID, "members": []
        }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "number", "group", "generation", "code"),
    [
        ("orders-20", 0, "", -1, Code.NONE),
        ("orders-20", 99, "new", -1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("missing", 0, "new", 5, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders-20", 0, "new", 5, Code.ILLEGAL_GENERATION),
    ],
)
def test_commits_to_what_does_not_exist(topic: str, number: int, group: str, generation: int, code: Code) -> None:
    partition = {"partition_index": number, "committed_offset": 1, "committed_metadata": ""}
    body = {"group_id": group, "generation_id_or_member_epoch": generation, "member_id": "", "topics": [
        {"name": topic, "partitions": [partition]}]}  # fmt: skip
    with serving(TXN) as server, RawClient(server.address) as client:
        (found,) = client.ask("OffsetCommit", 7, **body)["topics"]
        assert found["partitions"] == [{"partition_index": number, "error_code": code}]


def test_a_commit_that_replaces_another_takes_only_what_it_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_MOST_BYTES", 150)
    kept = commits.Commits(lambda: ())
    for offset in range(3):
        kept.commit({("group", "topic", 0): commits.Commit(offset, metadata="m" * 100)})
    with pytest.raises(commits.TooManyCommitsError):
        kept.commit({("group", "topic", 1): commits.Commit(0, metadata="m" * 100)})
