"""The partitions of many keys at once: `log.partitioners.murmur2` over a column, word by word for all rows together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafkalog.log.partitioners import murmur2

__all__ = ["hashes", "partitions_of"]

_POSITIVE = 0x7FFFFFFF
_M = np.uint32(0x5BD1E995)
_SEED = 0x9747B28C
_WORD = 4
_LONG_KEY = 1024
"""Keys of more bytes are rare; they are hashed one at a time."""

Hashes = np.ndarray[tuple[int], np.dtype[np.uint32]]
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


def hashes(keys: pa.Array) -> Hashes:
    """The unsigned hash of each key of a `binary` column; that of a null means nothing."""
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
        at = starts[rows] + word * _WORD
        k = np.zeros(len(rows), np.uint32)
        for byte in range(_WORD):
            k |= content[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        k *= _M
        k = (k ^ (k >> np.uint32(24))) * _M
        h[rows] = (h[rows] * _M) ^ k
    left = short % _WORD
    rest = np.zeros(count, np.uint32)
    for byte in range(_WORD - 1):
        rows = np.flatnonzero(left > byte)
        at = starts[rows] + short[rows] - left[rows] + byte
        rest[rows] |= content[at].astype(np.uint32) << np.uint32(8 * byte)
    h = np.where(left > 0, (h ^ rest) * _M, h)
    h = (h ^ (h >> np.uint32(13))) * _M
    h ^= h >> np.uint32(15)
    for row in np.flatnonzero(is_long):
        h[row] = murmur2(content[starts[row] : starts[row] + lengths[row]].tobytes())
    return h


def partitions_of(keys: pa.Array, counts: Numbers) -> Numbers:
    """The partition of each key among the `counts` that its topic has, as the Java client chooses it."""
    return (hashes(keys) & np.uint32(_POSITIVE)).astype(np.int64) % counts
