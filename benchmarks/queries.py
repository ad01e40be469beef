"""Twelve questions of analysts, asked of log directories and of Parquet that was exported from them.

`python benchmarks/queries.py [ROWS] [--folder DIR] [--spark-avro JAR]`: ten-field Avro values that do not repeat, in
compressed batches of four partitions, with times that go on and jump a little.  Polars, DuckDB and, with the jar of
spark-avro, Spark with its own `from_avro` answer each question from both; all answers must be the same.  Bytes are
those that came from the disk after its files were dropped from the cache, so DIR has to be on a disk; how far the
system reads ahead is a setting of the device, and is printed.  Then come questions about one percent of the time, where
bytes are also those that were asked for, and values into Arrow beside `from_avro`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
from msgspec.structs import replace
from support.orders import ID, SCHEMA
from support.process_times import tree_read
from support.processor import processor

import kafkalog
import kafkalog.duckdb
import kafkalog.polars
from kafkalog.codec.model import Codec
from kafkalog.log.disk.files import FileSource
from kafkalog.log.writing.building import build_partitions

PARTITIONS, IN_A_BUILD, START, EVERY_MS = 4, 50_000, 1_700_000_000_000, 1000
STATES = ("OPEN", "PAID", "SHIPPED")


def made_topic(folder: Path, rows: int) -> Path:
    """The topic and, beside it, its schema."""
    chosen, numbers = random.Random(7), np.random.default_rng(7)
    words = ["".join(chosen.choices("abcdefghijklmnopqrstuvwxyz", k=chosen.randint(3, 11))) for _ in range(4000)]
    parsed = fastavro.parse_schema(SCHEMA)
    who = [f"{chosen.choice(words)} {chosen.choice(words)}" for _ in range(max(rows // 50, 10))]

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, rows, IN_A_BUILD):
            count = min(IN_A_BUILD, rows - begin)
            values, keys = [], []
            for n in range(begin, begin + count):
                customer = who[int(chosen.paretovariate(1.2)) % len(who)]
                out = io.BytesIO(b"\0" + ID.to_bytes(4, "big"))
                out.seek(5)
                fastavro.schemaless_writer(out, parsed, {
                    "id": n, "customer": customer, "amount": round(chosen.lognormvariate(3, 1), 2),
                    "paid": chosen.random() < 0.7, "count": chosen.randrange(1, 30),
                    "note": " ".join(chosen.choices(words, k=5)) if chosen.random() < 0.4 else None,
                    "state": chosen.choice(STATES), "at": START + n * EVERY_MS,
                    "tags": chosen.sample(words, chosen.randrange(3)), "day": 19_000 + n // 86_400,
                })  # fmt: skip
                values.append(out.getvalue())
                keys.append(customer.encode())
            times = START + EVERY_MS * np.arange(begin, begin + count) - numbers.integers(0, 30_000, count)
            yield pa.record_batch({
                "value": values, "key": keys, "topic": ["orders"] * count,
                "timestamp": pa.array(times * 1000, pa.timestamp("us", "UTC")),
            })  # fmt: skip

    data = folder / "data"
    data.mkdir()
    build_partitions(batches(), data, num_partitions=PARTITIONS, codec=Codec.ZSTD)
    (folder / f"orders-value@{ID}.avsc").write_text(json.dumps(SCHEMA), encoding="utf-8")
    return data


class Question(NamedTuple):
    """In SQL that DuckDB and Spark share, and for Polars."""

    sql: str
    polars: Callable[[pl.LazyFrame], pl.LazyFrame]


def questions(rows: int) -> dict[str, Question]:
    """`orders` is the table; times as both understand them."""
    since = datetime.fromtimestamp(START / 1000, UTC) + timedelta(seconds=rows * 0.99)
    until = since + timedelta(seconds=rows * 0.002)
    value, col = pl.col("value").struct.field, pl.col
    shown, ended = (each.strftime("%Y-%m-%d %H:%M:%S+00:00") for each in (since, until))
    low, high = rows // PARTITIONS // 2, rows // PARTITIONS // 2 + 500
    return {
        "how many": Question("select count(*) from orders", lambda t: t.select(pl.len())),
        "how many in each partition": Question(
            "select partition, count(*) from orders group by partition", lambda t: t.group_by("partition").len()),
        "last offset of one partition": Question(
            "select max(offset) from orders where partition = 2",
            lambda t: t.filter(col("partition") == 2).select(col("offset").max())),
        "five hundred offsets": Question(
            f"select count(*), sum(value.count) from orders where offset >= {low} and offset < {high}",
            lambda t: t.filter((col("offset") >= low) & (col("offset") < high)).select(pl.len(), value("count").sum())),
        "the last hundredth of the time": Question(
            f"select count(*), sum(value.count) from orders where timestamp >= timestamp '{shown}'",
            lambda t: t.filter(col("timestamp") >= since).select(pl.len(), value("count").sum())),
        "a window within it": Question(
            f"select count(*) from orders where timestamp >= timestamp '{shown}' and timestamp < timestamp '{ended}'",
            lambda t: t.filter((col("timestamp") >= since) & (col("timestamp") < until)).select(pl.len())),
        "sums by state": Question(
            "select value.state, count(*), sum(value.count) from orders group by value.state",
            lambda t: t.group_by(value("state").alias("state")).agg(pl.len(), value("count").sum())),
        "the ten best customers": Question(
            "select value.customer, sum(value.count) n from orders group by value.customer order by n desc, 1 limit 10",
            lambda t: t.group_by(value("customer").alias("c")).agg(value("count").sum().alias("n"))
            .sort(["n", "c"], descending=[True, False]).head(10)),
        "how many customers": Question(
            "select count(distinct value.customer) from orders", lambda t: t.select(value("customer").n_unique())),
        "large and not paid": Question(
            "select count(*) from orders where value.amount > 100 and not value.paid",
            lambda t: t.filter((value("amount") > 100) & ~value("paid")).select(pl.len())),
        "without a note, by day": Question(
            "select value.day, count(*) from orders where value.note is null group by value.day",
            lambda t: t.filter(value("note").is_null()).group_by(value("day").alias("d")).len()),
        "the largest and smallest": Question(
            "select min(value.amount), max(value.amount) from orders",
            lambda t: t.select(value("amount").min().alias("low"), value("amount").max().alias("high"))),
    }  # fmt: skip


class Source(NamedTuple):
    """Where the rows are, for each engine."""

    name: str
    files: Path
    polars: Callable[[], pl.LazyFrame]
    duckdb: Callable[[duckdb.DuckDBPyConnection], None]


def sources(folder: Path, data: Path, exported: Path) -> list[Source]:
    """The log directory, and Parquet of it."""
    schemas = kafkalog.read_schemas(folder)
    scan = kafkalog.TableScan(topics="orders", values="auto", schemas=schemas, values_schema="orders-value")
    glob = f"{exported}/**/*.parquet"

    def register(connection: duckdb.DuckDBPyConnection) -> None:
        connection.register("orders", kafkalog.duckdb.dataset(scan, str(data)))

    return [
        Source("log directory", data, lambda: kafkalog.polars.scan(scan, str(data)), register),
        Source("Parquet", exported, lambda: pl.scan_parquet(glob, hive_partitioning=True),
               lambda connection: connection.execute(
                   f"create view orders as select * from read_parquet('{glob}', hive_partitioning = true)") and None),
    ]  # fmt: skip


def forgotten(folder: Path) -> int:
    """The bytes of its files, which the system forgets."""
    size = 0
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            size += path.stat().st_size
    return size


def _ahead(folder: Path) -> str:
    number = folder.stat().st_dev
    path = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/bdi/read_ahead_kb")
    return f"{path.read_text(encoding='ascii').strip()} KiB" if path.exists() else "nobody knows how far"


class Answer(NamedTuple):
    """Rows, seconds, bytes from the disk, and bytes that were asked for."""

    rows: list[tuple[Any, ...]]
    seconds: float
    read: int
    asked: int


def asked(work: Callable[[], list[tuple[Any, ...]]], files: Path) -> Answer:
    """Once to warm up, then with nothing in the cache."""
    work()
    forgotten(files)
    before, asked_for = tree_read(os.getpid()), tree_read(os.getpid(), "rchar")
    begun = time.perf_counter()
    rows = work()
    seconds = time.perf_counter() - begun
    asked_for = tree_read(os.getpid(), "rchar") - asked_for
    return Answer(sorted(map(_plain, rows), key=repr), seconds, tree_read(os.getpid()) - before, asked_for)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(each, 6) if isinstance(each, float) else each for each in row)


def in_polars(source: Source, question: Question) -> list[tuple[Any, ...]]:
    return question.polars(source.polars()).collect(engine="streaming").rows()


def in_duckdb(source: Source, question: Question) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    source.duckdb(connection)
    return connection.execute(question.sql.replace("offset", '"offset"')).fetchall()


def spark_tables(jar: str, data: Path, exported: Path) -> dict[str, Callable[[Question], list[tuple[Any, ...]]]]:
    """By source; of log directories `from_avro` decodes the values."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr
    from support.local_session import local_session

    spark = local_session(spark__jars=jar, spark__sql__session__timeZone="UTC", spark__sql__shuffle__partitions="2")
    plain = spark.read.format("kafkalog").load(str(data))
    decoded = plain.withColumn("value", from_avro(expr("substring(value, 6)"), json.dumps(SCHEMA)))
    tables = {"log directory": decoded, "Parquet": spark.read.parquet(str(exported))}

    def run(name: str, question: Question) -> list[tuple[Any, ...]]:
        tables[name].createOrReplaceTempView("orders")
        return [tuple(row) for row in spark.sql(question.sql).collect()]

    return {name: lambda question, name=name: run(name, question) for name in tables}  # type: ignore[misc]


