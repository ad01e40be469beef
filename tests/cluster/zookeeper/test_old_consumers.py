"""Groups of consumers that met in ZooKeeper: as recorded from brokers of 0.8.2 to 1.1, and as the documents say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkalog.cluster.assignors.assignors import GroupMember, assign
from kafkalog.cluster.assignors.old_assignors import OldConsumer, old_range, old_round_robin, threads_of
from kafkalog.cluster.groups.old_group_lines import as_derived, as_group, by_thread, old_group_line
from kafkalog.cluster.rules.patterns import PatternError, from_java, matching
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.old_consumers import OldGroup, old_groups
from kafkalog.cluster.zookeeper.registered_consumers import ConsumerId, consumer_id
from kafkalog.cluster.zookeeper.replay import Replayer
from kafkalog.cluster.zookeeper.tree import Node, Tree
from kafkalog.codec.common.errors import FormatError, UsageError
from testkit.made.zookeeper_log import write_log
from testkit.recorded.broker_dirs import brokers, unpacked
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]
OLD = [case for case in broker_cases() if case.version < "2" and case.name in ("groups", "zkhist")]
THREE = {"t0": (0, 1, 2), "t1": (0, 1, 2)}


def zookeeper_of(case_id: str) -> Path:
    return unpacked(case_id) / "zookeeper"


def tree_of(nodes: Mapping[str, object], chroot: str = "") -> Tree:
    tree = Tree.empty()
    parents = {"/brokers", "/brokers/ids", "/brokers/topics", "/consumers"}
    for path in nodes:
        parts = path.split("/")[1:]
        parents |= {"/" + "/".join(parts[:end]) for end in range(1, len(parts))}
    if chroot:
        tree.put(chroot, Node(b"", None))
    for path in sorted(parents | nodes.keys()):
        value = nodes.get(path, b"")
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        tree.put(chroot + path, Node(data, None, mtime=7, mzxid=9))
    return tree


def topic(count: int) -> dict[str, object]:
    return {"version": 1, "partitions": {str(number): [0] for number in range(count)}}


def consumer(pattern: str, subscription: dict[str, int]) -> dict[str, object]:
    return {"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "1452134230082"}


def shown(owners: dict[tuple[str, int], str]) -> dict[str, str]:
    return {thread: " ".join(names or []) for thread, names in (by_thread(owners) or {}).items()}


# -- assignors ---------------------------------------------------------------------------------------------------------


def test_range_and_round_robin_of_the_worked_example() -> None:
    """Two consumers, two topics of three partitions."""
    two = [OldConsumer(name, {"t0": 1, "t1": 1}) for name in ("C0", "C1")]
    assert shown(old_range(THREE, two)) == {"C0-0": "t0-0 t0-1 t1-0 t1-1", "C1-0": "t0-2 t1-2"}
    assert shown(old_round_robin(THREE, two)) == {"C0-0": "t0-0 t0-2 t1-1", "C1-0": "t0-1 t1-0 t1-2"}


def test_the_threads_of_kafkas_own_example() -> None:
    """Two consumers with two streams each, five partitions (the comment of `RangeAssignor`)."""
    two = [OldConsumer(name, {"t": 2}) for name in ("C1", "C2")]
    assert shown(old_range({"t": range(5)}, two)) == {"C1-0": "t-0 t-1", "C1-1": "t-2", "C2-0": "t-3", "C2-1": "t-4"}


def test_threads_are_ordered_as_strings() -> None:
    threads = threads_of([OldConsumer("c", {"t": 12})])
    assert threads["t"][:4] == ["c-0", "c-1", "c-10", "c-11"]
    assert old_range({"t": [4, 9]}, [OldConsumer("c", {"t": 3})]) == {("t", 4): "c-0", ("t", 9): "c-1"}


def test_with_two_digits_the_order_of_hashes_is_not_that_of_numbers() -> None:
    """With twelve partitions of a topic the old round robin and the new one part."""
    three = [OldConsumer(name, {"t": 1}) for name in "abc"]
    members = [GroupMember(member_id=name, topics=("t",)) for name in "abc"]
    for count, same in ((9, True), (10, True), (12, False)):
        old = old_round_robin({"t": range(count)}, three)
        new = assign("roundrobin", {"t": count}, members)
        assert new is not None
        assert ({place for place, thread in old.items() if thread == "a-0"} == new["a"]) is same
    assert list(old_round_robin({"t": range(12)}, three))[:3] == [("t", 10), ("t", 11), ("t", 0)]


def test_the_two_conditions_of_round_robin() -> None:
    other_topics = [OldConsumer("a", {"t0": 1, "t1": 1}), OldConsumer("b", {"t0": 1})]
    with pytest.raises(UsageError, match="same topics in every consumer of the group: a subscribes to t1, b does not"):
        old_round_robin(THREE, other_topics)
    other_counts = [OldConsumer("a", {"t0": 1, "t1": 1}), OldConsumer("b", {"t0": 2, "t1": 1})]
    with pytest.raises(UsageError, match="same number of streams for every topic of a consumer: b has 1 for t1 and 2"):
        old_round_robin(THREE, other_counts)
    relaxed = old_round_robin(THREE, other_topics, same_topics=False)
    assert shown(relaxed) == {"a-0": "t0-0 t0-2 t1-0 t1-1 t1-2", "b-0": "t0-1"}


def test_a_group_of_too_many_threads_is_given_up() -> None:
    with pytest.raises(FormatError, match="more than 1,000,000 threads"):
        threads_of([OldConsumer("c", {"t": 2**31 - 1})])


# -- ids and patterns --------------------------------------------------------------------------------------------------


def test_ids_that_consumers_made_for_themselves() -> None:
    assert consumer_id("g_1", "g_1_my-host-1452134230082-1a2b3c4d") == ConsumerId("my-host", 1452134230082, "1a2b3c4d")
    for other in (
        "g_c0",
        "x_my-host-1452134230082-1a2b3c4d",
        "g_h-145213423008-1a2b3c4d",
        "g_h-1452134230082-1A2B3C4D",
    ):
        assert consumer_id("g", other) is None


PATTERNS = [
    ("a.*", "abc", True), ("a.*", "xabc", False), ("t(1|2)+", "t121", True), ("[a-c&x]+", "a&x", True),
    ("[^a]b?", "xb", True), ("\\p{Lower}\\d{2,}", "x123", True), ("\\p{Lower}\\d{2,}", "x1", False),
    ("(?i)ab[cd]", "ABD", True), ("(?:a|(?<n>b))$", "b", True), ("\\Qa.b\\E", "axb", False), ("x{0}", "", True),
    ("", "", True), ("[]a]", "]", True), ("\\x41\\u0042", "AB", True), (".", "\n", False), ("^^a$$", "a", True),
    ("(a*)*b", "a" * 249, False), ("(a|a)*b", "a" * 249, False), ("\\W", "-", True), ("[\\w-]+", "a-b", True),
    ("(" * 60 + ")" * 60, "", True), ("\\ba\\b", "a", True), ("\\Qa\\\\Eb", "a\\b", True),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "name", "wanted"), PATTERNS)
def test_patterns_as_java_reads_them(pattern: str, name: str, wanted: bool) -> None:
    assert (name in matching(from_java(pattern), (name,))) is wanted


@pytest.mark.parametrize(
    "pattern",
    ["*", "a**", "(", "a)", "[a", "(?=a)", "(?>a)", "a*+", "\\1", "[a[b]]", "[a&&b]", "a{2", "a{3,2}", "\\p{Greek}",
     "\\", "[b-a]", "\\h", "a{999}{9}", "((a{99}){99}){99}"],
)  # fmt: skip
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        matching(from_java(pattern), ("a",))


# -- groups ------------------------------------------------------------------------------------------------------------


def group_of(nodes: Mapping[str, object]) -> OldGroup:
    (found,) = old_groups(tree_of(nodes))
    return found


def test_lists_of_topics_are_held_against_those_that_are_there() -> None:
    """The document's own registration, pattern and all, and internal topics left out as Kafka leaves them out."""
    topics = {f"/brokers/topics/{name}": topic(2) for name in ("replicatedtopic", "other", "__consumer_offsets")}
    white = group_of({**topics, "/consumers/g/ids/g_c": consumer("white_list", {"replicatedtopic": 1})})
    assert white.streams == (OldConsumer("g_c", {"replicatedtopic": 1}),)
    assert shown(white.assigned("range") or {}) == {"g_c-0": "replicatedtopic-0 replicatedtopic-1"}
    black = group_of({**topics, "/consumers/g/ids/g_c": consumer("black_list", {"replicated.*, x": 3})})
    assert black.streams == (OldConsumer("g_c", {"other": 3}),)
    static = group_of({**topics, "/consumers/g/ids/g_c": consumer("static", {"__consumer_offsets": 1})})
    assert static.streams == (OldConsumer("g_c", {"__consumer_offsets": 1}),)
    assert white.joined_by("g_d") == {("replicatedtopic", 0): "g_c-0", ("replicatedtopic", 1): "g_d-0"}


