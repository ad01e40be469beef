"""The sockets: one thread that accepts, a few that serve, each a number of connections (Kafka's `SocketServer`).

No thread ever waits for a client: what cannot go on is left until the system says that it can, and a promise until
something has changed or its time is over.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kafkalog.codec.errors import StorageError
from kafkalog.server.answers import Answer, Change, Later, NoAnswer
from kafkalog.server.connection import NOTHING, READ, WRITE, Connection, ConnectionClosedError, Want
from kafkalog.server.wire import Fields, Request, RequestError, encode_response, parse_request

__all__ = ["Handler", "Network", "NetworkLimits"]

_BACKLOG = 256
_TICK_S = 1.0
_SEND_BUFFER_BYTES = 1 << 18
"""What is on its way to a client fits into a processor's cache.  With more, a client that only counts bytes is served
15 % faster, and one that decodes them takes up to half more processor time."""
_REQUESTS_IN_A_ROW = 64
"""Of one client, before others have their turn."""
_UNREMARKABLE_BYTES = 1 << 16
"""A connection that holds no more is not looked at."""


_WHY_NOT = {
    errno.EADDRINUSE: "another program does, so the port is in use; port 0 is any that is free",
    errno.EADDRNOTAVAIL: "this machine does not have the address",
    errno.EACCES: "this port is for the administrator alone",
}


class Handler(Protocol):
    """Who answers requests."""

    def __call__(self, request: Request, connection: Connection) -> Answer:
        """The answer; raises `RequestError` where the connection is to be closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """What clients may take."""

    request_bytes: int = 8 << 20
    """in one request"""
    first_bytes: int | None = None
    """in one request of a client that has not said yet who it is; as many without it"""
    connections: int = 1000
    request_seconds: float = 30
    """from the first byte of a request to its last"""
    send_seconds: float = 60
    """without taking anything of a response"""
    idle_seconds: float = 600
    """without a request (`connections.max.idle.ms`)"""
    held_bytes: int = 128 << 20
    """of requests that are coming and responses that are not taken, for each processor; who holds most then goes"""


