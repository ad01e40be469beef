"""Keep the logs open that a producer writes in a broker's directories, under the locks of all directories."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack

from kafkalog.codec.names import RECOVERY_POINT_CHECKPOINT, PartitionName
from kafkalog.log.directories.partition import read_partition
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing import checkpoint_files
from kafkalog.log.writing.broker_directories import BrokerDirectories, directories_of_one_broker
from kafkalog.log.writing.config import LogConfig
from kafkalog.log.writing.loading import refuse_unfit
from kafkalog.log.writing.partition_counts import PartitionCounts
from kafkalog.log.writing.session import locked_directories
from kafkalog.log.writing.topics import check_topic
from kafkalog.log.writing.writer import Log

__all__ = ["OpenLogs", "now_ms"]

_MOST_OPEN = 200
"""Most logs open at once; the least recently written is closed for another."""


def now_ms() -> int:
    """Return the current time in ms since 1970."""
    return time.time_ns() // 1_000_000


class OpenLogs:
    """Open logs of a broker by topic and partition. Before a topic is first used, all its partitions are created, with
    one topic id. The directories stay locked until `close`.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        config: LogConfig,
        num_partitions: int | Mapping[str, int] | None,
        topic_ids: Mapping[str, str] | None = None,
        clock: Callable[[], int] = now_ms,
        option: str = "num_partitions",
    ) -> None:
        self.config = config
        self._ids = dict(topic_ids or {})
        self._clock = clock
        self._open: OrderedDict[tuple[str, int], Log] = OrderedDict()
        self._known: dict[str, int] = {}
        self._lock = ExitStack()
        roots = directories_of_one_broker(path)
        self._lock.enter_context(locked_directories(roots))
        try:
            self.directories = BrokerDirectories(roots)
            self._counts = PartitionCounts(self.directories.counts(), num_partitions, option)
        except BaseException:
            self._lock.close()
            raise

    def partitions(self, topic: str) -> int:
        """Return the number of partitions of a topic. It is the configured number; if none is configured, one more than
        the highest existing partition number, but at least 1. The first call for a topic creates its missing
        partitions, for which the least recently used logs may be closed.

        Raises `UsageError` for an invalid topic name, or if fewer partitions are configured than exist. Raises the
        errors of `Log.open` and `Log.close` too, such as `FormatError` and `StorageError`.
        """
        known = self._known.get(topic)
        if known is None:
            known = self.count(topic)
            for number in range(known):
                if not os.path.isdir(self.directories.path_of(topic, number)):
                    self.log(topic, number)
            self._known[topic] = known
        return known

    def count(self, topic: str) -> int:
        """Return the number of partitions that a topic has or will have. Raises `UsageError` for an invalid topic name,
        or if more partitions exist than are configured.
        """
        check_topic(topic)
        return self._counts[topic]

    def refuse_damaged(self, topics: Collection[str]) -> None:
        """Raise `FormatError` or `UsageError` if an existing log of one of these topics needs recovery before it can be
        opened. Reads the parts of the logs that opening would check, and changes nothing. Raises `FormatError` also for
        a malformed recovery point checkpoint, and `UsageError` for a partition directory with an invalid topic name.
        Raises `StorageError` if a file cannot be read.
        """
        clean = {root: checkpoint_files.clean_marker(root) is not None for root in self.directories.roots}
        for topic, number in self.directories.there() if topics else ():
            if topic in topics:
                name, root = PartitionName(topic, number), self.directories.root_of(topic, number)
                point = checkpoint_files.read_offset(root, RECOVERY_POINT_CHECKPOINT, name) or 0
                partition = read_partition(self.directories.path_of(topic, number), name, None)
                refuse_unfit(partition, clean=clean[root], recovery_point=point)

    def log(self, topic: str, partition: int) -> Log:
        """Return the open log of a partition. At first use it is opened, and created if missing; if too many logs are
        open, the least recently used ones are closed first, and opened again when needed. Raises the errors of
        `Log.open` and `Log.close`, such as `UsageError`, `FormatError` and `StorageError`.
        """
        key = topic, partition
        log = self._open.get(key)
        if log is None:
            while len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            log = self._open[key] = self._opened(topic, partition)
        self._open.move_to_end(key)
        return log

    def _opened(self, topic: str, partition: int) -> Log:
        path = self.directories.path_of(topic, partition)
        if os.path.isdir(path):
            return Log.open(path, self.config, clock=self._clock)
        if topic not in self._ids:
            known = self.directories.known_topic_id(topic)
            if known is not None:
                self._ids[topic] = known
        log = Log.open(path, self.config, topic_id=self._ids.get(topic), clock=self._clock)
        self._ids[topic] = log.topic_id
        return log

    def flush(self) -> None:
        """Flush all open logs (closed logs are already flushed). If logs raise errors, all are flushed nevertheless,
        and one of the errors is raised at the end.
        """
        with ExitStack() as stack:
            for log in reversed(self._open.values()):
                stack.callback(log.flush)

    def close(self) -> None:
        """Close all logs and release the locks of the directories, in any case. If logs raise errors, all are closed
        nevertheless, and one of the errors (`FormatError` or `StorageError`) is raised at the end.
        """
        with self._lock:
            with ExitStack() as stack:
                for log in self._open.values():
                    stack.callback(log.close)
            self._open.clear()
