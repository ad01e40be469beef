"""Transactions are the same whether the log is walked in runs or batch by batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.codec.encode import build_end_transaction_marker
from kafkalog.codec.fast import choice
from kafkalog.codec.model import TRANSACTIONAL_FLAG, ControlType, EndTransactionMarker
from kafkalog.log import open_partition
from kafkalog.log.transactions import Transactions
from record_bytes import batch, payload

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
    content = payload([(0, 0, 0, b"k", b"v", [])])
    flags = {"plain": 0, "data": TRANSACTIONAL_FLAG, "broken marker": TRANSACTIONAL_FLAG | 0x20}[kind]
    return batch(content, 1, attributes=flags, **fields)


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
