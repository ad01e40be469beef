"""What `Producer` promises by itself: places, batches, limits, callbacks, transactions; no error is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE
from kafkalog.log.disk import fs
from kafkalog.log.writing.choosing_partitions import StickyPartitions
from kafkalog.log.writing.open_logs import OpenLogs
from kafkalog.log.writing.partitioners import java_hash_code
from kafkalog.types import RecordMetadata
from testkit.judging.scripted import Clock

T0 = 1_700_000_000_000
SYNC = kafkalog.ProducerConfig(producer_type="sync")
PATIENT = kafkalog.ProducerConfig(linger_ms=10**9)
SMALL = kafkalog.LogConfig(segment_bytes=4096, max_message_bytes=4096)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


def values(root: Path, topic: str, partition: int = 0, **more: Any) -> list[bytes | None]:
    return [record.value for record in kafkalog.open(root)[topic, partition].records(kafkalog.RecordFilter(**more))]


def batches(root: Path, topic: str, partition: int = 0) -> list[int]:
    return [batch.header.records_count for batch in kafkalog.open(root)[topic, partition].batches()]  # type: ignore[union-attr]


# -- the documents' own words ------------------------------------------------------------------------------------------


def test_one_record_or_a_list_by_the_synchronous_or_the_asynchronous_producer(root: Path) -> None:
    for config in (SYNC, PATIENT):
        with kafkalog.Producer(root, config, num_partitions=2) as producer:
            producer.send("t", b"one", b"key")
            records = [kafkalog.Outgoing("t", kafkalog.NewRecord(b"%d" % n, b"key")) for n in range(3)]
            futures = producer.send_all(records)
            assert all(future.done() is (config is SYNC) for future in futures)
    place = kafkalog.partition_for_key(b"key", 2)
    assert values(root, "t", place) == [b"one", b"0", b"1", b"2"] * 2
    assert values(root, "t", 1 - place) == []
    assert batches(root, "t", place) == [1, 3, 4], "a list is one batch, and what waited together is one"


def test_a_queue_is_written_when_the_batch_is_full_or_its_time_has_come(root: Path) -> None:
    full = kafkalog.ProducerConfig(linger_ms=10**9, batch_num_messages=3)
    with kafkalog.Producer(root, full) as producer:
        futures = [producer.send("full", b"%d" % n) for n in range(4)]
        assert [future.result(30).offset for future in futures[:3]] == [0, 1, 2]
        assert not futures[3].done(), "one record alone waits"
    with kafkalog.Producer(root, kafkalog.ProducerConfig(linger_ms=1)) as producer:
        sent = producer.send("timed", b"alone", timestamp=T0).result(30)
        assert sent == RecordMetadata(topic="timed", partition=0, offset=0, timestamp=T0)
    assert batches(root, "full") == [3, 1]


def test_bytes_make_a_batch_full_as_they_do_in_kafka(root: Path) -> None:
    with kafkalog.Producer(root, kafkalog.ProducerConfig(batch_size=1000, linger_ms=10**9)) as producer:
        for n in range(100):
            producer.send("t", b"v" * 50, timestamp=T0 + n)
    found = list(kafkalog.open(root)["t", 0].batches())
    assert {batch.size <= 1000 for batch in found} == {True}
    assert {1000 - batch.size < 60 for batch in found[:-1]} == {True}, "one more would not have had room"


def test_encoders_and_a_partitioner_of_the_callers(root: Path) -> None:
    """The `Encoder` and the `Partitioner` of the implementation notes."""
    seen: list[tuple[Any, int]] = []

    def last(key: Any, partitions: int) -> int:
        seen.append((key, partitions))
        return partitions - 1

    with kafkalog.Producer(
        root, SYNC, num_partitions=3, partitioner=last, key_encoder=str.encode, value_encoder=lambda n: b"%d" % n
    ) as producer:
        assert producer.send("t", 17, "ключ").result().partition == 2
        producer.send("t", 18)
    (first, second) = kafkalog.open(root)["t", 2].records()
    assert (first.key, first.value, second.key, second.value) == ("ключ".encode(), b"17", None, b"18")
    assert seen == [("ключ", 3), (None, 3)], "the key as it was given, and none too"


def test_the_default_of_old_is_the_hash_of_the_key(root: Path) -> None:
    keys: list[Any] = ["a", "hello", "polygenelubricants", b"abc", b"\xff" * 9]
    with kafkalog.Producer(root, SYNC, num_partitions=7, partitioner="hash", key_encoder=encoded) as producer:
        found = [producer.send("t", b"v", key).result().partition for key in keys]
    codes = [java_hash_code(key) for key in keys]
    assert found == [0 if code == -(2**31) else abs(code) % 7 for code in codes]


def encoded(key: Any) -> bytes:
    return key.encode() if isinstance(key, str) else key


def test_without_a_key_the_old_producer_keeps_a_random_partition(root: Path) -> None:
    numbers = iter([2**31 - 1, 5])
    with kafkalog.Producer(root, SYNC, num_partitions=4, partitioner="hash", random=lambda: next(numbers)) as producer:
        assert {producer.send("t", b"v" * 9000).result().partition for _ in range(9)} == {3}
        assert producer.send("u", b"v").result().partition == 1, "each topic has its own"


def test_the_partition_of_the_old_producer_is_kept_for_ten_minutes() -> None:
    """`topic.metadata.refresh.interval.ms`, whatever goes there."""
    numbers = iter([3, 5])
    sticky = StickyPartitions(100, lambda: next(numbers), by_time=True)
    for now_ms, partition in ((7, 3), (600_007, 3), (600_008, 1)):
        assert sticky.current("t", 4, now_ms) == partition
        assert not sticky.produced("t", 4, 10**6, now_ms, may_switch=True)


def test_without_a_key_records_stick_until_a_batch_is_full(root: Path) -> None:
    numbers = iter([0, 2, 1])
    config = kafkalog.ProducerConfig(batch_size=1000, linger_ms=10**9)
    with kafkalog.Producer(root, config, num_partitions=3, random=lambda: next(numbers)) as producer:
        futures = [producer.send("t", b"v" * 400, timestamp=T0) for _ in range(6)]
    assert [future.result().partition for future in futures] == [0, 0, 0, 0, 2, 2]


class Seen(kafkalog.CallbackHandler):
    """Writes down what it is told, and changes or leaves out some records."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def before_enqueue(self, outgoing: kafkalog.Outgoing) -> kafkalog.Outgoing | None:
        value = outgoing.record.value
        if value == b"unwanted":
            return None
        return outgoing._replace(record=kafkalog.NewRecord(b"<" + (value or b"") + b">"))

    def after_enqueue(self, outgoing: kafkalog.Outgoing, added: bool) -> None:
        self.told.append((outgoing.record.value, added))

    def before_sending(self, batch: kafkalog.ReadyBatch) -> None:
        self.told.append(("before", len(batch.records)))

    def after_sending(self, batch: kafkalog.ReadyBatch, error: BaseException | None) -> None:
        self.told.append(("after", len(batch.records), error))

    def close(self) -> None:
        self.told.append("closed")


