"""A frozen judge: this tree beside another commit, on every fixture, every recorded case and random damage.

`python3 dev.py same BASE` installs BASE in an environment of its own, and runs this program.  Both commits get copies
of the same directories under the same path, one after the other.  It compares what they print, their exit codes, the
trees that they leave, the rows of the Spark source and the processor time.  Runs of `recover`, also with copies,
`compact`, `undelete` and `undo` that an older commit began and did not end, or ended, are listed, completed and undone
by this tree.  Text is compared byte for byte, but for run ids, random names and the clock.

A difference is accepted if a line of `accepted_differences.txt` matches it; each line has its reason.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkalog.recovery.act.history import RunState
from kafkalog.words.exit_codes import ExitCode
from testkit.made.compactable import CONFIG, compactable
from testkit.recorded import fixture_data
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.recovery_cases import unpacked_cases

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ACCEPTED = HERE / "accepted_differences.txt"
AT = "1800000000000"
SHOWN_LINES = 12

_RUN_ID = re.compile(r"\b\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}\b")
_UNIQUE = re.compile(r"\.[0-9a-f]{32}-(stray|delete|future)\b")
_AGES = re.compile(r'("(?:ageMs|seconds|began|modified_ms|mtime|on_disk)": ?)-?[\d.]+')
_CLOCK = re.compile(r"\b20[2-9]\d-\d\d-\d\d \d\d:\d\d:\d\dZ\b")
_JSON_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[{\[,]')

LOOKING: tuple[tuple[str, ...], ...] = (
    ("ls", "--json"), ("ls",), ("verify", "--json"), ("verify",), ("plan", "--json", "--at", AT), ("plan", "--at", AT),
    ("plan", "--json", "--at", AT, "--mode", "salvage"), ("plan", "--json", "--at", AT, "--mode", "kafka"),
    ("dump", "--json", "--max-records", "200"), ("dump", "--json", "--all", "--max-records", "200"),
    ("groups", "--json"), ("offsets", "--json"), ("transactions", "--json"), ("metadata", "--json"),
)  # fmt: skip
"""Commands that change nothing; the directory is put behind them."""
ACTING: tuple[tuple[str, ...], ...] = (
    ("recover", "--json", "--yes", "--at", AT),
    ("recover", "--json", "--yes", "--at", AT, "--mode", "kafka"),
    ("recover", "--json", "--yes", "--at", AT, "--mode", "salvage", "--accept-loss"),
)  # fmt: skip
"""Commands that change a directory; each works on a copy, and is undone."""
UNFINISHED = RunState.CUT_SHORT, RunState.UNDO_CUT_SHORT
"""States of a run that is still to be completed."""
CROSSING = (*ACTING[0], "--accept-loss")
"""The command whose runs an older commit begins on recorded damage, and which completes runs of other commands."""


class Side:
    """One of the two commits: a process that answers."""

    def __init__(self, name: str, tree: Path) -> None:
        self.name = name
        path = os.pathsep.join([str(tree / "src"), str(tree / "tests" / "support")])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "COLUMNS": "120", "TZ": "UTC"}
        self._process = subprocess.Popen(
            [str(tree / ".venv" / "bin" / "python"), str(HERE / "same_worker.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip

    def ask(self, action: str, *arguments: object) -> dict[str, Any]:
        """The answer to one question; an error if the process ended instead."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError(self.name)
        stdin.write(json.dumps([action, arguments]) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended at {action} {arguments}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True, slots=True)
class Case:
    """A directory to be compared on."""

    name: str
    directory: Path


@dataclass(frozen=True, slots=True)
class Begun:
    """A command that the older commit begins on a directory, and perhaps one that it ends before."""

    case: Case
    words: tuple[str, ...] = CROSSING
    before: tuple[str, ...] = ()

    @property
    def completing(self) -> tuple[str, ...]:
        """The command that completes the run."""
        return self.words if self.words[0] == CROSSING[0] else CROSSING


