"""Process partitions one after another, or several at once in forked processes, and report progress. Topic-partitions
do not depend on each other. A forked process inherits the survey and sends its result back. If work fails in a forked
process, it is repeated in this process, where its error can be raised.
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

from kafkalog.codec.names import FileKind, parse_partition_directory

__all__ = ["Group", "OnProgress", "OnRead", "ProgressState", "Workers", "groups_of", "in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Group = tuple[str, ...]
"""Directories of one topic-partition: the replica, its `-future` copy, and those being deleted."""

_WATCH_SECONDS = 1.0
_WORTHWHILE_BYTES = 32 << 20
"""Least bytes of logs for which starting processes saves time."""
_BYTES_OF_A_PARTITION = 64 << 10
"""Bytes of logs that are read in the time that an empty partition takes."""
_OBJECTS = 1_000_000
"""New objects between two garbage collections: with fewer, they take a tenth of the time of small partitions."""
_TASK_BYTES = 8 << 20
_TASK_GROUPS = 32
"""Most logs, in bytes and groups, sent to a process at once: sending each small partition separately takes time."""


class ProgressState(Struct, frozen=True, kw_only=True):
    """Progress of one phase of work. A log counts as done when it was read to its end, or its partition is done."""

    phase: str
    partitions: int
    segments: int
    bytes: int
    partitions_done: int = 0
    segments_done: int = 0
    bytes_done: int = 0


OnProgress = Callable[[ProgressState], None]
OnRead = Callable[[int], None]
"""Function that is called with the number of bytes read of logs."""


def groups_of(directories: Sequence[str]) -> list[Group]:
    """Group partition directories by topic-partition. A group has all directories of one topic-partition, whether live,
    `-future`, `-delete` or `-stray`. Groups are in the order of their first directories. A name that is not a partition
    directory's is a group of its own.
    """
    groups: dict[object, list[str]] = {}
    for directory in directories:
        name = parse_partition_directory(directory)
        groups.setdefault(directory if name is None else (name.topic, name.partition), []).append(directory)
    return [tuple(group) for group in groups.values()]


_work: Callable[[Group], Any] | None = None
"""function that forked processes inherit and call"""


def _do(groups: Sequence[Group]) -> list[tuple[bool, Any]]:
    if _work is None:
        raise AssertionError(groups)
    results: list[tuple[bool, Any]] = []
    for group in groups:
        try:
            results.append((True, _work(group)))
        except Exception:  # noqa: BLE001 - the work is repeated in the parent, which raises the error
            results.append((False, None))
    return results


def _end_with(parent: int) -> None:
    """Start a thread that ends this forked process when its parent has ended, even if the parent was killed."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _begin(parent: int) -> None:
    """Initialize a forked worker process; `parent` is the process id of its parent. An interrupt from the terminal ends
    the worker silently, and a thread ends it soon after its parent has ended. Inherited objects are excluded from
    garbage collection, which would copy their pages; new ones are collected rarely.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _end_with(parent)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


class Workers:
    """Executor of work on partitions in up to `jobs` processes, with progress reports. `on_progress` is called after
    every step, in the calling process.
    """

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
        """Start a phase called `phase`, with all progress set to 0. `sizes` has the size in bytes of each file by its
        path relative to the log directory; only log files in its subdirectories count. `on_progress` is not called yet.
        """
        self._phase = phase
        self._sizes = {}
        for path, size in sizes.items():
            directory, separator, name = path.partition("/")
            if separator and name.endswith(FileKind.LOG.value):
                self._sizes.setdefault(directory, {})[path] = size
        self._read = {}
        self._segments = sum(len(logs) for logs in self._sizes.values())
        self._bytes = sum(sum(logs.values()) for logs in self._sizes.values())
        self._partitions_done = self._segments_done = self._bytes_done = 0

    def begin_steps(self, phase: str, sizes: Sequence[int]) -> None:
        """Start a phase called `phase` whose progress is counted in steps instead of log files, with `step_done`.
        `sizes` has the bytes that each step handles, in order. `on_progress` is called with the initial state.
        """
        self._phase, self._sizes, self._read = phase, {}, {}
        self._segments, self._bytes = len(sizes), sum(sizes)
        self._partitions_done = self._segments_done = self._bytes_done = 0
        self._steps = list(reversed(sizes))
        self._tell()

    def step_done(self) -> None:
        """Count one more step as done, and call `on_progress`."""
        self._segments_done += 1
        self._bytes_done += self._steps.pop() if self._steps else 0
        self._tell()

    def read(self, path: str, end: int) -> None:
        """Record that the log file `path`, relative to the log directory, was read up to byte `end`, and call
        `on_progress`. Bytes that were already read do not count again. Does nothing if no further byte was read, if the
        file is not one of the phase, or without `on_progress`.
        """
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
        """Report with `on_progress` that the partition directory `directory` is done: all bytes of its logs then count
        as read. Without `on_progress` nothing happens.
        """
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
        """Whether several processes would be faster than one: there are several jobs and groups, and enough bytes to
        read. False on a system without fork.
        """
        if self.jobs < 2 or len(groups) < 2 or not hasattr(os, "fork"):
            return False
        return self._bytes + _BYTES_OF_A_PARTITION * len(groups) >= _WORTHWHILE_BYTES

    def each(self, groups: Sequence[Group], work: Callable[[Group], Result]) -> Iterator[Result]:
        """Yield `work(group)` for each group, in order, and count its partitions as done. Groups are processed in
        forked processes if `is_worthwhile` says so, otherwise one after another in this process. If a forked
        process fails, or its result cannot be sent, `work` is called for the group in this process instead: its result
        is yielded, or its error raised.
        """
        if not self.is_worthwhile(groups):
            for group in groups:
                yield work(group)
                for directory in group:
                    self.done(directory)
            return
        yield from self._in_processes(groups, work)

    def _tasks(self, groups: Sequence[Group]) -> Iterator[list[Group]]:
        """Yield the groups in order, divided into tasks. A task is a list of groups that one process gets at once. It
        ends when it has 32 groups or about 8 MiB of logs. If there are few groups for each process, a task has fewer.
        """
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
        import multiprocessing  # takes a while to load, and small work does not need it
        from concurrent.futures import ProcessPoolExecutor

        global _work
        _work = work
        listener, self._on_progress = self._on_progress, None  # forked processes report no progress
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
            for process in multiprocessing.active_children():  # otherwise their work would be waited for
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
    """Yield `work(item, on_read)` for each item, in order. `size` returns the number of bytes that an item reads. The
    work is done in up to `jobs` processes, or only in this one if other processes are not worthwhile. Raises the errors
    of `work` while iterating.

    If only this process works, `work` gets `on_read` and must call it with the number of bytes that it reads.
    Otherwise `work` gets None, and `on_read` is called here with an item's whole size when it is done. If another
    process fails, its items are done again here.
    """
    groups: list[Group] = [(str(number),) for number in range(len(items))]
    workers = Workers(jobs)
    workers.begin("", {f"{number}/{FileKind.LOG}": size(item) for number, item in enumerate(items)})
    is_elsewhere = workers.is_worthwhile(groups)
    read = None if is_elsewhere else on_read
    for item, result in zip(items, workers.each(groups, lambda group: work(items[int(group[0])], read)), strict=True):
        if is_elsewhere and on_read is not None:
            on_read(size(item))
        yield result
