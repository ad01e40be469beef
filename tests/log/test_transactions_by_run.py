"""The transactions of a log, walked in runs and batch by batch."""

from __future__ import annotations

from pathlib import Path

import pytest

import damage
from batches import batch, message, record
from kafkalog.codec.fast import choice
from kafkalog.log import open_partition


def history() -> bytes:
    """Three producers: one commits, one aborts after two batches, one stays open; plain and old batches between."""
    payload = record(0, b"k", b"v")

    def data(offset: int, producer: int, attributes: int = 0x10) -> bytes:
        return batch(payload, 1, base_offset=offset, attributes=attributes, producer_id=producer, producer_epoch=0)

    parts = [
        data(0, 1), data(1, 2), batch(payload, 1, base_offset=2), damage.marker(3, 1, 0, commit=True), data(4, 2),
        data(5, 9, 0), data(6, 3), damage.marker(7, 2, 0, commit=False), message(8), data(12, 1),
        damage.marker(13, 1, 0, commit=False), data(14, 3), batch(b"", 0, base_offset=15, attributes=0x10,
        last_offset_delta=1, producer_id=7, producer_epoch=0),
    ]  # fmt: skip
    return b"".join(parts)


@pytest.mark.parametrize("work", [0, 1 << 62])
def test_transactions_are_those_of_the_batches(work: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ENOUGH_BYTES", work)
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(history())
    found = open_partition(directory).transactions()
    aborted = [
        (each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset) for each in found.aborted
    ]
    assert aborted == [(2, 1, 7, 6), (1, 12, 13, 6)]
    assert found.open_first_offsets == {3: 6}
    assert (found.log_end_offset, found.last_stable_offset) == (17, 6)