@dataclass(slots=True)
class Judge:
    """What was compared, and what differed."""

    accepted: Sequence[tuple[str, re.Pattern[str], str]]
    compared: int = 0
    used: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def compare(self, what: str, base: str, ours: str) -> None:
        """Compare two texts; lines that differ must all be accepted."""
        self.compared += 1
        if base == ours:
            return
        _, _, *hunks = difflib.unified_diff(base.splitlines(True), ours.splitlines(True), "base", "ours", n=0)
        lines = [line for line in hunks if line[:1] in "+-"]
        left = [line for line in lines if not self._is_accepted(what, line)]
        if left:
            more = f"\n    and {len(left) - SHOWN_LINES} more lines" if len(left) > SHOWN_LINES else ""
            shown = (line.rstrip("\n")[:300] for line in left[:SHOWN_LINES])
            self.different.append("\n    ".join([what, *shown]) + more)

    def _is_accepted(self, what: str, line: str) -> bool:
        for glob, pattern, reason in self.accepted:
            if fnmatch.fnmatchcase(what, glob) and pattern.search(line):
                self.used[reason] += 1
                return True
        return False

    def spent(self, command: str, side: int, seconds: float) -> None:
        """Add processor time of the base (0) or of this tree (1)."""
        self.seconds.setdefault(command, [0.0, 0.0])[side] += seconds


def read_accepted(path: Path) -> list[tuple[str, re.Pattern[str], str]]:
    """Lines `GLOB | REGULAR EXPRESSION | REASON`; empty lines and comments are skipped."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or not all(parts):
            raise SystemExit(f"{path.name}, line {number}: a glob, a regular expression and a reason are needed")
        found.append((parts[0], re.compile(parts[1]), parts[2]))
    return found


def without_chance(text: str) -> str:
    """The text without what is different at every run: run ids, random names, the clock."""
    text = _UNIQUE.sub(r".UNIQUE-\1", _RUN_ID.sub("RUN", text))
    text = _CLOCK.sub("CLOCK", _AGES.sub(r"\1N", text))
    return "".join(_in_lines(line) for line in text.splitlines(keepends=True))


def _in_lines(line: str) -> str:
    """A line of JSON with one field on each line, so that a difference names its field; nothing else is changed."""
    if not line.startswith("{"):
        return line
    return _JSON_PARTS.sub(lambda part: part[0] if part[0].startswith('"') else part[0] + "\n", line)


# --- the cases ------------------------------------------------------------------------------------------------------


def fixtures() -> Iterator[Case]:
    """Every directory of every recorded broker."""
    for case in sorted((ROOT / "fixtures" / "brokers").glob("kafka-*/*")):
        if case.is_dir():
            version = case.parent.name.removeprefix("kafka-")
            for number, directory in enumerate(brokers(f"{version}/{case.name}")):
                yield Case(f"fixture {version}/{case.name} {number}", directory)


def recorded(every: int) -> Iterator[Case]:
    """Every n-th recorded damage."""
    for each in unpacked_cases(every):
        yield Case(f"recorded {each.name}", each.before)


def shuffled(seed: int) -> Iterator[Case]:
    """Every recorded damage, in random order."""
    cases = list(fixture_data.recovery_cases())
    random.Random(seed).shuffle(cases)
    for case in cases:
        with tempfile.TemporaryDirectory() as scratch:
            yield Case(f"recorded {case.id}", case.unpack_before(Path(scratch) / "before"))


def damaged(seed: int, count: int) -> Iterator[Case]:
    """Random damage to recorded directories."""
    sources = [case for case in fixtures() if any(case.directory.glob("*-*/*.log"))]
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        source = chance.choice(sources)
        with tempfile.TemporaryDirectory() as scratch:
            directory = Path(shutil.copytree(source.directory, Path(scratch) / "data", symlinks=True))
            told = [_damage(directory, chance) for _ in range(chance.randint(1, 3))]
            yield Case(f"random {seed}.{number} of {source.name}: {', '.join(told)}", directory)


def _damage(directory: Path, chance: random.Random) -> str:
    """Damage one file; says how."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        return "nothing to damage"
    file = chance.choice(files)
    file.chmod(0o600)
    data = bytearray(file.read_bytes())
    name = file.relative_to(directory)
    place = chance.randrange(len(data))
    kind = chance.choice(["flip", "cut", "zeros", "junk", "gone", "twice"])
    if kind == "flip":
        data[place] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[place:]
    elif kind == "zeros":
        data[place:] = bytes(len(data) - place)
    elif kind == "junk":
        data[place : place + 40] = chance.randbytes(40)
    elif kind == "twice":
        data += data[place:]
    if kind == "gone":
        file.unlink()
    else:
        file.write_bytes(data)
    return f"{kind} {name}@{place}"


