"""Partitions one after the other, or several at a time in processes of their own; and how far the work is.

Work on one topic-partition never needs another one, so each can go to a forked process, which sees the survey as it is
and sends back what it decided.  What goes wrong there is done again here, where it raises as it should.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from kafkalog.classes import expect_many
from kafkalog.codec.names import FileKind, parse_partition_directory

__all__ = ["Group", "OnProgress", "OnRead", "ProgressState", "Workers", "groups_of", "in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Group = tuple[str, ...]
"""directories of one topic-partition: the replica, its `-future` copy, those that are being deleted"""

_WATCH_SECONDS = 1.0
_WORTHWHILE_BYTES = 32 << 20
"""of logs: below, starting processes takes longer than the work"""
_BYTES_OF_A_PARTITION = 64 << 10
"""of logs that are read in the time which a partition takes even if it holds nothing"""
_OBJECTS = 1_000_000
"""New objects between two searches for garbage: with fewer, a tenth of the time of small partitions goes there."""
_TASK_BYTES = 8 << 20
_TASK_GROUPS = 32
"""What a process is given at once, at most: sending each small partition by itself takes time too."""


class ProgressState(Struct, frozen=True, kw_only=True):
    """How far a phase is; a log counts as done when it was read to its end, or when its partition is done."""

    phase: str
    partitions: int
    segments: int
    bytes: int
    partitions_done: int = 0
    segments_done: int = 0
    bytes_done: int = 0


OnProgress = Callable[[ProgressState], None]
OnRead = Callable[[int], None]
"""told of bytes of logs as they are read"""


def groups_of(directories: Sequence[str]) -> list[Group]:
    """Partition directories by topic-partition, in the order of their first."""
    found: dict[object, list[str]] = {}
    for directory in directories:
        name = parse_partition_directory(directory)
        found.setdefault(directory if name is None else (name.topic, name.partition), []).append(directory)
    return [tuple(each) for each in found.values()]


_work: Callable[[Group], Any] | None = None
"""what forked processes do: they inherit it"""


def _do(groups: Sequence[Group]) -> list[tuple[bool, Any]]:
    if _work is None:
        raise AssertionError(groups)
    found: list[tuple[bool, Any]] = []
    for group in groups:
        try:
            found.append((True, _work(group)))
        except Exception:  # noqa: BLE001 - it is done again where it can be raised
            found.append((False, None))
    return found


def _end_with(parent: int) -> None:
    """Let a forked process end when the one that forked it was killed: nothing else would ever wake it."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _begin(parent: int) -> None:
    """Begin as a forked process: an interrupt from the terminal ends it, without a word.

    What it was forked with is there to stay: to search that for garbage would copy all of it.  What it makes itself is
    searched seldom.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    expect_many()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _end_with(parent)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


class Workers:
    """`jobs` partitions at a time; `on_progress` is told of every step, in the calling process."""

    def __init__(self, jobs: int = 1, on_progress: OnProgress | None = None) -> None:
        self.jobs = jobs
        self._on_progress = on_progress
        self._sizes: dict[str, dict[str, int]] = {}
        self._read: dict[str, int] = {}
        self._partitions_done = self._segments_done = self._bytes_done = 0
        self._phase = ""
        self._segments = self._bytes = 0
        self._steps: list[int] = []

    def begin(self, phase: str, sizes: Mapping[str, int]) -> None:
        """Start counting again; `sizes` are those of all files by path."""
        self._phase = phase
        self._sizes = {}
        for path, size in sizes.items():
            directory, separator, name = path.partition("/")
            if separator and name.endswith(FileKind.LOG.value):
                self._sizes.setdefault(directory, {})[path] = size
        self._read = {}
        self._segments = sum(len(each) for each in self._sizes.values())
        self._bytes = sum(sum(each.values()) for each in self._sizes.values())
        self._partitions_done = self._segments_done = self._bytes_done = 0

    def begin_steps(self, phase: str, sizes: Sequence[int]) -> None:
        """Start counting steps, one for each of `sizes`, which are the bytes that each has to do with."""
        self._phase, self._sizes, self._read = phase, {}, {}
        self._segments, self._bytes = len(sizes), sum(sizes)
        self._partitions_done = self._segments_done = self._bytes_done = 0
        self._steps = list(reversed(sizes))
        self._tell()

    def step_done(self) -> None:
        """One step more is done."""
        self._segments_done += 1
        self._bytes_done += self._steps.pop() if self._steps else 0
        self._tell()

    def read(self, path: str, end: int) -> None:
        """A file was read up to a byte; what is read again does not count again."""
        if self._on_progress is None:
            return
        size = self._sizes.get(path.partition("/")[0], {}).get(path)
        before = self._read.get(path, 0)
        if size is None or end <= before:
            return
        self._read[path] = end
        self._bytes_done += end - before
        self._segments_done += end >= size > before
        self._tell()

    def done(self, directory: str) -> None:
        """A partition is done, with all its logs."""
        if self._on_progress is None:
            return
        for path, size in self._sizes.get(directory, {}).items():
            before = self._read.get(path, 0)
            self._bytes_done += size - before
            self._segments_done += before < size or size == 0
            self._read[path] = size
        self._partitions_done += 1
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is None:
            return
        self._on_progress(
            ProgressState(
                phase=self._phase,
                partitions=len(self._sizes),
                segments=self._segments,
                bytes=self._bytes,
                partitions_done=self._partitions_done,
                segments_done=self._segments_done,
                bytes_done=self._bytes_done,
            )
        )

    def is_worthwhile(self, groups: Sequence[Group]) -> bool:
        """Several processes would be faster than one."""
        if self.jobs < 2 or len(groups) < 2 or not hasattr(os, "fork"):
            return False
        return self._bytes + _BYTES_OF_A_PARTITION * len(groups) >= _WORTHWHILE_BYTES

    def each(self, groups: Sequence[Group], work: Callable[[Group], Result]) -> Iterator[Result]:
        """The results in the order of the groups."""
        if not self.is_worthwhile(groups):
            for group in groups:
                yield work(group)
                for directory in group:
                    self.done(directory)
            return
        yield from self._in_processes(groups, work)

    def _tasks(self, groups: Sequence[Group]) -> Iterator[list[Group]]:
        """The groups by what a process is given at once, in their order."""
        most = max(1, min(_TASK_GROUPS, len(groups) // (4 * self.jobs)))
        task: list[Group] = []
        size = 0
        for group in groups:
            task.append(group)
            size += sum(sum(self._sizes.get(directory, {}).values()) for directory in group)
            if len(task) == most or size >= _TASK_BYTES:
                yield task
                task, size = [], 0
        if task:
            yield task

    def _in_processes(self, groups: Sequence[Group], work: Callable[[Group], Result]) -> Iterator[Result]:
        import multiprocessing  # it takes a while to load, and small work does without
        from concurrent.futures import ProcessPoolExecutor

        global _work
        _work = work
        listener, self._on_progress = self._on_progress, None  # the forks tell nobody
        pool = ProcessPoolExecutor(
            min(self.jobs, len(groups)),
            mp_context=multiprocessing.get_context("fork"),
            initializer=_begin,
            initargs=(os.getpid(),),
        )
        try:
            tasks = list(self._tasks(groups))
            futures = [pool.submit(_do, task) for task in tasks]
            futures.reverse()
            self._on_progress = listener
            for task in tasks:
                try:
                    results = futures.pop().result()  # not kept: it may be all that a partition holds
                except Exception:  # noqa: BLE001 - a process that was killed, or a result that cannot be sent
                    results = [(False, None)] * len(task)
                for group, (is_done, result) in zip(task, results, strict=True):
                    yield result if is_done else work(group)
                    for directory in group:
                        self.done(directory)
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():  # what they do would be waited for
                process.terminate()
            raise
        finally:
            _work, self._on_progress = None, listener
            pool.shutdown(cancel_futures=True)


def in_order(
    items: Sequence[Item],
    work: Callable[[Item, OnRead | None], Result],
    *,
    size: Callable[[Item], int],
    jobs: int = 1,
    on_read: OnRead | None = None,
) -> Iterator[Result]:
    """What `work` makes of each item, in their order, `jobs` of them at a time; `size` is the bytes that it reads.

    `work` is given whom to tell of bytes as they are read: `on_read`, or nobody where another process reads them, and
    `on_read` is told when that is done.
    """
    groups: list[Group] = [(str(number),) for number in range(len(items))]
    workers = Workers(jobs)
    workers.begin("", {f"{number}/{FileKind.LOG}": size(item) for number, item in enumerate(items)})
    is_elsewhere = workers.is_worthwhile(groups)
    told = None if is_elsewhere else on_read
    for item, result in zip(items, workers.each(groups, lambda group: work(items[int(group[0])], told)), strict=True):
        if is_elsewhere and on_read is not None:
            on_read(size(item))
        yield result
