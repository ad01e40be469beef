"""The reading calls of Kafka's implementation notes: chunks, offsets before a time, streams, partitioners, times."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.log.writing.partitioners import java_hash_code, murmur2
from testkit.recorded.broker_dirs import brokers, own_copy

with warnings.catch_warnings():  # what it does while it is imported is not ours to mend
    warnings.simplefilter("ignore")
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

T0 = 1_700_000_000_000
SMALL = kafkalog.LogConfig(segment_bytes=4096, index_interval_bytes=128)


@pytest.fixture
def partition(tmp_path: Path) -> kafkalog.Partition:
    """Thirty batches of three records in several segments, one of them large."""
    (tmp_path / "logs").mkdir()
    with kafkalog.Log.open(tmp_path / "logs" / "sized-0", SMALL, clock=lambda: T0) as log:
        for number in range(30):
            size = 3000 if number == 17 else 40
            record = kafkalog.NewRecord(bytes([number]) * size, timestamp=T0 + number)
            log.append([record] * (3 if size == 40 else 1))
    return kafkalog.open_partition(tmp_path / "logs" / "sized-0")


def test_chunks_from_end_to_end_are_the_whole_log(partition: kafkalog.Partition) -> None:
    offset, records = partition.log_start_offset, []
    while (chunk := partition.read(offset, 700)).data:
        records += list(chunk)
        assert chunk.next_offset > offset
        offset = chunk.next_offset
    assert records == list(partition.records(on_damage="stop"))
    assert offset == partition.log_end_offset() == 88


def test_a_chunk_doubles_until_one_message_fits_and_no_further(partition: kafkalog.Partition) -> None:
    large = next(batch for batch in partition.batches() if batch.size > 2900)
    chunk = partition.read(large.header.last_offset, 100)
    assert [batch.size for batch in chunk.batches] == [large.size]
    assert chunk.max_bytes == 3200
    assert partition.read(0, 100).max_bytes == 400, "100 bytes doubled twice: a batch of some 200 fits"
    with pytest.raises(kafkalog.LimitExceeded, match="does not fit") as raised:
        partition.read(large.header.last_offset, 100, max_chunk_bytes=large.size - 1)
    assert raised.value.limit == "max_chunk_bytes"
    assert partition.read(large.header.last_offset, 100, max_chunk_bytes=large.size).max_bytes == large.size


def test_an_offset_outside_names_the_valid_range(partition: kafkalog.Partition) -> None:
    for offset in (-1, 89, 2**63 - 1):
        with pytest.raises(kafkalog.OffsetOutOfRangeError, match="the log holds 0 to 88") as raised:
            partition.read(offset)
        assert (raised.value.offset, raised.value.start, raised.value.end) == (offset, 0, 88)
    assert partition.read(88).data == b"", "the end is not an error"


def test_offsets_before_a_time_are_those_of_kafka_s_definition(partition: kafkalog.Partition) -> None:
    """By hand: segments changed at 1000, 2000, ... ms; the log's end counts as changed now."""
    bases = [segment.base_offset for segment in partition.segments]
    assert len(bases) > 2
    for number, segment in enumerate(partition.segments):
        os.utime(segment.path, ns=((number + 1) * 10**9,) * 2)
    again = kafkalog.open_partition(partition.path)
    assert again.offsets_before(kafkalog.LATEST, 100) == [88, *reversed(bases)]
    assert again.offsets_before(kafkalog.LATEST, 1) == [88]
    assert again.offsets_before(kafkalog.EARLIEST, 5) == [0]
    assert again.offsets_before(2500, 10) == [bases[1], bases[0]]
    assert again.offsets_before(2000, 1) == [bases[1]]
    assert again.offsets_before(999, 10) == []


@pytest.mark.parametrize("break_it", [lambda d: b"", lambda d: d[12:], lambda d: d[::-1], lambda d: b"\0" * len(d)])
def test_a_time_index_is_followed_only_where_the_log_confirms_it(
    partition: kafkalog.Partition, break_it: Callable[[bytes], bytes]
) -> None:
    expected = {t: partition.offset_for_timestamp(t) for t in range(T0 - 1, T0 + 32)}
    records = list(partition.records(on_damage="stop"))
    first = {t: next(((r.offset, r.timestamp) for r in records if r.timestamp >= t), None) for t in expected}
    assert {t: None if f is None else (f.offset, f.timestamp) for t, f in expected.items()} == first
    for segment in partition.segments:
        index = Path(segment.path).with_suffix(".timeindex")
        index.write_bytes(break_it(index.read_bytes()))
    broken = kafkalog.open_partition(partition.path)
    assert {t: broken.offset_for_timestamp(t) for t in expected} == expected


