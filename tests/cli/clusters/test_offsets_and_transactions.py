"""How far behind a group is, files for kafka-consumer-groups, and the command that aborts what hangs."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.cli.clusters.reset_csv import reset_lines
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.cluster.transactions.abort_command import abort_command, abort_command_before_3_0
from kafkalog.cluster.transactions.producers import PartitionProducer
from kafkalog.cluster.transactions.transactions import OpenTransaction
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

GROUPS = "4.1.1/groups"


def test_the_lag_is_that_to_the_end_of_the_log_at_hand(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "logs")
    listed = kafkalog("ls", "--json", root).objects[0]["partitions"]
    ends = {(each["topic"], each["partition"]): each["log_end_offset"] for each in listed}
    (topic, number), end = next((key, end) for key, end in ends.items() if end > 5 and not key[0].startswith("__"))
    library.commit_offsets(root, "readers", {(topic, number): end - 5, ("not here", 0): 7, (topic, 99): end + 9})
    lines = {(each["topic"], each["partition"]): each for each in kafkalog("offsets", "--json", root).objects}
    assert (lines[topic, number]["logEndOffset"], lines[topic, number]["lag"]) == (end, 5)
    for key in (("not here", 0), (topic, 99)):
        assert (lines[key]["logEndOffset"], lines[key]["lag"]) == (None, None)
    table = kafkalog("offsets", root)
    heading = next(line for line in table.lines if "group" in line and "offset" in line)
    assert "log end" in heading
    assert "lag" in heading
    row = next(line for line in table.lines if topic in line and f" {end - 5} " in line)
    assert row.split()[3:6] == [str(end - 5), str(end), "5"]
    past = kafkalog("offsets", "--json", "--as-of", "+1h", root).objects
    assert all(each["lag"] is None for each in past)


def test_a_topic_that_nobody_consumes_exists_all_the_same(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "logs")
    library.commit_offsets(root, "readers", {("orders-23", 0): 5})
    topics = {each["topic"] for each in kafkalog("ls", "--json", root).objects[0]["partitions"]}
    other = next(name for name in sorted(topics) if name.startswith("clicks"))
    finished = kafkalog("offsets", "--json", "--topic", other, root)
    assert (finished.code, finished.out, finished.err) == (0, "", "")
    assert kafkalog("offsets", "--json", "--topic", "orders-*", root).objects


def test_without_a_log_at_hand_there_is_no_such_column() -> None:
    (broker,) = brokers(GROUPS)
    places = [each for each in broker.iterdir() if each.name.startswith("__consumer_offsets-")]
    heading = next(line for line in kafkalog("offsets", *places).lines if "group" in line and "offset" in line)
    assert "lag" not in heading


def test_reset_csv_has_the_group_where_several_may_be_meant() -> None:
    (broker,) = brokers(GROUPS)
    lines = kafkalog("offsets", "--json", broker).objects
    every = list(csv.reader(kafkalog("offsets", "--format", "reset-csv", broker).lines))
    expected = [[each["group"], each["topic"], str(each["partition"]), str(each["offset"])] for each in lines]
    assert every == expected
    name = lines[0]["group"]
    one = list(csv.reader(kafkalog("offsets", "--format", "reset-csv", "--group", name, broker).lines))
    assert one == [row[1:] for row in expected if row[0] == name]
    pattern = list(csv.reader(kafkalog("offsets", "--format", "reset-csv", "--group", f"{name}*", broker).lines))
    assert pattern == [row for row in expected if row[0].startswith(name)]


def test_reset_csv_is_quoted_and_has_one_line_for_each_place() -> None:
    keys = [OffsetKey('a "b", c', "t", 0), OffsetKey('a "b", c', "t", 0), OffsetKey("g", "t", 1)]
    commits = [CommittedOffset(key, number, "", -1, 0, -1, None, 0, 0, 0) for number, key in enumerate(keys)]
    lines = list(reset_lines(commits, with_group=True))
    assert lines == ['"a ""b"", c",t,0,0', "g,t,1,2"]
    assert list(reset_lines(commits, with_group=False)) == ["t,0,0", "t,1,2"]


@pytest.mark.parametrize("name", ["g\nvictim,orders,0,0\nz", "new\rline", "e\x1b[2J", "\udcff\udcfe", "nul\0"])
@pytest.mark.parametrize("is_topic", [False, True])
def test_names_that_kafka_would_read_otherwise_are_refused(name: str, *, is_topic: bool) -> None:
    key = OffsetKey("g", name, 0) if is_topic else OffsetKey(name, "t", 0)
    with pytest.raises(library.UsageError, match="cannot be in this file"):
        list(reset_lines([CommittedOffset(key, 5, "", -1, 0, -1, None, 0, 0, 0)], with_group=True))


def test_the_name_of_a_group_that_the_file_does_not_have_is_not_refused() -> None:
    commit = CommittedOffset(OffsetKey("new\nline", "t", 0), 5, "", -1, 0, -1, None, 0, 0, 0)
    assert list(reset_lines([commit], with_group=False)) == ["t,0,5"]


def hanging(topic: str, epoch: int | None) -> OpenTransaction:
    producer = PartitionProducer(
        producer_id=7000,
        producer_epoch=3,
        last_sequence=12,
        last_timestamp=1,
        coordinator_epoch=epoch,
        transaction_start=345,
    )
    return OpenTransaction(topic=topic, partition=9, producer=producer, transactional_id=None, hanging=True, age_ms=5)


@pytest.mark.parametrize(("epoch", "shown"), [(4, "4"), (None, "0")])
def test_the_command_that_aborts(epoch: int | None, shown: str) -> None:
    found = hanging("t", epoch)
    beginning = "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic t --partition 9 "
    assert abort_command(found) == beginning + "--start-offset 345"
    older = "--producer-id 7000 --producer-epoch 3 --coordinator-epoch " + shown
    assert abort_command_before_3_0(found) == beginning + older


def test_the_command_is_quoted_for_a_shell() -> None:
    words = shlex.split(abort_command(hanging("a b; rm -rf $HOME", None), "host one:9092"))
    assert words[:3] == ["kafka-transactions.sh", "--bootstrap-server", "host one:9092"]
    assert words[3:] == ["abort", "--topic", "a b; rm -rf $HOME", "--partition", "9", "--start-offset", "345"]


def test_transactions_prints_the_command_for_what_hangs(tmp_path: Path) -> None:
    broker = own_copy(brokers("4.1.1/txn")[0], tmp_path / "logs")
    for place in sorted(broker.glob("__transaction_state-*")):
        ids = {each.key for each in library.open_partition(place).records() if each.key is not None}
        with library.Log.open(place) as log:  # the coordinator has forgotten everything
            log.append([library.NewRecord(None, key) for key in ids])
    lines = kafkalog("transactions", "--json", "--bootstrap-server", "b1:9092", broker).objects
    producers = [each for each in lines if each["kind"] == "producer"]
    assert {each["kind"] for each in lines} == {"producer"}
    found = [each for each in producers if each["hanging"]]
    table = kafkalog("transactions", "--bootstrap-server", "b1:9092", broker)
    for each in producers:
        assert (each["abort_command"] is not None) is bool(each["hanging"])
    assert found
    assert not [
        each for each in kafkalog("transactions", "--json", *brokers("4.1.1/txn")).objects if each.get("hanging")
    ]
    for each in found:
        assert f"--start-offset {each['currentTxnStart']}" in each["abort_command"]
        assert f"  {each['abort_command']}" in table.lines
        assert f"  {each['abort_command_before_3_0']}" in table.lines
    assert table.out.count("kafka-transactions.sh") == 2 * len(found)


def test_transactions_of_one_id_and_of_one_topic() -> None:
    (broker,) = brokers("4.1.1/txn")
    lines = kafkalog("transactions", "--json", broker).objects
    ids = [each for each in lines if each["kind"] == "transactional_id"]
    chosen = kafkalog("transactions", "--json", "--transactional-id", ids[0]["transactionalId"], broker).objects
    assert [each for each in chosen if each["kind"] == "transactional_id"] == ids[:1]
    assert {each["producerId"] for each in chosen if each["kind"] == "producer"} <= {ids[0]["producerId"]}
    topic = next(each["topic"] for each in lines if each["kind"] == "producer")
    chosen = kafkalog("transactions", "--json", "--topic", topic, broker).objects
    producers = [each for each in chosen if each["kind"] == "producer"]
    assert producers == [each for each in lines if each.get("topic") == topic]
