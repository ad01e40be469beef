"""A plan says what a thing is, and what becomes of it: names, codes and sentences that fit what is there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.log import open_partition
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.decide.actions import ActionKind, RecoveryAction
from kafkalog.recovery.decide.partition_plan import partition_plans
from kafkalog.recovery.facts.survey import survey
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

AFTER = "what comes after it goes"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    return root


def planned(root: Path, *words: str) -> dict[str, Any]:
    (line,) = kafkalog("plan", "--json", *words, root).objects
    return line


def way(line: dict[str, Any], name: str = "safe") -> dict[str, Any]:
    return next(each for each in line["ways"] if each["way"] == name)


# -- what is no segment ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stops_a_broker"), [("hello.log", True), (".log", True), ("99.log", False), ("+5.log", False)]
)
def test_a_name_that_only_ends_like_a_segment_counts_as_none(name: str, stops_a_broker: bool, root: Path) -> None:
    """Kafka takes it for a number or does not start (`LogFileUtils.offsetFromFileName`), and reads nothing in it."""
    directory = root / "stock-41-0"
    shutil.copy(sorted(directory.glob("*.log"))[1], directory / name)
    line = planned(root)
    found = [(each["code"], each["detail"]) for each in line["findings"]
             if each["file"] == f"stock-41-0/{name}" and each["code"] != "batches_outside"]  # fmt: skip
    why = "not a file of a segment, and a broker does not start beside a name like this"
    assert found == ([("foreign_file", why)] if stops_a_broker else [])
    assert (line["broker"]["outcome"] == "start_fails") is stops_a_broker
    (partition,) = [each for each in line["partitions"] if each["name"] == "stock-41-0"]
    assert partition["cut_bytes"] == 0
    assert partition["offsets_lost"] is None
    assert way(line)["records_lost"] == 0
    assert "0 B of log go to quarantine" in kafkalog("plan", root).out


def test_a_partition_that_only_loses_a_directory_changes(root: Path) -> None:
    with survey(str(root)) as found:
        loaded = LoadedPartition(name="stock-41-0", log_start_offset=0, log_end_offset=10)
        action = RecoveryAction(kind=ActionKind.REMOVE_DIRECTORY, path="stock-41-0/leader-epoch-checkpoint.tmp")
        (made,) = partition_plans(found, [loaded], [action], {})
    assert (made.changes, made.quarantined) == (True, ["leader-epoch-checkpoint.tmp"])


@pytest.mark.parametrize("name", ["notes.txt", "7notes.txt", "hello.log.gz"])
@pytest.mark.parametrize("mode", ["safe", "salvage", "kafka"])
def test_what_a_broker_leaves_alone_is_left_alone(name: str, mode: str, root: Path) -> None:
    (root / "stock-41-0" / name).write_text("mine")
    assert kafkalog("recover", "--yes", "--mode", mode, root).code in (0, 2)
    assert (root / "stock-41-0" / name).read_text() == "mine"


# -- one code for one thing --------------------------------------------------------------------------------------------


def codes(root: Path) -> dict[str, dict[str, set[tuple[str, str]]]]:
    """Command -> path -> code and severity."""
    found: dict[str, dict[str, set[tuple[str, str]]]] = {}
    for command in ("ls", "verify", "plan"):
        (line,) = kafkalog(command, "--json", root).objects
        rows = [*line["findings"], *(row for each in line["partitions"] for row in each.get("findings", ()))]
        for row in rows:
            path = str(row["file"] or "").removeprefix(f"{root}/")
            found.setdefault(command, {}).setdefault(path, set()).add((row["code"], row["severity"]))
    return found


def make_directory(root: Path) -> str:
    (root / "lost+found").mkdir()
    return "lost+found"


def empty_metadata(root: Path) -> str:
    (root / "orders-23-0" / "partition.metadata").write_text("")
    return "orders-23-0/partition.metadata"


def spoil_epochs(root: Path) -> str:
    (root / "orders-23-0" / "leader-epoch-checkpoint").write_text("x\n")
    return "orders-23-0/leader-epoch-checkpoint"


def spoil_watermarks(root: Path) -> str:
    (root / "replication-offset-checkpoint").write_text("x\n")
    return "replication-offset-checkpoint"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (make_directory, ("foreign_directory", "warning")),
        (empty_metadata, ("partition_metadata_invalid", "error")),
        (spoil_epochs, ("checkpoint_invalid", "error")),
        (spoil_watermarks, ("checkpoint_invalid", "error")),
    ],
)
def test_verify_and_plan_give_one_code(damage: Any, expected: tuple[str, str], root: Path) -> None:
    path = damage(root)
    found = codes(root)
    assert found["verify"][path] == {expected}
    assert found["plan"][path] == {expected}


# -- sentences that fit ------------------------------------------------------------------------------------------------


def log_of(root: Path, number: int) -> Path:
    return sorted((root / "sessions-20-0").glob("*.log"))[number]


def test_nothing_is_cut(root: Path) -> None:
    make_directory(root)
    line = planned(root)
    assert way(line)["bytes_cut"] == 0
    assert way(line)["consequence"] == "no log is cut"


def test_a_torn_end_has_nothing_after_it(root: Path) -> None:
    log = log_of(root, -1)
    log.write_bytes(log.read_bytes()[:-1])
    found = way(planned(root))
    assert found["bytes_cut"] > 0
    assert found["consequence"] == "everything up to the damage is kept, the rest goes to quarantine"


def test_sound_records_after_the_damage_are_said(root: Path) -> None:
    log = log_of(root, -2)
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    line = planned(root, "--full")
    assert AFTER in way(line)["consequence"]
    assert "with a gap in the offsets" in way(line, "salvage")["consequence"]


# -- what is recommended is what recovery does -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["safe", "salvage"])
def test_a_way_that_recovery_declines_is_not_recommended(mode: str, root: Path) -> None:
    shutil.rmtree(root / "__cluster_metadata-0")
    for path in root.glob("*/partition.metadata"):
        path.write_text("")
    line = planned(root, "--mode", mode)
    assert line["refusal"] is not None
    assert line["recommended"] is None
    assert [each["refusal"] is None for each in line["ways"] if each["way"] in ("safe", "salvage")] == [False, False]
    for partition in line["partitions"]:
        assert partition["recommended"] is None
    shown = kafkalog("plan", "--mode", mode, root)
    assert "recommended" not in shown.out
    assert "declined" in shown.out
    assert kafkalog("recover", "--yes", "--mode", mode, root).code == 3


def test_where_one_partition_is_declined_the_others_are_recommended(root: Path) -> None:
    shutil.rmtree(root / "__cluster_metadata-0")
    (root / "orders-23-0" / "partition.metadata").write_text("")
    log = log_of(root, -1)
    log.write_bytes(log.read_bytes()[:-1])
    line = planned(root)
    assert line["refusal"] is None
    assert line["recommended"] == "safe"
    assert list(line["declined"]) == ["orders-23-0"]
    assert kafkalog("recover", "--yes", root).code == 3


def test_a_hard_link_that_keeps_recovery_from_acting_keeps_every_way(root: Path, tmp_path: Path) -> None:
    log = log_of(root, -1)
    log.write_bytes(log.read_bytes()[:-1])
    (tmp_path / "backup").hardlink_to(log)
    line = planned(root)
    assert "hard links" in line["refusal"]
    assert line["recommended"] is None
    assert {each["refusal"] for each in line["ways"] if each["way"] in ("safe", "salvage")} == {line["refusal"]}


# -- what stops a broker and is moved ----------------------------------------------------------------------------------


def test_what_moves_as_a_whole_is_named_with_its_size(root: Path) -> None:
    (root / "backup" / "deep").mkdir(parents=True)
    (root / "backup" / "deep" / "old").write_bytes(bytes(5000))
    (root / "backup" / "notes").write_bytes(bytes(24))
    (root / "lost+found").mkdir()
    (root / "replication-offset-checkpoint").write_text("x\n")
    out = kafkalog("plan", root).out.splitlines()
    assert [each for each in out if each.startswith("moves to quarantine")] == [
        "moves to quarantine: backup (2 files, 5024 B)",
        "moves to quarantine: lost+found (no file in it)",
        "moves to quarantine: replication-offset-checkpoint (2 B)",
    ]
    assert kafkalog("recover", "--yes", root).code == 2
    assert not (root / "backup").exists()
    assert not any(each.startswith("moves to quarantine") for each in kafkalog("plan", root).out.splitlines())


@pytest.mark.parametrize("stop", ["a directory", "meta.properties", "neither"])
def test_how_a_start_ends_before_the_logs_is_known_whatever_is_in_them(stop: str, root: Path, tmp_path: Path) -> None:
    """`LogManager.loadLogs` takes in all names before it opens a log, and `meta.properties` comes before that."""
    if stop == "a directory":
        (root / "backup").mkdir()
    elif stop == "meta.properties":
        (root / "meta.properties").write_text("version=1\n")
    log = min((root / "orders-23-0").glob("*.log"))
    log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(tmp_path / "elsewhere.log")
    line = planned(root)
    (verified,) = kafkalog("verify", "--json", root).objects
    assert line["broker"]["outcome"] == (None if stop == "neither" else "start_fails")
    if stop != "neither":
        assert (line["broker"]["exception"], line["broker"]["message"]) == (
            verified["broker"]["exception"], verified["broker"]["message"],
        )  # fmt: skip
        assert "would NOT START on it" in kafkalog("plan", root).out


def test_a_log_start_beyond_the_end_is_said_where_records_are_kept(tmp_path: Path) -> None:
    """4.3.0 deletes the whole log and begins at that start (`LogLoader.recoverLog`)."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (data / "log-start-offset-checkpoint").write_text("0\n1\nstock-41 0 99999\n")
    words = "stock-41-0: its log start is beyond its end, and a broker deletes all of it"
    printed = " ".join(kafkalog("plan", data).out.split())
    assert words in printed
    assert "the start deletes all of 1 partition (stock-41-0)" in printed.partition("lost with this plan")[0]
    done = " ".join(kafkalog("recover", "--accept-loss", "--yes", data).out.split())
    assert words in done.partition("are lost (stock-41-0")[2]


