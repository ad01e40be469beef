"""A replay into librdkafka's mock of a cluster; tests/interop has the same with a real one."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
import pyarrow.parquet as pq
import pytest

from kafkalog import RecordFilter
from kafkalog.cluster.groups.offsets import CommittedOffset, OffsetKey
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.log import open_all, open_partition
from kafkalog.replay import Replay, plan_replay, replay
from kafkalog.replay import target as target_module
from kafkalog.replay.groups import moved_offsets
from kafkalog.replay.offset_map import OffsetMap, Run
from kafkalog.replay.run import check_target
from kafkalog.replay.target import ClusterError, Target, Written
from testkit.kafka.mock_cluster import committed, consumed, made_in_a_mock, mock_cluster
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case, replica_roles, unpack_replicas
from testkit.running.command import kafkalog as command

CREATE = Target.create
CASES = ("2.8.2/groups", "4.1.1/txn", "4.1.1/groups")


@pytest.fixture(autouse=True)
def progress(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], int]:
    """The mock keeps what was not committed, too; a cluster keeps the progress if the transaction is committed."""
    kept: dict[tuple[str, int], int] = {}
    commit = Target._commit

    def keeping(self: Target, some: Sequence[tuple[str, int, int]]) -> None:
        commit(self, some)
        kept.update({(topic, partition): offset for topic, partition, offset in some})

    monkeypatch.setattr(Target, "_commit", keeping)
    monkeypatch.setattr(Target, "progress", lambda _: dict(kept))
    monkeypatch.setattr(Target, "create", made_in_a_mock)
    return kept


def topics_of(case_id: str) -> list[str]:
    (broker,) = brokers(case_id)
    return sorted({each.topic for each in open_all(broker).readable() if each.topic and each.topic[:2] != "__"})


@pytest.mark.parametrize("case_id", CASES)
def test_records_and_offsets_of_groups_are_there(case_id: str, tmp_path: Path) -> None:
    (broker,) = brokers(case_id)
    case = broker_case(*case_id.split("/"))
    path = tmp_path / "map.parquet"
    with mock_cluster(topics_of(case_id)) as bootstrap:
        given = ("--bootstrap-server", bootstrap, "--yes", "--json", "--map", path, broker)
        done = command("replay", *given)
        waits = any(each["kind"] == "waiting" for each in done.objects)
        assert done.code == (1 if waits else 2), done.err
        assert waits == (case_id == "4.1.1/txn"), "its producers were stopped within transactions"
        rows = pq.read_table(path).to_pylist()
        target = {(row["topic"], row["partition"], row["offset"]): row["target_offset"] for row in rows}
        expected = {key: line for key, line in expected_records(case, "read_committed").items() if key[0][:2] != "__"}
        assert target.keys() == expected.keys()
        for topic, partition in {key[:2] for key in expected}:
            found = {message.offset(): message for message in consumed(bootstrap, topic, partition)}
            places = [key for key in expected if key[:2] == (topic, partition)]
            assert len(found) == len(places)
            for key in places:
                message, line = found[target[key]], expected[key]
                assert message.timestamp()[1] == line["timestamp"]
                for name, value in (("key", message.key()), ("value", message.value())):
                    assert value == (None if line[name] is None else b64decode(line[name])), (key, name)
        moved = [each for each in done.objects if each["kind"] == "offset"]
        if case.has("committed"):
            known = {(each["group"], each["topic"], each["partition"]): each["offset"] for each in moved}
            assert known == {
                (line["group"], line["topic"], line["partition"]): line["offset"] for line in case.expected("committed")
                if any(key[:2] == (line["topic"], line["partition"]) for key in expected)
                or line["topic"] in topics_of(case_id)
            }  # fmt: skip
        for each in moved:
            there = committed(bootstrap, each["group"], each["target_topic"], each["partition"])
            assert there == each["target_offset"]
        again = command("replay", *given)
        assert again.code == (1 if waits else 0), again.err
        assert not path.with_suffix(".parquet.journal").exists()


class _KilledError(Exception):
    """In place of a kill."""


@pytest.mark.parametrize("moment", [0, 2, 5])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_what_ends_anywhere_goes_on_there(
    moment: int, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around each commit, where it is decided whether records are there."""
    (broker,) = brokers("4.1.1/txn")
    monkeypatch.setattr("kafkalog.replay.run._CHUNK_RECORDS", 40)
    path = str(tmp_path / "map.parquet")
    plan = plan_replay(broker)
    commits = 0
    commit = Written.commit

    def ends(self: Written, next_offset: int) -> None:
        nonlocal commits
        commits += 1
        if commits == moment + 1:
            if after:
                commit(self, next_offset)
            raise _KilledError
        commit(self, next_offset)

    with mock_cluster(topics_of("4.1.1/txn")) as bootstrap:
        with monkeypatch.context() as patch:
            patch.setattr(Written, "commit", ends)
            patch.setattr(Target, "abort", lambda _: None)
            with pytest.raises(_KilledError):
                replay(broker, target=bootstrap, map_path=path, plan=plan)
        replay(broker, target=bootstrap, map_path=path, plan=plan)
        rows = pq.read_table(path).to_pylist()
        expected = expected_records(broker_case("4.1.1", "txn"), "read_committed")
        wanted = [key for key in expected if key[0][:2] != "__"]
        assert sorted((row["topic"], row["partition"], row["offset"]) for row in rows) == sorted(wanted)


