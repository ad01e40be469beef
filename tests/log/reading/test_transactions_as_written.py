"""Readers tell the transactions of a log as a broker's own state does, on histories that a broker can have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.encode import build_end_transaction_marker
from kafkalog.codec.files.index_files import decode_transaction_index
from kafkalog.codec.model import TRANSACTIONAL_FLAG, AbortedTransaction, BatchHeader, ControlType, EndTransactionMarker
from kafkalog.log.reading.transactions import TransactionTracker, marker_of
from kafkalog.log.storage.indexes import TransactionIndex
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.tree import Tree
from kafkalog.log.writing.incoming import parse_batch
from testkit.made.batches import batch, record
from testkit.running.examples import examples

EVENTS = st.sampled_from(["data", "data", "emptied", "commit", "abort", "nobody's"])
HISTORIES = st.lists(st.tuples(EVENTS, st.integers(1, 4), st.integers(0, 1)), max_size=40)


def bytes_of(kind: str, producer: int, offset: int, epoch: int) -> bytes:
    if kind in ("commit", "abort"):
        marker = EndTransactionMarker(ControlType.COMMIT if kind == "commit" else ControlType.ABORT, 0)
        return build_end_transaction_marker(
            marker, base_offset=offset, timestamp=0, producer_id=producer, producer_epoch=epoch
        )
    if kind == "nobody's":
        return batch(record(0, b"k", b"v"), 1, base_offset=offset)
    content, count = (b"", 0) if kind == "emptied" else (record(0, b"k", b"v"), 1)
    return batch(
        content, count, base_offset=offset, producer_id=producer, producer_epoch=epoch, base_sequence=0,
        attributes=TRANSACTIONAL_FLAG,
    )  # fmt: skip


def told_both_ways(
    history: list[tuple[str, int, int]],
) -> tuple[list[AbortedTransaction], list[AbortedTransaction]]:
    """Aborted transactions as a reader has them, and as the index of a broker; what is open is compared on the way."""
    tree = Tree({}, {"t-0"}, lambda path: pytest.fail(f"{path} is no original"))
    manager, tracker = ProducerStateManager(tree, "t-0", 0, 10**9), TransactionTracker()
    index = TransactionIndex(tree, "t-0/0.txnindex", 0)
    for offset, (kind, producer, epoch) in enumerate(history):
        each = parse_batch(bytes_of(kind, producer, offset, epoch))
        tracker.feed(each)
        if isinstance(each.header, BatchHeader) and each.header.has_producer_id:
            appends = ProducerAppends(manager)
            appends.add(each.header, lambda each=each: marker_of(each))  # type: ignore[misc]
            appends.take_over(index)
        first_open = min(tracker.open_first_offsets.values(), default=None)
        assert first_open == manager.first_undecided_offset()
    index.store()
    path = "t-0/0.txnindex"
    return tracker.aborted, decode_transaction_index(tree.read(path)) if tree.is_file(path) else []


@examples(300)
@given(HISTORIES)
def test_readers_and_brokers_tell_the_same_transactions(history: list[tuple[str, int, int]]) -> None:
    aborted, indexed = told_both_ways(history)
    assert aborted == indexed


def test_a_history_with_several_aborted_transactions() -> None:
    """What the comparison would be worth nothing without."""
    history = [("data", 1, 0), ("emptied", 2, 0), ("abort", 1, 0), ("data", 1, 0), ("abort", 2, 0), ("abort", 1, 0)]
    aborted, indexed = told_both_ways(history)
    assert aborted == indexed
    assert [(each.producer_id, each.first_offset, each.last_stable_offset) for each in aborted] == [
        (1, 0, 1),
        (2, 1, 3),
        (1, 3, 6),
    ]
