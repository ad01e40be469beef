"""Answer requests in other threads, and make the promises that the serving threads poll.

A parsed request takes many times its bytes. So large requests are parsed and answered one at a time, by a thread that
pauses in between. Of the other requests waiting for a thread only a limited number of elements is held, and further
ones wait as bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.log.walk.sliced import Sliced, run_slices
from kafkalog.server.answers import Answer, Change, Later, NoAnswer, Polled, Resolved
from kafkalog.server.connection import Connection
from kafkalog.server.error_codes import Code
from kafkalog.server.handlers.refusals import refusal
from kafkalog.server.memory import Budget
from kafkalog.server.pacing import Pace
from kafkalog.server.served_log import ServedLog
from kafkalog.server.wire import CrowdedError, Fields, Request, RequestError, encode_response, parse_request
from kafkalog.server.workers import Workers, finished

__all__ = ["Deferring"]

_WORKERS = 4
"""Number of workers for walks, some of which do not run in slices."""
_MOST_WAITING = 50_000
"""Limit for the elements of all parsed requests that wait for a thread."""
_FEW = 100
"""A request with no more elements than this may always wait."""
_PATIENCE_S = 0.5
"""How long to wait for each worker at the end. Workers leave nothing unfinished on disk."""
_SLOW_MS = 120_000
"""Time until the client gets an error. Its own timeout is shorter."""


class Deferring:
    """Runs requests in worker threads. `changed` is called when a result is ready, `complain` with error messages."""

    def __init__(self, changed: Callable[[Change], None], complain: Callable[[str], None]) -> None:
        self._changed = changed
        self._complain = complain
        self._workers = Workers(_WORKERS)
        self._computing = Workers(1, "large")
        """for large requests: one at a time, with pauses, so that only one is in memory as objects"""
        self._waiting = Budget(_MOST_WAITING)
        self._walking: set[int] = set()
        self._stopping = threading.Event()

    def large(self, data: bytes, connection: Connection, answer: Callable[[Request], Answer]) -> Later:
        """Parse and answer a large request in the thread for large requests; return a promise of the response. `data`
        is the request without its size field. `answer` is called in that thread with the parsed request. If the request
        cannot be parsed or answered, or not within two minutes, polling the promise raises `RequestError`, which closes
        the connection.
        """

        def resolve() -> Resolved:
            request = parse_request(data, Pace())
            return _resolved(request, answer(request))

        return self._promised(self._computing.submit(resolve, connection))

    def computed(self, request: Request, connection: Connection, answer: Callable[[], Answer]) -> Later:
        """Compute a response in the thread for large requests; return a promise of it. `answer` is called in that
        thread. Raises `CrowdedError` if too many requests wait.
        """
        return self._submitted(self._computing, request, connection, lambda: _resolved(request, answer()))

    def slowly(
        self, request: Request, connection: Connection, answer: Callable[[Request], Fields | Sliced[Fields]]
    ) -> Answer:
        """Call `answer` with the request in a worker thread; return a promise of the response. `answer` may return a
        generator that computes the response in slices.

        Raises `CrowdedError` if the waiting requests already have too many elements; a request of up to 100 elements
        may always wait. In the thread for large requests (`request.pace` is set), the request is then answered at once
        instead: `answer` is called in the calling thread.
        """

        def work() -> Sliced[Resolved]:
            return _resolved(request, (yield from finished(answer(request))))

        try:
            return self._submitted(self._workers, request, connection, work)
        except CrowdedError:
            if request.pace is None:
                raise
            return run_slices(finished(answer(request)))

    def _submitted(self, workers: Workers, request: Request, connection: Connection, work: Callable[[], Any]) -> Later:
        held = self._waiting.take(request.weight if request.weight > _FEW else 0)
        if held is None:
            raise CrowdedError
        future = workers.submit(work, connection)
        future.add_done_callback(lambda _: held.release())
        return self._promised(future, request)

    def _promised(self, future: Future[Resolved], request: Request | None = None) -> Later:
        """Return a promise for the result of `future`. It is polled when a worker finishes, and ends after two minutes.
        If the client leaves, work that has not begun is cancelled, and the result of any other is dropped.

        If the work raises a `KafkaLogError` or `OSError`, it is passed to `complain`, and the response has
        KAFKA_STORAGE_ERROR. If it is not done in two minutes, the response has UNKNOWN_SERVER_ERROR. If `request` is
        None, because it was not parsed yet, there is no response and `complain` is not called: polling raises
        `RequestError` in both cases.
        """
        future.add_done_callback(lambda _: self._changed(Change.WORK))

        def poll(is_over: bool) -> Polled:
            if future.done():
                try:
                    return future.result()
                except (KafkaLogError, OSError) as error:
                    if request is None:
                        raise RequestError(str(error)) from None
                    self._complain(f"{request.api.name}: {error}")
                    return refusal(request, Code.KAFKA_STORAGE_ERROR)
            if is_over and request is None:
                raise RequestError("a large request for which there was no time")
            return refusal(request, Code.UNKNOWN_SERVER_ERROR) if is_over and request is not None else None

        return Later(poll, _SLOW_MS, Change.WORK, lambda: _give_up(future))

    def walk(self, log: ServedLog, looking: Sliced[object]) -> None:
        """Run the generator `looking`, which searches `log`, in a worker thread. Announce a change of logs when it
        ends. Do nothing if a search of this log is already running. If it raises `KafkaLogError` or `OSError`, the
        error is reported, and a new search of the log cannot begin for a second.
        """
        if id(log) in self._walking:
            return
        self._walking.add(id(log))

        def walk() -> Sliced[None]:
            try:
                yield from looking
            except (KafkaLogError, OSError) as error:
                self._complain(str(error))
                self._stopping.wait(1)
            finally:
                self._walking.discard(id(log))
                self._changed(Change.LOGS)

        self._workers.submit(walk, log)

    def stop(self) -> None:
        """End every thread."""
        self._stopping.set()
        for workers in (self._computing, self._workers):
            workers.stop(_PATIENCE_S)


def _give_up(future: Future[Resolved]) -> None:
    """Cancel a result that nobody waits for, and any promise it contains."""
    future.cancel()
    future.add_done_callback(_forget)


def _forget(future: Future[Resolved]) -> None:
    if future.cancelled() or future.exception() is not None:
        return
    resolved = future.result()
    if resolved is not None and isinstance(resolved.answer, Later):  # None is what was given up on the way
        resolved.answer.forget()


def _resolved(request: Request, answer: Answer) -> Resolved:
    """Encode the response if there is one already."""
    if isinstance(answer, Later | NoAnswer):
        return Resolved(request.bare(), answer)
    return Resolved(request.bare(), encode_response(request, answer, request.pace or Pace()))
