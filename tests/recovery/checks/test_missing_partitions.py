"""A partition directory that is gone is told by every command alike; what explains it, and what does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.common.findings import FindingCode, FindingJson, Severity
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.log import open_all
from kafkalog.log.directories.directory import open_log_dir
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.checks.missing_partitions import missing_partitions_of
from kafkalog.recovery.checks.verify import verify
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.spark.contents_files import finding_places, finding_rows
from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

Found = list[tuple[str, str, str]]
VICTIM = "orders-23-0"
POINTS, WATERMARKS = "recovery-point-offset-checkpoint", "replication-offset-checkpoint"
METADATA = "__cluster_metadata-0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")


def answers(root: Path) -> dict[str, Found]:
    """What each command says is missing."""

    def of(rows: list[dict[str, object]]) -> Found:
        return [(str(each["severity"]), str(root / str(each["file"])), str(each["detail"])) for each in rows
                if each["code"] == FindingCode.PARTITION_MISSING]  # fmt: skip

    places = finding_places(open_all(root))
    return {
        "ls": of(kafkalog("ls", "--json", root).objects[0]["findings"]),
        "verify": of(plain(shaped(verify(root).findings, list[FindingJson]))),
        "plan": of(plain(shaped(plan(root)[0].findings, list[FindingJson]))),
        "spark": of([row for place in places for row in finding_rows(place)]),
    }


def a_file(path: Path) -> None:
    path.write_text("not a directory")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [None, a_file, a_link_to_nothing, a_link_to_itself])
def test_every_command_says_the_same(make: Callable[[Path], None] | None, root: Path) -> None:
    shutil.rmtree(root / VICTIM)
    if make is not None:
        make(root / VICTIM)
    found = answers(root)
    (row,) = found["verify"]
    severity, file, detail = row
    assert (severity, file) == (Severity.WARNING, str(root / VICTIM))
    assert POINTS in detail
    assert WATERMARKS in detail
    assert "the cluster metadata" in detail
    place = "there is no such directory" if make is None else "what is there is not a directory"
    assert f"name {VICTIM}, and {place}: it is lost, or it was not created yet, or deleted or moved" in detail
    assert found == {key: [row] for key in found}
    for command in ("ls", "verify", "plan"):
        finished = kafkalog(command, root)
        assert finished.code == 1
        assert str(FindingCode.PARTITION_MISSING) in finished.out + finished.err


@pytest.mark.parametrize("name", [POINTS, WATERMARKS, "log-start-offset-checkpoint", METADATA])
def test_each_of_them_is_enough(name: str, root: Path) -> None:
    shutil.rmtree(root / VICTIM)
    for other in (POINTS, WATERMARKS, "log-start-offset-checkpoint"):
        (root / other).write_text(f"0\n1\n{VICTIM[:-2]} 0 5\n" if other == name else "0\n0\n")
    if name != METADATA:
        shutil.rmtree(root / METADATA)
    ((_severity, _file, detail),) = answers(root)["plan"]
    assert ("the cluster metadata" if name == METADATA else name) in detail


@pytest.mark.parametrize("suffix", ["delete", "stray", "future"])
def test_a_directory_of_another_state_explains_it(suffix: str, root: Path) -> None:
    (root / VICTIM).rename(root / f"{VICTIM}.{'0' * 32}-{suffix}")
    assert not any(answers(root).values())


@pytest.mark.parametrize("name", [f"{VICTIM}.bak", f"{VICTIM}-old", "kept"])
def test_a_renamed_directory_is_put_back_before_a_recovery(name: str, root: Path) -> None:
    """4.1.1 did not start beside `plain-1.bak`. Once that was in quarantine, it made an empty `plain-1`."""
    (root / VICTIM).rename(root / name)
    found = answers(root)
    ((_severity, _file, detail),) = found["verify"]
    assert detail.endswith(f"; {name} looks like it, renamed")
    assert found == dict.fromkeys(found, found["verify"])
    before = stamps(root)
    printed = kafkalog("plan", root).out
    screen, _, rest = printed.partition("\n\n")
    move = f"mv {root / name} {root / VICTIM}"
    assert " ".join(screen.replace("\\\n", "").split()).endswith(
        f"{root / name} looks like {VICTIM}, which is missing: type this first, and then ask again: {move}"
    )
    assert "loses nothing" not in printed
    assert f"({name}): a directory that is not a partition stops a broker from starting; it looks like {VICTIM}" in (
        " ".join(rest.split())
    )
    refused = kafkalog("recover", "--yes", root)
    assert refused.code == 3
    assert move in refused.err
    assert stamps(root) == before
    told = kafkalog("report", "--format", "text", "-o", "-", root).out
    assert f"unless {root / name} is {VICTIM}, renamed" in " ".join(told.split())
    shutil.copytree(root, root.parent / "copy")
    kafkalog("recover", "--yes", "--accept-loss", root.parent / "copy")
    assert not (root.parent / "copy" / name).exists()
    (root / name).rename(root / VICTIM)
    assert not any(answers(root).values())


@pytest.mark.parametrize("is_of_topic", [True, False])
def test_a_copy_of_a_missing_partition_is_put_in_before_a_recovery(is_of_topic: bool, root: Path) -> None:
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    shutil.rmtree(root / VICTIM)
    if not is_of_topic:
        (copy / VICTIM / "partition.metadata").write_text("version: 0\ntopic_id: bbbbbbbbbbbbbbbbbbbbbA\n")
    command = f"cp -a {copy / VICTIM} {root / VICTIM}"
    assert "cp -a" not in kafkalog("plan", root).out
    for given in (copy, copy / VICTIM):
        printed = kafkalog("plan", root, "--copy", given)
        screen, _, rest = (" ".join(part.replace("\\\n", "").split()) for part in printed.out.partition("\n\n"))
        named = f"there is a copy of {VICTIM}, missing here: type this while the broker is stopped, and then ask again:"
        assert screen.endswith(f"{named} {command}") is is_of_topic
        assert (f"a copy has {VICTIM}: {copy / VICTIM}" in rest) is is_of_topic
        assert (f"{copy / VICTIM} is not known to be of the same topic" in rest) is not is_of_topic
    if is_of_topic:
        shutil.copytree(copy / VICTIM, root / VICTIM)
        assert "there is a copy of" not in kafkalog("plan", root, "--copy", copy).out


def test_an_older_copy_of_the_transaction_state_is_advised_with_its_price(tmp_path: Path) -> None:
    """With the state of yesterday 4.1.1 refused an id (INVALID_PRODUCER_EPOCH), with an empty one served it."""
    root, copy = (own_copy(brokers("4.3.0/txn")[0], tmp_path / name) for name in ("root", "copy"))
    gone = min(path.name for path in root.glob("__transaction_state-*") if max(path.glob("*.log")).stat().st_size)
    other = next(path.name for path in sorted(root.glob("[a-z]*-*")) if max(path.glob("*.log")).stat().st_size)
    for name in (gone, other):
        shutil.rmtree(root / name)
    screen = " ".join(kafkalog("plan", root, "--copy", copy).out.partition("\n\n")[0].replace("\\\n", "").split())
    assert f"there are copies of {gone}, {other}, missing here: type these while the broker is stopped" in screen
    assert f"ask again; leave out an older {gone}, unless a transaction was open (runbook: backup):" in screen
    assert f"cp -a {copy / gone} {root / gone}" in screen


@pytest.mark.parametrize("change", ["id of another topic", "no log"])
def test_a_directory_that_is_something_else_is_not_taken_for_a_partition(change: str, root: Path) -> None:
    other = (root / VICTIM).rename(root / f"{VICTIM}.bak")
    if change == "no log":
        for log in other.glob("*.log"):
            log.unlink()
    else:
        (other / "partition.metadata").write_text("version: 0\ntopic_id: bbbbbbbbbbbbbbbbbbbbbA\n")
    ((_severity, _file, detail),) = answers(root)["plan"]
    assert "looks like" not in detail
    assert plan(root)[0].choice.renamed == ()


def test_a_log_that_is_a_dangling_link_counts_as_empty(root: Path) -> None:
    other = (root / VICTIM).rename(root / f"{VICTIM}.bak")
    for log in other.glob("*.log"):
        log.unlink()
        log.symlink_to("nowhere")
    found = answers(root)
    ((_severity, _file, detail),) = found["verify"]
    assert "looks like" not in detail
    assert found == dict.fromkeys(found, found["verify"])


def test_a_report_does_not_count_the_directories_of_a_node_that_does_not_start(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    meta = (root / "meta.properties").read_text().splitlines()
    (other / "meta.properties").write_text(
        "\n".join([*(line for line in meta if not line.startswith("directory.id")), ""])
    )
    (root / VICTIM).rename(root / f"{VICTIM}.bak")
    told = " ".join(kafkalog("report", "--format", "text", "-o", "-", root, other).out.split())
    assert "would not start at all, because of 1 of the directories." in told


def test_a_link_to_a_directory_is_one(root: Path, tmp_path: Path) -> None:
    (root / VICTIM).rename(tmp_path / VICTIM)
    (root / VICTIM).symlink_to(tmp_path / VICTIM)
    assert not any(answers(root).values())


def test_another_directory_of_the_broker_is_not_missing_what_this_one_holds(root: Path) -> None:
    """The metadata counts for the log directory that it names."""
    shutil.rmtree(root / VICTIM)
    for name in (POINTS, WATERMARKS, "log-start-offset-checkpoint"):
        (root / name).unlink(missing_ok=True)
    meta = root / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if not line.startswith("directory.id")]
    meta.write_text("\n".join([*lines, "directory.id=bbbbbbbbbbbbbbbbbbbbbA", ""]))
    assert not any(answers(root).values())


def test_one_partition_is_no_question_of_the_others(root: Path) -> None:
    recover(Recovery(full=True, accept_loss=True), root)
    shutil.rmtree(root / VICTIM)
    assert kafkalog("plan", root / "stock-41-0").code == 0
    assert kafkalog("verify", root / "stock-41-0").code == 0


def test_a_recovery_keeps_what_names_it(root: Path) -> None:
    shutil.rmtree(root / VICTIM)
    before = answers(root)
    recover(Recovery(full=True, accept_loss=True), root)
    assert [row[:2] for row in answers(root)["plan"]] == [row[:2] for row in before["plan"]]
    assert kafkalog("recover", "--yes", root).code == 1, "a start makes it again, empty"
    untouched = stamps(root)
    assert kafkalog("plan", root).code == 1
    assert stamps(root) == untouched


def test_what_brokers_have_written_is_whole(compared: Callable[[str, int], None]) -> None:
    names = ["2.8.2/segments", "3.9.1/txn", "4.1.1/segments", "4.1.1/compact"]
    for root in (each for name in names for each in brokers(name)):
        assert missing_partitions_of(open_log_dir(root), read_topic_facts([str(root)])) == []
        compared("log directories of brokers of which no partition is missing", 1)


@pytest.mark.parametrize("topic", ["../../etc", "x" * 300, "a\0b"])
def test_names_in_a_checkpoint_are_no_paths(topic: str, root: Path) -> None:
    (root / POINTS).write_text(f"0\n1\n{topic} 7 5\n")
    assert any(f"{topic}-7" in detail for _severity, _file, detail in answers(root)["plan"])
    assert kafkalog("verify", root).code == 1


def test_a_checkpoint_of_another_place_does_not_fill_the_report(root: Path) -> None:
    count = 3000
    (root / POINTS).write_text(f"0\n{count}\n" + "".join(f"t {number} 5\n" for number in range(count)))
    assert len(answers(root)["verify"]) == 1000
