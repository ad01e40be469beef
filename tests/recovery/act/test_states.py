"""A run is killed, the broker starts on what is there and goes on; then an operator comes back to kafkalog.

At points at which a run can be stopped, in a sweep at every one: the broker's own recovery (as recorded, for that
damage) stands over the directory, a batch is appended, and `recover` still works, `undo` declines without a change, and
no byte is gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kafkalog import RecoveryRefused
from kafkalog.recovery import Recovery, Undo, recover, undo
from kafkalog.recovery.act.journal import JOURNAL, SUPERSEDED
from kafkalog.recovery.act.states import A_DIRECTORY, ABSENT, Place, Timeline
from testkit.judging.every_byte import Originals
from testkit.judging.trees import copy_tree, first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Stopped, failing_at

CASES = [
    next(case for case in recovery_cases([family]) if case.outcome == "loaded" and case.case["result"]["changed"])
    for family in ("torn_tail", "segment_set", "swap_files")
]


def broker_starts(root: Path, case: RecoveryCase, tmp_path: Path) -> None:
    """What Kafka left of this damage takes the place of what is there, and it has gone on writing."""
    after = case.unpack_after(tmp_path / "after")
    for path in sorted(after.rglob("*")):
        if path.is_file():
            target = root / path.relative_to(after)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
    shutil.rmtree(after)
    log = max(path for path in root.glob("t-0/*.log"))
    good = max((path for path in root.glob("t-0/*.log")), key=lambda path: path.stat().st_size).read_bytes()
    with log.open("ab") as file:
        file.write(good[: 12 + int.from_bytes(good[8:12], "big")])  # any batch: an operator's next damage, perhaps
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":42}')


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_a_broker_started_on_a_run_that_was_cut_short(
    case: RecoveryCase,
    place: str,
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    original = case.unpack_before(tmp_path / "original")
    number, stale = 1, 0
    while True:
        root = copy_tree(original, tmp_path / "logs")
        with quarantine_at(place, tmp_path) as kept:
            with failing_at(number, Stopped, monkeypatch) as count, suppress(Stopped):
                recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), root)
            if count[0] < number:
                break
            where = kept or root.with_name("logs.recovery")
            broker_starts(root, case, tmp_path)
            originals = Originals(root)
            began = bool(list(where.glob(f"*/{JOURNAL}")))
            before, saved = stamps(root), stamps(where)
            with pytest.raises(RecoveryRefused):
                undo(Undo(quarantine=kept), root)
            assert first_difference(dict(stamps(root)), dict(before)) == "", f"undo after stop {number}"
            assert first_difference(dict(stamps(where)), dict(saved)) == "", f"undo after stop {number}"
            result = recover(Recovery(quarantine=kept, accept_loss=True, **given(case)), root)[0]
            if began:
                assert len(result.earlier.superseded) == 1, number
                assert len(list(where.glob(f"*/{SUPERSEDED}"))) == 1
                stale += 1
            assert originals.missing(root, where) == []
            if result.run_id is not None:
                undo(Undo(quarantine=kept), root)
            assert first_difference(not_ours(root), {path: before.get(path) for path in not_ours(root)}) == ""
        shutil.rmtree(tmp_path / "logs")
        shutil.rmtree(tmp_path / "logs.recovery", ignore_errors=True)
        number += step
    assert stale > 1
    measured(f"runs cut short that a broker's start made stale, quarantine {place}, set aside", stale)


def not_ours(root: Path) -> dict[str, object]:
    """Everything but what kafkalog itself keeps there, and the root's time, which that changes."""
    return {path: held for path, held in stamps(root).items() if path != "." and not path.startswith(".kafkalog")}


def test_a_place_that_a_timeline_does_not_know_is_absent() -> None:
    timeline = Timeline()
    known, unknown = Place(False, "t-0"), Place(False, "t-1")
    timeline.begin(known, A_DIRECTORY)
    assert (timeline.at(known, 0), timeline.at(unknown, 0)) == (A_DIRECTORY, ABSENT)
