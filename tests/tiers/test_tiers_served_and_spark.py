"""Every recorded tiered directory with its remote part through `serve` and through Spark's reader, without a JVM."""

from __future__ import annotations

import base64
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import full_schema, layout_of
from kafkalog.tiers.reading import mounted
from testkit.recorded.fixture_data import TieredCase, tiered_case, tiered_volumes
from testkit.serving.raw_client import RawClient
from testkit.serving.serving import bootstrap, by_librdkafka, serving

ISOLATION = ("read_uncommitted", "read_committed")
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -4, -5, -6
QUICK = (("stopped", "broker"), ("returned", "broker-2"), ("aiven", "broker"))
CASES = [each if each in QUICK else pytest.param(*each, marks=pytest.mark.sweep) for each in tiered_volumes()]
Row = tuple[int, int, bytes | None, bytes | None]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def expected(case: TieredCase, isolation: str, directory: str) -> list[Row]:
    return [(row["offset"], row["timestamp"], decoded(row["key"]), decoded(row["value"]))
            for row in case.expected(isolation)[directory]]  # fmt: skip


def readable(case: TieredCase, volume: str) -> dict[str, tuple[int, int]]:
    """Partitions that the volume has, with the bounds that a consumer saw."""
    return {name: case.bounds[name] for name in case.local[volume] if name in case.bounds}


@pytest.mark.parametrize(("name", "volume"), CASES)
def test_a_client_is_given_what_a_broker_gave(name: str, volume: str, tmp_path: Path) -> None:
    case = tiered_case(name)
    case.unpack(tmp_path)
    ends = {}
    for directory, bounds in readable(case, volume).items():
        topic, _, number = directory.rpartition("-")
        ends[topic, int(number)] = bounds
    ((_, path),) = mounted([str(tmp_path / volume)], case.tier(tmp_path))
    with serving(path) as server:  # type: ignore[arg-type]
        for isolation in ISOLATION:
            given = by_librdkafka(bootstrap(server), ends, isolation)
            assert len(given) > 300
            for (topic, partition), (_, end) in ends.items():
                rows = [(place[2], each.timestamp, each.key, each.value) for place, each in sorted(given.items())
                        if place[:2] == (topic, partition) and place[2] < end]  # fmt: skip
                assert rows == expected(case, isolation, f"{topic}-{partition}"), (topic, isolation)


@pytest.mark.parametrize(("name", "volume"), CASES)
def test_a_spark_query_gives_what_a_broker_gave(name: str, volume: str, tmp_path: Path) -> None:
    case = tiered_case(name)
    case.unpack(tmp_path)
    for isolation in ISOLATION:
        given = {"path": str(tmp_path / volume), "remote": str(tmp_path / "remote"), "minPartitions": "6",
                 "kafka.isolation.level": isolation}  # fmt: skip
        if case.keys:
            given["remotePrivateKeys"] = ",".join(f"{name}={path}" for name, path in case.key_files(tmp_path).items())
        options = parse_options(given)
        reader = LogReader(options, layout_of(full_schema(options), options))
        found: dict[str, list[Row]] = {}
        for piece in reader.partitions():
            there: tuple[Any, Any] = pickle.loads(pickle.dumps((reader, piece)))
            for batch in there[0].read(there[1]):
                for row in batch.to_pylist():
                    at = int(row["timestamp"].timestamp() * 1000 + 0.5)
                    line = (row["offset"], at, row["key"], row["value"])
                    found.setdefault(f"{row['topic']}-{row['partition']}", []).append(line)
        for directory, (_, end) in readable(case, volume).items():
            rows = [row for row in sorted(found.get(directory, [])) if row[0] < end]
            assert rows == expected(case, isolation, directory), (directory, isolation)


def asked(client: RawClient, topic: str, number: int, when: int) -> int:
    """The offset of one `ListOffsets`."""
    partition = {"partition_index": number, "current_leader_epoch": -1, "timestamp": when}
    answer = client.ask("ListOffsets", 11, replica_id=-1, isolation_level=0, timeout_ms=1000,
                        topics=[{"name": topic, "partitions": [partition]}])  # fmt: skip
    ((found,),) = [each["partitions"] for each in answer["topics"]]
    assert found["error_code"] == 0
    return int(found["offset"])


@pytest.mark.parametrize(("name", "volume"), [*QUICK, ("pair", "broker-1")])
def test_where_the_tiers_meet_is_answered_as_a_broker_does(name: str, volume: str, tmp_path: Path) -> None:
    """`UnifiedLog.fetchOffsetByTimestamp`: local start, highest remote offset, the first that is not copied."""
    case = tiered_case(name)
    case.unpack(tmp_path)
    _, path = mounted([str(tmp_path / volume)], case.tier(tmp_path))[0]
    with serving(path) as server, RawClient(server.address) as client:  # type: ignore[arg-type]
        compared = 0
        for directory, bases in case.local[volume].items():
            topic, _, number = directory.rpartition("-")
            start = case.bounds[directory][0]
            names = [log.name for log in case.logs(tmp_path, directory)]
            found = [asked(client, topic, int(number), when)
                     for when in (EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING)]  # fmt: skip
            if not names:
                assert found[0] == max(start, bases[0])
                continue
            last = max(int(each[:20]) for each in names)  # each local segment begins where the one before it ends
            highest = min(base for base in bases if base > last) - 1
            assert found == [max(start, bases[0]), highest, max(start, highest + 1)], directory
            compared += 1
        assert compared >= 4
        assert asked(client, *_plain(case), LATEST_TIERED) == -1
    with serving(tmp_path / volume) as server, RawClient(server.address) as client:
        assert asked(client, *_plain(case), LATEST_TIERED) == -1


def _plain(case: TieredCase) -> tuple[str, int]:
    assert "plain-0" in case.bounds
    return "plain", 0


def test_find_knows_them_too(tmp_path: Path) -> None:
    from testkit.running.command import kafkalog as command

    tiered_case("pair").unpack(tmp_path)
    words = ["--time", "earliest-local", "--time", "latest-tiered", "--time", "-5"]
    arguments = ["find", "--json", "-t", "epochs", *words, "--remote", str(tmp_path / "remote")]
    lines = command(*arguments, tmp_path / "broker-1").objects
    assert [line["offset"] for line in lines] == [137, 226, 226][: len(lines)]
    shutil.rmtree(tmp_path / "broker-1")
    lines = command(*arguments).objects
    assert [line["offset"] for line in lines] == [227, 226, 226][: len(lines)]
