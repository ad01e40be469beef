"""Polars, DuckDB and pyarrow on the same table give the same rows, and read less where a filter says where rows are."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from msgspec import structs

import kafkalog
import kafkalog.duckdb
import kafkalog.polars
from kafkalog.codec.common.errors import UsageError
from kafkalog.log.writing.building import build_partitions
from kafkalog.values.pushdown import Reach
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import unpack_values
from testkit.recorded.said_values import pylist, said, same
from testkit.running.shares import EACH

TOPICS = ["references-cedar", "unions-zephyr", "plainjson-basil"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_values(tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="module")
def middle(recorded: Path) -> datetime.datetime:
    times = sorted(pa.table(kafkalog.KafkaTable(kafkalog.TableScan(topics=TOPICS), recorded))["timestamp"].to_pylist())
    found: datetime.datetime = times[len(times) // 2]
    return found


QUERIES: list[tuple[str, Callable[[datetime.datetime], pl.Expr]]] = [
    ('"offset" >= 5 and "offset" < 9', lambda t: (pl.col("offset") >= 5) & (pl.col("offset") < 9)),
    ('"offset" between 5 and 9', lambda t: pl.col("offset").is_between(5, 9)),
    ("\"offset\" > 5 and \"offset\" < 9 and topic = 'unions-zephyr'",
     lambda t: pl.col("offset").is_between(5, 9, closed="none") & (pl.col("topic") == "unions-zephyr")),
    ('"timestamp" >= $t and "timestamp" <= $t', lambda t: pl.col("timestamp").is_between(t, t)),
    ('"offset" = 3', lambda t: pl.col("offset") == 3),
    ("partition = 1", lambda t: pl.col("partition") == 1),
    ("topic = 'unions-zephyr'", lambda t: pl.col("topic") == "unions-zephyr"),
    ("topic = 'unions-zephyr' and partition = 0 and \"offset\" > 7",
     lambda t: (pl.col("topic") == "unions-zephyr") & (pl.col("partition") == 0) & (pl.col("offset") > 7)),
    ("topic in ('plainjson-basil', 'x')", lambda t: pl.col("topic").is_in(["plainjson-basil", "x"])),
    ('"timestamp" >= $t', lambda t: pl.col("timestamp") >= t),
    ('"timestamp" < $t', lambda t: pl.col("timestamp") < t),
    ('"timestamp" >= $t and "offset" < 20', lambda t: (pl.col("timestamp") >= t) & (pl.col("offset") < 20)),
    ('"offset" < 3 or "offset" > 25', lambda t: (pl.col("offset") < 3) | (pl.col("offset") > 25)),
    ("value is null", lambda t: pl.col("value").is_null()),
    ('"offset" > 1000', lambda t: pl.col("offset") > 1000),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expression"), QUERIES, ids=[sql for sql, _ in QUERIES])
def test_a_filter_gives_the_same_rows_everywhere(
    sql: str, expression: Callable[[datetime.datetime], pl.Expr], recorded: Path, middle: datetime.datetime
) -> None:
    whole = pl.DataFrame(pl.from_arrow(pa.table(kafkalog.KafkaTable(kafkalog.TableScan(topics=TOPICS), recorded))))
    wanted = sorted(whole.filter(expression(middle)).select("topic", "partition", "offset", "value").rows())
    lazy = kafkalog.polars.scan(kafkalog.TableScan(topics=TOPICS), str(recorded))
    for engine in ("in-memory", "streaming"):
        found = lazy.filter(expression(middle)).select("topic", "partition", "offset", "value")
        assert sorted(found.collect(engine=engine).rows()) == wanted  # type: ignore[call-overload,unused-ignore]
    records = kafkalog.duckdb.dataset(kafkalog.TableScan(topics=TOPICS), str(recorded))
    connection = duckdb.connect()
    connection.register("records", records)
    query = f'select topic, partition, "offset", value from records where {sql}'
    parameters = {"t": middle} if "$t" in sql else {}
    assert sorted(connection.execute(query, parameters).fetchall()) == wanted


def test_counts_limits_and_no_columns(recorded: Path) -> None:
    lazy = kafkalog.polars.scan(kafkalog.TableScan(topics=TOPICS), str(recorded))
    count = len(pa.table(kafkalog.KafkaTable(kafkalog.TableScan(topics=TOPICS), recorded)))
    assert count == 90
    assert lazy.select(pl.len()).collect().item() == count
    assert len(lazy.head(7).collect()) == 7
    assert len(lazy.head(40).filter(pl.col("offset") > 20).collect()) == len(
        lazy.collect().head(40).filter(pl.col("offset") > 20)
    )
    records = kafkalog.duckdb.dataset(kafkalog.TableScan(topics=TOPICS), str(recorded))
    connection = duckdb.connect()
    connection.register("records", records)
    assert connection.execute("select count(*) from records").fetchone() == (count,)
    assert len(connection.execute("select * from records limit 4").fetchall()) == 4


@EACH
def test_every_recorded_value_is_the_same_in_each_engine(each: int, recorded: Path) -> None:
    """As in Arrow, whose values are compared with the recording elsewhere."""
    compared = 0
    found = kafkalog.open(recorded).partitions
    names = sorted({place.topic for place in found if place.topic and place.topic[0] != "_"})
    for topic in names[::each]:
        scan = kafkalog.TableScan(topics=topic, values="auto", on_damage="stop")
        columns = ["partition", "offset", "key", "value"]
        lazy = kafkalog.polars.scan(scan, str(recorded), findings=[]).select(columns).sort("partition", "offset")
        connection = duckdb.connect()
        connection.sql("set timezone = 'UTC'")
        connection.register("records", kafkalog.duckdb.dataset(scan, str(recorded), findings=[]))
        query = 'select partition, "offset", key, value from records order by 1, 2'
        whole = pa.table(kafkalog.KafkaTable(scan, recorded, findings=[])).sort_by(
            [("partition", "ascending"), ("offset", "ascending")]
        )
        for table_of in (lazy.collect().to_arrow(), connection.sql(query).to_arrow_table()):
            assert table_of["offset"].to_pylist() == whole["offset"].to_pylist()
            for part in ("key", "value"):
                pair = [
                    [said(value, table.schema.field(part).type) for value in pylist(table[part].combine_chunks())]
                    for table in (whole, table_of)
                ]
                assert all(map(same, *pair)), (topic, part)
                compared += len(table_of)
    assert compared > 2500 // each - 300


def test_decoded_values_are_columns(recorded: Path) -> None:
    scan = kafkalog.TableScan(topics="references-cedar", values="auto")
    wanted = pa.table(kafkalog.KafkaTable(scan, recorded))["value"].to_pylist()
    lazy = kafkalog.polars.scan(scan, str(recorded))
    assert [row[0] for row in lazy.select(pl.col("value").struct.field("name")).collect().rows()] == [
        each and each["name"] for each in wanted
    ]
    connection = duckdb.connect()
    connection.register("records", kafkalog.duckdb.dataset(scan, str(recorded)))
    names = connection.execute('select value.name from records order by "offset"').fetchall()
    assert [each for (each,) in names] == [each and each["name"] for each in wanted]
    assert connection.execute("select count(*) from records where finding is not null").fetchone() == (0,)


def test_committed_records_only() -> None:
    (broker,) = brokers("4.1.1/txn")[:1]
    counts = {}
    for level in ("read_uncommitted", "read_committed"):
        table = kafkalog.KafkaTable(kafkalog.TableScan(filter=kafkalog.RecordFilter(isolation_level=level)), broker)
        counts[level] = len(pa.table(table))
        assert counts[level] == sum(
            len(list(each.records(kafkalog.RecordFilter(isolation_level=level)))) for each in table.partitions
        )
    assert counts["read_committed"] < counts["read_uncommitted"]


def test_topics_of_different_types_are_refused(recorded: Path) -> None:
    with pytest.raises(UsageError, match="have different types"):
        kafkalog.KafkaTable(kafkalog.TableScan(topics=["references-cedar", "logical-ember"], values="auto"), recorded)
    with pytest.raises(kafkalog.KafkaLogError):
        kafkalog.KafkaTable(kafkalog.TableScan(topics="no-such-topic"), recorded)


def test_a_filter_spares_partitions_and_offsets(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kafkalog.KafkaTable(kafkalog.TableScan(topics=TOPICS), recorded)
    read: list[tuple[str, Any, Any]] = []
    plain = kafkalog.Partition.to_arrow

    def to_arrow(self: kafkalog.Partition, *given: Any, **options: Any) -> Any:
        read.append((str(self.name), given[1].start_offset, given[1].end_offset))
        return plain(self, *given, **options)

    monkeypatch.setattr(kafkalog.Partition, "to_arrow", to_arrow)
    filter = (ds.field("topic") == "unions-zephyr") & (ds.field("partition") == 1) & (ds.field("offset") == 4)
    assert sum(batch.num_rows for batch in table.read(["value"], filter)) == 1
    assert read == [("unions-zephyr-1", 4, 5)]


@pytest.mark.parametrize(
    ("closed", "bounds"), [("both", (100, 110)), ("left", (100, 109)), ("right", (101, 110)), ("none", (101, 109))]
)
def test_is_between_hands_both_ends_down(
    closed: Literal["both", "left", "right", "none"],
    bounds: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        log.append([kafkalog.NewRecord(key=None, value=b"v", timestamp=number) for number in range(200)])
    read: list[tuple[Any, Any]] = []
    plain = kafkalog.Partition.to_arrow

    def to_arrow(self: kafkalog.Partition, *given: Any, **options: Any) -> Any:
        read.append((given[1].start_offset, given[1].end_offset))
        return plain(self, *given, **options)

    lazy = kafkalog.polars.scan(tmp_path / "data")
    monkeypatch.setattr(kafkalog.Partition, "to_arrow", to_arrow)
    between = pl.col("offset").is_between(100, 109, closed=closed)
    for other in (pl.lit(True), pl.col("partition") == 0, pl.col("value").is_not_null()):
        assert lazy.filter(between & other).collect()["offset"].to_list() == list(range(*bounds))
    assert set(read) == {(100, bounds[1])}  # one row too many is filtered out


@pytest.mark.parametrize("field", ["offset", "timestamp"])
def test_rows_do_not_depend_on_what_is_handed_down_where_reading_stops_at_damage(field: str, tmp_path: Path) -> None:
    """A reader that begins at a lower bound behind the damage would not meet it."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    log = min((root / "sessions-20-1").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF
    log.write_bytes(data)
    scan = kafkalog.TableScan(topics="sessions-20", on_damage="stop")
    path = root / "sessions-20-1"
    table = kafkalog.KafkaTable(scan, path, findings=[])
    bound = 200 if field == "offset" else datetime.datetime(2019, 6, 18, 16, 0, tzinfo=datetime.UTC)
    condition = pc.field(field) >= pc.scalar(bound)
    unbounded = table.reader().read_all().filter(condition).num_rows
    assert unbounded == 0
    assert table.reader(filter=condition).read_all().filter(condition).num_rows == unbounded
    skipping = kafkalog.KafkaTable(structs.replace(scan, on_damage="skip"), path, findings=[])
    assert skipping.reader(filter=condition).read_all().filter(condition).num_rows > 0


