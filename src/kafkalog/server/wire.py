"""Encoding of requests and responses: size, header, body.

A response with records is a list of parts to send, so records are never in memory here. The layouts are Kafka's schemas
(`RequestHeader`, `ResponseHeader`, `ApiKeys.requestHeaderVersion`).
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import msgspec
from construct import Construct, ConstructError, StreamError
from msgspec.structs import replace

from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.messages.leaves import Input, Output
from kafkalog.codec.messages.published import newest
from kafkalog.server.apis import API_VERSIONS, Api, api
from kafkalog.server.files import FileRange
from kafkalog.server.pacing import Pace, PacedInput, PacedOutput

__all__ = ["SIZE", "CrowdedError", "Fields", "Part", "Request", "RequestError", "encode_response", "parse_request"]

Fields = dict[str, Any]
Part = memoryview | FileRange

SIZE = Struct(">i")
_PREFIX = Struct(">hhi")
_FIRST_FLEXIBLE_HEADER = 2
_MOST_ELEMENTS = 100_000
"""Limit for array elements in one request. As objects they take many times their bytes."""
_ELEMENT_BYTES = 256
"""Bytes of text that count as one element, since text takes up to four times its bytes."""


class RequestError(Exception):
    """Bytes that are no valid request. The connection is closed."""


class CrowdedError(Exception):
    """No more parsed requests may wait. This one waits as bytes."""


class Request(msgspec.Struct, frozen=True):
    """A decoded request."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Fields
    unsupported: bool = False
    """an `ApiVersions` request of an unknown version; the body is not read"""
    weight: int = 0
    """size of the body as objects, in array elements"""
    pace: Pace | None = None
    """pace of the thread that answers, for a large request"""

    def bare(self) -> Request:
        """Return a copy without the body, which may be large."""
        return replace(self, body={}, weight=0, pace=None)


def _header(version: int) -> Construct:
    return newest("RequestHeader").construct(version)


def parse_request(data: bytes, pace: Pace | None = None) -> Request:
    """Parse the header and body of a request, whose size field was removed. Bytes after the body are ignored, as by a
    broker: librdkafka sends some with `Metadata`.

    With `pace`, parsing pauses from time to time. An `ApiVersions` request of an unknown version is returned with
    `unsupported` set and an empty body. Raises `RequestError` for an unknown kind or version of request, and if it is
    malformed or has too many elements.
    """
    if len(data) < _PREFIX.size:
        raise RequestError(f"a request of {len(data)} bytes")
    key, version, correlation_id = _PREFIX.unpack_from(data)
    kind = api(key)
    if kind is None:
        raise RequestError(f"a request of kind {key}, which Kafka 4 does not have")
    stream = Input(data) if pace is None else PacedInput(data, pace)
    stream.elements_left = _MOST_ELEMENTS
    try:
        if version not in kind.versions:
            if key == API_VERSIONS:
                return Request(kind, version, correlation_id, None, {}, unsupported=True)
            raise RequestError(f"{kind.name} in version {version}, which is not supported")
        flexible = kind.is_flexible(version)
        header = _header(_FIRST_FLEXIBLE_HEADER if flexible else 1).parse_stream(stream)
        body = kind.request.construct(version).parse_stream(stream)
    except (LayoutError, ConstructError, StreamError, ValueError) as error:
        raise RequestError(f"{kind.name} in version {version} cannot be read: {error}") from None
    weight = _MOST_ELEMENTS - stream.elements_left + len(data) // _ELEMENT_BYTES
    return Request(kind, version, correlation_id, header["client_id"], body, weight=weight, pace=pace)


def encode_response(request: Request, body: Fields, pace: Pace | None = None) -> list[Part]:
    """Encode a response. Return its parts in order, beginning with its size and header; a part is bytes in memory or,
    for records, a range of a log file. With `pace`, encoding pauses from time to time. The response to a request of an
    unsupported version is encoded in version 0.
    """
    version = 0 if request.unsupported else request.version
    flexible = request.api.is_flexible(version) and request.api.key != API_VERSIONS
    output = Output() if pace is None else PacedOutput(pace)
    output.write(SIZE.pack(0))
    newest("ResponseHeader").construct(int(flexible)).build_stream({"correlation_id": request.correlation_id}, output)
    request.api.response.construct(version).build_stream(body, output)
    data = output.getbuffer()
    parts: list[Part] = []
    begin = 0
    for position, hole in output.gaps:
        parts.append(data[begin:position])
        parts.append(hole)  # type: ignore[arg-type]
        begin = position
    parts.append(data[begin:])
    total = len(data) - SIZE.size + sum(hole.size for _, hole in output.gaps)
    SIZE.pack_into(data, 0, total)
    return parts
