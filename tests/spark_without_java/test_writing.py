"""Writing without Spark: rows become batches in tasks, a commit makes them part of logs, all of them or none."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructType, TimestampType

import kafkalog
from kafkalog.codec.common.errors import FormatError, RecoveryRefused, StorageError, UsageError
from kafkalog.log.disk import files, fs
from kafkalog.log.writing.column_partitions import partitions_of
from kafkalog.log.writing.partitioners import legacy_partition, partition_for_key
from kafkalog.spark import leftovers as leftovers_module
from kafkalog.spark.commit import abandon, commit
from kafkalog.spark.commit_lock import in_turn
from kafkalog.spark.journal import _VERSION, Journal, Planned, load_journal, note_batch, save_journal
from kafkalog.spark.leftovers import clear_leftovers, leftovers
from kafkalog.spark.schema import SPARK_TYPES
from kafkalog.spark.sink_schema import check_schema, rows_of
from kafkalog.spark.staging import Staged, begin, work_directory
from kafkalog.spark.write_options import parse_write_options
from kafkalog.spark.write_task import Prepared, write_task
from kafkalog.spark.writer import LogArrowWriter, LogStreamArrowWriter
from testkit.running.command import kafkalog as kafkalog_command

SCHEMA = StructType().add("topic", StringType()).add("key", StringType()).add("value", StringType())
WITH_PARTITION = StructType([*SCHEMA.fields]).add("partition", IntegerType())
Value = tuple[int, bytes | None]


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    kinds = {"topic": pa.string(), "key": pa.string(), "value": pa.string(), "partition": pa.int32()}
    names = [name for name in kinds if any(name in row for row in rows)]
    return pa.RecordBatch.from_arrays([pa.array([row.get(name) for row in rows], kinds[name]) for name in names], names)


class Job:
    """One write, as Spark would run it: tasks of rows, then a commit."""

    def __init__(self, path: Path, schema: StructType = SCHEMA, *, overwrite: bool = False, **options: Any) -> None:
        self.prepared = Prepared({"path": str(path), **options}, schema, overwrite=overwrite)
        self.overwrite = overwrite
        self.work = Path(work_directory(str(path)))

    def task(self, number: int, rows: list[dict[str, Any]], attempt: str = "0", query: str | None = None) -> Staged:
        job = f"stream-{query}-{self.prepared.job}" if query else self.prepared.job
        begin(str(self.work), job)
        found = write_task(self.prepared, iter([batch_of(rows)]), job, number, attempt)
        return Staged(found.task, found.job, found.file, found.extents, query)

    def commit(self, messages: list[Staged], batch: int | None = None) -> None:
        commit(self.prepared.options, messages, overwrite=self.overwrite, batch=batch)


def rows(topic: str, *values: str, partition: int | None = None) -> list[dict[str, Any]]:
    found = [{"topic": topic, "key": f"k{value}", "value": value} for value in values]
    return found if partition is None else [{**row, "partition": partition} for row in found]


def write(path: Path, *tasks: list[dict[str, Any]], **options: Any) -> None:
    job = Job(path, WITH_PARTITION, **options)
    job.commit([job.task(number, each) for number, each in enumerate(tasks)])


def values(path: Path, topic: str, partition: int = 0) -> list[Value]:
    return [(each.offset, each.value) for each in kafkalog.open(path)[topic, partition].records()]


def texts(path: Path, topic: str, partition: int = 0) -> list[str]:
    return [(value or b"").decode() for _, value in values(path, topic, partition)]


# -- what is written -----------------------------------------------------------------------------------------------


def test_offsets_follow_the_order_of_the_tasks_and_go_on_where_the_log_ended(tmp_path: Path) -> None:
    path = tmp_path / "data"
    job = Job(path, WITH_PARTITION)
    second = job.task(1, rows("t", "c", partition=0))
    first = job.task(0, rows("t", "a", "b", partition=0) + rows("t", "x", partition=2))
    job.commit([second, first, Staged(2, "", "")])
    assert values(path, "t") == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert values(path, "t", 2) == [(0, b"x")]
    write(path, rows("t", "d", partition=0))
    assert values(path, "t") == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert kafkalog.verify(path).findings == []
    assert (path / ".kafka_cleanshutdown").exists()
    assert not (path / ".lock").exists()


def test_what_is_written_is_what_the_log_itself_would_have_written(tmp_path: Path) -> None:
    """Batch for batch: the same files as `Log.append` of the same records, but for the topic's random id."""
    path, other = tmp_path / "spark" / "data", tmp_path / "log" / "data"
    path.parent.mkdir()
    topic_id = "QqAfDQE1Sg-BH0s8eBYUyw"
    options: dict[str, Any] = {"segment.bytes": "2000", "index.interval.bytes": "100", "batch.size": "300"}
    job = Job(path, topic="t", topicId=topic_id, numPartitions="1", **options | {"compression.type": "lz4"})
    stamp = [pa.array([1_700_000_000_000_000 + n * 1000 for n in range(400)], pa.timestamp("us", tz="UTC"))]
    content = [pa.array([b"%d" % n * (n % 9) for n in range(400)]), *stamp]
    keys = pa.array([f"k{n}" for n in range(400)])
    table = pa.RecordBatch.from_arrays([keys, *content], ["key", "value", "timestamp"])
    begin(str(job.work), job.prepared.job)
    job.commit([write_task(job.prepared, iter([table]), job.prepared.job, 0, "0")])
    config = kafkalog.LogConfig(segment_bytes=2000, index_interval_bytes=100)
    os.makedirs(other)
    with kafkalog.Log.open(other / "t-0", config, topic_id=topic_id) as log:
        for batch in kafkalog.open(path)["t", 0].batches():
            found = [kafkalog.NewRecord(each.value, each.key, each.timestamp) for each in kafkalog.iter_records(batch)]
            log.append(found, compression="lz4")
    ours = {each.name: each.read_bytes() for each in sorted((path / "t-0").iterdir())}
    assert ours == {each.name: each.read_bytes() for each in sorted((other / "t-0").iterdir())}
    assert len(ours) > 20
    assert [value for _, value in values(path, "t")] == [b"%d" % n * (n % 9) for n in range(400)]