def test_where_rows_of_a_filter_can_be() -> None:
    schema = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("topic", pa.string())])
    time = pa.scalar(1_700_000_000_000_000, pa.timestamp("us", "UTC"))
    offset, timestamp = ds.field("offset"), ds.field("timestamp")
    for filter, start, end, begin in (
        ((offset >= 10) & (offset <= 20), 10, 21, None),
        ((offset > 10) | (offset == 4), 4, 2**63 - 1, None),
        (timestamp >= time, 0, 2**63 - 1, 1_700_000_000_000),
        (timestamp < time, 0, 2**63 - 1, None),
        ((timestamp >= time) | timestamp.is_null(), 0, 2**63 - 1, None),
        ((offset + 1) > 10, 0, 2**63 - 1, None),
    ):
        reach = Reach(filter, schema)
        assert (reach.start_offset(), reach.end_offset(), reach.start_timestamp()) == (start, end, begin), str(filter)
    assert not Reach(ds.field("topic") == "a", schema).holds("topic", "b")
    assert Reach(ds.field("topic").isin(["a", "b"]), schema).holds("topic", "b")


def _keyed(folder: Path, count: int) -> Path:
    """A topic whose keys lie where the Java client sends them."""
    folder.mkdir()
    records = pa.record_batch({
        "value": [b"%d" % n for n in range(600)], "key": [b"key %d" % (n % 50) for n in range(600)],
        "topic": ["keyed"] * 600,
    })  # fmt: skip
    build_partitions([records], folder, num_partitions=count)
    return folder


