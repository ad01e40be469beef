"""What nobody should do at night, done: each ends with one clear sentence, and nothing is changed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.judging.trees import first_difference, stamps
from testkit.kafka.nights import mounted, produced, values, wait_for
from testkit.kafka.real_broker import RealBroker
from testkit.running.command import kafkalog

pytestmark = pytest.mark.interop
COUNT = 200
ACTING = {
    "recover": ["recover", "--yes", "DATA"],
    "recover in the broker's own way": ["recover", "--mode", "kafka", "--yes", "DATA"],
    "meta.properties": ["recover", "--meta-properties", "--yes", "DATA"],
    "a partition": ["recover", "--yes", "DATA/orders-0"],
    "by server.properties": ["recover", "--yes", "--server-properties", "PLACE/server.properties"],
    "undelete": ["undelete", "--topic", "gone", "--yes", "DATA"],
    "compact": ["compact", "--yes", "DATA"],
    "index": ["index", "rebuild", "--yes", "DATA"],
    "append": ["build", "--append", "--topic", "orders", "--into", "DATA", "PLACE/records.jsonl"],
    "merge": ["merge", "--yes", "DATA", "PLACE/copy", "--into", "DATA"],
}


@pytest.fixture
def running(broker: RealBroker) -> RealBroker:
    """Started, with a topic and one that was deleted, and a copy of its directory."""
    broker.configure({"log.segment.delete.delay.ms": 3_600_000})
    broker.start()
    for topic in ("orders", "gone"):
        broker.create(topic)
    broker.client("delete", topic="gone")
    wait_for(lambda: list(broker.log_dir.glob("gone-0.*-delete")))
    produced(broker, "orders", COUNT)
    (broker.directory / "records.jsonl").write_text('{"topic": "orders", "partition": 0, "value": "late"}\n')
    subprocess.run(["cp", "-a", broker.log_dir, broker.directory / "copy"], check=True)
    return broker


def log_files(broker: RealBroker) -> dict[str, bytes]:
    """What the broker has of the topic; its metadata grows by itself."""
    partition = broker.log_dir / "orders-0"
    return {path.name: path.read_bytes() for path in partition.iterdir()}


def test_beside_a_running_broker(running: RealBroker, compared: Callable[[str, int], None]) -> None:
    """Whatever changes a directory asks for the broker's lock; whatever only looks, looks."""
    before = log_files(running)
    for name, words in ACTING.items():
        place, data = str(running.directory), str(running.log_dir)
        said = kafkalog(*(word.replace("DATA", data).replace("PLACE", place) for word in words))
        assert said.code in (3, 64), (name, said.code, said.out, said.err)
        assert said.err.strip(), name
        assert "Traceback" not in said.err, name
        assert log_files(running) == before, name
    assert "is locked: a broker or another recovery is using it" in kafkalog("recover", "--yes", running.log_dir).err
    for looks in ("ls", "verify", "plan", "top", "retention", "metadata", "undelete", "runs"):
        said = kafkalog(looks, running.log_dir)
        assert said.code in (0, 1), (looks, said.code, said.err)
    assert log_files(running) == before
    assert not running.log_dir.with_name("data.recovery").exists()
    produced(running, "orders", COUNT, seed=2)
    assert len(values(running.records("orders"))) == 2 * COUNT
    running.stop()
    running.start()
    assert len(values(running.records("orders"))) == 2 * COUNT
    running.stop()
    compared("commands that a running broker's lock keeps from changing anything", len(ACTING))


def test_another_directory_than_was_meant(running: RealBroker, tmp_path: Path) -> None:
    """A parent, a file, a directory of another thing, one that is not there."""
    running.stop()
    before = stamps(running.directory)
    (tmp_path / "empty").mkdir()
    for wrong in (tmp_path / "empty", tmp_path / "nowhere", running.directory / "server.properties", Path("/proc")):
        for words in (["recover", "--yes"], ["undelete", "--topic", "orders", "--yes"], ["index", "rebuild", "--yes"]):
            said = kafkalog(*words, wrong)
            assert said.code in (1, 3, 4, 64), (words, wrong, said)
            assert "Traceback" not in said.err
            assert said.err.strip()
    assert first_difference(stamps(running.directory), before) == ""
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_file_system_that_is_mounted_read_only(running: RealBroker) -> None:
    """It can be looked at, and recovered into another one."""
    running.kill()
    place = running.directory
    with mounted(place / "disk", "32m"):
        subprocess.run(["cp", "-a", running.log_dir, place / "disk" / "data"], check=True)
        subprocess.run(["mount", "-o", "remount,ro", place / "disk"], check=True)
        data = place / "disk" / "data"
        before = stamps(data)
        assert kafkalog("verify", data).code in (0, 1)
        assert kafkalog("plan", data).code in (0, 1)
        said = kafkalog("recover", "--yes", data)
        assert said.code in (3, 4), said
        assert "read-only" in said.err.lower(), said.err
        assert first_difference(stamps(data), before) == ""
        assert kafkalog("recover", "--yes", "--into", place / "recovered", data).code == 0
    running.log_dir = place / "recovered"
    running.start()
    assert len(values(running.records("orders"))) == COUNT
    running.stop()
