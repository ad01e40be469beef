"""Each command that a plan prints, run to its end as it is printed: what it leaves is what was promised of it.

A part of the recorded cases in each run, all of them in the sweep; `undo` then gives everything back.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
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
from testkit.recorded.broker_dirs import brokers, own_copy
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
        as_told = (0, 2, 1 if "nothing was changed" in done.out else 2)  # a batch of no known codec stays
        if done.code not in as_told or readable_records(root, known) != kept:
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


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return own_copy(brokers("4.3.0/metadata")[0], tmp_path / "node")


def full_log(node: Path) -> Path:
    return max((path for path in node.glob("[a-z]*-[0-9]/*.log")), key=lambda path: path.stat().st_size)


def printed(*words: object) -> list[str]:
    """The command lines of the first screen."""
    lines = "\n".join(command(*words).lines).replace(" \\\n", " ").split("\n\n")[0].splitlines()
    return [line.strip() for line in lines if line.startswith("  ") and line.split()[0] in ("kafkalog", "mv")]


@pytest.mark.parametrize("program", [("plan",), ("report", "--format", "text", "-o", "-")])
def test_no_command_is_printed_that_a_dangling_link_would_decline(program: tuple[str, ...], node: Path) -> None:
    log = full_log(node)
    kept = log.rename(node.with_name("kept"))
    log.symlink_to("nowhere")
    assert printed(*program, node) == []
    told = " ".join(command(*program, node).out.split())
    assert f"{log.relative_to(node)} is a dangling symbolic link" in told
    assert "bring back what it points to, or remove it" in told
    log.unlink()
    (line,) = printed(*program, node)
    assert command(*shlex.split(line)[1:]).code == 2
    assert log.parent.is_dir()
    command("undo", "--yes", node)
    kept.rename(log)
    assert command("plan", node).code == 0


def test_the_commands_for_a_damaged_copy_beside_its_log_mend_the_node(node: Path) -> None:
    """A broker of 4.3.0 ends at a future copy in the directory of its log; `recover` does not choose between both."""
    log = full_log(node)
    copy = log.parent.with_name(f"{log.parent.name}.{'a' * 32}-future")
    shutil.copytree(log.parent, copy)
    data = bytearray((copy / log.name).read_bytes())
    data[20] ^= 0xFF
    (copy / log.name).write_bytes(data)
    before = log.read_bytes()
    typed: list[str] = []
    while (lines := printed("plan", node)) and len(typed) < 3:
        (line,) = lines
        typed.append(line.split()[0])
        words = shlex.split(line)
        subprocess.run(words, check=True) if words[0] == "mv" else command(*words[1:])
    assert typed[-1] == "mv"
    assert command("plan", node).code == 0
    assert log.read_bytes() == before


def bit_and_index(case: str, partition: str, root: Path) -> tuple[Path, Path]:
    """A log directory that was stopped in order, and the last log of a partition: this has a flipped bit in its middle,
    and the first offset index of another partition a wrong entry.
    """
    root = own_copy(brokers(case)[0], root)
    log = max(root.glob(f"{partition}/*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 4
    log.write_bytes(data)
    index = next(
        path
        for path in sorted(root.glob("[a-z]*-[0-9]/*.index"))
        if path.parent != log.parent and path.stat().st_size >= 16
    )
    entries = bytearray(index.read_bytes())
    entries[12] ^= 0x20
    index.write_bytes(entries)
    return root, log


def test_the_command_for_flipped_bits_mends_indexes_below_the_recovery_point_too(tmp_path: Path) -> None:
    root, _log = bit_and_index("3.9.1/segments", "orders-20-1", tmp_path / "node")
    (line,) = printed("plan", root)
    assert "--repair-bits" in line
    assert command(*shlex.split(line)[1:]).code == 2
    after = command("verify", root)
    assert "index" not in after.err


def test_indexes_of_a_log_whose_bits_are_repaired_are_not_said_to_stay_wrong(tmp_path: Path) -> None:
    root, log = bit_and_index("4.1.1/segments", "orders-23-0", tmp_path / "node")
    finished = command("recover", "--repair-bits", "structure", "--yes", root)
    assert finished.code == 2
    texts = [" ".join(text.split()) for text in re.split(r"\n(?=\S)", finished.out)]
    of_log = [text for text in texts if f"{log.parent.name}/{log.stem}" in text and "index" in text]
    assert of_log
    assert not [text for text in of_log if "below the recovery point" in text]
