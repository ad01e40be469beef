"""Queues of batches, one for each partition (`RecordAccumulator`).

A record waits until its batch is full or has waited long enough. Nothing here locks, waits or writes; the producer
does.
"""

from __future__ import annotations

from collections import deque

from kafkalog.log.writing.choosing_partitions import StickyPartitions
from kafkalog.producer.batch import OpenBatch, Waiting
from kafkalog.producer.config import ProducerConfig

__all__ = ["Accumulator"]


class Accumulator:
    """Open batches (`OpenBatch`) that wait to be written, in a queue for each (topic, partition). Only the last batch
    of a queue accepts records.
    """

    def __init__(self, config: ProducerConfig, sticky: StickyPartitions) -> None:
        self._config = config
        self._sticky = sticky
        self._queues: dict[tuple[str, int], deque[OpenBatch]] = {}

    def append(
        self, topic: str, partition: int | None, partitions: int, waiting: Waiting, now_ms: int
    ) -> tuple[int, bool]:
        """Add a record to the last batch of its partition; begin a new batch if there is none or the record does not
        fit. Return the partition, and whether its first batch is ready to be written, because it is full or another
        batch follows it.

        If `partition` is None, the sticky partitioner chooses one; `partitions` is the topic's number of partitions. It
        may switch to another partition when a batch is full. `now_ms` is the current time of a monotonic clock.
        """
        if partition is not None:
            if self._add(topic, partition, waiting) is None:
                self._begin(topic, partition, waiting, now_ms)
            return partition, self._is_ready(topic, partition)
        while True:
            chosen = self._sticky.current(topic, partitions, now_ms)
            if self._has_moved(topic, chosen, partitions, now_ms):
                continue
            size = self._add(topic, chosen, waiting)
            if size is None:
                if self._has_moved(topic, chosen, partitions, now_ms):  # the last batch is full since just now
                    continue
                size = self._begin(topic, chosen, waiting, now_ms)
            full = self._last_is_full(topic, chosen)
            self._sticky.produced(topic, partitions, size, now_ms, may_switch=full)
            return chosen, self._is_ready(topic, chosen)

    def _has_moved(self, topic: str, partition: int, partitions: int, now_ms: int) -> bool:
        """Switch to another partition if the last batch is full. Return whether it switched."""
        full = self._last_is_full(topic, partition)
        return full and self._sticky.produced(topic, partitions, 0, now_ms, may_switch=True)

    def _add(self, topic: str, partition: int, waiting: Waiting) -> int | None:
        queue = self._queues.get((topic, partition))
        return queue[-1].add(waiting) if queue else None

    def _begin(self, topic: str, partition: int, waiting: Waiting, now_ms: int) -> int:
        config = self._config
        batch = OpenBatch(topic, partition, waiting, config.batch_size, config.batch_num_messages, now_ms)
        self._queues.setdefault((topic, partition), deque()).append(batch)
        return batch.size

    def _last_is_full(self, topic: str, partition: int) -> bool:
        queue = self._queues.get((topic, partition))
        return not queue or queue[-1].is_full

    def _is_ready(self, topic: str, partition: int) -> bool:
        queue = self._queues[topic, partition]
        return len(queue) > 1 or queue[0].is_full

    def drain(self, now_ms: int, *, everything: bool = False) -> list[OpenBatch]:
        """Remove and return the batches that are ready at the monotonic time `now_ms`: full, followed by another batch
        of their partition, or at least `linger_ms` old. With `everything`, remove and return all batches.

        Batches of one partition are in the order in which they were begun. The list is empty if none is ready.
        """
        open_batches: list[OpenBatch] = []
        for key, queue in list(self._queues.items()):
            while queue and (everything or self._may_go(queue, now_ms)):
                open_batches.append(queue.popleft())
            if not queue:
                del self._queues[key]
        return open_batches

    def has_ready(self, now_ms: int) -> bool:
        """Whether `drain` would return a batch at the monotonic time `now_ms`."""
        return any(self._may_go(queue, now_ms) for queue in self._queues.values())

    def _may_go(self, queue: deque[OpenBatch], now_ms: int) -> bool:
        return len(queue) > 1 or queue[0].is_full or self._due_ms(queue[0]) <= now_ms

    def due_ms(self) -> int | None:
        """Time of the monotonic clock, in ms, at which the next batch has waited for `linger_ms`; None if there is no
        batch.
        """
        return min((self._due_ms(queue[0]) for queue in self._queues.values()), default=None)

    def _due_ms(self, batch: OpenBatch) -> int:
        return batch.created_ms + self._config.linger_ms
