"""What an operator did to break a promise, and what came of it: each is a class that has its test here."""

from __future__ import annotations

import codecs
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog import RecoveryRefused, StorageError
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.recovery import Recovery, Undo, recover, undo
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.journal import MANIFEST
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.elsewhere import PLACES, quarantine_at

CASE = recovery_cases(["torn_tail"])[0]
SETTINGS = ("--config", "segment.index.bytes=1536", "--config", "index.interval.bytes=256", "--at", "1700000100000")


def directory(path: Path, *partitions: str) -> Path:
    """A log directory with several damaged partitions."""
    root = CASE.unpack_before(path)
    for number, name in enumerate(partitions):
        other = CASE.unpack_before(path.with_name(f"{path.name}-{number}"))
        (other / "t-0").rename(root / name)
    return root


def last_log(partition: Path) -> Path:
    return max(path for path in partition.glob("*.log") if path.stat().st_size)


@pytest.mark.parametrize("place", PLACES)
def test_what_others_wrote_behind_a_cut_is_not_written_over(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One log is cut, then somebody appends to it and to one that is not cut yet: the run cannot go on, nor go back."""
    root = directory(tmp_path / "logs", "t-1")
    truncate = FileSystem.truncate
    cut: list[str] = []

    def slow(self: FileSystem, path: str, *args: Any) -> None:
        if cut:
            for log in (root / cut[0], root / path):
                with log.open("ab") as file:
                    file.write(b"precious")
        truncate(self, path, *args)
        cut.append(path)

    monkeypatch.setattr(FileSystem, "truncate", slow)
    with quarantine_at(place, tmp_path) as kept:
        with pytest.raises(StorageError, match="what was done stays"):
            recover(Recovery(quarantine=kept, accept_loss=True, **given(CASE)), root)
        monkeypatch.undo()
        assert (root / cut[0]).read_bytes().endswith(b"precious")
        with pytest.raises(RecoveryRefused):
            undo(Undo(quarantine=kept), root)
        assert (root / cut[0]).read_bytes().endswith(b"precious")
        recover(Recovery(quarantine=kept, accept_loss=True, **given(CASE)), root)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "attributes",
    [{"mode": 0o4755}, {"mode": 0o2755}, {"extended": {"trusted.x": "eA=="}},
     {"extended": {"security.capability": "eA=="}}],
    ids=["set user id", "set group id", "trusted", "capability"],
)  # fmt: skip
def test_a_manifest_makes_no_program_of_a_file(place: str, attributes: dict[str, Any], tmp_path: Path) -> None:
    root = recovery_cases(["segment_set"])[0].unpack_before(tmp_path / "logs")
    with quarantine_at(place, tmp_path) as kept:
        recover(Recovery(quarantine=kept, accept_loss=True, **given(recovery_cases(["segment_set"])[0])), root)
        (manifest,) = (kept or tmp_path / "logs.recovery").glob(f"*/{MANIFEST}")
        values = json.loads(manifest.read_bytes())["journal"]
        for step in values["steps"]:
            if step["before"] is not None:
                step["before"]["attributes"].update(attributes)
        body = json.dumps(values).encode()
        manifest.write_bytes(body + f"\n{crc32c(body):08x}\n".encode())
        before = stamps(root)
        with pytest.raises(RecoveryRefused, match="not a recovery journal that kafkalog wrote"):
            undo(root)
        assert stamps(root) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_manifest_gives_no_file_to_root(tmp_path: Path) -> None:
    case = recovery_cases(["segment_set"])[0]
    root = case.unpack_before(tmp_path / "logs")
    for path in [root, *root.rglob("*")]:
        os.chown(path, 1234, 1234)
    with quarantine_at(PLACES[1], tmp_path) as kept:
        assert kept is not None
        recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), root)
        (manifest,) = kept.glob(f"*/{MANIFEST}")
        values = json.loads(manifest.read_bytes())["journal"]
        for step in values["steps"]:
            if step["before"] is not None:
                step["before"]["attributes"].update({"uid": 0, "gid": 0})
        body = json.dumps(values).encode()
        manifest.write_bytes(body + f"\n{crc32c(body):08x}\n".encode())
        undo(root)
    assert {path.stat().st_uid for path in root.rglob("*")} == {1234}


def test_a_directory_with_the_markers_name(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    (root / ".kafka_cleanshutdown").mkdir()
    before = stamps(root)
    result = recover(Recovery(mark_clean=True, accept_loss=True, **given(CASE)), root)[0]
    assert result.changed
    assert (root / ".kafka_cleanshutdown").is_file()
    undo(root)
    assert first_difference(stamps(root), before) == ""


def test_runs_on_single_partitions_are_undone_in_an_order_that_works(tmp_path: Path) -> None:
    """Whatever order is tried: each undo gives back its own or changes nothing, and in the end all are undone."""
    root = directory(tmp_path / "logs", "t-1", "t-2")
    before = stamps(root)
    runs = [recover(Recovery(accept_loss=True, **given(CASE)), root / name)[0].run_id for name in ("t-1", "t-0", "t-2")]
    left = list(runs)
    for _ in range(len(runs)):
        for run in list(left):
            looked = stamps(root)
            try:
                undo(Undo(run_ids=[run or ""]), root)
            except RecoveryRefused:
                assert stamps(root) == looked
            else:
                left.remove(run)
    assert left == []
    assert first_difference(stamps(root), before) == ""


def test_undo_of_a_partition_is_of_that_partition(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs", "t-1")
    first = recover(Recovery(accept_loss=True, **given(CASE)), root / "t-0")[0].run_id
    recover(Recovery(accept_loss=True, **given(CASE)), root / "t-1")
    looked = stamps(root)
    try:
        assert undo(root / "t-0")[0].run_id == first
    except RecoveryRefused as refused:
        assert str(first) in str(refused)  # noqa: PT017
        assert stamps(root) == looked


@pytest.mark.parametrize("again", ["logs", "logs/", "link", "logs/t-0"])
def test_a_directory_that_is_named_twice(again: str, tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    (tmp_path / "link").symlink_to(root)
    finished = kafkalog("recover", "--yes", root, f"{tmp_path}/{again}", *SETTINGS, "--json")
    assert finished.code == 2
    assert [each["path"] for each in finished.objects] == [str(root)]
    assert not kafkalog("plan", root, *SETTINGS, "--json").objects[0]["changes"], "all of it was recovered"


@pytest.mark.parametrize("state", ["stray", "future"])
def test_what_was_put_away_by_name_is_not_dropped_without_consent(state: str, tmp_path: Path) -> None:
    """`undelete --hold` calls a deleted partition `-stray`, so that nobody removes it: recovery does not either."""
    root = recovery_case("log_dir/future-dir-with-damage").unpack_before(tmp_path / "logs")
    (away,) = root.glob("t-1.*-future")
    away = away.rename(away.with_name(away.name.replace("-future", f"-{state}")))
    readable = len(kafkalog("dump", "--all", "--json", away).objects)
    assert readable == 84
    before = stamps(root)
    with pytest.raises(RecoveryRefused, match="84 records that can still be read") as declined:
        recover(root)
    assert declined.value.reason == "loss"
    assert first_difference(stamps(root), before) == ""
    recover(Recovery(mode="salvage"), root)
    assert len(kafkalog("dump", "--all", "--json", away).objects) == readable


@pytest.mark.parametrize("names", [["t-0", "t-1"], ["t-1", "t-0"], [".", "t-1"]])
def test_partitions_of_one_directory_are_planned_for_together(names: list[str], tmp_path: Path) -> None:
    root = directory(tmp_path / "logs", "t-1")
    paths = [root / name for name in names]
    planned = kafkalog("plan", *paths, *SETTINGS, "--json")
    (report,) = planned.objects
    assert {each["name"] for each in report["partitions"]} == {"t-0", "t-1"}
    assert planned.code == 1
    assert kafkalog("recover", *paths, *SETTINGS, "--dry-run", "--json").objects == [report]
    done = kafkalog("recover", "--yes", "--accept-loss", *paths, *SETTINGS, "--json")
    assert (done.code, len(done.objects)) == (2, 1)
    assert not kafkalog("plan", root, *SETTINGS, "--json").objects[0]["changes"]


def test_a_recommended_command_works_on_what_was_asked_about(tmp_path: Path) -> None:
    """On a copy, with the quarantine that was named; and for the partitions that were."""
    root = recovery_case("bit_flip/body-middle").unpack_before(tmp_path / "logs")
    shutil.copytree(root / "t-0", root / "t-1")
    before = stamps(root)
    declined = kafkalog("recover", "--yes", "--into", tmp_path / "new", "--quarantine", tmp_path / "kept", root)
    assert declined.code == 3
    (command, *_others) = [shlex.split(line) for line in declined.out.splitlines() if line.startswith("  kafkalog ")]
    assert kafkalog(*command[1:]).code == 0
    assert first_difference(stamps(root), before) == ""
    assert (tmp_path / "new" / "t-0").is_dir()
    assert list((tmp_path / "kept").iterdir())
    planned = kafkalog("plan", root / "t-0", root / "t-1")
    (command, *_others) = [shlex.split(line) for line in planned.out.splitlines() if line.startswith("  kafkalog ")]
    assert command[2:4] == [str(root / "t-0"), str(root / "t-1")]


def test_no_directory_is_changed_if_another_has_no_quarantine(tmp_path: Path) -> None:
    first, second = directory(tmp_path / "one"), directory(tmp_path / "two")
    (second / "t-0").rename(second / "u-0")
    (tmp_path / "two.recovery").write_text("in the way")
    before = stamps(tmp_path)
    finished = kafkalog("recover", "--yes", first, second, *SETTINGS)
    assert finished.code == 3
    assert first_difference(stamps(tmp_path), before) == ""


def test_a_copy_that_is_not_recovered_is_not_left(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    other = directory(tmp_path / "other")
    before = stamps(tmp_path)
    assert kafkalog("recover", "--yes", "--into", other / "copy", root, *SETTINGS).code == 64
    assert first_difference(stamps(tmp_path), before) == ""
    finished = kafkalog("recover", "--yes", "--mode", "strict", "--into", tmp_path / "copy", root, *SETTINGS)
    if finished.code == 3:
        assert not (tmp_path / "copy").exists()
    (tmp_path / "blocked.recovery").write_text("in the way")
    finished = kafkalog("recover", "--yes", "--into", tmp_path / "blocked", root, *SETTINGS)
    assert finished.code == 3
    assert not (tmp_path / "blocked").exists()


def test_a_name_that_a_cut_log_got_since(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    recover(Recovery(accept_loss=True, **given(CASE)), root)
    (tmp_path / "snapshot").hardlink_to(last_log(root / "t-0"))
    before = stamps(tmp_path)
    with pytest.raises(RecoveryRefused, match="nothing was changed"):
        undo(root)
    assert first_difference(stamps(tmp_path), before) == ""


def test_the_pointer_goes_with_the_run_that_needed_it(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    recover(Recovery(accept_loss=True, **given(CASE)), root)
    with last_log(root / "t-0").open("ab") as file:
        file.write(b"\x01" * 7)
    before = stamps(root)
    recover(Recovery(quarantine=tmp_path / "second", accept_loss=True, **given(CASE)), root)
    undo(root)
    assert first_difference(stamps(root), before) == ""


def test_the_roots_time_after_a_kill_with_the_lock(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    before = stamps(root)
    child = os.fork()
    if child == 0:
        from kafkalog.recovery.act.lock import BrokerLock

        BrokerLock(FileSystem(str(root))).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    assert (root / ".lock").exists()
    recover(Recovery(accept_loss=True, **given(CASE)), root)
    undo(root)
    assert first_difference(stamps(root), before) == ""


def test_a_lock_that_is_a_pipe(tmp_path: Path) -> None:
    root = directory(tmp_path / "logs")
    os.mkfifo(root / ".lock")
    before = stamps(root)
    finished = kafkalog("recover", "--yes", root, *SETTINGS)
    assert finished.code == 4
    assert "a FIFO, not a file" in finished.err
    assert stamps(root) == before


def as_nobody(work: Callable[[], object]) -> str:
    """Do something as a user without rights, in a process of its own: what it was refused with, or nothing."""
    with tempfile.TemporaryDirectory() as scratch:  # what is imported when it is needed may lie where nobody can read
        root = directory(Path(scratch) / "logs")
        recover(Recovery(accept_loss=True, **given(CASE)), root)
        undo(root)
    codecs.lookup("ascii")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            work()
            os.write(writer, b"done")
        except RecoveryRefused as refused:
            os.write(writer, f"{refused.reason}: {refused}".encode())
        except BaseException as error:  # noqa: BLE001 - the parent must learn of it
            os.write(writer, f"unexpected {error!r}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("others", ["a log", "a read-only log", "a partition", "the log directory", "a checkpoint"])
def test_what_this_user_may_not_do_is_not_begun(others: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        root = directory(Path(scratch) / "parent" / "logs")
        for path in [root.parent, root, *root.rglob("*")]:
            os.chown(path, 65534, 65534)
        log, checkpoint = last_log(root / "t-0"), root / "recovery-point-offset-checkpoint"
        if others == "a read-only log":
            log.chmod(0o444)
        else:
            theirs = {"a log": log, "a partition": root / "t-0", "the log directory": root, "a checkpoint": checkpoint}
            os.chown(theirs[others], 0, 0)
            theirs[others].chmod(0o666 if theirs[others].is_file() else 0o777)
            if others == "a checkpoint":
                checkpoint.chmod(0o600)
        before = stamps(root)
        said = as_nobody(lambda: recover(Recovery(accept_loss=True, **given(CASE)), root)[0])
        assert said.startswith("unreadable: " if others == "a checkpoint" else "permission: "), said
        assert first_difference(stamps(root), before) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_undoes_what_he_did() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        root = directory(Path(scratch) / "parent" / "logs")
        for path in [root.parent, root, *root.rglob("*")]:
            os.chown(path, 65534, 65534)
        before = stamps(root)
        assert as_nobody(lambda: recover(Recovery(accept_loss=True, **given(CASE)), root)[0]) == "done"
        assert as_nobody(lambda: undo(root)) == "done"
        assert first_difference(stamps(root), before) == ""


@pytest.mark.parametrize("place", PLACES)
def test_files_with_set_id_bits_are_recovered_and_undone(place: str, tmp_path: Path) -> None:
    """A copy comes back without them; what is renamed keeps them.  Our own journal is one that we read."""
    case = recovery_cases(["segment_set"])[0]
    root = case.unpack_before(tmp_path / "logs")
    for path in root.rglob("*"):
        path.chmod(0o2755 if path.is_dir() else 0o6644)
    before = stamps(root)
    with quarantine_at(place, tmp_path) as kept:
        recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), root)
        undo(root)
    assert {name: (held[0], held[1] & 0o777, held[2]) for name, held in stamps(root).items()} == {
        name: (held[0], held[1] & 0o777, held[2]) for name, held in before.items()
    }
