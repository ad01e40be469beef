"""Several servers, or a broker, beside each other on one directory: nobody is in anybody's way."""

from __future__ import annotations

import time
from pathlib import Path

import confluent_kafka
import pytest

from kafkalog import Log, LogConfig
from kafkalog.words.exit_codes import ExitCode
from testkit.judging.trees import stamps
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.real_broker import RealBroker
from testkit.recorded.broker_dirs import brokers, expected_offsets, own_copy
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog
from testkit.running.lock_holder import held
from testkit.serving.serving import Given, Place, by_librdkafka, subscribed
from testkit.serving.the_server import STOP_SECONDS, listening

CASE = "4.3.0/segments"


def test_two_servers_give_the_same_and_change_nothing(tmp_path: Path) -> None:
    root = own_copy(brokers(CASE)[0], tmp_path / "data")
    before = stamps(root)
    ends = expected_offsets(broker_case("4.3.0", "segments"), "read_uncommitted")
    with listening(root) as (one, _), listening(root) as (other, _):
        assert by_librdkafka(one, ends, "read_uncommitted") == by_librdkafka(other, ends, "read_uncommitted") != {}
    assert stamps(root) == before


def test_two_servers_do_not_keep_offsets_in_one_file(tmp_path: Path) -> None:
    """Each would overwrite what the other one has kept."""
    offsets = tmp_path / "offsets"
    (tmp_path / "data").mkdir()
    with Log.open(tmp_path / "data" / "t-0", LogConfig(retention_ms=-1)) as log:
        log.append([b"x"])
    for _ in range(2):  # who comes later has it to itself again
        with listening("--offsets-file", offsets, tmp_path / "data") as (bootstrap, _):
            subscribed(bootstrap, ["t"], "g", None)
            declined = kafkalog("serve", "--listen", "127.0.0.1:0", "--offsets-file", offsets, tmp_path / "data")
            assert declined.code == ExitCode.REFUSED
            assert f"another server keeps the offsets of its clients in {offsets}" in declined.err


def test_a_directory_that_a_broker_has_locked_is_served_and_that_is_told(tmp_path: Path) -> None:
    root = own_copy(brokers(CASE)[0], tmp_path / "data")
    for is_held in (True, False):
        (root / ".lock").touch()
        if is_held:
            with held(root / ".lock"):
                told = said(root)
        else:
            told = said(root)
        assert (f"{root} is locked, as by a broker that is running" in told) is is_held


def said(root: Path) -> str:
    with listening(root) as (_, process):
        process.terminate()
        return process.communicate(timeout=STOP_SECONDS)[1]


@pytest.mark.interop
def test_beside_a_broker_that_writes(tmp_path: Path) -> None:
    """What it acknowledges is read here a moment later, also after it was killed and has started again."""
    with kafka_needed(), RealBroker("4.3.0", tmp_path / "b") as broker:
        broker.start()
        broker.create("t", segment_bytes=1 << 20)
        with listening("--refresh", 1, broker.log_dir) as (bootstrap, process):
            count = 0
            for life in range(3):
                producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
                for _ in range(20):
                    for number in range(50):
                        producer.produce("t", f"{count + number}")
                    producer.flush(30)
                    count += 50
                until = time.monotonic() + 20
                found: dict[Place, Given] = {}
                while len(found) < count:  # the directory is listed once a second
                    assert time.monotonic() < until, f"{len(found)} of {count} records"
                    found = by_librdkafka(bootstrap, {("t", 0): (0, count)}, "read_uncommitted")
                assert [each.value for _, each in sorted(found.items())] == [b"%d" % each for each in range(count)]
                if life < 2:
                    broker.kill()
                    broker.start()
            process.terminate()
            told = process.communicate(timeout=STOP_SECONDS)[1]
        assert f"{broker.log_dir} is locked" in told
        assert "unexpected" not in told
