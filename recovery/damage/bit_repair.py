"""Find the single flipped bit that explains a wrong checksum of a batch, and how well it is proven.

The syndrome of CRC-32C (stored xor computed checksum) gives the position of a single flipped bit exactly, for any batch
below 256 MiB: the order of x modulo the polynomial is 2^31 - 1. An odd number of three or more flips looks like one
with probability n / 2^31 for n bits, which is why structure and neighbors are checked too. Flips in the 17 header bytes
that the checksum does not cover are found by trying each and verifying the checksum.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from kafkalog.codec.common.source import BufferSource, Source
from kafkalog.codec.compression.specs import codec_spec
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, BatchHeader, RecordBatch
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.rules.batches import MAGICS
from kafkalog.codec.rules.framing import BATCH_CRC_START, MAGIC_POSITION

__all__ = [
    "MAX_BYTES", "BitRepair", "Neighbors", "Proof", "flipped_bit", "outside_checksum", "repair_at", "repair_batch",
]  # fmt: skip

MAX_BYTES = 256 * 1024 * 1024
"""Largest batch in bytes; above it a syndrome no longer identifies one bit."""
_POLYNOMIAL = 0x82F63B78
_MASK = 0xFFFFFFFF
_CRC = BATCH["crc"]
_size_of, _SIZE_END = LOG_OVERHEAD.reader("size"), LOG_OVERHEAD.end("size")
_MAGIC = 2
_PIECE = 1 << 20
"""Bytes that are held at a time if only their checksum is needed."""


class Proof(enum.IntEnum):
    """Strength of the proof of a repair; each level includes the lower ones."""

    CRC_ONLY = 1
    """the syndrome fits exactly one bit"""
    STRUCTURE = 2
    """and the batch then parses whole: counts, offsets, timestamps"""
    CONTEXT = 3
    """and it continues the batch before it and is continued by the one after it"""
    CONTENT = 4
    """and a checksum of the content itself agrees (gzip)"""


class BitRepair(Struct, frozen=True, kw_only=True):
    """One bit to flip: `position` is a byte from the start of the batch, bit 0 is the lowest."""

    position: int
    bit: int
    field: str
    proof: Proof
    chance: float
    """probability that damage of three or more bits looks like this"""

    def apply(self, data: bytes) -> bytes:
        """Return a copy of `data` with the bit flipped."""
        repaired = bytearray(data)
        repaired[self.position] ^= 1 << self.bit
        return bytes(repaired)


class Neighbors(Struct, frozen=True, kw_only=True):
    """Facts around a damaged batch: the offset at which it should begin, the base offset of the next batch, and the
    leader epoch that it should have. None if unknown.
    """

    next_offset: int | None = None
    following: int | None = None
    leader_epoch: int | None = None
    unknown_magics: frozenset[int] = frozenset()
    """unknown magics of other batches in the log: a batch with such a magic is of a future format, not damaged"""


def _step(register: int) -> int:
    return register >> 1 ^ _POLYNOMIAL if register & 1 else register >> 1


def _step_back(register: int) -> int:
    if register & 0x80000000:
        return ((register ^ _POLYNOMIAL) << 1 | 1) & _MASK
    return register << 1 & _MASK


@lru_cache(maxsize=64)
def _tables(stride: int) -> tuple[dict[int, int], tuple[int, ...]]:
    """Return the two tables of a baby-step giant-step search with this stride. The first is a dict: syndrome of a
    single flipped bit -> number of bits after that bit, below `stride`. The second is the linear map that moves a
    syndrome `stride` bits back, as 32 columns. Results are cached.
    """
    near: dict[int, int] = {}
    register = _POLYNOMIAL
    for distance in range(stride):
        near.setdefault(register, distance)
        register = _step(register)
    columns = []
    for bit in range(32):
        column = 1 << bit
        for _ in range(stride):
            column = _step_back(column)
        columns.append(column)
    return near, tuple(columns)


def flipped_bit(syndrome: int, bits: int) -> int | None:
    """Find the single flipped bit that explains `syndrome` (stored xor computed CRC-32C) in a message of `bits` bits.
    Return the number of bits after it, which is 0 for the last bit of the message. Return None if no single bit
    explains it. Bits count in the order of the checksum: from the first byte, lowest bit first.
    """
    stride = max(1 << max(math.isqrt(max(bits, 1)).bit_length(), 6), 1)
    near, columns = _tables(stride)
    register = syndrome
    for giant in range(bits // stride + 1):
        distance = near.get(register)
        if distance is not None:
            total = giant * stride + distance
            return total if total < bits else None
        register = _apply(columns, register)
    return None


def _apply(columns: tuple[int, ...], register: int) -> int:
    result = 0
    bit = 0
    while register:
        if register & 1:
            result ^= columns[bit]
        register >>= 1
        bit += 1
    return result


def _covered(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Find the one flipped bit that explains the wrong checksum of the batch `data`. It is in the covered bytes or in
    the checksum itself. Yield its byte position in the batch, its bit (0 is the lowest), and the name of its field.
    Yields nothing if the checksum matches, no single bit explains it, or the batch is too large (`MAX_BYTES`).
    """
    covered = data[BATCH_CRC_START:]
    syndrome = crc32c(covered) ^ int.from_bytes(data[_CRC.position : _CRC.position + _CRC.size], "big")
    if syndrome == 0 or len(covered) > MAX_BYTES:
        return
    if syndrome & (syndrome - 1) == 0:
        place = syndrome.bit_length() - 1
        yield _CRC.position + _CRC.size - 1 - place // 8, place % 8, "crc"
        return
    behind = flipped_bit(syndrome, 8 * len(covered))
    if behind is not None:
        place = 8 * len(covered) - 1 - behind
        position = BATCH_CRC_START + place // 8
        yield position, place % 8, _field_of(position)