def test_attempts_that_nobody_names_leave_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    job = Job(path)
    failed = job.task(0, rows("t", "half"), attempt="7")
    good = job.task(0, rows("t", "whole"), attempt="8")
    assert failed.file != good.file
    job.commit([good])
    assert texts(path, "t") == ["whole"]


def test_an_attempt_that_outlives_its_job_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    job = Job(path)
    staged = job.task(0, rows("t", "one"))
    job.commit([staged])
    remove, calls = os.unlink, []

    def late(file: str, **where: Any) -> None:
        remove(file, **where)
        calls.append(file)
        if len(calls) == 1:
            (job.work / staged.job / "1-9.batches").write_bytes(b"begun while the others were being removed")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", late)
        abandon(str(job.work), [staged.job])
    assert len(calls) == 2
    with pytest.raises(UsageError, match="the job was ended"):
        write_task(job.prepared, iter([batch_of(rows("t", "two"))]), job.prepared.job, 1, "10")
    assert not job.work.exists()
    assert texts(path, "t") == ["one"]


def test_jobs_beside_each_other_leave_each_others_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    one, two = Job(path), Job(path)
    staged = one.task(0, rows("t", "one"))
    made, calls = fs.make_directory, []

    def removed_once(directory: str, **options: Any) -> bool:
        done = made(directory, **options)
        calls.append(directory)
        if len(calls) == 1:
            os.rename(two.work, tmp_path / "gone")  # as another job that ends does while nothing is in it
        return done

    with monkeypatch.context() as patch:
        patch.setattr(fs, "make_directory", removed_once)
        second = two.task(0, rows("t", "two"))
    os.rename(tmp_path / "gone" / staged.job, one.work / staged.job)
    one.commit([staged])
    abandon(str(one.work), [staged.job])
    two.commit([second])
    abandon(str(one.work), [second.job])
    assert texts(path, "t") == ["one", "two"]
    assert not one.work.exists()


def test_overwrite_replaces_the_topics_that_are_written_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write(path, rows("t", "a", partition=0) + rows("t", "b", partition=1) + rows("other", "c", partition=0))
    before = (path / "t-0" / "partition.metadata").read_text()
    write(path, rows("t", "new", partition=0), overwrite=True)
    assert (values(path, "t"), values(path, "t", 1)) == ([(0, b"new")], [])
    assert texts(path, "other") == ["c"]
    assert (path / "t-0" / "partition.metadata").read_text() == before
    assert sorted(each.name for each in path.iterdir() if each.is_dir()) == ["other-0", "t-0", "t-1"]
    assert kafkalog.verify(path).findings == []


