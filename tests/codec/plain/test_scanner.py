"""The walk over a segment: each way it can end, and what it says then."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from kafkalog.codec import DEFAULT_LIMITS, FindingCode, Scanner, Severity, StopReason, scan
from kafkalog.codec.common.findings import BatchOutline, FindingJson
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.execution import Execution
from testkit.judging.reference_execution import REFERENCE
from testkit.made.batches import CONTROL, batch, fix_crc, message, patch, record, records_batch, simple

GOOD = simple(3) + simple(2, base_offset=3)
EXECUTIONS = [pytest.param(REFERENCE, id="reference"), pytest.param(PLAIN, id="plain")]

Ending = tuple[StopReason, list[tuple[FindingCode, Severity, int | None]], int]


def ending(data: bytes, execution: Execution = PLAIN) -> Ending:
    result = scan(data, execution=execution)
    return result.stop, [(found.code, found.severity, found.position) for found in result.findings], result.valid_bytes


def tail(stop: StopReason, code: FindingCode, severity: Severity) -> Ending:
    return stop, [(code, severity, len(GOOD))], len(GOOD)


TORN = tail(StopReason.TORN_TAIL, FindingCode.TORN_TAIL, Severity.WARNING)
ZERO = tail(StopReason.ZERO_TAIL, FindingCode.ZERO_TAIL, Severity.WARNING)
BAD_SIZE = tail(StopReason.CORRUPT, FindingCode.BATCH_SIZE_INVALID, Severity.ERROR)
BAD_CRC = tail(StopReason.CORRUPT, FindingCode.CRC_MISMATCH, Severity.ERROR)
NEXT = simple(2, base_offset=5)

ENDINGS: dict[str, tuple[bytes, Ending]] = {
    "end": (b"", (StopReason.END, [], len(GOOD))),
    "one byte": (b"\x01", TORN),
    "as many bytes as cannot show a magic": (NEXT[:17], TORN),
    "inside a header": (NEXT[:18], TORN),
    "one byte short": (NEXT[:-1], TORN),
    "a size beyond the end": (patch(NEXT, 8, struct.pack(">i", 2**31 - 1)), TORN),
    "one zero byte": (bytes(1), ZERO),
    "17 zero bytes": (bytes(17), ZERO),
    "18 zero bytes": (bytes(18), ZERO),
    "many zero bytes": (bytes(9_000_000), ZERO),
    "zeros but the last": (bytes(9_000_000) + b"\x01", BAD_SIZE),
    "size 13": (patch(NEXT, 8, struct.pack(">i", 13)), BAD_SIZE),
    "size -1": (patch(NEXT, 8, struct.pack(">i", -1)), BAD_SIZE),
    "size of the smallest message under magic 2": (fix_crc(patch(NEXT, 8, struct.pack(">i", 14)))[:26], BAD_SIZE),
    "a flipped bit": (NEXT[:-1] + bytes([NEXT[-1] ^ 1]), BAD_CRC),
    "a flipped bit in a message": (message(5)[:-1] + b"w", BAD_CRC),
    "magic 0 over a batch": (patch(NEXT, 16, b"\x00"), BAD_CRC),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", ENDINGS)
def test_how_a_walk_ends(name: str, execution: Execution) -> None:
    added, wanted = ENDINGS[name]
    assert ending(GOOD + added, execution) == wanted


def test_every_stop_reason_is_reached() -> None:
    reached = {wanted[0] for _, wanted in ENDINGS.values()}
    assert reached | {StopReason.LIMIT} == set(StopReason)  # the limit has a test of its own


def test_a_batch_above_the_cap_ends_the_walk_by_limit() -> None:
    result = scan(GOOD, limits=replace(DEFAULT_LIMITS, batch_bytes=80))
    assert result.stop is StopReason.LIMIT
    assert [(found.code, found.position) for found in result.findings] == [(FindingCode.LIMIT_EXCEEDED, 0)]
    assert "batch_bytes" in result.findings[0].detail
    assert result.valid_bytes == 0


def test_nothing_is_no_batch() -> None:
    assert ending(b"") == (StopReason.END, [], 0)


def test_a_checksum_finding_names_offset_and_both_sums() -> None:
    damaged = patch(simple(3, base_offset=7), 17, b"\xde\xad\xbe\xef")
    (finding,) = scan(damaged).findings
    assert finding.offset == 9
    assert "0xdeadbeef" in finding.detail


def test_checksums_can_be_left_out() -> None:
    damaged = patch(simple(3), 17, bytes(4))
    scanner = Scanner(BufferSource(damaged), check_crc=False)
    assert [found.last_offset for found in scanner] == [2]
    assert scanner.stop is StopReason.END


def test_a_walk_can_begin_and_end_anywhere() -> None:
    first = len(simple(3))
    scanner = Scanner(BufferSource(GOOD), position=first)
    assert [found.position for found in scanner] == [first]
    scanner = Scanner(BufferSource(GOOD), end=first)
    assert [found.position for found in scanner] == [0]
    assert (scanner.stop, scanner.valid_bytes) == (StopReason.END, first)
    scanner = Scanner(BufferSource(GOOD), end=len(GOOD) + 100)
    assert len(list(scanner)) == 2


@pytest.mark.parametrize("window", [1, 17, 64, 10_000])
def test_the_size_of_the_window_changes_nothing(window: int) -> None:
    data = GOOD + message(5) + simple(40, base_offset=6) + NEXT[:30]
    result = scan(data, limits=replace(DEFAULT_LIMITS, read_window_bytes=window))
    assert result == scan(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: type) -> None:
    assert [found.last_offset for found in scan(kind(GOOD)).batches] == [2, 4]


class Shrinking(BufferSource):
    """A file that is cut after its size was taken."""

    def __init__(self, data: bytes, left: int) -> None:
        super().__init__(data)
        self._left = left

    def read(self, position: int, length: int) -> memoryview:
        return super().read(position, max(0, min(length, self._left - position)))


@pytest.mark.parametrize("left", [0, 5, 17, 18, 60, len(GOOD) - 1])
def test_a_source_that_shrinks_ends_as_torn(left: int) -> None:
    result = scan(Shrinking(GOOD, left))
    assert result.stop is StopReason.TORN_TAIL
    assert result.valid_bytes == (len(simple(3)) if left >= len(simple(3)) else 0)


def test_every_cut_of_a_segment_keeps_the_batches_before_it() -> None:
    top = 0x0101010101010101  # no zeros in front, which would be a tail of their own
    data = simple(2, top) + message(top + 2) + message(top + 3, magic=0) + simple(1, base_offset=top + 4)
    ends = {0} | {found.position + found.size for found in scan(data).batches}
    for cut in range(len(data) + 1):
        result = scan(data[:cut])
        assert result.valid_bytes == max(end for end in ends if end <= cut)
        assert result.stop is (StopReason.END if cut in ends else StopReason.TORN_TAIL)
        assert scan(data[:cut], execution=REFERENCE) == result


def test_every_single_bit_of_a_batch_is_noticed_or_not_under_the_checksum() -> None:
    data = simple(2, leader_epoch=5)
    unnoticed = set()
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        result = scan(bytes(changed), base_offset=0)
        assert scan(bytes(changed), base_offset=0, execution=REFERENCE) == result
        if result.stop is StopReason.END and not result.findings:
            unnoticed.add(bit // 8)
    assert unnoticed == {4, 5, 6, 7, 12, 13, 14, 15}  # low bytes of the offset, and the leader epoch


# --- rules after a valid checksum: they never end a walk ------------------------------------------------------------


def rules(data: bytes, base_offset: int | None = None) -> list[FindingCode]:
    result = scan(data, base_offset=base_offset)
    assert result.stop is StopReason.END
    assert scan(data, base_offset=base_offset, execution=REFERENCE) == result
    return [found.code for found in result.findings]


def test_magic_unknown() -> None:
    assert rules(patch(simple(), 16, b"\x03")) == [FindingCode.MAGIC_UNKNOWN]
    assert rules(patch(simple(), 16, b"\xff")) == [FindingCode.MAGIC_UNKNOWN]


def test_codec_unknown() -> None:
    assert rules(batch(record(), 1, attributes=5)) == [FindingCode.CODEC_UNKNOWN]
    assert rules(batch(record(), 1, attributes=4)) == []
    assert rules(message(attributes=4)) == [FindingCode.CODEC_UNKNOWN]  # zstd is not defined below magic 2
    assert rules(message(attributes=3)) == []


def test_records_count_invalid() -> None:
    assert rules(batch(record(), -1)) == [FindingCode.RECORDS_COUNT_INVALID]
    assert rules(batch(record(), 5, last_offset_delta=3)) == [FindingCode.RECORDS_COUNT_INVALID]
    assert rules(batch(record(), 1, last_offset_delta=3)) == []  # compacted


def test_last_offset_delta_invalid() -> None:
    assert rules(batch(record(), 1, last_offset_delta=-1)) == [FindingCode.LAST_OFFSET_DELTA_INVALID]


def test_offsets_and_their_segment() -> None:
    assert rules(simple(base_offset=10), base_offset=11) == [FindingCode.OFFSET_BELOW_SEGMENT]
    assert rules(simple(base_offset=10 + 2**31), base_offset=10) == [FindingCode.OFFSET_ABOVE_SEGMENT]
    assert rules(simple(base_offset=9 + 2**31), base_offset=10) == []
    assert rules(message(2**40), base_offset=0) == [FindingCode.OFFSET_ABOVE_SEGMENT]


def test_offsets_and_their_order() -> None:
    assert rules(simple(2) + simple(2)) == [FindingCode.OFFSET_NOT_INCREASING]
    assert rules(simple(2) + simple(1, base_offset=1)) == [FindingCode.OFFSET_NOT_INCREASING]
    assert rules(simple(2) + simple(1, base_offset=5)) == [FindingCode.OFFSET_GAP]
    assert rules(message(5) + message(9)) == []  # offsets of wrappers are those of their last message


def test_a_gap_is_only_worth_knowing() -> None:
    (finding,) = scan(simple(2) + simple(1, base_offset=5)).findings
    assert finding.severity is Severity.INFO
    assert "2 to 4" in finding.detail


def test_segment_overlap() -> None:
    from kafkalog.codec.rules.batches import Continuity

    (found,) = scan(simple(5)).batches
    assert [finding.code for finding in Continuity(0, next_segment=4).check(found)] == [FindingCode.SEGMENT_OVERLAP]
    assert list(Continuity(0, next_segment=5).check(found)) == []


def test_leader_epochs() -> None:
    data = simple(1, 0, 5) + simple(1, 1, 4) + simple(1, 2, -1) + simple(1, 3, 5)
    assert rules(data) == [FindingCode.LEADER_EPOCH_DECREASES]


def test_control_batches_are_batches() -> None:
    assert rules(batch(record(key=bytes(4)), 1, attributes=CONTROL)) == []


def test_offsets_near_the_end_of_64_bits_do_not_wrap() -> None:
    top = 2**63 - 1
    (found,) = scan(batch(record(), 1, base_offset=top, last_offset_delta=2**31 - 1)).batches
    assert found.last_offset == top + 2**31 - 1
    codes = rules(records_batch(record(), base_offset=top) + simple())
    assert codes == [FindingCode.OFFSET_NOT_INCREASING]


MOMENT = 1_600_000_000_000
CLAIMING: dict[str, tuple[bytes, BatchOutline | None]] = {
    "a batch": (
        batch(record() + record(1), 2, base_offset=5, base_timestamp=MOMENT, max_timestamp=MOMENT + 3000),
        BatchOutline(5, 6, 2, MOMENT, MOMENT + 3000),
    ),
    "a batch without times": (
        batch(record(), 1, base_offset=5, base_timestamp=-1, max_timestamp=-1),
        BatchOutline(5, 5, 1, None, None),
    ),
    "a batch with the time of the append": (
        batch(record(), 1, base_offset=5, attributes=8, base_timestamp=7, max_timestamp=MOMENT),
        BatchOutline(5, 5, 1, MOMENT, MOMENT),
    ),
    "a compacted batch": (
        batch(record(), 1, base_offset=5, last_offset_delta=9, base_timestamp=MOMENT, max_timestamp=MOMENT),
        BatchOutline(5, 14, 1, MOMENT, MOMENT),
    ),
    "a message": (message(5, timestamp=MOMENT), BatchOutline(5, 5, 1, MOMENT, MOMENT)),
    "a message without a time": (message(5, magic=0), BatchOutline(5, 5, 1, None, None)),
    "a wrapper": (message(9, attributes=1, timestamp=MOMENT), BatchOutline(9, 9, None, MOMENT, MOMENT)),
    "an unknown magic": (batch(record(), 1, base_offset=5, magic=9), None),
    "more records than offsets": (batch(record(), 7, base_offset=5, last_offset_delta=3), None),
    "a negative count": (batch(record(), -3, base_offset=5, last_offset_delta=3), None),
    "offsets below zero": (batch(record(), 1, base_offset=-5), None),
    "offsets past the last one": (batch(record() + record(1), 2, base_offset=2**63 - 1), None),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", CLAIMING)
def test_a_torn_batch_tells_what_its_header_claims_once_the_header_is_whole(name: str, execution: Execution) -> None:
    data, wanted = CLAIMING[name]
    header = {0: 26, 1: 34}.get(data[16], 61) - 8 * (data[16] < 2)
    for left in range(18, len(data)):
        (found,) = scan(GOOD + data[:left], execution=execution).findings
        assert found.batch == (wanted if left >= header else None)
        assert (f"; its header claims {wanted}" in found.detail) is (found.batch is not None)
        assert found.offsets_and_times == []


def test_what_a_torn_batch_claims_in_words() -> None:
    data, outline = CLAIMING["a batch"]
    claimed = "offsets 5 to 6, 2 records, 2020-09-13 12:26:40Z to 2020-09-13 12:26:43Z"
    assert str(outline) == claimed
    (found,) = scan(data[:-1]).findings
    assert found.detail == f"a batch of {len(data)} bytes with {len(data) - 1} bytes left; its header claims {claimed}"
    assert plain(shaped(found, FindingJson))["batch"] == {
        "first_offset": 5, "last_offset": 6, "records": 2,
        "first_timestamp": MOMENT, "last_timestamp": MOMENT + 3000,
    }  # fmt: skip