def _field_of(position: int) -> str:
    for field in BATCH.fields:
        if field.position <= position < field.position + field.size:
            return field.name
    return "records"


def _uncovered(source: Source, start: int, left: int, head: bytes) -> list[tuple[int, int, str, int]]:
    """Return the single flips in the length or magic of the batch at `start` after which its checksum matches. Each is
    (byte position in the batch, bit, field name, batch size in bytes after the flip); bit 0 is the lowest. Empty if
    there is none. `head` is the batch header as stored. Sizes above `left` bytes are not tried. Raises `StorageError`
    if the batch cannot be read.
    """
    length = _size_of(head, 0)
    guesses = [
        (_SIZE_END - 1 - bit // 8, bit % 8, "batch_length", LOG_OVERHEAD.size + _signed(length ^ 1 << bit))
        for bit in range(32)
    ]
    wrong = head[MAGIC_POSITION] ^ _MAGIC
    if wrong and wrong & (wrong - 1) == 0:
        guesses.append((MAGIC_POSITION, wrong.bit_length() - 1, "magic", LOG_OVERHEAD.size + length))
    sizes = {size for *_place, size in guesses if BATCH.size <= size <= left}
    valid = _valid_sizes(
        source, start, sorted(sizes), int.from_bytes(head[_CRC.position : _CRC.position + _CRC.size], "big")
    )
    return [guess for guess in guesses if guess[-1] in valid]


def _signed(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _valid_sizes(source: Source, start: int, sizes: Sequence[int], stored: int) -> set[int]:
    """Return the sizes with which the batch at `start` has the checksum `stored`. `sizes` are the candidates in bytes,
    in ascending order. Reads the bytes once. Sizes beyond the end of the source are left out. Raises `StorageError` if
    reading fails.
    """
    valid: set[int] = set()
    value, done = 0, BATCH_CRC_START
    for size in sizes:
        while done < size:
            piece = source.read(start + done, min(_PIECE, size - done))
            if not piece:
                return valid
            value = crc32c(piece, value)
            done += len(piece)
        if value == stored:
            valid.add(size)
    return valid


def _proof(data: bytes, neighbors: Neighbors) -> Proof:
    header = BatchHeader(*BATCH.struct.unpack_from(data))
    decoded = decode_batch(RecordBatch(header, 0, memoryview(data)))
    deltas = [record.offset - header.base_offset for record in decoded.records]
    is_structured = (
        header.magic == _MAGIC
        and header.attributes >> 7 == 0
        and decoded.finding is None
        and header.last_offset_delta >= 0
        and deltas == sorted(set(deltas))
        and all(0 <= delta <= header.last_offset_delta for delta in deltas)
        and (not decoded.records or max(record.timestamp for record in decoded.records) <= header.max_timestamp)
    )
    if not is_structured:
        return Proof.CRC_ONLY
    if neighbors.next_offset is None or header.base_offset != neighbors.next_offset:
        return Proof.STRUCTURE
    if neighbors.following is not None and header.next_offset != neighbors.following:
        return Proof.STRUCTURE
    if neighbors.leader_epoch is not None and header.partition_leader_epoch != neighbors.leader_epoch:
        return Proof.STRUCTURE
    spec = codec_spec(header.codec)
    return Proof.CONTENT if spec is not None and spec.checks_content else Proof.CONTEXT


def repair_batch(window: bytes, neighbors: Neighbors, following_at: int | None = None) -> tuple[BitRepair, int] | None:
    """Return the repair of the damaged magic-2 batch at the start of `window`, and the batch's size in bytes after the
    repair; None unless exactly one repair is possible. `window` reaches as far as the batch may; `following_at` is the
    position of the next sound batch, if known.
    """
    return repair_at(BufferSource(window), 0, neighbors, following_at)


def repair_at(
    source: Source, start: int, neighbors: Neighbors, following_at: int | None = None
) -> tuple[BitRepair, int] | None:
    """Return the only possible repair of the damaged magic-2 batch at byte `start`, and the batch's size in bytes after
    it. `neighbors` has the facts about other batches by which the repair's proof is judged. Bits that the checksum does
    not cover are tried only if no covered bit repairs the batch. With `following_at`, only repairs count after which
    the batch has this size in bytes. Nothing is written.

    Return None if there is no repair, or more than one, or if less than a header is left. Return None too if the batch
    has an unknown magic that other batches also have: it is a newer format. Raises `StorageError` if reading fails.
    """
    left = min(source.size - start, MAX_BYTES)
    head = bytes(source.read(start, BATCH.size))
    if len(head) < BATCH.size or _is_of_a_format_to_come(source, start, head, neighbors):
        return None
    repairs: list[tuple[BitRepair, int]] = []
    size = LOG_OVERHEAD.size + _size_of(head, 0)
    if BATCH.size <= size <= left and head[MAGIC_POSITION] == _MAGIC:
        data = bytes(source.read(start, size))
        chance = min(8 * size / 2**31, 1.0)
        repairs += [_judged(data, *place, neighbors, chance) for place in _covered(data)]
    if not repairs:
        for position, bit, field, right_size in _uncovered(source, start, left, head):
            data = bytes(source.read(start, right_size))
            repairs.append(_judged(data, position, bit, field, neighbors, 2.0**-32))
    if following_at is not None:
        repairs = [(repair, size) for repair, size in repairs if size == following_at]
    return repairs[0] if len(repairs) == 1 else None


def _is_of_a_format_to_come(source: Source, start: int, head: bytes, neighbors: Neighbors) -> bool:
    """Whether the batch at `start` is probably of a future format. Its magic must be unknown, and the next batch or
    other batches (`neighbors.unknown_magics`) must have the same magic: a flipped bit would not repeat. Reads the magic
    of the next batch. Raises `StorageError` if reading fails.
    """
    magic = head[MAGIC_POSITION]
    if magic in MAGICS:
        return False
    behind = start + LOG_OVERHEAD.size + _size_of(head, 0)
    magic_position = behind + MAGIC_POSITION
    is_like = start < behind and magic_position < source.size and source.read(magic_position, 1)[0] == magic
    return is_like or magic in neighbors.unknown_magics


def outside_checksum(header: BatchHeader, around: Neighbors, previous_epoch: int | None) -> BitRepair | None:
    """Return the one flipped bit in the base offset or leader epoch of a batch, if its neighbors (`around`) prove it;
    else None. No checksum covers these two fields. `previous_epoch` is the leader epoch of the batch before, None if
    unknown.

    A base offset is proven to be wrong if one flipped bit makes it the expected offset, and the batch then fits exactly
    between its neighbors. The proof is `Proof.CONTEXT`. Without a following batch the base offset must be too low, and
    the proof is `Proof.STRUCTURE`. An epoch is proven if both neighbors have the same epoch, and one flipped bit makes
    the batch's equal to it. It is examined only if the base offset is as expected, or no offset is expected.
    """
    expected, following = around.next_offset, around.following
    if expected is not None and header.base_offset != expected:
        size = header.last_offset_delta + 1
        fits = header.base_offset < expected if following is None else expected + size == following
        proof = Proof.STRUCTURE if following is None else Proof.CONTEXT
        return _one_bit("base_offset", header.base_offset, expected, proof) if fits and size > 0 else None
    epoch = around.leader_epoch
    if epoch is not None and epoch == previous_epoch and header.partition_leader_epoch != epoch:
        return _one_bit("partition_leader_epoch", header.partition_leader_epoch, epoch, Proof.CONTEXT)
    return None


def _one_bit(field: str, value: int, right: int, proof: Proof) -> BitRepair | None:
    place = BATCH[field]
    wrong = (value ^ right) & ((1 << 8 * place.size) - 1)
    if wrong.bit_count() != 1:
        return None
    bit = wrong.bit_length() - 1
    return BitRepair(
        position=place.position + place.size - 1 - bit // 8, bit=bit % 8, field=field, proof=proof, chance=0.0
    )


def _judged(
    data: bytes, position: int, bit: int, field: str, neighbors: Neighbors, chance: float
) -> tuple[BitRepair, int]:
    guess = BitRepair(position=position, bit=bit, field=field, proof=Proof.CRC_ONLY, chance=chance)
    return BitRepair(
        position=position, bit=bit, field=field, proof=_proof(guess.apply(data), neighbors), chance=chance
    ), len(data)