def test_a_key_is_looked_for_where_the_partitioner_puts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _keyed(tmp_path / "data", 6)
    table = kafkalog.KafkaTable(kafkalog.TableScan(partitioner="murmur2", partition_count=6), data)
    read: list[int | None] = []
    plain = kafkalog.Partition.to_arrow

    def to_arrow(self: kafkalog.Partition, *given: Any, **options: Any) -> Any:
        read.append(self.partition)
        return plain(self, *given, **options)

    key = ds.field("key")
    everything = pa.Table.from_batches(table.read())
    monkeypatch.setattr(kafkalog.Partition, "to_arrow", to_arrow)
    for filter, keys in (
        (key == b"key 7", [b"key 7"]),
        (key.isin([b"key 1", b"key 30"]) & (ds.field("offset") >= 0), [b"key 1", b"key 30"]),
        ((key == b"key 3") | (key == b"nothing"), [b"key 3", b"nothing"]),
        (key > b"key 48", None), ((key == b"key 7") | key.is_null(), None),
        ((key == b"key 7") | (ds.field("offset") < 3), None), (ds.field("offset") < 5, None),
    ):  # fmt: skip
        read.clear()
        found = pa.Table.from_batches(table.read(filter=filter), table.schema).filter(filter)
        assert found.sort_by("value").equals(everything.filter(filter).sort_by("value"))
        expected = range(6) if keys is None else {kafkalog.partition_for_key(each, 6) for each in keys}
        assert set(read) == set(expected), filter
    read.clear()
    lazy = kafkalog.polars.scan(kafkalog.TableScan(partitioner="murmur2", partition_count=6), str(data))
    assert len(lazy.filter(pl.col("key") == b"key 9").collect()) == 12
    assert len(set(read)) == 6  # to know the columns
    assert read[6:] == [kafkalog.partition_for_key(b"key 9", 6)]


