"""The transactions of a log, walked in runs and batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import RecordFilter
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.encode import build_end_transaction_marker
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import TRANSACTIONAL_FLAG, AbortedTransaction, ControlType, EndTransactionMarker
from kafkalog.codec.native.tables import HeaderColumn, empty_table
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log import open_partition
from kafkalog.log.reading.transactions import AbortedFilter, Transactions
from testkit.judging.executions import choose_execution
from testkit.made import damage
from testkit.made.batches import batch, message, record
from testkit.running.examples import examples

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
    if kind == "unreadable":
        return batch(b"\xff" * 9, 1, attributes=TRANSACTIONAL_FLAG, **fields)
    flags = {"plain": 0, "data": TRANSACTIONAL_FLAG, "broken marker": TRANSACTIONAL_FLAG | 0x20}[kind]
    return batch(record(0, b"k", b"v"), 1, attributes=flags, **fields)


def written(directory: Path, history: list[tuple[str, int]], cut: int) -> Path:
    """A partition directory with a batch for each event, in two segments."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    batches = [bytes_of(kind, producer, offset) for offset, (kind, producer) in enumerate(history)]
    for base in (0, cut):
        (directory / f"{base:020}.log").write_bytes(b"".join(batches[:cut] if base == 0 else batches[cut:]))
    return directory


def transactions(directory: Path, enough: int) -> Transactions:
    with pytest.MonkeyPatch.context() as patch:
        choose_execution(patch, enough)
        return open_partition(directory).transactions()


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), max_size=30), st.integers(1, 30))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int]], cut: int) -> None:
    directory = written(tmp_path_factory.getbasetemp() / "history" / "t-0", history, cut)
    assert transactions(directory, 0) == transactions(directory, 2**62)


def committed(directory: Path, enough: int, *, columns: bool) -> tuple[list[int], list[FindingCode]]:
    """Offsets of the committed records, and what was wrong."""
    findings: list[Finding] = []
    with pytest.MonkeyPatch.context() as patch:
        choose_execution(patch, enough)
        partition = open_partition(directory)
        if columns:
            read = partition.to_arrow(
                ["offset"], RecordFilter(isolation_level="read_committed"), findings=findings, on_damage="stop"
            )
            return read.read_all()["offset"].to_pylist(), [each.code for each in findings]
        found: list[int] = []
        reader = partition.records(RecordFilter(isolation_level="read_committed"), on_damage="stop")
        for made in reader.by_run(offsets_of_run):
            found += made if isinstance(made, list) else [record.offset for record in made[1]]
        # a marker that cannot be read is nothing that `to_arrow` tells
        return found, [each.code for each in reader.findings if each.code != FindingCode.CONTROL_RECORD_INVALID]


def offsets_of_run(run: BatchRun, low: Any, high: int) -> Iterator[list[int] | range]:
    """The offsets of a run; what cannot be decoded is handed back, as kernels do, and every third batch besides."""
    for number in range(len(run)):
        decoded = decode_batch(run.batch(number))
        if decoded.finding is not None or number % 3 == 2:
            yield range(number, number + 1)
        else:
            yield [record.offset for record in decoded.records if low[number] <= record.offset < high]


@examples(200)
@given(st.lists(st.tuples(st.sampled_from([*KINDS, "unreadable"]), st.integers(0, 3)), max_size=40), st.integers(1, 40))
def test_committed_records_of_any_history(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int]], cut: int
) -> None:
    directory = written(tmp_path_factory.getbasetemp() / "committed" / "t-0", history, cut)
    wanted = committed(directory, 2**62, columns=True)
    assert committed(directory, 0, columns=True) == wanted
    assert committed(directory, 0, columns=False)[0] == wanted[0]
    assert committed(directory, 2**62, columns=False)[0] == wanted[0]


ABORTED = st.lists(st.builds(AbortedTransaction, st.just(0), st.integers(0, 3), st.integers(0, 60), st.integers(0, 70),
                             st.just(0)), max_size=12)  # fmt: skip
PLACES = st.lists(
    st.tuples(st.integers(1, 5), st.integers(-1, 4), st.sampled_from([0, 0x10, 0x10, 0x30])), min_size=1, max_size=40
)


@examples(300)
@given(ABORTED, PLACES, st.lists(st.integers(1, 9), max_size=9))
def test_a_run_is_rejected_as_its_batches_are(
    aborted: list[AbortedTransaction], places: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    """Runs and single batches by turns, against one batch after the other."""
    ends = list(accumulate(size for size, _, _ in places))
    table = empty_table(HeaderColumn, len(places))
    table[:] = 0
    table[HeaderColumn.BASE_OFFSET] = [0, *ends[:-1]]
    table[HeaderColumn.LAST_OFFSET_DELTA] = [size - 1 for size, _, _ in places]
    table[HeaderColumn.PRODUCER_ID] = [producer for _, producer, _ in places]
    table[HeaderColumn.ATTRIBUTES] = [attributes for _, _, attributes in places]
    run = BatchRun(table, b"", 0)
    one_by_one = AbortedFilter(aborted)
    wanted = [one_by_one.rejects(each) for each in run]
    both = AbortedFilter(aborted)
    found: list[bool] = []
    for number, size in enumerate([*cuts, len(run)]):
        part = run.part(len(found), min(len(found) + size, len(run)))
        found += (
            [both.rejects(each) for each in part] if number % 2 else both.rejected(part).tolist() if len(part) else []
        )
    assert found == wanted


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
