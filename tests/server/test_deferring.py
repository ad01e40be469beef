"""What other threads answer: nothing is held for who has left, and no result longer than it is wanted."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

from kafkalog.server.answers import Change, Later
from kafkalog.server.connection import Connection
from kafkalog.server.deferring import Deferring
from kafkalog.server.wire import Request
from kafkalog.server.workers import Workers
from testkit.serving.raw_client import frame


def test_what_was_promised_for_who_has_left_is_forgotten() -> None:
    """A fetch that waits is counted; who leaves while it is computed is not there to be told of it."""
    begun, may_go_on, forgotten = threading.Event(), threading.Event(), threading.Event()

    def answer(_: Request) -> Later:
        begun.set()
        may_go_on.wait(20)
        return Later(lambda _: None, 60_000, Change.LOGS, forgotten.set)

    owner: Any = threading.Event()
    deferring = Deferring(lambda _: None, lambda _: None)
    connection: Connection = owner  # who has had how much time is all that is asked of it
    later = deferring.large(frame("Metadata", 9, {"topics": None})[4:], connection, answer)
    assert begun.wait(20)
    later.forget()
    assert not forgotten.is_set()
    may_go_on.set()
    assert forgotten.wait(20)
    deferring.stop()


class Result:
    """Of a task."""


def test_a_result_goes_with_its_promise() -> None:
    """Not when the collector comes by, which counts objects and not the bytes of answers."""
    workers = Workers(1)
    gc.disable()
    try:
        future = workers.submit(Result)
        result = weakref.ref(future.result(20))
        del future
        until = time.monotonic() + 20
        while result() is not None:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        gc.enable()
        workers.stop(1)


def test_what_comes_after_the_end_is_never_run() -> None:
    """Not even by a thread that was busy when the end came."""
    begun, may_go_on, ran = threading.Event(), threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        may_go_on.wait(20)

    workers = Workers(1)
    first = workers.submit(busy)
    assert begun.wait(20)
    workers.stop(0)
    workers.submit(ran.set)
    may_go_on.set()
    first.result(20)
    workers.stop(20)
    assert not ran.is_set()
