"""Groups of the new consumer protocol: members that come, go, give up and get, as KIP-848 says it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.server.broker import Server
from kafkalog.server.error_codes import Code
from kafkalog.server.groups.consumer_group import ConsumerGroup, ConsumerMember, Wishes
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import bootstrap, serving, subscribed

TXN = brokers("4.3.0/txn")[0]
OLD = brokers("0.10.2.2/segments")[0]
GROUPS = brokers("4.3.0/groups")[0]
TOPIC = "orders-20"


@pytest.fixture
def client() -> Iterator[RawClient]:
    with serving(TXN) as server, RawClient(server.address) as found:
        yield found


def beat(client: RawClient, member: str, epoch: int, group: str = "g", **other: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "group_id": group, "member_id": member, "member_epoch": epoch, "instance_id": None, "rack_id": None,
        "rebalance_timeout_ms": -1, "subscribed_topic_names": None, "subscribed_topic_regex": None,
        "server_assignor": None, "topic_partitions": None,
    }  # fmt: skip
    return client.ask("ConsumerGroupHeartbeat", 1, **{**body, **other})


def join(client: RawClient, member: str, **other: Any) -> dict[str, Any]:
    words = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
    return beat(client, member, 0, **{**words, **other})


def numbers(answer: dict[str, Any]) -> list[int]:
    assert answer["error_code"] == Code.NONE, answer
    return [number for topic in answer["assignment"]["topic_partitions"] for number in topic["partitions"]]


def owning(answer: dict[str, Any], *partitions: int) -> dict[str, Any]:
    """What a member says that has these of the partitions that it was given."""
    (topic,) = answer["assignment"]["topic_partitions"]
    return {"topic_partitions": [{"topic_id": topic["topic_id"], "partitions": list(partitions)}] if partitions else []}


def test_one_member_gives_up_before_the_other_gets(client: RawClient) -> None:
    first = join(client, "one")
    assert (numbers(first), first["member_epoch"]) == ([0, 1], 1)
    second = join(client, "two")
    assert (numbers(second), second["member_epoch"]) == ([], 2)
    told = beat(client, "one", 1)
    (kept,) = numbers(told)
    assert told["member_epoch"] == 1, "it stays at its epoch until it has given up"
    assert beat(client, "two", 2)["assignment"] is None
    assert beat(client, "one", 1, **owning(first, 0, 1))["member_epoch"] == 1
    assert beat(client, "two", 2)["assignment"] is None
    assert beat(client, "one", 1, **owning(first, kept))["member_epoch"] == 2
    assert numbers(beat(client, "two", 2)) == [1 - kept]
    left = beat(client, "one", -1)
    assert (left["error_code"], left["member_epoch"]) == (Code.NONE, -1)
    last = beat(client, "two", 2)
    assert (numbers(last), last["member_epoch"]) == ([0, 1], 3)


def test_who_is_at_another_epoch_joins_again(client: RawClient) -> None:
    first = join(client, "one")
    assert beat(client, "one", 7)["error_code"] == Code.FENCED_MEMBER_EPOCH
    assert beat(client, "two", 1)["error_code"] == Code.UNKNOWN_MEMBER_ID
    again = join(client, "one")
    assert numbers(again) == numbers(first)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"group": ""}, Code.INVALID_REQUEST),
        ({"member": ""}, Code.INVALID_REQUEST),
        ({"epoch": -3}, Code.INVALID_REQUEST),
        ({"epoch": -2}, Code.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"topic_partitions": None}, Code.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Code.INVALID_REQUEST),
        ({"server_assignor": "mine"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a)|(b"}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "x" * 30_000}, Code.INVALID_REGULAR_EXPRESSION),
        ({"epoch": -1}, Code.UNKNOWN_MEMBER_ID),
    ],
)
def test_what_is_refused(client: RawClient, changed: dict[str, Any], code: Code) -> None:
    words = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [TOPIC], "topic_partitions": [], "member": "one",
             "epoch": 0, **changed}  # fmt: skip
    answer = beat(client, words.pop("member"), words.pop("epoch"), **words)
    assert answer["error_code"] == code
    assert answer["error_message"]
    assert "g" not in {each["group_id"] for each in client.ask("ListGroups", 5)["groups"]}


def test_patterns_match_whole_names(client: RawClient) -> None:
    every = join(client, "one", subscribed_topic_names=[], subscribed_topic_regex="orders-.*|audit-[0-9]+")
    topics = {topic["topic_id"] for topic in every["assignment"]["topic_partitions"]}
    known = client.ask("Metadata", 12, topics=None)["topics"]
    assert topics == {each["topic_id"] for each in known if each["name"] in (TOPIC, "audit-42")}
    assert numbers(join(client, "two", group="h", subscribed_topic_names=[], subscribed_topic_regex="orders")) == []


def test_a_static_member_comes_back_to_what_it_had(client: RawClient) -> None:
    first = join(client, "one", instance_id="i")
    assert join(client, "two", instance_id="i")["error_code"] == Code.UNRELEASED_INSTANCE_ID
    assert beat(client, "one", -2, instance_id="i")["member_epoch"] == -2
    again = join(client, "two", instance_id="i")
    assert numbers(again) == numbers(first)
    assert beat(client, "one", 1, instance_id="i")["error_code"] == Code.FENCED_INSTANCE_ID
    assert beat(client, "two", again["member_epoch"], instance_id="i")["error_code"] == Code.NONE


def test_a_refused_static_member_takes_no_place(client: RawClient) -> None:
    join(client, "one", instance_id="i")
    beat(client, "one", -2, instance_id="i")
    refused = join(client, "two", instance_id="i", subscribed_topic_regex="(")
    assert refused["error_code"] == Code.INVALID_REGULAR_EXPRESSION
    (group,) = client.ask("ConsumerGroupDescribe", 0, group_ids=["g"])["groups"]
    assert [member["member_id"] for member in group["members"]] == ["one"]


def commit(client: RawClient, member: str, epoch: int, version: int = 9) -> int:
    partitions = [{"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}]
    answer = client.ask("OffsetCommit", version, group_id="g", member_id=member, generation_id_or_member_epoch=epoch,
                        topics=[{"name": TOPIC, "partitions": partitions}])  # fmt: skip
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def test_who_commits_is_at_the_present_epoch(client: RawClient) -> None:
    epoch = join(client, "one")["member_epoch"]
    assert commit(client, "one", epoch) == Code.NONE
    assert commit(client, "one", epoch + 1) == Code.STALE_MEMBER_EPOCH
    assert commit(client, "nobody", epoch) == Code.UNKNOWN_MEMBER_ID
    assert commit(client, "", -1) == Code.UNKNOWN_MEMBER_ID
    asked = {"group_id": "g", "topics": None, "member_id": "one"}
    for said, code in ((epoch, Code.NONE), (epoch + 1, Code.STALE_MEMBER_EPOCH)):
        (found,) = client.ask("OffsetFetch", 9, groups=[{**asked, "member_epoch": said}])["groups"]
        assert found["error_code"] == code


def test_a_group_is_of_one_protocol(client: RawClient) -> None:
    join(client, "one")
    body = {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "",
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"m"}]}  # fmt: skip
    assert client.ask("JoinGroup", 9, **body)["error_code"] == Code.INCONSISTENT_GROUP_PROTOCOL
    assert client.ask("JoinGroup", 9, **{**body, "group_id": "classic"})["error_code"] == Code.MEMBER_ID_REQUIRED
    assert join(client, "one", group="classic")["error_code"] == Code.GROUP_ID_NOT_FOUND


def test_groups_are_described(client: RawClient) -> None:
    join(client, "one")
    (found,) = client.ask("ConsumerGroupDescribe", 1, group_ids=["g"])["groups"]
    assert (found["group_state"], found["group_epoch"], found["assignor_name"]) == ("Stable", 1, "uniform")
    (member,) = found["members"]
    assert (member["member_id"], member["subscribed_topic_names"], member["member_type"]) == ("one", [TOPIC], 1)
    (topic,) = member["assignment"]["topic_partitions"]
    assert (topic["topic_name"], topic["partitions"]) == (TOPIC, [0, 1])
    assert member["target_assignment"] == member["assignment"]
    (listed,) = [each for each in client.ask("ListGroups", 5)["groups"] if each["group_id"] == "g"]
    assert (listed["group_type"], listed["group_state"]) == ("consumer", "Stable")
    (classic,) = client.ask("DescribeGroups", 6, groups=["g"])["groups"]
    assert classic["error_code"] == Code.GROUP_ID_NOT_FOUND
    (nobody,) = client.ask("ConsumerGroupDescribe", 1, group_ids=["nobody"])["groups"]
    assert nobody["error_code"] == Code.GROUP_ID_NOT_FOUND


def test_recorded_groups_are_described_by_their_own_protocol() -> None:
    with serving(GROUPS) as server, RawClient(server.address) as client:
        kinds = {each["group_id"]: each["group_type"] for each in client.ask("ListGroups", 5)["groups"]}
        assert set(kinds.values()) == {"classic", "consumer"}
        for name, kind in kinds.items():
            (new,) = client.ask("ConsumerGroupDescribe", 1, group_ids=[name])["groups"]
            (old,) = client.ask("DescribeGroups", 6, groups=[name])["groups"]
            codes = new["error_code"], old["error_code"]
            assert codes == ((0, Code.GROUP_ID_NOT_FOUND) if kind == "consumer" else (Code.GROUP_ID_NOT_FOUND, 0))


def reading(server: Server, group: str, topics: list[str], count: int) -> dict[Any, Any]:
    return subscribed(bootstrap(server), topics, group, count, **{"group.protocol": "consumer"})


@pytest.mark.parametrize(("case_id", "path"), [("4.3.0/txn", TXN), ("0.10.2.2/segments", OLD)])
def test_librdkafka_reads_everything_once(case_id: str, path: Path) -> None:
    """Directories of before 2.8 have no topic ids: the server makes them."""
    version, _, name = case_id.partition("/")
    expected = expected_records(broker_case(version, name), "read_committed")
    topics = sorted({topic for topic, _, _ in expected})
    with serving(*brokers(case_id)) as server:
        assert reading(server, "first", topics, len(expected)).keys() == expected.keys()
        # a pattern, which the server resolves
        assert reading(server, "second", [f"^({'|'.join(topics)})$"], len(expected)).keys() == expected.keys()


def test_two_of_librdkafka_share_what_there_is() -> None:
    """Both read a part, together each record once."""
    expected = set(expected_records(broker_case("4.3.0", "segments"), "read_committed"))
    topics = sorted({topic for topic, _, _ in expected})
    found: list[dict[Any, Any]] = []
    with serving(*brokers("4.3.0/segments")) as server:
        threads = [threading.Thread(target=lambda: found.append(
            subscribed(bootstrap(server), topics, "g", None, **{"group.protocol": "consumer"})
        )) for _ in range(2)]  # fmt: skip
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert set().union(*found) == expected


class _World:
    """Members that do what they are told, each when chance has it, and never without what they were given."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.group = ConsumerGroup(id="g")
        self.owned: dict[str, frozenset[tuple[str, int]]] = {}
        self.counts = {"a": 7, "b": 3}
        self.names = 0

    def step(self) -> None:
        members = list(self.group.members.values())
        what = self.chance.random()
        if what < 0.1 and len(members) < 5:
            self.names += 1
            topics = frozenset(self.chance.sample(["a", "b"], self.chance.randrange(1, 3)))
            member = ConsumerMember(
                id=f"m{self.names}",
                instance_id=None,
                rack_id=None,
                client_id="",
                client_host="",
                rebalance_s=5,
                expires=1e9,
                wishes=Wishes(names=topics, pattern=None, topics=topics),
            )
            self.group.members[member.id] = member
            self.owned[member.id] = frozenset()
            self.group.retarget(self.counts)
        elif what < 0.15 and members:
            gone = self.chance.choice(members)
            self.group.remove(gone.id)
            del self.owned[gone.id]
            self.group.retarget(self.counts)
        elif what < 0.18:
            self.counts = {**self.counts, "b": self.counts["b"] + 1}
            self.group.retarget(self.counts)
        elif members:
            self.beat(self.chance.choice(members))

    def beat(self, member: ConsumerMember) -> None:
        before = member.assigned
        says = self.chance.random() < 0.7
        self.group.reconcile(member, self.owned[member.id] if says else None, 0)
        if member.assigned != before:
            self.owned[member.id] &= member.assigned  # it gives up first
            if self.chance.random() < 0.8:
                self.owned[member.id] = member.assigned
        elif self.chance.random() < 0.5:
            self.owned[member.id] = member.assigned
        self.check()

    def check(self) -> None:
        all_owned = [place for places in self.owned.values() for place in places]
        assert len(all_owned) == len(set(all_owned)), "two members read the same partition"


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_ever_read_twice_and_all_is_read_in_the_end(seed: int) -> None:
    world = _World(seed)
    for _ in range(300):
        world.step()
    for _ in range(12):  # and now nobody comes or goes
        for member in world.group.members.values():
            world.owned[member.id] = member.assigned
            world.group.reconcile(member, world.owned[member.id], 0)
            world.owned[member.id] &= member.assigned
            world.check()
    assert {each.id: each.assigned for each in world.group.members.values()} == world.group.target
    assert world.group.state == ("Stable" if world.group.members else "Empty")
