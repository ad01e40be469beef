"""What was deleted is found, put back in the order that a broker leaves alone, and taken back byte for byte."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused, Undelete, UsageError, deleted, open_partition, plan, undelete, undelete_into, undo
from kafkalog.jobs.undelete.remains import RemainsKind
from kafkalog.jobs.undelete.undeletion import plan_undelete
from kafkalog.recovery import Recovery, recover, runs
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.lock_holder import held
from testkit.running.stopping import Stopped, failing_at

SOURCE = "4.1.1/segments"
UNIQUE = "0123456789abcdef0123456789abcdef"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A broker's directory in which nothing was deleted and recovery has nothing to do; its metadata log is there."""
    made = own_copy(brokers(SOURCE)[0], tmp_path / "logs")
    (made / "log-start-offset-checkpoint").write_text("0\n0\n")  # no record lies below the start of a live log
    recover(Recovery(full=True, quarantine=tmp_path / "first"), made)
    for path in (made / ".kafkalog-quarantine", made / ".lock"):
        path.unlink(missing_ok=True)
    assert not plan(made)[0].changes
    return made


def without_cluster(root: Path) -> Path:
    """The same where the controllers are elsewhere: nothing says what topics there are."""
    for path in (root / "__cluster_metadata-0").iterdir():
        path.unlink()
    (root / "__cluster_metadata-0").rmdir()
    return root


def delete_directory(root: Path, name: str, state: str = "delete") -> Path:
    """As `LogManager.asyncDelete` does."""
    target = root / f"{name}.{UNIQUE}-{state}"
    (root / name).rename(target)
    for checkpoint in CHECKPOINTS:
        lines = (root / checkpoint).read_text().splitlines()[2:]
        kept = [
            line for line in lines if line.rsplit(" ", 1)[0] != name.rsplit("-", 1)[0] + " " + name.rsplit("-", 1)[1]
        ]
        (root / checkpoint).write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")
    return target


def delete_segments(root: Path, name: str, count: int) -> list[int]:
    """As retention does: the oldest segments' files get the suffix, epochs and checkpoints begin where the log does."""
    bases = sorted(int(path.stem) for path in (root / name).glob("*.log"))
    for base in bases[:count]:
        for suffix in SUFFIXES:
            path = root / name / f"{base:020d}{suffix}"
            if path.exists():
                path.rename(path.with_name(path.name + ".deleted"))
    (root / name / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {bases[count]}\n")
    topic, _, number = name.rpartition("-")
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\n{topic} {number} {bases[count] + 1}\n")
    return bases


def values(directory: Path) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in open_partition(directory).records()]


def logs_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*.log")}


# -- deleted partitions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["delete", "stray"])
def test_a_deleted_partition_is_what_it_was(root: Path, state: str) -> None:
    whole, points = stamps(root), sorted((root / "recovery-point-offset-checkpoint").read_text().split("\n"))
    gone = delete_directory(root, "sessions-20-0", state)
    before = stamps(root)
    (found,) = deleted(root)
    assert (found.topic, found.partition, found.directory) == ("sessions-20", 0, gone.name)
    assert found.kind is (RemainsKind.DIRECTORY if state == "delete" else RemainsKind.STRAY)
    assert (found.first_offset, found.last_offset, found.why_not) == (0, 234, None)
    assert found.bytes == sum(path.stat().st_size for path in gone.glob("*.log"))
    assert found.records == len(values(gone))
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    result = undelete(Undelete(topic="sessions-20"), root)[0]
    assert [each.records for each in result.done.put_back] == [found.records]
    assert not plan(root)[0].changes
    now = stamps(root)
    for name, (_time, mode, content) in whole.items():
        assert name in CHECKPOINTS or now[name][1:] == (mode, content), name
    assert sorted((root / "recovery-point-offset-checkpoint").read_text().split("\n")) == points
    undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_all_partitions_of_a_topic_or_one(root: Path) -> None:
    for number in (0, 1):
        delete_directory(root, f"sessions-20-{number}")
    assert len(deleted(root, topic="sessions-20")) == 2
    assert len(deleted(root, topic="sessions-20", partitions=[1])) == 1
    assert deleted(root, topic="sessions") == ()
    undelete(Undelete(topic="sessions-20", partitions=[1]), root)
    assert [each.partition for each in deleted(root)] == [0]
    undelete(Undelete(topic="sessions-20"), root)
    assert deleted(root) == ()
    assert not plan(root)[0].changes


