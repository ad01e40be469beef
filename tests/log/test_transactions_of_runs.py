"""The transactions of a log, walked in runs and batch by batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import damage
from batches import batch, message, record
from kafkalog.codec.encode import build_end_transaction_marker
from kafkalog.codec.fast import choice
from kafkalog.codec.model import TRANSACTIONAL_FLAG, ControlType, EndTransactionMarker
from kafkalog.log import open_partition
from kafkalog.log.transactions import Transactions

KINDS = ["plain", "data", "data", "emptied", "commit", "abort", "broken marker"]


def bytes_of(kind: str, producer: int, offset: int) -> bytes:
    fields = {"base_offset": offset, "producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    if kind in ("commit", "abort"):
        marker = EndTransactionMarker(ControlType.COMMIT if kind == "commit" else ControlType.ABORT, 0)
        return build_end_transaction_marker(
            marker, base_offset=offset, timestamp=0, producer_id=producer, producer_epoch=0
        )
    if kind == "emptied":
        return batch(b"", 0, attributes=TRANSACTIONAL_FLAG, **fields)
    flags = {"plain": 0, "data": TRANSACTIONAL_FLAG, "broken marker": TRANSACTIONAL_FLAG | 0x20}[kind]
    return batch(record(0, b"k", b"v"), 1, attributes=flags, **fields)


def transactions(directory: Path, enough: int) -> Transactions:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "ENOUGH_BYTES", enough)
        return open_partition(directory).transactions()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), max_size=30), st.integers(1, 30))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int]], cut: int) -> None:
    directory = tmp_path_factory.getbasetemp() / "history" / "t-0"
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    batches = [bytes_of(kind, producer, offset) for offset, (kind, producer) in enumerate(history)]
    for base in (0, cut):
        (directory / f"{base:020}.log").write_bytes(b"".join(batches[:cut] if base == 0 else batches[cut:]))
    assert transactions(directory, 0) == transactions(directory, 2**62)


def three_producers() -> bytes:
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


@pytest.mark.parametrize("enough", [0, 2**62])
def test_transactions_are_those_of_the_batches(enough: int, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(three_producers())
    found = transactions(directory, enough)
    aborted = [
        (each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset) for each in found.aborted
    ]
    assert aborted == [(2, 1, 7, 6), (1, 12, 13, 6)]
    assert found.open_first_offsets == {3: 6, 7: 15}
    assert (found.log_end_offset, found.last_stable_offset) == (17, 6)
