"""A client that only counts fetched bytes: one connection, one partition, as much as there is, nothing decoded."""

from __future__ import annotations

import socket
import struct
from typing import Any

from kafkalog.codec.messages.published import newest

_FETCH, _LIST_OFFSETS = 1, 2
_FETCH_VERSION, _OFFSETS_VERSION = 11, 5
_BEFORE_RECORDS = struct.Struct(">i")


class CountingClient:
    """Fetches `topic`-0 from its first offset to its last; what it reads is thrown away as it comes."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self._socket = socket.create_connection(address)
        self._topic = topic
        self._buffer = bytearray(8 << 20)

    def _ask(self, key: int, version: int, name: str, body: dict[str, Any]) -> None:
        header = struct.pack(">hhih", key, version, 1, -1)
        data = header + newest(f"{name}Request").construct(version).build(body)
        self._socket.sendall(struct.pack(">i", len(data)) + data)

    def _answer(self) -> memoryview:
        view = memoryview(self._buffer)
        self._fill(view[:4])
        (size,) = struct.unpack_from(">i", view)
        self._fill(view[:size])
        return view[:size]

    def _fill(self, view: memoryview) -> None:
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise ConnectionError("the server has closed the connection")
            view = view[count:]

    def end(self) -> int:
        """The offset after the last record."""
        partition = {"partition_index": 0, "timestamp": -1}
        body = {"replica_id": -1, "topics": [{"name": self._topic, "partitions": [partition]}]}
        self._ask(_LIST_OFFSETS, _OFFSETS_VERSION, "ListOffsets", body)
        answer = newest("ListOffsetsResponse").construct(_OFFSETS_VERSION).parse(bytes(self._answer()[4:]))
        return int(answer["topics"][0]["partitions"][0]["offset"])

    def count(self, chunk: int, most: int = 1 << 62) -> tuple[int, int]:
        """Bytes of batches, and requests, from the first offset on; `chunk` bytes are asked for at a time."""
        end, offset, total, requests = self.end(), 0, 0, 0
        while offset < end and total < most:
            partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": chunk}
            body = {
                "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": chunk, "isolation_level": 0,
                "topics": [{"topic": self._topic, "partitions": [partition]}],
            }  # fmt: skip
            self._ask(_FETCH, _FETCH_VERSION, "Fetch", body)
            size, offset = self._batches(self._answer(), offset)
            total += size
            requests += 1
        return total, requests

    def _batches(self, answer: memoryview, offset: int) -> tuple[int, int]:
        """Bytes of whole batches, and the offset after the last of them."""
        # what is before the records, in version 11 with one partition and nothing aborted
        at = 4 + 4 + 2 + 4 + 4 + 2 + len(self._topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4
        (size,) = _BEFORE_RECORDS.unpack_from(answer, at)
        at += 4
        end = at + size
        done = 0
        while at + 61 <= end:
            base, length = struct.unpack_from(">qi", answer, at)
            if at + 12 + length > end:
                break
            offset = base + struct.unpack_from(">i", answer, at + 23)[0] + 1
            done += 12 + length
            at += 12 + length
        if done == 0:
            raise ValueError(f"nothing at offset {offset}")
        return done, offset

    def close(self) -> None:
        self._socket.close()