def test_consumers_without_owners_and_offsets_without_consumers() -> None:
    live = group_of({"/brokers/topics/t": topic(3), "/consumers/g/ids/g_c": consumer("static", {"t": 1})})
    assert (as_group(live).state, as_group(live).type, as_derived(live)) == ("Stable", "ZooKeeper", None)
    gone = group_of({"/consumers/g/offsets/t/0": b"20", "/consumers/g/offsets/t/1": b"x", "/consumers/g/owners/t": b""})
    assert (as_group(gone).state, [each.offset for each in gone.offsets], len(gone.problems)) == ("Empty", [20], 1)


def test_a_group_below_a_chroot() -> None:
    nodes = {"/brokers/topics/t": topic(1), "/consumers/g/ids/g_c": consumer("static", {"t": 1})}
    (found,) = old_groups(tree_of(nodes, "/kafka"))
    assert (found.chroot, found.assigned("range")) == ("/kafka", {("t", 0): "g_c-0"})


def test_round_robin_is_told_by_its_owners() -> None:
    both = {"t0": 1, "t1": 1}
    nodes = {f"/brokers/topics/{name}": topic(3) for name in both}
    nodes.update({f"/consumers/g/ids/g_{name}": consumer("static", both) for name in "ab"})
    plain = group_of(nodes)
    owners = plain.assigned("roundrobin") or {}
    group = group_of({**nodes, **{f"/consumers/g/owners/{t}/{n}": owner.encode() for (t, n), owner in owners.items()}})
    assert (group.assignor, as_derived(group), group.conditions()) == ("roundrobin", True, None)
    assert shown(group.without("g_a") or {}) == {"g_b-0": "t0-0 t0-1 t0-2 t1-0 t1-1 t1-2"}
    one = {**nodes, "/consumers/g/owners/t0/0": b"g_gone-0"}
    strange = group_of(one)
    assert (strange.assignor, as_derived(strange)) == ("", False)
    assert old_group_line(strange).assignment_problems == ["t0-0 is owned by g_gone-0, which is not registered"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"pattern":"static"}', b'{"pattern":1,"subscription":{}}',
     b'{"pattern":"static","subscription":{"t":0}}', b'{"pattern":"static","subscription":{"t":true}}',
     b'{"pattern":"static","subscription":{"t":99999999999}}', b'{"pattern":"white_list","subscription":{"(":1}}'],
)  # fmt: skip
def test_registrations_that_cannot_be_read(data: bytes) -> None:
    group = group_of({"/brokers/topics/t": topic(1), "/consumers/g/ids/g_c": data})
    assert len(group.problems) == 1
    assert (group.assigned("range"), as_derived(group)) == (None, None)
    assert old_group_line(group, without="g_c", joining="g_d").assignment_with is None


