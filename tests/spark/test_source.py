"""The format in Spark's hands: schema, columns, options, damage, views, registration."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from kafkalog.codec.model import BATCH, BatchHeader
from kafkalog.codec.native import thresholds
from kafkalog.log import open_all, open_partition
from kafkalog.log.directories.partition import Partition
from kafkalog.spark import register
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogInputPartition, LogReader
from kafkalog.spark.schema import SPARK_TYPES, Layout, arrow_schema, full_schema, layout_of
from kafkalog.spark.source import KafkaLogSource
from testkit.recorded.broker_dirs import brokers, own_copy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASE = "4.1.1/segments"


def partition_of(case_id: str = CASE) -> Partition:
    return max(open_all(*brokers(case_id)).readable(), key=lambda each: len(each.segments))


def load(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("kafkalog").options(**options).load(path)


def offsets(frame: DataFrame) -> list[int]:
    found: list[int] = frame.select("offset").toArrow()["offset"].to_pylist()
    return found


# --- schema ---------------------------------------------------------------------------------------------------------

KAFKA_SCHEMA = (
    "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
)
HEADERS = ",headers:array<struct<key:string,value:binary>>"


def test_the_schema_is_that_of_sparks_kafka_source(spark: SparkSession) -> None:
    path = str(brokers(CASE)[0])
    assert load(spark, path).schema.simpleString() == KAFKA_SCHEMA + ">"
    with_headers = load(spark, path, includeHeaders=True).schema
    assert with_headers.simpleString() == KAFKA_SCHEMA + HEADERS + ">"
    assert all(field.nullable for field in with_headers)
    assert load(spark, path, mode="PERMISSIVE").schema.simpleString() == KAFKA_SCHEMA + ",_corrupt_record:string>"


def test_our_arrow_types_are_those_that_spark_expects() -> None:
    schema = StructType()
    for name, kind in SPARK_TYPES.items():
        schema.add(name, kind)
    layout = layout_of(schema, parse_options({"path": "x"}))
    assert layout.arrow().equals(arrow_schema(schema))
    permissive = parse_options({"path": "x", "mode": "PERMISSIVE"})
    whole = full_schema(permissive)
    assert layout_of(whole, permissive).arrow().equals(arrow_schema(whole))


def test_a_subset_of_the_columns_in_any_order(spark: SparkSession) -> None:
    partition = partition_of()
    frame = spark.read.format("kafkalog").schema("sequence int, value binary, offset bigint").load(partition.path)
    rows = [(row.sequence, bytes(row.value), row.offset) for row in frame.collect() if row.value is not None]
    assert rows == [(each.sequence, each.value, each.offset) for each in partition.records() if each.value is not None]
    assert rows


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("offset bigint, nope int", "no column nope"),
        ("offset int", "column offset is bigint, not int"),
        ("headers array<string>", "column headers is array<struct<key:string,value:binary>>"),
        ("offset bigint, _corrupt_record string", "PERMISSIVE"),
    ],
)
def test_a_schema_that_the_source_has_not_is_refused(spark: SparkSession, schema: str, words: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.read.format("kafkalog").schema(schema).load(str(brokers(CASE)[0])).count()
    assert words in str(raised.value)


# --- paths and ranges -----------------------------------------------------------------------------------------------


def test_one_path_several_globs_a_partition_a_segment_and_a_folder_of_brokers(spark: SparkSession) -> None:
    partition = partition_of()
    broker = Path(partition.path).parent
    whole = load(spark, str(broker)).count()
    assert whole == load(spark, str(broker.parent)).count() == load(spark, f"{broker.parent}/broker-*").count()
    alone = [record.offset for record in partition.records()]
    assert offsets(load(spark, partition.path)) == alone
    segments = [each.path for each in partition.segments]
    both = spark.read.format("kafkalog").load(segments[:2])
    assert offsets(both) == [offset for offset in alone if offset < partition.segments[2].base_offset]
    row = load(spark, segments[0]).first()
    assert row is not None
    assert (row.topic, row.partition) == (partition.topic, partition.partition)


def test_ranges_by_offset_and_by_time(spark: SparkSession) -> None:
    partition = partition_of()
    records = list(partition.records())
    low, high = records[len(records) // 4].offset, records[len(records) // 2].offset
    name = {partition.topic: {str(partition.partition): low}}, {partition.topic: {str(partition.partition): high}}
    frame = load(
        spark, partition.path, startingOffsets=json.dumps(name[0]), endingOffsets=json.dumps(name[1])
    )  # fmt: skip
    assert offsets(frame) == [record.offset for record in records if low <= record.offset < high]
    time = records[len(records) // 2].timestamp
    first = next(record.offset for record in records if record.timestamp >= time)
    assert offsets(load(spark, partition.path, startingTimestamp=time)) == [
        record.offset for record in records if record.offset >= first
    ]
    assert offsets(load(spark, partition.path, endingTimestamp=time)) == [
        record.offset for record in records if record.offset < first
    ]


def test_records_without_a_timestamp_look_as_in_sparks_kafka_source(spark: SparkSession) -> None:
    row = load(spark, str(brokers("0.8.2.2/codecs")[0])).selectExpr("min(timestamp)", "max(timestampType)").first()
    assert row is not None
    shown = load(spark, str(brokers("0.8.2.2/codecs")[0])).selectExpr("cast(timestamp as string) as t").first()
    assert shown is not None
    assert shown.t == "1969-12-31 23:59:59.999"
    assert row[1] == -1


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("no/such/folder", {}, "UsageError: no/such/folder does not exist"),
        (
            "{broker}",
            {"startOffsets": "earliest"},
            "UsageError: kafkalog has no option startoffsets; is startingOffsets",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence_at_load(
    spark: SparkSession, path: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        load(spark, path.format(broker=brokers(CASE)[0]), **options)
    assert words in str(raised.value)


def test_a_batch_query_cannot_begin_at_the_end(spark: SparkSession) -> None:
    # said when it is planned: Spark asks for the schema without saying whether it is for a batch query or a stream
    with pytest.raises(AnalysisException, match="option startingOffsets cannot be latest in a batch"):
        load(spark, str(brokers(CASE)[0]), startingOffsets="latest").count()


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[str, int, list[int], list[int]]:
    """A partition with a flipped bit in the middle: path, position, all offsets, those of the batch."""
    healthy = partition_of()
    everything = [record.offset for record in healthy.records()]
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    victim = partition.segments[1]
    batches = list(victim.batches())
    batch = batches[len(batches) // 2]
    content = bytearray(Path(victim.path).read_bytes())
    content[batch.position + batch.size - 2] ^= 0x10
    Path(victim.path).write_bytes(content)
    header = batch.header
    assert isinstance(header, BatchHeader)
    lost = [
        offset for offset in everything if batch.last_offset - header.last_offset_delta <= offset <= batch.last_offset
    ]
    assert lost
    return partition.path, batch.position, everything, lost


Damaged = tuple[str, int, list[int], list[int]]


def test_damage_fails_at_once_and_says_where_and_what_to_do(spark: SparkSession, damaged: Damaged) -> None:
    path, position, _, _ = damaged
    with pytest.raises(PythonException) as raised:
        load(spark, path).count()
    message = str(raised.value)
    assert f"at byte {position}" in message
    assert path in message
    assert "crc_mismatch" in message
    assert "PERMISSIVE" in message


def test_damage_can_be_left_out(spark: SparkSession, damaged: Damaged) -> None:
    path, _, everything, lost = damaged
    found = offsets(load(spark, path, mode="DROPMALFORMED"))
    assert found == [offset for offset in everything if offset not in lost]


def test_damage_can_be_a_row_with_the_reason_or_the_bytes(spark: SparkSession, damaged: Damaged) -> None:
    path, position, everything, lost = damaged
    table = load(spark, path, mode="PERMISSIVE").toArrow()
    reasons = [reason for reason in table["_corrupt_record"].to_pylist() if reason is not None]
    (told,) = map(json.loads, reasons)
    assert (told["code"], told["start"], told["offset"]) == ("crc_mismatch", position, lost[0])
    content = Path(told["file"]).read_bytes()[told["start"] : told["end"]]
    assert base64.b64decode(told["bytes_b64"]) == content
    rows = zip(
        table["offset"].to_pylist(), table["value"].to_pylist(), table["_corrupt_record"].to_pylist(), strict=True
    )
    (corrupt,) = [row for row in rows if row[2] is not None]
    assert corrupt[:2] == (lost[0], None)
    assert table.num_rows == len(everything) - len(lost) + 1
    schema = "bad binary, offset bigint"
    source = spark.read.format("kafkalog").options(mode="PERMISSIVE", columnNameOfCorruptRecord="bad")
    bad = source.schema(schema).load(path).where("bad is not null").collect()
    assert [bytes(row.bad) for row in bad] == [content]


def test_a_torn_tail_is_the_end_and_no_failure(spark: SparkSession, tmp_path: Path) -> None:
    healthy = partition_of()
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    last = Path(partition.segments[-1].path)
    last.write_bytes(last.read_bytes()[:-1])
    expected = [record.offset for record in open_partition(partition.path).records()]
    assert offsets(load(spark, partition.path)) == expected


def test_files_that_vanish_or_shrink_behind_the_plan_are_lost_data(spark: SparkSession, tmp_path: Path) -> None:
    healthy = partition_of()
    partition = open_partition(own_copy(Path(healthy.path), tmp_path / Path(healthy.path).name))
    options = parse_options({"path": partition.path})
    lenient = parse_options({"path": partition.path, "failOnDataLoss": "false"})
    layout = Layout(names=("offset",), corrupt=None)
    (planned,) = LogReader(options, layout).partitions()
    segment = Path(partition.segments[1].path)
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match="failOnDataLoss"):
        list(LogReader(options, layout).read(planned))
    segment.unlink()
    with pytest.raises(OSError, match="no longer does"):
        list(LogReader(options, layout).read(planned))
    with pytest.warns(RuntimeWarning, match="no longer exists"):
        rows = sum(batch.num_rows for batch in LogReader(lenient, layout).read(planned))
    assert rows == sum(1 for each in healthy.records() if not _within(each.offset, healthy, 1))


def _within(offset: int, partition: Partition, number: int) -> bool:
    return partition.segments[number].base_offset <= offset < partition.segments[number + 1].base_offset


# --- registration, pickling, SQL --------------------------------------------------------------------------------------


def test_the_format_registers_itself_and_by_hand(spark: SparkSession) -> None:
    from pyspark_kafkalog import DefaultSource

    assert DefaultSource is KafkaLogSource
    path = str(brokers(CASE)[0])
    before = load(spark, path).count()  # nothing was registered by hand before, in this session
    register(spark)
    assert load(spark, path).count() == before > 0


def test_plans_and_readers_travel() -> None:
    options = parse_options({"path": str(brokers(CASE)[0])})
    reader = LogReader(options, Layout(names=("offset", "topic"), corrupt=None))
    for planned in reader.partitions():
        travelled = pickle.loads(pickle.dumps(planned))
        assert isinstance(travelled, LogInputPartition)
        one = list(pickle.loads(pickle.dumps(reader)).read(travelled))
        assert pa.Table.from_batches(one).equals(pa.Table.from_batches(list(reader.read(planned))))
    inherited = getattr(DataSourceReader, "pushFilters", None)  # which PySpark 4.0 does not have
    assert getattr(type(reader), "pushFilters", None) is inherited


def test_nothing_to_read_is_no_error(spark: SparkSession) -> None:
    assert load(spark, str(brokers(CASE)[0]), subscribePattern="no-topic-is-called-this").count() == 0


def test_views_in_sql_and_the_sentence_for_tables(spark: SparkSession) -> None:
    partition = partition_of()
    spark.sql(f"CREATE OR REPLACE TEMP VIEW records USING kafkalog OPTIONS (path '{partition.path}')")
    row = spark.sql("select count(*) as n, max(offset) as last from records").first()
    found = [record.offset for record in partition.records()]
    assert row is not None
    assert (row.n, row.last) == (len(found), found[-1])
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE records_table USING kafkalog OPTIONS (path '{partition.path}')")


def test_one_dataframe_used_twice_counts_right(spark: SparkSession) -> None:
    partition = partition_of()
    frame = load(spark, partition.path)
    found = [record.offset for record in partition.records()]
    some = frame.where(f"offset < {found[10]}")
    assert (some.count(), frame.count(), some.union(frame).count()) == (10, len(found), 10 + len(found))


def test_much_work_is_read_by_the_compiled_walk_with_the_same_result(spark: SparkSession, tmp_path: Path) -> None:
    """Recorded batches again and again, with increasing base offsets, which no checksum covers."""
    healthy = partition_of()
    batches = [batch for segment in healthy.segments for batch in segment.batches()]
    step = batches[-1].header.next_offset
    path = tmp_path / f"{healthy.topic}-{healthy.partition}" / "00000000000000000000.log"
    path.parent.mkdir()
    size = copies = 0
    with path.open("wb") as log:
        while size < 2 * thresholds.ENOUGH_BYTES:
            for batch in batches:
                base = BATCH.reader("base_offset")(batch.data, 0) + copies * step
                size += log.write(base.to_bytes(8, "big") + bytes(batch.data[8:]))
            copies += 1
    table = load(spark, str(path.parent), maxPartitionBytes=5_000_000).toArrow()
    records = list(healthy.records())
    assert table["offset"].to_pylist() == [each.offset + copy * step for copy in range(copies) for each in records]
    assert table["value"].to_pylist() == [each.value for each in records] * copies


def test_a_table_of_columns_is_read_with_options_at_every_use(spark: SparkSession) -> None:
    path = partition_of().path
    spark.sql("CREATE TABLE columns_only (value BINARY, offset BIGINT) USING kafkalog")
    try:
        (row,) = spark.sql(f"SELECT count(*) AS n FROM columns_only WITH ('path' = '{path}')").collect()
        assert row["n"] == spark.read.format("kafkalog").load(path).count() > 0
    finally:
        spark.sql("DROP TABLE columns_only")