def begun_jobs(folder: Path) -> Iterator[Begun]:
    """Commands other than `recover` without copies, each on a small log directory that gives it something to do."""
    for name in ("compact", "undelete", "merge", "undo"):
        (folder / name).mkdir()
        root = compactable(folder / name / "data", count=1)
        case, words = Case(f"job {name}", root), ("--json", "--yes", "--at", AT)
        if name == "compact":
            settings = (each for setting in CONFIG.items() for each in ("--config", "=".join(setting)))
            yield Begun(case, (name, *words, *settings))
        elif name == "undelete":
            (root / "t-0").rename(root / f"t-0.{'0123456789abcdef' * 2}-delete")
            yield Begun(case, (name, *words, "--topic", "t"))
        else:
            copy = shutil.copytree(root, folder / name / "copy")
            log = max(root.glob("t-0/*.log"))
            log.write_bytes(log.read_bytes()[:-3])
            (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
            merging = (*CROSSING, "--mode", "merge", "--copy", str(copy))
            yield Begun(case, merging) if name == "merge" else Begun(case, ("undo", "--json", "--yes"), merging)


# --- the comparisons ------------------------------------------------------------------------------------------------


class Comparison:
    """All sides on one case after the other, always under the same path."""

    def __init__(self, base: Side, ours: Side, older: Side, judge: Judge, place: Path) -> None:
        self._sides = base, ours
        self._older = older
        self._judge = judge
        self._place = place
        self._root = place / "data"

    def fresh(self, case: Case) -> str:
        """Put a copy of the case in its place, and remove what earlier runs left."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir(parents=True)
        shutil.copytree(case.directory, self._root, symlinks=True)
        return str(self._root)

    def case(self, case: Case, *, acting: bool) -> None:
        """Compare all commands on a case."""
        root = self.fresh(case)
        for words in LOOKING:
            self._answers(case, [*words, root])
        if any(case.directory.glob("*-*/*.log")):
            rows = [side.ask("spark_rows", root)["rows"] for side in self._sides]
            self._judge.compare(f"{case.name} | spark", *("\n".join(each) for each in rows))
        for words in ACTING if acting else ():
            self._acting(case, words)

    def _answers(self, case: Case, words: Sequence[str]) -> None:
        found = [side.ask("run", words) for side in self._sides]
        what = f"{case.name} | {' '.join(words[:-1])}"
        for side, each in enumerate(found):
            self._judge.spent(words[0], side, each["seconds"])
        for part in ("code", "out", "err"):
            self._judge.compare(f"{what} | {part}", *(without_chance(str(each[part])) for each in found))

    def _acting(self, case: Case, words: Sequence[str]) -> None:
        """A recovery and its undo, on a fresh copy for each side."""
        texts: list[list[str]] = []
        for number, side in enumerate(self._sides):
            root = self.fresh(case)
            done = side.ask("run", [*words, root])
            self._judge.spent(words[0], number, done["seconds"])
            after = side.ask("tree", root)["tree"]
            undone = side.ask("run", ["undo", "--json", "--yes", root])
            back = side.ask("tree", root)["tree"]
            texts.append([
                without_chance(f"{done['code']}\n{done['out']}\n{done['err']}"), _listed(after),
                without_chance(f"{undone['code']}\n{undone['out']}\n{undone['err']}"), _listed(back),
            ])  # fmt: skip
        for part, *both in zip(("answer", "tree", "undo", "tree after undo"), *texts, strict=True):
            self._judge.compare(f"{case.name} | {' '.join(words)} | {part}", *both)

    def crossing(self, begun: Begun, every: int) -> bool:
        """A command that the older commit begins, stopped at every n-th change and not at all, is listed, completed and
        undone by this tree. False if that commit changes nothing here.
        """
        older, ours, case = self._older, self._sides[1], begun.case
        before = ours.ask("tree", self.fresh(case))["tree"]
        root = self._prepared(begun)
        if older.ask("run", [*begun.words, root])["code"] != ExitCode.CHANGED:
            return False
        whole = older.ask("tree", root)["tree"]
        completed = 0
        for number in itertools.count(1, every):
            for ending in ("recover", "undo"):
                root = self._prepared(begun)
                killed = older.ask("cut_short", [*begun.words, root], number)["killed"]
                where = f"{case.name} | begun by {older.name}, stopped at change {number}, then {ending}"
                listings = [side.ask("run", ["runs", "--json", root]) for side in (older, ours)]
                self._judge.compare(f"{where} | runs", *(_run_ids(each) for each in listings))
                if ending == "recover":
                    is_unfinished = any(f'"state": "{state}"' in listings[1]["out"] for state in UNFINISHED)
                    codes = {0, 2} if is_unfinished else {0, 1, 2}  # 1: nothing is changed, and a problem stays
                    self._must(f"{where} | code", ours.ask("run", [*begun.completing, root]), codes)
                    if is_unfinished:
                        self._judge.compare(f"{where} | tree", _listed(whole), _listed(ours.ask("tree", root)["tree"]))
                        completed += 1
                while (undone := ours.ask("run", ["undo", "--yes", root]))["code"] == ExitCode.CHANGED:
                    pass
                self._must(f"{where} | no run is left to undo", undone, {ExitCode.REFUSED})
                after = ours.ask("tree", root)["tree"]
                self._judge.compare(f"{where} | tree after undo", *(json.dumps(each) for each in (before, after)))
            if not killed:
                self._judge.compare(f"{case.name} | a run was completed", "True", str(completed > 0))
                return True
        raise AssertionError  # the count has no end

    def _prepared(self, begun: Begun) -> str:
        """A fresh copy of the case, on which the older commit carried out the command before."""
        root = self.fresh(begun.case)
        if begun.before:
            self._must(f"{begun.case.name} | before", self._older.ask("run", [*begun.before, root]), {ExitCode.CHANGED})
        return root

    def _must(self, what: str, answer: dict[str, Any], codes: set[int]) -> None:
        wrong = "" if answer["code"] in codes else f"{answer['code']}: {answer['err']}"
        self._judge.compare(what, "", wrong)


def _listed(tree: dict[str, str]) -> str:
    return without_chance("\n".join(f"{name}: {facts}" for name, facts in tree.items()))


def _run_ids(answer: dict[str, Any]) -> str:
    """The exit code and the ids of the runs that are listed, one a line."""
    return "\n".join([str(answer["code"]), *sorted(set(_RUN_ID.findall(answer["out"])))])


def main(arguments: Sequence[str]) -> int:
    """Compare; exit code 0 if nothing differs that is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True, help="the tree of the base, set up")
    parser.add_argument("--older", type=Path, help="the tree of the commit that begins runs; else the base")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case of each kind")
    parser.add_argument("--random", type=int, default=100, help="how many random damages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--crossings", type=int, default=8, help="recorded cases that the older commit recovers")
    parser.add_argument("--changes", type=int, default=1, help="stop such a run at every n-th change only")
    given = parser.parse_args(arguments)
    judge = Judge(read_accepted(ACCEPTED))
    base, ours, older = Side("base", given.base), Side("ours", ROOT), Side("older", given.older or given.base)
    with tempfile.TemporaryDirectory(prefix="kafkalog-same-") as scratch:
        comparison = Comparison(base, ours, older, judge, Path(scratch) / "place")
        for number, case in enumerate(fixtures()):
            if number % given.every == 0:
                comparison.case(case, acting=True)
        for case in recorded(given.every):
            comparison.case(case, acting=True)
        for case in damaged(given.seed, max(given.random // given.every, 1)):
            comparison.case(case, acting=True)
        begun = (case.name for case in shuffled(given.seed) if comparison.crossing(Begun(case), given.changes))
        crossed = list(itertools.islice(begun, given.crossings))
        jobs = list(begun_jobs(Path(scratch)))
        crossed += (job.case.name for job in jobs if comparison.crossing(job, given.changes))
    for side in (base, ours, older):
        side.close()
    print(f"crossed versions: {', '.join(crossed)}")
    judge.compare("cases whose runs an older commit began", str(given.crossings + len(jobs)), str(len(crossed)))
    return report(judge)


def report(judge: Judge) -> int:
    """Print what differed, what was accepted and the processor time; the exit code."""
    for each in judge.different:
        print(f"different: {each}")
    for reason, count in judge.used.most_common():
        print(f"accepted, {count} lines: {reason}")
    for command, (before, after) in sorted(judge.seconds.items()):
        print(f"processor time of {command}: {before:.1f} s, now {after:.1f} s ({after / max(before, 0.001):.2f})")
    print(f"{judge.compared} compared, {len(judge.different)} different")
    return 1 if judge.different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
