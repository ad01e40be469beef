"""A topic-partition in two log directories of one broker: no plan promises a start, and each says how both are."""

from __future__ import annotations

import shutil
from pathlib import Path

from testkit.recorded.broker_dirs import brokers, own_copy, with_raised_offset
from testkit.running.command import kafkalog


def with_a_second_copy(tmp_path: Path) -> tuple[Path, Path]:
    """A recorded log directory after a crash, and another one of its broker with a copy of one partition."""
    one = own_copy(brokers("4.1.1/segments")[0], tmp_path / "d1")
    (one / ".kafka_cleanshutdown").unlink(missing_ok=True)
    two = tmp_path / "d2"
    two.mkdir()
    shutil.copy(one / "meta.properties", two)
    shutil.copytree(one / "orders-23-0", two / "orders-23-0")
    return one, two


def test_both_plans_say_which_of_the_two_is_sound(tmp_path: Path) -> None:
    one, two = with_a_second_copy(tmp_path)
    log = max((two / "orders-23-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    finished = kafkalog("plan", "--json", one, two)
    assert finished.code == 3
    for line in finished.objects:
        assert line["broker"]["outcome"] == "start_fails"
        assert line["broker"]["exception"] == "java.lang.IllegalStateException"
        assert f"the one in {one} is sound and ends at 260" in line["refusal"]
        assert f"the one in {two} is damaged" in line["refusal"]
        assert line["recommended"] is None
    out = kafkalog("plan", one, two).out
    assert "would start on it" not in out
    assert "recommended:" not in out
    alone = kafkalog("plan", "--json", two).objects[0]
    assert alone["recommended"] == "salvage"
    assert kafkalog("recover", "--yes", one, two).code == 3


def test_a_copy_with_a_torn_end_is_not_called_sound(tmp_path: Path) -> None:
    one, two = with_a_second_copy(tmp_path)
    log = max((two / "orders-23-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"\0\0\0\0\0\0\1\4\0\0")
    refusals = [line["refusal"] for line in kafkalog("plan", "--json", one, two).objects]
    assert all(f"the one in {two} has torn_tail and ends at 260" in refusal for refusal in refusals)


def test_one_command_is_not_given_twice(tmp_path: Path) -> None:
    root = with_raised_offset(tmp_path / "broker")
    out = kafkalog("plan", "--mode", "salvage", root).out
    commands = list({each.strip() for each in out.splitlines() if each.startswith("  kafkalog recover ")})
    assert len(commands) == 1
    assert "--mode salvage --accept-loss" in commands[0]
    assert "to proceed as planned above" not in out