def test_the_time_index_spares_reading(partition: kafkalog.Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog.log.walk.time_lookup import OlderBatches, older_batches

    seen: list[int] = []

    def looked_up(*arguments: Any, **named: Any) -> OlderBatches:
        older = older_batches(*arguments, **named)
        seen.append(older.end)
        return older

    monkeypatch.setattr("kafkalog.log.walk.batches.older_batches", looked_up)
    assert partition.offset_for_timestamp(T0 + 28) is not None
    assert sum(position > 0 for position in seen) == len(partition.segments)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> kafkalog.LogDir:
    root = tmp_path_factory.mktemp("streams")
    sizes = {"orders-0": 50, "orders-1": 20, "orders-old-0": 30, "clicks-0": 45, "__consumer_offsets-0": 9}
    for name, size in sizes.items():
        with kafkalog.Log.open(root / name) as log:
            log.append([f"{name}/{i}".encode() for i in range(size)])
    return kafkalog.open(root)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, {"orders-0", "orders-1", "orders-old-0", "clicks-0"}),
        ({"topics": ["orders"]}, {"orders-0", "orders-1"}),
        ({"topics": ["__consumer_offsets"]}, {"__consumer_offsets-0"}),
        ({"whitelist": "orders"}, {"orders-0", "orders-1"}),
        ({"whitelist": "'orders.*, clicks'"}, {"orders-0", "orders-1", "orders-old-0", "clicks-0"}),
        ({"blacklist": "orders"}, {"orders-old-0", "clicks-0"}),
        ({"blacklist": "orders", "exclude_internal": False}, {"orders-old-0", "clicks-0", "__consumer_offsets-0"}),
        ({"whitelist": "none"}, set()),
    ],
)
@pytest.mark.parametrize("count", [1, 2, 9])
def test_streams_share_the_chosen_partitions(
    choice: dict[str, object], expected: set[str], count: int, log_dir: kafkalog.LogDir
) -> None:
    streams = kafkalog.open_streams(log_dir, count, **choice)  # type: ignore[arg-type]
    assert len(streams) == count
    names = [str(partition.name) for stream in streams for partition in stream.partitions]
    assert sorted(names) == sorted(expected)
    read = [f"{m.topic}-{m.partition}/{m.record.offset}".encode() for stream in streams for m in stream]
    assert sorted(read) == sorted(m.record.value or b"" for stream in streams for m in stream)
    largest = max((p.size for s in streams for p in s.partitions), default=0)
    if count > 1:
        assert max(s.size for s in streams) - min(s.size for s in streams) <= largest


def test_streams_refuse_two_ways_of_choosing(log_dir: kafkalog.LogDir) -> None:
    too_large = "a{99999999999999999999}"
    for wrong in (
        {"whitelist": "a", "blacklist": "b"}, {"whitelist": "("}, {"whitelist": too_large}, {"topics": "orders"}
    ):  # fmt: skip
        with pytest.raises(kafkalog.UsageError):
            kafkalog.open_streams(log_dir, 2, **wrong)  # type: ignore[arg-type]
    with pytest.raises(kafkalog.UsageError):
        kafkalog.open_streams(log_dir, 0)
    with pytest.raises(kafkalog.UsageError, match="isolation level"):
        kafkalog.open_streams(log_dir, 1, isolation_level="committed")


def test_a_stream_ends_at_damage(tmp_path: Path) -> None:
    root = own_copy(brokers("2.8.2/codecs")[0], tmp_path / "broker")
    for stream in kafkalog.open_streams(kafkalog.open(root), 3):
        assert sum(1 for _ in stream) >= 0
    log = max(root.glob("*/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    streams = kafkalog.open_streams(kafkalog.open(root), 3)
    with pytest.raises(kafkalog.FormatError, match="checksum"):
        list(chain.from_iterable(streams))


@given(st.binary(max_size=64))
def test_murmur2_is_that_of_the_java_client(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "code"),
    [("", 0), ("hello", 99162322), ("polygenelubricants", -(2**31)), (b"", 1), (b"abc", 126145), (b"\xff", 30)],
)
def test_java_hash_codes(key: bytes | str, code: int) -> None:
    """`String.hashCode` and `Arrays.hashCode`, as the JDK computes them."""
    assert java_hash_code(key) == code
    assert kafkalog.legacy_partition(key, 7) == (0 if code == -(2**31) else abs(code)) % 7
    assert kafkalog.legacy_partition(key, 7, before_0_8_2=True) == (code & 0x7FFFFFFF) % 7


def test_partitions_are_counted() -> None:
    assert kafkalog.partition_for_key(b"21", 1000) == (kafka_python_murmur2(b"21") & 0x7FFFFFFF) % 1000
    with pytest.raises(kafkalog.UsageError):
        kafkalog.partition_for_key(b"a", 0)
