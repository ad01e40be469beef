"""verify, plan, recover and undo as a user calls them: exit codes, sentences, and nothing changed by mistake."""

from __future__ import annotations

import fcntl
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.rules.framing import BATCH_CRC_START
from testkit.judging.trees import stamps
from testkit.kafka.start_records import append_metadata
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import broker_case, recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import Finished, kafkalog

SETTINGS = ("--config", "segment.index.bytes=1536", "--config", "index.interval.bytes=256", "--at", "1700000100000")


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return recovery_cases(["torn_tail"])[0].unpack_before(tmp_path / "logs")


def one_sentence(finished: Finished) -> str:
    lines = finished.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("kafkalog: ")
    assert "Traceback" not in finished.err
    return lines[0]


def test_verify_plan_recover_verify_undo(torn: Path) -> None:
    before = stamps(torn)
    assert kafkalog("verify", torn).code == 1
    planned = kafkalog("plan", torn, *SETTINGS)
    assert planned.code == 1
    assert "would start on it, after its own recovery" in planned.out
    assert kafkalog("recover", "--dry-run", torn, *SETTINGS).out == planned.out
    assert stamps(torn) == before
    finished = kafkalog("recover", "--yes", "--json", torn, *SETTINGS)
    assert finished.code == 2
    report = json.loads(finished.out)
    assert report["broker"]["outcome"] == "loaded"
    assert report["partitions"][0]["cut_bytes"] > 0
    codes = {finding["code"] for finding in json.loads(kafkalog("verify", "--json", torn).out)["findings"]}
    assert not codes & {"torn_tail", "crc_mismatch", "index_entry_mismatch", "snapshot_invalid"}
    assert kafkalog("recover", "--yes", torn, *SETTINGS).code == 0
    undone = kafkalog("undo", "--yes", torn, "--run", report["run_id"])
    assert undone.code == 2
    assert stamps(torn) == before
    assert kafkalog("undo", "--yes", torn, "--run", report["run_id"]).code == 3


def test_what_is_not_in_the_files_is_no_reason_to_recover_again(torn: Path) -> None:
    plan = json.loads(kafkalog("plan", "--json", torn, *SETTINGS).out)["partitions"][0]
    topic, _, number = plan["name"].rpartition("-")
    (torn / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} {number} {plan['log_end_offset'] + 9}\n")
    assert "  kafkalog recover " in kafkalog("plan", torn, *SETTINGS).out
    assert kafkalog("recover", "--yes", torn, *SETTINGS).code == 2
    after = kafkalog("plan", torn, *SETTINGS)
    assert after.code == 1
    assert "recommended: safe" in after.out
    assert "nothing is left to do here" in after.out
    assert "kafkalog recover" not in after.out


