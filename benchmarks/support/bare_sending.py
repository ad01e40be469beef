"""A server that does nothing but send: what bounds every server of these files to this client.

It knows beforehand which range of the log answers which offset, reads nothing of a request but that, and sends the
range with one blocking `sendfile` after another.  Written for `CountingClient`, whose requests it can tell apart by
their size.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

from kafkalog.log import open_partition
from kafkalog.log.walk.header_walk import batch_spans

_OFFSET_FROM_END = 26
"""Bytes from a fetch's offset to its end, in version 11 with one partition: two offsets, bytes, no names behind."""


def ranges(directory: Path, chunk: int) -> tuple[dict[int, tuple[int, int, int]], int]:
    """Offset of a fetch -> file, position and size of its answer; and the log's end."""
    found: dict[int, tuple[int, int, int]] = {}
    end = 0
    for segment in open_partition(directory).segments:
        descriptor = os.open(segment.path, os.O_RDONLY)
        begin, offset, behind = 0, segment.base_offset, 0
        for span in batch_spans(segment):
            if span.end - begin > chunk:
                found[offset] = descriptor, begin, behind - begin
                begin, offset = span.start, span.first_offset
            behind, end = span.end, span.next_offset
        found[offset] = descriptor, begin, behind - begin
    return found, end


def answer(client: socket.socket, found: dict[int, tuple[int, int, int]], end: int, topic: bytes) -> bool:
    """One request, one response; False where the client has left."""
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return False
    request = client.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
    key, _, correlation = struct.unpack_from(">hhi", request)
    name = struct.pack(">h", len(topic)) + topic
    if key != 1:
        body = struct.pack(">iii", correlation, 0, 1) + name + struct.pack(">iihqqi", 1, 0, 0, -1, end, -1)
        client.sendall(struct.pack(">i", len(body)) + body)
        return True
    (offset,) = struct.unpack_from(">q", request, len(request) - _OFFSET_FROM_END)
    descriptor, position, size = found[offset]
    first = struct.pack(">iihii", correlation, 0, 0, 0, 1) + name
    rest = struct.pack(">iihqqqiii", 1, 0, 0, end, end, 0, -1, -1, size)
    client.sendall(struct.pack(">i", len(first) + len(rest) + size) + first + rest, socket.MSG_MORE)
    while size:
        sent = os.sendfile(client.fileno(), descriptor, position, size)
        position, size = position + sent, size - sent
    return True


def main() -> None:
    """Serve the partition in the directory that is given, with answers of so many bytes; prints the port."""
    directory, chunk, buffer = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    found, end = ranges(directory, chunk)
    topic = directory.name.rpartition("-")[0].encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if buffer:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
            with client:
                while answer(client, found, end, topic):
                    pass


if __name__ == "__main__":
    main()
