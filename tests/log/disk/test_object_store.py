"""Log directories in an object store, from Python: what is asked for, throttled answers, and the same rows."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import kafkalog
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.log import Log, LogConfig, NewRecord
from kafkalog.log.disk import remote_file as mounts
from kafkalog.log.disk.files import scan_directory
from kafkalog.log.disk.object_store import StorageOptions
from kafkalog.log.disk.store_retries import Retries, ShortReadError
from kafkalog.log.disk.uri_patterns import matching
from testkit.running.command import kafkalog as command
from testkit.serving.tiny_s3 import BUCKET, CUT, KEY, SECRET, TinyS3, serving

PARTITIONS = 40


@pytest.fixture(autouse=True)
def own_mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTED", {})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store")
    (root / "data").mkdir()
    for number in range(PARTITIONS):
        with Log.open(root / "data" / f"many-{number}", LogConfig(segment_bytes=2000)) as log:
            for each in range(20):
                log.append([NewRecord(key=b"%d" % each, value=b"v" * 100, timestamp=1_700_000_000_000 + each)])
    return root


def storage(store: TinyS3) -> dict[str, str]:
    return {name.removeprefix("storage."): value for name, value in store.options().items()}


def kinds(store: TinyS3) -> Counter[str]:
    return Counter("LIST" if "list-type" in each else each.split()[0] for each in store.requests)


def test_one_partition_of_many_costs_few_requests(data: Path) -> None:
    with serving(data) as store:
        table = kafkalog.KafkaTable(kafkalog.TableScan(topics="many", storage=storage(store)), f"s3://{BUCKET}/data")
        assert len(table.partitions) == PARTITIONS
        listed = kinds(store)
        assert listed["LIST"] <= 4  # all that is below, at once, and not each partition
        one = kafkalog.KafkaTable(kafkalog.TableScan(storage=storage(store)), f"s3://{BUCKET}/data/many-3")
        store.requests.clear()
        assert sum(batch.num_rows for batch in one.read(["offset"])) == 20
        assert kinds(store)["LIST"] == 0
        assert all("/many-3/" in each for each in store.requests)


@pytest.mark.parametrize("status", [503, 429, CUT])
def test_failed_answers_are_asked_for_again(status: int, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every seventh is throttled or cut short. pyarrow's own client ends at a throttled one if the range is shorter
    than the answer's text.
    """
    monkeypatch.setattr("kafkalog.log.disk.store_retries._FIRST_S", 0.001)
    with serving(data, throttled=lambda number: status if number % 7 == 3 else None) as store:
        table = kafkalog.KafkaTable(kafkalog.TableScan(storage=storage(store)), f"s3://{BUCKET}/data/many-0")
        assert sum(batch.num_rows for batch in table.read(["offset"])) == 20
        assert len(store.requests) >= 7


def test_a_store_that_only_throttles_is_left_after_the_last_try(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.log.disk.store_retries._FIRST_S", 0.001)
    with serving(data, throttled=lambda number: 429) as store, pytest.raises(StorageError, match="tried 3 times"):
        kafkalog.KafkaTable(kafkalog.TableScan(storage={**storage(store), "retries": "2"}), f"s3://{BUCKET}/data")
    with pytest.raises(UsageError, match=r"storage\.retries"):
        kafkalog.KafkaTable(kafkalog.TableScan(storage={"retries": "many"}), f"s3://{BUCKET}/data")


def test_what_is_tried_again_and_what_is_not() -> None:
    asked: list[int] = []

    def fail(error: OSError) -> None:
        asked.append(1)
        raise error

    for error, tries in ((ShortReadError("2 of 5"), 3), (OSError("AWS Error ACCESS_DENIED (HTTP status 403)"), 1)):
        asked.clear()
        with pytest.raises(OSError, match=str(error).split("(")[0]):
            Retries(most=2, seconds=0.5).call(partial(fail, error))
        assert len(asked) == tries


def test_every_reader_reads_a_store(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(data) as store:
        for name, value in (
            ("AWS_ENDPOINT_URL", store.endpoint), ("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", "us-east-1"), ("AWS_DEFAULT_REGION", "us-east-1"),
        ):  # fmt: skip
            monkeypatch.setenv(name, value)
        uri = f"s3://{BUCKET}/data/many-7"
        here, there = (kafkalog.open_partition(path) for path in (data / "data" / "many-7", uri))
        assert [*there.records()] == [*here.records()]
        assert there.to_arrow().read_all() == here.to_arrow().read_all()
        assert command("dump", uri, "--json").out == command("dump", here.path, "--json").out


def test_a_scheme_of_no_store_is_refused() -> None:
    with pytest.raises(UsageError, match="nowhere"):
        kafkalog.open("nowhere://bucket/data")


@pytest.mark.parametrize("uri", ["s3://[bucket/data", "s3://user:secret@b\N{FULLWIDTH COLON}/data"])
def test_a_malformed_uri_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match=r"^s3: the URI has a malformed host or bucket$"):
        kafkalog.open(uri)


def test_a_first_listing_through_fsspec_has_the_path_of_its_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host may be no part of the path, as in `sftp://host/path`."""

    def strip(path: str) -> str:
        return f"/{path.removeprefix('memory://').partition('/')[2]}" if "://" in path else path.rstrip("/")

    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "_strip_protocol", staticmethod(strip))
    MemoryFileSystem().pipe("/data/x-0/note", b"1")
    assert [entry.name for entry in scan_directory("memory://host/data")] == ["x-0"]


def test_the_scheme_of_a_uri_may_be_in_capitals(data: Path) -> None:
    with serving(data) as store:
        table = kafkalog.KafkaTable(kafkalog.TableScan(storage=storage(store)), f"S3://{BUCKET}/data/many-3")
        assert sum(batch.num_rows for batch in table.read(["offset"])) == 20


def test_a_file_in_place_of_a_directory_matches_no_pattern_below_it(data: Path) -> None:
    (data / "data" / "note").write_bytes(b"no directory")
    try:
        with serving(data) as store:
            StorageOptions((f"s3://{BUCKET}",), tuple(storage(store).items()))
            found = matching(f"s3://{BUCKET}/data/*/*0.log")
            assert len(found) == PARTITIONS
    finally:
        (data / "data" / "note").unlink()
