"""The connection of a client, without blocking (Kafka's `KafkaChannel`, `NetworkReceive`, `Send`).

It reads one request and reads the next one after the response. Meanwhile further data waits in the socket buffer.
Memory is used only for the bytes received, whatever size a request declares.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable

from kafkalog.log.reading.sending import send_some
from kafkalog.server.answers import Later
from kafkalog.server.files import FileRange
from kafkalog.server.memory import RequestMemory
from kafkalog.server.wire import SIZE, Part, Request

__all__ = ["SMALL_REQUEST", "Connection", "ConnectionClosedError", "Want"]

SMALL_REQUEST = 1 << 14
"""Largest request that is read without admission and answered by the thread that has read it."""
_READ_BYTES = 1 << 16
_SEND_BYTES = 1 << 22
"""Most bytes sent to one client before others have their turn."""
_COPY_BYTES = 1 << 18
_MSG_MORE = getattr(socket, "MSG_MORE", 0)

READ, WRITE, NOTHING = 1, 2, 0
Want = int
"""What a connection waits for: to read, to write, or neither."""


_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "UNSUPPORTED_PROTOCOL", "HTTPS_PROXY_REQUEST")
"""OpenSSL's reasons if the first bytes are not TLS."""


class ConnectionClosedError(Exception):
    """The connection is over. The message says why, and is empty if the client closed it."""


