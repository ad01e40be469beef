"""Random histories, random damage: Kafka's own recovery and ours leave the same bytes.

``KAFKALOG_INTEROP_CASES`` and ``KAFKALOG_INTEROP_SEED`` set how many cases the long run compares, and which.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from testkit.judging import seam
from testkit.kafka.against_kafka import DECLINED, difference, recovered
from testkit.kafka.kafka_oracle import KafkaOracle, OracleTimeoutError
from testkit.made import damage, histories

SHORT_SEED = 20
SHRUNK = 3


@dataclass
class Campaign:
    """Counts of one run; ``failing`` are the cases that differ, with the first difference of each."""

    seed: int
    compared: int = 0
    refused: int = 0
    hung: int = 0
    declined: int = 0
    failing: list[tuple[histories.Case, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.compared} directories compared, {self.refused} of them refused by the broker, "
            f"{self.declined} declined because Kafka writes through a symbolic link, "
            f"{self.hung} left out because Kafka did not end, {len(self.failing)} differ"
        )


def run(seed: int, count: int, kafka: KafkaOracle) -> Campaign:
    campaign = Campaign(seed)
    with tempfile.TemporaryDirectory() as scratch:
        for case, root in histories.campaign(seed, count, Path(scratch), kafka):
            try:
                outcome, found = difference(root, case, kafka)
            except OracleTimeoutError:
                campaign.hung += 1
                continue
            campaign.compared += 1
            campaign.refused += outcome != "loaded"
            campaign.declined += found == DECLINED
            if found and found != DECLINED:
                campaign.failing.append((case, found))
    return campaign


def shrunk(case: histories.Case, kafka: KafkaOracle) -> tuple[histories.Case, str]:
    """The case with only the damage that is needed for a difference, and that difference."""

    def found(candidate: histories.Case) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            return difference(candidate.build(Path(scratch) / "case", kafka), candidate, kafka)[1]

    small = case.shrink(lambda candidate: bool(found(candidate)))
    return small, found(small)


def report(campaign: Campaign, kafka: KafkaOracle) -> str:
    lines = [str(campaign)]
    for case, _ in campaign.failing[:SHRUNK]:
        small, found = shrunk(case, kafka)
        lines += [f"{small.history.kind}: {found}", small.to_json()]
    lines += [f"{case.history.kind}: {found}" for case, found in campaign.failing[SHRUNK:20]]
    return "\n".join(lines)


def judge(campaign: Campaign, count: int, kafka: KafkaOracle) -> None:
    print(campaign)
    assert campaign.compared >= count * 0.99
    if campaign.failing:
        pytest.fail(report(campaign, kafka), pytrace=False)


@pytest.mark.interop
def test_a_hundred_damaged_directories_come_out_as_kafka_leaves_them(kafka: KafkaOracle) -> None:
    judge(run(SHORT_SEED, 100, kafka), 100, kafka)


@pytest.mark.interop
def test_thousands_of_damaged_directories_come_out_as_kafka_leaves_them(
    kafka: KafkaOracle, capsys: pytest.CaptureFixture[str]
) -> None:
    count = int(os.environ.get("KAFKALOG_INTEROP_CASES", "2000"))
    seed = histories.chosen_seed()
    campaign = run(seed, count, kafka)
    with capsys.disabled():
        print(f"\ndifferential: {campaign}")
    judge(campaign, count, kafka)


def test_a_broker_makes_of_our_result_what_it_makes_of_its_own(kafka: KafkaOracle, tmp_path: Path) -> None:
    """Another full scan, on what Kafka left and on what we left: the same outcome, the same files changed."""
    accepted = 0
    for case, root in histories.campaign(SHORT_SEED + 1, 50, tmp_path, kafka):
        ours = tmp_path / "ours"
        shutil.copytree(root, ours, symlinks=True)
        if kafka.recover(root, {**case.params, "hash": 0})["outcome"] == "loaded" and recovered(ours, case):
            theirs_again, ours_again = (scan_again(directory, case, kafka) for directory in (root, ours))
            assert ours_again == theirs_again, case.to_json()
            accepted += bool(ours_again["accepted"])
        shutil.rmtree(ours)
    assert accepted > 20


def scan_again(directory: Path, case: histories.Case, kafka: KafkaOracle) -> dict[str, Any]:
    for left in directory.rglob("*.deleted"):
        left.unlink()
    (directory / damage.RECOVERY_POINT).write_text("0\n0\n")
    answer = kafka.check(directory, {**case.params, "force_unclean": 1})
    touched = {
        name: [re.sub("[0-9a-f]{32}-stray", "<id>-stray", path) for path in answer[name]]
        for name in ("changed", "removed", "created")
    }
    return {"outcome": answer["outcome"], "accepted": answer["accepted"], **touched}


def test_the_comparison_finds_a_recovery_that_is_not_kafkas(
    kafka: KafkaOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recovery that leaves everything as it is must be found out, and its cases shrunk to little damage."""
    monkeypatch.setattr(seam, "recover", lambda *_, **__: None)
    monkeypatch.setattr(seam, "broker_outcome", lambda *_: "loaded")
    campaign = run(SHORT_SEED, 30, kafka)
    assert len(campaign.failing) > 15
    case, found = shrunk(max((case for case, _ in campaign.failing), key=lambda c: len(c.ops)), kafka)
    assert found
    assert len(case.ops) <= 1