def test_a_copy_that_holds_nothing_is_a_mistake(torn: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    finished = kafkalog("plan", torn, "--copy", tmp_path / "empty", *SETTINGS)
    assert finished.code == 64
    assert "cannot be a copy: it holds no partition" in one_sentence(finished)


def test_a_cut_below_the_high_watermark_is_said(torn: Path) -> None:
    plan = json.loads(kafkalog("plan", "--json", torn, *SETTINGS).out)["partitions"][0]
    topic, _, number = plan["name"].rpartition("-")
    for watermark, below in ((plan["log_end_offset"], False), (plan["log_end_offset"] + 1, True)):
        (torn / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} {number} {watermark}\n")
        told = json.loads(kafkalog("plan", "--json", torn, *SETTINGS).out)["partitions"][0]
        assert told["high_watermark"] == watermark
        assert told["below_high_watermark"] is below
        assert ("committed records are lost" in kafkalog("plan", torn, *SETTINGS).out) is below


def test_a_refusal_has_its_report(tmp_path: Path) -> None:
    case = next(each for each in recovery_cases() if each.outcome == "start_fails")
    root = case.unpack_before(tmp_path / "logs")
    before = stamps(root)
    settings = [f"--config={name}={value}" for name, value in given(case)["config"].items()]
    finished = kafkalog("recover", "--yes", "--json", "--mode", "kafka", *settings, root)
    assert finished.code == 3
    one_sentence(finished)
    report = json.loads(finished.out)
    assert (report["changed"], report["run_id"]) == (False, None)
    assert report["broker"]["outcome"] == "start_fails"
    assert report["broker"]["exception"] == case.case["result"]["exception"]["class"]
    assert stamps(root) == before


def test_without_yes_and_without_a_terminal_nothing_happens(torn: Path) -> None:
    before = stamps(torn)
    finished = kafkalog("recover", torn)
    assert finished.code == 3
    assert "--yes" in one_sentence(finished)
    assert stamps(torn) == before
    assert "no run on" in one_sentence(kafkalog("undo", torn)), "nobody is asked where there is nothing to undo"
    assert kafkalog("recover", "--yes", torn).code == 2
    before = stamps(torn)
    assert "--yes" in one_sentence(kafkalog("undo", torn))
    assert stamps(torn) == before


def test_where_kafka_would_not_start_it_says_so_and_changes_nothing(tmp_path: Path) -> None:
    case = next(case for case in recovery_cases(["control"]) if case.outcome == "start_fails")
    root = case.unpack_before(tmp_path / "logs")
    before = stamps(root)
    finished = kafkalog("recover", "--yes", "--mode", "kafka", root, *SETTINGS)
    assert finished.code == 3
    assert case.case["result"]["exception"]["class"] in one_sentence(finished)
    assert stamps(root) == before


COMMANDS = (
    ("ls",),
    ("dump",),
    ("verify",),
    ("plan", "--mode", "kafka"),
    ("recover", "--yes", "--mode", "kafka"),
    ("undo", "--yes"),
    ("runs",),
    ("runs", "--purge-older-than", "0", "--yes"),
    ("undelete",),
    ("undelete", "--topic", "t", "--yes"),
)


def bad_path(kind: str, tmp_path: Path) -> Path:
    path = tmp_path / kind
    if kind == "file":
        path.write_text("hello")
    elif kind != "missing":
        path.mkdir()
        if kind == "foreign":
            (path / "holiday").mkdir()
            (path / "holiday" / "beach.jpg").write_bytes(b"\xff\xd8")
            (path / "notes.txt").write_text("hello")
    return path


@pytest.mark.parametrize("kind", ["missing", "file", "empty", "foreign"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_path_that_is_no_log_directory(command: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    path = bad_path(kind, tmp_path)
    before = stamps(tmp_path)
    finished = kafkalog(*command, path)
    assert finished.code == (3 if command[0] == "undo" and kind in ("empty", "foreign") else 64)
    assert str(path) in one_sentence(finished)
    assert stamps(tmp_path) == before


def test_a_locked_directory_is_refused(torn: Path) -> None:
    program = (
        "import fcntl, sys, time; held = open(sys.argv[1], 'w'); fcntl.lockf(held, fcntl.LOCK_EX);"
        "print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program, str(torn / ".lock")], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        before = stamps(torn)
        for command in (("recover", "--yes"), ("undo", "--yes")):
            finished = kafkalog(*command, torn)
            assert finished.code == 3
            assert "locked" in one_sentence(finished)
        assert stamps(torn) == before
        assert kafkalog("verify", torn).code == 1  # reading needs no lock
    finally:
        holder.kill()
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


def last_log(root: Path) -> Path:
    return max(path for path in root.glob("t-0/*.log") if path.stat().st_size)


def replace_last_batch(log: Path, payload: bytes, attributes: int) -> int:
    """Give the last batch other record bytes and a checksum that fits; its position."""
    data = log.read_bytes()
    position = 0
    while (end := position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")) < len(data):
        position = end
    header = dict(zip(BATCH.names, BATCH.struct.unpack_from(data, position), strict=True))
    header["batch_length"] = BATCH.size - 12 + len(payload)
    header["attributes"] = attributes
    header["crc"] = 0
    batch = bytearray(BATCH.struct.pack(*header.values()) + payload)
    batch[17:21] = crc32c(bytes(batch[BATCH_CRC_START:])).to_bytes(4, "big")
    log.write_bytes(data[:position] + batch)
    return position


def test_a_gzip_batch_whose_stream_is_cut(tmp_path: Path) -> None:
    root = recovery_case("undamaged/crash-single").unpack_before(tmp_path / "logs")
    log = last_log(root)
    replace_last_batch(log, gzip.compress(bytes(200))[:-12], attributes=1)
    before = stamps(root)
    finished = kafkalog("dump", root)
    assert finished.code == 1
    told, seek = finished.err.splitlines()
    assert told.startswith("kafkalog: error: decompression_failed")
    assert str(log) in told
    assert "--reset-offsets --to-offset 27 --execute" in seek
    assert "decompression_failed" in kafkalog("verify", root).err
    assert stamps(root) == before


def test_a_batch_that_claims_two_gibibytes(tmp_path: Path) -> None:
    root = recovery_case("undamaged/crash-single").unpack_before(tmp_path / "logs")
    log = last_log(root)
    with log.open("ab") as file:
        file.write(BATCH.struct.pack(27, 2**31 - 1, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 2**31 - 1) + b"x" * 10)
    before = stamps(root)
    finished = kafkalog("verify", root)
    assert finished.code == 1
    assert "torn_tail" in finished.err
    assert "2147483659 bytes" in finished.err
    assert stamps(root) == before
    assert kafkalog("recover", "--yes", root, *SETTINGS).code == 2
    assert log.stat().st_size == before["t-0/" + log.name][0] or "torn_tail" not in kafkalog("verify", root).err


def test_a_hard_linked_log_is_not_cut(torn: Path, tmp_path: Path) -> None:
    log = last_log(torn)
    (tmp_path / "backup").hardlink_to(log)
    before = stamps(torn)
    finished = kafkalog("recover", "--yes", torn, *SETTINGS)
    assert finished.code == 3
    assert "hard links" in one_sentence(finished)
    assert stamps(torn) == before


def test_a_quarantine_elsewhere_is_found_again(torn: Path, tmp_path: Path) -> None:
    before = stamps(torn)
    elsewhere = tmp_path / "elsewhere"
    assert kafkalog("recover", "--yes", "--quarantine", elsewhere, torn, *SETTINGS).code == 2
    assert not (tmp_path / "logs.recovery").exists()
    assert list(elsewhere.iterdir())
    assert kafkalog("undo", "--yes", torn).code == 2
    assert stamps(torn) == before
    inside = kafkalog("recover", "--yes", "--quarantine", torn / "saved", torn, *SETTINGS)
    assert inside.code == 3
    assert "inside the log directory" in one_sentence(inside)


def test_undo_declines_where_a_file_changed_since(torn: Path) -> None:
    assert kafkalog("recover", "--yes", torn, *SETTINGS).code == 2
    with last_log(torn).open("ab") as file:
        file.write(b"appended")
    finished = kafkalog("undo", "--yes", torn)
    assert finished.code == 3
    assert last_log(torn).name in one_sentence(finished)


@pytest.mark.parametrize("bad", [("--config", "segment.bytes"), ("--config", "no.such=1"), ("--mode", "magic")])
def test_options_that_cannot_be_meant(bad: tuple[str, str], torn: Path) -> None:
    finished = kafkalog("plan", torn, *bad)
    assert finished.code == 64
    one_sentence(finished)


def test_the_lock_is_the_one_a_broker_takes(torn: Path) -> None:
    """flock is another lock: a holder of it does not keep recovery from working."""
    with (torn / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert kafkalog("recover", "--yes", torn, *SETTINGS).code == 2


def test_recovering_a_copy_leaves_the_original_alone(torn: Path, tmp_path: Path) -> None:
    before = stamps(torn)
    copy = tmp_path / "copy"
    finished = kafkalog("recover", "--yes", "--into", copy, torn, *SETTINGS)
    assert finished.code == 0
    assert stamps(torn) == before
    assert "torn_tail" in kafkalog("verify", torn).err
    assert "torn_tail" not in kafkalog("verify", copy).err
    assert kafkalog("recover", "--yes", "--into", copy, torn, *SETTINGS).code == 64  # it is there already
    assert kafkalog("recover", "--yes", "--into", torn / "inside", torn, *SETTINGS).code == 64


def test_several_directories_at_once(torn: Path, tmp_path: Path) -> None:
    other = recovery_cases(["torn_tail"])[1].unpack_before(tmp_path / "other")
    before = stamps(torn), stamps(other)
    refused = kafkalog("recover", "--yes", torn, other, *SETTINGS)
    assert refused.code == 3
    assert str(torn) in refused.err
    assert str(other) in refused.err
    assert (stamps(torn), stamps(other)) == before
    (other / "t-0").rename(other / "u-0")
    finished = kafkalog("recover", "--yes", "--json", torn, other, *SETTINGS)
    assert finished.code == 2
    assert [json.loads(line)["changed"] for line in finished.out.splitlines()] == [True, True]


def test_settings_of_the_broker(torn: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.index.size.max.bytes=1536\nlog.index.interval.bytes=256\nnum.io.threads=8\n")
    given = ("--server-properties", str(properties), "--at", "1700000100000")
    first = kafkalog("plan", "--json", torn, *given)
    second = kafkalog("plan", "--json", torn, *SETTINGS)
    plans = [json.loads(each.out) for each in (first, second)]
    for each in plans:
        each["broker"].pop("node")  # which the node's own properties tell more of
    assert plans[0] == plans[1]
    assert kafkalog("plan", torn, "--server-properties", tmp_path / "missing").code == 64


def test_a_clean_marker_on_request_only_and_last(torn: Path) -> None:
    before = stamps(torn)
    marker = torn / ".kafka_cleanshutdown"
    assert kafkalog("recover", "--yes", torn, *SETTINGS).code == 2
    assert not marker.exists()
    assert kafkalog("undo", "--yes", torn).code == 2
    assert kafkalog("recover", "--yes", "--mark-clean", torn, *SETTINGS).code == 2
    assert marker.read_text() == '{"version":0,"brokerEpoch":-1}'
    planned = json.loads(kafkalog("plan", "--json", "--mode", "kafka", torn, *SETTINGS).out)
    assert planned["broker"]["clean_shutdown"]
    assert not planned["changes"]
    assert kafkalog("undo", "--yes", torn).code == 2
    assert stamps(torn) == before
    assert kafkalog("recover", "--yes", "--mark-clean", "--mode", "kafka", torn, *SETTINGS).code == 3


def test_indexes_made_anew_are_those_of_a_full_scan(tmp_path: Path) -> None:
    root = recovery_case("undamaged/full-scan-plain").unpack_before(tmp_path / "logs")
    kafkalog("recover", "--yes", "--full", root, *SETTINGS)
    want = {path.name: path.read_bytes() for path in root.glob("t-0/*index")}
    assert kafkalog("index", "verify", root).code == 0
    for number, path in enumerate(sorted(root.glob("t-0/*index"))):
        if number % 2:
            path.write_bytes(b"\x01" * 24)
        else:
            path.unlink()
    damaged = stamps(root)
    checked = kafkalog("index", "verify", root)
    assert checked.code == 1
    assert "index_missing" in checked.err
    assert kafkalog("index", "rebuild", root, *SETTINGS).code == 3
    assert stamps(root) == damaged
    assert kafkalog("index", "rebuild", "--yes", root, *SETTINGS).code == 2
    assert {path.name: path.read_bytes() for path in root.glob("t-0/*index")} == want
    assert kafkalog("index", "verify", root).code == 0
    assert kafkalog("undo", "--yes", root).code == 2
    assert stamps(root) == damaged


def test_indexes_of_a_damaged_log_are_not_made_anew(torn: Path) -> None:
    before = stamps(torn)
    finished = kafkalog("index", "rebuild", "--yes", torn, *SETTINGS)
    assert finished.code == 3
    assert "recover the log first" in one_sentence(finished)
    assert stamps(torn) == before


def test_the_metadata_log_is_touched_only_on_request(tmp_path: Path) -> None:
    root = broker_case("4.1.1", "metadata").unpack(tmp_path / "unpacked")
    (broker,) = root.glob("broker-*")
    log = max(path for path in broker.glob("__cluster_metadata-0/*.log") if path.stat().st_size)
    data = log.read_bytes()
    log.write_bytes(data + b"\x01" * 40)
    before = stamps(broker / "__cluster_metadata-0")
    kafkalog("recover", "--yes", broker)
    assert stamps(broker / "__cluster_metadata-0") == before
    assert kafkalog("recover", "--yes", "--cluster-metadata", broker).code == 2
    assert log.read_bytes() == data
    assert not [line for line in kafkalog("verify", broker).err.splitlines() if "__cluster_metadata" in line]
    assert kafkalog("undo", "--yes", broker).code == 2
    assert stamps(broker / "__cluster_metadata-0") == before


@pytest.mark.parametrize("yes", [(), ("--yes",)], ids=["asked", "--yes"])
def test_whoever_declines_says_the_same_in_json(yes: tuple[str, ...], torn: Path, tmp_path: Path) -> None:
    """For want of consent, of a mode that may do it, of a terminal to ask on: the keys of a recovery that acted."""
    case = recovery_case("random_mix/025")
    damaged = case.unpack_before(tmp_path / "damaged")
    (torn / "t-0").rename(torn / "u-0")
    config = [word for name, value in given(case)["config"].items() for word in ("--config", f"{name}={value}")]
    words = [*config, "--at", "1700000100000", *yes]
    before = [stamps(torn), stamps(damaged)]
    declined = [
        kafkalog("recover", "--json", damaged, *words),
        kafkalog("recover", "--json", "--mode", "strict", damaged, *words),
        kafkalog("recover", "--json", torn, damaged, *words),
    ]
    if not yes:
        declined.append(kafkalog("recover", "--json", torn, *words))
    assert [each.code for each in declined] == [3] * len(declined)
    assert [stamps(torn), stamps(damaged)] == before
    keys = set(kafkalog("recover", "--json", "--yes", torn, *SETTINGS).objects[0])
    assert {"changed", "run_id", "ways", "recommended", "broker", "partitions"} <= keys
    for finished in declined:
        for line in finished.objects:
            assert set(line) == keys
            assert (line["changed"], line["run_id"]) == (False, None)
    paths = [[line["path"] for line in finished.objects] for finished in declined]
    assert paths[:3] == [[str(damaged)], [str(damaged)], [str(torn), str(damaged)]]


def test_index_rebuild_says_that_the_metadata_log_is_left_out(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    index = root / "__cluster_metadata-0" / f"{0:020d}.index"
    index.write_bytes(b"\1" * 8)
    assert kafkalog("index", "verify", root).code == 1
    left_out = kafkalog("index", "rebuild", "--yes", root)
    assert "__cluster_metadata-0 was left out" in left_out.err
    assert "--cluster-metadata" in left_out.err
    assert kafkalog("index", "verify", root).code == 1
    assert kafkalog("index", "rebuild", "--yes", "--cluster-metadata", root).err == ""
    assert kafkalog("index", "verify", root).code == 0


def test_after_a_recovery_a_later_release_that_refuses_a_setting_is_named(tmp_path: Path) -> None:
    """Kafka 4.1.0 did not start on a directory of 3.9.1 that was recovered, and 3.9.1 did."""
    root = own_copy(brokers("3.9.1/metadata")[0], tmp_path / "data")
    log = max(path for path in (root / "__cluster_metadata-0").glob("*.log") if path.stat().st_size)
    fields = {"resource_type": 2, "resource_name": "alerts-1", "name": "segment.bytes", "value": "500000"}
    append_metadata(log, ("ConfigRecord", 0, fields))
    (root / ".kafka_cleanshutdown").unlink()
    done = kafkalog("recover", "--yes", root)
    assert done.code == 2
    words = "a broker changes nothing in these logs, but Kafka 3.9 would start on it"
    said = " ".join(done.out.split())
    assert words in said
    assert "Kafka 4.0 and later would NOT START on it" in said.partition(words)[2]
