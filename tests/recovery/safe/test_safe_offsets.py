"""Mode safe loses no batch that Kafka's own stable result keeps, whatever the offsets do: Kafka's recorded answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from testkit.made.offset_sequences import Sequence, batches_of, recorded


def recovered(sequence: Sequence, root: Path) -> dict[int, list[bytes]]:
    config = {name: str(value) for name, value in sequence.params.items() if "." in name}
    kafkalog.recover(
        kafkalog.Recovery(mode="safe", config=config, at=sequence.params["now_ms"], accept_loss=True), root
    )
    again = kafkalog.plan(kafkalog.Recovery(mode="safe", config=config, at=sequence.params["now_ms"]), root)[0]
    assert not again.changes, sequence
    return batches_of(root)


@pytest.mark.parametrize(
    "each", [12, pytest.param(4, marks=pytest.mark.recorded), pytest.param(1, marks=pytest.mark.sweep)]
)
def test_what_kafka_keeps_is_kept(each: int, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for number, (sequence, answer) in enumerate(list(recorded())[::each]):
        root = sequence.write(tmp_path / str(number))
        given = batches_of(root)
        problem = answer.judge(given, recovered(sequence, root), counts)
        if problem:
            wrong.append(f"{problem}\n{sequence}")
    assert not wrong, "\n".join(wrong[:5])
    assert counts["Kafka reaches all it keeps"] > 100 // each
    assert counts["Kafka keeps what lies above its log's end"] > 10 // each
    compared("sequences of offsets of which nothing is lost that Kafka keeps and reaches", counts.total())


def test_the_first_copy_stays_where_kafka_would_empty_the_segment(tmp_path: Path) -> None:
    """Every batch has an index entry here, and an index of Kafka's does not take the same offset twice."""
    sequence = Sequence.of(0, 0, 100, 250, 400, 400, interval=0)
    given = batches_of(sequence.write(tmp_path / "logs"))
    assert recovered(sequence, tmp_path / "logs") == {0: given[0][:4]}


def test_a_copy_that_stays_is_told(tmp_path: Path) -> None:
    root = Sequence.of(50, 70, 70, 80).write(tmp_path / "logs")
    told = [
        finding
        for finding in kafkalog.plan(kafkalog.Recovery(mode="safe"), root)[0].findings
        if finding.file == f"t-0/{50:020d}.log"
    ]
    assert [(each.code, each.position) for each in told] == [(FindingCode.OFFSET_NOT_INCREASING, 88)]
