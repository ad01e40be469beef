"""`verify` and `ls` beside a busy real broker that rolls, deletes and compacts: quiet, and damage is found anyway.

`KAFKALOG_BESIDE_CALLS` says how often each looks; a campaign looks a thousand times.
"""

from __future__ import annotations

import base64
import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from testkit.kafka.real_broker import RealBroker
from testkit.running.command import kafkalog

if TYPE_CHECKING:
    from testkit.kafka.kafka_oracle import KafkaOracle

VERSION = "4.3.0"
CALLS = int(os.environ.get("KAFKALOG_BESIDE_CALLS", "10"))
SETTINGS = {
    "log.retention.check.interval.ms": 200, "log.cleaner.backoff.ms": 100, "log.segment.delete.delay.ms": 300,
    "log.cleaner.min.cleanable.ratio": 0.01, "log.flush.offset.checkpoint.interval.ms": 500,
}  # fmt: skip
Json = dict[str, Any]


def records(chance: random.Random, count: int, partitions: int) -> list[Json]:
    """Records of few keys, so that there is something to compact."""
    return [
        {
            "partition": number % partitions,
            "k": base64.b64encode(b"key-%d" % chance.randrange(20)).decode(),
            "v": base64.b64encode(chance.randbytes(chance.randint(10, 300))).decode(),
        }
        for number in range(count)
    ]


@contextmanager
def busy(broker: RealBroker) -> Iterator[None]:
    """A producer that writes to both topics without a pause."""
    ends, chance = threading.Event(), random.Random(1)
    failures: list[BaseException] = []

    def produce() -> None:
        try:
            while not ends.is_set():
                for topic in ("deleted", "compacted"):
                    broker.client("produce", topic=topic, records=records(chance, 60, 2), producer={"batch.size": 500})
        except BaseException as error:  # noqa: BLE001 - the test says it
            failures.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    assert failures == []


@pytest.fixture
def broker(kafka_of: Callable[[str], KafkaOracle], tmp_path: Path) -> Iterator[RealBroker]:
    """A broker with a topic that loses old segments and one that is compacted."""
    kafka_of(VERSION)
    with RealBroker(VERSION, tmp_path / "broker", settings=SETTINGS) as broker:
        broker.start()
        broker.create("deleted", 2, retention_bytes=20_000, file_delete_delay_ms=300)
        broker.create("compacted", 2, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
        yield broker


def test_nothing_is_wrong_with_a_busy_broker(broker: RealBroker) -> None:
    wrong: Counter[str] = Counter()
    with busy(broker):
        for number in range(2 * CALLS):
            finished = kafkalog(("verify", "ls")[number % 2], broker.log_dir)
            if finished.code:
                wrong[f"{finished.code}: {finished.err[:300]}"] += 1
    assert wrong == {}
    print(f"{2 * CALLS} looks beside a busy broker, none of which found anything")


def test_damage_in_a_closed_segment_is_found_beside_a_busy_broker(broker: RealBroker) -> None:
    broker.create("damaged")
    chance = random.Random(2)
    broker.client("produce", topic="damaged", records=records(chance, 200, 1), producer={"batch.size": 500})
    first = min((broker.log_dir / "damaged-0").glob("*.log"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    with busy(broker):
        for number in range(CALLS):
            finished = kafkalog(("verify", "ls")[number % 2], broker.log_dir)
            assert finished.code == 1
            assert str(first) in finished.err
            named = {line.split("(")[1].split(",")[0] for line in finished.err.splitlines()}
            assert {Path(each).parent.name for each in named} == {"damaged-0"}, "its indexes may be named, no other log"
    print(f"{CALLS} looks beside a busy broker with a damaged segment, all of which found it and nothing else")


def moments_of(directory: Path) -> list[str]:
    """The findings of a copy that was made while its broker ran, as `verify` prints them."""
    printed = kafkalog("verify", directory)
    return [line for line in (printed.out + printed.err).splitlines() if "moments_differ" in line]


def copied(broker: RealBroker, target: Path, *, checkpoints_last: bool) -> Path:
    """A copy of a log directory, file by file and not in one moment."""
    target.mkdir()
    files = sorted(each for each in broker.log_dir.iterdir() if each.is_file() and each.name != ".lock")
    directories = sorted(each for each in broker.log_dir.iterdir() if each.is_dir() and "-delete" not in each.name)
    for path in (*directories, *files) if checkpoints_last else (*files, *directories):
        if path == files[0] and checkpoints_last:
            time.sleep(1.5)  # gigabytes take minutes, in which a broker writes its checkpoints
        is_directory = path in directories
        if is_directory:
            (target / path.name).mkdir()
        for each in sorted(path.iterdir()) if is_directory else [path]:
            with suppress(FileNotFoundError):  # deleted since, as `cp` and `tar` say too
                shutil.copy2(each, target / each.relative_to(broker.log_dir))
    return target


def test_a_copy_of_a_busy_broker_is_told(broker: RealBroker, tmp_path: Path) -> None:
    """Where its checkpoints are copied after its logs: then flushed records are missing in it."""
    copies = max(CALLS // 5, 2)
    with busy(broker):
        time.sleep(2)
        for number in range(copies):
            late = copied(broker, tmp_path / f"late-{number}", checkpoints_last=True)
            assert len(moments_of(late)) == 1, number
            early = copied(broker, tmp_path / f"early-{number}", checkpoints_last=False)
            assert moments_of(early) == [], "its checkpoints are older than its logs, as after a crash"
            shutil.rmtree(late)
            shutil.rmtree(early)
    print(f"{copies} copies of a busy broker, all told")


def test_a_killed_broker_is_no_copy(broker: RealBroker) -> None:
    for _ in range(max(CALLS // 10, 1)):
        with busy(broker):
            time.sleep(2)
        broker.kill()
        assert moments_of(broker.log_dir) == []
        broker.start()
