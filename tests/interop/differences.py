"""What a Kafka version does differently from 4.1.0 at start-up, written to docs/.

    python tests/interop/differences.py [--version 4.3.0] [--random 2000] [--seed 1]

Runs the version's own recovery on every recorded case and on random ones, and compares outcome, files, what the broker
then holds in memory, exceptions and warnings.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import histories
from testkit.recorded import recovery_cases

Json = dict[str, Any]
ASPECTS = {
    "outcome": "outcome (`loaded`, `start_fails`, `dir_offline`)",
    "files": "names, sizes or bytes of the files afterwards",
    "state": "offsets, producers, epochs, segments in memory",
    "exception": "class of the exception",
    "message": "message of the exception",
    "frames": "Kafka's innermost frames",
    "warnings": "warnings in the broker's log",
}
# These decide whether a directory is treated differently; the others are words.
SUBSTANTIAL = ("outcome", "files", "state", "exception")


def normal(text: str) -> str:
    """A log line without line numbers, thread names and times."""
    return re.sub(r"0x[0-9a-f]+|@[0-9a-f]{5,}|\d+ ?ms", "#", text)


def view(result: Json, listing: Json, warnings: list[str]) -> Json:
    failure = result["exception"] or {}
    return {
        "outcome": result["outcome"],
        "files": recovery_cases.comparable(listing),
        "state": result.get("partitions"),
        "exception": failure.get("class"),
        "message": failure.get("message"),
        "frames": failure.get("at"),
        "warnings": [normal(line) for line in warnings],
    }


def aspects(one: Json, other: Json) -> list[str]:
    return [aspect for aspect in ASPECTS if one[aspect] != other[aspect]]


def recorded(version: str) -> tuple[int, dict[str, list[tuple[str, Json, Json]]]]:
    count, found = 0, defaultdict(list)
    with KafkaOracle(version) as kafka:
        for case in recovery_cases.unpacked_cases():
            count += 1
            now = kafka.recover(case.before, case.params)
            one = view(case.result, case.result["after"], case.result["warnings"])
            other = view(now, recovery_cases.files_after(now), now["log"])
            for aspect in aspects(one, other):
                found[aspect].append((case.name, one, other))
    return count, found


def random_cases(version: str, count: int, seed: int) -> tuple[int, dict[str, list[tuple[str, Json, Json]]]]:
    found: dict[str, list[tuple[str, Json, Json]]] = defaultdict(list)
    with KafkaOracle("4.1.0") as old, KafkaOracle(version) as new, tempfile.TemporaryDirectory() as scratch:
        for number, (case, root) in enumerate(histories.campaign(seed, count, Path(scratch), old)):
            copy = Path(scratch) / "copy"
            shutil.copytree(root, copy, symlinks=True)
            try:
                a, b = old.recover(root, case.params), new.recover(copy, case.params)
            finally:
                shutil.rmtree(copy)
            if case.beside and "loaded" not in (a["outcome"], b["outcome"]):
                continue  # both refuse; how far they came depends on the order in which the partitions are listed
            one = view(a, recovery_cases.files_after(a), a["log"])
            other = view(b, recovery_cases.files_after(b), b["log"])
            for aspect in aspects(one, other):
                found[aspect].append((f"seed {seed}, case {number} ({case.history.kind})", one, other))
    return count, found


def table(count: int, found: dict[str, list[tuple[str, Json, Json]]], what: str) -> list[str]:
    lines = [f"| what differs, of {count} {what} | cases |", "|---|---|"]
    lines += [f"| {text} | {len(found[aspect])} |" for aspect, text in ASPECTS.items()]
    return [*lines, ""]


def details(found: dict[str, list[tuple[str, Json, Json]]]) -> list[str]:
    lines: list[str] = []
    for aspect in (*SUBSTANTIAL, "message"):
        if not found[aspect]:
            continue
        lines += [f"### {ASPECTS[aspect][0].upper()}{ASPECTS[aspect][1:]}", ""]
        for name, one, other in found[aspect][:40]:
            lines.append(f"* `{name}`: {shown(one[aspect], other[aspect])}")
        lines.append("")
    return lines


def shown(one: Any, other: Any) -> str:
    one, other = (" ".join(each.split()) if isinstance(each, str) else each for each in (one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        return ", ".join(f"`{name}`" for name in names[:6])
    if one is None or other is None:
        words = ["nothing" if each is None else "what there was" if isinstance(each, dict) else f"`{each}`"
                 for each in (one, other)]  # fmt: skip
        return f"{words[0]} became {words[1]}"
    return f"`{one}` became `{other}`"


NOTES = {
    "4.4.0": [
        "Two things are behind that:",
        "",
        "* Of the version of an entry in a `.txnindex` releases up to 4.3 examine the first byte, and take it for",
        "  sound if it is negative. 4.4 reads both bytes and starts on no version but 0. No release ever wrote",
        "  another one, so these are damaged files: `recover` (mode safe) rebuilds them, and `verify` reports them;",
        "  mode `kafka` does what 4.1 does.",
        "* 4.4 keeps the recovery points of partitions in another order (its `LogManager` is written in Java), and",
        "  writes the lines of `recovery-point-offset-checkpoint` in that order. The order means nothing.",
        "",
    ]
}
"""What the differences of a release come to, in words."""


def page(version: str, seed: int, fixed: tuple[int, Any], drawn: tuple[int, Any]) -> str:
    substantial = {name for aspect in SUBSTANTIAL for found in (fixed[1], drawn[1]) for name, _, _ in found[aspect]}
    verdict = (
        "No directory is treated differently: same outcome, same bytes, same state in memory, same exception."
        if not substantial
        else f"{len(substantial)} directories are treated differently; they are listed below."
    )
    arguments = f"--version {version} --random {drawn[0]} --seed {seed}"
    return (
        "\n".join(
            [
                f"# What Kafka {version} does differently from 4.1.0 at start-up",
                "",
                f"Generated by `python tests/interop/differences.py {arguments}`.",
                "",
                "Every recorded case in `fixtures/recovery-cases` and every random case is a damaged log directory;",
                f"Kafka {version}'s own LogManager loads and closes it, and the result is compared with 4.1.0's.",
                "",
                f"**{verdict}**",
                "",
                *NOTES.get(version, ()),
                "## Recorded cases",
                "",
                *table(*fixed, "recorded cases"),
                *details(fixed[1]),
                "## Random cases",
                "",
                *table(*drawn, "random cases"),
                *details(drawn[1]),
            ]
        ).rstrip()
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default="4.3.0")
    parser.add_argument("--random", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fixed = recorded(options.version)
    drawn = random_cases(options.version, options.random, options.seed)
    short = ".".join(options.version.split(".")[:2])
    target = kafka_jars.ROOT / "docs" / f"kafka-{short}-differences.md"
    target.parent.mkdir(exist_ok=True)
    target.write_text(page(options.version, options.seed, fixed, drawn))
    print(
        target.relative_to(kafka_jars.ROOT),
        {aspect: (len(fixed[1][aspect]), len(drawn[1][aspect])) for aspect in ASPECTS},
    )


if __name__ == "__main__":
    main()