def compare(folder: Path, data: Path, exported: Path, rows: int, jar: str | None) -> None:
    """The table of questions."""
    found = sources(folder, data, exported)
    ways: dict[str, dict[str, Callable[[Question], list[tuple[Any, ...]]]]] = {
        engine: {each.name: lambda question, each=each, work=work: work(each, question) for each in found}  # type: ignore[misc]
        for engine, work in (("Polars", in_polars), ("DuckDB", in_duckdb))
    }
    if jar is not None:
        ways["Spark"] = spark_tables(jar, data, exported)
    names = [each.name for each in found]
    print(f"| question | {' | '.join(f'{engine}, {name}' for engine in ways for name in names)} |")
    print("|---" * (1 + len(ways) * len(names)) + "|")
    for title, question in questions(rows).items():
        cells, answers = [], {}
        for engine, by_source in ways.items():
            for source in found:
                answer = asked(partial(by_source[source.name], question), source.files)
                answers[engine, source.name] = answer.rows
                cells.append(f"{answer.seconds:.2f} s, {answer.read / 1e6:.1f} MB")
        if len({repr(each) for each in answers.values()}) != 1:
            raise SystemExit(f"{title}: the answers are not the same: {answers}")
        print(f"| {title} | {' | '.join(cells)} |", flush=True)
    print(f"all {len(questions(rows))} answers are the same in {', '.join(ways)}, from the log directory and Parquet")


