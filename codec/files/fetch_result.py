"""Decode and encode the fetch results of Kafka's early implementation notes: `MessageSetSend` and
`MultiMessageSetSend`. The length at the start counts the error code and everything after it, but not itself. The
messages stay plain bytes here: entries that `scan` reads, of which the last may be incomplete.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkalog.codec import derive
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.layout import fetch_result

__all__ = [
    "ErrorCode",
    "MessageSetSend",
    "decode_message_set_send",
    "decode_multi_message_set_send",
    "encode_message_set_send",
    "encode_multi_message_set_send",
]

Bytes = bytes | memoryview

_SINGLE = derive.fixed(fetch_result.MESSAGE_SET_SEND, ("total_length", "error_code"))
_MULTI = derive.fixed(fetch_result.MULTI_MESSAGE_SET_SEND, ("total_length", "error_code"))


class ErrorCode(enum.IntEnum):
    """Error codes of a fetch result (`kafka.common.ErrorMapping`). Codes up to 4 exist since 0.7; all are named as in
    0.8.
    """

    UNKNOWN = -1
    NO_ERROR = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    """`WrongPartition` in 0.7"""
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_FOR_PARTITION = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_SIZE_TOO_LARGE = 10


@dataclass(frozen=True, slots=True)
class MessageSetSend:
    """Result for one partition: an error code (0 none) and the bytes of a message set."""

    error_code: int
    messages: Bytes = field(repr=False)

    def __reduce__(self) -> tuple[type[MessageSetSend], tuple[int, bytes]]:
        return MessageSetSend, (self.error_code, bytes(self.messages))  # a view cannot leave its process


def _head(layout: derive.FixedLayout, data: Bytes, position: int) -> tuple[int, int]:
    """Read the header of the structure that begins at `position`; return its error code and the position after the
    whole structure. Raises `FormatError` if the header is incomplete, or if the total length is too small for the
    header or exceeds the bytes left.
    """
    if len(data) - position < layout.size:
        raise FormatError("a fetch result ends inside its header", position=position)
    total, error_code = layout.struct.unpack_from(data, position)
    body = position + layout.end("total_length")
    if not layout.size - layout.end("total_length") <= total <= len(data) - body:
        raise FormatError(
            f"a total length of {total} with {len(data) - body} bytes left", position=position, field="total_length"
        )
    return error_code, body + total


def _pack(layout: derive.FixedLayout, error_code: int, body: bytes) -> bytes:
    try:
        return layout.struct.pack(layout.size - layout.end("total_length") + len(body), error_code) + body
    except struct.error as error:
        raise UsageError(f"a fetch result cannot hold this: {error}") from None


def _single(data: Bytes, position: int) -> tuple[MessageSetSend, int]:
    error_code, end = _head(_SINGLE, data, position)
    return MessageSetSend(error_code, data[position + _SINGLE.size : end]), end


def decode_message_set_send(data: Bytes) -> MessageSetSend:
    """Decode one fetch result that fills all of `data`. Raises `FormatError` for an incomplete header, an impossible
    length, and bytes after the result.
    """
    send, end = _single(data, 0)
    if end != len(data):
        raise FormatError(f"{len(data) - end} bytes after a fetch result", position=end)
    return send


def encode_message_set_send(send: MessageSetSend) -> bytes:
    """Encode one fetch result. Raises `UsageError` if the error code does not fit."""
    return _pack(_SINGLE, send.error_code, bytes(send.messages))


def decode_multi_message_set_send(data: Bytes) -> tuple[int, list[MessageSetSend]]:
    """Decode a multi-fetch result that fills all of `data`; return its error code and the results of its partitions in
    order. Raises `FormatError` for an incomplete header, an impossible length, and bytes after the result.
    """
    error_code, end = _head(_MULTI, data, 0)
    if end != len(data):
        raise FormatError(f"{len(data) - end} bytes after a multi-fetch result", position=end)
    sends: list[MessageSetSend] = []
    position = _MULTI.size
    while position < end:
        send, position = _single(data, position)
        sends.append(send)
    return error_code, sends


def encode_multi_message_set_send(sends: Sequence[MessageSetSend], *, error_code: int = 0) -> bytes:
    """Encode a multi-fetch result. Raises `UsageError` if an error code does not fit."""
    return _pack(_MULTI, error_code, b"".join(encode_message_set_send(send) for send in sends))
