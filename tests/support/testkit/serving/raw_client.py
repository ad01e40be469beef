"""A client of the protocol that says exactly what a test wants, one request at a time."""

from __future__ import annotations

import socket
import struct
from typing import Any, Self

from kafkalog.codec.messages.published import apis, newest
from kafkalog.server.apis import API_VERSIONS, Api, api

_SIZE = struct.Struct(">i")
KEYS = {name: key for key, name in apis().items()}


def kind_of(name: str) -> Api:
    found = api(KEYS[name])
    assert found is not None
    return found


def frame(name: str, version: int, body: dict[str, Any], correlation_id: int = 1) -> bytes:
    """A request with its size."""
    kind = kind_of(name)
    header = newest("RequestHeader").construct(2 if kind.is_flexible(version) else 1)
    fields = {"request_api_key": kind.key, "request_api_version": version, "correlation_id": correlation_id,
              "client_id": "raw"}  # fmt: skip
    data = bytes(header.build(fields)) + bytes(kind.request.construct(version).build(body))
    return _SIZE.pack(len(data)) + data


class RawClient:
    """One connection; a context manager."""

    def __init__(self, address: tuple[str, int], timeout: float = 20) -> None:
        self.address = address
        self.socket = socket.create_connection(address, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """The next response without its size; None where the server has closed the connection."""
        size = self._exactly(_SIZE.size)
        return None if size is None else self._exactly(_SIZE.unpack(size)[0])

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return data

    def ask(self, name: str, version: int, **body: Any) -> dict[str, Any]:
        """The fields of the answer to a request."""
        self.send(frame(name, version, body))
        data = self.receive()
        assert data is not None, "the connection was closed"
        return parsed(name, version, data)


def parsed(name: str, version: int, data: bytes) -> dict[str, Any]:
    kind = kind_of(name)
    header = 4 + (kind.is_flexible(version) and kind.key != API_VERSIONS)
    found: dict[str, Any] = kind.response.construct(version).parse(data[header:])
    return found


def fetching(topic: str, partitions: dict[int, int], *, version: int = 11, **other: Any) -> dict[str, Any]:
    """The body of a fetch: partition -> offset."""
    of = [{"partition": number, "fetch_offset": offset, "partition_max_bytes": other.pop("most", 1 << 20)}
          for number, offset in partitions.items()]  # fmt: skip
    name = "topic_id" if version >= 13 else "topic"
    body = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 22, "isolation_level": 0,
            "topics": [{name: topic, "partitions": of}] if of else []}  # fmt: skip
    return {**body, **other}
