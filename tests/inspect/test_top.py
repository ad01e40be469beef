"""Who fills a disk: groups of records, counted again from what Kafka's own consumer read of the same directories."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog import UsageError
from kafkalog.codec.plain.records import decode_batch
from kafkalog.inspect import top_counting as module
from kafkalog.inspect.top_counting import count_groups
from kafkalog.inspect.top_groups import TopBy, TopGroup, TopQuestion
from kafkalog.log import Partition, open_all
from testkit.recorded.broker_dirs import brokers, expected_records
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

CASES = ("4.1.1/txn", "4.1.1/segments", "4.3.0/compact", "0.10.2.2/codecs", "2.8.2/groups")
PRODUCERLESS = [each for each in TopBy if each is not TopBy.PRODUCER]  # a consumer is not told who wrote a record

Line = dict[str, Any]


def partitions_of(case_id: str) -> list[Partition]:
    readable = open_all(*brokers(case_id)).readable("longest")
    return [each for each in readable if each.topic is not None and not each.topic.startswith("__")]


def lines_of(case_id: str) -> list[Line]:
    version, _, name = case_id.partition("/")
    lines = expected_records(broker_case(version, name), "read_uncommitted").values()
    return [line for line in lines if not line["topic"].startswith("__")]


def size_of(line: Line) -> int:
    return sum(len(base64.b64decode(line[name])) for name in ("key", "value") if line[name] is not None)


KEYS: dict[TopBy, Callable[[Line], tuple[Any, ...]]] = {
    TopBy.TOPIC: lambda line: (line["topic"],),
    TopBy.PARTITION: lambda line: (line["topic"], line["partition"]),
    TopBy.KEY: lambda line: (line["topic"], line["key"]),
    TopBy.HOUR: lambda line: (begin(line, 3_600_000),),
    TopBy.MINUTE: lambda line: (begin(line, 60_000),),
    TopBy.REPEAT: lambda line: (line["topic"], line["key"], line["value"]),
}


def begin(line: Line, unit: int) -> int | None:
    return None if line["timestamp"] < 0 else line["timestamp"] // unit * unit


def counted(lines: list[Line], by: TopBy) -> list[tuple[Any, ...]]:
    """Of each group its key (a value is not shown), records, bytes, and first and last time."""
    found: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        found[KEYS[by](line)].append(line)
    rows = []
    for key, members in found.items():
        if by is TopBy.REPEAT and len(members) == 1:
            continue
        times = [line["timestamp"] for line in members if line["timestamp"] >= 0] or [None]
        rows.append((key[:2], len(members), sum(map(size_of, members)), min(times), max(times)))
    return rows


def told(group: TopGroup, by: TopBy) -> tuple[Any, ...]:
    key = None if group.key is None else base64.b64encode(group.key).decode()
    names: dict[TopBy, tuple[Any, ...]] = {
        TopBy.TOPIC: (group.topic,), TopBy.PARTITION: (group.topic, group.partition), TopBy.KEY: (group.topic, key),
        TopBy.HOUR: (group.time,), TopBy.MINUTE: (group.time,), TopBy.REPEAT: (group.topic, key),
    }  # fmt: skip
    return (names[by], group.records, group.size, group.first_timestamp, group.last_timestamp)


@pytest.mark.parametrize("by", PRODUCERLESS)
@pytest.mark.parametrize("case_id", CASES)
def test_groups_are_those_of_the_records_that_kafka_read(case_id: str, by: TopBy) -> None:
    lines = lines_of(case_id)
    partitions = partitions_of(case_id)
    found = count_groups(TopQuestion(by=[by], most=None), partitions, 1)
    assert sorted(map(repr, (told(group, by) for group in found.groups))) == sorted(map(repr, counted(lines, by)))
    assert (found.records, found.size) == (len(lines), sum(map(size_of, lines)))
    assert found.groups or by is TopBy.REPEAT
    is_whole = by in (TopBy.TOPIC, TopBy.PARTITION)
    sizes = [group.disk_size if is_whole else group.size for group in found.groups]
    assert sizes == sorted(sizes, key=lambda size: -(size or 0))
    assert [group.disk_size for group in found.groups if not is_whole] == [None] * (0 if is_whole else len(sizes))
    for group in found.groups if is_whole else ():
        numbers = {each.partition for each in partitions} if by is TopBy.TOPIC else {group.partition}
        wanted = [each for each in partitions if each.topic == group.topic and each.partition in numbers]
        files = [file for each in wanted for file in Path(each.path).glob("*.log")]
        assert group.disk_size == sum(file.stat().st_size for file in files)
    assert (found.missed_bytes, found.findings) == (0, ())


def test_times_choose_records_by_their_own_time() -> None:
    lines = lines_of("4.1.1/segments")
    times = sorted({line["timestamp"] for line in lines})
    start, end = times[len(times) // 3], times[len(times) // 2]
    chosen = [line for line in lines if start <= line["timestamp"] < end]
    found = count_groups(
        TopQuestion(start_time=start, end_time=end, most=None), partitions_of("4.1.1/segments"), 1
    )
    assert 0 < found.records == len(chosen) < len(lines)


def test_producers_are_those_of_the_batches() -> None:
    partitions = partitions_of("4.1.1/txn")
    wanted: dict[int, int] = defaultdict(int)
    for partition in partitions:
        for batch in partition.batches():
            if not batch.header.is_control:
                wanted[batch.header.producer_id] += len(decode_batch(batch).records)
    found = count_groups(TopQuestion(by=[TopBy.PRODUCER], most=None), partitions, 1)
    assert {group.producer_id: group.records for group in found.groups} == wanted
    assert len(wanted) > 2


def test_more_groups_than_fit_are_cut_to_the_largest_and_the_error_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = partitions_of("4.1.1/segments")
    by_key = TopQuestion(by=[TopBy.KEY], most=None)
    exact = {(group.topic, group.key): group.size for group in count_groups(by_key, partitions, 1).groups}
    monkeypatch.setattr(module, "_MOST_GROUPS", 20)
    monkeypatch.setattr(module, "_PENDING_ROWS", 30)
    cut = count_groups(by_key, partitions, 1)
    assert 0 < len(cut.groups) <= 20 < len(exact)
    for group in cut.groups:
        whole = exact[group.topic, group.key]
        assert whole - cut.missed_bytes <= group.size <= whole
    missing = exact.keys() - {(group.topic, group.key) for group in cut.groups}
    assert max(exact[key] for key in missing) <= cut.missed_bytes
    assert cut.records == sum(1 for _ in lines_of("4.1.1/segments"))


@pytest.mark.parametrize("by", [[], [TopBy.HOUR, TopBy.MINUTE]])
def test_what_makes_no_sense_is_refused(by: list[TopBy]) -> None:
    with pytest.raises(UsageError):
        TopQuestion(by=by)


def test_the_command() -> None:
    (directory,) = brokers("4.1.1/segments")
    lines = lines_of("4.1.1/segments")
    finished = kafkalog("top", "--json", "--by", "partition", "--exclude", "__*", directory)
    assert finished.code == 0
    assert sum(each["records"] for each in finished.objects) == len(lines)
    table = kafkalog("top", "--by", "key", "-n", 3, directory)
    assert (table.code, len(table.lines)) == (0, 5)
    refused = kafkalog("top", "--by", "hour", "--by", "minute", directory)
    assert (refused.code, refused.out) == (64, "")
    nothing = kafkalog("top", "--json", "--since", "1999-01-01T00:00:00Z", "--until", "1999-01-02T00:00:00Z", directory)
    assert (nothing.code, nothing.out) == (0, "")