@pytest.mark.parametrize("closed", [True, False])
def test_a_log_start_that_other_files_contradict_is_first_taken_out_of_its_checkpoint(
    closed: bool, tmp_path: Path
) -> None:
    """A real 4.1.1 deleted such a log by that entry; without it its consumer read all 2000 records of one, and after a
    kill all 4000 of another.
    """
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    recorded = len([*open_partition(data / "stock-41-0").records()])
    if not closed:
        (data / ".kafka_cleanshutdown").unlink()
    checkpoint = data / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nstock-41 0 99999\n")
    printed = kafkalog("plan", data).out
    first_screen, _, rest = (" ".join(part.split()) for part in printed.partition("\npartitions that lose"))
    assert "stock-41-0 cannot begin at 99999, where a start would begin it: it ends at" in first_screen
    assert f"remove the line `stock-41 0 99999` of {checkpoint} and lower the number in its second line" in first_screen
    assert "first mend the log start of stock-41-0 as said above, which keeps all of it, and ask again" in first_screen
    assert "log_end_below_log_start" in rest
    assert "no way here keeps more" not in rest
    checkpoint.write_text("0\n0\n")
    found = plan(data)[0]
    assert not found.choice.own.lost
    assert found.broker.valid_records_lost is None or not any(found.broker.valid_records_lost.values())
    recover(Recovery(), data)
    assert len([*open_partition(data / "stock-41-0").records()]) == recorded


