"""Zstandard frames as Kafka writes and reads them (`ZstdCompression`): streaming, without content size and checksum.
Python's bindings ignore output limits in some calls and truncation in others. So the frame structure is parsed first:
it shows that each frame is complete, and an upper bound of its content, before anything is decompressed.
"""

from __future__ import annotations

import threading
from io import BytesIO

import zstandard

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.common.limits import DEFAULT_LIMITS, KIB, MIB, Limits
from kafkalog.codec.compression._errors import bad_stream, check_size, too_large, window_too_large
from kafkalog.codec.compression._pieces import Pieces
from kafkalog.codec.layout.zstd_frame import (
    CONTENT_SIZES,
    DICTIONARY_ID_SIZES,
    LARGEST_BLOCK,
    SKIPPABLE_MAGIC,
    SMALLEST_WINDOW,
    ZSTD_BLOCK,
    ZSTD_BLOCK_BITS,
    ZSTD_CHECKSUM,
    ZSTD_HEADER,
    ZSTD_SKIPPABLE,
    ZSTD_SKIPPABLE_MAGIC,
    ZSTD_WINDOW,
    BlockType,
)

__all__ = ["HEADER", "WINDOW", "before_damage", "compress", "decompress", "most_bytes"]

HEADER = derive.fixed(ZSTD_HEADER, ("magic", "descriptor"), "<")
WINDOW, _CHECKSUM, _BLOCK_HEADER = ZSTD_WINDOW.sizeof(), ZSTD_CHECKSUM.sizeof(), ZSTD_BLOCK.sizeof()
_LARGEST_HEADER = HEADER.size + WINDOW + max(DICTIONARY_ID_SIZES.values()) + max(CONTENT_SIZES.values())
_SKIPPABLE = derive.fixed(ZSTD_SKIPPABLE, ("magic", "size"), "<")
_SKIPPABLE_MASK = ZSTD_SKIPPABLE_MAGIC.mask("magic")
_SKIPPABLE_MAGIC = ZSTD_SKIPPABLE_MAGIC.number({"magic": SKIPPABLE_MAGIC})
_TYPE, _SIZE = ZSTD_BLOCK_BITS.bit("type"), ZSTD_BLOCK_BITS.bit("size")
_TYPE_MASK, _IS_LAST = _TYPE.mask, ZSTD_BLOCK_BITS.mask("is_last")
_DEFAULT_LEVEL = 3
_STEP = 64 * KIB
"""Most bytes of output at once before damage."""
_ANY_WINDOW = Limits(zstd_window_bytes=2**62)
_READ = 128 * 1024 + 3
"""Bytes that zstd-jni reads at once (`ZSTD_DStreamInSize`)."""


class _Contexts(threading.local):
    """Decoders and encoder of one thread. They are kept because making one takes about as long as compressing a batch.
    Only the encoder of the default level is kept; those of high levels take hundreds of MiB.
    """

    def __init__(self) -> None:
        self.decoders: dict[int, zstandard.ZstdDecompressor] = {}
        self.encoder: zstandard.ZstdCompressor | None = None


_contexts = _Contexts()


def _decoder(window_bytes: int) -> zstandard.ZstdDecompressor:
    if window_bytes not in _contexts.decoders:
        _contexts.decoders = {window_bytes: zstandard.ZstdDecompressor(max_window_size=window_bytes)}
    return _contexts.decoders[window_bytes]


def _new_encoder(level: int) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, write_content_size=False, write_checksum=False)


def _encoder(level: int | None) -> zstandard.ZstdCompressor:
    if level is not None and level != _DEFAULT_LEVEL:
        return _new_encoder(level)
    if _contexts.encoder is None:
        _contexts.encoder = _new_encoder(_DEFAULT_LEVEL)
    return _contexts.encoder


def _is_skippable(data: bytes | memoryview, start: int) -> bool:
    magic = int.from_bytes(data[start : start + _SKIPPABLE.end("magic")], "little")
    return magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC


def _skippable_end(data: bytes | memoryview, start: int) -> int:
    if len(data) >= start + _SKIPPABLE.size:
        _, size = _SKIPPABLE.struct.unpack_from(data, start)
        end: int = start + _SKIPPABLE.size + size
        if end <= len(data):
            return end
    raise bad_stream("zstd", "it ends inside a skippable frame")


def _frame_end(data: bytes | memoryview, start: int, limits: Limits) -> tuple[int, int]:
    """Return the position after the frame that begins at `start`, which must not be a skippable frame, and an upper
    bound of its content in bytes. Only the headers of the frame and of its blocks are examined; nothing is
    decompressed. Raises `FormatError` for an invalid or incomplete frame, `LimitExceeded` for a window larger than
    `limits.zstd_window_bytes`.
    """
    try:
        header = bytes(data[start : start + _LARGEST_HEADER])
        parameters = zstandard.get_frame_parameters(header)
        position = start + zstandard.frame_header_size(header)
    except zstandard.ZstdError as error:
        raise bad_stream("zstd", error) from None
    if parameters.window_size > limits.zstd_window_bytes:
        raise window_too_large(parameters.window_size, limits)
    block_max = min(LARGEST_BLOCK, max(parameters.window_size, SMALLEST_WINDOW))
    bound = 0
    while True:
        if position + _BLOCK_HEADER > len(data):
            raise bad_stream("zstd", "it ends early")
        word = int.from_bytes(data[position : position + _BLOCK_HEADER], "little")
        kind, size = (word & _TYPE_MASK) >> _TYPE.lowest, word >> _SIZE.lowest
        if kind == BlockType.RESERVED:
            raise bad_stream("zstd", "a block of a reserved type")
        bound += block_max if kind == BlockType.COMPRESSED else size
        position += _BLOCK_HEADER + (1 if kind == BlockType.RLE else size)
        if word & _IS_LAST:
            break
    position += _CHECKSUM if parameters.has_checksum else 0
    if position > len(data):
        raise bad_stream("zstd", "it ends early")
    return position, bound


