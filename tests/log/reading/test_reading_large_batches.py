"""Batches that unpack to more than the limit: read if a caller raises it, and an error that says how if not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from msgspec.structs import replace

import kafkalog
import kafkalog.duckdb
import kafkalog.polars
from kafkalog.codec import scan
from kafkalog.codec.common.errors import FormatError, LimitExceeded
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, UNPACKED_BYTES
from kafkalog.codec.compression import decompress
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.codec.plain.records import decode_batch
from kafkalog.spark.source import KafkaLogSource

SMALL = replace(DEFAULT_LIMITS, decompressed_batch_bytes=10_000)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    records = [Record(n, 1000, TimestampType.CREATE_TIME, None, b"a" * 1000) for n in range(20)]
    (tmp_path / "data" / "t-0" / f"{0:020}.log").write_bytes(build_batch(records, codec=Codec.ZSTD))
    return tmp_path / "data"


def test_limits_of_opening_are_those_of_all_that_is_read(directory: Path) -> None:
    small = kafkalog.open(directory, limits=SMALL)["t", 0]
    for read in (lambda: list(small.records()), lambda: small.to_arrow().read_all()):
        with pytest.raises(FormatError, match=UNPACKED_BYTES):
            read()
    assert sum(1 for _ in small.records(limits=replace(SMALL, decompressed_batch_bytes=50_000))) == 20
    assert sum(1 for _ in kafkalog.open(directory)["t", 0].records()) == 20


@pytest.mark.parametrize("codec", Codec)
def test_the_sentence_names_the_limit_and_one_that_suffices(codec: Codec) -> None:
    records = [Record(n, 1000, TimestampType.CREATE_TIME, None, b"a" * 30_000) for n in range(20)]
    (batch,) = scan(build_batch(records, codec=codec)).batches
    finding = decode_batch(batch, limits=SMALL).finding
    assert finding is not None
    assert finding.code is FindingCode.LIMIT_EXCEEDED
    for words in ("10000 bytes of decompressed_batch_bytes", "decompressedBatchBytes"):
        assert words in finding.detail
    (enough,) = set(re.findall(rf"{UNPACKED_BYTES}=(\d+)|decompressed_batch_bytes=(\d+)", finding.detail)[0]) - {""}
    assert 600_000 < int(enough) < 900_000
    assert decode_batch(batch, limits=replace(SMALL, decompressed_batch_bytes=int(enough))).finding is None


def test_a_stream_that_declares_too_little_names_no_figure() -> None:
    (batch,) = scan(
        build_batch([Record(0, 1000, TimestampType.CREATE_TIME, None, b"a" * 30_000)], codec=Codec.GZIP)
    ).batches
    stream = bytes(batch.payload)[:-4] + (5).to_bytes(4, "little")
    with pytest.raises(LimitExceeded, match=f"{UNPACKED_BYTES}=") as raised:
        decompress(Codec.GZIP, stream, SMALL)
    assert "by its own figures" not in str(raised.value)


def readers(directory: Path) -> dict[str, Callable[[kafkalog.Limits], int]]:
    """Each way to read, given the limits; how many records it has."""

    def spark(limits: kafkalog.Limits) -> int:
        options = {"path": str(directory), "decompressedBatchBytes": str(limits.decompressed_batch_bytes)}
        source = KafkaLogSource(options)
        reader = source.reader(source.schema())
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        return int(pa.Table.from_batches(batches).num_rows)

    def duck(limits: kafkalog.Limits) -> int:
        rows = kafkalog.duckdb.dataset(str(directory), limits=limits)  # noqa: F841 - the query names it
        relation = duckdb.sql('select "offset" from rows')
        assert relation is not None
        return len(relation.fetchall())

    return {
        "records": lambda limits: sum(1 for _ in kafkalog.open(directory, limits=limits)["t", 0].records()),
        "to_arrow": lambda limits: kafkalog.open(directory, limits=limits)["t", 0].to_arrow().read_all().num_rows,
        "table": lambda limits: kafkalog.KafkaTable(directory, limits=limits).reader().read_all().num_rows,
        "polars": lambda limits: kafkalog.polars.scan(str(directory), limits=limits).collect().height,
        "duckdb": duck,
        "spark": spark,
    }


@pytest.mark.parametrize("name", ["records", "to_arrow", "table", "polars", "duckdb", "spark"])
def test_every_reader_is_given_the_limit(name: str, directory: Path) -> None:
    read = readers(directory)[name]
    with pytest.raises(Exception, match=UNPACKED_BYTES):
        read(SMALL)
    assert read(replace(SMALL, decompressed_batch_bytes=50_000)) == 20


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("dump", "{}/t-0", "--json"), '"offset":19'),
        (("verify", "{}"), "20 records"),
        (("top", "{}"), "20 records"),
        (("export", "{}", "--to", "{}/../out", "--format", "parquet"), ""),
    ],
)
def test_every_command_is_given_the_limit(words: tuple[str, ...], shown: str, directory: Path) -> None:
    command = [sys.executable, "-m", "kafkalog", *(each.format(directory) for each in words)]

    def run(limit: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"COLUMNS": "200", UNPACKED_BYTES: limit}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    limited = run("10000")
    assert limited.returncode != 0
    assert f"{UNPACKED_BYTES}=" in limited.stderr
    raised = run("50000")
    assert UNPACKED_BYTES not in raised.stderr
    assert shown in raised.stdout


def found_by_command(directory: Path, **more: str) -> str:
    words = [sys.executable, "-m", "kafkalog", "find", str(directory), "--topic", "t", "--offset", "5"]
    environment = os.environ | {"COLUMNS": "200"} | more
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_environment_sets_the_limit_of_commands(directory: Path) -> None:
    limited = found_by_command(directory, **{UNPACKED_BYTES: "10000"})
    assert "beyond a limit" in limited
    assert "no such record" not in limited
    assert "limit" not in found_by_command(directory, **{UNPACKED_BYTES: "much"})
