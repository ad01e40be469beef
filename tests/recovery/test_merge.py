"""Replica merge: every offset from a copy that has it, by the lineage of leader epochs, and Kafka opens the result."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command import kafkalog
from fixture_data import recovery_case
from kafka_oracle import KafkaOracle
from kafkalog import UsageError, open_all, verify
from kafkalog.codec.model import BATCH
from kafkalog.codec.scan import scan
from kafkalog.recovery.merge import merge_replicas
from trees import stamps

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
    result = merge_replicas(copies, tmp_path / "merged")
    assert result.gaps == []
    assert result.dropped == {}
    assert offsets(tmp_path / "merged") == whole
    assert [stamps(copy.parent) for copy in copies] == before
    assert len({each.source for each in result.ranges}) > 1
    assert verify(tmp_path / "merged").is_clean


def test_what_nobody_has_is_a_gap(copies: list[Path], tmp_path: Path) -> None:
    whole = offsets(copies[0].parent)
    ranges = [damage(logs(copy)[0], 3) for copy in copies]
    result = merge_replicas(copies, tmp_path / "merged")
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
    result = merge_replicas([old, new], tmp_path / "merged")
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
    result = merge_replicas(copies, tmp_path / "merged")
    assert result.dropped == {}
    assert offsets(tmp_path / "merged") == offsets(copies[1].parent)


def test_what_are_no_copies_is_refused(copies: list[Path], tmp_path: Path) -> None:
    other = copies[1].parent / "u-0"
    shutil.copytree(copies[1], other)
    for wrong in ([copies[0]], [copies[0], other]):
        with pytest.raises(UsageError, match="same topic-partition"):
            merge_replicas(wrong, tmp_path / "merged")
    finished = kafkalog("merge", copies[0], copies[1], "--into", tmp_path / "merged")
    assert finished.code == 2
    again = kafkalog("merge", copies[0], copies[1], "--into", tmp_path / "merged")
    assert again.code == 64
    assert "is there already" in again.err


@pytest.mark.java
def test_kafka_opens_the_merged_log_and_changes_nothing(copies: list[Path], kafka: KafkaOracle, tmp_path: Path) -> None:
    damage(logs(copies[0])[0], 1, 4)
    damage(logs(copies[1])[-1], 0)
    assert kafkalog("merge", *copies, "--into", tmp_path / "merged", *SETTINGS).code == 2
    shutil.copy(copies[0].parent / "meta.properties", tmp_path / "merged")
    answer = kafka.check(
        tmp_path / "merged", {"segment.index.bytes": 1536, "index.interval.bytes": 256, "now_ms": 1700000100000}
    )
    assert answer["accepted"], answer