def test_a_log_start_that_the_leader_epochs_follow_is_not_contradicted(tmp_path: Path) -> None:
    """A broker raises both together when records are deleted; the end of such a log may have been cut since."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (data / "log-start-offset-checkpoint").write_text("0\n1\nstock-41 0 99999\n")
    (data / "stock-41-0" / "leader-epoch-checkpoint").write_text("0\n1\n1 99999\n")
    assert "cannot begin at 99999" not in " ".join(kafkalog("plan", data).out.split())


def test_records_below_a_log_start_that_the_log_never_reached_are_lost_with_consent_only(tmp_path: Path) -> None:
    """A real 4.3.0 deleted the log; with the recovered directory its consumer got nothing below the new log start."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    recorded = len([*open_partition(data / "stock-41-0").records()])
    (data / "log-start-offset-checkpoint").write_text("0\n1\nstock-41 0 99999\n")
    found = plan(data)[0]
    assert found.broker.valid_records_lost == {"stock-41-0": recorded}
    assert found.needs_consent
    assert found.choice.own.records_lost == recorded - 1
    with pytest.raises(RecoveryRefused):
        recover(data)
    recover(Recovery(accept_loss=True), data)
    assert len([*open_partition(data / "stock-41-0").records()]) == 1


def test_a_log_that_has_lost_its_end_lost_nothing_below_its_log_start(tmp_path: Path) -> None:
    """The high watermark says that the log reached its log start, so what is below was deleted on purpose."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (data / "log-start-offset-checkpoint").write_text("0\n1\nstock-41 0 99999\n")
    (data / "replication-offset-checkpoint").write_text("0\n1\nstock-41 0 99999\n")
    assert not plan(data)[0].needs_consent


def test_an_epoch_beyond_the_end_of_a_clean_stop_is_no_loss(tmp_path: Path) -> None:
    """The recovery point of a clean stop is the log's end (`LogManager.shutdown`)."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    end = plan(data)[0].broker.log_end_offsets["stock-41-0"]
    (data / "stock-41-0" / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n5 {end + 70}\n")
    assert plan(data)[0].choice.own.records_lost == 0
    (data / ".kafka_cleanshutdown").unlink()
    assert plan(data)[0].choice.own.records_lost == 70
