"""What a broker had reserved of an index, and a recovery cuts off, is kept as a number in the journal: it is zeros."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import runs
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.writer import Log
from kafkalog.recovery import Purge, Recovery, purge, recover, undo
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Stopped, failing_at

RESERVED = 120_000
STOPS = 100


@pytest.fixture
def crashed(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a log directory after a crash: its indexes are as large as they were reserved."""

    def make(name: str) -> Path:
        root = tmp_path / name
        root.mkdir()
        with Log.open(root / "orders-0", LogConfig(flush_seconds=None)) as log:
            for number in range(20):
                log.append([b"%02000d" % number])
        for kind in ("index", "timeindex"):
            os.truncate(root / "orders-0" / f"{0:020}.{kind}", RESERVED)
        (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (root / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
        return root

    return make


def tails(root: Path) -> list[str]:
    (run,) = runs(root)
    return sorted(path.name.partition(".")[2] for path in Path(run.directory).rglob("*.tail@*"))


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", PLACES)
def test_no_file_is_kept_of_it_and_undo_puts_it_back(
    place: str, crashed: Callable[[str], Path], tmp_path: Path
) -> None:
    root = crashed("logs")
    before = contents(root)
    with quarantine_at(place, tmp_path) as kept:
        recover(Recovery(quarantine=kept), root)
        assert (root / "orders-0" / f"{0:020}.index").stat().st_size < RESERVED
        (run,) = runs(root, quarantine=kept)
        assert list(Path(run.directory).rglob("*.tail@*")) == []
        cut = {each.path.rpartition(".")[2]: each.bytes for each in run.originals if each.start is not None}
        assert cut.keys() == {"index", "timeindex"}
        assert min(cut.values()) > 0
        undo(root)
        after = {path: data for path, data in contents(root).items() if path in before}
        assert after == before
        assert (root / "orders-0" / f"{0:020}.index").stat().st_blocks * 512 < RESERVED


def test_one_byte_far_behind_is_enough_to_keep_all_of_it(crashed: Callable[[str], Path]) -> None:
    root = crashed("logs")
    index = root / "orders-0" / f"{0:020}.index"
    with index.open("r+b") as file:
        file.seek(RESERVED - 3)
        file.write(b"\x01")
    before = contents(root)
    recover(root)
    (tail,) = tails(root)
    assert tail.startswith("index.tail@")
    undo(root)
    assert {path: data for path, data in contents(root).items() if path in before} == before


@pytest.mark.parametrize(
    "act", [undo, lambda root: purge(Purge(run_ids=[runs(root)[0].run_id]), root)], ids=["undo", "purge"]
)
def test_a_run_that_kept_them_in_files(act: Callable[[Path], object], crashed: Callable[[str], Path]) -> None:
    """As runs of earlier versions did: they are undone and purged like others."""
    root = crashed("logs")
    recover(root)
    (run,) = runs(root)
    kept = Path(run.directory) / "files" / "orders-0"
    kept.mkdir(parents=True, exist_ok=True)
    for each in run.originals:
        if each.start is not None:
            (kept / f"{Path(each.path).name}.tail@{each.start}").write_bytes(bytes(each.bytes))
    assert len(tails(root)) == 2
    act(root)
    assert list(root.parent.rglob("*.tail@*")) == []


def test_an_undo_that_stops_anywhere_can_be_gone_on_with(
    crashed: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 0
    for number in range(1, STOPS):
        root = crashed(f"logs-{number}")
        before = contents(root)
        recover(root)
        with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
            undo(root)
        if count[0] < number:
            break
        stops += 1
        if any(run.undoable for run in runs(root)):
            undo(root)
        after = contents(root)
        assert {path: after[path] for path in before} == before
    assert stops > 3
