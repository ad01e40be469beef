"""`kafkalog find` against what Kafka's own consumer returned, and with indexes that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec.model import BATCH
from testkit.made.tens import AT, flip, log_of_tens
from testkit.recorded.broker_dirs import STOPPED, brokers, expected_offsets, expected_records, own_copy
from testkit.recorded.fixture_data import BrokerCase
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]
BROKER = brokers("4.1.1/segments")[0]
WITH_TIMES = [case for case in STOPPED if case.version not in ("0.8.2.2", "0.9.0.1")]


def found(*arguments: object) -> dict[tuple[str, int, object], dict[str, Any]]:
    finished = kafkalog("find", "--json", *arguments)
    assert finished.code == 0, finished.err
    return {(line["topic"], line["partition"], line.get("time", line["offset"])): line for line in finished.objects}


@pytest.mark.parametrize("case", WITH_TIMES, ids=lambda case: case.id)
def test_times(case: BrokerCase, compared: Note) -> None:
    records = expected_records(case, "read_uncommitted")
    ends = expected_offsets(case, "read_uncommitted")
    times = sorted({line["timestamp"] for line in records.values() if line["timestamp"] >= 0})
    asked = [0, *times[:: max(1, len(times) // 6)], times[-1], times[-1] + 1]
    options = [word for time in asked for word in ("--time", time)]
    for broker in brokers(case.id):
        answers = found(broker, *options, "--time", "earliest", "--time", "latest", "--replica", "longest")
        for topic, partition in sorted({(topic, partition) for topic, partition, _ in answers}):
            if (topic, partition) not in ends:
                continue
            of = [records[key] for key in sorted(records) if key[:2] == (topic, partition)]
            for time in asked:
                wanted = next(((each["offset"], each["timestamp"]) for each in of if each["timestamp"] >= time), None)
                line = answers[topic, partition, time]
                assert (line["offset"], line["timestamp"]) == (wanted or (None, None)), (topic, partition, time)
            assert answers[topic, partition, "earliest"]["offset"] == ends[topic, partition][0]
            assert answers[topic, partition, "latest"]["offset"] == ends[topic, partition][1]
            compared("offsets of times", len(asked) + 2)


def test_the_last_stable_offset() -> None:
    case = next(case for case in STOPPED if case.id == "4.1.1/txn")
    answers = found(*brokers(case.id), "--time", "latest", "--isolation-level", "read_committed")
    ends = expected_offsets(case, "read_committed")
    assert ends
    assert {key[:2]: line["offset"] for key, line in answers.items() if key[:2] in ends} == {
        place: end for place, (_, end) in ends.items()
    }


def test_the_newest_record() -> None:
    answers = found(BROKER, "--time", "max-timestamp", "--topic", "clicks-42")
    assert found(BROKER, "--time", "-3", "--topic", "clicks-42") == answers
    for (topic, partition, _), line in answers.items():
        records = kafkalog("dump", "--json", BROKER, "-t", topic, "-p", partition).objects
        newest = max(each["timestamp"] for each in records)
        wanted = next(each["offset"] for each in records if each["timestamp"] == newest)
        assert (line["offset"], line["timestamp"]) == (wanted, newest)


def test_offsets() -> None:
    batches = kafkalog("dump", "--json", "--batches", BROKER, "-t", "clicks-42", "-p", "0").objects
    assert len(batches) > 10
    offsets = [offset for batch in batches for offset in (batch["baseOffset"], batch["lastOffset"])]
    options = [word for offset in offsets for word in ("--offset", offset)]
    answers = found(BROKER, "--topic", "clicks-42", "--partition", "0", *options)
    for batch in batches:
        for offset in (batch["baseOffset"], batch["lastOffset"]):
            line = answers["clicks-42", 0, offset]
            assert line["is_there"]
            assert (line["base_offset"], line["last_offset"]) == (batch["baseOffset"], batch["lastOffset"])
            assert (line["position"], line["size"]) == (batch["position"], batch["size"])
            base = int(Path(line["segment"]).stem)
            assert base == line["segment_base_offset"] <= offset
    beyond = found(BROKER, "--topic", "clicks-42", "--offset", offsets[-1] + 1)
    assert all(line["segment"] is None and not line["is_there"] for line in beyond.values())


def test_an_offset_that_compaction_removed() -> None:
    broker = brokers("4.1.1/compact")[0]
    for topic in sorted({line["topic"] for line in kafkalog("dump", "--json", broker, "--exclude", "__*").objects}):
        there = [line["offset"] for line in kafkalog("dump", "--json", "-t", topic, "-p", 0, broker, "--all").objects]
        gone = sorted(set(range(there[0], there[-1])) - set(there))
        if not gone:
            continue
        line = found(broker, "--topic", topic, "--partition", 0, "--offset", gone[0])[topic, 0, gone[0]]
        assert not line["is_there"]
        assert line["last_offset"] >= gone[0]
        text = kafkalog("find", broker, "--topic", topic, "--partition", 0, "--offset", gone[0]).out
        assert "no such record" in text
        return
    pytest.fail("there is no gap in any topic")


def test_healthy_indexes_are_not_found_wrong(compared: Note) -> None:
    for case in STOPPED:
        for broker in brokers(case.id):
            finished = kafkalog("find", broker, "--time", "1500000000000", "--offset", "40", "--replica", "longest")
            assert finished.code == 0, (case.id, finished.err)
    compared("cases whose indexes agree", len(STOPPED))


@pytest.mark.parametrize(("suffix", "entry", "detail"), [
    (".index", (0).to_bytes(4, "big") + (7).to_bytes(4, "big"), "where no batch of the log begins"),
    (".index", (40).to_bytes(4, "big") + (2**31 - 1).to_bytes(4, "big"), "where no batch of the log begins"),
    (".index", None, "where the log has offsets"),
    (".timeindex", (5).to_bytes(8, "big") + (1).to_bytes(4, "big"), "an entry says that the newest timestamp"),
    (".timeindex", (5).to_bytes(8, "big") + (2**31 - 1).to_bytes(4, "big"), "the log does not reach that offset"),
])  # fmt: skip
def test_a_wrong_index_is_found_and_not_followed(tmp_path: Path, suffix: str, entry: bytes | None, detail: str) -> None:
    sound = found(BROKER, "--topic", "clicks-42", "--partition", 0, "--offset", 44, "--time", 1560874050000)
    copy = own_copy(BROKER / "clicks-42-0", tmp_path / "clicks-42-0")
    batches = kafkalog("dump", "--json", "--batches", copy).objects
    wrong = entry or (1).to_bytes(4, "big") + batches[2]["position"].to_bytes(4, "big")
    file = next(path for path in sorted(copy.glob(f"*{suffix}")) if path.stat().st_size)
    file.write_bytes(wrong)
    finished = kafkalog("find", copy, "--json", "--offset", 44, "--time", 1560874050000)
    assert finished.code == 1
    assert "index_" in finished.err
    assert detail in finished.err
    answers = {(line["topic"], line["partition"], line.get("time", line["offset"])): line for line in finished.objects}
    for line in (*sound.values(), *answers.values()):
        line.pop("segment", None)
    assert answers == sound


def test_what_is_behind_damage_is_said_to_be(tmp_path: Path) -> None:
    copy = own_copy(BROKER / "clicks-42-0", tmp_path / "clicks-42-0")
    log = max(path for path in copy.glob("*.log") if path.stat().st_size)
    batches = kafkalog("dump", "--json", "--batches", log).objects
    assert len(batches) > 2
    data = bytearray(log.read_bytes())
    data[batches[-1]["position"] + 70] ^= 1
    log.write_bytes(data)
    finished = kafkalog("find", copy, "--json", "--offset", batches[0]["baseOffset"], "--offset", 10**6)
    assert finished.code == 1
    assert "crc_mismatch" in finished.err
    assert [(line["is_there"], line["is_behind_damage"]) for line in finished.objects] == [(True, False), (False, True)]
    assert "damage comes before" in kafkalog("find", copy, "--offset", 10**6).out
    late = kafkalog("find", copy, "--json", "--time", 2**50)
    assert (late.code, late.objects[0]["offset"]) == (1, None)
    assert "crc_mismatch" in late.err
    begun = kafkalog("dump", copy, "-o", f"s@{2**50}", "-C")
    assert (begun.code, begun.out) == (1, "")
    assert "crc_mismatch" in begun.err


def test_a_moment_before_1970_is_no_word() -> None:
    log = (BROKER / "clicks-42-0", "--json", "--time")
    (moment,) = kafkalog("find", *log, "1969-12-31T23:59:59.999Z").objects
    (before,) = kafkalog("find", *log, "1969-12-31T23:00Z").objects
    assert moment == before | {"time": -1}
    assert kafkalog("find", *log, "-1").objects[0]["time"] == "latest"


def test_what_cannot_be_found() -> None:
    for arguments, code, why in (
        ([BROKER], 64, "nothing to find: give --time or --offset"),
        ([BROKER, "--time", "soon"], 64, "neither milliseconds since 1970 nor an ISO 8601 time"),
        ([BROKER, "--offset", "-1"], 64, "'-1' is not a whole number from 0 to"),
        ([BROKER, "--offset", "1", "--topic", "clicks"], 1, "did you mean 'clicks-42'?"),
        ([BROKER, "--offset", "1", "--isolation-level", "read_committed"], 64, "only with --time latest"),
        (["no/such/place", "--offset", "1"], 64, "no/such/place does not exist"),
    ):
        finished = kafkalog("find", *arguments)
        assert finished.code == code
        assert why in finished.err
        assert finished.err.count("\n") == 1


def test_table_and_lines_say_the_same() -> None:
    arguments = (BROKER, "--topic", "clicks-42", "--time", "1560874050000", "--offset", "7")
    table = kafkalog("find", *arguments).out
    for line in kafkalog("find", "--json", *arguments).lines:
        assert str(json.loads(line)["offset"]) in table


@pytest.mark.parametrize("when", ["-4", "-5", "earliest-local", "latest-tiered"])
def test_times_of_remote_storage_are_refused(when: str) -> None:
    finished = kafkalog("find", brokers("4.1.1/segments")[0], "--time", when)
    assert finished.code == 64
    assert "is about remote storage: name it with --remote" in finished.err


def test_a_time_behind_damage_is_not_said_to_have_no_record(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (log,) = log_of_tens(root, 3)
    (line,) = kafkalog("find", "--json", "--time", AT + 1, root).objects
    assert (line["offset"], line["is_behind_damage"]) == (None, False)
    flip(log, (1, BATCH.size + 5, 0xFF))
    finished = kafkalog("find", "--json", "--time", AT + 1, root)
    assert finished.code == 1
    assert [(line["offset"], line["is_behind_damage"]) for line in finished.objects] == [(None, True)]
    assert "not reached: damage comes before" in kafkalog("find", "--time", AT + 1, root).out


def test_a_wrong_index_is_not_damage_before_a_time(tmp_path: Path) -> None:
    copy = own_copy(BROKER / "clicks-42-0", tmp_path / "clicks-42-0")
    index = max(path for path in copy.glob("*.timeindex") if path.stat().st_size)
    index.write_bytes((2**50).to_bytes(8, "big") + bytes(4))
    (line,) = kafkalog("find", copy, "--json", "--time", 2**50).objects
    finished = kafkalog("find", copy, "--time", 2**50)
    assert finished.code == 1
    assert "index_entry_mismatch" in finished.err
    assert (line["offset"], line["is_behind_damage"]) == (None, False)
    assert "damage comes before" not in finished.out
