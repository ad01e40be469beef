"""Bytes made to cost memory or time, or to be misread: each with a name, what reads it, and what it must end in.

A verdict is the set of finding codes, in order of their names; "fine" where the bytes are odd but legal.  Bombs are
made when they are asked for, so that this module itself stays small.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import lz4.block
import snappy
from crc32c import crc32c

from testkit.made.batches import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    fix_crc,
    message,
    patch,
    record,
    records_batch,
    simple,
    sized,
    varint,
)

MIB = 1 << 20
FINE = "fine"
INT32 = {"int32 min": -(2**31), "-1": -1, "0": 0, "1": 1, "13": 13, "int32 max": 2**31 - 1}
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


class Vector(NamedTuple):
    name: str
    reader: str
    verdict: str
    make: Callable[[], bytes]
    unpacked: int = 0
    """bytes that have to be examined after decompression, where those are more than the vector itself has"""


def _fixed(name: str, reader: str, verdict: str, data: bytes) -> Vector:
    return Vector(name, reader, verdict, lambda: data)


def _segment(name: str, verdict: str, data: bytes) -> Vector:
    return _fixed(name, "segment", verdict, data)


def _int(value: int) -> bytes:
    return struct.pack(">i", value)


# --- sizes -----------------------------------------------------------------------------------------------------------


def _sizes() -> Iterator[Vector]:
    whole = simple(2)
    for label, size in INT32.items():
        wanted = "torn_tail" if size == 2**31 - 1 else "batch_size_invalid"
        yield _segment(f"batch length {label}", wanted, patch(whole, 8, _int(size)))
        yield _segment(f"message size {label}", wanted, patch(message(), 8, _int(size)))
    for size in (14, 20, 48):
        yield _segment(f"batch length {size}", "batch_size_invalid", patch(whole, 8, _int(size)))
    yield _segment("batch length 49", "crc_mismatch", patch(whole, 8, _int(49)))
    for off in (-1, 1):
        yield _segment(f"batch length off by {off}", "crc_mismatch" if off < 0 else "torn_tail",
                       patch(whole, 8, _int(len(whole) - 12 + off)))  # fmt: skip
        yield _segment(f"message size off by {off}", "crc_mismatch" if off < 0 else "torn_tail",
                       patch(message(), 8, _int(len(message()) - 12 + off)))  # fmt: skip
    yield _segment("batch length that swallows the next batch", "crc_mismatch",
                   patch(whole, 8, _int(2 * len(whole) - 12)) + whole)  # fmt: skip
    yield _segment("size of the largest batch there can be", "torn_tail", patch(bytes(4096), 8, b"\x7f" + b"\xff" * 3))
    for cut in (1, 8, 12, 16, 17, 18, 60, 61, len(whole) - 1):
        yield _segment(f"cut after {cut} bytes", "torn_tail", patch(whole, 0, b"\x01")[:cut])
    yield _segment("nothing", FINE, b"")
    yield _segment("zeros", "zero_tail", bytes(MIB))
    yield _segment("zeros but the last byte", "batch_size_invalid", bytes(MIB) + b"\x01")
    yield _segment("ones", "batch_size_invalid", b"\xff" * MIB)
    for magic in (-128, -1, 3, 4, 127):
        changed = patch(whole, 16, struct.pack(">b", magic))
        yield _segment(f"magic {magic}", "magic_unknown", changed)
    yield _segment("magic 0 in front of a batch", "crc_mismatch", patch(whole, 16, b"\0"))
    yield _segment("magic 2 in front of a message", "batch_size_invalid", patch(message(), 16, b"\x02"))
    yield _segment("smallest message of magic 1", "message_invalid", fix_crc(struct.pack(">qiIbbq", 5, 14, 0, 1, 0, 0)))


# --- counts, offsets, times ------------------------------------------------------------------------------------------


def _counts() -> Iterator[Vector]:
    one = record()
    for count in (-(2**31), -2, -1):
        yield _segment(f"record count {count}", "records_count_invalid", batch(one, count, last_offset_delta=0))
    for count in (2**31 - 1, MIB + 1):
        yield _segment(f"record count {count}", "limit_exceeded", batch(one, count, last_offset_delta=2**31 - 1))
    for count in (2, MIB):
        yield _segment(f"record count {count} of 1", "record_truncated", batch(one, count))
    yield _segment("record count 0 of 1", FINE, batch(one, 0))
    yield _segment("record count 1 of 2", "records_trailing_bytes", batch(one * 2, 1))
    yield _segment("record count above the offsets", "records_count_invalid", batch(one * 2, 2, last_offset_delta=0))
    for delta in (-(2**31), -1):
        yield _segment(
            f"last offset delta {delta}", "last_offset_delta_invalid", batch(one, 1, last_offset_delta=delta)
        )
    yield _segment("last offset delta int32 max", FINE, batch(one, 1, last_offset_delta=2**31 - 1))
    for base in (SMALLEST, -1, LARGEST):
        yield _segment(f"base offset {base}", FINE, batch(one, 1, base_offset=base))
    yield _segment("offsets beyond 64 bits", FINE, batch(record(2**31 - 1), 1, base_offset=LARGEST,
                                                         last_offset_delta=2**31 - 1))  # fmt: skip
    yield _segment("a batch after the largest offset", "offset_not_increasing",
                   batch(one, 1, base_offset=LARGEST) + batch(one, 1, base_offset=SMALLEST))  # fmt: skip
    for time in (SMALLEST, LARGEST):
        yield _segment(f"timestamps from {time}", FINE,
                       batch(record(timestamp_delta=time), 1, base_timestamp=time, max_timestamp=time))  # fmt: skip
    last = {"producer_id": LARGEST, "producer_epoch": 2**15 - 1, "base_sequence": 2**31 - 1}
    yield _segment("sequences that wrap", FINE, batch(record(2**31 - 1), 1, **last))
    yield _segment("sequence below -1", FINE, batch(one, 1, producer_id=1, producer_epoch=0, base_sequence=-(2**31)))
    yield _segment("leader epoch int32 min", "leader_epoch_decreases", simple(leader_epoch=-(2**31)))
    yield _segment("leader epoch int32 max, then 0", "leader_epoch_decreases",
                   simple(leader_epoch=2**31 - 1) + simple(1, 1, 0))  # fmt: skip
    yield _segment("every attribute bit", "codec_unknown", batch(one, 1, attributes=-1))
    yield _segment("high attribute bits", FINE, batch(one, 1, attributes=0x7F00))
    for codec in (5, 6, 7):
        yield _segment(f"compression {codec}", "codec_unknown", batch(one, 1, attributes=codec))
        yield _segment(f"compression {codec} in a message", "codec_unknown", message(attributes=codec))


# --- records ---------------------------------------------------------------------------------------------------------

HEAD, K, V = bytes(3), sized(b"k"), sized(b"v")
ENDLESS = b"\x80" * 1000


def _body(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return varint(len(content)) + content


def _record_parts() -> Iterator[tuple[str, str, bytes]]:
    yield "record length endless", "varint_too_long", ENDLESS
    yield "record length of a million 0x80", "varint_too_long", b"\x80" * 1_000_000
    yield "record length negative", "record_length_mismatch", varint(-1)
    yield "record length int32 min", "record_length_mismatch", varint(-(2**31))
    yield "record length int32 max", "record_truncated", varint(2**31 - 1)
    yield "record length 0", "record_truncated", varint(0)
    yield "record length one too long", "record_truncated", varint(len(HEAD + K + V) + 2) + HEAD + K + V + b"\0"
    yield "record length one too short", "record_truncated", varint(len(HEAD + K + V)) + HEAD + K + V + b"\0"
    yield "record longer than its fields", "record_length_mismatch", _body(HEAD, K, V, b"\0", b"x")
    yield "record of attributes only", "record_truncated", _body(b"\0")
    yield "timestamp endless", "varint_too_long", _body(b"\0", ENDLESS)
    yield "timestamp cut", "record_truncated", _body(b"\0", b"\x80" * 9)
    yield "offset endless", "varint_too_long", _body(b"\0\0", ENDLESS)
    yield "offset of six bytes", "varint_too_long", _body(b"\0\0", b"\x80" * 5 + b"\0", K, V, b"\0")
    for name, before in (("key", HEAD), ("value", HEAD + K)):
        yield f"{name} length int32 max", "record_truncated", _body(before, varint(2**31 - 1))
        yield f"{name} length past the record", "record_truncated", _body(before, varint(9), b"abc")
        yield f"{name} length endless", "varint_too_long", _body(before, ENDLESS)
    yield "key length int32 min", FINE, _body(HEAD, varint(-(2**31)), V, b"\0")
    headers = HEAD + K + V
    for count in (-(2**31), -1, 2**31 - 1, 1):
        yield f"header count {count} of 0", "header_count_invalid", _body(headers, varint(count))
    yield "header count endless", "varint_too_long", _body(headers, ENDLESS)
    yield "header count above what is left", "header_count_invalid", _body(headers, varint(50), bytes(99))
    yield (
        "header count as much as is left",
        "record_truncated",
        _body(headers, varint(50), bytes(97) + b"\x02" + b"\x02\x02"),
    )
    yield "header key negative", "header_key_invalid", _body(headers, varint(1), varint(-1), varint(-1))
    yield "header key int32 max", "record_truncated", _body(headers, varint(1), varint(2**31 - 1))
    yield "header key endless", "varint_too_long", _body(headers, varint(1), ENDLESS)
    yield "header value int32 max", "record_truncated", _body(headers, varint(1), sized(b"h"), varint(2**31 - 1))
    yield "header value int32 min", FINE, _body(headers, varint(1), sized(b"h"), varint(-(2**31)))
    yield "header key of odd bytes", FINE, _body(headers, varint(1), sized(b"\xff\xfe\x00"), varint(-1))


def _records() -> Iterator[Vector]:
    for name, verdict, payload in _record_parts():
        yield _segment(name, verdict, batch(payload, 1))
    yield Vector("headers above the cap", "segment", "limit_exceeded",
                 lambda: batch(_body(headers_before(), varint(MIB + 1), bytes(2 * MIB + 2)), 1))  # fmt: skip
    yield Vector("half a million headers", "segment", FINE,
                 lambda: records_batch(record(headers=[(b"", b"")] * 500_000)))  # fmt: skip
    smallest = record(0, None, None)
    yield Vector("a MiB of the smallest records", "segment", FINE,
                 lambda: batch(smallest * (MIB // 7), MIB // 7))  # fmt: skip
    yield Vector("a MiB of empty batches", "segment", FINE,
                 lambda: b"".join(batch(base_offset=number) for number in range(MIB // 61)))  # fmt: skip
    yield Vector("a MiB of the smallest messages", "segment", FINE,
                 lambda: b"".join(message(number, None, None, magic=0) for number in range(MIB // 26)))  # fmt: skip
    yield Vector("a million records in a few bytes", "segment", FINE,
                 lambda: batch(packed(ZSTD, smallest * MIB), MIB, attributes=ZSTD), unpacked=7 * MIB)  # fmt: skip
    yield Vector("zeros in a few bytes", "segment", "record_truncated",
                 lambda: batch(rle_frame(64 * MIB), MIB, attributes=ZSTD), unpacked=64 * MIB)  # fmt: skip


def headers_before() -> bytes:
    return HEAD + K + V


# --- old messages ----------------------------------------------------------------------------------------------------


def _wrapped(inner: bytes, offset: int = 3, codec: int = GZIP, magic: int = 1) -> bytes:
    return message(offset, None, packed(codec, inner), magic=magic, attributes=codec)


def _messages() -> Iterator[Vector]:
    wrong = "message_invalid"
    for label, length in (("int32 max", 2**31 - 1), ("100", 100)):
        yield _segment(f"message key length {label}", wrong, message(body=_int(length) + bytes(8)))
        yield _segment(f"message value length {label}", wrong, message(body=_int(-1) + _int(length)))
    yield _segment("message lengths int32 min", FINE, message(body=_int(-(2**31)) * 2))
    yield _segment("message without a value length", wrong, message(body=_int(-1)))
    yield _segment("wrapper without a value", wrong, message(3, None, None, attributes=GZIP))
    yield _segment("wrapper of nothing", wrong, _wrapped(b""))
    for label, size in INT32.items():
        yield _segment(f"inner size {label}", wrong, _wrapped(patch(message(), 8, _int(size))))
    yield _segment("inner size int32 max after a good one", FINE,
                   _wrapped(message() + patch(message(1), 8, _int(2**31 - 1))))  # fmt: skip
    for magic in (2, 3, 127, 255):
        yield _segment(f"inner magic {magic}", wrong, _wrapped(patch(message(), 16, bytes([magic]))))
    nested = message()
    for depth in range(1, 4):
        nested = _wrapped(nested, 0)
        if depth > 1:
            yield _segment(f"wrappers {depth} deep", wrong, nested)
    yield _segment("wrapper below its messages", wrong, _wrapped(message(9), 3))
    yield _segment("wrapper of offset 0", FINE, _wrapped(message(9), 0))
    yield _segment("wrapper at the largest offset", FINE, _wrapped(message(0) + message(1), LARGEST))
    yield _segment("inner offset int64 min", FINE, _wrapped(message(SMALLEST), 3))
    yield _segment("zstd in a message", "codec_unknown", _wrapped(message(), codec=ZSTD))
    small = [message(number, None, None, magic=0) for number in range(MIB // 26)]
    yield Vector("a MiB of inner messages", "segment", FINE, lambda: _wrapped(b"".join(small), MIB, magic=0), MIB)
    yield Vector("more inner messages than allowed", "segment", "limit_exceeded",
                 lambda: _wrapped(message(magic=0, key=None, value=None) * (MIB + 1), MIB, magic=0),
                 unpacked=26 * MIB)  # fmt: skip


# --- compressed streams ----------------------------------------------------------------------------------------------


def packed(codec: int, data: bytes) -> bytes:
    from kafkalog.codec.compression import compress

    return compress(codec, data)


def rle_frame(size: int) -> bytes:
    """A zstd frame of zeros: four bytes for each 128 KiB."""
    block, count = 128 * 1024, size // (128 * 1024)
    return b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(
        ((block << 3) | 2 | (number == count - 1)).to_bytes(3, "little") + b"\0" for number in range(count)
    )


def gzip_zeros(size: int) -> bytes:
    encoder = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(encoder.compress(bytes(MIB)) for _ in range(size // MIB)) + encoder.flush()


XERIAL = bytes.fromhex("82534e41505059000000000100000001")


def snappy_zeros(size: int) -> bytes:
    block = bytes(snappy.compress(bytes(MIB)))
    return XERIAL + (_int(len(block)) + block) * (size // MIB)


def lz4_frame(blocks: bytes, bd: int = 0x70, flg: int = 0x60, extra: bytes = b"", end: bytes = bytes(4)) -> bytes:
    from xxhash import xxh32_intdigest

    from kafkalog.codec.compression.lz4 import MAGIC

    descriptor = bytes([flg, bd]) + extra
    return MAGIC + descriptor + bytes([xxh32_intdigest(descriptor) >> 8 & 0xFF]) + blocks + end


def _little(value: int) -> bytes:
    return struct.pack("<I", value)


def lz4_zeros(size: int) -> bytes:
    block = lz4.block.compress(bytes(4 * MIB), store_size=False)
    return lz4_frame((_little(len(block)) + block) * (size // (4 * MIB)))


def _streams() -> Iterator[tuple[str, int, str, Callable[[], bytes]]]:
    failed, capped = "decompression_failed", "limit_exceeded"
    good = record() + record(1)
    for codec, name in NAMES.items():
        whole = packed(codec, good)
        yield f"{name}: nothing", codec, failed, lambda: b""
        yield f"{name}: ones", codec, failed, lambda: b"\xff" * 1000
        yield f"{name}: its magic only", codec, failed, partial(bytes, whole[:4])
        yield f"{name}: half", codec, failed, partial(bytes, whole[: len(whole) // 2])
        yield f"{name}: its last byte missing", codec, failed, partial(bytes, whole[:-1])
    big = 256 * MIB
    yield "gzip: bomb", GZIP, capped, lambda: gzip_zeros(big)
    yield "gzip: bomb in members", GZIP, capped, lambda: gzip.compress(bytes(MIB)) * 256
    yield "gzip: a MiB of empty members", GZIP, "record_truncated", lambda: gzip.compress(b"") * (MIB // 20)
    yield "gzip: wrong checksum", GZIP, failed, lambda: gzip.compress(good)[:-8] + bytes(8)
    yield "gzip: name without end", GZIP, failed, lambda: b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MIB
    yield "gzip: extra field longer than the stream", GZIP, failed, lambda: b"\x1f\x8b\x08\x04" + bytes(6) + b"\xff\xff"
    yield "snappy: bomb", SNAPPY, capped, lambda: snappy_zeros(big)
    yield "snappy: declares 4 GiB", SNAPPY, capped, lambda: b"\xff\xff\xff\xff\x0f" + bytes(50)
    yield "snappy: block declares 4 GiB", SNAPPY, capped, lambda: XERIAL + _int(9) + b"\xff\xff\xff\xff\x0f" + bytes(4)
    yield "snappy: size endless", SNAPPY, failed, lambda: b"\x80" * 1000
    yield "snappy: size lies", SNAPPY, failed, lambda: b"\x80\x80\x04" + bytes(50)
    for label, length in (("int32 max", 2**31 - 1), ("-1", -1), ("int32 min", -(2**31)), ("one too long", 4)):
        yield f"snappy: block length {label}", SNAPPY, failed, partial(bytes, XERIAL + _int(length) + b"abc")
    yield "snappy: a MiB of empty blocks", SNAPPY, "record_truncated", lambda: XERIAL + (_int(1) + b"\0") * (MIB // 5)
    yield "snappy: a MiB of headers", SNAPPY, "record_truncated", lambda: XERIAL * (MIB // 16)
    yield "lz4: bomb", LZ4, capped, lambda: lz4_zeros(big)
    yield "lz4: block size 2 GiB", LZ4, failed, lambda: lz4_frame(_little(0x7FFFFFFF))
    yield "lz4: stored block size 2 GiB", LZ4, failed, lambda: lz4_frame(_little(0xFFFFFFFF))
    yield "lz4: block larger than the frame allows", LZ4, failed, lambda: lz4_frame(_little(70000) + bytes(70000), 0x40)
    yield "lz4: declares 2^64 bytes", LZ4, failed, lambda: lz4_frame(b"", flg=0x68, extra=b"\xff" * 8, end=b"")
    yield "lz4: dictionary", LZ4, failed, lambda: lz4_frame(b"", flg=0x61, extra=bytes(4))
    yield "lz4: no end mark", LZ4, failed, lambda: lz4_frame(_little(0x80000001) + b"a", end=b"")
    tiny = _little(2) + b"\x10a"
    yield "lz4: a MiB of tiny blocks", LZ4, "record_length_mismatch", lambda: lz4_frame(tiny * (MIB // 6))
    yield "lz4: wrong header checksum", LZ4, failed, lambda: patch(packed(LZ4, good), 6, b"\0")
    yield "zstd: bomb", ZSTD, capped, lambda: rle_frame(big)
    yield "zstd: bomb in frames", ZSTD, capped, lambda: rle_frame(MIB) * 256
    yield (
        "zstd: declares 2^63 bytes",
        ZSTD,
        capped,
        lambda: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**63) + bytes(3),
    )
    yield "zstd: window of 2 TiB", ZSTD, failed, lambda: b"\x28\xb5\x2f\xfd\x00\xf8" + b"\x01\0\0"
    yield "zstd: window of 256 MiB", ZSTD, capped, lambda: b"\x28\xb5\x2f\xfd\x00\x90" + b"\x01\0\0"
    yield "zstd: dictionary", ZSTD, failed, lambda: b"\x28\xb5\x2f\xfd\x03\x58" + b"\xff" * 4 + b"\x0d\0\0\0"
    yield "zstd: reserved block", ZSTD, failed, lambda: b"\x28\xb5\x2f\xfd\x00\x58\x07\0\0"
    yield "zstd: block past the end", ZSTD, failed, lambda: b"\x28\xb5\x2f\xfd\x00\x58\xf9\xff\xff"
    yield (
        "zstd: a MiB of empty frames",
        ZSTD,
        "record_truncated",
        lambda: b"\x28\xb5\x2f\xfd\x00\x58\x01\0\0" * (MIB // 9),
    )
    yield (
        "zstd: a MiB of frames to skip",
        ZSTD,
        "record_truncated",
        lambda: (_little(0x184D2A50) + bytes(4)) * (MIB // 8),
    )
    yield "zstd: frame to skip of 4 GiB", ZSTD, failed, lambda: _little(0x184D2A5F) + b"\xff" * 4
    yield "zstd: garbage after a frame", ZSTD, failed, lambda: packed(ZSTD, good) + b"garbage"


def _in_batch(codec: int, make: Callable[[], bytes]) -> bytes:
    return batch(make(), 2, attributes=codec)


def _in_message(codec: int, make: Callable[[], bytes]) -> bytes:
    return message(1, None, make(), attributes=codec)


def _compressed() -> Iterator[Vector]:
    for name, codec, verdict, make in _streams():
        unpacked = 256 * MIB if "bomb" in name else 0
        yield Vector(name, "segment", verdict, partial(_in_batch, codec, make), unpacked)
        if codec != ZSTD and ("bomb" in name or "declares" in name or "int32 max" in name):
            yield Vector(f"wrapper, {name}", "segment", verdict, partial(_in_message, codec, make), unpacked)


# --- files -----------------------------------------------------------------------------------------------------------


def _snapshot(count: int, entries: int) -> bytes:
    body = struct.pack(">i", count) + bytes(46 * entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def _files() -> Iterator[Vector]:
    for count in (-(2**31), -1, 2, 2**31 - 1):
        yield _fixed(f"snapshot: {count} entries in 1", "snapshot", "snapshot_invalid", _snapshot(count, 1))
    yield _fixed("snapshot: version int16 min", "snapshot", "snapshot_invalid", struct.pack(">hIi", -(2**15), 0, 0))
    yield Vector("snapshot: a MiB of entries", "snapshot", FINE, lambda: _snapshot(MIB // 46, MIB // 46))
    wrong = "checkpoint_invalid"
    yield _fixed("checkpoint: count int32 max", "offset checkpoint", wrong, b"0\n2147483647\na 0 5\n")
    yield _fixed("checkpoint: count -1", "offset checkpoint", wrong, b"0\n-1\n")
    yield _fixed("checkpoint: a number of a million digits", "offset checkpoint", wrong, b"0\n1\na 0 " + b"9" * MIB)
    yield _fixed("checkpoint: version of a million digits", "offset checkpoint", wrong, b"9" * MIB)
    yield _fixed("checkpoint: zeros", "offset checkpoint", wrong, bytes(MIB))
    yield _fixed("checkpoint: a line of a MiB", "offset checkpoint", wrong, b"0\n1\n" + b"a " * (MIB // 2))
    yield _fixed("checkpoint: a MiB of line ends", "offset checkpoint", wrong, b"\n" * MIB)
    yield _fixed("checkpoint: a path for a topic", "offset checkpoint", FINE, b"0\n1\n../../etc/x 0 5\n")
    yield _fixed(
        "checkpoint: a MiB of lines", "offset checkpoint", FINE, b"0\n%d\n" % (MIB // 6) + b"a 0 5\n" * (MIB // 6)
    )
    yield _fixed("leader epochs: epoch beyond int32", "leader epochs", wrong, b"0\n1\n4294967296 0\n")
    yield _fixed("partition.metadata: a MiB of spaces", "partition.metadata", "partition_metadata_invalid", b" " * MIB)
    yield _fixed("partition.metadata: colons and spaces", "partition.metadata", "partition_metadata_invalid",
                 b": " * (MIB // 2))  # fmt: skip
    yield _fixed("partition.metadata: version of a million digits", "partition.metadata", "partition_metadata_invalid",
                 b"version: " + b"9" * MIB + b"\ntopic_id: x")  # fmt: skip
    wrong = "meta_properties_invalid"
    yield _fixed("meta.properties: backslashes", "meta.properties", FINE, b"\\" * MIB)
    yield _fixed("meta.properties: one line over and over", "meta.properties", FINE, b"\\\n" * (MIB // 2))
    yield _fixed("meta.properties: half an escape", "meta.properties", wrong, b"version=\\u00")
    yield _fixed("meta.properties: a number of a million digits", "meta.properties", wrong, b"broker.id=" + b"9" * MIB)
    yield _fixed("meta.properties: a MiB of names", "meta.properties", FINE,
                 b"".join(b"%d=\n" % number for number in range(MIB // 8)))  # fmt: skip
    for reader, verdict in (("clean shutdown", FINE), ("quorum-state", "checkpoint_invalid")):
        yield _fixed(f"{reader}: brackets", reader, verdict, b"[" * MIB)
        yield _fixed(f"{reader}: braces", reader, verdict, b'{"a":' * (MIB // 5))
        yield _fixed(f"{reader}: a number of a million digits", reader, verdict, b'{"version":' + b"9" * MIB + b"}")
        yield _fixed(f"{reader}: infinity", reader, verdict, b'{"version":1e999,"brokerEpoch":1,"data_version":1e999}')
    yield _fixed("quorum-state: a voter list of a MiB", "quorum-state", FINE, json.dumps({
        "clusterId": "", "leaderId": 1, "leaderEpoch": 1, "votedId": -1, "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}] * (MIB // 16), "data_version": 0}).encode())  # fmt: skip
    for total in (-(2**31), -1, 1, 2**31 - 1):
        yield _fixed(f"fetch result: length {total}", "fetch result", "error", struct.pack(">ih", total, 0))
    yield _fixed("fetch result: a MiB of empty parts", "multi fetch result", FINE,
                 struct.pack(">ih", 2 + MIB // 6 * 6, 0) + struct.pack(">ih", 2, 0) * (MIB // 6))  # fmt: skip
    yield _fixed("fetch result: a part past the end", "multi fetch result", "error",
                 struct.pack(">ihih", 8, 0, 2**31 - 1, 0))  # fmt: skip
    wrong = "control_record_invalid"
    yield _fixed("voters: count uint32 max", "voters", wrong, b"\0\0\xff\xff\xff\xff\x0f")
    yield _fixed("voters: count endless", "voters", wrong, b"\0\0" + ENDLESS)
    yield _fixed("voters: host of 4 GiB", "voters", wrong,
                 b"\0\0\x02" + bytes(20) + b"\x02\x02a" + b"\xff\xff\xff\xff\x0f" + bytes(30))  # fmt: skip
    yield _fixed("voters: tags uint32 max", "voters", wrong, b"\0\0\x01\xff\xff\xff\xff\x0f")
    yield _fixed("voters: tag of 4 GiB", "voters", wrong, b"\0\0\x01\x01\x00\xff\xff\xff\xff\x0f")
    yield Vector("voters: half a MiB of tags", "voters", FINE,
                 lambda: b"\0\0\x01" + b"\x80\x80\x10" + b"\0\0" * (1 << 18))  # fmt: skip


def vectors() -> list[Vector]:
    """All of them, names unique."""
    found = [*_sizes(), *_counts(), *_records(), *_messages(), *_compressed(), *_files()]
    assert len({vector.name for vector in found}) == len(found)
    return found