class _Processor(threading.Thread):
    """Serves connections until it is told to stop."""

    def __init__(self, number: int, handler: Handler, limits: NetworkLimits, gone: Callable[[Connection], None],
                 complain: Callable[[str], None]) -> None:  # fmt: skip
        super().__init__(name=f"kafkalog-server-{number}", daemon=True)
        self._handler = handler
        self._limits = limits
        self._gone = gone
        self._complain = complain
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, None)
        self._arriving: deque[Connection] = deque()
        self._leaving: deque[Connection] = deque()
        self._wanted: dict[Connection, Want] = {}
        self._promises: list[tuple[float, int, Connection, Later]] = []
        self._numbers = itertools.count()
        self._changes: deque[Change] = deque()
        self._again: set[Connection] = set()
        """with TLS more may be in memory already, of which no system tells"""
        self._stopping = False
        self._next_tick = time.monotonic() + _TICK_S

    def adopt(self, connection: Connection) -> None:
        """Serve another connection; for other threads, as the next three."""
        self._arriving.append(connection)
        self._wake()

    def drop(self, connection: Connection) -> None:
        """Close one of its connections."""
        self._leaving.append(connection)
        self._wake()

    def changed(self, what: Change) -> None:
        """Look again at the promises that wait for this."""
        self._changes.append(what)
        self._wake()

    def stop(self) -> None:
        """End, closing all connections."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        try:
            self._wake_in.send(b"\0")
        except OSError:  # it is awake, or has ended
            return

    def run(self) -> None:
        """Until `stop`."""
        while not self._stopping:
            for key, _ in self._selector.select(self._timeout()):
                if key.data is None:
                    self._drain()
                else:
                    self._guarded(key.data, self._ready)
            again, self._again = self._again, set()
            for connection in again:
                self._guarded(connection, self._ready)
            while self._arriving:
                self._guarded(self._arriving.popleft(), self._arrive)
            while self._leaving:
                self._close(self._leaving.popleft())
            self._keep_promises()
            if time.monotonic() >= self._next_tick:
                self._tick()
        for connection in [*self._wanted, *self._arriving]:
            self._close(connection)
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def _drain(self) -> None:
        try:
            while self._wake_out.recv(4096):
                pass
        except BlockingIOError:
            return

    def _timeout(self) -> float:
        if self._again:
            return 0.0
        until = self._next_tick
        if self._promises:
            until = min(until, self._promises[0][0])
        return max(0.0, until - time.monotonic())

    def _guarded(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """One client's trouble is nobody else's."""
        try:
            act(connection)
        except (ConnectionClosedError, RequestError) as error:
            if str(error):
                self._complain(f"{connection.peer}: {error}")
            self._close(connection)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the thread
            self._complain(f"{connection.peer}: unexpected {type(error).__name__}: {error}")
            self._close(connection)

    def _arrive(self, connection: Connection) -> None:
        self._wanted[connection] = NOTHING
        self._go_on(connection)

    def _ready(self, connection: Connection) -> None:
        if connection not in self._wanted:
            return
        if connection.later is not None:
            if connection.is_gone():
                raise ConnectionClosedError("")
            self._want(connection, NOTHING)  # it has sent the next request already: that waits
            return
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """As far as it goes."""
        want = connection.handshake()
        for _ in range(_REQUESTS_IN_A_ROW):
            if want is not None:
                break
            if connection.is_sending:
                if not connection.write():
                    want = WRITE
                    break
                if connection.closing:
                    raise ConnectionClosedError("")
            data = connection.read()
            if connection.held > _UNREMARKABLE_BYTES:
                self._bound(connection)
            if data is None:
                want = READ
                break
            self._handle(connection, parse_request(data))
            if connection.later is not None:
                want = READ  # to learn when the client leaves
        if want is None and connection.has_more:
            self._again.add(connection)
        self._want(connection, WRITE if want is None and connection.is_sending else want or READ)

    def _bound(self, present: Connection) -> None:
        """Where clients make this hold too much, those go that hold most."""
        held = {each: each.held for each in self._wanted}
        total = sum(held.values())
        if total <= self._limits.held_bytes:
            return
        for connection in sorted(held, key=lambda each: (-held[each], each.progress)):
            if total <= self._limits.held_bytes:
                return
            total -= held[connection]
            if connection is present:
                raise ConnectionClosedError("it holds more than any other client, and all together too much")
            self._complain(f"{connection.peer}: it holds more than any other client, and all together too much")
            self._close(connection)

    def _handle(self, connection: Connection, request: Request) -> None:
        answer = self._handler(request, connection)
        if isinstance(answer, NoAnswer):
            return
        if isinstance(answer, Later):
            connection.later = request, answer
            heapq.heappush(self._promises, (answer.deadline, next(self._numbers), connection, answer))
            if answer.milliseconds <= 0:
                self._changes.append(answer.awaits)
            return
        self._answer(connection, request, answer)

    def _answer(self, connection: Connection, request: Request, fields: Fields) -> None:
        connection.answer(encode_response(request, fields))
        if connection.held > _UNREMARKABLE_BYTES:
            self._bound(connection)

    def _keep_promises(self) -> None:
        now = time.monotonic()
        changed = Change(0)
        while self._changes:
            changed |= self._changes.popleft()
        if changed:
            waiting = [each for each in self._promises if self._waits(each[2], each[3])]
            self._promises = waiting
            heapq.heapify(self._promises)
            for _, _, connection, later in list(waiting):
                if not later.awaits & changed:
                    continue
                self._guarded(connection, partial(self._keep, later=later, is_over=False))
        while self._promises and self._promises[0][0] <= now:
            _, _, connection, later = heapq.heappop(self._promises)
            if self._waits(connection, later):
                self._guarded(connection, partial(self._keep, later=later, is_over=True))

    @staticmethod
    def _waits(connection: Connection, later: Later) -> bool:
        return connection.later is not None and connection.later[1] is later

    def _keep(self, connection: Connection, *, later: Later, is_over: bool) -> None:
        if connection.later is None or connection.later[1] is not later:
            return
        fields = later.poll(is_over)
        if fields is None:
            return
        request, _ = connection.later
        connection.later = None
        self._answer(connection, request, fields)
        self._go_on(connection)

    def _want(self, connection: Connection, want: Want) -> None:
        before = self._wanted[connection]
        if want == before:
            return
        events = {READ: selectors.EVENT_READ, WRITE: selectors.EVENT_WRITE}.get(want, 0)
        if before == NOTHING:
            self._selector.register(connection.socket, events, connection)
        elif want == NOTHING:
            self._selector.unregister(connection.socket)
        else:
            self._selector.modify(connection.socket, events, connection)
        self._wanted[connection] = want

    def _tick(self) -> None:
        """Close what makes no progress."""
        now = time.monotonic()
        self._next_tick = now + _TICK_S
        for connection in list(self._wanted):
            if connection.later is not None:
                if self._wanted[connection] == NOTHING and connection.is_gone():
                    self._close(connection)
                continue
            limit = self._limits.idle_seconds
            if connection.is_sending:
                limit = self._limits.send_seconds
            elif connection.is_reading:
                limit = self._limits.request_seconds
            if now - connection.progress > limit:
                self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._again.discard(connection)
        want = self._wanted.pop(connection, None)
        if want is not None and want != NOTHING:
            self._selector.unregister(connection.socket)
        connection.close()
        self._gone(connection)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        host.encode("idna")  # the socket would be left open
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except UnicodeError:
        number, reason = errno.EADDRNOTAVAIL, "that is not the name of a machine"
    except OSError as error:
        number = error.errno or errno.EIO
        reason = _WHY_NOT.get(number) or os.strerror(number)
        if number < 0:  # what look-ups of names give is below the system's own numbers
            number, reason = errno.EADDRNOTAVAIL, "no address is known for this name"
    raise StorageError(number, f"cannot listen there: {reason}", f"{host}:{port}")


class Network:
    """The acceptor and its processors; `address` is where it listens once it is made.  Raises `StorageError`."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        processors: int,
        limits: NetworkLimits,
        complain: Callable[[str], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = _listening(*address)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._limits = limits
        self._tls = tls
        self._complain = complain
        self._count = processors
        self._processors: list[_Processor] = []
        self._home: dict[Connection, _Processor] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._acceptor = threading.Thread(target=self._accept_all, name="kafkalog-server-acceptor", daemon=True)

    def start(self, handler: Handler) -> None:
        """Begin to accept."""
        for number in range(self._count):
            self._processors.append(_Processor(number, handler, self._limits, self._gone, self._complain))
        for each in self._processors:
            each.start()
        self._acceptor.start()

    @property
    def connection_count(self) -> int:
        """Connections that are open."""
        return len(self._home)

    def changed(self, what: Change) -> None:
        """Every promise that waits for this is looked at again."""
        for each in self._processors:
            each.changed(what)

    def stop(self) -> None:
        """Close everything, and wait for the threads."""
        self._stopping.set()
        if self._acceptor.is_alive():
            self._acceptor.join()
        self._listener.close()
        for each in self._processors:
            each.stop()
        for each in self._processors:
            each.join()

    def _gone(self, connection: Connection) -> None:
        with self._lock:
            self._home.pop(connection, None)

    def _accept_all(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        turn = itertools.cycle(self._processors)
        while not self._stopping.is_set():
            if not selector.select(0.2):
                continue
            try:
                sock, peer = self._listener.accept()
            except OSError:  # gone again, or no descriptor is left: the next one may come
                self._stopping.wait(0.01)
                continue
            connection = self._prepared(sock, f"{peer[0]}:{peer[1]}")
            if connection is not None:
                processor = next(turn)
                with self._lock:
                    self._home[connection] = processor
                processor.adopt(connection)
        selector.close()

    def _prepared(self, sock: socket.socket, peer: str) -> Connection | None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            if len(self._home) >= self._limits.connections and not self._make_room():
                sock.close()
                return None
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        except (OSError, ValueError):
            sock.close()
            return None
        most = self._limits.request_bytes
        return Connection(sock, peer, min(most, self._limits.first_bytes or most))

    def _make_room(self) -> bool:
        """Close the connection that has been there longest without ever having asked for anything."""
        with self._lock:
            silent = [each for each in self._home if each.requests == 0]
            oldest = min(silent, key=lambda each: each.opened, default=None)
            processor = None if oldest is None else self._home.pop(oldest)
        if oldest is None or processor is None:
            return False
        processor.drop(oldest)
        return True