def test_new_partitions_of_a_topic_have_its_id(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for number in range(3):
        write(path, rows("t", "a", partition=number))
    assert len({(path / f"t-{number}" / "partition.metadata").read_text() for number in range(3)}) == 1


def test_a_batch_of_a_stream_is_committed_once(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for batch, value in ((0, "a"), (0, "a"), (1, "b"), (0, "a"), (1, "b"), (2, "c")):
        job = Job(path)
        job.commit([job.task(0, rows("t", value), query="q")], batch)
    job = Job(path)
    job.commit([job.task(0, rows("t", "of another query"), query="r")], 0)
    assert texts(path, "t") == ["a", "b", "c", "of another query"]


# -- partitions ----------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40) | st.none(), max_size=30), st.integers(1, 50), st.integers(0, 5))
def test_keys_go_where_the_java_client_sends_them(keys: list[bytes | None], count: int, skipped: int) -> None:
    column = pa.array(keys, pa.binary()).slice(skipped)
    wanted = [None if key is None else partition_for_key(key, count) for key in keys[skipped:]]
    got = partitions_of(column, np.full(len(column), count, np.int64)).tolist()
    assert [number for number, key in zip(got, wanted, strict=True) if key is not None] == [
        key for key in wanted if key is not None
    ]


def test_long_keys_too() -> None:
    keys = [bytes([n % 256]) * (1000 + n) for n in range(60)]
    got = partitions_of(pa.array(keys), np.full(60, 7, np.int64)).tolist()
    assert got == [partition_for_key(key, 7) for key in keys]


def test_rows_without_a_key_take_turns_and_an_existing_topic_says_how_many_there_are(tmp_path: Path) -> None:
    path = tmp_path / "data"
    job = Job(path, numPartitions="3")
    keyless = [{"topic": "t", "value": str(n)} for n in range(6)]
    job.commit([job.task(number, keyless) for number in range(2)])
    assert [texts(path, "t", number) for number in range(3)] == [
        ["0", "3", "2", "5"], ["1", "4", "0", "3"], ["2", "5", "1", "4"],
    ]  # fmt: skip
    job = Job(path)
    job.commit([job.task(0, rows("t", *map(str, range(20))))])
    for number in range(3):
        keys = [each.key for each in kafkalog.open(path)["t", number].records(kafkalog.RecordFilter(start_offset=4))]
        assert keys
        assert {partition_for_key(key or b"", 3) for key in keys} == {number}
    with pytest.raises(
        UsageError, match="partition 2 of topic t exists, so it has at least 3, but option numPartitions is 2"
    ):
        Job(path, numPartitions="2").task(0, rows("t", "a"))


def test_the_option_partitioner_chooses_as_the_scala_producers_did(tmp_path: Path) -> None:
    path = tmp_path / "data"
    job = Job(path, numPartitions="5", partitioner="hash")
    job.commit([job.task(0, rows("t", *map(str, range(40))))])
    for number in range(5):
        keys = [each.key for each in kafkalog.open(path)["t", number].records()]
        assert keys
        assert {legacy_partition(key or b"", 5) for key in keys} == {number}
    with pytest.raises(UsageError, match="option partitioner is one of murmur2, hash, not 'sticky'"):
        Job(path, partitioner="sticky")


@pytest.mark.parametrize(("number", "options"), [(-1, {}), (10_000, {}), (3, {"numPartitions": "3"})])
def test_numbers_that_no_partition_can_have(tmp_path: Path, number: int, options: dict[str, Any]) -> None:
    job = Job(tmp_path / "data", WITH_PARTITION, **options)
    with pytest.raises(UsageError, match=f"partition {number} is not between 0 and"):
        job.task(0, rows("t", "a", partition=number))


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (StructType().add("value", StringType()), "topic option required when no 'topic' attribute is present"),
        (StructType().add("topic", StringType()), "required attribute 'value' not found"),
        (StructType([*SCHEMA.fields]).add("partition", LongType()), "column partition must be int, not bigint"),
        (StructType().add("topic", StringType()).add("value", LongType()), "column value must be string or binary"),
        (StructType([*SCHEMA.fields]).add("timestamp", LongType()), "column timestamp must be timestamp, not bigint"),
        (StructType([*SCHEMA.fields]).add("headers", ArrayType(StringType())), "column headers must be array<struct"),
    ],
)
def test_columns_that_sparks_sink_would_refuse(schema: StructType, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_schema(schema, None)


def test_everything_that_was_read_can_be_written() -> None:
    schema = StructType()
    for name, kind in SPARK_TYPES.items():
        schema.add(name, kind)
    check_schema(schema, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no path was given"),
        ({"path": "s3://b/d"}, "writes where files can be locked and renamed, not into s3:"),
        ({"path": "s3://logs[12]/d"}, "s3: the URI has a malformed host or bucket"),
        ({"path": "x", "compresion.type": "lz4"}, "no option compresion.type for writing; is compression.type or"),
        ({"path": "x", "compression.type": "brotli"}, "'brotli' is not one of none, gzip, snappy, lz4, zstd"),
        ({"path": "x", "numPartitions": "0"}, "option numPartitions is a number from 1"),
        ({"path": "x", "segment.bytes": "9" * 500}, "option segment.bytes is a number"),
        ({"path": "x", "topicId": "AAAA", "topic": "t"}, "option topicId"),
        ({"path": "x", "topicId": "QqAfDQE1Sg-BH0s8eBYUyw"}, "give its name with the option topic"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_write_options(options)


def test_options_as_the_kafka_sink_takes_them() -> None:
    given = {"path": "file:/a%20b", "kafka.compression.type": "ZSTD", "kafka.bootstrap.servers": "x", "batch.size": "5"}
    options = parse_write_options(given)
    assert (options.path, options.codec.label, options.batch_bytes) == ("/a b", "zstd", 5)
    assert options.ignored == ("kafka.bootstrap.servers",)


def test_rows_that_cannot_be_written(tmp_path: Path) -> None:
    job = Job(tmp_path / "data")
    with pytest.raises(UsageError, match="null topic present in the data"):
        job.task(0, [{"topic": "t", "value": "a"}, {"value": "b"}])
    with pytest.raises(UsageError, match=r"'\.\./up' is not the name of a topic"):
        job.task(0, rows("../up", "a"))
    with pytest.raises(UsageError, match=r"a batch of 20000[0-9]+ bytes for t-0: "):
        job.task(0, [{"topic": "t", "value": "v" * 2_000_000}])
    assert not (tmp_path / "data").exists()


def test_a_log_that_is_locked_damaged_or_none_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write(path, rows("t", "a", "b", partition=0))
    job = Job(path)
    message = job.task(0, rows("t", "c"))
    with kafkalog.Log.open(path / "t-0"), pytest.raises(UsageError, match=r"open for writing|is locked"):
        job.commit([message])
    log = path / "t-0" / "00000000000000000000.log"
    content = log.read_bytes()
    log.write_bytes(content[:-1])
    (path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(FormatError, match=r"recover\(.*\)"):
        job.commit([message])
    assert log.read_bytes() == content[:-1]
    assert load_journal(str(job.work)) is None
    with pytest.raises(UsageError, match="is a partition directory"):
        Job(path / "t-0").commit([Job(path / "t-0").task(0, rows("u", "c"))])
    with pytest.raises(UsageError, match="is not a directory"):
        Job(log)
    with pytest.raises(UsageError, match="outputMode complete"):
        LogStreamArrowWriter({"path": str(path)}, SCHEMA, overwrite=True)


def test_times_are_cut_to_milliseconds_downwards() -> None:
    micros = [1_999, -1, -1_000, 0, None, -(2**63)]
    column = pa.array(micros, pa.timestamp("us", tz="Europe/Berlin"))
    batch = pa.RecordBatch.from_arrays([pa.array(["v"] * 6), column], ["value", "timestamp"])
    assert rows_of(batch, 77).column("timestamp").to_pylist() == [1, -1, -1, 0, 77, -9223372036854776]
    assert isinstance(SPARK_TYPES["timestamp"], TimestampType)


# -- commits that do not end ---------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: nothing after this changes anything."""


@contextlib.contextmanager
def killed_at(monkeypatch: pytest.MonkeyPatch, step: int) -> Iterator[list[int]]:
    """Every change of the disk from the given one on does not happen."""
    steps = [0]
    wrapped = fs._wrapped

    @contextlib.contextmanager
    def counting(doing: str, path: str) -> Iterator[None]:
        steps[0] += 1
        if steps[0] > step:
            raise Killed
        with wrapped(doing, path):
            yield

    with monkeypatch.context() as patch:
        patch.setattr(fs, "_wrapped", counting)
        yield steps


def prepared(path: Path) -> None:
    write(path, rows("t", "a", "b", partition=0) + rows("u", "x", partition=0))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_commit_killed_at_any_moment_is_taken_back_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    template = tmp_path / "template"
    template.mkdir()
    prepared(template / "data")
    step, ended = 0, False
    outcomes = set()
    while not ended:
        root = tmp_path / str(step)
        shutil.copytree(template, root)
        path = root / "data"
        options: dict[str, Any] = {"segment.bytes": "200", "batch.size": "40"}
        job = Job(path, WITH_PARTITION, overwrite=overwrite, **options)
        given = rows("t", *"cdefgh", partition=0) + rows("t", "new", partition=1)
        message = job.task(0, given)
        with killed_at(monkeypatch, step):
            try:
                job.commit([message])
                ended = True
            except Killed:
                pass
        (path / ".lock").unlink(missing_ok=True)
        write(path, rows("u", "y", partition=0), **options)
        assert texts(path, "u") == ["x", "y"]
        found = texts(path, "t")
        whole = ([] if overwrite else ["a", "b"]) + [*"cdefgh"]
        if found == whole:
            assert texts(path, "t", 1) == ["new"]
        else:
            assert not ended
            assert found == ["a", "b"]
            assert not (path / "t-1").exists()
        outcomes.add(found == whole)
        assert load_journal(str(job.work)) is None
        problems = {each.code for each in kafkalog.verify(path).findings if each.severity != "info"}
        assert problems <= {"deleted_beyond_end"}, "segments of the commit that was taken back, until they are removed"
        assert not list(path.glob("*-delete")) + list(path.glob("*-stray"))
        shutil.rmtree(root)
        step += 2 if step < 40 else 17
    assert outcomes == {True, False}


def a_broker_starts(path: Path) -> None:
    """What `LogManager` deletes at once: directories that were being deleted."""
    for directory in path.glob("*-delete"):
        shutil.rmtree(directory)


def test_a_broker_that_starts_in_an_overwrite_deletes_nothing_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    """Killed at any moment; a broker starts, ls and verify name the commit, and the next one has all rows or none."""
    template = tmp_path / "template"
    template.mkdir()
    prepared(template / "data")
    step, ended, told = 0, False, 0
    outcomes = set()
    while not ended:
        root = tmp_path / str(step)
        shutil.copytree(template, root)
        path = root / "data"
        job = Job(path, WITH_PARTITION, overwrite=True, **{"segment.bytes": "200", "batch.size": "40"})
        message = job.task(0, rows("t", *"cdefgh", partition=0) + rows("t", "new", partition=1))
        with killed_at(monkeypatch, step), contextlib.suppress(Killed):
            job.commit([message])
            ended = True
        (path / ".lock").unlink(missing_ok=True)
        if (job.work / "commit.json").exists():
            told += 1
            for words in (("ls",), ("verify",)):
                finished = kafkalog_command(*words, str(path))
                assert "a commit from Spark has not ended" in finished.out + finished.err, (step, words)
            assert finished.code == 1
        a_broker_starts(path)
        write(path, rows("u", "y", partition=0))
        found = texts(path, "t")
        assert found in (["a", "b"], [*"cdefgh"]), step
        assert (path / "t-1").exists() is (found == [*"cdefgh"])
        outcomes.add(tuple(found))
        assert not (job.work / "commit.json").exists()
        shutil.rmtree(root)
        step += 3 if step < 40 else 17
    assert len(outcomes) == 2
    measured("overwrites killed, then a broker started: every row of before, or every new one", told)


def test_where_the_rows_of_before_are_gone_nothing_is_called_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    prepared(path)
    job = Job(path, WITH_PARTITION, overwrite=True)
    message = job.task(0, rows("t", "c", partition=0))
    with monkeypatch.context() as patch:
        patch.setattr("kafkalog.spark.commit._end", lambda *_: (_ for _ in ()).throw(Killed()))
        patch.setattr("kafkalog.spark.commit.save_journal", _only_the_first(save_journal))
        with pytest.raises(Killed):
            job.commit([message])
    for directory in path.glob("*-stray"):
        shutil.rmtree(directory)
    with pytest.raises(RecoveryRefused, match="is gone"):
        write(path, rows("u", "y", partition=0))


def _only_the_first(save: Callable[..., None]) -> Callable[..., None]:
    calls = []

    def saved(work: str, journal: Journal) -> None:
        calls.append(journal)
        if len(calls) == 1:
            save(work, journal)

    return saved


def test_two_jobs_that_commit_at_once_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "data"
    prepared(path)
    jobs = [Job(path, WITH_PARTITION) for _ in range(4)]
    messages = [job.task(0, rows("t", f"{number}", partition=0)) for number, job in enumerate(jobs)]
    with ThreadPoolExecutor(len(jobs)) as pool:
        for done in [pool.submit(job.commit, [each]) for job, each in zip(jobs, messages, strict=True)]:
            done.result()
    assert sorted(texts(path, "t")) == ["0", "1", "2", "3", "a", "b"]


def test_who_waits_too_long_says_so(tmp_path: Path) -> None:
    work = str(tmp_path / "data.writing")
    with in_turn(work), pytest.raises(UsageError, match="another commit"), in_turn(work, most_seconds=0.1):
        pass


def test_a_commit_that_fails_is_taken_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    prepared(path)
    options: dict[str, Any] = {"batch.size": "40"}
    job = Job(path, WITH_PARTITION, **options)
    message = job.task(0, rows("t", *"cdefgh", partition=0) + rows("v", *"cdefgh", partition=0))
    append, calls = fs.AppendFile.append, [0]

    def full(self: fs.AppendFile, data: bytes) -> None:
        if self.path.endswith(".log"):
            calls[0] += 1
            if calls[0] == 2:
                raise StorageError(28, "No space left on device", self.path)
        append(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(fs.AppendFile, "append", full)
        with pytest.raises(StorageError, match="No space left"):
            job.commit([message])
    assert texts(path, "t") == ["a", "b"]
    assert not (path / "v-0").exists()
    assert load_journal(str(job.work)) is None
    job.commit([message])
    assert texts(path, "t") == [*"abcdefgh"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_somebody_else_wrote_behind_a_broken_commit_is_never_taken_back(
    overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    prepared(path)
    job = Job(path, WITH_PARTITION, overwrite=overwrite)
    message = job.task(0, rows("t", "c", partition=0))
    with monkeypatch.context() as patch:
        patch.setattr("kafkalog.spark.commit.replace", lambda *_, **__: (_ for _ in ()).throw(Killed))
        patch.setattr("kafkalog.spark.commit._take_back", lambda *_: None)
        with pytest.raises(Killed):
            job.commit([message])
    with kafkalog.Log.open(path / "t-0") as log:
        log.append([b"of somebody else"])
    aside = [each.name for each in path.glob("*-stray")]
    assert len(aside) == overwrite
    first = 0 if overwrite else 2
    with pytest.raises(RecoveryRefused, match=f"from offset {first} on the log holds what is not of that com") as told:
        write(path, rows("t", "d", partition=0))
    assert ("the rows of before are in" in str(told.value)) is overwrite
    assert all(name in str(told.value) for name in aside)
    before = ["a", "b"][:first]
    assert texts(path, "t") == [*before, "c", "of somebody else"]
    shutil.rmtree(job.work)
    write(path, rows("t", "d", partition=0))
    assert texts(path, "t") == [*before, "c", "of somebody else", "d"]


JOURNALS = (
    "",
    "[]",
    '{"version": 1}',
    '{"version": 1, "job": "x", "query": 0, "batch": 0, "done": false, "partitions": [{"name": 5}]}',
    "[" * 100_000,
    json.dumps({"version": _VERSION, "checksum": hashlib.sha256(b"{}").hexdigest()}),
)


@pytest.mark.parametrize("text", JOURNALS)
def test_a_journal_that_no_commit_wrote_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "data"
    job = Job(path)
    message = job.task(0, rows("t", "c"))
    (job.work / "commit.json").write_text(text)
    with pytest.raises(FormatError, match=r"commit\.json"):
        job.commit([message])


def everything(root: Path) -> dict[str, bytes | None]:
    return {str(each.relative_to(root)): each.read_bytes() if each.is_file() else None for each in root.rglob("*")}


def of_another(journal: Journal, root: Path, tmp_path: Path) -> None:
    """A journal as the writer itself leaves it, of another directory: its checksum is right."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    save_journal(work_directory(str(elsewhere / "data")), journal)
    shutil.copytree(work_directory(str(elsewhere / "data")), work_directory(str(root)), dirs_exist_ok=True)


MARK = "0123456789abcdef" * 2
STRAY = f"t-0.{MARK}-stray"
HOSTILE = {
    "done": Journal(
        job=MARK,
        query=None,
        batch=None,
        partitions=(Planned(name="t-0", start=None, leader_epoch=0, replaced=STRAY, staged=(), inode=1),),
        done=True,
    ),
    "begun": Journal(
        job=MARK,
        query=None,
        batch=None,
        partitions=(Planned(name="t-0", start=None, leader_epoch=0, replaced=STRAY, staged=(), inode=1),),
    ),
    "new": Journal(
        job=MARK,
        query=None,
        batch=None,
        partitions=(Planned(name="t-0", start=None, leader_epoch=0, replaced=None, staged=()),),
    ),
    "cut": Journal(
        job=MARK,
        query=None,
        batch=None,
        partitions=(Planned(name="t-0", start=0, leader_epoch=0, replaced=None, staged=()),),
    ),
    "none": Journal(job=MARK, query=None, batch=None, partitions=(), done=True),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_journal_that_came_with_a_directory_is_not_obeyed(tmp_path: Path, what: str) -> None:
    path = tmp_path / "data"
    write(path, rows("t", "a", partition=0))
    (path / STRAY).mkdir()
    (path / STRAY / f"{0:020d}.log").touch()
    before = everything(path)
    of_another(HOSTILE[what], path, tmp_path)
    with pytest.raises(RecoveryRefused, match="another directory"):
        write(path, rows("u", "b", partition=0))
    assert everything(path) == before
    (Path(work_directory(str(path))) / "commit.json").unlink()
    write(path, rows("u", "b", partition=0))
    assert texts(path, "u") == ["b"]


@pytest.mark.parametrize(
    "planned",
    [
        Planned(name="../t-0", start=None, leader_epoch=0, replaced=None, staged=()),
        Planned(name="..", start=None, leader_epoch=0, replaced=None, staged=()),
        Planned(name="t", start=None, leader_epoch=0, replaced=None, staged=()),
        Planned(name=STRAY, start=None, leader_epoch=0, replaced=None, staged=()),
        Planned(name="t-0", start=None, leader_epoch=0, replaced="victim-0", staged=(), inode=1),
        Planned(name="t-0", start=None, leader_epoch=0, replaced="t-0", staged=(), inode=1),
        Planned(name="t-0", start=None, leader_epoch=0, replaced="../victim-0", staged=(), inode=1),
        Planned(name="t-0", start=None, leader_epoch=0, replaced=STRAY.replace("0123", "3210"), staged=(), inode=1),
        Planned(name="t-0", start=None, leader_epoch=0, replaced=STRAY, staged=()),
        Planned(name="t-0", start=-1, leader_epoch=0, replaced=None, staged=()),
        Planned(name="t-0", start=0, leader_epoch=0, replaced=None, staged=(("../../x", [(0, 1, 1)]),)),
    ],
)
def test_a_journal_names_what_a_commit_names_and_nothing_else(tmp_path: Path, planned: Planned) -> None:
    """Even one that is bound to this very directory, as somebody can make who knows its inode."""
    path = tmp_path / "data"
    write(path, rows("t", "a", partition=0))
    (path / "victim-0").mkdir()
    save_journal(work_directory(str(path)), Journal(job=MARK, query=None, batch=None, partitions=(planned,), done=True))
    before = everything(path)
    with pytest.raises(FormatError, match="journal"):
        write(path, rows("u", "b", partition=0))
    assert everything(path) == before


def test_what_a_commit_set_aside_is_known_by_its_inode(tmp_path: Path) -> None:
    """A broker's own stray directory under the very name is not removed."""
    path = tmp_path / "data"
    write(path, rows("t", "a", partition=0))
    (path / STRAY).mkdir()
    (path / STRAY / f"{0:020d}.log").touch()
    inode = (path / STRAY).stat().st_ino
    for wrong, done in ((inode + 1, True), (inode, True)):
        planned = Planned(name="t-0", start=None, leader_epoch=0, replaced=STRAY, staged=(), inode=wrong)
        save_journal(
            work_directory(str(path)), Journal(job=MARK, query=None, batch=None, partitions=(planned,), done=done)
        )
        if wrong != inode:
            with pytest.raises(RecoveryRefused, match="is not the directory"):
                write(path, rows("u", "b", partition=0))
        else:
            write(path, rows("u", "b", partition=0))
        assert (path / STRAY).exists() is (wrong != inode)


@pytest.mark.parametrize("place", ["work", "job", "before"])
def test_nothing_is_removed_through_a_link(tmp_path: Path, place: str) -> None:
    path, home = tmp_path / "data", tmp_path / "home"
    write(path, rows("t", "a", partition=0))
    (home / MARK).mkdir(parents=True)
    (home / MARK / "thesis").write_text("years of work")
    os.utime(home / MARK, (0, 0))
    os.utime(home / MARK / "thesis", (0, 0))
    work = Path(work_directory(str(path)))
    journal = Journal(job=MARK, query=None, batch=None, partitions=(), done=True)
    if place == "work":
        shutil.rmtree(work, ignore_errors=True)
        work.symlink_to(home)
    elif place == "job":
        save_journal(str(work), journal)
        (work / MARK).symlink_to(home / MARK)
    else:
        (path / STRAY).symlink_to(home / MARK)
        found = Planned(
            name="t-0", start=None, leader_epoch=0, replaced=STRAY, staged=(), inode=(home / MARK).stat().st_ino
        )
        save_journal(str(work), Journal(job=MARK, query=None, batch=None, partitions=(found,), done=True))
    with pytest.raises((StorageError, RecoveryRefused)):
        write(path, rows("u", "b", partition=0))
    with contextlib.suppress(StorageError, RecoveryRefused, FormatError):
        clear_leftovers(path, 0)
    assert (home / MARK / "thesis").read_text() == "years of work"


def test_batches_that_a_foreign_list_calls_committed_are_not_left_out(tmp_path: Path) -> None:
    path, other = tmp_path / "data", tmp_path / "other"
    for root in (path, other):
        write(root, rows("t", "a", partition=0))
    note_batch(work_directory(str(other)), "q", 7)
    shutil.copytree(work_directory(str(other)), work_directory(str(path)), dirs_exist_ok=True)
    job = Job(path, WITH_PARTITION)
    with pytest.raises(RecoveryRefused, match="another directory"):
        job.commit([job.task(0, rows("t", "b", partition=0), query="q")], batch=3)
    assert texts(path, "t") == ["a"]


# --- an overwrite without rows, and what killed jobs leave ------------------------------------------------------------


def test_an_overwrite_without_a_row_empties_the_topic_it_names_and_is_refused_without(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, rows("a", "1", "2") + rows("b", "3"))
    for messages in ([], [Staged(0, "0" * 32, "0-0.batches")]):
        with pytest.raises(UsageError, match="the option topic"):
            Job(path, overwrite=True).commit(messages)
    assert len(list(kafkalog.open_partition(path / "a-0").records())) == 2, "all is as it was"
    for _ in range(2):
        Job(path, overwrite=True, topic="a").commit([])
        assert list(kafkalog.open_partition(path / "a-0").records()) == []
    assert len(list(kafkalog.open_partition(path / "b-0").records())) == 1
    assert kafkalog.verify(path).findings == []
    Job(path, overwrite=True, topic="new").commit([])
    assert kafkalog.open(path).live("new", 0) == []


def test_what_killed_jobs_left_goes_with_age_but_for_what_a_commit_needs(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, rows("a", "1"))
    clear_leftovers(path, 0)
    killed, running = Job(path), Job(path)
    for job in (killed, running):
        job.task(0, rows("a", "lost"))
    for each in [killed.work / killed.prepared.job, *(killed.work / killed.prepared.job).iterdir()]:
        os.utime(each, (1_000_000, 1_000_000))
    (killed.work / "somebody's").mkdir()
    os.utime(killed.work / "somebody's", (1_000_000, 1_000_000))
    found = leftovers(path)
    assert [each.job for each in found] == [killed.prepared.job, running.prepared.job]
    assert all(each.bytes > 60 and each.files == 1 for each in found)
    writer = LogArrowWriter({"path": str(path)}, SCHEMA, overwrite=False)
    writer.commit([])
    assert [each.job for each in leftovers(path)] == [running.prepared.job]
    assert (killed.work / "somebody's").is_dir()
    assert [each.job for each in clear_leftovers(path, 0)] == [running.prepared.job]
    assert leftovers(path) == []


def test_a_journal_whose_log_directory_is_gone_is_an_error_of_storage(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    save_journal(work_directory(str(path)), Journal(job="0" * 32, query=None, batch=None, partitions=()))
    path.rmdir()
    with pytest.raises(StorageError, match="cannot examine the directory: No such file or directory"):
        leftovers(path)


@pytest.mark.parametrize("is_link", [True, False])
def test_an_overwrite_of_what_is_no_directory_is_refused_before_anything_changes(is_link: bool, tmp_path: Path) -> None:
    """Written all the same, it could not be taken away at the end, and every commit after it was refused."""
    path, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    write(path, rows("a", "1") + rows("b", "2"))
    (path / "a-0").rename(elsewhere)
    (path / "a-0").symlink_to(elsewhere) if is_link else (path / "a-0").write_text("")
    job = Job(path, overwrite=True)
    with pytest.raises(UsageError, match="a-0 is not a directory, so no overwrite replaces it"):
        job.commit([job.task(0, rows("a", "9"))])
    write(path, rows("b", "3"))
    assert texts(path, "b") == ["2", "3"]
    (path / "a-0").unlink()
    elsewhere.rename(path / "a-0")
    assert texts(path, "a") == ["1"]


def test_what_vanishes_while_leftovers_are_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other jobs end at any time, and an error after a commit would have Spark write its rows again."""
    path = tmp_path / "out"
    write(path, rows("a", "1"))
    clear_leftovers(path, 0)
    unlisted, ended, running = jobs = [Job(path) for _ in range(3)]
    for job in jobs:
        job.task(0, rows("a", "2"))
        job.task(1, rows("a", "3"))
    kept, gone = sorted((running.work / running.prepared.job).iterdir())

    def listed_before_it_goes(directory: str) -> list[files.Entry]:
        if Path(directory).name == ended.prepared.job:
            shutil.rmtree(directory)
        entries = files.scan_directory(directory)
        if Path(directory) == running.work:
            shutil.rmtree(running.work / unlisted.prepared.job)
        elif Path(directory).name == running.prepared.job:
            gone.unlink()
        return entries

    monkeypatch.setattr(leftovers_module, "scan_directory", listed_before_it_goes)
    (found,) = leftovers(path)
    assert (found.job, found.files, found.bytes) == (running.prepared.job, 1, kept.stat().st_size)


def test_what_a_killed_commit_needs_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write(path, rows("a", "1"))
    clear_leftovers(path, 0)
    job = Job(path)
    job.task(0, rows("a", "2"))
    save_journal(str(job.work), Journal(job=job.prepared.job, query=None, batch=None, partitions=()))
    assert [each.is_pending for each in leftovers(path)] == [True]
    assert clear_leftovers(path, 0) == []
    (shown,) = kafkalog_command("staging", str(path), "--json").objects
    assert shown["staged"][0]["pending"] is True
    (job.work / "commit.json").unlink()
    assert kafkalog_command("staging", str(path), "--clear").code == 0
    done = kafkalog_command("staging", str(path), "--clear", "--older-than", "0")
    assert done.code == 2
    assert job.prepared.job in done.out
    assert not job.work.exists()


@pytest.mark.parametrize(
    ("codec", "level", "right"),
    [("gzip", 9, True), ("gzip", 10, False), ("gzip", 0, False), ("lz4", 17, True), ("lz4", 18, False),
     ("zstd", 22, True), ("zstd", 99, False), ("zstd", -131_072, True), ("snappy", 1, False), ("none", 1, False)],
)  # fmt: skip
def test_a_level_that_a_compression_has_not_is_refused_when_planned(codec: str, level: int, right: bool) -> None:
    options = {"path": "x", "compression.type": codec, "compression.level": str(level)}
    if right:
        assert parse_write_options(options).level == level
        return
    with pytest.raises(UsageError, match=r"compression\.level"):
        parse_write_options(options)


def test_what_sparks_sink_refuses_is_refused() -> None:
    for name in ("kafka.key.serializer", "kafka.value.serializer"):
        with pytest.raises(UsageError, match=name):
            parse_write_options({"path": "x", name: "y"})
