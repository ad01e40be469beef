"""Following a log: after every step of a writer it is known as a fresh look knows it; racing listings are repeated."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import kafkalog
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.model import BATCH
from kafkalog.log.directories import follow
from kafkalog.log.directories.follow import Follower, settled
from kafkalog.types import Inventory

CHECKED = BATCH.position("crc")
"""What comes before it, the offset above all, no checksum covers."""
SMALL = kafkalog.LogConfig(segment_bytes=600, index_interval_bytes=64, retention_ms=-1, file_delete_delay_ms=0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[kafkalog.Log]:
    (tmp_path / "data").mkdir()
    with kafkalog.Log.open(tmp_path / "data" / "t-0", SMALL) as opened:
        yield opened


def step(log: kafkalog.Log, rng: random.Random, open_transactions: dict[int, int]) -> None:
    """One thing that a broker may do to a log."""
    what = rng.choice(["append"] * 6 + ["transaction"] * 3 + ["end"] * 3 + ["roll", "cut", "delete"])
    values = [rng.randbytes(rng.randint(1, 60)) for _ in range(rng.randint(1, 4))]
    if what == "append":
        log.append(values, compression=rng.choice(["none", "gzip"]))
    elif what == "transaction":
        producer_id = rng.randint(1, 3)
        sequence = log.next_sequence(producer_id)
        log.append(
            values,
            producer=kafkalog.ProducerState(
                producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
            ),
        )
        open_transactions[producer_id] = 1
    elif what == "end" and open_transactions:
        producer_id = rng.choice(sorted(open_transactions))
        del open_transactions[producer_id]
        log.end_transaction(producer_id, 0, commit=rng.random() < 0.5)
    elif what == "roll":
        log.roll()
    elif what == "cut" and rng.random() < 0.5:
        log.truncate_to(rng.randint(log.log_start_offset, log.end_offset))
        open_transactions.clear()
        open_transactions.update(dict.fromkeys(log.partition().transactions().open_first_offsets, 1))
    elif what == "delete" and rng.random() < 0.5:
        stable = log.last_stable_offset
        log.delete_records_before(rng.randint(log.log_start_offset, max(stable, log.log_start_offset)))
        log.delete_old_segments()


@pytest.mark.parametrize("seed", range(12))
def test_what_is_followed_is_what_a_fresh_look_finds(log: kafkalog.Log, seed: int) -> None:
    rng = random.Random(seed)
    plain, following = Follower(), Follower(transactions=True)
    open_transactions: dict[int, int] = {}
    looks = 0
    for _ in range(120):
        step(log, rng, open_transactions)
        if rng.random() < 0.4:
            continue
        partition = log.partition()
        fresh = kafkalog.open_partition(partition.path).transactions()
        end = kafkalog.open_partition(partition.path).log_end_offset()
        assert plain.look(partition).end_offset == end
        followed = following.look(partition)
        assert (followed.end_offset, followed.last_stable_offset) == (end, fresh.last_stable_offset)
        start = partition.log_start_offset
        told, right = (
            [(each.producer_id, each.first_offset, each.last_offset) for each in found if each.first_offset >= start]
            for found in (followed.aborted, fresh.aborted)
        )
        assert told == right
        looks += 1
    assert looks > 40


@pytest.mark.parametrize("seed", range(4))
def test_garbage_behind_the_end_moves_nothing(log: kafkalog.Log, seed: int) -> None:
    rng = random.Random(seed)
    log.append([b"x" * 50])
    log.flush()
    path = Path(log.partition().segments[-1].path)
    sound = path.read_bytes()
    follower = Follower(transactions=True)
    for _ in range(200):
        tail = bytearray(rng.choice([rng.randbytes(rng.randint(0, 300)), sound[: rng.randint(0, len(sound))]]))
        if len(tail) > CHECKED and rng.random() < 0.5:
            tail[rng.randrange(CHECKED, len(tail))] ^= 1 << rng.randrange(8)
        path.write_bytes(sound + tail)
        partition = kafkalog.open_partition(path.parent)
        # a repeated batch has the same offsets as the first: it adds nothing either
        assert follower.look(partition).end_offset == Follower().look(partition).end_offset == 1


def test_damage_with_a_sound_batch_behind_it_is_passed(log: kafkalog.Log) -> None:
    for number in range(3):
        log.append([b"%d" % number * 20])
    log.flush()
    path = Path(log.partition().segments[-1].path)
    batches = list(log.partition().segments[-1].batches())
    content = bytearray(path.read_bytes())
    content[batches[1].position + batches[1].size - 1] ^= 1
    path.write_bytes(content)
    assert Follower(transactions=True).look(log.partition()).end_offset == 3
    path.write_bytes(content[: batches[2].position])
    follower = Follower(transactions=True)
    assert [follower.look(log.partition()).end_offset for _ in range(2)] == [1, 1], "it may be unfinished"
    path.write_bytes(content)
    assert follower.look(log.partition()).end_offset == 3


def test_a_wrong_size_with_a_sound_batch_behind_it_is_passed_at_once(log: kafkalog.Log) -> None:
    """A writer may still complete a batch, but not one with another behind it."""
    state = kafkalog.ProducerState(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append([b"x"], producer=state)
    log.append([b"y" * 20])
    log.append([b"z" * 20])
    log.flush()
    path = Path(log.partition().segments[-1].path)
    second = list(log.partition().segments[-1].batches())[1]
    content = bytearray(path.read_bytes())
    content[second.position + BATCH.position("batch_length")] ^= 8
    path.write_bytes(content)
    followed = Follower(transactions=True).look(log.partition())
    assert (followed.end_offset, followed.damaged_from, followed.unread) == (3, 1, None)
    assert followed.open_transaction is None


def test_a_last_batch_that_ends_in_zeros_is_the_end_and_no_damage(log: kafkalog.Log) -> None:
    log.append([b"x"])
    log.append([b"y" * 300])
    log.flush()
    path = Path(log.partition().segments[-1].path)
    content = path.read_bytes()
    zeros = list(log.partition().segments[-1].batches())[1].size - BATCH.size
    path.write_bytes(content[:-zeros] + bytes(zeros))
    assert Follower(transactions=True).look(log.partition()).damaged_from is None


def test_a_file_that_has_not_changed_for_long_is_not_read_again(
    log: kafkalog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([b"x"])
    log.flush()
    later = time.time_ns() + 10**10
    monkeypatch.setattr(follow, "time", SimpleNamespace(time_ns=lambda: later))
    follower = Follower()
    partition = log.partition()
    assert follower.look(partition).end_offset == 1
    monkeypatch.setattr(follow, "Scanner", None)
    assert follower.look(partition).end_offset == 1


# --- listing --------------------------------------------------------------------------------------------------------


def test_a_listing_is_repeated_until_two_agree(
    log: kafkalog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        log.append([b"x" * 100])
    whole = kafkalog.open_all
    listed = []

    def racing(*paths: str, **more: object) -> Inventory:
        """The first listing was there before the last roll."""
        found = whole(*paths, **more)  # type: ignore[arg-type]
        listed.append(found)
        if len(listed) == 1:
            partition = found.partitions[0]
            object.__setattr__(partition, "segments", (partition.segments[0], *partition.segments[2:]))
        return found

    monkeypatch.setattr(follow, "open_all", racing)
    found = settled(tmp_path / "data").partitions[0]
    assert tuple(segment.base_offset for segment in found.segments) == log.segments
    assert len(listed) == 3


def test_a_compaction_is_waited_for_and_one_that_was_left_behind_is_not(
    log: kafkalog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append([b"x"])
    log.roll()
    log.append([b"y"])
    first = Path(log.path) / "00000000000000000000.log"
    swap = first.with_name(first.name + ".swap")
    first.rename(swap)
    pauses: list[float] = []

    def finish(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            swap.rename(first)

    monkeypatch.setattr(follow, "time", SimpleNamespace(sleep=finish))
    assert [segment.base_offset for segment in settled(tmp_path / "data").partitions[0].segments] == [0, 1]
    first.rename(swap)
    assert [segment.base_offset for segment in settled(tmp_path / "data").partitions[0].segments] == [0, 1]
    assert swap.exists()  # a start puts it in its place, and so it is read
    assert len(pauses) < 20
    swap.rename(first)


def test_what_goes_away_while_it_is_listed(log: kafkalog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append([b"x"])
    whole = kafkalog.open_all
    times = [2]

    def vanishing(*paths: str, **more: object) -> Inventory:
        times[0] -= 1
        if times[0] >= 0:
            raise StorageError.wrap(FileNotFoundError(2, "No such file or directory", "x"), "cannot list the directory")
        return whole(*paths, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(follow, "open_all", vanishing)
    assert len(settled(tmp_path / "data").partitions) == 1
    times[0] = 1000
    with pytest.raises(StorageError, match="cannot list the directory"):
        settled(tmp_path / "data")
    monkeypatch.setattr(follow, "open_all", whole)
    with pytest.raises(UsageError, match="does not exist"):
        settled(tmp_path / "missing")
