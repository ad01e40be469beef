"""`ls` and `verify` about whole directories: health against the checkpoints, copies in several places, JSON by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from testkit.made.batches import simple
from testkit.recorded.broker_dirs import brokers, join_cluster, own_copy
from testkit.recorded.fixture_data import recovery_case
from testkit.running.command import in_json
from testkit.running.command import kafkalog as command

TOP_LEVEL = {"path", "clean", "changed", "run_id", "broker", "ways", "recommended", "findings", "partitions"}


def made(root: Path, data: bytes, high_watermark: int | None = None) -> Path:
    (root / "made-0").mkdir(parents=True)
    for kind in ("index", "timeindex"):
        (root / "made-0" / f"{0:020d}.{kind}").touch()
    (root / "made-0" / f"{0:020d}.log").write_bytes(data)
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    if high_watermark is not None:
        (root / "replication-offset-checkpoint").write_text(f"0\n1\nmade 0 {high_watermark}\n")
    return root


@pytest.mark.parametrize("command_name", ["ls", "verify"])
@pytest.mark.parametrize(("high_watermark", "code"), [(None, 0), (5, 0), (4, 0), (6, 1), (10**9, 1)])
def test_a_log_that_ends_below_its_high_watermark_is_not_ok(
    tmp_path: Path, high_watermark: int | None, code: int, command_name: str
) -> None:
    root = made(tmp_path / "logs", simple(5), high_watermark)
    finished = command(command_name, root)
    assert finished.code == code
    assert ("log_end_below_high_watermark" in finished.out) == (code == 1)
    assert (f"the log ends at 5, the high watermark was {high_watermark}" in finished.err) == (code == 1)
    found = command(command_name, "--json", root).objects[0]["findings"]
    assert [each["code"] for each in found if each["severity"] != "info"] == ["log_end_below_high_watermark"] * code


def test_a_log_without_a_record_is_known_to_be_empty(tmp_path: Path) -> None:
    (partition,) = command("ls", "--json", made(tmp_path / "logs", b"")).objects[0]["partitions"]
    assert (partition["first_offset"], partition["log_end_offset"], partition["health"]) == (None, 0, "ok")
    assert "unknown" not in command("ls", "--segments", tmp_path / "logs").out


def test_replicas_in_several_directories_are_information(tmp_path: Path) -> None:
    """Without a `meta.properties` nothing says that they belong to one broker."""
    first, second = made(tmp_path / "a", simple(5)), made(tmp_path / "b", simple(4))
    for name in ("ls", "verify"):
        finished = command(name, "--json", first, second)
        assert (finished.code, finished.err) == (0, "")
        found = [each for line in finished.objects for each in line["findings"]]
        assert [(each["code"], each["severity"], each["file"]) for each in found] == [
            ("duplicate_partition", "info", str(root / "made-0")) for root in (first, second)
        ]
    assert [len(line["findings"]) for line in command("verify", "--json", first, second).objects] == [1, 1]


def test_verify_prints_an_object_for_each_directory(tmp_path: Path) -> None:
    damaged = recovery_case("bit_flip/crc").unpack_before(tmp_path / "damaged")
    sound = join_cluster(own_copy(brokers("4.1.1/compact")[0], tmp_path / "sound"), damaged, same_broker=True)
    (alone,) = command("verify", "--json", damaged).objects
    assert set(alone) == TOP_LEVEL
    assert alone["path"] == str(damaged)
    assert alone["clean"] is False
    assert (alone["changed"], alone["run_id"], alone["ways"], alone["recommended"]) == (False, None, [], None)
    node = alone["broker"].pop("node")
    assert alone["broker"] == {"outcome": "loaded", "exception": None, "message": None}
    assert [each["outcome"] for each in node["answers"]] == ["starts"]
    both = command("verify", "--json", damaged, sound)
    (lost,) = [each for each in both.objects[0]["findings"] if each["code"] == FindingCode.START_LOSES]
    assert "the metadata does not place on broker 1: t-0" in lost["detail"]  # which only the other directory tells
    left = [each for each in both.objects[0]["findings"] if each != lost]
    assert {**both.objects[0], "broker": alone["broker"], "findings": left} == alone
    assert [each["path"] for each in both.objects] == [str(damaged), str(sound)]
    assert [each["clean"] for each in both.objects] == [False, True]
    assert in_json(kafkalog.verify(damaged, sound).as_dicts()) == both.objects
    partition = next(sound.glob("*-0"))
    (one,) = command("verify", "--json", partition).objects
    assert set(one) == TOP_LEVEL
    assert (one["path"], one["broker"]) == (str(partition), None)


def test_verify_says_what_the_broker_would_do_in_the_words_of_a_plan(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    (root / "lost-partition-without-a-number").mkdir()
    (verified,) = command("verify", "--json", root).objects
    (planned,) = command("plan", "--json", root).objects
    words = ("outcome", "exception", "message")
    assert [verified["broker"][word] for word in words] == [planned["broker"][word] for word in words]
    assert verified["broker"]["outcome"] != "loaded"


def test_what_is_found_beside_the_partitions_is_on_the_first_screen(tmp_path: Path) -> None:
    """It was "not clean", with a command, and without a word about the reason."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    assert "found " not in command("verify", root).out.partition("\n\n")[0]
    (root / "cleaner-offset-checkpoint").write_text("0\n9\n")
    screen = " ".join(command("verify", root).out.partition("\n\n")[0].split())
    assert "found beside the partitions: checkpoint_invalid" in screen
    log = max(path for path in (root / "clicks-42-0").glob("*.log") if path.stat().st_size)
    log.write_bytes(log.read_bytes()[:-3])
    screen = " ".join(command("verify", root).out.partition("\n\n")[0].split())
    assert "found something in 1 partition, and beside them (checkpoint_invalid): clicks-42-0: " in screen


def test_the_time_of_a_damaged_batch_is_not_said_of_the_sound_records_behind_it(tmp_path: Path) -> None:
    data = bytearray(simple(5) + simple(5, base_offset=5) + simple(5, base_offset=10))
    data[len(simple(5)) + 17] ^= 1  # its checksum
    root = made(tmp_path / "logs", bytes(data))
    printed = " ".join(command("verify", root).out.split())
    assert re.search(r"5 sound records behind the damage; offsets 5 to 9 cannot be read, written [^,]* \(", printed)
