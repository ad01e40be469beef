"""The storage classes leave the same bytes on both disks: the virtual tree and the directory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.encode import build_end_transaction_marker
from kafkalog.codec.model import TRANSACTIONAL_FLAG, BatchHeader, ControlType, EndTransactionMarker, RecordBatch
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT
from kafkalog.log import Log, LogConfig
from kafkalog.log.reading.transactions import marker_of
from kafkalog.log.storage.directory import DirectoryDisk
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.loader import LoadRequest, LogLoader
from kafkalog.log.storage.producer_appends import ProducerAppends
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.producers.snapshots import Snapshots
from kafkalog.log.storage.replay import rebuild_producer_state
from kafkalog.log.storage.segment import LogSegment, change_suffixes
from kafkalog.log.storage.segments import LogSegments
from kafkalog.log.storage.tree import Tree
from kafkalog.log.writing.incoming import parse_batch
from testkit.made.batches import batch, record
from testkit.running.examples import examples

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(index_interval_bytes=150, segment_index_bytes=4096)
STEPS = ["append", "append", "append", "truncate", "reopen", "recover", "snapshot", "start"]


class Broker:
    """One segment with its epochs and producers, on one disk."""

    def __init__(self, disk: Disk, directory: str, *, at_once: bool) -> None:
        self.disk, self.directory = disk, directory
        self.epochs = LeaderEpochFileCache(LeaderEpochCheckpointFile(disk, directory), at_once=at_once)
        self.end = 0
        self.open()

    def open(self) -> None:
        self.producers = ProducerStateManager(self.disk, self.directory, NOW_MS, 10**9)
        self.segment = LogSegment(self.disk, self.directory, 0, CONFIG, indexes_first=True)
        self.segment.resize_indexes()

    def append(self, batches: list[RecordBatch]) -> None:
        self.segment.append(batches)
        for each in batches:
            header = each.header
            assert isinstance(header, BatchHeader)
            if header.partition_leader_epoch >= 0:
                self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.has_producer_id:
                appends = ProducerAppends(self.producers)
                appends.add(header, lambda each=each: marker_of(each))  # type: ignore[misc]
                appends.take_over(self.segment.transaction_index)
        self.end = batches[-1].header.next_offset
        self.producers.set_map_end(self.end)

    def truncate(self, offset: int) -> None:
        self.segment.truncate_to(offset, NOW_MS, log_first=isinstance(self.disk, DirectoryDisk))
        self.end = self.segment.read_next_offset()
        self.epochs.truncate_from_end(self.end)
        self.producers.delete_snapshots_above(self.end)
        self.replay()

    def reopen(self) -> None:
        self.close()
        self.open()
        self.replay()

    def replay(self) -> None:
        """Producers as `recover` rebuilds them, and the indexes with them."""
        self.producers = ProducerStateManager(self.disk, self.directory, NOW_MS, 10**9)
        assert self.segment.recover(self.producers, self.epochs) == 0
        self.segment.resize_indexes()

    def snapshot(self) -> None:
        self.producers.take_snapshot()

    def close(self) -> None:
        self.epochs.flush()
        self.segment.close()
        self.segment.close_handlers()

    def retire(self) -> list[str]:
        self.close()
        return change_suffixes(self.disk, self.directory, 0, "", ".deleted")


def some(rng: random.Random, offset: int, epoch: int) -> list[RecordBatch]:
    """One to three batches after an offset, of all kinds, with gaps between their offsets."""
    made = []
    for _ in range(rng.randint(1, 3)):
        offset += rng.choice([0, 0, 1, 7])
        producer = rng.randint(1, 3)
        if rng.random() < 0.3:
            data = build_end_transaction_marker(
                EndTransactionMarker(rng.choice([ControlType.COMMIT, ControlType.ABORT]), 0), base_offset=offset,
                timestamp=rng.randint(0, 1000), producer_id=producer, producer_epoch=0, partition_leader_epoch=epoch,
            )  # fmt: skip
        else:
            fields = {"producer_id": producer, "producer_epoch": 0, "attributes": TRANSACTIONAL_FLAG}
            stamp = rng.randint(0, 1000)
            data = batch(
                record(0, b"k", rng.randbytes(rng.randint(0, 200))), 1, base_offset=offset, leader_epoch=epoch,
                max_timestamp=stamp, base_timestamp=stamp, base_sequence=rng.randint(0, 9),
                **(fields if rng.random() < 0.6 else {}),
            )  # fmt: skip
        made.append(parse_batch(data))
        offset = made[-1].header.next_offset
    return made


def run(steps: list[str], seed: int, broker: Broker) -> tuple[int, list[tuple[int, int, bytes, int]]]:
    """Take the steps; gives the end, and what the segment said of itself after each."""
    rng, epoch, said = random.Random(seed), 0, []
    for step in steps:
        if step == "append":
            epoch += rng.randint(0, 1)
            broker.append(some(rng, broker.end, epoch))
        elif step == "truncate":
            broker.truncate(rng.randint(0, broker.end))
        elif step == "recover":
            broker.replay()
        elif step == "start":
            broker.epochs.truncate_from_start(rng.randint(0, broker.end))
        else:
            getattr(broker, step)()
        segment = broker.segment
        said.append((segment.log.size, segment.largest_timestamp, segment.offset_index.content(), broker.end))
    return broker.end, said


def on_both(steps: list[str], seed: int, directory: Path) -> tuple[Broker, Broker, Tree]:
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.iterdir():
        old.unlink()
    tree = Tree({}, {"t-0"}, lambda path: pytest.fail(f"{path} is not an original"))
    virtual, real = Broker(tree, "t-0", at_once=False), Broker(DirectoryDisk(), str(directory), at_once=True)
    assert run(steps, seed, virtual) == run(steps, seed, real)
    return virtual, real, tree


def content(tree: Tree) -> dict[str, bytes]:
    return {name: tree.read(f"t-0/{name}") for name in tree.all_names("t-0")}


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@examples(150)
@given(st.lists(st.sampled_from(STEPS), max_size=14), st.integers(0, 2**32))
def test_the_same_steps_leave_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    directory = tmp_path_factory.getbasetemp() / "disks" / "t-0"
    virtual, real, tree = on_both(steps, seed, directory)
    virtual.close()
    real.close()
    assert files(directory) == content(tree)


def test_a_long_history_has_indexes_aborted_transactions_epochs_and_snapshots(tmp_path: Path) -> None:
    """What the comparison would be worth nothing without."""
    directory = tmp_path / "t-0"
    steps = [*["append"] * 40, "snapshot", "truncate", *["append"] * 20, "reopen", "append", "snapshot"]
    virtual, real, tree = on_both(steps, 5, directory)
    assert [Path(path).name for path in virtual.retire()] == [Path(path).name for path in real.retire()]
    found = files(directory)
    assert found == content(tree)
    kinds = {name.split(".")[1] for name in found if found[name] and name.endswith(".deleted")}
    assert kinds == {"log", "index", "timeindex", "txnindex"}
    assert found[LEADER_EPOCH_CHECKPOINT].count(b"\n") > 5
    assert any(name.endswith(".snapshot") for name in found)


def written(root: Path, rng: random.Random) -> Path:
    """A partition of several segments that was closed in order."""
    path = root / "t-0"
    config = LogConfig(segment_bytes=1000, index_interval_bytes=150, segment_index_bytes=4096)
    with Log.open(path, config, clock=lambda: NOW_MS) as log:
        for _ in range(12):
            log.append(some(rng, log.end_offset, 0), keep_offsets=True)
    return path


def harm(path: Path, rng: random.Random) -> None:
    """What a crash, a compaction or a disk leaves behind."""
    logs = sorted(path.glob("*.log"))
    victim = rng.choice(logs[-2:])
    match rng.randrange(8):
        case 0:
            victim.write_bytes(victim.read_bytes()[: -rng.randint(1, 30)])
        case 1:
            data = bytearray(victim.read_bytes())
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            victim.write_bytes(data)
        case 2:
            victim.with_suffix(rng.choice([".index", ".timeindex"])).unlink()
        case 3:
            for each in path.glob("*.snapshot"):
                each.unlink()
        case 4:
            for kind in (".log", ".index", ".timeindex"):  # an index that is made here has its full size on a broker
                if victim.with_suffix(kind).exists():
                    victim.with_suffix(kind).rename(victim.with_suffix(kind + ".swap"))
        case 5:
            victim.with_suffix(".log.deleted").write_bytes(b"x")
            victim.with_suffix(".index.cleaned").write_bytes(b"x")
        case 6:
            (path / f"{5000:020d}.index").write_bytes(b"")
        case _:
            victim.with_suffix(".txnindex").write_bytes(bytes(34))


def start(disk: Disk, directory: str, rng: random.Random, end: int) -> tuple[object, ...]:
    """Load and stop; what is known then, or the exception."""
    request = LoadRequest(
        directory=directory, settings=CONFIG, now_ms=NOW_MS, clean=rng.random() < 0.4,
        recovery_point=rng.randint(0, end), log_start_offset=rng.choice([0, 0, 3, end + 1]),
    )  # fmt: skip
    loader = LogLoader(disk, request)
    try:
        loaded = loader.load()
    except JavaError as error:
        return type(error), error.position
    loader.epochs.flush()
    loader.close(loaded)
    for segment in loaded.segments:
        segment.close_handlers()
    return loaded.log_start_offset, loaded.log_end_offset, loaded.recovery_point, loaded.first_scanned, loaded.cut_at


@examples(60)
@given(st.integers(0, 2**32))
def test_a_start_leaves_the_same_bytes(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    root = tmp_path_factory.mktemp("start")
    rng = random.Random(seed)
    path = written(root, rng)
    for _ in range(rng.randint(0, 2)):
        harm(path, rng)
    before = files(path)
    end = max(int(each.stem) for each in path.glob("*.log"))
    tree = Tree(
        {f"t-0/{name}": len(data) for name, data in before.items()}, {"t-0"},
        lambda origin: BufferSource(before[origin.removeprefix("t-0/")]),
    )  # fmt: skip
    said = [start(disk, name, random.Random(seed), end) for disk, name in ((tree, "t-0"), (DirectoryDisk(), str(path)))]
    assert said[0] == said[1]
    if len(said[0]) > 2:
        assert files(path) == content(tree)


def test_a_malformed_batch_before_the_last_segment_is_reported_with_its_log() -> None:
    first = batch(record(0), 1, producer_id=5, producer_epoch=0, base_sequence=0)
    tree = Tree({}, ["t-0"], lambda _path: BufferSource(b""))
    tree.write("t-0/00000000000000000000.log", first + bytes(61))
    tree.write("t-0/00000000000000000002.log", batch(record(0), 1, base_offset=2))
    segments = LogSegments()
    for base in (0, 2):
        segments.put(LogSegment(tree, "t-0", base, CONFIG), base)
    with pytest.raises(JavaError) as raised:
        rebuild_producer_state(ProducerStateManager(tree, "t-0", NOW_MS, 10**9), segments, 0, 3)
    assert (raised.value.segment_path, raised.value.position) == ("t-0/00000000000000000000.log", len(first))


def test_an_unknown_snapshot_is_refused_and_the_others_stay_listed() -> None:
    tree = Tree({}, ["t-0"], lambda _path: BufferSource(b""))
    snapshots = Snapshots(tree, "t-0")
    snapshots.put(3, b"")
    for change in (snapshots.delete, snapshots.mark_deleted):
        with pytest.raises(KeyError):
            change(5)
        assert snapshots.offsets() == [3]


def test_a_renamed_directory_keeps_the_times_of_its_files() -> None:
    tree = Tree({}, ["t-0"], lambda _path: BufferSource(b""))
    tree.write("t-0/00000000000000000000.log", b"")
    tree.set_modified_ms("t-0/00000000000000000000.log", 7)
    tree.rename_directory("t-0", "t-0.stray")
    assert tree.modified_ms("t-0.stray/00000000000000000000.log") == 7
