"""Which batches of a client are recognized when they come again (`ProducerStateEntry`)."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from testkit.judging.executions import choose_execution

CLOCK = 1_700_000_000_000


@pytest.mark.parametrize("by_columns", [pytest.param(True, marks=pytest.mark.compiled), False])
def test_the_last_five_batches_of_each_producer_are_known_after_a_truncation(
    by_columns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, 0 if by_columns else 1 << 40)
    with kafkalog.Log.open(tmp_path / "t-0", clock=lambda: CLOCK) as log:

        def send(producer_id: int, sequence: int) -> int:
            producer = kafkalog.ProducerState(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            return log.append([(b"k", b"v")], producer=producer)

        for sequence in range(9):
            for producer_id in (7, 1, 2**40):
                send(producer_id, sequence)
        log.truncate_to(24)
        for sequence in range(3, 8):
            assert [send(each, sequence) for each in (7, 1, 2**40)] == [3 * sequence + number for number in range(3)]
        assert log.end_offset == 24
        for producer_id in (7, 1, 2**40):
            with pytest.raises(kafkalog.UsageError, match="sends sequence 2"):
                send(producer_id, 2)
