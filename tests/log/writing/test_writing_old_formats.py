"""Writing the formats of old: magic 0 and 1, bare and compressed, by the topic's `message.format.version`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import kafkalog
from kafkalog.codec.encode import build_batch, build_messages
from kafkalog.codec.model import LegacyHeader
from kafkalog.log.storage.cleaning.retained_batch import emptied
from testkit.kafka.kafka_oracle import KafkaOracle

T0 = 1_700_000_000_000
Compared = Callable[[str, int], None]


@pytest.mark.parametrize(
    ("version", "magic"),
    [
        ("0.8.0", 0), ("0.9.0.1", 0), ("0.10.0", 1), ("0.10.2-IV0", 1), ("0.11.0", 2), ("1.1", 2), ("4.1", 2),
        (None, 2),
    ],
)  # fmt: skip
def test_a_version_says_which_format(version: str | None, magic: int) -> None:
    assert kafkalog.LogConfig(message_format_version=version).magic == magic


@pytest.mark.parametrize("version", ["", "0", "x.y", "0.9.0.0.0", "0.9\n", "-1.0"])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(kafkalog.UsageError, match="is not a version"):
        kafkalog.LogConfig(message_format_version=version)


def written(path: Path, version: str, codec: str, *, append_time: bool = False) -> list[kafkalog.Record]:
    kinds = kafkalog.TimestampType
    config = kafkalog.LogConfig(
        message_format_version=version,
        segment_bytes=500,
        index_interval_bytes=64,
        message_timestamp_type=kinds.LOG_APPEND_TIME if append_time else kinds.CREATE_TIME,
    )
    with kafkalog.Log.open(path, config, clock=lambda: T0 + 99) as log:
        for n in range(12):
            records = [kafkalog.NewRecord(b"%d" % i * 9, b"k", T0 + n * 10 + i) for i in range(3)]
            assert log.append(records, compression=codec) == 3 * n
        assert log.append([(b"k", None)]) == 36
        assert len(log.segments) > 2
    with kafkalog.Log.open(path, config) as log:
        assert log.end_offset == 37
        return list(log.partition().records())


@pytest.mark.parametrize("append_time", [False, True])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize(("version", "magic"), [("0.9.0", 0), ("0.10.2", 1)])
def test_what_is_written_is_read_here_and_by_kafka(
    version: str, magic: int, codec: str, append_time: bool, kafka: KafkaOracle, tmp_path: Path, compared: Compared
) -> None:
    records = written(tmp_path / "t-0", version, codec, append_time=append_time)
    partition = kafkalog.open_partition(tmp_path / "t-0")
    batches = list(partition.batches())
    assert {batch.magic for batch in batches} == {magic}
    assert [record.offset for record in records] == list(range(37))
    times = (
        [-1] * 37
        if magic == 0
        else [T0 + 99] * 37
        if append_time
        else [*(T0 + n // 3 * 10 + n % 3 for n in range(36)), T0 + 99]
    )
    assert [record.timestamp for record in records] == times
    assert kafkalog.verify(tmp_path).findings == []
    assert kafka.check(tmp_path, {"segment.bytes": 500, "now_ms": T0 + 100_000})["accepted"]
    theirs = [each for answer in kafka.batches([bytes(batch.data) for batch in batches]) for each in answer["batches"]]
    assert len(theirs) == len(batches)
    compared("batches of magic 0 and 1 that Kafka reads", len(theirs))


def test_batches_of_another_format_are_converted(tmp_path: Path) -> None:
    record = kafkalog.Record(0, T0, kafkalog.TimestampType.CREATE_TIME, b"k", b"v")
    newer = kafkalog.scan(build_batch([record], codec=kafkalog.Codec.GZIP)).batches
    older = kafkalog.scan(build_messages([record], magic=0)).batches
    with kafkalog.Log.open(tmp_path / "t-0", kafkalog.LogConfig(message_format_version="0.10.0")) as log:
        assert [log.append([*newer, *older, *newer]), log.append(older)] == [0, 3]
        found = [batch.header for batch in log.partition().batches()]
    assert {type(header) for header in found} == {LegacyHeader}
    assert [(header.magic, header.codec, header.last_offset) for header in found] == [
        (1, 1, 0), (1, 0, 1), (1, 1, 2), (1, 0, 3),
    ]  # fmt: skip


def test_what_an_old_format_does_not_know_is_refused(tmp_path: Path) -> None:
    config = kafkalog.LogConfig(message_format_version="0.10.0")
    record = kafkalog.Record(0, T0, kafkalog.TimestampType.CREATE_TIME, b"k", b"v")
    producer = kafkalog.ProducerState(producer_id=1, producer_epoch=0, base_sequence=0)
    with kafkalog.Log.open(tmp_path / "t-0", config) as log:
        for given, options, words in (
            ([kafkalog.NewRecord(b"v", headers=[("h", b"")])], {}, "no record headers"),
            ([b"v"], {"compression": "zstd"}, "compression 4"),
            ([b"v"], {"producer": producer}, "0.11.0 or more"),
            (kafkalog.scan(build_batch([record], producer=producer)).batches, {}, "idempotent"),
        ):
            with pytest.raises(kafkalog.UsageError, match=words):
                log.append(given, **options)
        with pytest.raises(kafkalog.UsageError, match="no transactions"):
            log.end_transaction(1, 0, commit=True)
        assert log.end_offset == 0
    with pytest.raises(kafkalog.UsageError, match=r"0\.11\.0 or more"):
        kafkalog.Producer(tmp_path, log_config=config, producer_id=1)


@pytest.mark.parametrize("version", ["0.10.0", None])
def test_what_a_leader_refuses_is_refused_before_a_conversion(version: str | None, tmp_path: Path) -> None:
    append_time = kafkalog.TimestampType.LOG_APPEND_TIME
    record = kafkalog.Record(0, T0, append_time, b"k", b"v")
    empty = emptied(kafkalog.scan(build_batch([record])).batches[0])
    with kafkalog.Log.open(tmp_path / "t-0", kafkalog.LogConfig(message_format_version=version)) as log:
        for data, words in (
            (bytes(empty.data), "gaps in its offsets"),
            (build_batch([record, msgspec.structs.replace(record, offset=2)]), "gaps in its offsets"),
            (build_batch([record], timestamp_type=append_time, log_append_time=T0), "LogAppendTime"),
            (build_messages([record], magic=1, timestamp_type=append_time, log_append_time=T0), "LogAppendTime"),
        ):
            with pytest.raises(kafkalog.UsageError, match=words):
                log.append(kafkalog.scan(data).batches)
        assert log.end_offset == 0


def test_a_log_file_that_vanished_is_a_storage_error(tmp_path: Path) -> None:
    """Without timestamps its modification time is needed."""
    with kafkalog.Log.open(tmp_path / "t-0", kafkalog.LogConfig(message_format_version="0.9.0")) as log:
        log.append([b"v"])
        (tmp_path / "t-0" / f"{0:020}.log").unlink()
        with pytest.raises(kafkalog.StorageError):
            log.delete_old_segments()


def test_a_producer_of_the_old_era(tmp_path: Path) -> None:
    """Magic 0, batches of 200 at most, the hash of the key: what a producer of 0.8 left behind."""
    config = kafkalog.ProducerConfig(linger_ms=5000, batch_num_messages=200, compression_type="snappy")
    log_config = kafkalog.LogConfig(message_format_version="0.8.2")
    with kafkalog.Producer(
        tmp_path / "data", config, num_partitions=3, partitioner="hash", log_config=log_config
    ) as producer:
        found = [producer.send("t", b"%d" % n, b"%d" % (n % 7)) for n in range(50)]
    metadata = [future.result() for future in found]
    assert [each.partition for each in metadata] == [kafkalog.legacy_partition(b"%d" % (n % 7), 3) for n in range(50)]
    assert {each.timestamp for each in metadata} == {-1}
    log_dir = kafkalog.open(tmp_path / "data")
    for n, each in enumerate(metadata):
        chunk = log_dir["t", each.partition].read(each.offset)
        assert next(iter(chunk)).value == b"%d" % n
        assert {batch.magic for batch in chunk.batches} == {0}
