"""A topic-partition in two log directories of one broker: no plan promises a start, and each says how both are."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused, plan, recover
from testkit.recorded.broker_dirs import (
    brokers,
    expected_offsets,
    expected_records,
    own_copy,
    with_raised_offset,
)
from testkit.recorded.fixture_data import broker_case
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
    assert out.count("recommended:") == out.count("recommended: none of these") == 1
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


CASE = broker_case("4.1.1", "segments")
RECORDS = sum(key[:2] == ("orders-23", 0) for key in expected_records(CASE, "read_uncommitted"))
_START, END = expected_offsets(CASE, "read_uncommitted")["orders-23", 0]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def without_last_segment(directory: Path) -> None:
    last = max(directory.glob("*.log")).stem
    for path in directory.glob(f"{last}.*"):
        path.unlink()


def moves(out: str) -> list[list[str]]:
    """The arguments of the `mv` commands of a screen."""
    lines = out.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("  mv ")]


@pytest.mark.parametrize("beside", ["orders-23-00", "../d2/orders-23-0"])
def test_a_whole_copy_beside_a_torn_one_is_kept_by_the_commands_that_are_named(beside: str, tmp_path: Path) -> None:
    one, two = with_a_second_copy(tmp_path)
    torn, whole = one / "orders-23-0", one / beside
    recorded = contents(torn)
    if whole.parent == one:
        shutil.rmtree(two)
        shutil.copytree(torn, whole)
    else:  # not a copy of the first directory, but another one of its broker
        identity = two / "meta.properties"
        identity.write_text(re.sub("directory.id=.*", "directory.id=AAAAAAAAAAMAAAAAAAAABA", identity.read_text()))
    without_last_segment(torn)
    given = [path for path in (one, two) if path.exists()]
    planned = kafkalog("plan", *given)
    said = " ".join(planned.out.split())
    assert f"holds more ({RECORDS} records, end {END}" in said
    assert "loses less" not in said
    assert not any(line.strip().startswith("kafkalog recover") for line in planned.out.splitlines())
    assert all(line["recommended"] is None for line in kafkalog("plan", "--json", *given).objects)
    report = kafkalog("report", "--format", "text", "--output", "-", *given)
    assert moves(report.out) == moves(planned.out)
    assert "cannot be had back" not in report.out
    assert kafkalog("recover", *given, "--yes").code == 3
    for source, target in moves(planned.out):
        shutil.move(source, target)
    kept = next(path for path in (torn, two / "orders-23-0") if path.exists())
    assert contents(kept) == recorded
    assert not kafkalog("plan", "--json", *given).objects[0]["consequences"]
    assert moves(kafkalog("plan", *given).out) == []


def test_copies_that_hold_as_much_get_a_command_each(tmp_path: Path) -> None:
    """The one with more comes first; of the others, the one in the first directory is kept."""
    one, two = with_a_second_copy(tmp_path)
    shutil.copytree(one / "stock-41-0", two / "stock-41-0")
    assert moves(kafkalog("plan", one, two).out) == []  # two copies of one log directory, perhaps a backup
    identity = two / "meta.properties"
    identity.write_text(re.sub("directory.id=.*", "directory.id=AAAAAAAAAAMAAAAAAAAABA", identity.read_text()))
    without_last_segment(one / "stock-41-0")
    planned = kafkalog("plan", one, two)
    screen = " ".join(planned.out.partition("\n\n")[0].split())
    assert f"type this to keep {two}/stock-41-0, which holds more (" in screen
    assert "1 more partition is in two places), and then ask again" in screen
    assert moves(planned.out) == [
        [f"{one}/stock-41-0", f"{one}.stock-41-0"], [f"{two}/orders-23-0", f"{two}.orders-23-0"]
    ]  # fmt: skip
    shutil.move(one / "stock-41-0", f"{one}.stock-41-0")
    again = kafkalog("plan", one, two)
    said = " ".join(again.out.split())
    assert f"keep {one}/orders-23-0, which is where the metadata has it, and holds as much, as far as ends and" in said
    ((source, target),) = moves(again.out)
    shutil.move(source, target)
    assert "Duplicate log directories" not in kafkalog("plan", one, two).out


def test_the_log_of_a_deleted_topic_is_moved_away_though_it_holds_more(tmp_path: Path) -> None:
    """A topic was deleted and created again while one directory was away, which now has the old log."""
    one, two = with_a_second_copy(tmp_path)
    identity = two / "meta.properties"
    identity.write_text(re.sub("directory.id=.*", "directory.id=AAAAAAAAAAMAAAAAAAAABA", identity.read_text()))
    without_last_segment(one / "orders-23-0")
    path = two / "orders-23-0" / "partition.metadata"
    path.write_text("version: 0\ntopic_id: AAAAAAAAAAMAAAAAAAAABA\n")
    planned = kafkalog("plan", one, two)
    said = " ".join(planned.out.split())
    assert f"{one}/orders-23-0, which is of the topic that the metadata names (" in said
    assert f"end {END}, by topic id of another topic of this name" in said
    ((source, _target),) = moves(planned.out)
    assert source == f"{two}/orders-23-0"


def test_a_copy_that_holds_less_is_not_preferred_to_the_usual_name(tmp_path: Path) -> None:
    one, two = with_a_second_copy(tmp_path)
    shutil.rmtree(two)
    recorded = contents(one / "orders-23-0")
    shutil.copytree(one / "orders-23-0", one / "orders-23-00")
    without_last_segment(one / "orders-23-00")
    assert moves(kafkalog("plan", one).out) == []
    assert kafkalog("recover", one, "--yes").code in (0, 2)
    assert not (one / "orders-23-00").exists()
    logs = {name: data for name, data in contents(one / "orders-23-0").items() if name.endswith(".log")}
    assert logs == {name: data for name, data in recorded.items() if name.endswith(".log")}


def test_the_plans_of_python_refuse_what_recover_refuses(tmp_path: Path) -> None:
    roots = with_a_second_copy(tmp_path)
    plans = plan(*roots)
    assert [made.refusal is not None and "move one of them away" in made.refusal for made in plans] == [True, True]
    assert [made.broker.outcome for made in plans] == ["start_fails", "start_fails"]
    printed = kafkalog("plan", "--json", *roots).objects
    assert [made.refusal for made in plans] == [line["refusal"] for line in printed]
    with pytest.raises(RecoveryRefused) as refused:
        recover(*roots)
    assert refused.value.reason == "duplicate"
