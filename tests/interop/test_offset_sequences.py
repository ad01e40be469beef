"""Mode safe on logs whose offsets go back and forth: what Kafka's own stable result keeps, safe keeps.

Where Kafka's result is stable and its log ends after all that is in it, every batch of it is in ours, and Kafka serves
from ours what it serves from its own. Where its log end hides batches that are still in the files, losing more than it
hides takes the operator's consent. And ours is left alone by Kafka, started as it is, forced unclean, or with
everything to be scanned.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import RecoveryRefused
from testkit.judging import seam
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import damage, histories
from testkit.made.offset_sequences import (
    MORE_THAN_HIDDEN,
    STORIES,
    UNCLEAN,
    Sequence,
    answer,
    batches_of,
    drawn,
    scanned_again,
)

SHORT_SEED = 61


def served(root: Path, params: dict[str, Any], kafka: KafkaOracle) -> dict[int, tuple[int, int]]:
    """Offset that is asked for -> first and last offset of the batch that Kafka serves."""
    return {
        entry["query"]: (entry["base_offset"], entry["last_offset"])
        for entry in kafka.read(root, params)
        if entry["kind"] == "read_at" and entry.get("bytes")
    }


def judge(sequence: Sequence, work: Path, kafka: KafkaOracle, counts: Counter[str]) -> str:
    theirs, ours = sequence.write(work / "theirs"), sequence.write(work / "ours")
    given = batches_of(ours)
    declined = not _recovered(ours, sequence, accept_loss=False)
    if declined:
        counts["declined without consent"] += 1
        _recovered(ours, sequence, accept_loss=True)
    for extra in ({}, UNCLEAN):
        checked = kafka.check(ours, {**sequence.params, **extra})
        if not checked["accepted"]:
            return f"Kafka would change our result: {checked}"
    if not scanned_again(ours, sequence.params, kafka)["accepted"]:
        return "Kafka would change our result, with everything to be scanned"
    found = answer(sequence, theirs, kafka)
    before = counts[MORE_THAN_HIDDEN]
    problem = found.judge(given, batches_of(ours), counts)
    if counts[MORE_THAN_HIDDEN] > before and not declined:
        missing = offsets_of(given) - offsets_of(batches_of(ours))
        if missing:
            return f"more is lost than Kafka hides, offsets {sorted(missing)}, and nobody was asked"
    if problem or found.kept is None:
        return problem
    if any(damage.last_offset(each) >= found.log_end_offset for there in batches_of(theirs).values() for each in there):
        return ""
    from_theirs, from_ours = (served(root, sequence.params, kafka) for root in (theirs, ours))
    counts["fetches served alike"] += len(from_theirs)
    has_more = batches_of(ours) != batches_of(theirs)  # of batches with the same offsets an index may lead to another
    for query, each in from_theirs.items():
        mine = from_ours.get(query)
        if mine != each and not (has_more and mine is not None and _reaches_as_much(query, mine, each)):
            return f"at {query} Kafka serves {each} from its result, {mine} from ours"
    return ""


def _reaches_as_much(query: int, mine: tuple[int, int], theirs: tuple[int, int]) -> bool:
    """Nothing that is in the one batch at or above the offset asked for is passed over with the other."""
    return mine[1] >= query and max(query, mine[0]) <= max(query, theirs[0])


def offsets_of(logs: dict[int, list[bytes]]) -> set[int]:
    """The offsets of all batches; of what is twice, one copy is enough."""
    return {
        offset
        for batches in logs.values()
        for each in batches
        for offset in range(int.from_bytes(each[:8], "big"), damage.last_offset(each) + 1)
    }


def _recovered(root: Path, sequence: Sequence, *, accept_loss: bool) -> bool:
    try:
        config, at = seam.config(sequence.params), sequence.params["now_ms"]
        kafkalog.recover(kafkalog.Recovery(mode="safe", config=config, at=at, accept_loss=accept_loss), root)
    except RecoveryRefused as refused:
        if accept_loss or refused.reason != "loss":
            raise
        return False
    return True


def campaign(seed: int, count: int, work: Path, kafka: KafkaOracle) -> tuple[Counter[str], list[str]]:
    counts: Counter[str] = Counter()
    wrong = []
    for number in range(count):
        sequence = drawn(seed, number)
        problem = judge(sequence, work / str(number), kafka, counts)
        shutil.rmtree(work / str(number))
        if problem:
            wrong.append(f"{number}: {problem}\n{sequence}")
    return counts, wrong


@pytest.mark.parametrize("story", STORIES)
def test_safe_keeps_what_kafka_keeps(story: str, kafka: KafkaOracle, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    assert judge(STORIES[story], tmp_path, kafka, counts) == ""
    assert counts[MORE_THAN_HIDDEN] == 0


@pytest.mark.interop
def test_sixty_sequences(kafka: KafkaOracle, tmp_path: Path) -> None:
    counts, wrong = campaign(SHORT_SEED, 60, tmp_path, kafka)
    assert not wrong, "\n".join(wrong[:5])
    assert counts[MORE_THAN_HIDDEN] == 0
    assert counts["Kafka reaches all it keeps"] > 20
    assert counts["Kafka keeps what lies above its log's end"] > 0
    assert counts["fetches served alike"] > 1000


@pytest.mark.interop
def test_thousands_of_sequences(kafka: KafkaOracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = histories.chosen_seed()
    count = int(os.environ.get("KAFKALOG_INTEROP_CASES", "2000"))
    counts, wrong = campaign(seed, count, tmp_path, kafka)
    with capsys.disabled():
        print(f"\nsequences of offsets: seed {seed}: {count} logs, {dict(counts)}, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong[:5])
