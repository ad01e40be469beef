"""A stream without Spark: its reader is asked as Spark asks it, while our writer appends, rolls, deletes and cuts."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows, ReadMinRows

import kafkalog
from kafkalog.codec.common.errors import KafkaLogError, StorageError, UsageError
from kafkalog.log.directories import follow
from kafkalog.spark import followed, stream
from kafkalog.spark.options import parse_options
from kafkalog.spark.schema import full_schema, layout_of
from kafkalog.spark.stream import LogStreamReader
from kafkalog.spark.stream_options import parse_stream_options

T0 = 1_700_000_000_000
SMALL = kafkalog.LogConfig(segment_bytes=2000, index_interval_bytes=64, retention_ms=-1, file_delete_delay_ms=0)
Json = dict[str, dict[str, int]]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "_LOOK_EVERY_S", 0)
    monkeypatch.setattr(follow, "_PAUSE_S", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[kafkalog.Log]:
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "orders-0", SMALL) as opened:
        yield opened


def append(log: kafkalog.Log, count: int, *, batch: int = 5, **more: Any) -> None:
    """Records whose value is their offset, in batches."""
    first, behind = log.end_offset, log.end_offset + count
    for start in range(first, behind, batch):
        numbers = range(start, min(start + batch, behind))
        log.append([kafkalog.NewRecord(b"%d" % n * 4, b"key", T0 + n) for n in numbers], **more)


class Query:
    """What Spark does with a source: offsets, partitions, rows; and a checkpoint of the offsets."""

    def __init__(self, path: Path | str, checkpoint: list[Json] | None = None, **options: Any) -> None:
        given = {"path": str(path)} | {name: str(value) for name, value in options.items()}
        parsed = parse_stream_options(given)
        self.reader = LogStreamReader(parsed, layout_of(full_schema(parsed.read), parsed.read))
        self.checkpoint = [] if checkpoint is None else checkpoint
        self.batches: list[list[tuple[str, int, int]]] = []

    def trigger(self, limit: ReadLimit | None = None) -> list[tuple[str, int, int]]:
        """One trigger; the rows as (topic, partition, offset), each checked to have the value of its offset."""
        start = self.checkpoint[-1] if self.checkpoint else self.reader.initialOffset()
        start = json.loads(json.dumps(start))
        end = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        if self.checkpoint and json.dumps(end) == json.dumps(start):
            return []
        rows = self.run(start, end)
        self.checkpoint.append(end)
        self.batches.append(rows)
        return rows

    def run(self, start: Json, end: Json) -> list[tuple[str, int, int]]:
        planned = self.reader.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end)))
        travelled = pickle.loads(pickle.dumps(self.reader))
        rows: list[tuple[str, int, int]] = []
        for task in planned:
            for batch in travelled.read(pickle.loads(pickle.dumps(task))):
                found = batch.to_pydict()
                rows += zip(found["topic"], found["partition"], found["offset"], strict=True)
        return rows

    def offsets(self, limit: ReadLimit | None = None) -> list[int]:
        return [offset for _, _, offset in self.trigger(limit)]


def last_segment(log: kafkalog.Log) -> Path:
    return Path(log.partition().segments[-1].path)


# --- what is appended -----------------------------------------------------------------------------------------------


def test_each_trigger_gives_what_was_appended_since(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 7)
    query = Query(tmp_path / "data", startingOffsets="earliest")
    assert query.offsets() == list(range(7))
    assert query.offsets() == []
    seen = 7
    for count in (1, 5, 200, 3):
        append(log, count)
        assert query.offsets() == list(range(seen, seen + count))
        seen += count
    assert len(log.segments) > 3, "segments were rolled in between"
    assert query.checkpoint[-1] == {"orders": {"0": seen}}
    assert query.reader.reportLatestOffset() == {"orders": {"0": seen}}


def test_by_default_a_stream_begins_at_the_end_and_its_first_batch_is_empty(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 7)
    query = Query(tmp_path / "data")
    assert query.reader.initialOffset() == {"orders": {"0": 7}}
    append(log, 3)
    assert query.offsets() == []
    assert query.checkpoint == [{"orders": {"0": 7}}], "where it began is in the checkpoint before anything is read"
    assert query.offsets() == [7, 8, 9]
    append(log, 3)
    again = Query(tmp_path / "data", query.checkpoint)
    assert again.offsets() == [10, 11, 12]


def test_the_empty_first_batch_is_the_start_of_the_next_one(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 7)
    reader = Query(tmp_path / "data").reader
    assert reader.initialOffset() == {"orders": {"0": 7}}
    assert reader.latestOffset() == {"orders": {"0": 7}}
    log.truncate_to(5)
    with pytest.raises(StorageError, match="orders-0 was read up to offset 7 and ends at 5 now: it was truncated"):
        reader.latestOffset()


def test_a_query_goes_on_from_its_checkpoint_and_repeats_a_planned_batch_exactly(
    log: kafkalog.Log, tmp_path: Path
) -> None:
    append(log, 20)
    query = Query(tmp_path / "data", startingOffsets="earliest")
    query.trigger()
    append(log, 20)
    start = query.checkpoint[-1]
    end = query.reader.latestOffset(start, ReadAllAvailable())
    append(log, 200)
    again = Query(tmp_path / "data", [start], startingOffsets="earliest")
    assert [offset for _, _, offset in again.run(start, end)] == list(range(20, 40))
    assert Query(tmp_path / "data", [end]).offsets() == list(range(40, 240))


def test_what_the_index_knows_to_lie_before_the_start_is_not_read(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 40)
    assert len(log.segments) == 1
    query = Query(tmp_path / "data")
    start, end = {"orders": {"0": 33}}, {"orders": {"0": 38}}
    (task,) = query.reader.partitions(start, end)
    (piece,) = task.pieces
    batch = next(batch for batch in log.partition().batches() if batch.last_offset >= 33)
    assert 0 < piece.slice.start <= batch.position
    assert [offset for _, _, offset in query.run(start, end)] == list(range(33, 38))


def test_a_half_written_batch_is_not_data_yet(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 5)
    log.flush()
    path = last_segment(log)
    before = path.read_bytes()
    append(log, 5)
    log.flush()
    whole = path.read_bytes()
    for length in range(len(before), len(whole)):
        path.write_bytes(whole[:length])
        query = Query(tmp_path / "data", startingOffsets="earliest")
        assert query.offsets() == [0, 1, 2, 3, 4]
        if length % 17 == 0:
            path.write_bytes(whole)
            assert query.offsets() == [5, 6, 7, 8, 9]
    path.write_bytes(whole)


def test_a_reserved_segment_is_read_as_far_as_it_is_filled(tmp_path: Path) -> None:
    config = kafkalog.LogConfig(segment_bytes=20_000, preallocate=True)
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "orders-0", config) as log:
        query = Query(tmp_path / "data", startingOffsets="earliest")
        append(log, 5)
        assert query.offsets() == list(range(5))
        append(log, 5)
        log.flush()
        path = last_segment(log)
        whole = path.read_bytes()
        assert len(whole) == 20_000
        torn = bytearray(whole)
        end = len(whole.rstrip(b"\0"))
        torn[end - 30 : end] = bytes(30)
        path.write_bytes(torn)
        assert query.offsets() == [], "the header is there, not all of the records"
        path.write_bytes(whole)
        assert query.offsets() == list(range(5, 10))


def test_new_partitions_and_topics_are_read_from_their_beginning(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 3)
    query = Query(tmp_path / "data", subscribePattern="orders|late.*")
    assert query.trigger() == []
    (tmp_path / "data" / "orders-2").mkdir()  # a broker makes the directory first
    with (
        kafkalog.Log.open(tmp_path / "data" / "orders-1", SMALL) as one,
        kafkalog.Log.open(tmp_path / "data" / "later-0", SMALL) as other,
        kafkalog.Log.open(tmp_path / "data" / "unwanted-0", SMALL) as third,
    ):
        for each in (one, other, third):
            append(each, 2)
        assert sorted(query.trigger()) == [("later", 0, 0), ("later", 0, 1), ("orders", 1, 0), ("orders", 1, 1)]
    assert query.checkpoint[-1] == {"later": {"0": 2}, "orders": {"0": 3, "1": 2}}


def test_an_empty_log_directory_is_waited_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=TWFkZS11cC1jbHVzdGVyIQ\n")
    query = Query(data)
    assert query.trigger() == []
    assert query.checkpoint == [{}]
    with kafkalog.Log.open(data / "orders-0", SMALL) as log:
        append(log, 2)
        assert query.offsets() == [0, 1]


# --- where a stream begins ------------------------------------------------------------------------------------------

STARTS = [
    ({"startingOffsets": "earliest"}, 0),
    ({"startingOffsets": '{"orders":{"0":12}}'}, 12),
    ({"startingOffsets": '{"orders":{"0":-2}}'}, 0),
    ({"startingOffsets": '{"orders":{"0":-1}}'}, 30),
    ({"startingTimestamp": T0 + 17}, 17),
    ({"startingOffsetsByTimestamp": f'{{"orders":{{"0":{T0 + 8}}}}}'}, 8),
    ({"startingTimestamp": T0 + 999, "startingOffsetsByTimestampStrategy": "latest"}, 30),
]


@pytest.mark.parametrize(("options", "first"), STARTS, ids=str)
def test_starts(log: kafkalog.Log, tmp_path: Path, options: dict[str, Any], first: int) -> None:
    append(log, 30)
    query = Query(tmp_path / "data", **options)
    found = query.offsets()
    append(log, 2)
    assert found + query.offsets() == list(range(first, 32))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"endingOffsets": "latest"}, "endingOffsets has no effect for a stream"),
    ({"endingTimestamp": 5}, "endingTimestamp has no effect for a stream"),
    ({"maxOffsetsPerTrigger": 0}, "maxOffsetsPerTrigger must be a positive number"),
    ({"maxBytesPerTrigger": "1g"}, "maxBytesPerTrigger must be a positive number"),
    ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is a time like"),
    ({"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 6}, "minOffsetsPerTrigger is 6, above maxOffsetsPerTrigger"),
    ({"startingOffsets": '{"orders":{"0":-3}}'}, "offset -3 for orders-0"),
    ({"startingOffsets": '{"orders":{"1":3}}'}, "does not name orders-0; orders-1 is not read"),
    ({"startingOffsets": '{"orders":{"0":99}}'}, "names offset 99 of orders-0, which holds offsets 0 to 30"),
    ({"startingTimestamp": T0 + 999}, "no record at or after"),
    ({"subscribe": "orders,other"}, "other is not below"),
    ({"contents": "batches"}, "contents is batches, and a stream reads records"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=str)
def test_refusals(log: kafkalog.Log, tmp_path: Path, options: dict[str, Any], words: str) -> None:
    append(log, 30)
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        Query(tmp_path / "data", **options).trigger()


def test_a_segment_file_and_a_foreign_checkpoint_are_refused(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 3)
    with pytest.raises(UsageError, match="is a segment; a stream follows"):
        Query(last_segment(log)).trigger()
    with pytest.raises(UsageError, match=r"^s3://bucket/data is not a local path; a stream reads what is mounted"):
        Query("s3://bucket/data")
    for other in ("5", {"orders": 5}, {"orders": {"x": 1}}, json.loads('{"orders": {"0": 1e999}}')):
        with pytest.raises(UsageError, match="use another checkpointLocation"):
            Query(tmp_path / "data", [other]).trigger()  # type: ignore[list-item]


# --- how much a trigger reads ---------------------------------------------------------------------------------------


def test_most_offsets_of_a_trigger_are_shared_out_by_what_there_is(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 90)
    with kafkalog.Log.open(tmp_path / "data" / "orders-1", SMALL) as other:
        append(other, 10)
    query = Query(tmp_path / "data", startingOffsets="earliest", maxOffsetsPerTrigger=20)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(20)
    query.trigger()
    assert query.checkpoint == [{"orders": {"0": 18, "1": 2}}]
    while query.trigger():
        pass
    assert [len(batch) for batch in query.batches] == [20] * 5
    rows = sorted(row for batch in query.batches for row in batch)
    assert rows == [("orders", 0, n) for n in range(90)] + [("orders", 1, n) for n in range(10)]
    once = Query(tmp_path / "data", startingOffsets="earliest", maxOffsetsPerTrigger=20)
    assert len(once.trigger(ReadAllAvailable())) == 100


def test_most_bytes_of_a_trigger_count_whole_batches_and_at_least_one(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 100)
    sizes = [batch.size for batch in log.partition().batches()]
    most = 2000
    query = Query(tmp_path / "data", startingOffsets="earliest", maxBytesPerTrigger=most)
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(most)
    while query.trigger():
        pass
    assert [offset for batch in query.batches for _, _, offset in batch] == list(range(100))
    batches = [len(batch) // 5 for batch in query.batches]
    assert all(sum(sizes[:count]) <= most < sum(sizes[: count + 1]) + 100 for count in batches[:-1])
    tiny = Query(tmp_path / "data", startingOffsets="earliest", maxBytesPerTrigger=1)
    assert [len(tiny.trigger()) for _ in range(3)] == [5, 5, 5]


def test_too_few_offsets_wait_until_the_delay_is_over(
    log: kafkalog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 3)
    options: dict[str, Any] = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10, "maxTriggerDelay": "30s"}
    query = Query(tmp_path / "data", **options)
    assert query.reader.getDefaultReadLimit() == ReadMinRows(10)
    assert len(query.trigger()) == 3, "the first trigger does not wait"
    append(log, 9)
    assert query.trigger() == []
    append(log, 1)
    assert len(query.trigger()) == 10
    append(log, 1)
    assert query.trigger() == []
    later = time.monotonic() + 31
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: later))
    assert query.offsets() == [13]
    append(log, 2)
    now_only = Query(tmp_path / "data", query.checkpoint, **options)
    now_only.reader.prepareForTriggerAvailableNow()
    assert now_only.offsets() == [14, 15]


def test_too_few_offsets_wait_also_after_the_empty_first_batch_of_a_stream_from_the_end(
    log: kafkalog.Log, tmp_path: Path
) -> None:
    append(log, 3)
    query = Query(tmp_path / "data", minOffsetsPerTrigger=10, maxTriggerDelay="30s")
    assert query.trigger() == []
    append(log, 9)
    assert query.trigger() == [], "as in Spark's Kafka source"
    append(log, 1)
    assert query.offsets() == list(range(3, 13))


def test_available_now_reads_to_where_the_log_ended_and_no_further(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 25)
    query = Query(tmp_path / "data", startingOffsets="earliest", maxOffsetsPerTrigger=10)
    query.reader.prepareForTriggerAvailableNow()
    found = []
    while rows := query.offsets():
        found += rows
        append(log, 10)
        with kafkalog.Log.open(tmp_path / "data" / f"new{len(found)}-0", SMALL) as other:
            append(other, 1)
    assert found == list(range(25))
    assert query.checkpoint[-1] == {"orders": {"0": 25}}
    again = Query(tmp_path / "data", query.checkpoint)
    again.reader.prepareForTriggerAvailableNow()
    late = again.trigger()
    assert [row for row in late if row[0] == "orders"] == [("orders", 0, n) for n in range(25, 55)]
    assert len(late) == 33, "and all of the topics that are new"
    assert again.trigger() == []


# --- what goes missing ----------------------------------------------------------------------------------------------


def lenient(path: Path, query: Query) -> Query:
    return Query(path, list(query.checkpoint), startingOffsets="earliest", failOnDataLoss="false")


def test_records_deleted_before_they_were_read(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 20)
    query = Query(tmp_path / "data", startingOffsets="earliest")
    query.trigger()
    append(log, 300)
    log.delete_records_before(250)
    assert log.delete_old_segments() > 0
    first = log.log_start_offset
    assert 20 < first <= 250
    with pytest.raises(
        StorageError, match=rf"^offsets 20 to {first - 1} of orders-0 were deleted .*failOnDataLoss=false"
    ):
        query.trigger()
    going_on = lenient(tmp_path / "data", query)
    with pytest.warns(RuntimeWarning, match=f"offsets 20 to {first - 1} of orders-0 were deleted"):
        assert going_on.offsets() == list(range(first, 320))
    append(log, 1)
    assert going_on.offsets() == [320]


def test_a_deletion_behind_what_was_read_is_no_loss(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 300)
    query = Query(tmp_path / "data", startingOffsets="earliest")
    query.trigger()
    log.delete_records_before(280)
    assert log.delete_old_segments() > 0
    append(log, 30)
    assert query.offsets() == list(range(300, 330))


def test_a_log_that_was_cut_and_grew_again(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 100)
    query = Query(tmp_path / "data", startingOffsets="earliest")
    query.trigger()
    log.truncate_to(70)
    with pytest.raises(StorageError, match=r"^orders-0 was read up to offset 100 and ends at 70 now: it was truncated"):
        query.trigger()
    going_on = lenient(tmp_path / "data", query)
    with pytest.warns(RuntimeWarning, match="it was truncated"):
        assert going_on.offsets() == []
    append(log, 50)
    assert going_on.offsets() == list(range(70, 120))


def test_a_log_that_was_cut_below_the_end_that_is_remembered_is_read_again(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 50)
    query = Query(tmp_path / "data", startingOffsets='{"orders":{"0":10}}', maxOffsetsPerTrigger=10)
    assert query.offsets() == list(range(10, 20)), "the reader knows the log up to 50"
    log.truncate_to(30)
    append(log, 15, batch=2)
    found = []
    while rows := query.offsets():
        found += rows
    assert found == list(range(20, 45))


def test_a_planned_batch_that_was_cut_since(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 100)
    end = {"orders": {"0": 100}}
    log.truncate_to(70)
    strict = Query(tmp_path / "data", [{"orders": {"0": 10}}])
    with pytest.raises(StorageError, match="is to be read up to offset 100 and ends at 70 now"):
        strict.run({"orders": {"0": 10}}, end)
    with pytest.warns(RuntimeWarning, match="ends at 70 now"):
        found = lenient(tmp_path / "data", strict).run({"orders": {"0": 10}}, end)
    assert [offset for _, _, offset in found] == list(range(10, 70))


def test_a_partition_that_is_gone(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 5)
    other = kafkalog.Log.open(tmp_path / "data" / "orders-1", SMALL)
    append(other, 5)
    query = Query(tmp_path / "data", startingOffsets="earliest", subscribe="orders")
    assert len(query.trigger()) == 10
    other.close()
    Path(other.path).rename(tmp_path / "data" / "orders-1.0123456789abcdef0123456789abcdef-delete")
    with pytest.raises(StorageError, match=r"^orders-1, read up to offset 5, no longer exists"):
        query.trigger()
    going_on = lenient(tmp_path / "data", query)
    append(log, 1)
    with pytest.warns(RuntimeWarning, match="orders-1, read up to offset 5"):
        assert going_on.trigger() == [("orders", 0, 5)]
    assert going_on.checkpoint[-1] == {"orders": {"0": 6}}


def test_damage_ends_the_stream_or_is_left_out(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 10)
    query = Query(tmp_path / "data", startingOffsets="earliest")
    query.trigger()
    append(log, 10)
    log.flush()
    path = last_segment(log)
    content = bytearray(path.read_bytes())
    at = content.index(b"12" * 4)
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(KafkaLogError, match=r"crc_mismatch.*PERMISSIVE"):
        query.trigger()
    dropping = Query(tmp_path / "data", list(query.checkpoint), mode="DROPMALFORMED")
    with pytest.warns(RuntimeWarning, match="left out 1 unreadable"):
        assert dropping.offsets() == [15, 16, 17, 18, 19]


def test_a_segment_that_is_replaced_between_planning_and_reading(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 100)
    query = Query(tmp_path / "data", startingOffsets='{"orders":{"0":4}}')
    start, end = query.reader.initialOffset(), {"orders": {"0": 100}}
    tasks = query.reader.partitions(start, end)
    first = log.partition().segments[0]
    kept = [batch for number, batch in enumerate(first.batches()) if number != 2]  # as compaction leaves it
    content = b"".join(batch.data for batch in kept)
    Path(first.path).with_suffix(".swap").write_bytes(content)
    Path(first.path).with_suffix(".swap").replace(first.path)
    with pytest.raises(KafkaLogError, match=str(first.path)):
        [batch for task in tasks for batch in query.reader.read(task)]
    assert [offset for _, _, offset in query.run(start, end)] == [n for n in range(4, 100) if not 10 <= n < 15]


# --- transactions ---------------------------------------------------------------------------------------------------


def transaction(log: kafkalog.Log, producer_id: int, count: int, *, sequence: int = 0) -> None:
    producer = kafkalog.ProducerState(
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )
    append(log, count, batch=count, producer=producer)


def test_committed_records_only_and_none_of_an_open_transaction(log: kafkalog.Log, tmp_path: Path) -> None:
    committed: dict[str, Any] = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    query = Query(tmp_path / "data", **committed)
    append(log, 5)
    transaction(log, 1, 5)
    append(log, 5)
    assert query.offsets() == list(range(5)), "what follows an open transaction waits"
    transaction(log, 2, 5)
    log.end_transaction(1, 0, commit=True)  # 20
    assert query.offsets() == list(range(5, 15))
    log.end_transaction(2, 0, commit=False)  # 21
    append(log, 2)
    assert query.offsets() == [22, 23]
    transaction(log, 1, 3, sequence=5)  # 24 to 26
    again = Query(tmp_path / "data", list(query.checkpoint), **committed)
    assert again.trigger() == []
    log.roll()
    log.end_transaction(1, 0, commit=False)
    append(log, 1)
    assert query.offsets() == again.offsets() == [28]
    everything = Query(tmp_path / "data", startingOffsets="earliest")
    assert everything.offsets() == [n for n in range(29) if n not in (20, 21, 27)]


def test_a_start_behind_an_open_transaction_is_waited_for(log: kafkalog.Log, tmp_path: Path) -> None:
    append(log, 5)
    transaction(log, 1, 5)
    append(log, 5)
    committed: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    late = Query(tmp_path / "data", startingOffsets='{"orders":{"0":12}}', **committed)
    at_the_end = Query(
        tmp_path / "data", startingTimestamp=T0 + 999, startingOffsetsByTimestampStrategy="latest", **committed
    )
    newest = Query(tmp_path / "data", **committed)
    for query in (late, at_the_end, newest):
        assert query.trigger() == []
        assert query.trigger() == []
    assert [query.checkpoint[0]["orders"]["0"] for query in (late, at_the_end, newest)] == [12, 5, 5]
    log.end_transaction(1, 0, commit=True)
    append(log, 1)
    assert late.offsets() == [12, 13, 14, 16]
    assert at_the_end.offsets() == newest.offsets() == [*range(5, 15), 16]


def test_a_topic_that_the_options_no_longer_name_is_not_called_lost(log: kafkalog.Log) -> None:
    append(log, 5)
    root = str(Path(log.path).parent)
    logs = followed.FollowedLogs(parse_options({"path": root, "subscribe": "orders"}, streaming=True))
    with pytest.raises(StorageError, match=r"the checkpoint has visits-0, .* no longer name; name its topics again"):
        logs.check(logs.look(), {("orders", 0): 5, ("visits", 0): 5})


def test_an_end_before_the_start_is_a_log_that_was_cut(log: kafkalog.Log) -> None:
    """Before Spark 4.2 a restarted stream asks for the end without saying where it begins."""
    append(log, 50)
    root = str(Path(log.path).parent)
    logs = followed.FollowedLogs(parse_options({"path": root}, streaming=True))
    with pytest.raises(StorageError, match="orders-0 was read up to offset 100 and ends at 50 now: it was truncated"):
        logs.plan({("orders", 0): 100}, {("orders", 0): 50})
