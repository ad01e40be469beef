"""The harness around Kafka, tested: what it says must be what Kafka was recorded to do."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import KafkaOracle, OracleDiedError, OracleError, OracleTimeoutError
from testkit.made import damage, histories
from testkit.recorded import fixture_data, recovery_cases

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
SAMPLE = 19
# No broker listens there: a client asked for it waits until its own time is up.
NOBODY = "127.0.0.1:9"


def differences_from_recorded(kafka: KafkaOracle, every: int) -> tuple[int, list[str]]:
    count, wrong = 0, []
    for case in recovery_cases.unpacked_cases(every):
        count += 1
        result = kafka.recover(case.before, case.params)
        got = recovery_cases.comparable(recovery_cases.files_after(result))
        want = recovery_cases.comparable(case.result["after"])
        if result["outcome"] != case.result["outcome"]:
            wrong.append(f"{case.name}: {result['outcome']}, recorded {case.result['outcome']}")
        elif got != want:
            names = sorted(n for n in got.keys() | want.keys() if got.get(n) != want.get(n))
            wrong.append(f"{case.name}: other files: {names}")
        elif result.get("partitions") != case.result["partitions"]:
            wrong.append(f"{case.name}: other state in memory")
        elif recovery_cases.exception_class(result) != recovery_cases.exception_class(case.result):
            wrong.append(f"{case.name}: {recovery_cases.exception_class(result)}")
    return count, wrong


def test_a_sample_of_the_recorded_cases_comes_out_as_recorded(kafka: KafkaOracle) -> None:
    count, wrong = differences_from_recorded(kafka, SAMPLE)
    assert count >= 25
    assert wrong == []


@pytest.mark.interop
def test_every_recorded_case_comes_out_as_recorded(kafka: KafkaOracle) -> None:
    count, wrong = differences_from_recorded(kafka, 1)
    assert count == 562
    assert wrong == []


@pytest.mark.interop
def test_kafka_4_3_leaves_the_bytes_that_4_1_left(kafka_of: Callable[[str], KafkaOracle]) -> None:
    """docs/kafka-4.3-differences.md says so."""
    count, wrong = differences_from_recorded(kafka_of("4.3.0"), 1)
    assert count == 562
    assert wrong == []


@pytest.mark.interop
def test_kafka_4_4_leaves_the_bytes_that_4_1_left(kafka_of: Callable[[str], KafkaOracle]) -> None:
    """But for versions in a `.txnindex`, and for the order of lines: docs/kafka-4.4-differences.md says so."""
    count, wrong = differences_from_recorded(kafka_of("4.4.0"), 1)
    assert count == 562
    assert wrong == [
        "log_dir/one-bad-partition-of-two: other files: ['recovery-point-offset-checkpoint']",
        "txn_index/version-1-clean: start_fails, recorded loaded",
        "txn_index/version-negative-unclean: start_fails, recorded loaded",
    ]


@pytest.mark.interop
@pytest.mark.parametrize("version", ["3.9.1", "2.8.2"])
def test_older_versions_come_out_as_recorded(version: str, kafka_of: Callable[[str], KafkaOracle]) -> None:
    """Where a case says that a version does the same as 4.1.0 it does; where it says another outcome, that one."""
    old, same, other = kafka_of(version), 0, 0
    wrong = []
    for case in recovery_cases.unpacked_cases():
        recorded = case.facts["versions"][version]
        result = old.recover(case.before, case.params)
        if recorded == "same":
            same += 1
            expected = case.result["outcome"]
        elif "outcome" in recorded:
            other += 1
            expected = recorded["outcome"]
        else:
            continue
        if result["outcome"] != expected:
            wrong.append(f"{case.name}: {result['outcome']}, recorded {expected}")
    assert wrong == []
    assert same > 400
    assert other >= 1


def test_check_accepts_what_kafka_left_alone(kafka: KafkaOracle) -> None:
    """Among the undamaged directories, those of which the record says that nothing changed; and only those."""
    accepted = refused = 0
    for case in recovery_cases.unpacked_cases(family="undamaged"):
        touched = [*case.result["removed"], *case.result["created"], *case.result["changed"]]
        untouched = case.result["outcome"] == "loaded" and not any("/" in name for name in touched)
        before = listing(case.before)
        answer = kafka.check(case.before, case.params)
        assert answer["accepted"] is untouched, (case.name, touched, answer)
        assert listing(case.before) == before, "check must work on a copy"
        accepted += untouched
        refused += not untouched
    assert accepted >= 5
    assert refused >= 5


def listing(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.interop
def test_a_further_full_scan_comes_out_as_recorded(kafka: KafkaOracle) -> None:
    """``second_pass``: Kafka started on its own result, without marker and with recovery point 0."""
    count, wrong = 0, []
    for case in recovery_cases.unpacked_cases():
        if case.result["outcome"] != "loaded" or "outcome" not in (case.facts.get("second_pass") or {}):
            continue
        kafka.recover(case.before, case.params)
        for left in case.before.rglob("*.deleted"):
            left.unlink()
        (case.before / damage.RECOVERY_POINT).write_text("0\n0\n")
        answer = kafka.check(case.before, {**case.params, "force_unclean": 1})
        count += 1
        recorded = case.facts["second_pass"]
        if (answer["outcome"], answer["accepted"]) != (recorded["outcome"], recorded["accepted"]):
            wrong.append(f"{case.name}: {answer['outcome']} {answer['accepted']}, recorded {recorded}")
    assert count > 400
    assert wrong == []


def test_reading_gives_every_record_batch_and_look_up_as_recorded(kafka: KafkaOracle, tmp_path: Path) -> None:
    fixture_data.unpack_bases(tmp_path)
    for base in ("txn", "mixed", "compact"):
        recorded = [json.loads(line) for line in (tmp_path / base / "read.jsonl").read_text().splitlines()]
        read = kafka.read(tmp_path / base / "clean", histories.PARAMS)
        assert len({entry["kind"] for entry in read}) == 6
        assert read == recorded


@pytest.mark.parametrize(
    ("codec", "magic"), [(c, m) for c in histories.CODECS for m in (0, 1, 2) if c != "zstd" or m == 2]
)
def test_what_is_generated_is_read_back(codec: str, magic: int, kafka: KafkaOracle, tmp_path: Path) -> None:
    values = [f"value {i} ".encode() * 20 for i in range(6)]
    records = [{"ts": histories.T0 + i, "k": None, "v": base64.b64encode(v).decode()} for i, v in enumerate(values)]
    append = {"op": "append", "codec": codec, "magic": magic, "records": records}
    script = {"dir": str(tmp_path / "t-0"), "now_ms": histories.T0, "config": {}, "ops": [append, {"op": "close"}]}
    assert kafka.generate({**script, "topic_id": "AAAAAAAAAAEAAAAAAAAAAg"})["log_end_offset"] == len(values)
    (tmp_path / damage.MARKER).write_text('{"version":0,"brokerEpoch":42}')
    batches = [entry for entry in kafka.read(tmp_path) if entry["kind"] == "batch"]
    assert {(b["codec"], b["magic"]) for b in batches} == {(codec, magic)}
    assert [base64.b64decode(r["value"]) for b in batches for r in b["records"]] == values


def test_assignors_do_what_their_documentation_shows(kafka: KafkaOracle) -> None:
    """The examples in the Javadoc of RangeAssignor and RoundRobinAssignor."""
    partitions, both = {"t0": 3, "t1": 3}, ["t0", "t1"]
    first = {"partitions": partitions, "members": [{"id": "C0", "topics": both}, {"id": "C1", "topics": both}]}
    owned = assigned(kafka, "range", first)
    assert owned == {"C0": {"t0-0", "t0-1", "t1-0", "t1-1"}, "C1": {"t0-2", "t1-2"}}
    assert assigned(kafka, "roundrobin", first) == {"C0": {"t0-0", "t0-2", "t1-1"}, "C1": {"t0-1", "t1-0", "t1-2"}}
    second = {
        "partitions": {"t0": 1, "t1": 2, "t2": 3},
        "members": [{"id": f"C{i}", "topics": [f"t{k}" for k in range(i + 1)]} for i in range(3)],
    }
    assert assigned(kafka, "roundrobin", second) == {
        "C0": {"t0-0"},
        "C1": {"t1-0"},
        "C2": {"t1-1", "t2-0", "t2-1", "t2-2"},
    }


def assigned(kafka: KafkaOracle, assignor: str, *rounds: Json) -> dict[str, set[str]]:
    members = kafka.assign(assignor, rounds)[-1]["members"]
    return {name: {f"{topic}-{number}" for topic, number in facts["partitions"]} for name, facts in members.items()}


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_sticky_assignors_remember_the_round_before(assignor: str, kafka: KafkaOracle) -> None:
    members = [{"id": name, "topics": ["t"]} for name in ("a", "b", "c")]
    one = {"partitions": {"t": 9}, "members": members}
    without_a = {"partitions": {"t": 9}, "members": members[1:]}
    before, after = assigned(kafka, assignor, one), assigned(kafka, assignor, one, without_a)
    assert before["b"] < after["b"]
    assert before["c"] < after["c"]
    assert after["b"] | after["c"] == {f"t-{i}" for i in range(9)}


def test_dump_prints_the_tools_own_words(kafka: KafkaOracle, tmp_path: Path) -> None:
    tree = histories.History("txn", "dump").tree(kafka) / "clean" / "t-0"
    log = next(iter(sorted(tree.glob("*.log"))))
    printed = kafka.dump("--files", str(log), "--print-data-log")
    assert printed["stdout"].startswith(f"Dumping {log}")
    assert "endTxnMarker: " in printed["stdout"]
    assert printed["exception"] is None
    broken = tmp_path / log.name
    broken.write_bytes(log.read_bytes()[:100] + bytes(400))
    given_up = kafka.dump("--files", str(broken))
    assert "CorruptRecordException" in given_up["exception"]["class"]


@pytest.mark.parametrize(
    "recorded", ["4.1.1", *(pytest.param(each, marks=pytest.mark.interop) for each in ("4.4.0", "4.3.0", "3.9.1"))]
)
def test_the_metadata_image_has_the_topics_that_were_created(
    recorded: str, kafka_of: Callable[[str], KafkaOracle], tmp_path: Path
) -> None:
    recorded_case = fixture_data.broker_case(recorded, "metadata")
    (log,) = recorded_case.unpack(tmp_path).glob("broker-*/__cluster_metadata-0")
    image = kafka_of("4.4.0").image(log)
    facts = recorded_case.case
    alive = {topic["name"]: topic["partitions"] for topic in facts["topics"].values() if topic["partitions"]}
    partitions = {name: len(topic["partitions"]) for name, topic in image["topics"].items()}
    assert {name: count for name, count in partitions.items() if not name.startswith("__")} == alive
    assert set(image["brokers"]) == {str(broker) for broker in facts["brokers"]}
    assert image["scram_users"] == {"SCRAM-SHA-256": ["u0", "u1", "u2"]}
    assert image["snapshot"] is not None
    assert not image["open_transaction"]


# ---------------------------------------------------------------- the harness when things go wrong
def test_an_exception_in_kafka_is_an_exception_here(kafka: KafkaOracle, tmp_path: Path) -> None:
    with pytest.raises(OracleError, match="unknown op nonsense"):
        kafka.generate({"dir": str(tmp_path / "t-0"), "config": {}, "ops": [{"op": "nonsense"}]})
    with pytest.raises(OracleError, match="unknown operation"):
        kafka.ask("nonsense")
    assert kafka.kafka_version() == "4.1.0"


def test_no_answer_in_time_is_an_exception_and_the_next_request_is_answered(kafka: KafkaOracle) -> None:
    with KafkaOracle(kafka.version) as other:
        with pytest.raises(OracleTimeoutError):
            other.client("ready", NOBODY, timeout=1)
        assert other.kafka_version() == "4.1.0"
        assert other.starts == 2


def test_a_jvm_that_dies_is_an_exception_and_the_next_request_is_answered(kafka: KafkaOracle) -> None:
    with KafkaOracle(kafka.version) as other:
        assert other.kafka_version() == "4.1.0"
        process = other._process
        assert process is not None
        threading.Timer(0.3, process.kill).start()
        with pytest.raises(OracleDiedError, match="exit code -9"):
            other.client("ready", NOBODY)
        assert other.kafka_version() == "4.1.0"
        assert other.starts == 2


def test_setting_up_again_runs_no_program(kafka: KafkaOracle, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **_options: object) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr(kafka_jars, "_locked", refuse)
    monkeypatch.setattr(kafka_jars, "_run", refuse)
    kafka_jars.setup(kafka.version)


@pytest.mark.interop
def test_two_processes_may_set_up_at_once(kafka: KafkaOracle, tmp_path: Path) -> None:
    program = (
        "import os; from testkit.kafka import kafka_jars; kafka_jars.setup('4.1.0'); "
        "print(os.stat(kafka_jars.jars('4.1.0')[0]).st_ino)"
    )
    support = str(Path(kafka_jars.__file__).parents[2])
    environment = {**os.environ, "KAFKALOG_CACHE": str(tmp_path), "PYTHONPATH": support}
    command = [sys.executable, "-c", program]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert answers[0] == answers[1] != "", "the second found what the first had made"
    assert sorted(p.name for p in (tmp_path / "kafka" / kafka.version).iterdir()) == [
        ".lock",
        "classes",
        "lib",
        "pom.xml",
    ]


@pytest.mark.interop
@pytest.mark.parametrize("version", kafka_jars.harness_versions())
def test_the_jars_are_of_the_version_they_are_kept_under(version: str, kafka_of: Callable[[str], KafkaOracle]) -> None:
    assert kafka_of(version).kafka_version() == version


def test_without_java_there_is_one_line_that_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kafka_jars.available() == "Kafka itself was not asked: there is no java on the path"


def test_without_maven_there_is_one_line_that_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KAFKALOG_CACHE", str(tmp_path / "cache"))
    reason = kafka_jars.available("4.1.0")
    assert (
        reason == "Kafka itself was not asked: the jars of 4.1.0 are not in the cache and there is no mvn on the path"
    )
    with pytest.raises(kafka_jars.KafkaUnavailableError, match="there is no mvn on the path"):
        kafka_jars.setup("4.1.0")


# ---------------------------------------------------------------- sources for several versions
def test_sources_are_fitted_to_a_version() -> None:
    source = "one\ntwo //@ >=4.3\nthree //@ <4.3\n//@begin >=3.0 <4.0\nfour\n//@end\nfive"
    assert kafka_jars.fit(source, "4.3.0") == "one\ntwo //@ >=4.3\n\n\n\n\nfive"
    assert kafka_jars.fit(source, "3.9.1") == "one\n\nthree //@ <4.3\n\nfour\n\nfive"
    assert kafka_jars.fit("//@file >=4.0\nclass A {}", "3.9.1") is None
    assert kafka_jars.fit("//@file >=4.0\nclass A {}", "4.1.0") == "\nclass A {}"
