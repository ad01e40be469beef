"""Committed data that ends at an open transaction: every reader says so, and nobody does where it does not."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.inspect.top_counting import count_groups
from kafkalog.inspect.top_groups import TopQuestion
from kafkalog.server.catalog import Catalog
from kafkalog.spark import followed
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout, full_schema, layout_of
from kafkalog.spark.stream import LogStreamReader
from kafkalog.spark.stream_options import parse_stream_options
from reading_pairs import LEVELS, RandomLog, random_log
from testkit.running.command import kafkalog as command

READ_COMMITTED = LEVELS[1]


@dataclass
class Asked:
    """One partition in a log directory, how it is read, and what this process has logged so far."""

    path: Path
    level: str
    end: int | None
    logged: Callable[[], str]

    @property
    def root(self) -> Path:
        return self.path.parent

    @property
    def between(self) -> kafkalog.RecordFilter:
        return kafkalog.RecordFilter(isolation_level=self.level, end_offset=self.end)


def by_records(asked: Asked) -> str:
    reader = kafkalog.open_partition(asked.path).records(asked.between)
    list(reader)
    return reader.open_transaction or ""


def by_arrow(asked: Asked) -> str:
    reader = kafkalog.open_partition(asked.path).to_arrow(["offset"], asked.between)
    table = reader.read_all()
    assert table.schema.metadata == reader.schema.metadata
    return ((reader.schema.metadata or {}).get(b"open_transaction") or b"").decode()


def by_consumer(asked: Asked) -> str:
    with kafkalog.Consumer(asked.root, isolation_level=asked.level) as consumer:
        list(consumer.create_message_streams_by_filter()[0])
        told = "".join(consumer.open_transactions.values())
    assert told in asked.logged()
    return told


def by_following_consumer(asked: Asked) -> str:
    more: Any = {"follow": True, "consumer_timeout_ms": 0}
    with kafkalog.Consumer(asked.root, isolation_level=asked.level, **more) as consumer:
        list(consumer.create_message_streams_by_filter()[0])
        return "".join(consumer.open_transactions.values())


def by_follow(asked: Asked) -> str:
    list(kafkalog.follow(asked.root, reset="earliest", isolation_level=asked.level, consumer_timeout_ms=0))
    return asked.logged()


def by_streams(asked: Asked) -> str:
    (stream,) = kafkalog.open_streams(kafkalog.open_log_dir(asked.root), 1, isolation_level=asked.level)
    list(stream)
    return asked.logged()


def by_dump(asked: Asked) -> str:
    end = [] if asked.end is None else ["--end-offset", str(asked.end)]
    return command("dump", asked.path, "--isolation-level", asked.level, *end).err


def by_top(asked: Asked) -> str:
    question = TopQuestion(isolation_level=asked.level)
    told = count_groups(question, [kafkalog.open_partition(asked.path)], 1).open_transactions
    done = command("top", asked.path, "--isolation-level", asked.level)
    expected = "leader_epoch_decreases" in done.err
    assert (done.code, all(each in done.err for each in told)) == (expected, True), done.err
    return "".join(told)


def by_spark(asked: Asked) -> str:
    options = {"path": str(asked.path), "kafka.isolation.level": asked.level}
    if asked.end is not None:
        options["endingOffsets"] = f'{{"t":{{"0":{asked.end}}}}}'
    LogReader(parse_options(options), Layout(names=("offset",), corrupt=None)).partitions()
    return asked.logged()


def stream_of(asked: Asked) -> LogStreamReader:
    options = {"path": str(asked.root), "kafka.isolation.level": asked.level, "startingOffsets": "earliest"}
    parsed = parse_stream_options(options)
    return LogStreamReader(parsed, layout_of(full_schema(parsed.read), parsed.read))


def by_stream(asked: Asked) -> str:
    stream = stream_of(asked)
    for _ in range(3):
        stream.latestOffset(stream.initialOffset())
    return asked.logged()


def by_ending_stream(asked: Asked) -> str:
    """It reads what there is, however new that is."""
    for path in asked.path.glob("*.log"):
        os.utime(path)
    stream_of(asked).prepareForTriggerAvailableNow()
    return asked.logged()


def by_serve(asked: Asked) -> str:
    if asked.level != READ_COMMITTED:
        return ""
    told: list[str] = []
    log = Catalog([asked.root], complain=told.append).topics["t"].partitions[0]
    for _ in range(3):
        log.find_committed()
    return "".join(told)


READERS: dict[str, Callable[[Asked], str]] = {
    name.removeprefix("by_"): each for name, each in globals().items() if name.startswith("by_")
}
WITH_AN_END = {"records", "arrow", "dump", "spark"}


def written(root: Path, seed: int) -> RandomLog:
    """A random log with transactions, that nobody has written to for more than a minute."""
    choose = random.Random(seed)
    while True:
        made = random_log(choose, "t-0")
        if any(batch[16] == 2 and batch[22] & 0x10 for _, batches in made.segments for batch in batches):
            break
    made.write(root)
    for path in (root / "t-0").glob("*.log"):
        os.utime(path, (time.time() - 61,) * 2)
    return made


def check(name: str, root: Path, seed: int, caplog: pytest.LogCaptureFixture) -> Counter[str]:
    made = written(root, seed)
    first = min(made.open_since.values(), default=None)
    ends: list[int | None] = [None]
    if name in WITH_AN_END and first is not None:
        ends += [first, first + 1]
    counts: Counter[str] = Counter()
    for level in LEVELS:
        for end in ends:
            if end == 0 or (end is not None and end <= made.segments[0][0]):
                continue
            caplog.clear()
            told = READERS[name](Asked(root / "t-0", level, end, lambda: caplog.text))
            is_due = level == READ_COMMITTED and first is not None and (end is None or end > first)
            assert told.count("read_committed ends") == is_due, (seed, level, end, told)
            if is_due:
                (producer,) = (each for each, at in made.open_since.items() if at == first)
                assert f"ends at offset {first}, where a transaction of producer {producer} is open" in told
            counts["told" if is_due else "silent"] += 1
    return counts


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "_LOOK_EVERY_S", 0)


@pytest.mark.parametrize("name", READERS)
def test_every_reader_says_where_committed_data_ends(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(4):
        counts += check(name, tmp_path / str(seed), seed, caplog)
    assert min(counts["told"], counts["silent"]) >= 2, counts


@pytest.mark.sweep
@pytest.mark.parametrize("name", READERS)
def test_every_reader_says_it_of_many_logs(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    counts: Counter[str] = Counter()
    for seed in range(100, 200):
        counts += check(name, tmp_path / str(seed), seed, caplog)
    print(f"{name}: {counts['told']} told, {counts['silent']} silent")
    assert min(counts["told"], counts["silent"]) >= 50, counts


def test_one_who_waits_says_it_once_and_not_while_somebody_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seed = next(seed for seed in range(50) if written(tmp_path / f"{seed}", seed).open_since)
    asked = Asked(tmp_path / f"{seed}" / "t-0", READ_COMMITTED, None, lambda: caplog.text)
    more: Any = {"follow": True, "consumer_timeout_ms": 300, "poll_ms": 10}
    for path in asked.path.glob("*.log"):
        os.utime(path)
    with kafkalog.Consumer(asked.root, isolation_level=READ_COMMITTED, **more) as consumer:
        (stream,) = consumer.create_message_streams_by_filter()
        consumer._positions.tell_of_open(stream.partitions, patient=True)
        assert caplog.text == ""
        list(stream)
        list(stream)
    assert caplog.text.count("read_committed ends") == 1
    caplog.clear()
    stream_reader = stream_of(asked)
    stream_reader.latestOffset(stream_reader.initialOffset())
    assert caplog.text == ""


def test_what_damage_leaves_undecided_is_not_called_open(tmp_path: Path) -> None:
    """`dump` has said of it that it is open, beside the error."""
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        log.append(
            [b"a"],
            producer=kafkalog.ProducerState(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.end_transaction(1, 0, commit=True)
        log.append([b"b"])
        (segment,) = log.partition().segments
        marker = list(segment.batches())[1]
    content = bytearray(Path(segment.path).read_bytes())
    content[marker.position + marker.size - 1] ^= 1
    Path(segment.path).write_bytes(content)
    done = command("dump", tmp_path, "--isolation-level", READ_COMMITTED)
    assert done.code == 1
    assert "is open" not in done.err
