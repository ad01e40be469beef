"""What a worker has loaded is set aside from the garbage collector once, after a task, and only in a worker."""

from __future__ import annotations

import gc

import pytest

from kafkalog.spark import worker_memory
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import full_schema, layout_of
from testkit.recorded.broker_dirs import brokers


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(worker_memory, "_done", False)
    return calls


def read_all() -> int:
    options = parse_options({"path": str(brokers("4.1.1/codecs")[0])})
    reader = LogReader(options, layout_of(full_schema(options), options))
    return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))


def test_the_first_task_of_a_worker_sets_aside_what_is_not_garbage(
    called: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.spark.worker_memory.TaskContext.get", lambda: "a task")
    rows = read_all()
    assert rows > 0
    assert called == ["collect", "freeze"]
    assert read_all() == rows
    assert called == ["collect", "freeze"]


def test_nothing_happens_outside_of_a_worker(called: list[str]) -> None:
    assert read_all() > 0
    assert called == []
