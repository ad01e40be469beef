"""Room for records that wait to be written."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kafkalog.producer.config import ProducerConfig
from kafkalog.producer.room import Room


def test_a_sender_that_waited_for_bytes_waits_for_the_number_of_records_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waits, others take the last place."""
    changed = threading.Condition()
    config = ProducerConfig(buffer_memory=10, queue_buffering_max_messages=2, queue_enqueue_timeout_ms=-1)
    room, done, waits = Room(config, changed), threading.Event(), list[object]()
    wait = room._wait

    def noted(seconds: float | None, may_wait: bool, is_room: Callable[[], bool]) -> bool:
        waits.append(is_room)
        changed.notify_all()
        return wait(seconds, may_wait, is_room)

    monkeypatch.setattr(room, "_wait", noted)

    def send() -> None:
        with changed:
            room.take(5, may_wait=True)
            done.set()
            changed.notify_all()

    with changed:
        room.take(10, may_wait=False)
    sender = threading.Thread(target=send)
    sender.start()
    with changed:
        assert changed.wait_for(lambda: room.wanted == 1, 60)
        room.give(10, 1)
        for _ in range(2):
            room.take(1, may_wait=False)
    with changed:
        assert changed.wait_for(lambda: len(waits) == 2 or done.is_set(), 60)
        assert not done.is_set()
        room.give(1, 1)
    sender.join(60)
    assert done.is_set()
