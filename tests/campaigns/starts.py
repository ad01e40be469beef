"""The table of starts: damages to what a node reads before it serves, foretold first, then started on real brokers.

    python tests/campaigns/starts.py [--seed N] [--count N] [--seconds N] [--again] [--table FILE]

with ``tests/support`` on the path (``python3 dev.py trials --starts`` runs it).  Which trials there are is drawn by the
seed.  All forecasts are written to ``.cache/starts/forecasts-SEED.jsonl`` before the first node is started; results are
lines in ``.cache/starts/results-SEED.jsonl``, and a trial that has one is not repeated, unless ``--again`` begins anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from kafkalog.recovery.broker.node.answer import StartOutcome
from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json
from testkit.kafka.start_comparing import Forecast, as_json, differences, forecast
from testkit.kafka.start_damages import DAMAGES, NotHereError
from testkit.kafka.start_stages import BROKER, COMBINED, CONTROLLER, WITH_ZOOKEEPER, Base, Stage, clients, stage
from testkit.kafka.start_trials import Trial, damaged_copy, forget, observe

SEED = 20261127
COUNT = 160
PLACE = Path(tempfile.gettempdir()) / "kafkalog-starts"
"""where each trial lies, under its number: paths are part of what is foretold"""

COMBINED_BASES = (
    Base("3.6.2"),
    Base("3.9.1"),
    Base("3.9.1", dynamic=True),
    Base("3.9.1", cleaned=True),
    Base("4.1.1"),
    Base("4.1.1", dynamic=True),
    Base("4.1.1", dynamic=True, cleaned=True),
    Base("4.3.0", dynamic=True),
    Base("4.3.0", cleaned=True),
)
SEVERAL = (Base("3.9.1", directories=2), Base("4.3.0", dynamic=True, directories=2))
APART = (Base("3.9.1", "apart"), Base("4.3.0", "apart", dynamic=True))
THREE = (Base("3.9.1", "three"), Base("4.3.0", "three", dynamic=True))
ZOOKEEPER = Base("3.9.1", "zookeeper")
WITHOUT_METADATA = tuple(
    name for name in DAMAGES
    if name.startswith(("undamaged", "meta-", "partition-", "every-partition", "unknown-partition", "foreign", "log-",
                        "offsets-", "transactions-", "recovery-point", "high-", "clean", "log-start"))
)
"""damages to files that a broker with ZooKeeper has too"""
OF_SEVERAL = tuple(
    name for name in DAMAGES
    if name.startswith(("second", "metadata-in", "metadata-moved", "partition-in", "future", "partition-moved",
                        "directories", "meta-duplicate"))
)  # fmt: skip


def drawn(seed: int, count: int) -> list[Trial]:
    """The trials of a seed: every damage at least once on a combined node, then by chance."""
    random = Random(seed)
    found: list[Trial] = []
    names = [name for name in DAMAGES if name not in OF_SEVERAL]
    random.shuffle(names)
    for name in names:
        found.append(Trial(random.choice(COMBINED_BASES), COMBINED, name, random.randrange(1000)))
    for name in OF_SEVERAL:
        found.append(Trial(random.choice(SEVERAL), COMBINED, name, random.randrange(1000)))
    while len(found) < count:
        found.append(_drawn(random, names))
    return found[:count]


def _drawn(random: Random, names: list[str]) -> Trial:
    kind = random.random()
    if kind < 0.25:
        base, node = random.choice(COMBINED_BASES), COMBINED
    elif kind < 0.5:
        base, node = random.choice(APART), random.choice((CONTROLLER, BROKER))
    elif kind < 0.75:
        base, node = random.choice(THREE), COMBINED
    elif kind < 0.88:
        return Trial(ZOOKEEPER, WITH_ZOOKEEPER, random.choice(WITHOUT_METADATA), random.randrange(1000))
    else:
        base, node = random.choice(SEVERAL), COMBINED
        names = [*OF_SEVERAL, *names]
    return Trial(base, node, random.choice(names), random.randrange(1000))


def _folder() -> Path:
    folder = kafka_jars.cache_directory() / "starts"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def _place(number: int) -> Path:
    return PLACE / str(number)


def foretell(trials: list[Trial], stages: dict[Base, Stage], file: Path) -> list[Json]:
    """Forecasts of all trials, written down; a trial whose damage cannot be done is left out."""
    found = []
    with file.open("w") as output:
        for number, trial in enumerate(trials):
            place = _place(number)
            forget(place)
            try:
                damaged_copy(trial, stages[trial.base], place)
                foretold = as_json(forecast(trial, stages[trial.base], place))
            except NotHereError:
                continue
            finally:
                forget(place)
            line = {"number": number, "trial": trial.name, "forecast": foretold}
            output.write(json.dumps(line) + "\n")
            found.append(line)
    return found


def attempt(trial: Trial, number: int, foretold: Json, made: Stage, asked: object) -> Json:
    """Start one and compare."""
    place = _place(number)
    forget(place)
    line: Json = {"number": number, "trial": trial.name, "forecast": foretold}
    try:
        damaged_copy(trial, made, place)
        found = observe(trial, made, place, asked)  # type: ignore[arg-type]
        told = differences(Forecast(**foretold), found, place, trial)
        observed = {**found.__dict__, "outcome": str(found.outcome)}
        return {**line, "observed": observed, "differences": told}
    except Exception as error:  # noqa: BLE001 - counted, told, and the campaign goes on
        traceback.print_exc()
        return {**line, "failed": f"{type(error).__name__}: {str(error)[:300]}"}
    finally:
        forget(place)


def campaign(seed: int, count: int, seconds: float, only: str) -> int:
    """Foretell everything, then start what has no result yet, for about so long."""
    deadline = time.monotonic() + seconds
    trials = drawn(seed, count)
    asked = clients()
    results = _folder() / f"results-{seed}.jsonl"
    try:
        stages = {base: stage(base, asked) for base in dict.fromkeys(trial.base for trial in trials)}
        foretold = foretell(trials, stages, _folder() / f"forecasts-{seed}.jsonl")
        done = {line["number"] for line in _lines(results) if "failed" not in line}
        for line in foretold:
            number = line["number"]
            if number in done or only not in line["trial"]:
                continue
            if time.monotonic() > deadline:
                break
            result = attempt(trials[number], number, line["forecast"], stages[trials[number].base], asked)
            with results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(_sentence(result), flush=True)
    finally:
        asked.close()
        shutil.rmtree(PLACE, ignore_errors=True)
    return summary(_lines(results), len(foretold))


def _sentence(result: Json) -> str:
    if "failed" in result:
        return f"FAILED {result['trial']}: {result['failed']}"
    told = "; ".join(result["differences"])
    return f"{'DIFFERS' if told else 'as foretold'} {result['trial']}: {result['observed']['outcome']} {told}"


def summary(results: list[Json], count: int) -> int:
    """Print the counts; 0 if every start was as foretold."""
    last = {line["number"]: line for line in results}
    counts: Counter[str] = Counter()
    for line in last.values():
        if "failed" in line:
            counts["failed"] += 1
            continue
        counts["started"] += 1
        counts["consequence"] += line["observed"]["outcome"] != StartOutcome.STARTS
        if line["forecast"]["outcome"] == StartOutcome.UNKNOWN:
            counts["unknown"] += 1
        elif line["differences"]:
            counts["differs"] += 1
        else:
            counts["right"] += 1
    print(
        f"{counts['started']} of {count} started, {counts['consequence']} with a consequence; {counts['right']} as "
        f"foretold, {counts['differs']} not, {counts['unknown']} unknown, {counts['failed']} could not be tried"
    )
    return 0 if counts["right"] == count else 1


def table(results: list[Json]) -> str:
    """The results as a table for a page, in the order of the draw."""
    lines = ["| release, voters | node | damage | outcome | foretold |", "|---|---|---|---|---|"]
    for line in sorted({each["number"]: each for each in results}.values(), key=lambda each: each["number"]):
        base, _, rest = line["trial"].partition(" ")
        node, _, damage = rest.partition(": ")
        if "failed" in line:
            lines.append(f"| {base} | {node} | {damage} | could not be tried | |")
            continue
        said = line["forecast"]["outcome"]
        right = "unknown" if said == StartOutcome.UNKNOWN else "yes" if not line["differences"] else "no: " + said
        outcome = line["observed"]["outcome"]
        exception = (line["forecast"]["exception"] or "").rpartition(".")[2] if outcome == StartOutcome.FAILS else ""
        lines.append(f"| {base} | {node} | {damage} | {outcome} {exception} | {right} |".replace("  ", " "))
    return "\n".join(lines) + "\n"


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", action="store_true", help="accepted and without effect")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seconds", type=float, default=86_400.0, help="begin no trial after so long")
    parser.add_argument("--only", default="", help="only trials whose name holds this")
    parser.add_argument("--table", type=Path, help="only write the results so far as a table")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    arguments = parser.parse_args()
    if arguments.again:
        (_folder() / f"results-{arguments.seed}.jsonl").unlink(missing_ok=True)
    if arguments.table is not None:
        arguments.table.write_text(table(_lines(_folder() / f"results-{arguments.seed}.jsonl")))
        return 0
    return campaign(arguments.seed, arguments.count, arguments.seconds, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