def test_hooks_at_every_stage(root: Path) -> None:
    seen = Seen()
    with kafkalog.Producer(root, SYNC, callback_handler=seen) as producer:
        producer.send("t", b"a")
        with pytest.raises(CancelledError):
            producer.send("t", b"unwanted").result()
    assert seen.told == [(b"<a>", True), ("before", 1), ("after", 1, None), "closed"]
    assert values(root, "t") == [b"<a>"]


def test_an_event_handler_of_the_callers(root: Path) -> None:
    """It may try again, write something else, or nothing."""
    tries: list[int] = []

    def handler(batch: kafkalog.ReadyBatch, write: Callable[[kafkalog.ReadyBatch], int]) -> int:
        tries.append(len(batch.records))
        return -1 if batch.topic == "nowhere" else write(batch)

    with kafkalog.Producer(root, SYNC, event_handler=handler) as producer:
        assert producer.send("t", b"a").result().offset == 0
        assert producer.send("nowhere", b"a").result().offset == -1
    assert tries == [1, 1]
    assert (values(root, "t"), values(root, "nowhere")) == ([b"a"], [])


# -- limits ------------------------------------------------------------------------------------------------------------


class Gate:
    """An event handler that writes when it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, batch: kafkalog.ReadyBatch, write: Callable[[kafkalog.ReadyBatch], int]) -> int:
        assert self.open.wait(60)
        return write(batch)


def test_a_full_queue_drops_a_record_at_once(root: Path) -> None:
    gate, seen = Gate(), Seen()
    config = kafkalog.ProducerConfig(linger_ms=0, queue_buffering_max_messages=2, queue_enqueue_timeout_ms=0)
    with kafkalog.Producer(root, config, event_handler=gate, callback_handler=seen) as producer:
        futures = [producer.send("t", b"a"), producer.send("t", b"b")]
        with pytest.raises(
            kafkalog.QueueFullError, match=r"2 records wait .*; queue_buffering_max_messages is 2"
        ) as caught:
            producer.send("t", b"c")
        gate.open.set()
        assert [future.result(30).offset for future in futures] == [0, 1]
    assert caught.value.limit == "queue_buffering_max_messages"
    assert (b"<c>", False) in seen.told
    assert values(root, "t") == [b"<a>", b"<b>"]


def test_a_full_queue_lets_a_record_wait(root: Path) -> None:
    gate = Gate()
    config = kafkalog.ProducerConfig(linger_ms=10**9, queue_buffering_max_messages=2)
    with kafkalog.Producer(root, config, event_handler=gate) as producer:
        for value in (b"a", b"b"):
            producer.send("t", value)
        threading.Timer(0.05, gate.open.set).start()
        producer.send("t", b"c")  # what lingers is written, since somebody waits for its room
    assert values(root, "t") == [b"a", b"b", b"c"]


def test_the_memory_for_what_waits_is_bounded(root: Path) -> None:
    gate = Gate()
    config = kafkalog.ProducerConfig(linger_ms=0, buffer_memory=1000, max_block_ms=10)
    with kafkalog.Producer(root, config, event_handler=gate) as producer:
        producer.send("t", b"v" * 600)
        with pytest.raises(kafkalog.QueueFullError, match=r"bytes of records wait .*; buffer_memory is") as caught:
            producer.send("t", b"v" * 600)
        with pytest.raises(kafkalog.UsageError, match="buffer_memory is 1000"):
            producer.send("t", b"v" * 1000)
        gate.open.set()
    assert caught.value.limit == "buffer_memory"
    assert len(values(root, "t")) == 1


def test_a_list_that_is_larger_than_the_memory_is_written_in_parts(root: Path) -> None:
    config = kafkalog.ProducerConfig(producer_type="sync", buffer_memory=1000, queue_buffering_max_messages=4)
    with kafkalog.Producer(root, config) as producer:
        records = [kafkalog.Outgoing("t", kafkalog.NewRecord(b"%d" % n * 50)) for n in range(30)]
        assert [future.result().offset for future in producer.send_all(records)] == list(range(30))
    assert sum(batches(root, "t")) == 30


def test_settings_that_cannot_be_meant() -> None:
    for wrong in ({"linger_ms": -1}, {"linger_ms": 2**31}, {"buffer_memory": 0}, {"producer_type": "x"},
                  {"compression_type": "x"}, {"batch_num_messages": 0}):  # fmt: skip
        with pytest.raises(kafkalog.UsageError):
            kafkalog.ProducerConfig(**wrong)
    assert kafkalog.ProducerConfig(max_block_ms=2**62, buffer_memory=2**40).max_block_ms == 2**62


# -- idempotent and transactional --------------------------------------------------------------------------------------


def test_sequences_go_on_where_the_log_is(root: Path) -> None:
    for epoch in (0, 0, 1):
        with kafkalog.Producer(root, SYNC, producer_id=9, producer_epoch=epoch) as producer:
            for _ in range(2):
                producer.send("t", b"v")
    headers = [batch.header for batch in kafkalog.open(root)["t", 0].batches()]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for h in headers] == [
        (9, 0, 0), (9, 0, 1), (9, 0, 2), (9, 0, 3), (9, 1, 0), (9, 1, 1),
    ]  # fmt: skip


def test_a_transaction_reaches_several_partitions_and_is_committed_or_not(root: Path) -> None:
    with kafkalog.Producer(root, PATIENT, num_partitions=3, producer_id=9, transactional=True) as producer:
        with pytest.raises(kafkalog.UsageError, match="begin_transaction comes first"):
            producer.send("t", b"outside")
        for word, end in ((b"kept", producer.commit_transaction), (b"gone", producer.abort_transaction)):
            producer.begin_transaction()
            for partition in (0, 2):
                producer.send("t", word, partition=partition)
            if word == b"gone":
                producer.flush()
                late = producer.send("t", b"never written", partition=1)
            end()
        with pytest.raises(kafkalog.TransactionAbortedError):
            late.result()
        producer.begin_transaction()
        producer.send("t", b"left open", partition=0)
    for partition in (0, 2):
        assert values(root, "t", partition, isolation_level="read_committed") == [b"kept"]
        assert values(root, "t", partition)[:2] == [b"kept", b"gone"]
    assert values(root, "t", 1) == []
    assert kafkalog.verify(root).findings == []


def test_a_transaction_with_a_record_that_was_not_written_cannot_be_committed(root: Path) -> None:
    with kafkalog.Producer(
        root, kafkalog.ProducerConfig(batch_size=1000), log_config=SMALL, producer_id=9, transactional=True
    ) as producer:
        producer.begin_transaction()
        producer.send("t", b"a")
        producer.send("t", os.urandom(5000))
        with pytest.raises(kafkalog.UsageError, match="abort it"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"b")
        producer.commit_transaction()
    assert values(root, "t", isolation_level="read_committed") == [b"b"]


# -- topics ------------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_while_a_transaction_is_ended(root: Path) -> None:
    """A record that came between the last batch and the marker would be in no transaction."""
    refused: list[BaseException] = []
    producer = kafkalog.Producer(root, PATIENT, producer_id=9, transactional=True)

    class Late(kafkalog.CallbackHandler):
        def after_sending(self, batch: kafkalog.ReadyBatch, error: BaseException | None) -> None:
            with pytest.raises(kafkalog.UsageError, match="being ended") as caught:
                producer.send("t", b"late")
            refused.append(caught.value)

    producer._hooks = Late()
    producer.begin_transaction()
    producer.send("t", b"in time")
    producer.commit_transaction()
    producer.begin_transaction()
    producer._hooks = kafkalog.CallbackHandler()
    producer.send("t", b"in the next")
    producer.close()
    assert len(refused) == 1
    assert values(root, "t", isolation_level="read_committed") == [b"in time"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_no_larger_than_the_log_takes(root: Path, codec: str) -> None:
    config = kafkalog.ProducerConfig(batch_size=10**6, linger_ms=10**9, compression_type=codec)
    with kafkalog.Producer(root, config, log_config=SMALL) as producer:
        for _ in range(50):
            producer.send("t", os.urandom(300))
    assert len(values(root, "t")) == 50
    assert {1 < count <= 13 for count in batches(root, "t")} == {True}


def test_a_record_that_waits_cannot_be_taken_back(root: Path) -> None:
    with kafkalog.Producer(root, PATIENT) as producer:
        future = producer.send("t", b"v")
        assert not future.cancel()
    assert future.result().offset == 0


def test_a_hook_that_gives_another_key_moves_the_record(root: Path) -> None:
    class Rekey(kafkalog.CallbackHandler):
        def before_enqueue(self, outgoing: kafkalog.Outgoing) -> kafkalog.Outgoing:
            return outgoing._replace(record=kafkalog.NewRecord(b"v", b"other"))

    for partitioner in ("murmur2", "hash"):
        with kafkalog.Producer(
            root, SYNC, num_partitions=7, partitioner=partitioner, callback_handler=Rekey(), key_encoder=str.encode
        ) as producer:
            found = producer.send("t", b"v", "one").result().partition
        chosen = kafkalog.partition_for_key if partitioner == "murmur2" else kafkalog.legacy_partition
        assert found == chosen(b"other", 7)


KILLED = """
import os, signal, sys
import kafkalog