# -- recorded from brokers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", OLD, ids=lambda case: case.id)
def test_owners_are_those_of_the_range_rule(case: BrokerCase, compared: Note) -> None:
    """As they were last while the same consumers were registered; a rebalance takes some transactions."""
    directory = open_zookeeper(zookeeper_of(case.id))
    assert directory.logs[0][0] == 1
    replayer = Replayer(replace(directory, snapshots=()))
    last: dict[tuple[str, tuple[str, ...]], str] = {}
    for transaction in replayer:
        if not any("/consumers/" in (each.path or "") for each in transaction.operations):
            continue
        for group in old_groups(replayer.tree):
            assert group.problems == ()
            if len(group.owners) == sum(map(len, group.partitions.values())) and len(group.consumers) == 2:
                last[group.group, tuple(each.consumer_id for each in group.consumers)] = group.assignor
    assert last
    assert set(last.values()) == {"range"}
    compared("assignments of old consumers", len(last))


@pytest.mark.parametrize("case", [case for case in OLD if case.name == "groups"], ids=lambda case: case.id)
def test_offsets_in_both_places(case: BrokerCase, compared: Note) -> None:
    """Kafka's own consumers committed the same offsets to both (`dual.commit.enabled`)."""
    (broker,) = brokers(case.id)
    finished = kafkalog("offsets", "--json", broker, zookeeper_of(case.id))
    assert (finished.code, finished.err) == (0, "")
    stored = {}
    for line in finished.objects:
        stored[line["source"], line["group"], line["topic"], line["partition"]] = line["offset"]
        assert line["elsewhere"] is None
    dual = {key[1:] for key in stored if key[0] == "zookeeper" and key[1].startswith("old-kafka")}
    assert len(dual) == 5
    for key in dual:
        assert stored["zookeeper", *key] == stored["kafka", *key]
    compared("offsets that old consumers committed to both places", len(dual))


