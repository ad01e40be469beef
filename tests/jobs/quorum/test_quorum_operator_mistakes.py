"""What a careless operator gives `quorum show` and `quorum recover`: said in one sentence, and nothing is changed."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.quorum import read_quorum
from kafkalog.cluster.kraft.quorum_log import read_quorum_log
from kafkalog.codec.common.findings import Severity
from kafkalog.codec.encode.batch import build_control_batch
from kafkalog.codec.files.kraft import KRaftVoters, encode_kraft_value
from kafkalog.codec.names import kraft_snapshot_file
from kafkalog.codec.parsing.properties import parse_properties
from kafkalog.log import open_segment
from kafkalog.log.disk.pointer import JOURNAL, POINTER, Pointer
from testkit.judging.trees import first_difference, stamps
from testkit.made.batches import fix_crc
from testkit.recorded.quorums import BROKER, METADATA, copied, flip, last_log, node, tear
from testkit.running.command import Finished, kafkalog

GONE = ("--others-are-gone", "--yes")


def recover(*words: object) -> Finished:
    return kafkalog("quorum", "recover", *words)


def said(place: Path, *words: object, code: int) -> str:
    """The sentence of a refusal; it is the same in JSON, and nothing is changed."""
    before = stamps(place)
    finished = recover(*words)
    assert finished.code == code, (finished.code, finished.err, finished.out)
    assert finished.err.count("\n") == 1, finished.err
    assert "None" not in finished.err
    assert "unexpected" not in finished.err
    told = recover(*words, "--json")
    assert told.code == code
    (line,) = told.objects
    assert finished.err == f"kafkalog: {line.get('refusal', line.get('error'))}\n"
    assert first_difference(dict(stamps(place)), dict(before)) == ""
    return finished.err


def meta(directory: Path, name: str, value: str | None) -> None:
    """Change one line of `meta.properties`, or take it out."""
    path = directory / "meta.properties"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}=")]
    path.write_text("\n".join([*lines, *([] if value is None else [f"{name}={value}"])]) + "\n")


def ids(directory: Path) -> dict[str, str]:
    return parse_properties((directory / "meta.properties").read_text())


def forge(directory: Path) -> int:
    """Another time in a batch in the middle, with the right checksum; gives its offset."""
    log = last_log(directory)
    batches = [*open_segment(log).batches()]
    batch, data = batches[len(batches) // 2], bytearray(log.read_bytes())
    one = bytearray(data[batch.position : batch.position + batch.size])
    one[34] ^= 1  # the last byte of base_timestamp
    data[batch.position : batch.position + batch.size] = fix_crc(bytes(one))
    log.write_bytes(bytes(data))
    offset: int = batch.header.base_offset
    return offset


# --- options


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--standalone", "{1}", "--standalone", "{2}"), "--standalone is given 2 times"),
        (("--standalone", "{1}", "--node", "7"), "--node is for the controller that --from-broker makes"),
        (("--standalone", "{1}", "--into", "new"), "--into is for the controller that --from-broker makes"),
        (("{1}", "{2}", "--into", "new"), "--into is for the controller that --from-broker makes"),
        (("--standalone", "{1}", "--config", "nonsense"), "needs NAME=VALUE"),
        (("--standalone", "{1}", "--config", "nonsense=1"), "'nonsense' is not a setting"),
        (("--standalone", "{1}", "--config", "log.retention.ms=soon"), "is not a whole number of 64 bits"),
        (("--standalone", "{1}", "--config", "log.retention.hours=4294967296"), "is not a whole number of 32 bits"),
        (("--standalone", "{1}", "--config", "log.cleanup.policy=burn"), "is not delete, compact or both"),
        (
            ("--standalone", "{1}", "--config", "log.retention.ms=1", "--config", "log.retention.ms=2"),
            "log.retention.ms is given 2 times",
        ),
        (("--standalone", "{1}", "--quarantine", ""), "--quarantine is empty"),
        (("--standalone", "{1}", "--listener", ""), "--listener is empty"),
        (("--standalone", "{1}", "--listener", "A,B://x"), "is not the name of a listener"),
        (("--standalone", ""), "--standalone is empty"),
        (("--standalone", "{1}", ""), "PATH is empty"),
        (("--standalone", "{1}", "--broker", ""), "--broker is empty"),
        (("--standalone", "{1}", "--at", "-1h", "--at", "-2h"), "--at is given 2 times"),
        (("{1}", "--voters", "1@a:1,1@b:2"), "two endpoints are given for controller 1"),
        (("{1}", "--endpoint", "1=a:1", "--endpoint", "1=a:1"), "two endpoints are given for controller 1"),
        (
            ("--from-broker", "{11}", "--node", "9", "--endpoint", "h:1", "--into", "a,b"),
            "has a comma in its name, which Kafka takes for two",
        ),
        (
            ("--from-broker", "{11}", "--node", "9", "--endpoint", "h:1", "--into", "l\udce9on"),
            "is not UTF-8, so that Kafka cannot open it",
        ),
        (
            ("--from-broker", "{11}", "--node", "9", "--endpoint", "h:1", "--into", "new", "--quarantine", "q"),
            "leave --quarantine out",
        ),
        (("--standalone", "{1}", "--properties", "{1}/bootstrap.checkpoint"), "sets no node.id"),
        (("--standalone", "{1}", "--properties", "far.properties"), "far.properties sets no node.id"),
        (("--standalone", "{1}/meta.properties"), "is not a directory"),
        (("--standalone", "{1}", "--node", "-1"), "not a whole number"),
    ],
    ids=lambda value: " ".join(value)[:60].replace("\udce9", "e") if isinstance(value, tuple) else "",
)
def test_options_that_make_no_sense(
    words: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = copied("dynamic", tmp_path, 1, 2, BROKER)
    monkeypatch.chdir(tmp_path)
    Path("far.properties").write_text(f"node.id={'9' * 5000}\n")
    given = [_filled(word, at) for word in words]
    assert sentence in said(tmp_path, *given, *GONE, code=64)


def _filled(word: str, at: dict[int, Path]) -> str:
    return re.sub(r"\{(\d+)\}", lambda found: str(at[int(found[1])]), word)


def test_a_properties_file_of_somebody_else(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    path = tmp_path / "server.properties"
    path.write_text("node.id=77\n")
    told = said(tmp_path, "--standalone", at[1], "--properties", path, *GONE, code=3)
    assert "a file of node 77, which is not one of the new quorum" in told


@pytest.mark.parametrize(
    "words",
    [("quorum", "show", ""), ("undo", ""), ("undo", "{1}", "--run", "")],
)
def test_nothing_empty(words: tuple[str, ...], tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    finished = kafkalog(*[_filled(word, at) for word in words], "--json")
    assert finished.code == 64
    assert finished.objects == [{"error": finished.err.removeprefix("kafkalog: ").strip(), "exit_code": 64}]


# --- lines to set


def _own_lines(finished: Finished, who: str) -> list[str]:
    (lines,) = (each["lines"] for each in finished.objects[0]["configuration"] if each["for"] == who)
    return list(lines)


def test_other_listeners_of_a_combined_node_stay(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://:9092, CONTROLLER://old:9093 ,SSL://:9094\n"
        "advertised.listeners=PLAINTEXT://public:9092,CONTROLLER://old:9093\ncontroller.quorum.voters=1@old:9093\n"
    )
    words = ("--standalone", at[1], "--endpoint", "1=new:9093", "--dry-run", "--others-are-gone", "--json")
    finished = recover(*words, "--properties", path)
    assert finished.code == 0, finished.err
    assert _own_lines(finished, "controller 1") == [
        "listeners=PLAINTEXT://:9092,CONTROLLER://new:9093,SSL://:9094",
        "advertised.listeners=PLAINTEXT://public:9092,CONTROLLER://new:9093",
    ]
    everybody = "every controller and broker, in place of controller.quorum.voters"
    assert _own_lines(finished, everybody) == ["controller.quorum.bootstrap.servers=new:9093"]
    assert _own_lines(recover(*words), "controller 1") == ["listeners=CONTROLLER://new:9093"]


def test_a_path_is_printed_as_properties_have_it(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, BROKER)
    into = tmp_path / "lé\\on"
    finished = recover(
        "--from-broker", at[BROKER], "--node", 9, "--endpoint", "h:1", "--into", into, "--dry-run", "--others-are-gone",
        "--json",
    )  # fmt: skip
    assert finished.code == 0, finished.err
    (line,) = (each for each in _own_lines(finished, "controller 9") if each.startswith("log.dirs="))
    assert parse_properties(line) == {"log.dirs": str(into)}
    assert line.isascii()


# --- copies that no quorum wrote


def test_two_copies_that_differ_within_an_epoch(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2, BROKER)
    offset = forge(at[1])
    (found,) = read_quorum(at[1], at[2])
    assert not found.has_majority
    assert "nothing is certain" in found.loss()
    (contradicting,) = [each for each in found.survivors if each.contradicts is not None]
    assert contradicting.contradicts == (offset, 1)
    shown = kafkalog("quorum", "show", at[1], at[2])
    assert shown.code == 1
    assert "contradicts" in shown.out
    assert "deposed" not in shown.err + shown.out
    told = said(tmp_path, "--standalone", at[1], at[2], *GONE, code=3)
    assert str(at[1]) in told
    assert str(at[2]) in told
    assert f"at offset {offset} of the same epoch 1" in told
    (found,) = read_quorum(at[1], at[2], at[BROKER])
    assert found.survivors[-1].log.node == 1, "two that are alike were there before the one that is not"


# --- wrong identities


def test_another_directory_id_than_the_voter_has(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    old = ids(at[1])["directory.id"]
    meta(at[1], "directory.id", "KBeF-DP8TEu5yBtxn69_Fg")
    shown = kafkalog("quorum", "show", at[1])
    assert shown.code == 1
    assert f"put directory.id={old} back" in shown.err
    finished = recover("--standalone", at[1], "--json", *GONE)
    assert finished.code == 2, finished.err
    (line,) = finished.objects
    assert line["stay_dead"] == [2, 3], "the one that goes on is to be started"
    assert any(f"1 on the disk with directory.id {old}" in each for each in line["warnings"])
    assert read_quorum_log(at[1]).is_voter


def test_the_node_id_of_another(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2)
    meta(at[1], "node.id", "2")
    assert "as node 1" in kafkalog("quorum", "show", at[1]).err
    assert "put node.id=1 back" in said(tmp_path, "--standalone", at[1], *GONE, code=3)
    assert "the same node.id as" in kafkalog("quorum", "show", at[1], at[2]).err
    meta(at[1], "node.id", "77")
    meta(at[1], "directory.id", "KBeF-DP8TEu5yBtxn69_Fg")
    assert "neither a controller nor a broker" in said(tmp_path, "--standalone", at[1], *GONE, code=3)


def test_a_brokers_directory_with_the_node_id_of_a_controller(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, BROKER)
    meta(at[BROKER], "node.id", "3")
    into = ("--node", 9, "--endpoint", "h:1", "--into", tmp_path / "new")
    for words in (("--standalone", at[BROKER]), ("--from-broker", at[BROKER], *into)):
        assert f"put node.id={BROKER} back" in said(tmp_path, *words, *GONE, code=3)


def test_a_directory_id_that_kafka_keeps_for_itself(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    meta(at[1], "directory.id", "AAAAAAAAAAAAAAAAAAAAAA")
    assert "which is reserved" in kafkalog("quorum", "show", at[1]).err
    said(tmp_path, "--standalone", at[1], *GONE, code=3)


def test_two_directories_with_one_directory_id(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, 2)
    meta(at[2], "directory.id", ids(at[1])["directory.id"])
    assert "the same directory.id as" in kafkalog("quorum", "show", at[1], at[2]).err
    words = ("--endpoint", "1=a:1", "--endpoint", "2=b:1", at[1], at[2])
    assert "put node.id=1 back" in said(tmp_path, *words, *GONE, code=3)
    meta(at[2], "node.id", "1")
    meta(at[2], "directory.id", ids(node("dynamic", 2))["directory.id"])
    assert "put node.id=2 back" in said(tmp_path, at[1], at[2], *GONE, code=3)


@pytest.mark.parametrize("name", ["directory.id", "node.id", "cluster.id"])
@pytest.mark.parametrize("value", ["ü!!", "x" * 5000, "", "-1", None])
def test_an_identity_that_is_none(name: str, value: str | None, tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, BROKER)
    meta(at[1], name, value)
    meta(at[BROKER], name, value)
    shown = kafkalog("quorum", "show", at[1])
    assert shown.code in (0, 1)
    assert "unexpected" not in shown.err
    into = ("--node", 9, "--endpoint", "h:1", "--into", tmp_path / "new")
    for words in (("--standalone", at[1]), ("--from-broker", at[BROKER], *into)):
        finished = recover(*words, "--dry-run", "--others-are-gone", "--json")
        assert finished.code in (0, 3), finished.err
        assert "None" not in finished.err
        assert len(finished.err) < 1000
        assert "unexpected" not in finished.err
        assert finished.code == 0 or "meta.properties" in finished.err or "cluster" in finished.err


def test_a_half_changed_copy_is_no_source(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, BROKER)
    run = "20260101T000000.000000Z-00000000"
    (at[BROKER] / POINTER).write_bytes(Pointer("0" * 32, at_work=(run,)).encode())
    kept = Path(f"{at[BROKER]}.recovery") / run
    kept.mkdir(parents=True)
    (kept / JOURNAL).write_text('{"version": 3}')
    before = stamps(at[1])
    done = kafkalog("quorum", "recover", "--standalone", at[1], "--broker", at[BROKER], "--others-are-gone", "--yes")
    assert (done.code, run in done.err) == (3, True), done.err
    assert stamps(at[1]) == before


# --- snapshots, as a start judges them


def snapshot_of(directory: Path) -> Path:
    return max((directory / METADATA).glob("*.checkpoint"))


def stray(directory: Path, end: int, epoch: int, source: Path | None = None) -> Path:
    """A snapshot under another name."""
    path = directory / METADATA / kraft_snapshot_file(end, epoch)
    shutil.copyfile(source or snapshot_of(directory), path)
    return path


@pytest.mark.parametrize(("ahead", "later"), [(1_000_000, 0), (0, 5), (1_000_000, 5), (1_000_000, -1)])
def test_a_stray_snapshot_is_not_believed(ahead: int, later: int, tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    before = read_quorum_log(at[1])
    epoch = before.epoch + later
    path = stray(at[1], before.end + ahead, epoch)
    found = read_quorum_log(at[1])
    assert found.position == before.position
    assert found.voters == before.voters
    shown = kafkalog("quorum", "show", at[1])
    assert shown.code == 1
    assert "cannot be a snapshot of the log beside it" in shown.err
    starts_not = "does not start" in shown.out or "no node starts" in shown.out
    assert starts_not is (later >= 0), "an earlier epoch is not the newest"
    finished = recover("--standalone", at[1], "--json", *GONE)
    assert finished.code == 2, finished.err
    assert any("cannot be of this log" in each for each in finished.objects[0]["warnings"])
    after = read_quorum_log(at[1])
    assert not path.exists()
    assert after.end == before.end + 1
    assert after.findings == []


def test_an_empty_snapshot_ahead_of_the_log(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    before = read_quorum_log(at[1])
    (at[1] / METADATA / kraft_snapshot_file(before.end + 10, before.epoch)).touch()
    found = read_quorum_log(at[1])
    assert "after it has deleted the log" in (found.refusal or "")
    assert found.position == before.position
    assert kafkalog("quorum", "show", at[1]).code == 1
    assert recover("--standalone", at[1], *GONE).code == 2
    assert read_quorum_log(at[1]).end == before.end + 1


def test_a_snapshot_from_the_leader_that_goes_further_than_the_log(tmp_path: Path) -> None:
    """A follower was killed between the download and the truncation: a start goes on from the snapshot alone."""
    at = copied("snapshots", tmp_path, 1, 2)
    whole = read_quorum_log(at[1])
    newest = whole.newest_snapshot
    assert newest is not None
    for path in sorted((at[1] / METADATA).glob("*.log"))[1:]:
        path.unlink()
    older = sorted((at[1] / METADATA).glob("*.checkpoint"))
    for path in older[:-1]:
        if int(path.name[:20]) != whole.start:
            path.unlink()
    found = read_quorum_log(at[1])
    assert found.log_end[1] < newest.end
    assert found.drops_log
    assert found.refusal is None
    assert found.position == newest.position
    assert found.voters == newest.voters
    assert "begins a new one after the snapshot" in kafkalog("quorum", "show", at[1]).err
    (both,) = read_quorum(at[1], at[2])
    assert both.survivors[-1].log.node == 1
    assert both.survivors[-1].common_end == newest.end
    finished = recover("--standalone", at[1], "--json", *GONE)
    assert finished.code == 2, finished.err
    after = read_quorum_log(at[1])
    assert after.position == (whole.latest_epoch + 1, newest.end + 1)
    assert all(each.severity is Severity.INFO for each in after.findings), "older snapshots go at a start"
    assert after.start == newest.end
    assert kafkalog("undo", "--yes", at[1]).code == 2


def test_a_snapshot_that_ends_before_the_log_begins_is_nothing(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    start = read_quorum_log(at[1]).start
    (at[1] / METADATA / kraft_snapshot_file(start - 1, 1)).write_bytes(b"damaged")
    found = read_quorum_log(at[1])
    assert found.refusal is None
    assert kafkalog("quorum", "show", at[1]).code == 0


# --- another log


def test_a_data_partition_under_the_name_of_the_metadata(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, BROKER)
    shutil.rmtree(at[1] / METADATA)
    shutil.copytree(at[BROKER] / "orders-0", at[1] / METADATA)
    assert "is a partition of another topic" in said(tmp_path, "--standalone", at[1], *GONE, code=64)
    (at[1] / METADATA / "partition.metadata").unlink()
    assert "holds other records than those of the cluster's metadata" in said(
        tmp_path, "--standalone", at[1], *GONE, code=64
    )
    assert kafkalog("quorum", "show", at[1]).code == 64


# --- nothing needs doing


def test_a_quorum_of_one_needs_nothing(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    log = read_quorum_log(at[1])
    only = tuple(each for each in log.voters if each.voter_id == 1)
    with last_log(at[1]).open("ab") as file:
        value = encode_kraft_value(KRaftVoters(0, only))
        file.write(build_control_batch([value], base_offset=log.end, timestamp=1, partition_leader_epoch=log.epoch))
    before = stamps(at[1])
    for words in (("--standalone", at[1]), (at[1],)):
        finished = recover(*words, "--yes")
        assert finished.code == 0, finished.err
        assert "nothing needs doing: controller 1 is the only voter" in finished.out
        (line,) = recover(*words, "--yes", "--json").objects
        assert line["needless"] in finished.out
        assert line["changed"] is False
        assert (line["warnings"], line["stay_dead"]) == ([], [])
        (told,) = line["configuration"]
        assert told["lines"][0].startswith("controller.quorum.bootstrap.servers=127.0.0.1:")
    assert first_difference(dict(stamps(at[1])), dict(before)) == ""
    assert recover("--standalone", at[1], "--endpoint", "1=moved:1", "--yes").code == 2


@pytest.mark.parametrize("name", ["dynamic", "static"])
def test_a_majority_needs_nothing(name: str, tmp_path: Path) -> None:
    at = copied(name, tmp_path, 1, 2)
    before = stamps(tmp_path)
    finished = recover(at[1], at[2], *GONE)
    assert finished.code == 0, finished.err
    assert "nothing needs doing: controllers 1, 2 are a majority of 3 voters" in finished.out
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


# --- show


def test_one_bad_path_does_not_spoil_the_others(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1, BROKER)
    (tmp_path / "file").write_text("")
    bad = [tmp_path / "nowhere", tmp_path / "file", at[BROKER] / "orders-0"]
    finished = kafkalog("quorum", "show", *bad, at[1])
    assert finished.code == 1
    assert "the log of node 1" in finished.out or "node 1" in finished.out
    for path in bad:
        assert f"left out: {path}" in finished.err
    lines = kafkalog("quorum", "show", "--json", *bad, at[1]).objects
    assert [each["kind"] for each in lines] == ["survivor", "quorum", "left_out", "left_out", "left_out"]
    assert kafkalog("quorum", "show", *bad).code == 64


def test_a_symbolic_link_in_place_of_the_metadata(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    os.rename(at[1] / METADATA, tmp_path / "elsewhere")
    (at[1] / METADATA).symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in said(tmp_path, "--standalone", at[1], *GONE, code=64)


def test_what_does_not_start_is_a_finding(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    for path in (at[1] / METADATA).glob("*.checkpoint"):
        path.unlink()
    finished = kafkalog("quorum", "show", at[1])
    assert finished.code == 1
    assert "does not start" in finished.out
    last = finished.out.splitlines()[-1]
    assert last.startswith("no node starts on this copy as it is; it ends at offset ")
    assert last.endswith(", and has nothing that was committed after that")
    assert "--from-broker" in said(tmp_path, "--standalone", at[1], *GONE, code=3)


def test_all_snapshots_damaged(tmp_path: Path) -> None:
    at = copied("snapshots", tmp_path, 1)
    for path in (at[1] / METADATA).glob("*.checkpoint"):
        flip(path, path.stat().st_size // 2)
    assert "--from-broker" in said(tmp_path, "--standalone", at[1], *GONE, code=3)


def test_the_time_of_the_batch_is_the_clocks(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    assert recover("--standalone", at[1], "--at", "2100-01-01", *GONE).code == 2
    assert read_quorum_log(at[1]).last_time < 4_102_444_800_000


def test_leftovers_of_a_deletion_are_counted(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    for number in range(40):
        (at[1] / METADATA / f"{number:020}.log.deleted").touch()
    finished = recover("--standalone", at[1], "--dry-run", "--others-are-gone")
    assert finished.code == 0, finished.err
    assert finished.out.count(".log.deleted") <= 3


def test_one_record_is_one(tmp_path: Path) -> None:
    at = copied("dynamic", tmp_path, 1)
    tear(at[1])
    out = recover("--standalone", at[1], "--dry-run", "--others-are-gone").out
    assert not re.search(r"\b1 (records|bytes|changes|voters|segments|offsets)\b", out)


# --- every command


@pytest.mark.parametrize("command", ["ls", "verify", "dump", "plan", "compare", "offsets", "groups", "runs", "undo"])
@pytest.mark.parametrize("words", [("/no/such/place",), ("--nonsense", "."), ()], ids=["place", "option", "nothing"])
def test_a_usage_error_has_an_object(command: str, words: tuple[str, ...]) -> None:
    finished = kafkalog(command, "--json", *words)
    assert finished.code == 64
    assert finished.objects, command
    for line in finished.objects:
        told = line.get("error") or line.get("refusal")
        assert told
        assert told in finished.err
