"""Every trial of `kafkalog quorum recover` on real processes, in a campaign that can be stopped and gone on with.

    python tests/campaigns/lost_quorums.py [--version V] [--seconds N] [--again]

with ``tests/support`` on the path (``python3 dev.py trials`` runs it).  Results are lines of JSON in
``.cache/quorum-trials.jsonl``: a trial that has one is not repeated, unless ``--again`` begins anew.  Prints what each
trial came to, and the counts at the end; exit code 1 if one failed.
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

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_oracle import Json
from testkit.kafka.quorum_trials import Setting, Stage, Trial, run_trial, set_stage

RESULTS = kafka_jars.cache_directory() / "quorum-trials.jsonl"
MAIN = "4.3.0"
NEWEST = "4.4.0"
OTHERS = ("3.9.1", "4.1.1", NEWEST)
LOST = ("majority", "endpoints", "controllers", "brokers")


def trials() -> list[Trial]:
    """The matrix: everything on one version, one row for each other version that is in the table."""
    found = []
    for snapshot in (False, True):
        for brokers in (1, 3):
            setting = Setting(MAIN, brokers, snapshot=snapshot)
            for lost in LOST:
                if lost == "brokers" and brokers == 1:
                    continue  # there are three, then, with partitions of one replica
                damages = ("none", "torn", "flip") if not snapshot else ("none", "torn")
                found += [Trial(setting, lost, brokers, damage) for damage in damages]
                if lost == "brokers":
                    found += [Trial(setting, lost, 1, damage) for damage in damages]
    static = Setting(MAIN, 1, static=True)
    found += [Trial(static, lost) for lost in LOST[:3]]
    found += [Trial(static, lost, dynamic=True) for lost in LOST[:3]]
    for version in OTHERS:
        if version in kafka_jars.versions():
            found += [Trial(Setting(version, 1), lost) for lost in LOST[:3]]
    if NEWEST in kafka_jars.versions():
        found += [Trial(Setting(NEWEST, 1, static=True), lost, dynamic=lost == "endpoints") for lost in LOST[:3]]
    return found


def left_out() -> list[str]:
    """Versions that the table does not have."""
    return [version for version in OTHERS if version not in kafka_jars.versions()]


def done() -> dict[str, Json]:
    """Results so far, by the name of the trial."""
    if not RESULTS.exists():
        return {}
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines() if line]
    return {line["trial"]: line for line in lines if "failed" not in line}


def _note(result: Json) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")
    print(json.dumps(result), flush=True)


def _attempt(trial: Trial, stage: Stage, place: Path) -> Json:
    try:
        return run_trial(trial, stage, place)
    except Exception as error:  # noqa: BLE001 - counted, told, and the campaign goes on
        traceback.print_exc()
        return {"trial": trial.name, "failed": f"{type(error).__name__}: {str(error)[:600]}"}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def campaign(chosen: list[Trial], seconds: float) -> int:
    """Run what has no result yet, for about so long."""
    deadline = time.monotonic() + seconds
    standing = {name: result for name, result in done().items() if name in {each.name for each in chosen}}
    todo = [each for each in chosen if each.name not in standing]
    counts: Counter[str] = Counter()
    for setting in dict.fromkeys(each.setting for each in todo):
        if time.monotonic() > deadline:
            break
        with tempfile.TemporaryDirectory(prefix="kafkalog-quorum-") as place:
            try:
                stage = set_stage(setting, Path(place) / "base")
            except Exception as error:  # noqa: BLE001 - as above
                traceback.print_exc()
                _note({"trial": f"the cluster of {setting}", "failed": str(error)[:600]})
                counts["failed"] += 1
                continue
            for trial in [each for each in todo if each.setting == setting]:
                if time.monotonic() > deadline:
                    break
                result = _attempt(trial, stage, Path(place) / "trial")
                _note(result)
                counts["failed" if "failed" in result else "passed"] += 1
    left = len(todo) - counts["passed"] - counts["failed"]
    print(
        f"quorum trials: {counts['passed']} passed, {counts['failed']} failed, {left} left, {len(standing)} from "
        f"before; {len(chosen)} in all" + "".join(f"; {version} is not in the table" for version in left_out())
    )
    return 1 if counts["failed"] else 0


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", choices=sorted({MAIN, *OTHERS}), help="only the trials on this release")
    parser.add_argument("--seconds", type=float, default=86_400.0, help="begin no trial after so long")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    arguments = parser.parse_args()
    if arguments.again:
        RESULTS.unlink(missing_ok=True)
    chosen = [each for each in trials() if arguments.version in (None, each.setting.version)]
    return campaign(chosen, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main())
