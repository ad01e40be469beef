"""Transactions whose end markers are missing in the log, as snapshots and indexes know them.

Expected values are what the recorded broker's undamaged log gives.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog import Partition, open_partition
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.follow import Follower
from kafkalog.log.disk.files import FileSource
from kafkalog.server.committed import CommittedWalk
from testkit.recorded.fixture_data import broker_case

NAME = "trades-41-0"
AT_SEGMENT_START = 86
"""marker of a committed transaction, whose producer aborts its next one in the same segment"""


def seen_by_reader(partition: Partition) -> tuple[list[tuple[int, int]], int]:
    """Aborted transactions as producer and marker, and where readers of committed data stop."""
    found = partition.transactions()
    return [(each.producer_id, each.last_offset) for each in found.aborted], found.last_stable_offset


def seen_by_follower(partition: Partition) -> tuple[list[tuple[int, int]], int]:
    followed = Follower(transactions=True).look(partition)
    return [(each.producer_id, each.last_offset) for each in followed.aborted], followed.last_stable_offset


def seen_by_server(partition: Partition) -> tuple[list[tuple[int, int]], int]:
    walk, committed = CommittedWalk(DEFAULT_LIMITS), None
    while committed is None:
        committed = walk.go(partition, partition.log_end_offset())
    return [(each.producer_id, each.last_offset) for each in committed.aborted], committed.last_stable_offset


SEEN = [seen_by_reader, seen_by_follower, seen_by_server]
Seen = Callable[[Partition], tuple[list[tuple[int, int]], int]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (root,) = broker_case("4.1.1", "txn").unpack(tmp_path_factory.mktemp("original") / "data").iterdir()
    return root / NAME


def markers(directory: Path) -> Iterator[tuple[Path, int, int, int]]:
    """Log, position, size and offset of each marker that is not at the end of its segment, nor in the last one."""
    for segment in open_partition(directory).segments[:-1]:
        for batch in list(Scanner(FileSource(segment.path)))[:-1]:
            if batch.header.is_control:
                yield Path(segment.path), batch.position, batch.size, batch.header.first_offset


def without_marker(original: Path, target: Path, wanted: int) -> Path:
    """A copy whose log does not have the marker at offset `wanted`, all other files being as they were."""
    shutil.copytree(original, target / NAME)
    log, position, size, _offset = next(each for each in markers(target / NAME) if each[3] == wanted)
    content = log.read_bytes()
    log.write_bytes(content[:position] + content[position + size :])
    return target / NAME


@pytest.mark.parametrize("seen", SEEN)
def test_committed_data_is_the_same_without_a_marker(seen: Seen, original: Path, tmp_path: Path) -> None:
    expected = seen(open_partition(original))
    offsets = [offset for *_, offset in markers(original)]
    assert len(offsets) >= 20
    for offset in offsets:
        assert seen(open_partition(without_marker(original, tmp_path / str(offset), offset))) == expected, offset


def take_snapshots(directory: Path) -> None:
    for path in directory.glob("*.snapshot"):
        path.unlink()


def take_anothers_snapshot(directory: Path) -> None:
    newest = max(directory.glob("*.snapshot"))
    shutil.copy(min(directory.glob("*.snapshot")), newest)


def take_index(directory: Path) -> None:
    for path in directory.glob("*.txnindex"):
        path.write_bytes(b"")


def break_index(directory: Path) -> None:
    for path in directory.glob("*.txnindex"):
        path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("change", [take_snapshots, take_anothers_snapshot, take_index, break_index])
@pytest.mark.parametrize("seen", SEEN)
def test_files_that_the_batches_do_not_confirm_are_not_believed(
    seen: Seen, change: Callable[[Path], None], original: Path, tmp_path: Path
) -> None:
    """Then the marker of the producer's next transaction ends it, as a broker has it that scans the log."""
    directory = without_marker(original, tmp_path, AT_SEGMENT_START)
    alone = tmp_path / "alone" / NAME
    alone.mkdir(parents=True)
    for log in directory.glob("*.log"):
        shutil.copy(log, alone)
    change(directory)
    assert seen(open_partition(directory)) == seen(open_partition(alone))