def _not_lent(self: FileSource, position: int, length: int) -> AbstractContextManager[None]:
    return nullcontext()


def a_hundredth(folder: Path, data: Path, rows: int) -> None:
    """How much is read for one percent of the time: at its end by a filter, in its middle by two bounds."""
    whole = forgotten(data)
    schemas = kafkalog.read_schemas(folder)
    scan = kafkalog.TableScan(topics="orders", values="auto", schemas=schemas, values_schema="orders-value")
    middle, width = START + rows * EVERY_MS // 2, rows * EVERY_MS // 100
    since = datetime.fromtimestamp((START + rows * EVERY_MS - width) / 1000, UTC)

    def at_the_end() -> list[tuple[Any, ...]]:
        frame = kafkalog.polars.scan(scan, str(data)).filter(pl.col("timestamp") >= since)
        return frame.select(pl.len(), pl.col("value").struct.field("count").sum()).collect().rows()

    def in_the_middle() -> list[tuple[Any, ...]]:
        bounds = kafkalog.RecordFilter(start_timestamp=middle, end_timestamp=middle + width)
        frame = kafkalog.polars.scan(replace(scan, filter=bounds), str(data))
        return frame.select(pl.len(), pl.col("value").struct.field("count").sum()).collect().rows()

    def everything() -> list[tuple[Any, ...]]:
        frame = kafkalog.polars.scan(scan, str(data))
        return frame.select(pl.col("value").struct.field("count").sum()).collect().rows()

    FileSource.lent = _not_lent  # memory that is lent is counted by nobody
    FileSource.prefers_reading = lambda self, position: True
    if (seen := asked(everything, data).asked) < whole * 0.95:
        raise SystemExit(f"of {whole} bytes only {seen} were counted when all was read: this count says nothing")
    for title, work in (("the last 1 % of the time", at_the_end), ("1 % in the middle, by both bounds", in_the_middle)):
        answer = asked(work, data)
        share = answer.asked / whole
        print(f"{title}: {answer.rows[0][0]} of {rows} rows, {answer.asked} of {whole} bytes asked for ({share:.1%}), "
              f"{answer.read} from the disk, {answer.seconds:.2f} s; at most 3 %: "
              f"{'yes' if share <= 0.03 else 'NO'}")  # fmt: skip