def test_a_partitioner_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    data = _keyed(tmp_path / "data", 6)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"partition_count": 12}, "does not lie where"),
        ({"partition_count": 3}, "is not known here"),
        ({}, "give partition_count"),
    ]
    for given, why in wrong:
        with pytest.raises(UsageError, match=why):
            kafkalog.KafkaTable(kafkalog.TableScan(partitioner="murmur2", **given), data)
    with pytest.raises(UsageError, match="does not lie where"):
        kafkalog.KafkaTable(kafkalog.TableScan(partitioner="hash", partition_count=6), data)


def test_the_number_of_partitions_is_in_the_metadata() -> None:
    (broker,) = brokers("4.1.1/segments")[:1]
    topics = {each.topic for each in kafkalog.open_all(broker).partitions if each.topic and each.topic[0] != "_"}
    table = kafkalog.KafkaTable(
        kafkalog.TableScan(topics=sorted(topics)[:1], partitioner=lambda key, count: 0, partition_count=1), broker
    )
    assert table.partitions
    kafkalog.KafkaTable(kafkalog.TableScan(topics=sorted(topics)[:1], partitioner="sticky"), broker)


def test_times_at_both_ends(recorded: Path, middle: datetime.datetime) -> None:
    time = int(middle.timestamp() * 1000)
    later = {"start_timestamp": time, "end_timestamp": time + 9}
    bounds: list[dict[str, Any]] = [{"start_timestamp": time}, {"end_timestamp": time}, later]
    for records in [kafkalog.RecordFilter(**each) for each in bounds]:
        table = kafkalog.KafkaTable(kafkalog.TableScan(topics=TOPICS, filter=records), recorded)
        some = [each.to_arrow(["offset"], records).read_all()["offset"].to_pylist() for each in table.partitions]
        wanted = [row for each in some for row in each]
        assert pa.table(table)["offset"].to_pylist() == wanted


def test_an_upper_bound_of_time_hides_no_earlier_time_behind_it(tmp_path: Path) -> None:
    """Producers set times: a filter is for every record, where `end_timestamp` ends at the first that is as late."""
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        for time in (10, 30, 20, 40):
            log.append([kafkalog.NewRecord(key=None, value=b"v", timestamp=1_700_000_000_000 + time)])
    bound = datetime.datetime.fromtimestamp(1_700_000_000.025, datetime.UTC)
    lazy = kafkalog.polars.scan(tmp_path / "data").filter(pl.col("timestamp") < bound)
    assert lazy.collect()["offset"].to_list() == [0, 2]
    connection = duckdb.connect()
    connection.register("records", kafkalog.duckdb.dataset(tmp_path / "data"))
    found = connection.execute('select "offset" from records where timestamp < ? order by 1', [bound]).fetchall()
    assert found == [(0,), (2,)]
    ended = kafkalog.TableScan(filter=kafkalog.RecordFilter(end_timestamp=1_700_000_000_025))
    assert kafkalog.polars.scan(ended, tmp_path / "data").collect()["offset"].to_list() == [0]


def test_a_bound_at_the_epoch_is_not_widened_by_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start timestamp of 0 is a bound, not a missing one."""
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        log.append([kafkalog.NewRecord(key=None, value=b"v", timestamp=10)])
    starts: list[int | None] = []
    plain = kafkalog.Partition.to_arrow

    def to_arrow(self: kafkalog.Partition, *given: Any, **options: Any) -> Any:
        starts.append(given[1].start_timestamp)
        return plain(self, *given, **options)

    monkeypatch.setattr(kafkalog.Partition, "to_arrow", to_arrow)
    earlier = pc.field("timestamp") >= pc.scalar(datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC))
    for requested in (0, 5, None):
        scan = kafkalog.TableScan(filter=kafkalog.RecordFilter(start_timestamp=requested))
        table = kafkalog.KafkaTable(scan, tmp_path / "data")
        assert table.reader(filter=earlier).read_all().num_rows == 1
    assert [start for start in starts if start is not None] == [0, 5, -86_400_000]
