"""Requests and responses as bytes: a size, a header, a body; of a response with records, the parts to send.

Decided by `RequestHeader`, `ResponseHeader` and `ApiKeys.requestHeaderVersion`.  Layouts are Kafka's schemas; records
are never in memory here, a response has holes for them.
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
"""Array elements in one request, all together: as objects they take many times their bytes."""
_ELEMENT_BYTES = 256
"""Text takes up to four times its bytes, which makes so much of it as heavy as an element."""


class RequestError(Exception):
    """Bytes that are no request that can be answered: the connection is closed."""


class CrowdedError(Exception):
    """No more parsed requests may wait: this one is to wait as bytes."""


class Request(msgspec.Struct, frozen=True):
    """One request, decoded."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Fields
    unsupported: bool = False
    """an `ApiVersions` request of a version that is not known, whose body is not read"""
    weight: int = 0
    """of its body as objects, in array elements"""
    pace: Pace | None = None
    """of the thread that answers it, where it is a large one"""

    def bare(self) -> Request:
        """What is needed to answer it, without its body, which may be large."""
        return replace(self, body={}, weight=0, pace=None)


def _header(version: int) -> Construct:
    return newest("RequestHeader").construct(version)


def parse_request(data: bytes, pace: Pace | None = None) -> Request:
    """What the bytes after the size ask for; raises `RequestError`.  With `pace` it rests in between.

    Bytes behind the request are nobody's: librdkafka sends some with `Metadata`, and a broker does not look.
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
    """The parts of a response, its size first.  With `pace` it rests in between."""
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