def test_what_a_divergence_has_lost_is_written_under_another_name(tmp_path: Path) -> None:
    """By the command that `compare` prints: exactly the records that the copy alone has."""
    root = unpack_replicas(tmp_path / "volumes")
    roles = replica_roles()
    told = command("compare", *(root / f"broker-{each}" for each in roles["brokers"]), "--topic", "tale").out
    (printed,) = re.findall(r"under another name: kafkalog (.*? HOST:PORT \S+)\n", told)
    volume = root / f"broker-{roles['old_leader']}"
    kept = [each.value for each in open_partition(volume / "tale-0").records(RecordFilter(start_offset=90))]
    with mock_cluster(["tale-lost"]) as bootstrap:
        words = shlex.split(printed.replace("HOST:PORT", bootstrap))
        assert command(*words, "--yes", "--map", tmp_path / "map.parquet").code == 2
        assert [each.value() for each in consumed(bootstrap, "tale-lost", 0)] == kept
    assert len(kept) == 40


def test_what_is_there_already_is_not_touched(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")
    topics = topics_of("4.1.1/txn")
    with mock_cluster(topics) as bootstrap:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        producer.produce(topics[-1], b"somebody's", partition=0)
        producer.flush(30)
        plan = plan_replay(broker)
        with pytest.raises(RecoveryRefused, match="records that this replay did not write"):
            replay(broker, target=bootstrap, map_path=str(tmp_path / "map.parquet"), plan=plan)
        with pytest.raises(RecoveryRefused, match="or write behind them with --append"):
            check_target(plan, bootstrap, Replay())
        assert [len(consumed(bootstrap, topic, 0)) for topic in topics] == [0] * (len(topics) - 1) + [1]
        assert list(tmp_path.iterdir()) == []
        log = open_partition(broker / f"{topics[-1]}-0")
        wanted = [each.value for each in log.records(RecordFilter(isolation_level="read_committed"))]
        behind = Replay(append=True)
        assert topics[-1] in check_target(plan, bootstrap, behind)
        replay(behind, broker, target=bootstrap, map_path=str(tmp_path / "map.parquet"), plan=plan)
        assert [each.value() for each in consumed(bootstrap, topics[-1], 0)] == [b"somebody's", *wanted]


def test_a_map_that_is_somebody_elses_is_refused(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")
    path = tmp_path / "map.parquet"
    path.write_bytes(b"mine")
    with mock_cluster(topics_of("4.1.1/txn")) as bootstrap:
        plan = plan_replay(broker)
        with pytest.raises(UsageError, match="already exists"):
            replay(broker, target=bootstrap, map_path=str(path), plan=plan)
        assert path.read_bytes() == b"mine"
        with pytest.raises(UsageError):
            replay(broker, target=bootstrap, map_path=str(broker / "map.parquet"), plan=plan)


def test_settings_of_the_client_are_told_apart(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")
    file = tmp_path / "client.properties"
    for content, told in (("# nothing\nno.such.setting=1\n", "No such configuration property"), ("\xff", "text file")):
        file.write_bytes(content.encode("latin-1"))
        done = command("replay", "--bootstrap-server", "x:1", "--yes", "--client-config", file, broker)
        assert done.code == 64, done.err
        assert told in done.err


def test_groups_that_were_left_out_follow(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/groups")
    with mock_cluster(topics_of("4.1.1/groups")) as bootstrap:
        given = ("--bootstrap-server", bootstrap, "--yes", "--json", "--map", tmp_path / "map.parquet", broker)
        without = command("replay", *given, "--without-groups")
        assert (without.code, [each for each in without.objects if each["kind"] == "offset"]) == (2, []), without.err
        done = command("replay", *given)
        moved = [each for each in done.objects if each["kind"] == "offset"]
        recorded = [line for line in broker_case("4.1.1", "groups").expected("committed") if line["topic"][:2] != "__"]
        assert done.code == 2, done.err
        assert {(each["group"], each["topic"], each["partition"], each["offset"]) for each in moved} == {
            (line["group"], line["topic"], line["partition"], line["offset"]) for line in recorded
        }
        for each in moved:
            there = committed(bootstrap, each["group"], each["target_topic"], each["partition"])
            assert there == each["target_offset"]
        again = command("replay", *given)
        assert (again.code, again.out.count('"offset"')) == (0, 0), again.err


def test_a_map_that_was_all_that_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (broker,) = brokers("4.1.1/txn")
    path = tmp_path / "map.parquet"

    def killed(*_: object) -> None:
        raise _KilledError

    with mock_cluster(topics_of("4.1.1/txn")) as bootstrap:
        given = ("--bootstrap-server", bootstrap, "--yes", "--map", path, broker)
        with monkeypatch.context() as patch:
            patch.setattr("kafkalog.replay.run.write_parquet", killed)
            assert command("replay", *given).code == 70
        done = command("replay", *given)
        assert (done.code, path.exists()) == (1, True), done.err
        assert f"where each record is: {path}" in done.out


def test_a_refusal_leaves_no_journal(tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn")
    with mock_cluster(topics_of("4.1.1/txn")) as bootstrap:
        plan = plan_replay(broker)
        replay(broker, target=bootstrap, map_path=str(tmp_path / "map.parquet"), plan=plan)
        with pytest.raises(UsageError, match="name the map that this replay was begun with"):
            replay(broker, target=bootstrap, map_path=str(tmp_path / "other.parquet"), plan=plan)
    assert [each.name for each in tmp_path.iterdir()] == ["map.parquet"]


@pytest.mark.sweep
@pytest.mark.parametrize("rate", [None, 2_000])
def test_an_interrupt_ends_it_in_order(rate: int | None, tmp_path: Path) -> None:
    """In another process, as soon as the first records are committed."""
    (broker,) = brokers("4.1.1/txn")
    path = tmp_path / "map.parquet"
    program = (
        "import sys; from kafkalog.replay import run; run._CHUNK_RECORDS = 3; "
        "from kafkalog.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    progress = plan_replay(broker).progress_topic
    with mock_cluster([*topics_of("4.1.1/txn"), progress]) as bootstrap:
        words = ["replay", "--bootstrap-server", bootstrap, "--yes", "--map", str(path), str(broker)]
        words += [] if rate is None else ["--rate", str(rate)]
        with subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:  # fmt: skip
            journal = Path(f"{path}.journal")
            until = time.monotonic() + 60
            while not journal.exists() or journal.read_bytes().count(b"\n") < 2:
                assert time.monotonic() < until
                time.sleep(0.001)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        said = "interrupted; what is committed stays in the target, and the same command goes on from there"
        assert (process.returncode, " ".join(err.decode().split())) == (130, f"kafkalog: {said}")
        assert not path.exists()


RENAMED = f"{topics_of('4.1.1/txn')[0]}=a b"


@pytest.mark.parametrize("given", [("--rename", RENAMED), ("--prefix", "!"), ("--prefix", "p" * 249)])
def test_names_that_no_topic_can_have_are_refused_before_anything_is_made(given: tuple[str, str]) -> None:
    done = command("replay", "--bootstrap-server", "x:1", "--yes", *given, *brokers("4.1.1/txn"))
    assert done.code == 64
    assert "is not the name of a topic" in done.err


@pytest.mark.parametrize("option", ["--topic", "--exclude"])
def test_topics_of_the_brokers_are_named_as_such(option: str) -> None:
    given = ("--bootstrap-server", "x:1", "--yes", option, "__consumer_offsets")
    done = command("replay", *given, *brokers("4.1.1/groups"))
    assert (done.code, "is a topic of the brokers themselves, and never replayed" in done.err) == (64, True)


def test_what_a_pair_looks_like_is_said() -> None:
    for option, form in (("--rename", "OLD=NEW"), ("--config", "NAME=VALUE")):
        done = command("replay", "--bootstrap-server", "x:1", option, "nothing", *brokers("4.1.1/txn"))
        assert (done.code, f"{option} needs {form}, not 'nothing'" in done.err) == (64, True)


def test_a_note_that_ends_in_a_zero_byte_is_taken() -> None:
    """confluent-kafka writes them so."""
    commits = [
        CommittedOffset(OffsetKey("g", "t", 0), 3, note, -1, 0, -1, None, 0, 0, 0)
        for note in ("", "note", "note\0", "a\0b\0")
    ]
    found = moved_offsets(commits, {("t", 0): OffsetMap([Run(0, 0, 5)])}, {})
    assert [each.metadata for each in found] == ["", "note", "note", "a"]
    with mock_cluster(["t"]) as bootstrap:
        target = Target(bootstrap, "notes", {}, compression="none", batch_bytes=1 << 20)
        for each in found:
            target.set_group_offsets("g", [each])
            assert target.group_offsets("g", [("t", 0)]) == {("t", 0): 3}


def test_the_progress_is_what_the_latest_record_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each partition, in a topic that only this replay writes to."""
    monkeypatch.undo()
    with mock_cluster(["kafkalog-replay-mine"]) as bootstrap:
        with Target(bootstrap, "mine", {}, compression="none", batch_bytes=1 << 20) as target:
            target.begin()
            assert target.progress() == {}
            target.note({("a", 0): 5, ("b", 3): 0})
            target.note({("a", 0): 9})
            assert target.progress() == {("a", 0): 9, ("b", 3): 0}
        with Target(bootstrap, "mine", {}, compression="none", batch_bytes=1 << 20) as target:
            target.begin()
            assert target.progress() == {("a", 0): 9, ("b", 3): 0}
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        producer.produce("kafkalog-replay-mine", b"somebody's", partition=0)
        producer.flush(30)
        with Target(bootstrap, "mine", {}, compression="none", batch_bytes=1 << 20) as target:
            target.begin()
            with pytest.raises(RecoveryRefused, match="a record at offset 5 that this replay did not write"):
                target.progress()


def test_a_cluster_that_does_not_answer_is_a_cluster_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_module, "_TIMEOUT", 0.5)
    with (
        Target("127.0.0.1:1", "x", {}, compression="none", batch_bytes=1024) as target,
        pytest.raises(ClusterError, match="cannot create t with the cluster's own settings"),
    ):
        CREATE(target, "t", 1, 1, {})
