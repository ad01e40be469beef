"""A thread that serves a number of connections (Kafka's `Processor`).

It never waits for a client: a blocked connection is left until the system reports it ready, and a promise until
something changes or its time is over. Each client has its turn for a few milliseconds, and large requests are handled
elsewhere (`Handler.handle_large`).
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kafkalog.server.answers import Answer, Change, Later, NoAnswer, Resolved
from kafkalog.server.apis import API_VERSIONS, api
from kafkalog.server.connection import (
    NOTHING,
    READ,
    SMALL_REQUEST,
    WRITE,
    Connection,
    ConnectionClosedError,
    Want,
)
from kafkalog.server.limits import NetworkLimits
from kafkalog.server.memory import RequestMemory
from kafkalog.server.wire import CrowdedError, Part, Request, RequestError, encode_response, parse_request

__all__ = ["Handler", "Processor"]

_TICK_S = 1.0
_REQUESTS_IN_A_ROW = 64
"""Requests of one client before others have their turn."""
_IN_A_ROW_S = 0.01
"""Time for one client before others have their turn."""
_UNREMARKABLE_BYTES = 1 << 16
"""Connections that hold no more are ignored."""
_SAYS_NOTHING = "it did not say in time who it is"
_UNKNOWN = Request(api(API_VERSIONS), 0, 0, None, {})  # type: ignore[arg-type]
"""Stands for a request that another thread still has to parse."""


class Handler(Protocol):
    """The interface to the server that answers the requests of connections."""

    def handle(self, request: Request, connection: Connection) -> Answer:
        """Return the answer. Raises `CrowdedError`, and `RequestError` if the connection is to be closed."""

    def handle_large(self, data: bytes, connection: Connection) -> Later:
        """Return a promise for a request that is too large to be parsed here."""


class Processor(threading.Thread):
    """A thread that serves its connections until `stop` is called."""

    def __init__(self, number: int, count: int, handler: Handler, memory: RequestMemory, limits: NetworkLimits,
                 gone: Callable[[Connection], None], complain: Callable[[str], None]) -> None:  # fmt: skip
        super().__init__(name=f"kafkalog-server-{number}", daemon=True)
        self._handler = handler
        self._memory = memory
        self._limits = limits
        self._most_held = limits.response_memory // count
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
        self._due: deque[tuple[Connection, Later, bool]] = deque()
        """promises to poll, some in each round"""
        self._starved: deque[Connection] = deque()
        self._is_released = False
        self._again: set[Connection] = set()
        """TLS may have buffered data that polling the socket does not show"""
        self._stopping = False
        self._next_tick = time.monotonic() + _TICK_S

    def adopt(self, connection: Connection) -> None:
        """Serve another connection. For other threads, as the next four."""
        self._arriving.append(connection)
        self._wake()

    def drop(self, connection: Connection) -> None:
        """Close one of its connections."""
        self._leaving.append(connection)
        self._wake()

    def changed(self, what: Change) -> None:
        """Poll the promises that wait for `what`."""
        self._changes.append(what)
        self._wake()

    def released(self) -> None:
        """Note that there is memory for large requests again."""
        self._is_released = True
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
        """Serve connections until `stop` is called, then close them all. Runs in the processor's own thread.

        Errors of a connection close that connection and are reported; see `_guarded`.
        """
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
            self._feed()
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
        if self._again or self._due:
            return 0.0
        until = self._next_tick
        if self._promises:
            until = min(until, self._promises[0][0])
        return max(0.0, until - time.monotonic())

    def _guarded(self, connection: Connection, act: Callable[[Connection], None]) -> None:
        """Call `act` with a connection. If it raises an exception, the connection is closed and the exception is
        reported; the thread continues. A `ConnectionClosedError` or `RequestError` without a text is not reported: the
        client has left, or was answered.
        """
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
        """Continue with a connection as far as possible without blocking: handshake, send, read and handle requests.

        Stops after 64 requests or 10 ms, so that other connections have their turn, and registers what the connection
        waits for next. Raises `ConnectionClosedError` or `RequestError` if the connection must be closed.
        """
        want = connection.handshake()
        until = time.monotonic() + _IN_A_ROW_S
        for number in range(_REQUESTS_IN_A_ROW):
            if want is not None or (number and time.monotonic() > until):
                break
            if connection.is_sending:
                if not connection.write():
                    want = WRITE
                    break
                if connection.closing:
                    raise ConnectionClosedError("")
            data = connection.read()
            if data is None:
                if connection.is_starved:
                    self._starved.append(connection)
                want = NOTHING if connection.is_starved else READ
                break
            self._handle(connection, data)
            if connection.later is not None:
                want = READ  # to learn when the client leaves
        if want is None and connection.has_more:
            self._again.add(connection)
        if want is None:
            want = WRITE if connection.is_sending else READ
        self._want(connection, want)

    def _feed(self) -> None:
        """If memory was released, continue with the connections whose large requests wait for memory, in the order of
        their arrival. Stops at the first connection that still gets no memory; it stays first in the queue.
        """
        if not self._is_released:
            return
        self._is_released = False
        for _ in range(len(self._starved)):
            connection = self._starved.popleft()
            if connection not in self._wanted:
                continue
            self._guarded(connection, self._go_on)
            if connection.is_starved:
                self._starved.rotate(1)  # it is the next one still
                return

    def _bound(self, present: Connection) -> None:
        """Check how much memory the unsent responses of this thread's connections hold. If it is more than allowed,
        close and report the connections that hold the most, until the rest is within the limit. If `present`, the
        connection being served, is one of these, raise `ConnectionClosedError` instead of closing it.
        """
        held = {each: each.held for each in self._wanted}
        total = sum(held.values())
        if total <= self._most_held:
            return
        for connection in sorted(held, key=lambda each: (-held[each], each.progress)):
            if total <= self._most_held:
                return
            total -= held[connection]
            if connection is present:
                raise ConnectionClosedError("it holds more than any other client, and all together too much")
            self._complain(f"{connection.peer}: it holds more than any other client, and all together too much")
            self._close(connection)

    def _handle(self, connection: Connection, data: bytes) -> None:
        if len(data) > SMALL_REQUEST:
            self._take(connection, _UNKNOWN, self._handler.handle_large(data, connection))
            return
        request = parse_request(data)
        try:
            answer = self._handler.handle(request, connection)
        except CrowdedError:
            answer = self._handler.handle_large(data, connection)
        self._take(connection, request, answer)

    def _take(self, connection: Connection, request: Request, answer: Answer | list[Part]) -> Later | None:
        """Queue the answer of a request for sending and return None. If the answer is a promise, store it with the
        connection, schedule it and return it. A list of parts is an encoded response; other answers are encoded here.
        For `NoAnswer` nothing is sent. The memory of the request is released unless the answer is a promise.

        If the thread's connections hold too much unsent data, the largest are closed; raises `ConnectionClosedError` if
        this is one of them.
        """
        if isinstance(answer, Later):
            connection.later = request.bare(), answer
            heapq.heappush(self._promises, (answer.deadline, next(self._numbers), connection, answer))
            if answer.milliseconds <= 0:
                self._due.append((connection, answer, True))
            return answer
        connection.give_back()
        if isinstance(answer, NoAnswer):
            return None
        connection.answer(answer if isinstance(answer, list) else encode_response(request, answer))
        if connection.held > _UNREMARKABLE_BYTES:
            self._bound(connection)
        return None

    def _keep_promises(self) -> None:
        now = time.monotonic()
        changed = Change(0)
        while self._changes:
            changed |= self._changes.popleft()
        if changed:
            self._promises = [promise for promise in self._promises if self._waits(promise[2], promise[3])]
            heapq.heapify(self._promises)
            self._due.extend((each[2], each[3], False) for each in self._promises if each[3].awaits & changed)
        while self._promises and self._promises[0][0] <= now:
            _, _, connection, later = heapq.heappop(self._promises)
            self._due.append((connection, later, True))
        until = now + _IN_A_ROW_S
        while self._due and time.monotonic() < until:
            connection, later, is_over = self._due.popleft()
            if self._waits(connection, later):
                self._guarded(connection, partial(self._keep, later=later, is_over=is_over))

    @staticmethod
    def _waits(connection: Connection, later: Later) -> bool:
        return connection.later is not None and connection.later[1] is later

    def _keep(self, connection: Connection, *, later: Later, is_over: bool) -> None:
        if connection.later is None:
            return
        found = later.poll(is_over)
        if found is None:
            return
        request, _ = connection.later
        connection.later = None
        later.end()
        if isinstance(found, Resolved):
            promised = self._take(connection, found.request, found.answer)
        else:
            promised = self._take(connection, request, found)
        if promised is None:
            self._go_on(connection)
        else:  # what it waits for may have happened before
            self._due.append((connection, promised, False))

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
        """Close connections that made no progress within their time limit, and report why; an idle one is closed
        without a report. For the TLS handshake and authentication, the time counts from the start of the connection. A
        connection that waits for a promise has no time limit; if the selector does not watch that connection, it is
        closed once its client has left.
        """
        now = time.monotonic()
        self._next_tick = now + _TICK_S
        for connection in list(self._wanted):
            if connection.later is not None:
                if self._wanted[connection] == NOTHING and connection.is_gone():
                    self._close(connection)
                continue
            limit, why = self._patience(connection)
            if now - (connection.opened if why == _SAYS_NOTHING else connection.progress) > limit:
                if why:
                    self._complain(f"{connection.peer}: {why}")
                self._close(connection)

    def _patience(self, connection: Connection) -> tuple[float, str]:
        """Return the time limit in seconds for the current state of a connection, and the message if it is exceeded; ''
        for an idle connection. The first state that applies counts: TLS handshake or missing authentication, sending,
        waiting for memory, holding memory that others wait for, reading, idle.
        """
        limits = self._limits
        if connection.is_handshaking or (limits.first_bytes is not None and not connection.authenticated):
            return limits.authenticate_seconds, _SAYS_NOTHING
        if connection.is_sending:
            return limits.send_seconds, "nothing of its answer was taken"
        if connection.is_starved:
            return limits.send_seconds, "there was no memory for its large request"
        if connection.has_memory and self._memory.is_short:
            return limits.waiting_seconds, "its large request took too long while others waited for memory"
        if connection.is_reading:
            return limits.request_seconds, "its request took too long"
        return limits.idle_seconds, ""

    def _close(self, connection: Connection) -> None:
        self._again.discard(connection)
        want = self._wanted.pop(connection, None)
        if want is not None and want != NOTHING:
            self._selector.unregister(connection.socket)
        connection.close()
        self._gone(connection)
