"""Both tiers read as one log equal what the broker's own consumer read, whatever is local and whatever is known."""

from __future__ import annotations

import base64
import pickle
import shutil
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.log import Partition
from kafkalog.tiers.both_tiers import BothTiers
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.metadata import RemoteMetadata
from kafkalog.tiers.reading import mounted
from testkit.recorded.fixture_data import TIERED_CASES, TieredCase, tiered_case
from testkit.running.command import kafkalog as command

ISOLATION = ("read_uncommitted", "read_committed")
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@cache
def expected(name: str, isolation: str) -> dict[str, list[Row]]:
    return {
        directory: [
            (row["offset"], row["timestamp"], decoded(row["key"]), decoded(row["value"]),
             tuple((key, decoded(value)) for key, value in row["headers"]))
            for row in rows
        ]
        for directory, rows in tiered_case(name).expected(isolation).items()
    }  # fmt: skip


def rows_of(partition: Partition, isolation: str) -> list[Row]:
    reader = partition.records(kafkalog.RecordFilter(isolation_level=isolation), on_damage="stop")
    found = [(each.offset, each.timestamp, each.key, each.value, tuple((pair.key, pair.value) for pair in each.headers))
             for each in reader]  # fmt: skip
    assert [each for each in reader.findings if each.severity != "info"] == []
    return found


def both_tiers(
    root: Path, volume: str | None, *, events: bool = True, case: TieredCase | None = None
) -> dict[str, Partition]:
    """The partitions of a recording by their directories' names, with their remote part."""
    tier = open_tier(str(root / "remote")) if case is None else case.tier(root)
    paths = [] if volume is None else [str(root / volume)]
    if not events:
        for events_log in root.glob("*/__remote_log_metadata-*"):
            shutil.rmtree(events_log)
    found = {}
    for _, path in mounted(paths, tier):
        for partition in kafkalog.open(path).partitions:
            found[f"{partition.topic}-{partition.partition}"] = partition
    return found


def compare(case: TieredCase, found: dict[str, Partition], *, is_alone: bool = False) -> None:
    compared = 0
    for isolation in ISOLATION:
        for directory, wanted in expected(case.name, isolation).items():
            if directory not in found and is_alone:
                continue
            partition = found[directory]
            got = rows_of(partition, isolation)
            columns = partition.to_arrow(
                ["offset", "value"], kafkalog.RecordFilter(isolation_level=isolation)
            ).read_all()
            assert columns["offset"].to_pylist() == [row[0] for row in got]
            assert columns["value"].to_pylist() == [row[3] for row in got]
            if is_alone:  # what DeleteRecords took of a segment, and the local end, are not there
                start, end = case.bounds[directory][0], partition.log_end_offset()
                got = [row for row in got if row[0] >= start]
                wanted = [row for row in wanted if row[0] < end]
                assert got or directory.startswith(("plain", "given-up"))
            else:  # what was appended after the records were read
                got = got[: len(wanted)] if (case.name, directory) == ("cut-short", "both-0") else got
            assert got == wanted
            compared += len(got)
    assert compared > 300


QUICK = (
    ("stopped", "broker", True), ("returned", "broker-2", True), ("pair", "broker-1", False), ("pair", None, False),
    ("aiven", "broker", True), ("aiven", None, False),
)  # fmt: skip
EVERY = [
    (name, volume, events)
    for name in TIERED_CASES
    for volume in (*tiered_case(name).volumes, None)
    for events in (True, False)
    if volume is not None or not events
]


@pytest.mark.parametrize(
    ("name", "volume", "events"),
    [each if each in QUICK else pytest.param(*each, marks=pytest.mark.sweep) for each in EVERY],
)
def test_the_records_are_those_of_a_brokers_consumer(
    name: str, volume: str | None, events: bool, tmp_path: Path
) -> None:
    case = tiered_case(name)
    case.unpack(tmp_path)
    for path in tmp_path.glob("*/remote-log-index-cache"):
        shutil.rmtree(path)
    compare(case, both_tiers(tmp_path, volume, events=events, case=case), is_alone=volume is None)


