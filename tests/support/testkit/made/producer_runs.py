"""Generated runs of a producer: settings, records and transactions from one seed; and what became of each record."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog.codec.model import Codec

T0 = 1_700_000_000_000
CODECS = tuple(codec.label for codec in Codec)
Place = tuple[str, int, int]
"""Topic, partition and offset."""


@dataclass
class Told:
    """What a consumer has to be given: everything that was written, and what of it was committed."""

    written: dict[Place, dict[str, Any]] = field(default_factory=dict)
    committed: set[Place] = field(default_factory=set)


def some_bytes(rng: random.Random) -> bytes | None:
    """A key or a value: none, empty, a few bytes that come again, or many that do not."""
    kind = rng.random()
    if kind < 0.15:
        return None
    if kind < 0.25:
        return b""
    if kind < 0.7:
        return b"%d" % rng.randrange(20)
    return rng.randbytes(rng.choice([3, 40, 300]))


def some_headers(rng: random.Random) -> list[tuple[str, bytes | None]]:
    if rng.random() < 0.7:
        return []
    return [(rng.choice(["", "h", "ключ"]), some_bytes(rng)) for _ in range(rng.randint(1, 3))]


def _last(_key: Any, partitions: int) -> int:
    return partitions - 1


class Run:
    """One opening of a producer, from its seed on."""

    def __init__(self, seed: str, number: int) -> None:
        rng = self.rng = random.Random(f"{seed}/{number}")
        self.producer_id = rng.choice([None, 1000 + number])
        self.transactional = self.producer_id is not None and rng.random() < 0.6
        self.partitioner: Any = rng.choice(["murmur2", "murmur2", "hash", "sticky", _last])
        self.config = kafkalog.ProducerConfig(
            producer_type=rng.choice(["sync", "async"]),
            batch_size=rng.choice([0, 200, 1000, 1000, 16384]),
            linger_ms=rng.choice([0, 1, 10**6]),
            batch_num_messages=rng.choice([None, None, 1, 5]),
            buffer_memory=rng.choice([4000, 2**25]),
            queue_buffering_max_messages=rng.choice([None, 3]),
            compression_type=rng.choice(CODECS),
        )
        append_time = rng.random() < 0.2
        kinds = kafkalog.TimestampType
        self.log_config = kafkalog.LogConfig(
            segment_bytes=rng.choice([20_000, 20_000, 2**30]),
            index_interval_bytes=rng.choice([0, 256, 4096]),
            message_timestamp_type=kinds.LOG_APPEND_TIME if append_time else kinds.CREATE_TIME,
        )

    def write(self, root: Path, topic: str, partitions: int, topic_id: str, told: Told) -> int:
        """Carry it out; gives the number of records."""
        rng, count = self.rng, 0
        with kafkalog.Producer(
            root, self.config, num_partitions=partitions, log_config=self.log_config, topic_ids={topic: topic_id},
            partitioner=self.partitioner, producer_id=self.producer_id, transactional=self.transactional,
            random=lambda: rng.getrandbits(31),
        ) as producer:  # fmt: skip
            for _ in range(rng.randint(1, 3)):
                count += self._group(producer, topic, partitions, told)
        return count

    def _group(self, producer: kafkalog.Producer, topic: str, partitions: int, told: Told) -> int:
        rng, sent = self.rng, []
        if self.transactional:
            producer.begin_transaction()
        for number in range(rng.randint(1, 12)):
            key, value, headers = some_bytes(rng), some_bytes(rng), some_headers(rng)
            partition = rng.choice([None, None, None, rng.randrange(partitions)])
            time = T0 + rng.randrange(10_000)
            future = producer.send(topic, value, key, partition=partition, timestamp=time, headers=headers)
            sent.append((future, {"key": key, "value": value, "headers": headers, "timestamp": time}))
            if number % 5 == 4 and rng.random() < 0.3:
                producer.flush()
        kept = True
        if self.transactional:
            producer.flush()
            kept = rng.random() < 0.6
            (producer.commit_transaction if kept else producer.abort_transaction)()
        else:
            producer.flush()
        for future, record in sent:
            found = future.result(0)
            place = found.topic, found.partition, found.offset
            if found.timestamp == -1:
                record["timestamp"] = None  # the log's own
            assert place not in told.written, "two records have one place"
            told.written[place] = record
            if kept:
                told.committed.add(place)
        return len(sent)
