"""Histories with tombstones, transactions and gaps: Kafka's own log cleaner and ours leave the same.

``KAFKALOG_INTEROP_CASES`` and ``KAFKALOG_INTEROP_SEED`` set how many histories the long run compares, and which.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.log.storage.cleaning import cleaner
from kafkalog.types import CompactionResult
from testkit.judging.compare_compacted import difference
from testkit.judging.trees import copy_tree, stamps
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import compactions, histories
from testkit.made.compactable import T0, compactable, compacted, meaning
from testkit.running.stopping import Stopped, failing_at

SHORT_SEED = 21
REFUSED = "refused at start"


@dataclass
class Campaign:
    """Counts of one run."""

    seed: int
    histories: int = 0
    passes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failing: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items()))
        return (
            f"seed {self.seed}: {self.histories} histories, {self.passes} passes (partitions: {counts}), "
            f"{len(self.failing)} histories differ"
        )


def settings(params: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if name != "now_ms"}


def run(seed: int, count: int, kafka: KafkaOracle) -> Campaign:
    campaign = Campaign(seed)
    for number in range(count):
        with tempfile.TemporaryDirectory() as scratch:
            found = one(f"{seed}/{number}", Path(scratch), kafka, campaign)
        campaign.histories += 1
        if found:
            campaign.failing.append(f"{seed}/{number}: {found}")
    return campaign


def one(seed: str, scratch: Path, kafka: KafkaOracle, campaign: Campaign) -> str:
    """The first difference in a history; the passes go on from what Kafka left."""
    root = scratch / "theirs"
    for number, step in enumerate(compactions.history(seed).steps(root, kafka)):
        ours = compactions.copy_with_times(root, scratch / "ours")
        theirs = kafka.clean(root, step.params)
        what = outcomes(theirs)
        campaign.passes += 1
        campaign.counts.update(what.values() or [REFUSED])
        before = {path.name: stamps(path) for path in ours.glob("[tu]-[01]")}
        try:
            result = kafkalog.compact(
                kafkalog.Compaction(config=settings(step.params), at=int(str(step.params["now_ms"]))), ours
            )[0]
            if theirs["outcome"] != "loaded":  # what a start leaves that fails is nothing to go on from
                alone = result.done.declined and all(
                    stamps(ours / name) == before[name] for name in result.done.declined
                )
                return "" if alone else f"a start fails: {theirs}"
            found = judged(result, what) or difference(root, ours, int(str(step.params["index.interval.bytes"])))
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to this history
            found = f"kafkalog raised {''.join(traceback.format_exception(error)[-3:])}"
        if found:
            return f"pass {number}: {found}"
        shutil.rmtree(ours)
        shutil.rmtree(scratch / "ours.recovery", ignore_errors=True)
    return ""


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    """What Kafka did with each partition; nothing where it did not start."""
    return {
        name: "given up" if state["uncleanable"] else "cleaned" if state["cleaned"] else "with nothing to clean"
        for name, state in answer.get("partitions", {}).items()
    }


def judged(result: CompactionResult, theirs: dict[str, str]) -> str:
    """What our result says of the pass, where that is not what Kafka did."""
    if result.done.declined:
        return f"declined: {dict(result.done.declined)}"
    ours = {
        each.name: "given up" if each.problem else "cleaned" if each.is_cleaned else "with nothing to clean"
        for each in result.done.partitions
    }
    return "" if ours == theirs else f"Kafka: {theirs}; ours: {ours} ({result.done.partitions})"


def judge(campaign: Campaign) -> None:
    print(campaign)
    if campaign.failing:
        pytest.fail("\n".join([str(campaign), *campaign.failing[:10]]), pytrace=False)


def test_kafka_changes_nothing_of_what_is_left(kafka: KafkaOracle, tmp_path: Path) -> None:
    root = compactable(tmp_path / "data", count=60)
    means = meaning(root / "t-0")
    assert compacted(root).changed
    for extra in ({}, {"force_unclean": 1}):
        answer = kafka.check(root, {"now_ms": T0 + 5, "index.interval.bytes": 80, **extra})
        assert answer["accepted"], answer
    assert meaning(root / "t-0") == means


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.interop)])
def test_kafka_starts_on_whatever_is_left_of_a_compaction_that_is_stopped(
    step: int, kafka: KafkaOracle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Stopped before a change; Kafka finds the old records or the new ones."""
    original = compactable(tmp_path / "original")
    means = meaning(original / "t-0")
    number, starts, is_over = 1, 0, False
    while not is_over:
        again = copy_tree(original, tmp_path / "again")
        with failing_at(number, Stopped, monkeypatch), contextlib.suppress(Stopped):
            compacted(again)
            is_over = True
        answer = kafka.recover(again, {"now_ms": T0 + 5, "hash": 0})
        assert answer["outcome"] == "loaded", (number, answer)
        assert meaning(again / "t-0") == means, number
        shutil.rmtree(again)
        shutil.rmtree(tmp_path / "again.recovery", ignore_errors=True)
        starts += not is_over
        number += step
    assert number > 40
    measured("compactions stopped before one of their changes, then a start of Kafka", starts)


def test_sixty_histories_are_compacted_as_kafka_does_it(kafka: KafkaOracle) -> None:
    campaign = run(SHORT_SEED, 60, kafka)
    judge(campaign)
    assert campaign.counts["cleaned"] > 60
    assert campaign.counts["with nothing to clean"] > 6


@pytest.mark.interop
@pytest.mark.parametrize("by_runs", [False, True], ids=["readable", "compiled"])
def test_thousands_of_histories_are_compacted_as_kafka_does_it(
    by_runs: bool, kafka: KafkaOracle, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "kernel_is_worth_it", lambda _: by_runs)
    count = int(os.environ.get("KAFKALOG_INTEROP_CASES", "2000"))
    campaign = run(histories.chosen_seed(), count, kafka)
    with capsys.disabled():
        print(f"\ncompaction, {'compiled' if by_runs else 'readable'}: {campaign}")
    judge(campaign)
