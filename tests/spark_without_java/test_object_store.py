"""URIs: the same records from an object store as from the disk, and errors that keep secrets."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader

import kafkalog
from kafkalog import NewRecord
from kafkalog.codec.common.errors import KafkaLogError, StorageError, UsageError
from kafkalog.spark.contents_reader import ContentsReader
from kafkalog.spark.contents_schema import SCHEMAS
from kafkalog.spark.discovery import expand_paths
from kafkalog.spark.options import RECORDS, parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import full_schema, layout_of
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.serving.tiny_s3 import BUCKET, SECRET, TinyS3, serving

CASE = "4.1.1/segments"


@pytest.fixture(scope="module")
def s3() -> Iterator[TinyS3]:
    with serving(unpacked(CASE)) as running:
        yield running


def query(path: str, **options: str) -> list[dict[str, Any]]:
    """Rows of a query, planned in one process and read in another, as far as pickling can tell."""
    parsed = parse_options({"path": path, **options})
    reader: DataSourceReader
    if parsed.contents == RECORDS:
        reader = LogReader(parsed, layout_of(full_schema(parsed), parsed))
    else:
        reader = ContentsReader(parsed, SCHEMAS[parsed.contents])
    found: list[dict[str, Any]] = []
    for partition in reader.partitions():
        there: tuple[DataSourceReader, Any] = pickle.loads(pickle.dumps((reader, partition)))
        batches: Iterator[pa.RecordBatch] = there[0].read(there[1])
        for batch in batches:
            found += batch.to_pylist()
    return found


@pytest.mark.sweep
def test_records_are_those_of_the_disk(s3: TinyS3) -> None:
    (broker,) = brokers(CASE)
    wanted = query(str(broker), includeHeaders="true")
    assert query(f"s3a://{BUCKET}/{broker.name}", includeHeaders="true", **s3.options()) == wanted
    topic = min(row["topic"] for row in wanted if not row["topic"].startswith("__"))
    s3.requests.clear()
    chosen = query(f"s3://{BUCKET}/{broker.name}", subscribe=topic, maxPartitionBytes="9000", **s3.options())
    assert len(chosen) == sum(row["topic"] == topic for row in wanted) > 0
    read = {each.split()[1] for each in s3.requests if each.startswith("GET ") and ".log " in each}
    assert read
    assert all(f"/{topic}-" in path for path in read)


def test_paths_of_every_kind(s3: TinyS3) -> None:
    (broker,) = brokers(CASE)
    partition = max(path for path in broker.glob("*-0") if any(path.glob("*.log")))
    segment = min(partition.glob("*.log"))
    root = f"s3://{BUCKET}"
    for local in (partition, segment):
        uri = f"{root}/{local.relative_to(broker.parent)}"
        assert query(uri, **s3.options()) == query(str(local))
    glob = query(f"{root}/brok*/{partition.name[:4]}*-[0-9]", **s3.options())
    assert glob == query(str(broker / f"{partition.name[:4]}*-[0-9]"))
    parse_options({"path": root, **s3.options()})
    assert expand_paths([f"{root}/*/"]) == [f"{root}/{broker.name}"]
    with pytest.raises(UsageError, match=f"nothing matches {root}/x\\*"):
        expand_paths([f"{root}/x*"])
    with pytest.raises(UsageError, match=f"{root}/nope does not exist"):
        expand_paths([f"{root}/nope"])


@pytest.mark.sweep
@pytest.mark.parametrize("contents", ["offset_index", "leader_epochs", "checkpoints"])
def test_contents_are_those_of_the_disk(s3: TinyS3, contents: str) -> None:
    (broker,) = brokers(CASE)
    local = query(str(broker), contents=contents)
    found = query(f"s3://{BUCKET}/{broker.name}", contents=contents, **s3.options())
    for row in found:
        row["file"] = row["file"].replace(f"s3://{BUCKET}/{broker.name}", str(broker))
    assert local
    assert found == local


def test_findings_are_told_of_partitions_and_of_a_log_directory_where_it_is_mounted(tmp_path: Path) -> None:
    broker = own_copy(brokers(CASE)[0], tmp_path / "broker-0")
    log = max(broker.glob("*-0/*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[-20] ^= 1
    log.write_bytes(data)
    partitions = f"{broker.name}/*-[0-9]*"
    local = query(f"{broker.parent}/{partitions}", contents="findings")
    with serving(broker.parent) as s3:
        found = query(f"s3://{BUCKET}/{partitions}", contents="findings", **s3.options())
        with pytest.raises(UsageError, match=rf"needs it mounted.*s3://{BUCKET}/{broker.name}/\*-\[0-9\]\*"):
            query(f"s3://{BUCKET}/{broker.name}", contents="findings", **s3.options())
    for row in found:
        row["file"] = row["file"].replace(f"s3://{BUCKET}", str(broker.parent))
    assert "crc_mismatch" in [row["code"] for row in local]
    assert found == local


def test_what_pyarrow_does_not_know_is_read_through_fsspec() -> None:
    (broker,) = brokers(CASE)
    partition = max(path for path in broker.glob("*-0") if any(path.glob("*.log")))
    memory = fsspec.filesystem("memory")
    for path in partition.iterdir():
        memory.pipe_file(f"/volume/data/{partition.name}/{path.name}", path.read_bytes())
    assert query("memory://volume/data/*-0") == query(str(partition))
    with pytest.raises(UsageError, match=r"^memory://volume/nope does not exist$"):
        query("memory://volume/nope")


def test_ranges_are_read_not_files(s3: TinyS3, tmp_path: Path) -> None:
    import kafkalog

    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0") as log:
        for n in range(900):
            log.append([b"%d" % n * 5000])
    low, high = json.dumps({"t": {"0": 150}}), json.dumps({"t": {"0": 152}})
    with serving(tmp_path) as big:
        wanted = {"startingOffsets": low, "endingOffsets": high, "maxPartitionBytes": "9"}
        parsed = parse_options({"path": f"s3://{BUCKET}/data", **wanted, **big.options()})
        reader = LogReader(parsed, layout_of(full_schema(parsed), parsed))
        planned = reader.partitions()
        big.sent = 0
        found = [offset for each in planned for batch in reader.read(each) for offset in batch["offset"].to_pylist()]
        assert found == [150, 151]
        size = (tmp_path / "data" / "t-0" / "00000000000000000000.log").stat().st_size
        assert 0 < big.sent < size / 4


def test_no_message_and_no_text_holds_a_secret(s3: TinyS3) -> None:
    options = s3.options() | {"storage.access.key": "wrong-key-77"}
    parsed = parse_options({"path": f"s3://{BUCKET}/broker-1", **options})
    with pytest.raises(StorageError) as raised:
        expand_paths(parsed.paths)
    for text in (str(raised.value), repr(raised.value), repr(parsed), str(parsed)):
        assert SECRET not in text
        assert "wrong-key-77" not in text
    assert "s3://" in str(raised.value)
    assert "\n" not in str(raised.value)
    with pytest.raises(UsageError, match=r"storage\.\*, not into the path") as refused:
        parse_options({"path": f"s3://key:{SECRET}@{BUCKET}/x"})
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("s3://b/x", {"storage.account": "a"}, "option storage.account is not for s3:; there are storage.endpoint"),
        ("nosuch://b/x", {}, "nosuch: "),
        ("file://elsewhere/x", {}, "on another machine"),
    ],
)
def test_uris_that_cannot_be_read(path: str, options: dict[str, str], words: str) -> None:
    parsed = parse_options({"path": path, **options})
    with pytest.raises(KafkaLogError, match=words.replace(".", r"\.")):
        expand_paths(parsed.paths)


def test_a_server_that_is_not_there_is_an_error_and_not_a_wait() -> None:
    with serving(unpacked(CASE)) as gone:
        options = gone.options()
    parsed = parse_options({"path": f"s3://{BUCKET}/broker-1", **options})
    with pytest.raises(StorageError, match="cannot look"):
        expand_paths(parsed.paths)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments of 8 MiB in batches of 20 kB, whose bytes do not compress."""
    root = tmp_path_factory.mktemp("large")
    (root / "data").mkdir()
    with kafkalog.Log.open(root / "data" / "t-0", kafkalog.LogConfig(segment_bytes=8 << 20)) as log:
        for first in range(0, 8000, 10):
            values = [random.Random(first + each).randbytes(2000) for each in range(10)]
            log.append([NewRecord(value=value, timestamp=first) for value in values])
    return root


@pytest.mark.parametrize(("first", "more"), [(25, {}), (4187, {"maxRecordsPerPartition": "7"}), (7990, {})])
def test_ten_rows_by_offset_read_little_of_large_segments(
    large: Path, first: int, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the bytes that hold them are cut into parts, although the options ask for small ones."""
    monkeypatch.setattr("kafkalog.log.disk.store_retries._FIRST_S", 0.001)
    bounds = {"startingOffsets": f'{{"t":{{"0":{first}}}}}', "endingOffsets": f'{{"t":{{"0":{first + 10}}}}}'}
    wanted = query(str(large / "data"), **bounds, **more)
    assert [row["offset"] for row in wanted] == [*range(first, first + 10)]
    with serving(large, throttled=lambda number: 503 if number % 5 == 3 else None) as store:
        options = {**bounds, "maxPartitionBytes": "200000", **more, **store.options()}
        assert query(f"s3://{BUCKET}/data", **options) == wanted
        assert store.sent < 3 << 19, "of 16 MiB"