class Connection:
    """A non-blocking socket and its state.

    `largest` is the limit for a request in bytes. `memory` admits requests that are not small. `mechanism` and
    `authenticated` are used by the request handlers.
    """

    def __init__(self, sock: socket.socket, peer: str, largest: int, memory: RequestMemory, host: str = "") -> None:
        self.socket = sock
        self.peer = peer
        self.host = host
        self.largest = largest
        self._memory = memory
        self._admitted = 0
        self.is_starved = False
        """whether the rest of a request waits for memory"""
        self._queued = 0
        self._received = bytearray()
        self._expected: int | None = None
        self._parts: deque[Part] = deque()
        self._tls = sock if isinstance(sock, ssl.SSLSocket) else None
        self._handshaking = self._tls is not None
        self.opened = self.progress = time.monotonic()
        self.requests = 0
        self.later: tuple[Request, Later] | None = None
        """the promise the client is waiting for"""
        self.authenticated = False
        self.user: str | None = None
        self.mechanism: str | None = None
        self.closing = False
        """whether to close after the current response"""

    @property
    def is_sending(self) -> bool:
        """Whether a response is being sent."""
        return bool(self._parts)

    @property
    def held(self) -> int:
        """Bytes in memory of a response that is not sent yet."""
        return self._queued

    @property
    def has_memory(self) -> bool:
        """Whether its current request was admitted as a large one."""
        return self._admitted > 0

    @property
    def is_idle(self) -> bool:
        """Whether no request or response is in progress."""
        return not (self.is_sending or self.is_reading or self.later is not None)

    @property
    def has_more(self) -> bool:
        """Whether TLS has buffered data that polling the socket does not show."""
        return self._tls is not None and self._tls.pending() > 0

    @property
    def is_handshaking(self) -> bool:
        """Whether the TLS handshake is not done."""
        return self._handshaking

    @property
    def is_reading(self) -> bool:
        """Whether a request or the TLS handshake is in progress."""
        return self._handshaking or bool(self._received) or self._expected is not None

    def handshake(self) -> Want | None:
        """Continue the TLS handshake without blocking. Return READ or WRITE if it must wait for the socket; None if it
        is done or TLS is not used. Raises `ConnectionClosedError` if it fails.
        """
        if not self._handshaking or self._tls is None:
            return None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        except (OSError, ValueError) as error:
            raise ConnectionClosedError(_why_no_tls(error)) from None
        self._handshaking = False
        return None

    def read(self) -> bytes | None:
        """Receive available data without blocking, and return the next request without its size field. Return None if
        the request is not complete yet. Return None also if a large request must wait for memory; `is_starved` is then
        set. Reserves memory for a large request, and adds 1 to `requests` for each complete one. Sets `progress` to the
        current time when a request begins or gets its memory.

        Raises `ConnectionClosedError` if the client closed the connection, if the socket fails, or if the size is not
        positive or larger than `largest`.
        """
        while True:
            if self._expected is None and len(self._received) >= SIZE.size:
                (size,) = SIZE.unpack_from(self._received)
                if not 0 < size <= self.largest:
                    raise ConnectionClosedError(f"a request of {size} bytes; at most {self.largest} are read")
                self._expected = size
                del self._received[: SIZE.size]
            if self._expected is not None and len(self._received) >= self._expected:
                data = bytes(self._received)
                self._received = bytearray()
                self._expected = None
                self.requests += 1
                return data
            wanted = SIZE.size if self._expected is None else self._expected
            if wanted > SMALL_REQUEST and not self._admitted:
                if len(self._received) >= SMALL_REQUEST and not self._admit(wanted):
                    return None
                wanted = wanted if self._admitted else SMALL_REQUEST
            piece = self._receive(min(wanted - len(self._received), _READ_BYTES))
            if piece is None:
                return None
            if not self._received and self._expected is None:
                self.progress = time.monotonic()  # from its first byte on a request has so much time
            self._received += piece

    def _admit(self, size: int) -> bool:
        self.is_starved = not self._memory.admit(size)
        if not self.is_starved:
            self._admitted = size
            self.progress = time.monotonic()  # what it waited for memory is not its own
        return not self.is_starved

    def give_back(self) -> None:
        """Release the memory of the request."""
        admitted, self._admitted = self._admitted, 0
        if admitted:
            self._memory.release(admitted)

    def _receive(self, most: int) -> bytes | None:
        try:
            piece = self.socket.recv(most)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError):
            return None
        except OSError:
            raise ConnectionClosedError("") from None
        if not piece:
            raise ConnectionClosedError("")
        return piece

    def is_gone(self) -> bool:
        """Return whether a client that waits for a response has closed the connection, or the socket has failed. Return
        False while unread data is left, and always for TLS. Does not block, and leaves the data in the socket.
        """
        if self._tls is not None:
            return False
        try:
            return self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def answer(self, parts: Iterable[Part]) -> None:
        """Queue a response."""
        self._parts.extend(parts)
        self._queued = sum(len(each) for each in self._parts if not isinstance(each, FileRange))
        self.progress = time.monotonic()

    def write(self) -> bool:
        """Send as much of the queued response as possible without blocking, about 4 MiB at most. Return whether nothing
        is left to send.

        Sent parts are removed from the queue, and `progress` is set to the current time. Raises `ConnectionClosedError`
        if the socket fails, or a log file cannot be read or became shorter.
        """
        left = _SEND_BYTES
        while self._parts and left > 0:
            part = self._parts.popleft()
            try:
                sent = self._send_range(part, left) if isinstance(part, FileRange) else self._send(part)
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError, InterruptedError):
                self._parts.appendleft(part)
                return False
            except OSError:
                raise ConnectionClosedError("") from None
            self.progress = time.monotonic()
            left -= sent
            if not isinstance(part, FileRange):
                self._queued -= sent
            rest = _without(part, sent)
            if rest is not None:
                self._parts.appendleft(rest)
        return not self._parts

    def _send(self, data: memoryview) -> int:
        if self._tls is not None:
            return self._tls.send(data)
        return self.socket.send(data, _MSG_MORE if self._parts else 0)

    def _send_range(self, part: FileRange, most: int) -> int:
        """Send bytes of a range of a log file without blocking, and return their number; 0 for an empty range.
        `sendfile` sends at most `most` bytes. For TLS, and for logs without a descriptor, at most 256 KiB are read into
        memory and sent instead, whatever `most` is.

        Raises `ConnectionClosedError` if the file became shorter. If the socket is not ready, raises `BlockingIOError`,
        or `ssl.SSLWantWriteError` or `SSLWantReadError` for TLS. Raises other `OSError`s of the socket or file.
        """
        if part.size == 0:
            return 0
        if self._tls is None and part.log.descriptor >= 0:
            sent = send_some(self.socket.fileno(), part.log.descriptor, part.position, min(part.size, most))
        else:
            data = part.log.read(part.position, min(part.size, _COPY_BYTES))
            sent = self.socket.send(data) if data else 0
        if sent == 0:
            raise ConnectionClosedError(f"{part.log.path} became shorter while it was sent")
        return sent

    def close(self) -> None:
        """Close the socket, cancel the promise that the client waits for, drop received and unsent data, and release
        the memory reserved for a large request.
        """
        later, self.later = self.later, None
        if later is not None:
            later[1].forget()
        self._parts.clear()
        self._received = bytearray()
        self.is_starved = False
        self.give_back()
        self.socket.close()


def _without(part: Part, sent: int) -> Part | None:
    size = part.size if isinstance(part, FileRange) else len(part)
    if sent >= size:
        return None
    if isinstance(part, FileRange):
        return FileRange(part.log, part.position + sent, size - sent)
    return part[sent:]


def _why_no_tls(error: OSError | ValueError) -> str:
    reason = getattr(error, "reason", None)
    if reason in _NOT_TLS:
        return "the client does not speak TLS, which is asked for here"
    if reason == "UNEXPECTED_EOF_WHILE_READING" or isinstance(error, ConnectionError):
        return "the client left before TLS had begun"
    return f"TLS: {reason.lower().replace('_', ' ') if isinstance(reason, str) else error}"
