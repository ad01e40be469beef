"""Properties of lookups through the offset index: whatever an index holds, reading finds the right records."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.files.index_files import OffsetEntry, decode_offset_index, encode_offset_index
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log import Segment, open_all
from kafkalog.log.walk.lookup import start_position
from testkit.recorded.broker_dirs import brokers
from testkit.running.examples import examples


@cache
def segment() -> Segment:
    found = [each for partition in open_all(*brokers("2.8.2/codecs")).readable() for each in partition.segments]
    return max(found, key=lambda each: each.sizes.get(FileKind.OFFSET_INDEX, 0))


@cache
def log() -> BufferSource:
    with segment().open() as source:
        return BufferSource(source.read(0, source.size))


@cache
def batches() -> tuple[RecordBatch, ...]:
    return tuple(Scanner(log()))


def position_by_scanning(target: int) -> int:
    """Where the first batch that reaches `target` begins; the end of the log if there is none."""
    return next((batch.position for batch in batches() if batch.last_offset >= target), log().size)


def lookup(index: bytes, target: int) -> int:
    return start_position(log(), BufferSource(index), base_offset=segment().base_offset, target=target)


def targets() -> st.SearchStrategy[int]:
    return st.integers(-3, batches()[-1].last_offset + 3)


def test_the_brokers_own_index_leads_close_to_every_offset() -> None:
    with open(segment().files[FileKind.OFFSET_INDEX], "rb") as file:
        index = file.read()
    entries = decode_offset_index(index)
    assert len(entries) >= 3
    helped = 0
    for target in range(segment().base_offset, batches()[-1].last_offset + 1):
        found = lookup(index, target)
        assert found <= position_by_scanning(target)
        helped += found > 0
    assert helped > len(batches()) // 2


def test_zeros_behind_the_entries_do_not_hide_them() -> None:
    with open(segment().files[FileKind.OFFSET_INDEX], "rb") as file:
        index = file.read()
    last = decode_offset_index(index)[-1]
    target = segment().base_offset + last.relative_offset
    assert lookup(index + bytes(8 * 1000), target) == lookup(index, target) > 0


@examples(300)
@given(index=st.binary(max_size=200), target=targets())
def test_garbage_never_leads_past_a_record(index: bytes, target: int) -> None:
    assert lookup(index, target) <= position_by_scanning(target)


@examples(300)
@given(data=st.data(), target=targets())
def test_entries_of_true_positions_under_wrong_offsets_never_lead_past_a_record(
    data: st.DataObject, target: int
) -> None:
    positions = st.sampled_from([batch.position for batch in batches()])
    entry = st.builds(OffsetEntry, st.integers(0, batches()[-1].last_offset + 5), positions)
    index = encode_offset_index(data.draw(st.lists(entry, max_size=12)))
    found = lookup(index, target)
    assert found <= position_by_scanning(target)
    assert found in {0, *(batch.position for batch in batches())}
