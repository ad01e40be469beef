"""Power cuts of real clusters, compared with what triage foresaw, in a campaign that can be stopped and gone on with.

    python tests/campaigns/cut_power.py [--cuts N] [--of VERSION]... [--seconds S] [--again]

with ``tests/support`` on the path (``python3 dev.py trials --cuts N`` runs it).  Results are lines of JSON in
``.cache/power-cuts.jsonl``, one for each cluster, which is cut a few times; no seed is used twice, and a run goes on
until so many cuts are in the file.  Prints each line and the totals; exit code 1 if anything was not as foreseen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json
from testkit.kafka.power_cuts import Counts, run_cuts

RESULTS = kafka_jars.cache_directory() / "power-cuts.jsonl"
CLUSTERS = (("4.4.0", 1), ("2.8.2", None), ("4.3.0", 1), ("4.4.0", 0), ("3.9.1", None), ("4.1.0", 1), ("4.4.0", 1),
            ("4.3.0", 0))  # fmt: skip
"""version, and whether eligible leader replicas are on, None with ZooKeeper; in turn"""
CUTS_OF_A_CLUSTER = 4


def results() -> list[Json]:
    """The lines so far."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines() if line] if RESULTS.exists() else []


def _cut(number: int, version: str, elr: int | None, place: Path) -> Json:
    counts, begun = Counts(), time.monotonic()
    told: Json = {"cluster": number, "version": version, "elr": elr, "seed": f"campaign {number}"}
    try:
        run_cuts(version, elr, told["seed"], CUTS_OF_A_CLUSTER, place, counts)
    except Exception as error:  # noqa: BLE001 - counted, told, and the campaign goes on
        traceback.print_exc()
        told["failed"] = f"{type(error).__name__}: {str(error)[:2000]}"
    return {**told, **asdict(counts), "seconds": round(time.monotonic() - begun, 1)}


def totals(lines: list[Json]) -> Counter[str]:
    """Every count over all clusters, and how many of these failed."""
    found: Counter[str] = Counter()
    for line in lines:
        found.update({name: line.get(name, 0) for name in asdict(Counts())})
        found["failed"] += "failed" in line
    return found


def campaign(cuts: int, only: list[str], seconds: float) -> int:
    """Cut clusters, `only` of some versions if any, until there are so many cuts, for about so long at most."""
    deadline = time.monotonic() + seconds
    clusters = [each for each in CLUSTERS if not only or each[0] in only]
    every = results()
    lines = [line for line in every if not only or line["version"] in only]
    for number in itertools.count(1 + max((line["cluster"] for line in every), default=-1)):
        if totals(lines)["cuts"] >= cuts or time.monotonic() > deadline:
            break
        with tempfile.TemporaryDirectory(prefix="kafkalog-cuts-") as place:
            lines.append(_cut(number, *clusters[number % len(clusters)], Path(place)))
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(lines[-1]) + "\n")
        print(json.dumps(lines[-1]), flush=True)
    found = totals(lines)
    versions = Counter({version: 0 for version, _ in clusters})
    for line in lines:
        versions[line["version"]] += line["cuts"]
    print(
        f"power cuts: {found['cuts']} of {cuts} ({', '.join(f'{n} of {v}' for v, n in sorted(versions.items()))}), "
        f"{found['elections']} elections ({found['raced']} with more than one possible leader in any order, "
        f"{found['alternatives']} in a given one, {found['outsiders']} begun outside of an ISR; {found['leaderless']} "
        f"without a leader), {found['ends']} log ends, {found['failed']} clusters not as foreseen"
    )
    return 1 if found["failed"] else 0


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuts", type=int, default=100, help="how many there are to be, with those of earlier runs")
    parser.add_argument("--of", action="append", default=[], help="a version; of this one only", metavar="VERSION")
    parser.add_argument("--seconds", type=float, default=86_400.0, help="begin no cluster after so long")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    arguments = parser.parse_args()
    if arguments.again:
        RESULTS.unlink(missing_ok=True)
    return campaign(arguments.cuts, arguments.of, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