def test_after_more_was_deleted_locally(tmp_path: Path) -> None:
    case = tiered_case("stopped")
    case.unpack(tmp_path)
    for base in (1119, 1501):
        for path in (tmp_path / "broker" / "tiered-0").glob(f"{base:020}.*"):
            path.unlink()
    compare(case, both_tiers(tmp_path, "broker"))


def test_with_the_events_alone_the_remote_part_is_read(tmp_path: Path) -> None:
    case = tiered_case("pair")
    case.unpack(tmp_path)
    for path in (tmp_path / "broker-1").glob("*-0"):
        if not path.name.startswith("__remote_log_metadata"):
            shutil.rmtree(path)
    compare(case, both_tiers(tmp_path, "broker-1"), is_alone=True)


def test_a_partition_that_neither_tier_has(tmp_path: Path) -> None:
    path, remote = tmp_path / "data" / "t-0", tmp_path / "remote"
    path.parent.mkdir()
    remote.mkdir()
    with pytest.raises(kafkalog.UsageError, match=f"^{path} does not exist, and {remote} has no part of it$"):
        kafkalog.open_partition(path, remote=str(remote), layout="aiven")


@pytest.mark.parametrize(("name", "volume", "directory"), [
    ("stopped", "broker", "tiered-0"), ("stopped", "broker", "pays-0"), ("returned", "broker-2", "moved-0"),
    ("aiven", "broker", "orders-0"), ("aiven", "broker", "payments-0"), ("aiven", "broker", "moved-0"),
])  # fmt: skip
def test_look_ups_by_time_and_offset(name: str, volume: str, directory: str, tmp_path: Path) -> None:
    """The first record in the log with at least that time, as `ListOffsets` has it."""
    case = tiered_case(name)
    case.unpack(tmp_path)
    partition = kafkalog.open_partition(
        tmp_path / volume / directory, remote=str(tmp_path / "remote"), keys=case.key_files(tmp_path)
    )
    wanted = expected(name, "read_uncommitted")[directory]
    times = sorted({row[1] for row in wanted})
    for moment in (times[0] - 1, *times[:: max(1, len(times) // 20)], times[-1]):
        first = next(row for row in wanted if row[1] >= moment)
        found = partition.offset_for_timestamp(moment)
        assert found is not None
        assert (found.offset, found.timestamp) == first[:2]
    assert partition.offset_for_timestamp(times[-1] + 1) is None
    for row in wanted[:: max(1, len(wanted) // 20)]:
        assert (
            next(iter(partition.records(kafkalog.RecordFilter(start_offset=row[0]), on_damage="stop"))).offset == row[0]
        )
    assert partition.log_start_offset == case.bounds[directory][0]
    assert partition.log_end_offset() == case.bounds[directory][1]


def test_what_travels_to_another_process_can_be_read_there(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    ((both, path),) = mounted([str(tmp_path / "broker-1")], open_tier(str(tmp_path / "remote")))
    sent = pickle.dumps(both)
    shutil.rmtree(tmp_path / "remote" / "kafka-tiered-storage" / "none", ignore_errors=True)
    again = pickle.loads(sent)
    assert again.path == both.path
    assert len(kafkalog.open(path).partitions) >= 10


def objects(root: Path, topic: str, suffix: str = ".log") -> list[Path]:
    return sorted((root / "remote").rglob(f"{topic}-0-*/*{suffix}"))


def test_an_object_that_is_missing_is_said(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    gone = objects(tmp_path, "epochs")[1]
    gone.unlink()
    partition = both_tiers(tmp_path, "broker-1")["epochs-0"]
    with pytest.raises(kafkalog.StorageError, match="there is no such file"):
        list(partition.records(on_damage="stop"))
    finished = command("dump", "-t", "epochs", tmp_path / "broker-1", "--remote", tmp_path / "remote")
    assert finished.code == 4
    assert gone.name[21:43] in finished.err


def test_a_remote_log_that_overlaps_the_local_one_is_cut_also_if_nothing_was_listed(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    directory = tmp_path / "broker" / "tiered-0"
    data = (directory / f"{1119:020}.log").read_bytes()
    cut = 0
    while cut < len(data) // 2:  # the local log begins with a later batch of the same segment
        cut += 12 + int.from_bytes(data[cut + 8 : cut + 12], "big")
    for path in directory.glob(f"{1119:020}.*"):
        path.unlink()
    (directory / f"{int.from_bytes(data[cut : cut + 8], 'big'):020}.log").write_bytes(data[cut:])

    def mount() -> tuple[BothTiers, str]:
        ((both, path),) = mounted([str(tmp_path / "broker")], open_tier(str(tmp_path / "remote")))
        return both, f"{path}/tiered-0/{1119:020}.log"

    both, log = mount()
    with closing(both.open(log)) as file:
        assert file.size == cut
    entry = both.entry(log)
    assert entry is not None
    assert entry.size == cut
    for remote in objects(tmp_path, "tiered"):
        if remote.name.startswith(f"{1119:020}-"):
            remote.unlink()
    both, log = mount()
    assert both.entry(log) is not None  # as other missing logs are
    with pytest.raises(kafkalog.StorageError, match="there is no such file"):
        both.open(log)


def test_an_object_of_another_size_is_not_read(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    cut = objects(tmp_path, "epochs")[1]
    cut.write_bytes(cut.read_bytes()[:-100])
    partition = both_tiers(tmp_path, "broker-1")["epochs-0"]
    with pytest.raises(kafkalog.StorageError, match=r"and 37\d\d were copied"):
        list(partition.records(on_damage="stop"))


def test_damage_in_an_object_is_found_and_named(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    hurt = objects(tmp_path, "epochs")[1]
    data = bytearray(hurt.read_bytes())
    data[len(data) // 2] ^= 1
    hurt.write_bytes(data)
    reader = both_tiers(tmp_path, "broker-1")["epochs-0"].records(on_damage="stop")
    got = [each.offset for each in reader]
    assert got == list(range(len(got)))
    assert 47 <= len(got) < 90
    assert [each.code for each in reader.findings] == ["crc_mismatch"]
    checked = command("verify", tmp_path / "broker-1", "--remote", tmp_path / "remote")
    assert checked.code == 1
    assert str(hurt) in checked.err
    assert "crc_mismatch" in checked.err


def test_no_metadata_and_no_cluster_is_needed(tmp_path: Path) -> None:
    assert not RemoteMetadata()
    tiered_case("pair").unpack(tmp_path)
    text = command("dump", "--json", "-t", "moved", "--remote", tmp_path / "remote").objects
    assert [line["offset"] for line in text] == list(range(47, 137))


def test_what_is_no_tier(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "readme.txt").write_text("x")
    for arguments, said in (
        (["--remote", tmp_path / "none"], "no remote tier is there"),
        (["--remote", tmp_path / "other"], "no layout of a remote tier that is known (aiven, local-tiered-storage)"),
        (["--remote", tmp_path / "remote", "--layout", "other"], "unknown layout 'other'"),
        (["--layout", "local-tiered-storage"], "--layout is about --remote"),
        (["--remote", tmp_path / "remote", "--storage", "x"], "--storage needs NAME=VALUE"),
    ):
        finished = command("dump", tmp_path / "broker-1", *map(str, arguments))
        assert finished.code == 64
        assert said in finished.err


def test_find_and_a_parquet_file(tmp_path: Path) -> None:
    import pyarrow.parquet

    tiered_case("pair").unpack(tmp_path)
    remote: list[Any] = ["--remote", tmp_path / "remote"]
    found = command("find", "--json", "-t", "payments", "--offset", "100", "--time", "earliest", tmp_path / "broker-1",
                    *remote)  # fmt: skip
    assert {line.get("offset") for line in found.objects} >= {0}
    out = tmp_path / "out.parquet"
    assert command("dump", "--parquet", out, "-t", "payments", tmp_path / "broker-1", *remote).code == 0
    wanted = [row[0] for row in expected("pair", "read_uncommitted")["payments-0"]]
    assert pyarrow.parquet.read_table(out)["offset"].to_pylist() == wanted