def decompress(data: bytes | memoryview, limits: Limits = DEFAULT_LIMITS, *, magic: int = 2) -> bytes | memoryview:
    """Decompress all frames of the stream; return their contents as one. Skippable frames add nothing, and `magic` is
    ignored. An incomplete last frame is accepted in one case, as zstd-jni does. It begins behind another frame, and
    `data` ends in the block of `_READ` bytes in which that other frame ends. The incomplete frame is decompressed as
    far as possible. Raises `FormatError` for any other incomplete frame, a damaged frame and an empty stream. Raises
    `LimitExceeded` for a result or window that is too large.
    """
    if len(data) == 0:
        raise bad_stream("zstd", "it is empty")
    parts = Pieces()
    used = position = 0
    decoder = _decoder(limits.zstd_window_bytes)
    while position < len(data):
        try:
            if _is_skippable(data, position):
                position = _skippable_end(data, position)
                continue
            end, bound = _frame_end(data, position, limits)
        except LimitExceeded:
            raise
        except FormatError:
            if position == 0 or (len(data) - 1) // _READ != (position - 1) // _READ:
                raise
            parts.append(_unfinished(decoder, data[position:], limits.decompressed_batch_bytes - used, limits))
            break
        part = _decompress_frame(decoder, data[position:end], bound, limits.decompressed_batch_bytes - used, limits)
        used += len(part)
        check_size("zstd", used, limits)
        parts.append(part)
        position = end
    return parts.joined()


def most_bytes(data: bytes | memoryview) -> int | None:
    """Return an upper bound of the decompressed size: the sum of the largest possible sizes of all blocks in bytes.
    None if a frame is damaged or incomplete. Nothing is decompressed.
    """
    total = position = 0
    try:
        while position < len(data):
            if _is_skippable(data, position):
                position = _skippable_end(data, position)
                continue
            position, bound = _frame_end(data, position, _ANY_WINDOW)
            total += bound
    except FormatError:
        return None
    return total


def _unfinished(decoder: zstandard.ZstdDecompressor, frame: bytes | memoryview, budget: int, limits: Limits) -> bytes:
    """Decompress an incomplete frame after a whole one, as far as possible. The caller has checked that zstd-jni would
    accept it as the end of the stream. Raises `FormatError` if the frame is damaged, `LimitExceeded` if it has more
    than `budget` bytes decompressed.
    """
    try:
        with decoder.stream_reader(frame) as reader:
            part: bytes = reader.read(budget + 1)
    except zstandard.ZstdError as error:
        raise bad_stream("zstd", error) from None
    if len(part) > budget:
        raise too_large("zstd", limits)
    return part


def _decompress_frame(
    decoder: zstandard.ZstdDecompressor, frame: bytes | memoryview, bound: int, budget: int, limits: Limits
) -> bytes | memoryview:
    parts = Pieces()
    try:
        if bound <= min(budget, MIB):
            return decoder.decompressobj().decompress(frame)
        with decoder.stream_reader(frame) as reader:
            while part := reader.read(min(budget + 1 - parts.size, MIB)):
                parts.append(part)
                if parts.size > budget:
                    raise too_large("zstd", limits)
    except zstandard.ZstdError as error:
        raise bad_stream("zstd", error) from None
    return parts.joined()


def compress(data: bytes | memoryview, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress to one frame without content size and checksum, in the streaming form that Kafka's producer writes. The
    stream is flushed before it is closed, so an empty last block follows the data. `level` None is the default level;
    `magic` is ignored.
    """
    encoder = _encoder(level).compressobj()
    written = encoder.compress(bytes(data))
    return written + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + encoder.flush()


def before_damage(data: bytes, limits: Limits) -> bytes:
    """Decompress a damaged stream, frame by frame, up to the damage. Return at most `limits.decompressed_batch_bytes`
    bytes, perhaps none. Damage raises no exception.
    """
    out = bytearray()
    for step in (_STEP, 1):  # after a failure, start again, skip the bytes decoded so far, and read byte by byte
        decoder = zstandard.ZstdDecompressor(max_window_size=limits.zstd_window_bytes)
        try:
            with decoder.stream_reader(BytesIO(data), read_size=KIB) as reader:
                passed = 0
                while passed < len(out) and (part := reader.read(min(_STEP, len(out) - passed))):
                    passed += len(part)
                while len(out) < limits.decompressed_batch_bytes:
                    part = reader.read(min(step, limits.decompressed_batch_bytes - len(out)))
                    if not part:
                        return bytes(out)
                    out += part
                return bytes(out)
        except zstandard.ZstdError:
            continue
    return bytes(out)
