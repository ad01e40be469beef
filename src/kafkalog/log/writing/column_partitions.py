"""Choose the partitions of many records at once, for writers of columns: `build` and Spark. Computes
`log.writing.partitioners.murmur2` for a column, one word of all rows at a time. Records without a key are distributed
in turn, so that the same columns always get the same partitions.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.codec.common.errors import UsageError
from kafkalog.log.writing.choosing_partitions import Partitioner, by_key
from kafkalog.log.writing.partitioners import murmur2

__all__ = ["COLUMN_PARTITIONERS", "ColumnPartitions", "hashes", "partitions_of"]

COLUMN_PARTITIONERS = ("murmur2", "hash")
"""Names of partitioners that depend only on the key."""

_POSITIVE = 0x7FFFFFFF
_M = np.uint32(0x5BD1E995)
_SEED = 0x9747B28C
_WORD = 4
_LONG_KEY = 1024
"""Longest key in bytes that is hashed with the others; longer ones are rare and hashed one by one."""

Hashes = np.ndarray[tuple[int], np.dtype[np.uint32]]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


def hashes(keys: pa.Array) -> Hashes:
    """Return the unsigned 32-bit murmur2 hash of each key of a `binary` column (Java's `Utils.murmur2`) as an array.
    The value for a null key is undefined.
    """
    count = len(keys)
    ends = np.frombuffer(keys.buffers()[1], np.int32, count + 1, keys.offset * _WORD)
    data = keys.buffers()[2]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    starts, lengths = ends[:-1].astype(np.int64), np.diff(ends).astype(np.int64)
    is_long = lengths > _LONG_KEY
    short = np.where(is_long, 0, lengths)
    h = np.uint32(_SEED) ^ short.astype(np.uint32)
    for word in range(int(short.max(initial=0)) // _WORD):
        rows = np.flatnonzero(short >= (word + 1) * _WORD)
        positions = starts[rows] + word * _WORD
        k = np.zeros(len(rows), np.uint32)
        for byte in range(_WORD):
            k |= content[positions + byte].astype(np.uint32) << np.uint32(8 * byte)
        k *= _M
        k = (k ^ (k >> np.uint32(24))) * _M
        h[rows] = (h[rows] * _M) ^ k
    left = short % _WORD
    rest = np.zeros(count, np.uint32)
    for byte in range(_WORD - 1):
        rows = np.flatnonzero(left > byte)
        positions = starts[rows] + short[rows] - left[rows] + byte
        rest[rows] |= content[positions].astype(np.uint32) << np.uint32(8 * byte)
    h = np.where(left > 0, (h ^ rest) * _M, h)
    h = (h ^ (h >> np.uint32(13))) * _M
    h ^= h >> np.uint32(15)
    for row in np.flatnonzero(is_long):
        h[row] = murmur2(content[starts[row] : starts[row] + lengths[row]].tobytes())
    return h


def partitions_of(keys: pa.Array, counts: Numbers) -> Numbers:
    """Return the partition number of each key as the Java client chooses it. `counts` has the number of partitions of
    the topic for each key. The value for a null key is undefined.
    """
    return (hashes(keys) & np.uint32(_POSITIVE)).astype(np.int64) % counts


class ColumnPartitions:
    """Chooser of partitions for rows of columns. Rows without a key get the partitions in turn, beginning with
    `first_turn`; later calls continue the turn. `partitioner` is a name in `COLUMN_PARTITIONERS`, or a function of a
    key's bytes and the number of partitions. Creating an instance raises `UsageError` for an unknown name.
    """

    def __init__(self, partitioner: Partitioner = "murmur2", *, first_turn: int = 0) -> None:
        if isinstance(partitioner, str) and partitioner not in COLUMN_PARTITIONERS:
            raise UsageError(f"partitioner {partitioner!r} is not one of {', '.join(COLUMN_PARTITIONERS)}")
        self._by_key = None if partitioner == "murmur2" else by_key(partitioner)
        self._turn = first_turn

    def numbers(self, keys: pa.Array, counts: Numbers, given: pa.Array | None = None) -> Numbers:
        """Return the partition number of each row. It is the row's number in `given` (None: no row has one), if that is
        not null; these numbers are not checked. Otherwise it is chosen by the key, and rows with a null key get the
        partitions in turn. `counts` has the number of partitions for each row.

        Each row with a null key advances the turn, even if it has a number in `given`. Raises `UsageError` if the
        partitioner function returns an invalid number.
        """
        numbers = partitions_of(keys, counts) if self._by_key is None else self._asked(keys, counts)
        missing = np.asarray(pc.is_null(keys))
        if missing.any():
            turns = self._turn + np.arange(int(missing.sum()))
            numbers[missing] = turns % counts[missing]
            self._turn = int(turns[-1]) + 1
        if given is None:
            return numbers
        values = np.asarray(pc.fill_null(given, 0)).astype(np.int64)
        return np.where(np.asarray(pc.is_valid(given)), values, numbers)

    def _asked(self, keys: pa.Array, counts: Numbers) -> Numbers:
        """Return the partitions that the partitioner function chooses, called for each key that is not null; 0 for null
        keys. Raises `UsageError` if it returns an invalid number.
        """
        assert self._by_key is not None  # noqa: S101 - the caller has checked it
        numbers = np.zeros(len(keys), np.int64)
        for row, key in enumerate(keys.to_pylist()):
            if key is not None:
                numbers[row] = self._by_key(key, key, int(counts[row])) or 0
        return numbers
