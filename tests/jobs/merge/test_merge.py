"""Replica merge: every offset from a copy that has it, by the lineage of leader epochs, and Kafka opens the result."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import kafkalog.copies.copy_walk as copy_walk
from kafkalog import Merge, RecoveryRefused, UsageError, merge_directories, merge_preview, open_all, verify
from kafkalog.codec.common.errors import StorageError, UnknownName
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.jobs.merge.merge import merge_replicas
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.pointer import POINTER, Pointer
from testkit.judging.trees import stamps
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made.batches import fix_crc, records_batch
from testkit.made.batches import record as simple_record
from testkit.recorded.fixture_data import recovery_case, replica_roles, unpack_replicas
from testkit.running.command import kafkalog

ROLES = replica_roles()
OLD, NEW, BEHIND = (ROLES[part] for part in ("old_leader", "new_leader", "behind"))
SETTINGS = ("--config", "segment.index.bytes=1536", "--config", "index.interval.bytes=256")


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    """Three copies of one partition, each in its own log directory."""
    case = recovery_case("undamaged/full-scan-plain")
    return [case.unpack_before(tmp_path / f"broker-{number}") / "t-0" for number in range(3)]


def offsets(root: Path) -> list[int]:
    return [record.offset for partition in open_all(root).partitions for record in partition.records(all=True)]


def damage(log: Path, *numbers: int) -> list[tuple[int, int]]:
    """Break some batches of a log; their offset ranges."""
    data = bytearray(log.read_bytes())
    ranges = []
    for number in numbers:
        batch = scan(bytes(log.read_bytes())).batches[number]
        data[batch.position + BATCH.size + 2] ^= 0xFF
        ranges.append((batch.header.base_offset, batch.header.last_offset))  # type: ignore[union-attr]
    log.write_bytes(data)
    return ranges


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def test_each_damaged_elsewhere_gives_all(copies: list[Path], tmp_path: Path) -> None:
    whole = offsets(copies[0].parent)
    damage(logs(copies[0])[0], 1, 4)
    damage(logs(copies[1])[0], 2)
    logs(copies[1])[-1].unlink()
    logs(copies[2])[0].write_bytes(b"")
    before = [stamps(copy.parent) for copy in copies]
    result = merge_replicas(*copies, target=tmp_path / "merged")
    assert result.gaps == []
    assert result.dropped == {}
    assert offsets(tmp_path / "merged") == whole
    assert [stamps(copy.parent) for copy in copies] == before
    assert len({each.source for each in result.ranges}) > 1
    assert verify(tmp_path / "merged").is_clean


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("broken", [(0,), (1,), (0, 1), (1, 2)])
def test_no_batch_that_cannot_be_read_is_taken_where_a_copy_has_it_readable(
    copies: list[Path], order: tuple[int, ...], broken: tuple[int, ...], tmp_path: Path
) -> None:
    """Its checksum is right, its first record is not: the order of the copies decided, and a consumer stopped there."""
    whole = offsets(copies[0].parent)
    for number in broken:
        log = logs(copies[number])[0]
        data = bytearray(log.read_bytes())
        for victim in (scan(bytes(data)).batches[place] for place in (1, 4)):
            start, end = victim.position, victim.position + victim.size
            data[start + BATCH.size] = 0x7F
            data[start:end] = fix_crc(bytes(data[start:end]))
        log.write_bytes(data)
    merge_replicas(*[copies[number] for number in order], target=tmp_path / "merged")
    (merged,) = open_all(tmp_path / "merged").partitions
    reader = merged.records()
    assert [each.offset for each in reader] == whole
    assert reader.ended_by is None


def test_what_nobody_has_is_a_gap(copies: list[Path], tmp_path: Path) -> None:
    whole = offsets(copies[0].parent)
    ranges = [damage(logs(copy)[0], 3) for copy in copies]
    result = merge_replicas(*copies, target=tmp_path / "merged")
    assert result.gaps == ranges[0]
    lost = range(ranges[0][0][0], ranges[0][0][1] + 1)
    assert offsets(tmp_path / "merged") == [offset for offset in whole if offset not in lost]


def with_epoch(batch: bytes, epoch: int) -> bytes:
    """A batch of another leader epoch; the epoch lies outside the checksum."""
    changed = bytearray(batch)
    start = BATCH.position("partition_leader_epoch")
    changed[start : start + 4] = epoch.to_bytes(4, "big")
    return bytes(changed)


def test_the_tail_of_a_deposed_leader_does_not_come_back(tmp_path: Path) -> None:
    """One copy goes on in the old epoch where the other has a newer one from the same offset."""
    case = recovery_case("undamaged/crash-single")
    old = case.unpack_before(tmp_path / "old") / "t-0"
    new = case.unpack_before(tmp_path / "new") / "t-0"
    batches = scan(logs(old)[0].read_bytes()).batches
    kept, divided = batches[:6], batches[6]
    (old / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    logs(old)[0].write_bytes(b"".join(with_epoch(bytes(batch.data), 7) for batch in batches))
    start = divided.header.base_offset  # type: ignore[union-attr]
    (new / "leader-epoch-checkpoint").write_text(f"0\n2\n7 0\n8 {start}\n")
    logs(new)[0].write_bytes(
        b"".join([*(with_epoch(bytes(batch.data), 7) for batch in kept), with_epoch(bytes(divided.data), 8)])
    )
    result = merge_replicas(old, new, target=tmp_path / "merged")
    assert offsets(tmp_path / "merged")[-1] == divided.header.last_offset
    assert result.dropped == {str(old): len(batches) - 6}
    assert result.ranges[-1].source == str(new)
    assert (tmp_path / "merged" / "t-0" / "leader-epoch-checkpoint").read_text() == f"0\n2\n7 0\n8 {start}\n"


def test_an_epoch_that_no_checkpoint_knows_replaces_nothing(copies: list[Path], tmp_path: Path) -> None:
    log = logs(copies[0])[0]
    data = bytearray(log.read_bytes())
    position = scan(bytes(data)).batches[2].position + BATCH.position("partition_leader_epoch")
    data[position] ^= 0x40
    log.write_bytes(data)
    result = merge_replicas(*copies, target=tmp_path / "merged")
    assert result.dropped == {}
    assert offsets(tmp_path / "merged") == offsets(copies[1].parent)


def test_a_copy_of_which_a_part_may_be_in_a_quarantine_is_not_merged(copies: list[Path], tmp_path: Path) -> None:
    run = "20260101T000000.000000Z-00000000"
    (copies[1].parent / POINTER).write_bytes(Pointer("0" * 32, at_work=(run,)).encode())
    with pytest.raises(RecoveryRefused, match=run):
        merge_preview(*copies)
    with pytest.raises(RecoveryRefused, match=run):
        merge_replicas(*copies, target=tmp_path / "merged")
    with pytest.raises(RecoveryRefused, match=run):
        merge_directories(copies[0].parent, copies[1], target=tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_what_are_no_copies_is_refused(copies: list[Path], tmp_path: Path) -> None:
    other = copies[1].parent / "u-0"
    shutil.copytree(copies[1], other)
    for wrong in ([copies[0]], [copies[0], other]):
        with pytest.raises(UsageError, match="same topic-partition"):
            merge_replicas(*wrong, target=tmp_path / "merged")
    finished = kafkalog("merge", copies[0], copies[1], "--into", tmp_path / "merged")
    assert finished.code == 0
    again = kafkalog("merge", copies[0], copies[1], "--into", tmp_path / "merged")
    assert again.code == 64
    assert "already exists" in again.err


@pytest.mark.java
def test_kafka_opens_the_merged_log_and_changes_nothing(copies: list[Path], kafka: KafkaOracle, tmp_path: Path) -> None:
    damage(logs(copies[0])[0], 1, 4)
    damage(logs(copies[1])[-1], 0)
    assert kafkalog("merge", *copies, "--into", tmp_path / "merged", *SETTINGS).code == 0
    shutil.copy(copies[0].parent / "meta.properties", tmp_path / "merged")
    answer = kafka.check(
        tmp_path / "merged", {"segment.index.bytes": 1536, "index.interval.bytes": 256, "now_ms": 1700000100000}
    )
    assert answer["accepted"], answer


# -- whole log directories of a recorded cluster -----------------------------------------------------------------------


@pytest.fixture
def volumes(tmp_path: Path) -> dict[int, Path]:
    """The log directories of three brokers that went apart."""
    root = unpack_replicas(tmp_path / "volumes")
    return {broker: root / f"broker-{broker}" for broker in ROLES["brokers"]}


def bytes_of(partition: Path) -> bytes:
    """A log without its division into segments."""
    return b"".join(log.read_bytes() for log in logs(partition))


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """What a real follower had of `tale` when it had fetched from the leader."""
    return unpack_replicas(tmp_path / "after", after=True) / f"broker-{BEHIND}" / "tale-0"


def test_merged_volumes_are_what_a_follower_has_fetched(
    volumes: dict[int, Path], fetched: Path, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """Every file of the follower, its division into segments and its indexes too."""
    before = {broker: stamps(volume) for broker, volume in volumes.items()}
    result = merge_directories(*volumes.values(), target=tmp_path / "merged")
    assert {broker: stamps(volume) for broker, volume in volumes.items()} == before
    merged = tmp_path / "merged" / "tale-0"
    assert bytes_of(merged) == bytes_of(fetched)
    for name in ("*.log", "*.index", "*.timeindex", "leader-epoch-checkpoint", "partition.metadata"):
        for path in fetched.glob(name):
            assert (merged / path.name).read_bytes() == path.read_bytes(), path.name
    assert {path.name for path in logs(merged)} == {path.name for path in logs(fetched)}
    assert [f"{each.topic}-{each.partition}" for each in result.partitions] == [
        "alone-0", "cleaned-0", "equal-0", "tale-0",
    ]  # fmt: skip
    assert bytes_of(tmp_path / "merged" / "cleaned-0") == bytes_of(volumes[NEW] / "cleaned-0")
    assert bytes_of(tmp_path / "merged" / "alone-0") == bytes_of(
        next(volume for volume in volumes.values() if (volume / "alone-0").exists()) / "alone-0"
    )
    assert not (tmp_path / "merged" / "meta.properties").exists()
    assert not (tmp_path / "merged" / "__cluster_metadata-0").exists()
    assert {Path(path).name for path in result.left_out} == {"__cluster_metadata-0"}
    assert verify(tmp_path / "merged").is_clean
    compared("batches of merged volumes, with those of a real follower", len(scan(bytes_of(merged)).batches))


@pytest.mark.parametrize("seed", range(6))
def test_damaged_volumes_give_what_a_follower_has_fetched(
    seed: int, volumes: dict[int, Path], fetched: Path, tmp_path: Path
) -> None:
    """Where all have an offset, one copy that is sound there is enough."""
    rng = random.Random(seed)
    for broker, log in ((NEW, 0), (BEHIND, 0), (OLD, 0), (OLD, 1)):
        damage(logs(volumes[broker] / "tale-0")[log], rng.randrange(2) if broker == NEW else 2 + rng.randrange(3))
    tail = logs(volumes[BEHIND] / "tale-0")[-1]
    tail.write_bytes(tail.read_bytes()[:-20])
    merge_directories(*volumes.values(), target=tmp_path / "merged")
    assert bytes_of(tmp_path / "merged" / "tale-0") == bytes_of(fetched)
    epochs = (tmp_path / "merged" / "tale-0" / "leader-epoch-checkpoint").read_bytes()
    assert epochs == (fetched / "leader-epoch-checkpoint").read_bytes()


def test_a_target_that_cannot_be_listed_is_an_io_error(
    volumes: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "merged"
    target.mkdir()
    for name in ("listdir", "scandir"):
        real = getattr(os, name)

        def refuse(path: str, real: Callable[[str], object] = real) -> object:
            if path == str(target):
                raise PermissionError(13, "Permission denied", path)
            return real(path)

        monkeypatch.setattr(os, name, refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        merge_directories(*volumes.values(), target=target)


def test_what_only_the_leader_had_is_a_gap_and_not_the_deposed_leaders(
    volumes: dict[int, Path], tmp_path: Path
) -> None:
    """The first batch of the new epoch is damaged: the list of its broker says all the same where it began."""
    (lost,) = damage(logs(volumes[NEW] / "tale-0")[2], 0)
    assert lost[0] == 90
    result = merge_directories(Merge(select=Selection.of(["tale"])), *volumes.values(), target=tmp_path / "merged")
    (tale,) = result.partitions
    assert tale.gaps == [lost]
    old = next(copy for copy in tale.copies if f"broker-{OLD}" in copy.path)
    assert (old.dropped_records, old.dropped_from is not None and old.dropped_from.offset) == (40, 90)
    assert not set(range(lost[0], lost[1] + 1)) & set(offsets(tmp_path / "merged"))
    new = next(copy for copy in tale.copies if f"broker-{NEW}" in copy.path)
    assert new.damage is not None
    assert (new.damage.file, new.damage.position) == (str(logs(volumes[NEW] / "tale-0")[2]), 0)
    assert tale.records_kept == 120 - (lost[1] - lost[0] + 1)
    assert not tale.ends_below_high_watermark


def test_what_compaction_took_does_not_come_back_but_for_damage(volumes: dict[int, Path], tmp_path: Path) -> None:
    only_behind = merge_preview(volumes[NEW] / "cleaned-0", volumes[BEHIND] / "cleaned-0")
    assert only_behind.records_kept == 80
    assert only_behind.copies[1].cleaned_batches > 0
    assert (only_behind.gap_count, only_behind.copies[1].passed_batches) == (0, 0)
    # the segment of 130 to 173: its only batch that is left ends at 169
    damage(volumes[NEW] / "cleaned-0" / f"{130:020}.log", 0)
    damaged = merge_preview(volumes[NEW] / "cleaned-0", volumes[BEHIND] / "cleaned-0")
    given = damaged.copies[1].batches
    assert given > 0, "where the best copy is damaged, the other one gives what it has"
    assert any(first >= 130 for first, _last in damaged.gaps)


def test_preview_says_what_a_merge_would_keep_and_writes_nothing(volumes: dict[int, Path], tmp_path: Path) -> None:
    damage(logs(volumes[NEW] / "tale-0")[0], 1)
    damage(logs(volumes[NEW] / "tale-0")[2], 1)
    copies = [volume / "tale-0" for volume in volumes.values()]
    before = stamps(tmp_path)
    said = merge_preview(*copies)
    assert stamps(tmp_path) == before
    assert said.target is None
    done = merge_replicas(*copies, target=tmp_path / "merged")
    assert replace(done, target=None) == said
    assert len(offsets(tmp_path / "merged")) == said.records_kept
    assert said.gap_count == 1


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(8))
def test_columns_and_batches_merge_alike(
    seed: int, volumes: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    for volume in volumes.values():
        for topic in ("equal", "tale", "cleaned"):
            for log in logs(volume / f"{topic}-0"):
                count = len(scan(log.read_bytes()).batches)
                if count and rng.random() < 0.5:
                    damage(log, rng.randrange(count))
    said = []
    for by_columns in (True, False):
        monkeypatch.setattr(copy_walk, "is_there", lambda answer=by_columns: answer)
        target = tmp_path / f"merged-{by_columns}"
        result = merge_directories(Merge(at=1_700_000_000_000), *volumes.values(), target=target)
        files = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}
        said.append(([replace(each, target=None) for each in result.partitions], result.refused, files))
    assert said[0] == said[1]
    for each in said[0][0]:
        assert each.records_kept > 0


def test_any_copy_that_has_an_offset_gives_it(volumes: dict[int, Path], tmp_path: Path) -> None:
    """Held against the union of what a reader finds in each copy."""
    whole = offsets_of(volumes[OLD], "equal")
    lost: list[set[int]] = []
    for number, volume in enumerate(volumes.values()):
        gone: set[int] = set()
        for log in logs(volume / "equal-0"):
            for first, last in damage(log, 1 + number % 2, 3):
                gone |= {*range(first, last + 1)}
        lost.append(gone)
    nowhere = set.intersection(*lost)
    assert nowhere
    wanted = Selection.of(["equal"])
    (result,) = merge_directories(Merge(select=wanted), *volumes.values(), target=tmp_path / "merged").partitions
    assert set(offsets(tmp_path / "merged")) == set(whole) - nowhere
    assert {offset for first, last in result.gaps for offset in range(first, last + 1)} == nowhere


def offsets_of(volume: Path, topic: str) -> list[int]:
    return [record.offset for record in open_all(volume)[topic, 0].records(all=True)]


def test_records_that_were_deleted_stay_deleted(volumes: dict[int, Path], tmp_path: Path) -> None:
    """DeleteRecords moves the log start; a copy that does not know it yet does not bring them back."""
    batch = scan(logs(volumes[NEW] / "tale-0")[1].read_bytes()).batches[1]
    start = batch.header.last_offset
    text = f"0\n1\ntale 0 {start}\n"
    for broker in (OLD, NEW):
        (volumes[broker] / "log-start-offset-checkpoint").write_text(text)
        epochs = volumes[broker] / "tale-0" / "leader-epoch-checkpoint"  # as `LeaderEpochFileCache.truncateFromStart`
        entries = [tuple(map(int, line.split())) for line in epochs.read_text().splitlines()[2:]]
        last = max(epoch for epoch, first in entries if first <= start)
        entries = [(epoch, max(first, start)) for epoch, first in entries if epoch >= last]
        lines = [0, len(entries), *(f"{epoch} {first}" for epoch, first in entries)]
        epochs.write_text("".join(f"{line}\n" for line in lines))
    wanted = Selection.of(["tale"])
    (result,) = merge_directories(Merge(select=wanted), *volumes.values(), target=tmp_path / "merged").partitions
    assert result.log_start_offset == start
    assert (tmp_path / "merged" / "log-start-offset-checkpoint").read_text() == text
    seen = open_all(tmp_path / "merged")["tale", 0].records()
    assert next(iter(seen)).offset == start


def test_a_log_start_behind_the_end_deletes_nothing(volumes: dict[int, Path], tmp_path: Path) -> None:
    (volumes[BEHIND] / "log-start-offset-checkpoint").write_text("0\n1\ntale 0 99999999\n")
    wanted = Selection.of(["tale"])
    (result,) = merge_directories(Merge(select=wanted), *volumes.values(), target=tmp_path / "merged").partitions
    assert (result.log_start_offset, result.records_kept) == (0, 120)


def test_a_copy_that_has_lost_its_first_segments_is_filled(volumes: dict[int, Path], tmp_path: Path) -> None:
    logs(volumes[NEW] / "tale-0")[0].unlink()
    wanted = Selection.of(["tale"])
    (result,) = merge_directories(Merge(select=wanted), *volumes.values(), target=tmp_path / "merged").partitions
    assert (result.log_start_offset, result.log_end_offset, result.gap_count) == (0, 120, 0)
    assert len(result.ranges) == 2


def test_what_cannot_be_merged(volumes: dict[int, Path], tmp_path: Path) -> None:
    for paths, words in (
        ([volumes[OLD]], "two or more"),
        ([volumes[OLD], volumes[OLD]], "given 2 times"),
        ([volumes[OLD], logs(volumes[OLD] / "tale-0")[0]], "not a directory"),
    ):
        with pytest.raises(UsageError, match=words):
            merge_directories(*paths, target=tmp_path / "merged")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="already exists"):
        merge_directories(*volumes.values(), target=tmp_path / "full")
    with pytest.raises(UnknownName, match="there is no topic 'nothing'"):
        merge_directories(Merge(select=Selection.of(["nothing"])), *volumes.values(), target=tmp_path / "merged")
    (volumes[NEW] / "tale-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    ((name, why),) = merge_directories(*volumes.values(), target=tmp_path / "merged").refused
    assert name == "tale-0"
    assert "several topics of the same name" in why
    assert sorted(path.name for path in (tmp_path / "merged").iterdir()) == ["alone-0", "cleaned-0", "equal-0"]
    with pytest.raises(RecoveryRefused, match="several topics of the same name"):
        merge_replicas(*[volume / "tale-0" for volume in volumes.values()], target=tmp_path / "other")
    meta = volumes[NEW] / "meta.properties"
    meta.write_text(meta.read_text().replace("cluster.id=", "cluster.id=x"))
    finished = kafkalog("merge", *volumes.values(), "--into", tmp_path / "other", "--exclude", "tale-0")
    assert finished.code == 3
    assert "several clusters" in finished.err


def test_a_partition_that_a_broker_would_not_load_does_not_stop_the_others(
    volumes: dict[int, Path], tmp_path: Path
) -> None:
    given = ("--config", "segment.index.bytes=8")
    finished = kafkalog("merge", *volumes.values(), "--into", tmp_path / "merged", *given, "--json")
    (summary,) = (each for each in finished.objects if each["kind"] == "summary")
    assert bool(summary["refused"]) == (finished.code == 3)
    assert not [path for path in (tmp_path / "merged").iterdir() if path.name.endswith(".kafkalog-tmp")]


def test_the_command_says_what_is_wrong_with_which_copy(volumes: dict[int, Path], tmp_path: Path) -> None:
    log = logs(volumes[NEW] / "tale-0")[0]
    damage(log, 1)
    finished = kafkalog("merge", *volumes.values(), "--into", tmp_path / "merged")
    assert finished.code == 0
    assert f"tale-0: damaged: {log} at byte" in finished.out
    assert f"{volumes[BEHIND] / 'tale-0'} lacks 60 of these records, the first at offset 60" in finished.out
    assert f"(40 records) of {volumes[OLD] / 'tale-0'} replaced by a newer leader epoch" in finished.out
    assert "there is no meta.properties" in finished.out
    wrong = kafkalog("merge", *(volume / "tale-0" for volume in volumes.values()), "--into", tmp_path, "--topic", "t")
    assert wrong.code == 64


@pytest.mark.parametrize("number", [0, 1])
def test_a_link_in_place_of_a_segment_cannot_be_read(number: int, volumes: dict[int, Path], tmp_path: Path) -> None:
    log = logs(volumes[NEW] / "equal-0")[number]
    log.rename(tmp_path / "elsewhere.log")
    log.symlink_to(tmp_path / "elsewhere.log")
    words = f"damaged: {log} at byte 0: unreadable (a symbolic link, which is not followed)"
    merged = kafkalog("merge", *volumes.values(), "--into", tmp_path / "merged")
    assert merged.code == 4
    assert words in merged.out
    assert f"cannot be read: {log}: a symbolic link, which is not followed" in merged.out
    one = kafkalog("merge", *(volume / "equal-0" for volume in volumes.values()), "--into", tmp_path / "one")
    assert one.code == 4
    assert words in one.out
    assert logs(tmp_path / "one" / "equal-0")[number].read_bytes() == log.read_bytes()


def test_what_an_earlier_run_left_is_no_obstacle(volumes: dict[int, Path], tmp_path: Path) -> None:
    (tmp_path / "merged" / ".tale-0.kafkalog-tmp").mkdir(parents=True)
    (tmp_path / "merged" / ".tale-0.kafkalog-tmp" / "file").touch()
    merge_replicas(*[volume / "tale-0" for volume in volumes.values()], target=tmp_path / "merged")
    assert [path.name for path in (tmp_path / "merged").iterdir()] == ["tale-0"]


def test_what_a_merge_at_work_writes_is_left_to_it(volumes: dict[int, Path], tmp_path: Path) -> None:
    theirs = tmp_path / "merged" / ".tale-0.kafkalog-tmp"
    theirs.mkdir(parents=True)
    (theirs / "file").touch()
    held = os.open(theirs, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)  # as the other process does until it ends
    try:
        with pytest.raises(RecoveryRefused, match="another merge is writing"):
            merge_replicas(*[volume / "tale-0" for volume in volumes.values()], target=tmp_path / "merged")
    finally:
        os.close(held)
    assert [path.name for path in theirs.iterdir()] == ["file"]


def alternating(root: Path, count: int) -> list[Path]:
    """Two copies of a log, each with every other batch only."""
    one = records_batch(simple_record(0))
    for number in range(2):
        directory = root / str(number) / "t-0"
        directory.mkdir(parents=True)
        data = b"".join(offset.to_bytes(8, "big") + one[8:] for offset in range(number, count, 2))
        (directory / f"{0:020}.log").write_bytes(data)
    return [root / str(number) / "t-0" for number in range(2)]


@pytest.mark.sweep
def test_memory_does_not_grow_with_the_log(tmp_path: Path, measured: Callable[[str, int], None]) -> None:
    """Copies that give batch by batch in turn are the worst there is: nothing of that is kept beyond one run of headers
    for each copy, which both lengths fill.
    """
    peaks = []
    for count in (20_000, 160_000):
        copies = alternating(tmp_path / str(count), count)
        tracemalloc.start()
        result = merge_preview(*copies)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (result.batches_kept, result.range_count, len(result.ranges)) == (count, count, 1000)
    assert peaks[1] < peaks[0] + (1 << 20)
    measured("bytes at most while 160,000 alternating batches were chosen", peaks[1])


@pytest.mark.java
def test_kafka_opens_merged_volumes_and_changes_nothing(
    volumes: dict[int, Path], kafka: KafkaOracle, tmp_path: Path
) -> None:
    damage(logs(volumes[NEW] / "tale-0")[0], 1)
    damage(logs(volumes[NEW] / "cleaned-0")[3], 0)
    config = ("--config", "segment.index.bytes=8192", "--config", "index.interval.bytes=256")
    assert kafkalog("merge", *volumes.values(), "--into", tmp_path / "merged", *config).code == 0
    shutil.copy(volumes[NEW] / "meta.properties", tmp_path / "merged")
    answer = kafka.check(
        tmp_path / "merged", {"segment.index.bytes": 8192, "index.interval.bytes": 256, "now_ms": 1700000100000}
    )
    assert answer["accepted"], answer


def with_value(log: Path, number: int) -> bytes:
    """One bit of the last value of a batch turned over, and the checksum made right again; the batch it was before."""
    data = bytearray(log.read_bytes())
    batch = scan(bytes(data)).batches[number]
    start, end = batch.position, batch.position + batch.size
    before = bytes(data[start:end])
    data[end - 2] ^= 1
    data[start:end] = fix_crc(bytes(data[start:end]))
    log.write_bytes(data)
    return before


@pytest.mark.parametrize("preferred", [0, 1, 2])
def test_the_preferred_copy_gives_what_several_have(copies: list[Path], preferred: int, tmp_path: Path) -> None:
    whole = offsets(copies[0].parent)
    for number, copy in enumerate(copies):
        with_value(logs(copy)[0], number)
    would = merge_preview(Merge(prefer=copies[preferred]), *copies)
    result = merge_replicas(Merge(prefer=copies[preferred]), *copies, target=tmp_path / "merged")
    assert (would.batches_kept, would.ranges) == (result.batches_kept, result.ranges)
    assert offsets(tmp_path / "merged") == whole
    merged = b"".join(path.read_bytes() for path in logs(tmp_path / "merged" / copies[0].name))
    assert merged.startswith(logs(copies[preferred])[0].read_bytes())


def test_the_preferred_copy_gives_nothing_that_is_damaged(copies: list[Path], tmp_path: Path) -> None:
    whole = offsets(copies[0].parent)
    damage(logs(copies[1])[0], 2)
    merge_replicas(Merge(prefer=copies[1]), *copies, target=tmp_path / "merged")
    assert offsets(tmp_path / "merged") == whole


def test_a_stranger_is_not_preferred(copies: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is preferred and is not among the copies"):
        merge_replicas(Merge(prefer=tmp_path), *copies, target=tmp_path / "merged")


def test_a_dry_run_says_what_is_written_then_and_writes_nothing(tmp_path: Path) -> None:
    volumes = unpack_replicas(tmp_path / "volumes")
    paths = sorted(path for path in volumes.iterdir() if path.is_dir())
    before = [stamps(path) for path in paths]
    would = merge_directories(*paths, target=None)
    assert [stamps(path) for path in paths] == before
    done = merge_directories(*paths, target=tmp_path / "merged")
    assert would.target is None
    written = [replace(each, target=None) for each in done.partitions]
    assert written == would.partitions
    assert written
    shown = kafkalog("merge", *map(str, paths), "--dry-run")
    assert (shown.code, shown.err) == (0, "")
    assert "nothing was written: --into DIR writes it" in shown.out
    assert kafkalog("merge", *map(str, paths)).code == 64


def lineage_copy(root: Path, epochs: list[tuple[int, int]] | None, *batches: bytes) -> Path:
    """A copy of t-0 in a log directory of its own; `epochs` None: it has lost its list."""
    directory = root / "t-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    if epochs is not None:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)
        (directory / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    return directory


def written(offset: int, epoch: int, who: bytes, count: int = 1) -> bytes:
    found = [simple_record(delta, value=who + b"%d" % (offset + delta)) for delta in range(count)]
    return records_batch(*found, base_offset=offset, leader_epoch=epoch)


LED = [written(offset, 0, b"led") for offset in range(6)] + [written(offset, 2, b"led") for offset in range(6, 9)]
LISTS = [[(0, 0), (2, 6)], [(0, 0)], [], None]


@pytest.mark.parametrize("theirs", [[(0, 0), (1, 4)], None], ids=["their list", "no list of theirs"])
@pytest.mark.parametrize("listed", LISTS, ids=["listed", "stale list", "empty list", "no list"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("epoch", [0, 1])
def test_the_copy_that_goes_furthest_is_what_a_merge_gives(
    epoch: int, count: int, listed: list[tuple[int, int]] | None, theirs: list[tuple[int, int]] | None, tmp_path: Path
) -> None:
    """A follower that fetched from it would have this log, whatever a deposed leader wrote meanwhile, and listed."""
    deposed = [written(offset, 0, b"led") for offset in range(4)] + [written(4, epoch, b"deposed", count)]
    deposed += [written(4 + count, epoch, b"deposed")]
    if theirs is not None and epoch == 0:
        theirs = [(0, 0)]
    best = lineage_copy(tmp_path / "best", listed, *LED)
    other = lineage_copy(tmp_path / "other", theirs, *deposed)
    for order in ([best, other], [other, best]):
        target = tmp_path / f"merged-{order[0].parent.name}"
        merge_replicas(*order, target=target)
        found = [record.value for record in open_all(target).partitions[0].records()]
        assert found == [b"led%d" % offset for offset in range(9)]


def test_what_damage_took_from_the_leader_comes_from_others_with_their_epochs(tmp_path: Path) -> None:
    """Without a list of its own, the leader cannot tell which epochs were there."""
    damaged = [bytearray(each) for each in LED]
    for each in damaged[3:6]:
        each[-1] ^= 1
    full = [written(offset, 0 if offset < 4 else 1, b"led") for offset in range(6)] + LED[6:]
    best = lineage_copy(tmp_path / "best", None, *map(bytes, damaged))
    other = lineage_copy(tmp_path / "other", [(0, 0), (1, 4)], *full[:6])
    merge_replicas(best, other, target=tmp_path / "merged")
    found = [record.value for record in open_all(tmp_path / "merged").partitions[0].records()]
    assert found == [b"led%d" % offset for offset in range(9)]


def test_an_epoch_of_a_deposed_leader_does_not_fill_a_hole_inside_one_epoch(tmp_path: Path) -> None:
    """The batches before and behind the damage have one epoch, so no other epoch was between them."""
    epochs = [0, 0, 2, 2, 2, 2, 2, 4, 4]
    led = [written(offset, epoch, b"led") for offset, epoch in enumerate(epochs)]
    damaged = bytearray(led[4])
    damaged[-1] ^= 1
    best = lineage_copy(tmp_path / "best", None, *led[:4], bytes(damaged), *led[5:])
    follower = lineage_copy(tmp_path / "follower", [(0, 0), (2, 2)], *led[:6])
    deposed = [written(4, 3, b"deposed"), written(5, 3, b"deposed")]
    other = lineage_copy(tmp_path / "other", [(0, 0), (2, 2), (3, 4)], *led[:4], *deposed)
    merge_replicas(best, follower, other, target=tmp_path / "merged")
    found = [record.value for record in open_all(tmp_path / "merged").partitions[0].records()]
    assert found == [b"led%d" % offset for offset in range(9)]


def test_that_the_metadata_is_not_merged_is_said(volumes: dict[int, Path], tmp_path: Path) -> None:
    """A combined node of 3.9.1 began its metadata anew in the result, and made 12 of 12 partitions -stray."""
    first, second = list(volumes.values())[:2]
    for broker in volumes.values():
        shutil.rmtree(broker / "__cluster_metadata-0", ignore_errors=True)
    said = "there is no __cluster_metadata-0 either"
    assert said not in kafkalog("merge", first, second, "--into", tmp_path / "without").out
    shutil.copytree(first / next(each.name for each in first.glob("*-0")), first / "__cluster_metadata-0")
    assert said in kafkalog("merge", first, second, "--into", tmp_path / "with").out


def test_one_directory_is_not_merged(tmp_path: Path) -> None:
    (tmp_path / "a" / "t-0").mkdir(parents=True)
    (tmp_path / "a" / "t-0" / "00000000000000000000.log").touch()
    with pytest.raises(UsageError, match=r"^give two or more log directories or partition directories$"):
        merge_directories(tmp_path / "a", target=tmp_path / "new")


def test_copies_of_a_partition_are_not_selected_by_topic(tmp_path: Path) -> None:
    """One rule for the command, the preview and the merge."""
    request = Merge(select=Selection.of(["tale"]))
    for merge in (merge_preview, lambda *given: merge_replicas(*given, target=tmp_path / "merged")):
        with pytest.raises(UsageError, match="partition directories are chosen by their paths"):
            merge(request, tmp_path / "a" / "tale-0", tmp_path / "b" / "tale-0")