def beside_from_avro(folder: Path, data: Path, rows: int, jar: str) -> None:
    """The same values of one partition into columns, by each from its log."""
    from pyspark.sql import SparkSession
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    spark = SparkSession.getActiveSession()
    assert spark is not None
    plain = spark.read.format("kafkalog").load(str(data)).select("value").cache()
    plain.count()
    decoded = plain.select(from_avro(expr("substring(value, 6)"), json.dumps(SCHEMA)).alias("value")).select("value.*")
    schemas = kafkalog.read_schemas(folder)
    batches = [each for one in kafkalog.open(data).partitions for each in one.to_arrow(["value"])]

    def spark_decodes() -> None:
        decoded.write.format("noop").mode("overwrite").save()

    def spark_reads() -> None:
        plain.write.format("noop").mode("overwrite").save()

    def ours() -> None:
        from kafkalog.values.arrow_column import ColumnDecoder
        from kafkalog.values.column_schema import ColumnSchema
        from kafkalog.values.decoding import ValueDecoder

        decoder = ColumnDecoder(ValueDecoder(schemas), "orders", "value", ColumnSchema(schemas.latest("orders-value")))
        assert sum(len(decoder.decode(each.column("value"), None).values) for each in batches) == rows

    seconds = {}
    for name, work in (("read", spark_reads), ("from_avro", spark_decodes), ("ours", ours)):
        taken = []
        for _ in range(4):
            begun = time.perf_counter()
            work()
            taken.append(time.perf_counter() - begun)
        seconds[name] = min(taken[1:])
    theirs = max(seconds["from_avro"] - seconds["read"], 1e-9)
    print(f"{rows} values of ten fields from memory into columns: kafkalog, one thread, {seconds['ours']:.2f} s; "
          f"Spark's from_avro, two threads, {theirs:.2f} s beyond the {seconds['read']:.2f} s of passing the bytes on; "
          f"kafkalog is {theirs / seconds['ours']:.1f} x as fast")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=400_000)
    parser.add_argument("--folder", help="where the data goes; on a disk [the system's folder for temporary files]")
    parser.add_argument("--spark-avro", metavar="JAR", help="spark-avro, as Maven has it; without it Spark is left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        data = made_topic(folder, options.rows)
        begun = time.perf_counter()
        schemas = kafkalog.read_schemas(folder)
        request = kafkalog.Export(format="parquet", schemas=schemas, values_schema="orders-value")
        kafkalog.export(request, data, target=folder / "tables", jobs=2)
        seconds = time.perf_counter() - begun
        exported = folder / "tables" / "topic=orders"
        sizes = forgotten(data), forgotten(exported)
        print(f"{processor()}; {options.rows} rows; log directory {sizes[0] / 1e6:.1f} MB, Parquet "
              f"{sizes[1] / 1e6:.1f} MB, exported in {seconds:.1f} s ({options.rows / seconds:,.0f} rows/s)"
              )  # fmt: skip
        print(f"the disk reads ahead {_ahead(folder)}")
        compare(folder, data, exported, options.rows, options.spark_avro)
        a_hundredth(folder, data, options.rows)
        if options.spark_avro is not None:
            beside_from_avro(folder, data, options.rows, options.spark_avro)
        else:
            print("Spark was left out: give --spark-avro")
    return 0


if __name__ == "__main__":
    sys.exit(main())
