"""Streams of a consumer: shared out as asked, going on where they stopped, and following what is written."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import kafkalog
from kafkalog.producer.sharing import in_ranges
from kafkalog.producer.streams import MessageAndMetadata
from kafkalog.types import ConsumerStream, OffsetsFile

SYNC = kafkalog.ProducerConfig(producer_type="sync")
TOPICS = {"orders": 5, "clicks": 1, "orders-old": 2, "__consumer_offsets": 1}


def produce(root: Path, topic: str, first: int, count: int, partitions: int | None = None) -> None:
    """Values count through the partitions."""
    with kafkalog.Producer(root, SYNC, num_partitions=partitions) as producer:
        for n in range(first, first + count):
            producer.send(topic, b"%d" % n, partition=n % (partitions or TOPICS[topic]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for topic, partitions in TOPICS.items():
        produce(tmp_path / "data", topic, 0, 20, partitions)
    return tmp_path / "data"


def shown(messages: Iterator[MessageAndMetadata] | list[MessageAndMetadata]) -> list[tuple[str, int, int]]:
    return [(each.topic, each.partition, each.record.offset) for each in messages]


def numbers(stream: ConsumerStream) -> list[int]:
    return [int(each.record.value or b"-1") for each in stream]


# -- createMessageStreams ----------------------------------------------------------------------------------------------


def test_a_map_of_topics_to_numbers_of_streams(root: Path) -> None:
    with kafkalog.Consumer(root) as consumer:
        streams = consumer.create_message_streams({"orders": 2, "clicks": 3, "missing": 1})
        assert {topic: len(several) for topic, several in streams.items()} == {"orders": 2, "clicks": 3, "missing": 1}
        owned = [stream.partitions for stream in streams["orders"]]
        assert owned == [tuple(("orders", n) for n in (0, 1, 2)), tuple(("orders", n) for n in (3, 4))]
        assert [len(stream.partitions) for stream in streams["clicks"]] == [1, 0, 0], "streams without a partition"
        read = [n for stream in streams["orders"] for n in numbers(stream)]
        assert sorted(read) == list(range(20))
        assert [numbers(stream) for stream in streams["clicks"]] == [list(range(20)), [], []]
        assert [numbers(stream) for stream in streams["orders"]] == [[], []], "an iteration goes on, it does not repeat"


@pytest.mark.parametrize(("partitions", "count"), [(5, 2), (12, 5), (3, 5), (0, 2), (7, 1)])
def test_ranges_are_those_of_the_old_consumer(partitions: int, count: int) -> None:
    """`i * N + min(i, rest)` with the remainder for the first ones."""
    shares = in_ranges(range(partitions), count)
    assert [n for share in shares for n in share] == list(range(partitions))
    assert [len(share) for share in shares] == [partitions // count + (i < partitions % count) for i in range(count)]


def test_streams_by_filter(root: Path) -> None:
    with kafkalog.Consumer(root) as consumer:
        streams = consumer.create_message_streams_by_filter(3, whitelist="orders.*, none")
        owned = [key for stream in streams for key in stream.partitions]
        assert sorted(owned) == [*(("orders", n) for n in range(5)), ("orders-old", 0), ("orders-old", 1)]
        assert len({topic for stream in streams for topic, _ in stream.partitions}) == 2
        assert sum(len(numbers(stream)) for stream in streams) == 40
    with kafkalog.Consumer(root) as consumer:
        (stream,) = consumer.create_message_streams_by_filter(blacklist="orders.*")
        assert [topic for topic, _ in stream.partitions] == ["clicks"]


def test_streams_are_read_by_a_thread_each(root: Path) -> None:
    read: list[int] = []
    with kafkalog.Consumer(root) as consumer:
        streams = consumer.create_message_streams({"orders": 4})["orders"]
        threads = [threading.Thread(target=lambda s=stream: read.extend(numbers(s))) for stream in streams]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        iterator = iter(streams[0])
        assert next(iterator, None) is None
    assert sorted(read) == list(range(20))


def test_who_iterates_over_a_stream_twice_is_told_why_not(root: Path) -> None:
    refused: list[str] = []

    def iterate(stream: Iterable[object]) -> None:
        with pytest.raises(kafkalog.UsageError) as caught:
            next(iter(stream))
        refused.append(str(caught.value))

    with kafkalog.Consumer(root) as consumer:
        (stream,) = consumer.create_message_streams({"orders": 1})["orders"]
        iterator = iter(stream)
        next(iterator)
        iterate(stream)
        thread = threading.Thread(target=iterate, args=(stream,))
        thread.start()
        thread.join()
    iterate(stream)
    assert refused == [
        "an iterator of this stream is unfinished: continue it, or close it",
        "a stream is read by one thread at a time, and another thread is reading this one",
        "the consumer is shut down, and its streams are closed",
    ]
    assert list(iterator) == [], "shut down"
    assert list(stream) == []


# -- commitOffsets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", "topic"])
def test_the_next_consumer_goes_on_where_this_one_committed(root: Path, tmp_path: Path, where: str) -> None:
    def offsets() -> OffsetsFile | kafkalog.GroupOffsets:
        """The group belongs to partition 2; in 0 are records here that no coordinator wrote."""
        if where == "file":
            return OffsetsFile(tmp_path / "offsets")
        return kafkalog.GroupOffsets(root, "group", offsets_topic_num_partitions=3)

    with kafkalog.Consumer(root, offsets()) as consumer:
        iterator = iter(consumer.create_message_streams({"orders": 1})["orders"][0])
        first = [next(iterator) for _ in range(7)]
        consumer.commit_offsets()
        next(iterator)  # given, and not committed
    with kafkalog.Consumer(root, offsets()) as consumer:
        (stream,) = consumer.create_message_streams({"orders": 1})["orders"]
        second = list(stream)
        assert sorted(shown(first) + shown(second)) == [("orders", place, n) for place in range(5) for n in range(4)]
        consumer.commit_offsets()
        consumer.commit_offsets()
    produce(root, "orders", 20, 5)
    with kafkalog.Consumer(root, offsets()) as consumer:
        assert numbers(consumer.create_message_streams({"orders": 1})["orders"][0]) == [20, 21, 22, 23, 24]
        assert consumer.offsets == {("orders", n): 5 for n in range(5)}


def test_the_file_of_offsets_is_kafkas_checkpoint_and_keeps_what_others_committed(tmp_path: Path, root: Path) -> None:
    path = tmp_path / "offsets"
    path.write_text("0\n1\nelse 3 17\n")
    with kafkalog.Consumer(root, path) as consumer:
        for _ in consumer.create_message_streams({"clicks": 1})["clicks"][0]:
            pass
        consumer.commit_offsets()
    assert path.read_text() == "0\n2\nclicks 0 20\nelse 3 17\n"
    path.write_text("garbage")
    with pytest.raises(kafkalog.FormatError):
        kafkalog.Consumer(root, path)


def test_a_consumer_without_a_place_for_offsets_cannot_commit(root: Path) -> None:
    with kafkalog.Consumer(root) as consumer, pytest.raises(kafkalog.UsageError, match="no place to store offsets"):
        consumer.commit_offsets()


# -- offsets out of range ----------------------------------------------------------------------------------------------


def test_offsets_out_of_range_are_an_error_or_set_again(root: Path, tmp_path: Path) -> None:
    with kafkalog.Log.open(root / "clicks-0") as log:
        log.delete_records_before(5)
    for offset, wanted in (
        (3, {"earliest": 15, "latest": 0}),
        (99, {"earliest": 15, "latest": 0}),
        (18, {"earliest": 2}),
    ):
        store = OffsetsFile(tmp_path / f"offsets-{offset}")
        store.commit({("clicks", 0): offset})
        for reset, count in wanted.items():
            with kafkalog.Consumer(root, store, reset=reset) as consumer:  # type: ignore[arg-type]
                assert len(numbers(consumer.create_message_streams({"clicks": 1})["clicks"][0])) == count
        if offset != 18:
            refused = pytest.raises(kafkalog.OffsetOutOfRangeError, match="the log holds 5 to 20")
            with kafkalog.Consumer(root, store, reset=None) as consumer, refused:
                consumer.create_message_streams({"clicks": 1})
    with kafkalog.Consumer(root, reset=None) as consumer, pytest.raises(kafkalog.UsageError, match="no offset is comm"):
        consumer.create_message_streams({"clicks": 1})


def test_retention_that_overtakes_a_stream_sets_it_again(root: Path) -> None:
    with kafkalog.Consumer(root, follow=True, consumer_timeout_ms=0, poll_ms=1) as consumer:
        stream = consumer.create_message_streams({"clicks": 1})["clicks"][0]
        iterator = iter(stream)
        assert int(next(iterator).record.value or b"") == 0
        iterator.close()  # type: ignore[attr-defined]
        with kafkalog.Log.open(root / "clicks-0") as log:
            log.roll()
            log.delete_records_before(18)
            log.append([b"20"])
        consumer._positions.look()
        assert numbers(stream) == [18, 19, 20]


# -- following ---------------------------------------------------------------------------------------------------------


def test_following_meets_new_records_new_partitions_and_new_topics(root: Path) -> None:
    """`createMessageStreamsByFilter` watches for topics."""
    with kafkalog.Consumer(root, follow=True, consumer_timeout_ms=200, poll_ms=5) as consumer:
        (stream,) = consumer.create_message_streams_by_filter(whitelist="orders.*|new")
        assert len(numbers(stream)) == 40
        produce(root, "orders", 20, 5)
        produce(root, "new", 0, 4, 2)
        produce(root, "unwanted", 0, 4, 1)
        assert sorted(numbers(stream)) == [0, 1, 2, 3, 20, 21, 22, 23, 24]
        produce(root, "orders", 25, 7, 7)
        assert sorted(numbers(stream)) == list(range(25, 32))
        assert ("orders", 6) in stream.partitions
        shutil.rmtree(root / "new-0")
        assert numbers(stream) == []


def test_a_partition_that_comes_later_joins_the_stream_that_has_fewest(root: Path) -> None:
    with kafkalog.Consumer(root, follow=True, consumer_timeout_ms=0, poll_ms=1) as consumer:
        streams = consumer.create_message_streams({"orders": 2})["orders"]
        before = [stream.partitions for stream in streams]
        produce(root, "orders", 20, 7, 8)
        consumer._positions.look()
        assert [stream.partitions[: len(old)] for stream, old in zip(streams, before, strict=True)] == before
        assert [len(stream.partitions) for stream in streams] == [4, 4]


def test_follow_gives_what_is_written_while_it_waits(root: Path) -> None:
    read: list[bytes | None] = []
    with kafkalog.Producer(root, SYNC, num_partitions={"fresh": 3}) as producer:
        producer.send("clicks", b"before")
        messages = kafkalog.follow(root, whitelist="clicks|fresh", poll_ms=2, consumer_timeout_ms=20_000)

        def write() -> None:
            for n in range(30):
                producer.send("clicks", b"%d" % n)

        thread = threading.Thread(target=write)
        thread.start()
        for message in messages:
            read.append(message.record.value)
            if len(read) == 30:
                break
        thread.join()
    assert read == [b"%d" % n for n in range(30)], "from the end on, nothing twice, nothing left out"


def test_follow_by_name_reads_kafkas_own_topics_too(root: Path) -> None:
    found = kafkalog.follow(root, topics=["__consumer_offsets", "clicks"], reset="earliest", consumer_timeout_ms=0)
    assert {message.topic for message in found} == {"__consumer_offsets", "clicks"}
    for wrong in (
        {"topics": ["a"], "whitelist": "b"}, {"topics": "clicks"}, {"poll_ms": 0}, {"isolation_level": "x"},
        {"reset": "none"},
    ):  # fmt: skip
        with pytest.raises(kafkalog.UsageError):
            kafkalog.follow(root, **wrong)


def test_an_unfinished_batch_is_waited_for(root: Path) -> None:
    path = root / "clicks-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with kafkalog.Consumer(root, follow=True, consumer_timeout_ms=0, poll_ms=1) as consumer:
        (stream,) = consumer.create_message_streams({"clicks": 1})["clicks"]
        assert numbers(stream) == list(range(19))
        path.write_bytes(whole)
        consumer._positions.look()
        assert numbers(stream) == [19]


def test_damage_ends_a_stream(root: Path) -> None:
    path = root / "clicks-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    tenth = list(kafkalog.open(root)["clicks", 0].batches())[10]
    data[tenth.position + tenth.size - 1] ^= 1
    path.write_bytes(data)
    for following in (False, True):
        with kafkalog.Consumer(root, follow=following, consumer_timeout_ms=0) as consumer:
            with pytest.raises(kafkalog.FormatError):
                numbers(consumer.create_message_streams({"clicks": 1})["clicks"][0])
            assert consumer.offsets["clicks", 0] == 10


def test_an_open_transaction_is_waited_for(root: Path) -> None:
    with kafkalog.Consumer(root, isolation_level="read_committed", follow=True, consumer_timeout_ms=0) as consumer:
        (stream,) = consumer.create_message_streams({"clicks": 1})["clicks"]
        assert numbers(stream) == list(range(20))
        with kafkalog.Log.open(root / "clicks-0") as log:
            for number, commit in ((1, True), (2, False), (3, None)):
                log.append(
                    [b"%d" % number],
                    producer=kafkalog.ProducerState(
                        producer_id=number, producer_epoch=0, base_sequence=0, is_transactional=True
                    ),
                )
                if commit is not None:
                    log.end_transaction(number, 0, commit=commit)
            consumer._positions.look()
            assert numbers(stream) == [1]
            assert consumer.offsets["clicks", 0] == 24, "up to the transaction that is open"
            log.end_transaction(3, 0, commit=True)
        consumer._positions.look()
        assert numbers(stream) == [3]


def test_shutdown_ends_a_stream_that_waits(root: Path) -> None:
    with kafkalog.Consumer(root, follow=True, reset="latest") as consumer:
        (stream,) = consumer.create_message_streams_by_filter()
        threading.Timer(0.05, consumer.shutdown).start()
        assert numbers(stream) == []
    with pytest.raises(kafkalog.UsageError, match="shut down"):
        consumer.create_message_streams({"clicks": 1})


def test_what_a_consumer_refuses(root: Path, tmp_path: Path) -> None:
    with kafkalog.Consumer(root) as consumer:
        for wrong in ({"clicks": 0}, {"clicks": -1}, {"clicks": "x"}, 5):
            with pytest.raises(kafkalog.UsageError):
                consumer.create_message_streams(wrong)  # type: ignore[arg-type]
        (stream,) = consumer.create_message_streams({"clicks": 1})["clicks"]
        with pytest.raises(kafkalog.UsageError, match="once"):
            consumer.create_message_streams({"orders": 1})
        iterator = iter(stream)
        next(iterator)
        with pytest.raises(kafkalog.UsageError, match="unfinished"):
            next(iter(stream))
    with pytest.raises(kafkalog.UsageError, match="does not exist"):
        kafkalog.Consumer(tmp_path / "nothing").create_message_streams({"t": 1})
    with pytest.raises(kafkalog.UsageError, match="only Consumer takes"):
        kafkalog.open_streams(kafkalog.open(root), 2, topics={"orders": 3})


def test_after_a_refusal_no_partition_counts_as_read(root: Path) -> None:
    with kafkalog.Consumer(root, root / "offsets") as consumer:
        (stream,) = consumer.create_message_streams({"clicks": 1})["clicks"]
        assert len(numbers(stream)) > 0
        consumer.commit_offsets()
    with kafkalog.Consumer(root, root / "offsets", reset=None) as consumer:
        with pytest.raises(kafkalog.UsageError, match="no offset is committed for orders"):
            consumer.create_message_streams_by_filter()
        assert consumer.offsets == {}
        (stream,) = consumer.create_message_streams_by_filter(whitelist="clicks")
        assert stream.partitions == (("clicks", 0),)
