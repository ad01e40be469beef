"""Each command that a plan prints, run to its end as it is printed: what it leaves is what was promised of it.

A part of the recorded cases in each run, all of them in the sweep; `undo` then gives everything back.
"""

from __future__ import annotations

import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kafkalog.recovery import Recovery, plan
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.decide.ways import Measured
from kafkalog.words.ways import needs_of
from testkit.judging.counted_records import FAMILIES, readable_records, strays
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog as command

PRINTED = "  kafkalog recover "


def arguments(case: RecoveryCase) -> list[str]:
    options = given(case)
    return ["--at", str(options["at"]), *(f"--config={name}={value}" for name, value in options["config"].items())]


def promised(made: Plan, line: str) -> tuple[str, Measured] | None:
    """Which way a printed command is, and what is said of it: the recommended one, or the plan that was asked for."""
    best = made.choice.recommended
    words = set(shlex.split(line))
    needs = set() if best is None else set(needs_of(best))
    if best is not None and words >= needs and ("--accept-loss" in words) == ("--accept-loss" in needs):
        return str(best.way), best.measured
    return ("as planned", made.choice.own) if "--accept-loss" in words else None


def run(case: RecoveryCase, root: Path, counts: Counter[str]) -> list[str]:
    case.unpack_before(root)
    before, known = stamps(root), strays(root)
    made = plan(Recovery(**given(case)), root)[0]
    wrong = []
    for line in command("plan", *arguments(case), root).lines:
        if not line.startswith(PRINTED):
            continue
        said = promised(made, line)
        if said is None:
            wrong.append(f"{case.id}: nothing was said of {line}")
            continue
        done = command(*shlex.split(line)[1:])
        kept = said[1].records_kept, said[1].records_hidden
        if done.code not in (0, 2) or readable_records(root, known) != kept:
            wrong.append(f"{case.id} {line}: exit code {done.code}, {kept} said, {readable_records(root, known)} there")
        counts[said[0]] += 1
        if done.code == 2:
            command("undo", "--yes", root)
        different = first_difference(dict(stamps(root)), dict(before))
        wrong += [f"{case.id} {line}: after undo, {different}"] if different else []
    return wrong


def run_all(cases: Sequence[RecoveryCase], tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    counts: Counter[str] = Counter()
    wrong = [each for case in cases for each in run(case, tmp_path / case.name, counts)]
    assert wrong == []
    for way, count in counts.items():
        compared(f"printed commands that left what was promised and were undone, {way}", count)


def test_printed_commands(tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    run_all(recovery_cases(FAMILIES)[::24], tmp_path, compared)


@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
def test_every_printed_command(family: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    run_all(recovery_cases([family]), tmp_path, compared)


@pytest.mark.parametrize("mode", ["safe", "set-aside"])
def test_those_for_one_partition_are_about_no_other(mode: str, tmp_path: Path) -> None:
    """Nothing is planned of a partition that is set aside: the commands were for the whole log directory."""
    case = recovery_case("random_mix/000")
    root = case.unpack_before(tmp_path / "root")
    shutil.copytree(root / "t-0", root / "t-1")
    said = command("plan", "--mode", mode, *arguments(case), root / "t-0")
    printed = [shlex.split(line) for line in said.lines if line.startswith(PRINTED)]
    assert printed
    assert all(words[2] == str(root / "t-0") and str(root) not in words for words in printed)
