"""`undelete`, `undo` and `runs --purge` as a person sees them: the question, the answer, and Ctrl-C at every stage."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalog.recovery import Recovery, plan, recover
from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import recovery_case
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog
from testkit.running.terminal import CTRL_C, Seen, interrupted_at, on_a_terminal

DELETED = "sessions-20-0"
UNIQUE = "0123456789abcdef0123456789abcdef"


def delete_directory(root: Path) -> None:
    (root / DELETED).rename(root / f"{DELETED}.{UNIQUE}-delete")


def delete_segments(root: Path) -> None:
    first = min((root / DELETED).glob("*.log"))
    for path in sorted((root / DELETED).glob(f"{first.stem}.*")):
        path.rename(path.with_name(path.name + ".deleted"))


@pytest.fixture(params=[delete_directory, delete_segments])
def deleted(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A broker's directory of which something was deleted a moment ago."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "logs")
    recover(Recovery(full=True, quarantine=tmp_path / "first"), root)
    (root / ".kafkalog-quarantine").unlink()
    request.param(root)
    return root


@pytest.fixture
def recovered(tmp_path: Path) -> tuple[Path, str]:
    """A directory with one run, and that run."""
    case = recovery_case("random_mix/025")
    root = case.unpack_before(tmp_path / "logs")
    settings = given(case)
    run = recover(Recovery(mode="salvage", config=settings["config"], at=settings["at"], accept_loss=True), root)[
        0
    ].run_id
    assert run is not None
    return root, run


def whole(seen: Seen) -> str:
    assert "Traceback" not in seen.text
    return " ".join(" ".join(line.removesuffix(" \\") for line in seen.lines).split())


# -- undelete --------------------------------------------------------------------------------------------------------


def test_undelete_tells_asks_and_puts_back(deleted: Path) -> None:
    before = stamps(deleted)
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", answer=b"y\n")
    assert seen.code == 2, seen.text
    text = whole(seen)
    order = ["records; offsets 0 to 234; topic id", f"Put sessions-20 back in {deleted}? [y/N]",
             f"restored in {deleted}", f"to undo this: kafkalog undo {deleted} --run "]  # fmt: skip
    places = [text.find(part) for part in order]
    assert -1 not in places, (order[places.index(-1)], text)
    assert places == sorted(places)
    assert not plan(deleted)[0].changes
    (command,) = re.findall(r"kafkalog (undo \S+ --run \S+)", text)
    assert kafkalog(*command.split(), "--yes").code == 2
    assert stamps(deleted) == before


@pytest.mark.sweep
@pytest.mark.parametrize("answer", [b"n\n", b"\n"], ids=["no", "nothing"])
def test_undelete_takes_no_for_no(deleted: Path, answer: bytes) -> None:
    before = stamps(deleted)
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", answer=answer)
    assert seen.code == 3
    assert "nothing was changed" in whole(seen)
    assert stamps(deleted) == before
    assert not deleted.with_name("logs.recovery").exists()


@pytest.mark.sweep
def test_ctrl_c_at_the_question_of_undelete(deleted: Path) -> None:
    before = stamps(deleted)
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", answer=CTRL_C)
    assert seen.code == 130, seen.text
    assert "interrupted; nothing was changed" in whole(seen)
    assert stamps(deleted) == before


@pytest.mark.parametrize(
    "moment",
    [
        "kafkalog.jobs.undelete.putting_back.recover_safely",
        "kafkalog.recovery.act.preparing._Preparation:step",
    ],
)
def test_undelete_interrupted_before_anything_is_changed(moment: str, deleted: Path) -> None:
    before = stamps(deleted)
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", "--yes", setup=interrupted_at(moment))
    assert seen.code == 130, seen.text
    assert "interrupted; nothing was changed" in whole(seen)
    assert stamps(deleted) == before
    assert not deleted.with_name("logs.recovery").exists()


@pytest.mark.sweep
@pytest.mark.parametrize("then", ["recover", "undo"])
@pytest.mark.parametrize("moment", ["kafkalog.recovery.act.operations.Replace:do",
                                    "kafkalog.recovery.act.apply.finish_document"])  # fmt: skip
def test_undelete_interrupted_while_files_change(moment: str, then: str, deleted: Path) -> None:
    before = stamps(deleted)
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", "--yes", setup=interrupted_at(moment))
    assert seen.code == 130, seen.text
    said = whole(seen)
    (run,) = set(re.findall(r"run (\S+) on \S+ has begun and is not finished", said))
    assert f"kafkalog recover {deleted} completes it" in said
    assert f"kafkalog undo {deleted} --run {run} reverses it" in said
    if then == "undo":
        assert kafkalog("undo", deleted, "--run", run, "--yes").code == 2
        assert stamps(deleted) == before
    else:
        assert kafkalog("recover", "--yes", deleted).code == 2
        assert not plan(deleted)[0].changes
        assert "sessions-20" not in kafkalog("undelete", deleted).out


def test_undelete_interrupted_when_all_is_done(deleted: Path) -> None:
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", "--yes",
                         setup=interrupted_at("kafkalog.cli.repairing.undelete._show_put_back"))  # fmt: skip
    assert seen.code == 130
    assert re.search(r"run \S+ on \S+ is finished; to reverse it: kafkalog undo \S+ --run \S+", whole(seen))


def test_undelete_into_interrupted_leaves_no_half(deleted: Path, tmp_path: Path) -> None:
    before = stamps(deleted)
    seen = on_a_terminal("undelete", deleted, "--topic", "sessions-20", "--into", tmp_path / "new" / "logs",
                         setup=interrupted_at("kafkalog.jobs.undelete.taking_out._copy"))  # fmt: skip
    assert seen.code == 130
    assert "interrupted; nothing was changed" in whole(seen)
    assert stamps(deleted) == before
    assert not (tmp_path / "new").exists()


# -- runs --purge ----------------------------------------------------------------------------------------------------


def test_purge_tells_asks_and_removes(recovered: tuple[Path, str]) -> None:
    root, run = recovered
    seen = on_a_terminal("runs", root, "--purge", run, answer=b"y\n")
    assert seen.code == 2, seen.text
    text = whole(seen)
    order = [f"run {run} on {root} (finished)", "these originals, which exist nowhere else, are lost",
             "Permanently delete all of this? [y/N]", "1 run purged"]  # fmt: skip
    places = [text.find(part) for part in order]
    assert -1 not in places, (order[places.index(-1)], text)
    assert places == sorted(places)
    assert not root.with_name("logs.recovery").exists()


@pytest.mark.parametrize("answer", [b"n\n", CTRL_C], ids=["no", "Ctrl-C"])
def test_purge_takes_no_for_no(recovered: tuple[Path, str], answer: bytes) -> None:
    root, run = recovered
    kept = root.with_name("logs.recovery")
    before = stamps(root), stamps(kept)
    seen = on_a_terminal("runs", root, "--purge", run, answer=answer)
    assert seen.code == (3 if answer == b"n\n" else 130)
    said = "nothing was changed" if answer == b"n\n" else "interrupted; nothing was changed"
    assert said in whole(seen)
    assert (stamps(root), stamps(kept)) == before
    assert kafkalog("undo", root, "--run", run, "--yes").code == 2


@pytest.mark.parametrize(
    "moment", ["kafkalog.recovery.act.fs.FileSystem:remove_tree", "kafkalog.recovery.act.fs.FileSystem:remove"]
)
def test_purge_interrupted_while_it_removes(moment: str, recovered: tuple[Path, str]) -> None:
    root, run = recovered
    before = stamps(root)
    seen = on_a_terminal("runs", root, "--purge", run, "--yes", setup=interrupted_at(moment))
    assert seen.code == 130, seen.text
    said = whole(seen)
    assert f"what run {run} on {root} kept is partly removed, and it can no longer be undone" in said
    assert kafkalog("undo", root, "--run", run, "--yes").code == 3
    (command,) = re.findall(r"to remove the rest: kafkalog (runs \S+ --purge \S+)", said)
    assert kafkalog(*command.split(), "--yes").code == 2
    assert not root.with_name("logs.recovery").exists()
    assert stamps(root) == before


def test_purge_interrupted_before_and_behind(recovered: tuple[Path, str]) -> None:
    root, run = recovered
    kept = root.with_name("logs.recovery")
    before = stamps(kept)
    seen = on_a_terminal(
        "runs", root, "--purge", run, "--yes", setup=interrupted_at("kafkalog.recovery.act.purging._remove")
    )
    assert seen.code == 130
    assert "interrupted; nothing was changed" in whole(seen)
    assert stamps(kept) == before
    seen = on_a_terminal("runs", root, "--purge", run, "--yes",
                         setup=interrupted_at("kafkalog.recovery.act.purging._needs_pointer"))  # fmt: skip
    assert seen.code == 130
    assert f"run {run} on {root} is permanently deleted" in whole(seen)


# -- undo ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [b"n\n", CTRL_C], ids=["no", "Ctrl-C"])
def test_undo_takes_no_for_no(recovered: tuple[Path, str], answer: bytes) -> None:
    root, run = recovered
    before = stamps(root)
    seen = on_a_terminal("undo", root, answer=answer)
    assert seen.code == (3 if answer == b"n\n" else 130)
    assert "nothing was changed" in whole(seen)
    assert stamps(root) == before
    assert kafkalog("undo", root, "--run", run, "--yes").code == 2


def test_undo_interrupted_while_files_change(recovered: tuple[Path, str]) -> None:
    root, run = recovered
    moment = interrupted_at("kafkalog.recovery.act.operations.Replace:take_back")
    seen = on_a_terminal("undo", root, "--yes", setup=moment)
    assert seen.code == 130, seen.text
    said = whole(seen)
    (command,) = re.findall(r"to complete it: kafkalog (undo \S+ --run \S+)", said)
    assert run in command
    assert kafkalog(*command.split(), "--yes").code == 2
    case = recovery_case("random_mix/025")
    assert {name: digest for name, (_time, _mode, digest) in stamps(root).items()} == {
        name: digest for name, (_time, _mode, digest) in stamps(case.unpack_before(root.with_name("again"))).items()
    }