config = kafkalog.ProducerConfig(batch_size=300, linger_ms=1)
producer = kafkalog.Producer(sys.argv[1], config, num_partitions=3, log_config=kafkalog.LogConfig(segment_bytes=2000))
n = 0
while True:
    futures = [producer.send("t", b"%d" % (n + i), b"%d" % (n + i)) for i in range(20)]
    producer.flush()
    for future in futures:
        print(future.result().partition, future.result().offset, n, flush=True)
        n += 1
"""


def test_what_a_killed_producer_was_told_is_there_and_the_next_one_goes_on(root: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", KILLED, str(root)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    told: list[list[int]] = []
    while len(told) < 200:
        told.append([int(word) for word in program.stdout.readline().split()])
    program.kill()
    rest = program.stdout.read().splitlines(keepends=True)
    told += [[int(word) for word in line.split()] for line in rest if line.endswith("\n")]
    program.stdout.close()
    program.wait()
    with kafkalog.Producer(root, SYNC, num_partitions=3) as producer:
        later = [producer.send("t", b"after", partition=number).result() for number in range(3)]
    for number in range(3):
        found = {record.offset: record.value for record in kafkalog.open(root)["t", number].records()}
        assert sorted(found) == list(range(len(found)))
        assert found[later[number].offset] == b"after"
        assert later[number].offset == len(found) - 1
        for partition, offset, n in told:
            assert partition != number or found[offset] == b"%d" % n
    assert kafkalog.verify(root).findings == []


def test_a_topic_has_all_its_partitions_from_the_start_with_one_id(root: Path) -> None:
    with kafkalog.Producer(root, SYNC, num_partitions={"t": 5}) as producer:
        producer.send("t", b"v", partition=3)
        producer.send("u", b"v")
    log_dir = kafkalog.open(root)
    assert sorted(log_dir) == [*(("t", n) for n in range(5)), ("u", 0)]
    ids = [(name, log_dir[name].metadata) for name in log_dir]
    assert len({metadata.topic_id for (topic, _), metadata in ids if metadata and topic == "t"}) == 1
    with kafkalog.Producer(root, SYNC, num_partitions=7) as producer:
        producer.send("t", b"v", partition=6)
        with pytest.raises(kafkalog.UsageError, match="there is no partition 7"):
            producer.send("t", b"v", partition=7)
    log_dir = kafkalog.open(root)
    assert len({log_dir["t", n].metadata for n in range(7)}) == 1, "those that were added have the topic's id"
    with kafkalog.Producer(root, SYNC) as producer:
        found = {producer.send("t", b"v", b"%d" % n).result().partition for n in range(50)}
        assert found == set(range(7)), "as many as are there"
    few = "partition 6 of topic t exists, so it has at least 7, but num_partitions is 2"
    with kafkalog.Producer(root, SYNC, num_partitions=2) as producer, pytest.raises(kafkalog.UsageError, match=few):
        producer.send("t", b"v")


def test_the_logs_of_many_partitions_take_turns_to_be_open(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.log.writing.open_logs._MOST_OPEN", 3)
    with kafkalog.Producer(root, SYNC, num_partitions=8, producer_id=3) as producer:
        for n in range(40):
            producer.send("t", b"%d" % n, partition=n * 3 % 8)
        assert not (root / CLEAN_SHUTDOWN_FILE).exists()
        with pytest.raises(
            kafkalog.UsageError, match=f"^{root} is open for writing in this process already, several partitions"
        ):
            kafkalog.Producer(root)
    assert [values(root, "t", n) for n in range(8)] == [
        [b"%d" % n for n in range(40) if n * 3 % 8 == p] for p in range(8)
    ]
    assert (root / CLEAN_SHUTDOWN_FILE).exists()
    assert kafkalog.verify(root).findings == []


# -- errors and ends ---------------------------------------------------------------------------------------------------


def test_an_error_of_the_disk_is_told_to_everybody(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    producer = kafkalog.Producer(root, PATIENT)
    producer.send("t", b"a")
    producer.flush()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fs, "_write_all", fail)
    future = producer.send("t", b"b", callback=lambda metadata, error: told.append((metadata, error)))
    with pytest.raises(kafkalog.StorageError):
        producer.flush()
    monkeypatch.undo()
    assert isinstance(future.exception(), kafkalog.StorageError)
    assert told == [(None, future.exception())]
    producer.send("t", b"c")
    with pytest.raises(kafkalog.StorageError, match="an earlier write failed"):
        producer.close()
    producer.close()
    assert values(root, "t") == [b"a"]


def test_a_callback_that_fails_loses_no_record(root: Path) -> None:
    def fail(_metadata: object, _error: object) -> None:
        raise ZeroDivisionError

    producer = kafkalog.Producer(root, PATIENT)
    futures = [producer.send("t", b"%d" % n, callback=fail) for n in range(3)]
    with pytest.raises(ZeroDivisionError):
        producer.flush()
    assert [future.result().offset for future in futures] == [0, 1, 2]
    producer.close()


def test_a_record_that_fails_later_does_not_hide_the_error_of_a_callback(root: Path) -> None:
    def fail(_metadata: object, _error: object) -> None:
        raise ZeroDivisionError

    def handler(batch: kafkalog.ReadyBatch, write: Callable[[kafkalog.ReadyBatch], int]) -> int:
        if batch.topic == "refused":
            raise LookupError
        return write(batch)

    with kafkalog.Producer(root, SYNC, event_handler=handler) as producer:
        producer.send("t", b"written", callback=fail)
        with pytest.raises(LookupError):
            producer.send("refused", b"not written")
        with pytest.raises(ZeroDivisionError):
            producer.flush()
        producer.flush()
    assert values(root, "t", 0) == [b"written"]


def test_an_interruption_is_told_to_all_records_that_were_to_be_written(root: Path) -> None:
    def interrupted(_batch: kafkalog.ReadyBatch, _write: object) -> int:
        raise KeyboardInterrupt

    producer = kafkalog.Producer(root, PATIENT, num_partitions=3, event_handler=interrupted)
    futures = [producer.send("t", b"v", partition=number) for number in range(3)]
    with pytest.raises(KeyboardInterrupt):
        producer.flush()
    assert [type(future.exception(0)) for future in futures] == [KeyboardInterrupt] * 3
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    assert [values(root, "t", number) for number in range(3)] == [[], [], []]


def test_hooks_that_give_nonsense_are_named(root: Path) -> None:
    class Wrong(kafkalog.CallbackHandler):
        def before_enqueue(self, outgoing: kafkalog.Outgoing) -> kafkalog.Outgoing:
            return "x"  # type: ignore[return-value]

    named = pytest.raises(kafkalog.UsageError, match="before_enqueue returned str")
    with kafkalog.Producer(root, SYNC, callback_handler=Wrong()) as producer, named:
        producer.send("t", b"v")
    answers: Iterator[Any] = iter([None])
    named = pytest.raises(kafkalog.UsageError, match="the event handler returned NoneType")
    with kafkalog.Producer(root, SYNC, event_handler=lambda _batch, _write: next(answers)) as producer, named:
        producer.send("t", b"v")


def test_a_callback_may_send_and_may_not_flush(root: Path) -> None:
    for config, topic in ((SYNC, "sync"), (kafkalog.ProducerConfig(linger_ms=0), "async")):
        refused: list[BaseException] = []
        with kafkalog.Producer(root, config) as producer:

            def again(metadata: RecordMetadata | None, _error: object) -> None:
                assert metadata is not None
                if metadata.offset < 4:
                    producer.send(metadata.topic, b"%d" % (metadata.offset + 1), callback=again)
                try:
                    producer.flush()
                except kafkalog.UsageError as error:
                    refused.append(error)  # noqa: B023

            producer.send(topic, b"0", callback=again)
            while len(refused) < 5:
                pass
        assert values(root, topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_many_threads_send_at_once(root: Path) -> None:
    config = kafkalog.ProducerConfig(batch_size=500, linger_ms=1, buffer_memory=2000)
    with kafkalog.Producer(root, config, num_partitions=4) as producer:

        def work(number: int) -> None:
            for n in range(200):
                producer.send("t", b"%d/%d" % (number, n), b"%d" % number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number in range(6):
        place = kafkalog.partition_for_key(b"%d" % number, 4)
        own = [value for value in values(root, "t", place) if value and value.startswith(b"%d/" % number)]
        assert own == [b"%d/%d" % (number, n) for n in range(200)], "each thread's records keep their order"


def test_a_producer_that_is_closed_or_refused_leaves_nothing_locked(root: Path, tmp_path: Path) -> None:
    producer = kafkalog.Producer(root, SYNC)
    producer.close()
    with pytest.raises(kafkalog.UsageError, match="closed"):
        producer.send("t", b"v")
    with pytest.raises(kafkalog.UsageError, match="closed"):
        producer.flush()
    for wrong in ({"num_partitions": 0}, {"partitioner": "murmur3"}, {"transactional": True}, {"producer_id": -1}):
        with pytest.raises(kafkalog.UsageError):
            kafkalog.Producer(root, SYNC, **wrong)
    with kafkalog.Producer(root, SYNC) as again:
        again.send("t", b"v")
    with pytest.raises(kafkalog.UsageError, match="is a partition directory"):
        kafkalog.Producer(root / "t-0")
    with pytest.raises(kafkalog.UsageError, match="is inside"):
        kafkalog.Producer(root / "new")
    with pytest.raises(kafkalog.StorageError):
        kafkalog.Producer(tmp_path / "no" / "parent")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "a b"}, "topic"),
        ({"value": "text"}, "use an encoder"),
        ({"value": b"v", "timestamp": -5}, "negative"),
        ({"value": b"v", "partition": 1}, "no partition 1"),
        ({"value": b"v", "headers": [("h",)]}, "header"),
    ],
)
def test_a_record_that_cannot_be_sent_is_refused_at_once(root: Path, options: dict[str, Any], words: str) -> None:
    with kafkalog.Producer(root, PATIENT) as producer:
        producer.send("t", b"before")
        with pytest.raises(kafkalog.UsageError, match=words):
            producer.send(**{"topic": "t", **options})
    assert values(root, "t") == [b"before"]


def test_a_partitioner_that_gives_nonsense_is_named(root: Path) -> None:
    answers: Iterator[Any] = iter([-1, 1, 2.0, None])
    with kafkalog.Producer(root, SYNC, partitioner=lambda _key, _n: next(answers)) as producer:
        for _ in range(4):
            with pytest.raises(kafkalog.UsageError, match="the partitioner returned"):
                producer.send("t", b"v")


def test_timestamps_are_the_callers_the_clocks_or_the_logs(root: Path) -> None:
    append_time = kafkalog.LogConfig(message_timestamp_type=kafkalog.TimestampType.LOG_APPEND_TIME)
    for topic, config in (("create", None), ("append", append_time)):
        with kafkalog.Producer(root, SYNC, log_config=config, clock=Clock(T0)) as producer:
            found = [producer.send(topic, b"v", timestamp=each).result().timestamp for each in (5, None)]
        assert found == ([5, T0] if topic == "create" else [-1, -1])
        stored = [record.timestamp for record in kafkalog.open(root)[topic, 0].records()]
        assert stored == ([5, T0] if topic == "create" else [T0, T0])


def test_a_forked_child_cannot_use_it_and_disturbs_nobody(root: Path) -> None:
    producer = kafkalog.Producer(root, PATIENT)
    producer.send("t", b"a")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            producer.close()
            producer.send("t", b"of the child")
        except kafkalog.UsageError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    producer.close()
    assert values(root, "t") == [b"a"]


def test_what_a_failing_log_leaves_does_not_keep_the_others_from_closing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    producer = kafkalog.Producer(root, SYNC, num_partitions=3)
    producer.send("t", b"v")
    real = kafkalog.Log.close

    def close(log: kafkalog.Log) -> None:
        real(log)
        closed.append(log.path)
        if log.name.partition == 1:
            raise kafkalog.StorageError(5, "Input/output error", log.path)

    monkeypatch.setattr(kafkalog.Log, "close", close)
    with pytest.raises(kafkalog.StorageError):
        producer.close()
    assert len(closed) == 3
    monkeypatch.undo()
    OpenLogs(str(root), kafkalog.LogConfig(), None, {}, Clock(T0)).close()


@pytest.mark.parametrize("topic", ["../escaped", "sub/orders", "", ".", "..", "a b", "x" * 250])
def test_a_topic_is_no_path(root: Path, topic: str) -> None:
    (root / "sub").mkdir(parents=True)
    (root.parent / "escaped").mkdir()
    with kafkalog.Producer(root) as producer:
        with pytest.raises(kafkalog.UsageError, match="is not the name of a topic"):
            producer.send(topic, b"v")
        with pytest.raises(kafkalog.UsageError, match="is not the name of a topic"):
            producer.send(str(root / "absolute"), b"v")
    assert not list(root.rglob("*.log"))
    assert not list(root.parent.glob("escaped*/*"))


def test_a_producer_aborts_what_an_earlier_one_of_its_id_left_open(root: Path) -> None:
    with kafkalog.Producer(root, num_partitions=3) as others:
        others.send("o", b"before", partition=2)
    child = os.fork()
    if child == 0:
        left = kafkalog.Producer(root, producer_id=5, transactional=True)
        left.begin_transaction()
        left.send("o", b"never committed", partition=0)
        left.send("o", b"nor this", partition=1)
        left.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with kafkalog.Producer(root, producer_id=5, transactional=True) as producer:
        producer.begin_transaction()
        producer.send("o", b"committed", partition=0)
        producer.commit_transaction()
    partitions = [kafkalog.open(root)["o", number] for number in range(3)]
    values = [
        [each.value for each in found.records(kafkalog.RecordFilter(isolation_level="read_committed"))]
        for found in partitions
    ]
    assert values == [[b"committed"], [], [b"before"]]
    assert [each.last_stable_offset() == each.log_end_offset() for each in partitions] == [True] * 3


def test_a_producer_whose_id_has_a_newer_epoch_is_refused(root: Path) -> None:
    left = kafkalog.Producer(root, producer_id=5, producer_epoch=3, transactional=True)
    left.begin_transaction()
    left.send("o", b"v").result()
    left.abort_transaction()
    left.begin_transaction()
    left.send("o", b"w").result()
    shutil.copytree(root, root.parent / "copy")
    left.close()
    with pytest.raises(kafkalog.UsageError, match="epoch"):
        kafkalog.Producer(root.parent / "copy", producer_id=5, producer_epoch=2, transactional=True)
    kafkalog.Producer(root.parent / "copy", producer_id=5, producer_epoch=4, transactional=True).close()