def empty_live(root: Path, name: str, topic_id: str) -> None:
    """What a broker makes for a topic that is created again."""
    live = root / name
    live.mkdir()
    for suffix in (".log", ".index", ".timeindex"):
        (live / f"{0:020d}{suffix}").touch()
    (live / "leader-epoch-checkpoint").write_text("0\n0\n")
    (live / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


@pytest.mark.parametrize("place", PLACES)
def test_it_takes_the_place_of_an_empty_log_and_its_topic_id(root: Path, place: str, tmp_path: Path) -> None:
    without_cluster(root)
    wanted = values(root / "sessions-20-0")
    gone = delete_directory(root, "sessions-20-0")
    (gone / "leader-epoch-checkpoint").write_text("0\n0\n")  # a broker that starts on it truncates it
    empty_live(root, "sessions-20-0", OTHER_ID)
    before = stamps(root)
    with quarantine_at(place, tmp_path) as kept:
        result = undelete(Undelete(topic="sessions-20", quarantine=kept), root)[0]
        assert result.done.put_back[0].topic_id == OTHER_ID
        assert values(root / "sessions-20-0") == wanted
        assert open_partition(root / "sessions-20-0").leader_epochs != ()
        assert not plan(root / "sessions-20-0")[0].changes
        undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_held_until_the_topic_is_there_again(root: Path) -> None:
    """Under the name of a stray no broker removes it; put back it is what it was."""
    wanted = values(root / "sessions-20-0")
    gone = delete_directory(root, "sessions-20-0")
    delete_segments(root, "stock-41-0", 2)
    before = stamps(root)
    held_as = gone.name.removesuffix("delete") + "stray"
    with pytest.raises(RecoveryRefused, match="at once"):
        undelete(Undelete(topic="stock-41", hold=True), root)
    assert [each.directory for each in undelete(Undelete(topic="sessions-20", hold=True), root)[0].done.put_back] == [
        held_as
    ]
    assert [each.directory for each in deleted(root, topic="sessions-20")] == [held_as]
    with pytest.raises(RecoveryRefused, match="no broker removes"):
        undelete(Undelete(topic="sessions-20", hold=True), root)
    assert kafkalog("undo", root, "--yes").code == 2
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    assert kafkalog("undelete", root, "--topic", "sessions-20", "--hold", "--yes").code == 2
    undelete(Undelete(topic="sessions-20"), root)
    assert values(root / "sessions-20-0") == wanted
    assert not plan(root / "sessions-20-0")[0].changes


def test_hold_takes_the_partitions_that_are_not_held_yet(root: Path) -> None:
    """A partition that is `-stray` already does not keep the others from being held, nor does its directory."""
    held = delete_directory(root, "sessions-20-0", "stray")
    gone = delete_directory(root, "stock-41-0")
    second = gone.rename(root / f"sessions-20-1.{UNIQUE}-delete")
    result = undelete(Undelete(topic="sessions-20", hold=True), root)[0]
    assert [each.directory for each in result.done.put_back] == [f"sessions-20-1.{UNIQUE}-stray"]
    assert held.exists()
    assert not second.exists()


def test_that_all_is_held_already_is_said_of_several_directories_too(root: Path, tmp_path: Path) -> None:
    delete_directory(root, "sessions-20-0", "stray")
    other = own_copy(brokers("4.1.1/segments")[0], tmp_path / "other")
    with pytest.raises(RecoveryRefused, match="no broker removes"):
        undelete(Undelete(topic="sessions-20", hold=True), root, other)
    with pytest.raises(RecoveryRefused, match="no deleted directory or segment of nothing is in"):
        undelete(Undelete(topic="nothing"), root, other)


@pytest.mark.parametrize("what", ["records", "deleted segments"])
def test_a_place_that_is_taken(root: Path, what: str) -> None:
    delete_directory(root, "sessions-20-0")
    if what == "records":
        copy_tree(root / "sessions-20-1", root / "sessions-20-0")
    else:
        empty_live(root, "sessions-20-0", OTHER_ID)
        (root / "sessions-20-0" / f"{0:020d}.log.deleted").write_bytes(b"x")
    before = stamps(root)
    with pytest.raises(RecoveryRefused):
        undelete(Undelete(topic="sessions-20", partitions=[0]), root)
    assert kafkalog("undelete", root, "--topic", "sessions-20", "--yes").code == 3
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_topic_that_the_cluster_knows_by_another_id(root: Path) -> None:
    """The metadata log says what the id is: it is taken from there, and another one is refused."""
    known = (root / "sessions-20-0" / "partition.metadata").read_text().split()[-1]
    gone = delete_directory(root, "sessions-20-0")
    (gone / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    with pytest.raises(RecoveryRefused, match="stray"):
        undelete(Undelete(topic="sessions-20", topic_id=OTHER_ID), root)
    assert undelete(Undelete(topic="sessions-20"), root)[0].done.put_back[0].topic_id == known
    assert not plan(root)[0].changes


def test_a_topic_that_the_cluster_does_not_know(root: Path) -> None:
    gone = delete_directory(root, "sessions-20-0")
    gone.rename(gone.with_name(gone.name.replace("sessions-20-0", "forgotten-9")))
    before = stamps(root)
    assert "once the cluster knows the topic" in deleted(root)[0].outcome
    with pytest.raises(RecoveryRefused, match="does not know forgotten"):
        undelete(Undelete(topic="forgotten"), root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    with pytest.raises(RecoveryRefused, match="other brokers"):
        undelete(Undelete(topic="forgotten", as_topic="parcels-24"), root)
    assert undelete(Undelete(topic="forgotten", topic_id=OTHER_ID), root)[0].done.put_back[0].topic_id == OTHER_ID


def test_another_topic_gets_it(root: Path) -> None:
    wanted = values(root / "sessions-20-1")
    known = (root / "parcels-24-1" / "partition.metadata").read_text().split()[-1]
    delete_directory(root, "sessions-20-1")
    result = undelete(Undelete(topic="sessions-20", as_topic="parcels-24"), root)[0]
    assert (result.done.put_back[0].directory, result.done.put_back[0].topic_id) == ("parcels-24-1", known)
    assert values(root / "parcels-24-1") == wanted
    assert not plan(root)[0].changes


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 250, "ä", "a\n"])
def test_a_name_that_is_no_topics(root: Path, name: str) -> None:
    delete_directory(root, "sessions-20-0")
    with pytest.raises(UsageError, match="is not the name of a topic"):
        undelete(Undelete(topic="sessions-20", as_topic=name), root)
    with pytest.raises(UsageError, match="is not the name of a topic"):
        undelete_into(Undelete(topic="sessions-20", as_topic=name), root, target=root.with_name("new"))


@pytest.mark.parametrize("name", ["", "a/b", "a\0"])
def test_a_name_that_no_directory_has(root: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a topic"):
        undelete(Undelete(topic=name), root)


def test_a_topic_whose_name_is_no_longer_allowed(root: Path) -> None:
    """Kafka reads topics of directories whatever they are called; only new ones are checked."""
    (root / "sessions-20-0").rename(root / "ä-0")
    wanted = values(root / "ä-0")
    delete_directory(root, "ä-0")
    undelete_into(Undelete(topic="ä"), root, target=root.with_name("new"))
    assert values(root.with_name("new") / "ä-0") == wanted


def test_a_source_that_does_not_exist_is_named(root: Path, tmp_path: Path) -> None:
    delete_directory(root, "sessions-20-0")
    request = Undelete(topic="sessions-20", source="nope")
    sentence = "no deleted directory or segment of sessions-20 from the source 'nope' is in "
    with pytest.raises(RecoveryRefused, match=sentence):
        plan_undelete(request, root)
    with pytest.raises(RecoveryRefused, match=sentence):
        undelete_into(request, root, target=tmp_path / "new")


@pytest.mark.parametrize("text", ["", "x", "A" * 22, "A" * 21 + "!", OTHER_ID + "=="])
def test_a_topic_id_that_is_none(root: Path, text: str) -> None:
    delete_directory(root, "sessions-20-0")
    with pytest.raises(UsageError, match="topic id"):
        undelete(Undelete(topic="sessions-20", topic_id=text), root)


def test_several_of_one_partition(root: Path) -> None:
    gone = delete_directory(root, "sessions-20-0")
    other = copy_tree(gone, gone.with_name(gone.name.replace(UNIQUE, "f" * 32)))
    with pytest.raises(RecoveryRefused, match="choose one with source"):
        undelete(Undelete(topic="sessions-20"), root)
    undelete(Undelete(topic="sessions-20", source=other.name), root)
    assert gone.exists()
    assert not other.exists()


def test_without_the_clusters_word_the_own_id_stays_and_that_is_said(root: Path) -> None:
    delete_directory(without_cluster(root), "sessions-20-0")
    assert any("-stray" in note for note in undelete(Undelete(topic="sessions-20"), root)[0].done.notes)


def test_damage(root: Path) -> None:
    """A torn tail goes, as at every start; for anything else there is --into."""
    gone = delete_directory(root, "sessions-20-0")
    logs = sorted(gone.glob("*.log"))
    with logs[-1].open("ab") as file:
        file.write(logs[-1].read_bytes()[:70])
    assert "torn_tail" in str(deleted(root)[0].segments[-1].damage)
    undelete(Undelete(topic="sessions-20"), root)
    assert not plan(root)[0].changes
    undo(root)
    data = bytearray(logs[0].read_bytes())
    data[len(data) // 2] ^= 1
    logs[0].write_bytes(data)
    before = stamps(root)
    with pytest.raises(RecoveryRefused, match="with undelete_into"):
        undelete(Undelete(topic="sessions-20"), root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    taken = undelete_into(Undelete(topic="sessions-20"), root, target=root.with_name("new"))
    assert taken.lost["sessions-20-0"]
    assert not plan(Recovery(mode="salvage"), root.with_name("new"))[0].changes
    known = {offset for offset, _value in values(root.with_name("new") / "sessions-20-0")}
    lost = {each for first, last in taken.lost["sessions-20-0"] for each in range(first, last + 1)}
    assert max(known) == 234 or 234 in lost
    assert not known & lost


# -- deleted segments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["stock-41-0", "sessions-20-0"])
def test_segments_that_retention_took(root: Path, name: str, place: str, tmp_path: Path) -> None:
    wanted, logs = values(root / name), logs_of(root / name)
    topic, _, _number = name.rpartition("-")
    bases = delete_segments(root, name, 2)
    before = stamps(root)
    found, below = deleted(root)
    assert (below.kind, below.records) == (RemainsKind.BELOW_START, 1)  # the log starts behind its first record
    assert (found.kind, found.directory, found.why_not) == (RemainsKind.SEGMENTS, name, None)
    assert [each.base_offset for each in found.segments] == bases[:2]
    with quarantine_at(place, tmp_path) as kept:
        result = undelete(Undelete(topic=topic, quarantine=kept), root)[0]
        assert result.done.left == ()
        assert (values(root / name), logs_of(root / name)) == (wanted, logs)
        assert not plan(root)[0].changes
        assert deleted(root) == () or {each.kind for each in deleted(root)} == {RemainsKind.QUARANTINE}
        undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_segment_that_others_have_replaced_stays(root: Path) -> None:
    """Compaction leaves the segments it replaced, whose offsets live on."""
    bases = delete_segments(root, "stock-41-0", 2)
    live = root / "stock-41-0" / f"{bases[3]:020d}.log"
    live.with_name(live.name + ".deleted").write_bytes(live.read_bytes())
    result = undelete(Undelete(topic="stock-41"), root)[0]
    (left,) = result.done.left
    assert live.name in left
    assert not plan(root)[0].changes
    undo(root)
    for base in bases[:2]:
        for path in (root / "stock-41-0").glob(f"{base:020d}.*"):
            path.unlink()
    before = stamps(root)
    assert deleted(root)[0].why_not is not None
    with pytest.raises(RecoveryRefused, match="with undelete_into"):
        undelete(Undelete(topic="stock-41"), root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_damaged_segment_never_costs_what_lives(root: Path) -> None:
    bases = delete_segments(root, "stock-41-0", 2)
    path = root / "stock-41-0" / f"{bases[1]:020d}.log.deleted"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    live = logs_of(root / "stock-41-0")
    result = undelete(Undelete(topic="stock-41"), root)[0]
    assert [each for each in result.done.left if "damaged" in each]
    assert logs_of(root / "stock-41-0").items() >= live.items()
    undo(root)
    with (root / "stock-41-0" / f"{bases[-1]:020d}.log").open("r+b") as file:
        file.seek(30)
        file.write(b"\xff\xff\xff\xff")
    before = stamps(root)
    with pytest.raises(RecoveryRefused, match="recover the partition first"):
        undelete(Undelete(topic="stock-41"), root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


# -- quarantines -----------------------------------------------------------------------------------------------------


def test_what_a_recovery_took_is_taken_out_of_its_quarantine(root: Path) -> None:
    """Damage in the first segment: safe drops the later ones, a broker goes on, and they can still be had."""
    wanted = values(root / "stock-41-0")
    logs = sorted((root / "stock-41-0").glob("*.log"))
    data = bytearray(logs[1].read_bytes())
    data[70] ^= 1
    logs[1].write_bytes(data)
    run_id = recover(Recovery(full=True, accept_loss=True), root)[0].run_id
    (found,) = deleted(root)
    assert (found.kind, found.run_id) == (RemainsKind.QUARANTINE, run_id)
    assert len(found.segments) == len(logs) - 2
    (root / "meta.properties").touch()  # as a broker that goes on
    with pytest.raises(RecoveryRefused):
        undo(root)
    with pytest.raises(RecoveryRefused):
        undelete(Undelete(topic="stock-41"), root)
    before = stamps(root.parent)
    taken = undelete_into(Undelete(topic="stock-41", topic_id=OTHER_ID), root, target=root.with_name("new"))
    assert not plan(root.with_name("new"))[0].changes
    kept = values(root.with_name("new") / "stock-41-0")
    assert kept == [each for each in wanted if each[0] >= int(logs[2].stem)]
    assert taken.put_back[0].topic_id == OTHER_ID
    after = {name: told for name, told in stamps(root.parent).items() if not name.startswith("new") and name != "."}
    assert first_difference(after, {name: told for name, told in before.items() if name != "."}) == ""


def test_a_quarantine_with_a_link_in_it_is_not_followed(root: Path, tmp_path: Path) -> None:
    logs = sorted((root / "stock-41-0").glob("*.log"))
    data = bytearray(logs[1].read_bytes())
    data[70] ^= 1
    logs[1].write_bytes(data)
    recover(Recovery(full=True, accept_loss=True), root)
    kept = Path(runs(root)[0].directory) / "files"
    secret = tmp_path / "secret"
    copy_tree(root / "sessions-20-0", secret / "secret-0")
    (kept / "secret-0").symlink_to(secret / "secret-0")
    (kept / "stock-41-0" / f"{7:020d}.log").symlink_to(next(secret.glob("secret-0/*.log")))
    os.mkfifo(kept / "stock-41-0" / f"{8:020d}.log")
    (found,) = deleted(root)
    assert {each.base_offset for each in found.segments} == {int(each.stem) for each in logs[2:]}
    kept.rename(kept.with_name("elsewhere"))
    kept.symlink_to(kept.with_name("elsewhere"))
    assert deleted(root) == ()


# -- a directory of its own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["inside", "not empty", "a file", "another log directory"])
def test_a_target_that_cannot_be(root: Path, what: str, tmp_path: Path) -> None:
    delete_directory(root, "sessions-20-0")
    target = tmp_path / "new"
    if what == "inside":
        target = root / "new"
    elif what == "not empty":
        (target / "mine").mkdir(parents=True)
    elif what == "a file":
        target.write_text("mine")
    else:
        target = copy_tree(root, tmp_path / "other") / "new"
    before = stamps(tmp_path)
    with pytest.raises(UsageError):
        undelete_into(Undelete(topic="sessions-20"), root, target=target)
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


def test_nothing_is_left_of_a_copy_that_failed(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog import StorageError

    delete_directory(root, "sessions-20-0")
    before = stamps(tmp_path)
    with (
        failing_at(5, lambda: StorageError(28, "No space left on device", "x"), monkeypatch),
        pytest.raises(StorageError),
    ):
        undelete_into(Undelete(topic="sessions-20"), root, target=tmp_path / "deep" / "new")
    after = {name: told for name, told in stamps(tmp_path).items() if name != "."}
    assert first_difference(after, {name: told for name, told in before.items() if name != "."}) == ""


# -- under lock and journal ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prepare",
    [lambda root: delete_directory(root, "stock-41-0"), lambda root: delete_segments(root, "stock-41-0", 3)],
    ids=["directory", "segments"],
)
def test_stopped_anywhere_it_is_completed_or_taken_back(
    prepare: Callable[[Path], object], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = values(root / "stock-41-0")
    prepare(root)
    before = stamps(root)
    number, stops = 0, 0
    while True:
        number += 3
        work = copy_tree(root, tmp_path / str(number) / "logs")
        with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
            undelete(Undelete(topic="stock-41"), work)
        if count[0] < number:
            break
        stops += 1
        (work / ".lock").unlink(missing_ok=True)
        unfinished = [each for each in runs(work) if each.is_unfinished]
        if not unfinished:
            continue
        with pytest.raises(RecoveryRefused, match="cut short"):
            undelete(Undelete(topic="stock-41"), work)
        if number % 2:
            undo(work)
            assert first_difference(dict(stamps(work)), dict(before)) == ""
        else:
            assert recover(work)[0].completed == (unfinished[0].run_id,)
            assert values(work / "stock-41-0") == wanted
            assert not plan(work)[0].changes
    assert stops > 5


def test_what_changed_since_it_was_shown(root: Path) -> None:
    delete_directory(root, "sessions-20-0")
    made = plan_undelete(Undelete(topic="sessions-20"), root)[0]
    (root / f"sessions-20-0.{UNIQUE}-delete" / "partition.metadata").touch()
    with pytest.raises(RecoveryRefused, match="changed since"):
        undelete(Undelete(topic="sessions-20"), root, expected=[made])


def test_a_lock_that_is_held(root: Path) -> None:
    delete_directory(root, "sessions-20-0")
    with held(root / ".lock"), pytest.raises(RecoveryRefused, match="locked"):
        undelete(Undelete(topic="sessions-20"), root)
    (root / ".lock").unlink()


@pytest.mark.parametrize("what", ["link", "fifo", "hard link"])
def test_what_is_no_file_of_its_own(root: Path, what: str, tmp_path: Path) -> None:
    gone = delete_directory(root, "sessions-20-0")
    path = gone / "leader-epoch-checkpoint"
    if what == "link":
        path.rename(tmp_path / "epochs")
        path.symlink_to(tmp_path / "epochs")
    elif what == "fifo":
        path.unlink()
        os.mkfifo(path)
    else:
        path.write_text("0\n0\n")
        os.link(path, tmp_path / "epochs")
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused):
        undelete(Undelete(topic="sessions-20"), root)
    assert first_difference(dict(stamps(tmp_path)), dict(before)) == ""


# -- the command -----------------------------------------------------------------------------------------------------


def test_the_command(root: Path) -> None:
    finished = kafkalog("undelete", root)
    assert (finished.code, "no deleted data" in finished.out) == (0, True)
    delete_directory(root, "sessions-20-0")
    delete_segments(root, "stock-41-0", 2)
    before = stamps(root)
    finished = kafkalog("undelete", root)
    assert finished.code == 0
    assert "becomes sessions-20-0 again" in finished.out
    assert "begins at 0 again" in finished.out
    (told,) = kafkalog("undelete", root, "--json").objects
    assert [each["topic"] for each in told["remains"]] == ["sessions-20", "stock-41", "stock-41"]
    assert told["changed"] is False
    (told,) = kafkalog("undelete", root, "--topic", "stock-41", "--list", "--json").objects
    assert [each["topic"] for each in told["remains"]] == ["stock-41", "stock-41"]
    finished = kafkalog("undelete", root, "--topic", "stock-41")
    assert (finished.code, "--yes" in finished.err, "records; offsets 0 to" in finished.out) == (3, True, True)
    assert kafkalog("undelete", root, "--topic", "nothing", "--yes").code == 1
    assert kafkalog("undelete", root, "--into", root.with_name("new")).code == 64
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    finished = kafkalog("undelete", root, "--topic", "stock-41", "--yes")
    assert (finished.code, "kafkalog undo" in finished.out) == (2, True)
    (told,) = kafkalog("undelete", root, "--topic", "sessions-20", "--partition", 0, "--yes", "--json").objects
    assert (told["changed"], told["put_back"][0]["directory"]) == (True, "sessions-20-0")
    assert [each["run_id"] for each in kafkalog("runs", root, "--json").objects[0]["runs"]][-1] == told["run_id"]
    assert kafkalog("undo", root, "--yes").code == 2
    finished = kafkalog("undelete", root, "--topic", "sessions-20", "--into", root.with_name("new"))
    assert (finished.code, "written into" in finished.out) == (0, True)


def test_ls_and_dump_find_it_and_keep_it_apart(root: Path) -> None:
    every = len(values(root / "sessions-20-0"))
    gone = delete_directory(root, "sessions-20-0")
    stock = len(values(root / "stock-41-0"))
    delete_segments(root, "stock-41-0", 2)
    live = len(values(root / "stock-41-0"))
    (told,) = kafkalog("ls", root, "--json").objects
    assert [each["state"] for each in told["partitions"] if each["topic"] == "sessions-20"] == ["delete", "live"]
    (found,) = [each for each in told["partitions"] if each["topic"] == "stock-41"]
    assert len(found["deleted_segments"]) == 2
    assert "2 deleted segments" in kafkalog("ls", root).out

    def dumped(*words: object) -> int:
        return len(kafkalog("dump", "--json", *words).objects)

    assert dumped(root, "--topic", "stock-41") == live < stock
    assert dumped(root, "--topic", "stock-41", "--all") >= live
    assert (
        dumped(root, "--topic", "stock-41", "--deleted") == dumped(root / "stock-41-0", "--deleted") >= stock - live - 1
    )
    assert dumped(root, "--topic", "sessions-20", "--partition", 0) == 0
    assert "--deleted" in kafkalog("dump", root, "--topic", "sessions-20", "--partition", 0).err
    assert dumped(root, "--topic", "sessions-20", "--partition", 0, "--deleted") == dumped(gone) == every
    assert dumped(root, "--topic", "sessions-20", "--partition", 1, "--deleted") == 0


def test_dump_finds_what_undelete_lists(root: Path) -> None:
    """It said that there is no topic, of which a start had made the directories -stray, or which was set aside."""
    every = {name: len(values(root / name)) for name in ("sessions-20-0", "orders-23-0")}
    assert all(every.values())
    for name in every:
        words = ("--topic", name[:-2], "--partition", 0)
        gone = delete_directory(root, name, "stray")
        found = kafkalog("dump", root, "--json", "--deleted", *words)
        assert (found.code, len(found.objects)) == (0, every[name])
        for other in root.glob(f"{name[:-2]}-[1-9]*"):
            other.rename(other.with_name(f"{other.name}.{UNIQUE}-stray"))
        assert "--deleted" in kafkalog("dump", root, *words).err, "and nothing live is left of the topic"
        gone.rename(root / name)
        assert kafkalog("recover", root, "--mode", "set-aside", *words, "--accept-loss", "--yes").code in (1, 2)
        assert not (root / name).exists()
        kept = kafkalog("dump", root, "--deleted", *words)
        assert (kept.code, f"{name}: only recoveries keep it" in kept.err) == (1, True)
        assert name[:-2] in kafkalog("undelete", root, "--topic", name[:-2], "--list").out


def test_dump_of_an_unknown_topic_does_not_need_the_quarantine(root: Path) -> None:
    (root / ".kafkalog-quarantine").write_bytes(b"x")
    finished = kafkalog("dump", root, "--topic", "nonesuch")
    assert (finished.code, "there is no topic 'nonesuch'" in finished.err) == (1, True), finished.err


# -- topics by patterns ------------------------------------------------------------------------------------------------


def test_a_pattern_lists_and_puts_back_all_topics_that_it_fits(root: Path) -> None:
    whole = stamps(root)
    for name in ("sessions-20-0", "sessions-20-1", "stock-41-0"):
        delete_directory(root, name)
    before = stamps(root)
    for words, expected in (
        (["-t", "s*"], 3), (["--topic", "sessions-*"], 2), (["-t", "sessions-20", "-p", "1"], 1),
        (["-t", "stock-41", "-t", "sess*"], 3),
    ):  # fmt: skip
        (line,) = kafkalog("undelete", "--json", "--list", *words, root).objects
        assert len(line["remains"]) == expected
    assert stamps(root) == before
    done = kafkalog("undelete", "--yes", "--json", "--topic", "s*", root)
    assert (done.code, len(done.objects)) == (2, 2)
    assert {name for name in stamps(root) if name.endswith(".log")} == {name for name in whole if name.endswith(".log")}
    assert not plan(root)[0].changes


def test_a_pattern_of_which_one_topic_is_declined_puts_back_none(root: Path) -> None:
    """The first of them had been restored when the second was refused."""
    delete_directory(root, "sessions-20-0")
    delete_directory(root, "stock-41-0")
    copy_tree(root / "sessions-20-1", root / "stock-41-0")
    before = stamps(root)
    assert kafkalog("undelete", "--yes", "--topic", "s*", root).code == 3
    assert kafkalog("undelete", "--yes", "--json", "--topic", "s*", root).code == 3
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    assert not root.with_name("logs.recovery").exists()


@pytest.mark.parametrize("more", [["--list"], ["--yes"], ["--yes", "--into", "new"]])
def test_a_topic_of_which_nothing_was_deleted_is_named_with_the_nearest(root: Path, more: list[str]) -> None:
    delete_directory(root, "stock-41-0")
    finished = kafkalog("undelete", "--topic", "stok-41", *more, root)
    assert (finished.code, finished.out) == (1, "")
    assert "did you mean 'stock-41'?" in finished.err
    nothing = kafkalog("undelete", "--topic", "x*", *more, root)
    assert (nothing.code, "no deleted topic matches 'x*'" in nothing.err) == (1, True)


@pytest.mark.parametrize("more", [["--into", "new"], ["--as", "other"], ["--topic-id", OTHER_ID]])
def test_what_is_for_one_topic_declines_several(root: Path, more: list[str]) -> None:
    for name in ("sessions-20-0", "stock-41-0"):
        delete_directory(root, name)
    finished = kafkalog("undelete", "--yes", "--topic", "s*", *more, root)
    assert finished.code == 64
    assert "take one topic, and 2 are meant: sessions-20, stock-41" in finished.err


@pytest.mark.parametrize("own", [True, False])
def test_a_topic_that_the_cluster_does_not_know_is_told_in_the_text(own: bool, tmp_path: Path) -> None:
    """Brokers of 4.3.0 rename such directories -stray (`LogManager.isStrayKraftReplica`); the JSON alone said so."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    (deleted,) = root.glob("trades-46-0.*-delete")
    own_id = (deleted / "partition.metadata").read_text().split()[-1]
    topic_id = own_id if own else "QLzt-g_BuAkWCE5UuGwm5Q"
    words = ("--topic", "trades-46", "--partition", 0, "--as", "revived", "--topic-id", topic_id)
    told = " ".join(kafkalog("undelete", root, *words, "--yes").out.split())
    assert f"no topic with the id {topic_id}: a start renames 1 partition (revived-0) -stray" in told
    assert ".kafka_cleanshutdown goes: the next start examines the logs" in told
    for command in (("plan",), ("verify",), ("report", "--format", "text", "-o", "-")):
        text = " ".join(kafkalog(*command, root).out.split())
        assert "the start renames -stray" in text
        assert "revived-0" in text[text.index("the start renames -stray") :][:120]