def test_a_group_with_two_live_consumers_is_not_empty() -> None:
    (broker,) = brokers("0.8.2.2/groups")
    lines = [each for each in kafkalog("groups", "--json", broker, zookeeper_of("0.8.2.2/groups")).objects
             if each["group"] == "old-alive"]  # fmt: skip
    assert [(line["type"], line["state"], len(line["members"])) for line in lines] == [
        ("Classic", "Stable", 0), ("ZooKeeper", "Stable", 2)]  # fmt: skip
    line = lines[1]
    assert (line["assignor"], line["assignmentAsDerived"], line["assignmentProblems"]) == ("range", True, [])
    assert line["members"][0]["threads"] == {"old-alive_old-alive-c0-0": ["orders-41-0", "stock-0-0", "stock-0-1"]}
    table = kafkalog("groups", zookeeper_of("0.8.2.2/groups"), "--with", "new", "--without", "old-alive_old-alive-c0")
    assert table.code == 0
    assert "new-0 " in table.out
    assert "without old-alive_old-alive-c0" in table.out


def test_as_of_a_transaction_and_of_a_time() -> None:
    path = zookeeper_of("1.1.1/groups")
    times = [line["commitTimestamp"] for line in kafkalog("offsets", "--json", path).objects]
    first = kafkalog("offsets", "--json", path, "--as-of", min(times)).objects
    assert 0 < len(first) < len(times)
    at = min(line["zxid"] for line in kafkalog("offsets", "--json", path).objects)
    (early,) = kafkalog("groups", "--json", path, "--zxid", hex(at)).objects
    assert (early["group"], early["state"], len(early["members"])) == ("old-zk-54", "Stable", 2)
    assert kafkalog("offsets", path, "--as-of", "1").code == 64
    assert kafkalog("offsets", path, "--at-offset", "1").code == 64
    assert kafkalog("groups", path, "--at-offset", "1").code == 64
    (broker,) = brokers("1.1.1/groups")
    assert kafkalog("offsets", broker, "--zxid", "1").code == 64


def test_no_old_groups_where_there_are_none() -> None:
    assert old_groups(tree_at(open_zookeeper(zookeeper_of("3.9.1-zk/groups"))).tree) == []


# -- migration ---------------------------------------------------------------------------------------------------------


