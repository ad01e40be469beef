"""A broker with several log directories, as those see it who write: each partition is where it is, and only there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog as library
from kafkalog import GroupOffsets, Producer, UsageError, commit_offsets, open_partition
from kafkalog.log.writing.broker_directories import directories_of_one_broker
from kafkalog.log.writing.building import build_partitions
from testkit.judging.trees import contents
from testkit.recorded.broker_dirs import own_copy
from testkit.running.command import kafkalog
from testkit.running.lock_holder import held

LINES = "".join(f'{{"topic": "orders", "partition": {number % 4}, "value": "v{number}"}}\n' for number in range(40))


def rows(*partitions: Path) -> list[list[bytes | None]]:
    return [[each.value for each in open_partition(path).records()] for path in partitions]


def identity(cluster: str, node_id: int) -> bytes:
    return f"version=1\ncluster.id={cluster * 22}\nnode.id={node_id}\n".encode()


@pytest.fixture
def volumes(tmp_path: Path) -> tuple[Path, Path]:
    """Two volumes of broker 1: partitions 0 and 2 of a topic are in the first, 1 in the second."""
    first, second = tmp_path / "broker" / "first", tmp_path / "broker" / "second"
    for root, numbers in ((first, (0, 2)), (second, (1,))):
        root.mkdir(parents=True)
        for number in numbers:
            records = pa.record_batch({"value": [b"before"]})
            build_partitions([records], root, topic="orders", partition=number, append=True)
        (root / "meta.properties").write_bytes(identity("c", 1))
    topic_id = (first / "orders-0" / "partition.metadata").read_bytes()
    for path in (first / "orders-2", second / "orders-1"):
        (path / "partition.metadata").write_bytes(topic_id)
    return first, second


def each_way(volumes: tuple[Path, Path]) -> list[list[object]]:
    """The ways to name both."""
    first, second = volumes
    properties = first.parent.parent / "server.properties"
    properties.write_text(f"log.dirs={first},{second}\nmetadata.log.dir={first.parent.parent}/metadata\n")
    return [["--into", first, "--into", second], ["--into", first.parent], ["--server-properties", properties]]


@pytest.mark.parametrize("way", range(3))
def test_build_appends_where_a_partition_is_and_makes_one_where_the_fewest_are(
    volumes: tuple[Path, Path], way: int, tmp_path: Path
) -> None:
    first, second = volumes
    lines = tmp_path / "lines.jsonl"
    lines.write_text(LINES)
    done = kafkalog("build", lines, *each_way(volumes)[way], "--append", "--json")
    assert done.code == 2, done.err
    places = [first / "orders-0", second / "orders-1", first / "orders-2", second / "orders-3"]
    assert sorted(each["path"] for each in done.objects) == sorted(map(str, places))
    assert sorted(tmp_path.glob("broker/*/orders-*")) == sorted(places)
    wanted = [[b"v%d" % number for number in range(start, 40, 4)] for start in range(4)]
    assert rows(*places) == [[*([b"before"] if start < 3 else []), *wanted[start]] for start in range(4)]
    assert len({(path / "partition.metadata").read_bytes() for path in places}) == 1, "one topic has one id"
    found = [each for each in library.verify(first, second).findings if each.severity is library.Severity.ERROR]
    assert found == []


def refused_with(volumes: tuple[Path, Path], change: Callable[[Path, Path], None]) -> str:
    """What is said when both are to be written after a change; nothing in them is touched."""
    change(*volumes)
    before = [contents(path) for path in volumes if path.exists()]
    with pytest.raises(UsageError) as refused:
        build_partitions([pa.record_batch({"value": [b"x"]})], volumes, topic="orders", append=True)
    assert [contents(path) for path in volumes if path.exists()] == before
    with pytest.raises(UsageError):
        Producer(volumes)
    with pytest.raises(UsageError):
        commit_offsets(volumes, "readers", {("orders", 0): 1})
    assert [contents(path) for path in volumes if path.exists()] == before
    return str(refused.value)


def test_directories_that_are_not_one_sound_broker_are_refused(volumes: tuple[Path, Path]) -> None:
    def of_another(_first: Path, second: Path) -> None:
        (second / "meta.properties").write_bytes(identity("c", 2))

    assert "is of broker 1" in refused_with(volumes, of_another)

    def of_another_cluster(_first: Path, second: Path) -> None:
        (second / "meta.properties").write_bytes(identity("d", 1))

    assert "is of cluster c" in refused_with(volumes, of_another_cluster)

    def in_both(first: Path, second: Path) -> None:
        shutil.copy(first / "meta.properties", second)
        own_copy(first / "orders-0", second / "orders-0")

    assert "a broker does not start with both" in refused_with(volumes, in_both)

    def not_mounted(_first: Path, second: Path) -> None:
        shutil.rmtree(second)

    assert "there is no log directory" in refused_with(volumes, not_mounted)


def test_all_are_locked_and_all_are_let_go(volumes: tuple[Path, Path]) -> None:
    records = [pa.record_batch({"value": [b"x"]})]
    with held(volumes[1] / ".lock"), pytest.raises(UsageError):
        build_partitions(records, volumes, topic="orders", append=True)
    build_partitions(records, volumes, topic="orders", append=True)
    for path in volumes:
        with held(path / ".lock"):
            assert rows(volumes[0] / "orders-0") == [[b"before", b"x"]]


def test_a_producer_and_a_group_write_where_things_are(volumes: tuple[Path, Path]) -> None:
    first, second = volumes
    with Producer(volumes) as producer:
        for number in range(3):
            producer.send("orders", b"sent", partition=number)
        producer.send("fresh", b"sent")
    assert rows(second / "orders-1", second / "fresh-0") == [[b"before", b"sent"], [b"sent"]]
    number = commit_offsets(volumes, "readers", {("orders", 0): 1})
    (place,) = first.parent.glob(f"*/__consumer_offsets-{number}")
    assert commit_offsets(volumes[::-1], "readers", {("orders", 0): 2}) == number
    assert [*first.parent.glob(f"*/__consumer_offsets-{number}")] == [place]
    store = GroupOffsets(volumes, "readers")
    assert store.load() == {("orders", 0): 2}
    store.commit({("orders", 0): 3})
    assert store.load() == {("orders", 0): 3}


def test_build_needs_one_way_to_name_them(volumes: tuple[Path, Path], tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(LINES)
    both = [*each_way(volumes)[0], *each_way(volumes)[2]]
    for given in ([], both):
        done = kafkalog("build", lines, *given)
        assert (done.code, "give either --into or --server-properties" in done.err) == (64, True)


def test_a_directory_that_is_named_again_keeps_its_first_place(volumes: tuple[Path, Path]) -> None:
    first, second = volumes
    assert directories_of_one_broker([first, second, first]) == (str(first), str(second))