def test_offsets_of_zookeeper_written_as_kafkas(tmp_path: Path) -> None:
    path = zookeeper_of("1.1.1/groups")
    into = tmp_path / "into"
    done = kafkalog("offsets", "--json", path, "--migrate", "kafka", "--into", into)
    assert done.code == 0
    places = {line["group"]: line["log_partition"] for line in done.objects}
    lines = kafkalog("offsets", "--json", into).objects
    wanted = kafkalog("offsets", "--json", path).objects
    names = ("group", "topic", "partition", "offset")
    assert [[line[name] for name in names] for line in lines] == [[line[name] for name in names] for line in wanted]
    assert {line["logPartition"] == places[line["group"]] for line in lines} == {True}
    (broker,) = brokers("1.1.1/groups")
    recorded = {line["group"]: line["logPartition"] for line in kafkalog("offsets", "--json", broker).objects}
    assert places["old-kafka-60"] == recorded["old-kafka-60"]  # the broker's own place, by ZooKeeper's partitions
    assert kafkalog("offsets", path, "--migrate", "kafka", "--into", into).code == 64
    wrong = kafkalog("offsets", path, "--migrate", "kafka", "--into", tmp_path / "x", "--offsets-partitions", "7")
    assert (wrong.code, "according to ZooKeeper, and 7 were asked for" in wrong.err) == (64, True)
    assert not (tmp_path / "x").exists()


def test_offsets_of_kafka_as_a_script_for_zookeeper(tmp_path: Path) -> None:
    (broker,) = brokers("0.8.2.2/groups")
    path = zookeeper_of("0.8.2.2/groups")
    missing = kafkalog("offsets", broker, path, "--migrate", "zookeeper")
    assert missing.lines[:3] == [
        'create /consumers/old-alive/offsets ""', 'create /consumers/old-alive/offsets/orders-41 ""',
        "create /consumers/old-alive/offsets/orders-41/0 15"]  # fmt: skip
    assert not any(line.startswith("set") or "old-kafka" in line for line in missing.lines)  # these are there already
    alone = kafkalog("offsets", broker, "--migrate", "zookeeper", "--group", "old-kafka-44").lines
    assert alone[:2] == ['create /consumers ""', 'create /consumers/old-kafka-44 ""']
    assert "set /consumers/old-kafka-44/offsets/orders-41/0 15" in alone
    import kafkalog as library

    (tmp_path / "data").mkdir()
    library.commit_offsets(tmp_path / "data", "old-kafka-44", {("stock-0", 0): 25})
    both = kafkalog("offsets", tmp_path / "data", path, "--migrate", "zookeeper")
    assert both.lines == ["set /consumers/old-kafka-44/offsets/stock-0/0 25"]
    differ = kafkalog("offsets", "--json", tmp_path / "data", path, "--group", "old-kafka-44").objects
    assert {(line["source"], line["offset"], line["elsewhere"]) for line in differ if line["elsewhere"]} == {
        ("kafka", 25, 20), ("zookeeper", 20, 25)}  # fmt: skip
    assert "elsewhere" in kafkalog("offsets", tmp_path / "data", path).lines[1]
    library.commit_offsets(tmp_path / "data", "a/b", {("t", 0): 1})
    refused = kafkalog("offsets", tmp_path / "data", "--migrate", "zookeeper", "--group", "a/b")
    assert (refused.code, "cannot be the name of a node" in refused.err) == (64, True)


@pytest.mark.parametrize("options", [["--migrate", "kafka"], ["--into", "x"], ["--migrate", "zookeeper"]])
def test_options_that_do_not_go_together(options: list[str]) -> None:
    assert kafkalog("offsets", zookeeper_of("1.1.1/groups"), *options).code == 64


def test_what_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    """A registration that is no JSON, appended to the log as ZooKeeper would have."""
    target = Path(shutil.copytree(zookeeper_of("0.8.2.2/groups"), tmp_path / "zookeeper"))
    found = tree_at(open_zookeeper(target))
    write_log(target, [("/consumers/old-zk-67/ids/x", b"{")], found.zxid + 1)
    for command in ("groups", "offsets"):
        finished = kafkalog(command, target)
        assert finished.code == 1
        assert "zk_node_invalid" in finished.err
        assert "is registered without pattern" in finished.err
