"""What `Log` promises by itself: one writer, refusals that leave nothing behind, flushing, closing."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import kafkalog
from kafkalog.codec.names import parse_segment_file
from kafkalog.log.disk import fs
from kafkalog.log.storage.java import IllegalArgumentError
from kafkalog.log.storage.segment import LogSegment
from kafkalog.log.writing.incoming import Appendable
from kafkalog.log.writing.session import locked_directory
from testkit.judging.scripted import Clock
from testkit.judging.trees import contents, first_difference, stamps
from testkit.running.stopping import cut_short

T0 = 1_700_000_000_000
SMALL = kafkalog.LogConfig(segment_bytes=400, index_interval_bytes=64, file_delete_delay_ms=500)
MARKER = ".kafka_cleanshutdown"


def values(partition: kafkalog.Partition) -> list[bytes | None]:
    return [record.value for record in partition.records()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "t-0"


def test_a_log_is_created_appended_to_closed_and_opened_again(path: Path) -> None:
    with kafkalog.Log.open(path, topic_id="AAAAAAAAAAEAAAAAAAAAAQ") as log:
        assert (log.log_start_offset, log.end_offset, log.segments) == (0, 0, (0,))
        several: list[Appendable] = [b"a", (b"k", b"b"), kafkalog.NewRecord(None, b"k", 5)]
        assert log.append(several) == 0
        assert log.append([b"c"], leader_epoch=3) == 3
        assert log.append([]) == 4
        assert not (path.parent / MARKER).exists()
        assert (path.parent / ".lock").exists()
    assert (path.parent / MARKER).exists()
    assert not (path.parent / ".lock").exists()
    with kafkalog.Log.open(path) as log:
        assert (log.end_offset, log.leader_epoch, log.topic_id) == (4, 3, "AAAAAAAAAAEAAAAAAAAAAQ")
        assert log.append(log.partition().records()) == 4, "records that were read can be appended"
    assert values(kafkalog.open_partition(path)) == [b"a", b"b", None, b"c"] * 2
    assert kafkalog.verify(path.parent).findings == []


def test_one_writer_at_a_time_here_and_elsewhere(path: Path) -> None:
    program = "import sys, kafkalog; kafkalog.Log.open(sys.argv[1])"
    command = [sys.executable, "-c", program, str(path)]
    with kafkalog.Log.open(path) as log:
        log.append([b"a"])
        with pytest.raises(kafkalog.UsageError, match="already"):
            kafkalog.Log.open(path)
        other = subprocess.run(command, capture_output=True, text=True)
        assert "is locked" in other.stderr
        with pytest.raises(kafkalog.RecoveryRefused, match="written by this process"):
            kafkalog.recover(path.parent)
        log.append([b"b"])
        assert "is locked" in subprocess.run(command, capture_output=True, text=True).stderr, "the lock was kept"
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_two_partitions_of_one_directory_and_one_marker(path: Path) -> None:
    first, second = kafkalog.Log.open(path), kafkalog.Log.open(path.with_name("t-1"))
    first.append([b"a"])
    second.append([b"b"] * 2)
    first.close()
    assert not (path.parent / MARKER).exists(), "the other one is still open"
    second.close()
    log_dir = kafkalog.open(path.parent)
    assert log_dir.clean_shutdown is not None
    assert log_dir.recovery_points == {("t", 0): 1, ("t", 1): 2}


def test_no_marker_for_what_others_left_unfinished(path: Path) -> None:
    """Beside a partition of a broker that was killed, ours alone cannot say that the directory is in order."""
    with kafkalog.Log.open(path.with_name("t-1")) as log:
        log.append([b"b"])
    (path.parent / MARKER).unlink()
    with kafkalog.Log.open(path) as log:
        log.append([b"a"])
    assert not (path.parent / MARKER).exists()
    with kafkalog.Log.open(path) as first, kafkalog.Log.open(path.with_name("t-1")) as second:
        assert (first.end_offset, second.end_offset) == (1, 1)
    assert (path.parent / MARKER).exists(), "both were examined and closed"


@pytest.mark.parametrize("name", ["t", "t-x", "t-00", "-0", "a b-0", "t-0." + "0" * 32 + "-delete", "..-0"])
def test_names_that_a_broker_would_not_find(name: str, tmp_path: Path) -> None:
    with pytest.raises(kafkalog.UsageError):
        kafkalog.Log.open(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


PRODUCER = kafkalog.ProducerState(producer_id=7, producer_epoch=1, base_sequence=0)


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        ([b"x" * 500], {}, "segment_bytes"),
        ([b"x"], {"compression": "brotli"}, "not one of none, gzip"),
        ([3], {}, "not a record"),
        ([None, b"x"], {}, "NoneType is not a record"),
        ([("k", b"v")], {}, "bytes or None"),
        ([b"x"], {"leader_epoch": -1}, "leader epoch"),
        ([b"x"], {"leader_epoch": 3}, "leader epoch 3 is below"),
        ([b"x"], {"keep_offsets": True}, "only batches"),
        ([b"x"], {"producer": replace(PRODUCER, base_sequence=3)}, "sequence 3"),
        ([b"x"], {"producer": replace(PRODUCER, producer_epoch=0)}, "epoch 0"),
    ],
)
def test_a_refused_append_changes_nothing(
    records: list[object], options: dict[str, object], words: str, path: Path
) -> None:
    with kafkalog.Log.open(path, SMALL) as log:
        log.append([b"a"], producer=PRODUCER, leader_epoch=4)
        before = contents(path)
        with pytest.raises(kafkalog.UsageError, match=words):
            log.append(records, **options)  # type: ignore[arg-type]
        assert contents(path) == before
        assert log.append([b"b"], producer=replace(PRODUCER, base_sequence=1)) == 1


def test_batches_must_be_whole_and_follow(path: Path, tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    with kafkalog.Log.open(tmp_path / "from" / "t-0") as source:
        source.append([b"a", b"b"])
        source.append([b"c"])
        batches = list(source.partition().batches())
    with kafkalog.Log.open(path) as log:
        broken = dataclasses.replace(batches[0], data=bytes(batches[0].data)[:-1] + b"?")
        with pytest.raises(kafkalog.FormatError, match="checksum"):
            log.append([broken])
        with pytest.raises(kafkalog.UsageError, match="cannot follow"):
            log.append([batches[1], batches[0]], keep_offsets=True)
        for keep_offsets in (False, True):
            with pytest.raises(kafkalog.UsageError, match="bytes is not a batch"):
                log.append([batches[0], b"c"], keep_offsets=keep_offsets)
        assert log.append([batches[1]], keep_offsets=True) == 2, "a follower takes gaps"
        assert log.append(batches) == 3, "a leader gives new offsets"
        assert [record.offset for record in log.partition().records()] == [2, 3, 4, 5]


def test_a_repeated_batch_is_written_once(path: Path) -> None:
    with kafkalog.Log.open(path) as log:
        assert log.append([b"a", b"b"], producer=PRODUCER) == 0
        assert log.append([b"c"], producer=replace(PRODUCER, base_sequence=2)) == 2
        assert log.append([b"a", b"b"], producer=PRODUCER) == 0
        assert (log.end_offset, log.next_sequence(7), log.next_sequence(8)) == (3, 3, 0)


def test_flushing_by_count_and_by_clock(path: Path) -> None:
    with kafkalog.Log.open(path, kafkalog.LogConfig(flush_messages=3)) as log:
        log.append([b"a", b"b"])
        assert log.recovery_point == 0
        log.append([b"c"])
        assert log.recovery_point == 3
        log.append([b"d"])
        log.flush()
        assert log.recovery_point == 4
    with kafkalog.Log.open(path, kafkalog.LogConfig(flush_seconds=0.05)) as log:
        log.append([b"e"])
        deadline = time.monotonic() + 10
        while log.recovery_point < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert log.recovery_point == 5, "without another append"


def test_after_a_failed_flush_nothing_more_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = kafkalog.Log.open(path)
    log.append([b"a"])

    def fail(_: object) -> None:
        raise kafkalog.StorageError(5, "cannot flush", "somewhere")

    monkeypatch.setattr(fs.AppendFile, "sync", fail)
    with pytest.raises(kafkalog.StorageError, match="cannot flush"):
        log.flush()
    monkeypatch.undo()
    with pytest.raises(kafkalog.StorageError, match="earlier write failed"):
        log.append([b"b"])
    log.close()
    assert not (path.parent / MARKER).exists()
    assert not (path.parent / ".lock").exists()
    with kafkalog.Log.open(path) as again:
        assert values(again.partition()) == [b"a"]


def test_a_file_with_the_name_of_a_partition_has_no_topic_id(tmp_path: Path) -> None:
    (tmp_path / "t-0").write_bytes(b"")
    with kafkalog.Log.open(tmp_path / "t-1") as log:
        assert log.topic_id


def test_a_partition_without_metadata_gets_the_id_of_its_topic(tmp_path: Path) -> None:
    for number in (0, 1):
        with kafkalog.Log.open(tmp_path / f"t-{number}") as log:
            topic_id = log.topic_id
    (tmp_path / "t-0" / "partition.metadata").unlink()
    with kafkalog.Log.open(tmp_path / "t-0") as log:
        assert log.topic_id == topic_id


def test_a_snapshot_with_a_name_that_stops_a_broker_is_refused(path: Path) -> None:
    with kafkalog.Log.open(path, SMALL) as log:
        log.append([b"a"])
    (path / "x.snapshot").touch()
    before = sorted(found.name for found in path.iterdir())
    with pytest.raises(kafkalog.UsageError, match="a snapshot that a broker cannot read"):
        kafkalog.Log.open(path, SMALL)
    assert sorted(found.name for found in path.iterdir()) == before


def test_leader_epochs_that_a_broker_refuses_are_refused(path: Path) -> None:
    with kafkalog.Log.open(path, SMALL) as log:
        log.append([b"a"])
    (path / "leader-epoch-checkpoint").write_text("0\n1\n-1 0\n")
    with pytest.raises(kafkalog.FormatError, match="epoch"):
        kafkalog.Log.open(path, SMALL)


def test_what_a_broker_would_throw_while_writing_ends_the_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kafkalog.Log.open(path, SMALL) as log:
        log.append([b"a"])

        def full(*_: object, **__: object) -> None:
            raise IllegalArgumentError("Attempt to append to a full index")

        monkeypatch.setattr(LogSegment, "index_batch", full)
        with pytest.raises(kafkalog.FormatError, match="full index"):
            log.append([b"b"])
        monkeypatch.undo()
        with pytest.raises(kafkalog.StorageError, match="earlier write failed"):
            log.append([b"c"])


def test_an_interruption_ends_the_writing_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = kafkalog.Log.open(path, SMALL)
    log.append([b"a"])

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogSegment, "index_batch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.append([b"b"])
    monkeypatch.undo()
    with pytest.raises(kafkalog.StorageError, match="earlier write failed"):
        log.append([b"c"])
    log.close()
    assert not (path.parent / MARKER).exists()
    with kafkalog.Log.open(path) as again:
        assert values(again.partition()) == [b"a", b"b"]


def test_a_full_disk_leaves_whole_batches(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = kafkalog.Log.open(path)
    log.append([b"a"])
    real = os.pwrite

    def half(descriptor: int, data: memoryview, position: int) -> int:
        if len(data) < 60:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) // 2], position)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(kafkalog.StorageError, match="No space") as raised:
        log.append([b"b" * 200])
    assert raised.value.errno == 28
    monkeypatch.undo()
    log.close()
    with kafkalog.Log.open(path) as again:
        assert values(again.partition()) == [b"a"]


def test_deleting_has_two_steps(path: Path) -> None:
    clock = Clock(T0)
    config = replace(SMALL, retention_ms=1000, retention_bytes=-1)
    with kafkalog.Log.open(path, config, clock=clock) as log:
        for number in range(12):
            log.append([kafkalog.NewRecord(b"x" * 100, timestamp=T0 + number * 100)])
        bases = log.segments
        assert len(bases) == 6
        clock.now_ms = T0 + 1000 + 301
        assert log.delete_old_segments() == 2, "what is older than a second, strictly"
        assert (log.log_start_offset, log.segments) == (bases[2], bases[2:])
        gone = sorted(p.name for p in path.glob("*.deleted"))
        assert len([name for name in gone if ".log" in name]) == 2
        with pytest.raises(kafkalog.OffsetOutOfRangeError, match=f"the log holds {bases[2]} to 12"):
            log.read(0)
        clock.now_ms += 499
        log.delete_old_segments()
        assert set(gone) <= {p.name for p in path.glob("*.deleted")}
        clock.now_ms += 1
        log.delete_old_segments()
        assert not set(gone) & {p.name for p in path.glob("*.deleted")}
        clock.now_ms = T0 + 10**7
        log.delete_old_segments()
        assert (log.log_start_offset, log.end_offset, log.segments) == (12, 12, (12,)), "the last one goes too"
    with kafkalog.Log.open(path, config, clock=clock) as log:
        assert list(path.glob("*.deleted")) == []
        assert log.append([b"y"]) == 12


def test_retention_by_size_and_by_start(path: Path) -> None:
    with kafkalog.Log.open(path, replace(SMALL, retention_ms=-1, retention_bytes=700)) as log:
        for _ in range(12):
            log.append([b"x" * 100])
        size = log.size
        log.delete_old_segments()
        assert 700 <= log.size < size
        assert log.size - 2 * 170 < 700
        log.delete_records_before(11)
        log.delete_old_segments()
        assert log.segments[0] <= 11
        assert all(base > 11 for base in log.segments[1:])
        with pytest.raises(kafkalog.UsageError, match="the log holds 11 to 12"):
            log.delete_records_before(13)
    assert kafkalog.open(path.parent).log_start_offsets == {("t", 0): 11}
    with kafkalog.Log.open(path) as log:
        assert log.log_start_offset == 11


def test_damage_is_refused_and_left_for_recovery(path: Path) -> None:
    with kafkalog.Log.open(path, SMALL) as log:
        for _ in range(5):
            log.append([b"x" * 100])
    last = max(p for p in path.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    (path.parent / MARKER).unlink()
    before = {name: found for name, found in contents(path).items() if name.endswith(".log")}
    with pytest.raises(kafkalog.FormatError, match="recover") as raised:
        kafkalog.Log.open(path, SMALL)
    assert raised.value.code == "torn_tail"
    assert {name: found for name, found in contents(path).items() if name.endswith(".log")} == before
    kafkalog.recover(path.parent)
    with kafkalog.Log.open(path, SMALL) as log:
        assert log.append([b"y"]) == log.end_offset - 1 == 4


def test_a_preallocated_segment_is_trimmed(path: Path) -> None:
    with kafkalog.Log.open(path, kafkalog.LogConfig(segment_bytes=4096, preallocate=True)) as log:
        log.append([b"a"])
        assert [p.stat().st_size for p in path.glob("*.log")] == [4096]
        assert values(log.partition()) == [b"a"]
        log.roll()
        log.append([b"b"])
    assert all(p.stat().st_size < 100 for p in path.glob("*.log"))
    assert values(kafkalog.open_partition(path)) == [b"a", b"b"]


@pytest.mark.parametrize(
    "wrong", [{"segment_bytes": 10}, {"flush_messages": 0}, {"flush_seconds": 0}, {"segment_index_bytes": 8}]
)
def test_settings_that_cannot_be_meant(wrong: dict[str, int]) -> None:
    with pytest.raises(kafkalog.UsageError):
        kafkalog.LogConfig(**wrong)  # type: ignore[arg-type]


def test_only_whole_names_of_segments_are_written(path: Path) -> None:
    with kafkalog.Log.open(path, SMALL) as log:
        for _ in range(9):
            log.append([b"x" * 150])
        log.truncate_to(4)
        names = [p.name for p in path.iterdir()]
    assert all(parse_segment_file(n) or n in ("leader-epoch-checkpoint", "partition.metadata") for n in names)


def test_a_directory_with_something_else_in_it_is_left_alone(path: Path) -> None:
    with kafkalog.Log.open(path.with_name("u-0")):
        pass
    path.mkdir()
    (path / "notes.txt").write_text("mine")
    before = contents(path.parent)
    with pytest.raises(kafkalog.UsageError, match=r"notes\.txt"):
        kafkalog.Log.open(path)
    assert contents(path.parent) == before, "the marker of an orderly end too"


def test_an_index_without_its_log_goes(tmp_path: Path) -> None:
    """A crash in the middle of a roll leaves it; `LogLoader` removes it too."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "t-0"
    with kafkalog.Log.open(path) as log:
        log.append([b"a"])
    for suffix in ("index", "timeindex", "txnindex"):
        (path / f"{1:020d}.{suffix}").write_bytes(b"")
    with kafkalog.Log.open(path) as log:
        assert log.append([b"b"]) == 1
    assert sorted(each.name for each in path.glob("*index")) == [f"{0:020d}.index", f"{0:020d}.timeindex"]


def _damaged_batch(path: Path, _monkeypatch: pytest.MonkeyPatch) -> None:
    log = max(path.glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1] + b"!")


def _run_cut_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _damaged_batch(path, monkeypatch)
    request = kafkalog.Recovery(accept_loss=True, full=True)
    cut_short(lambda: kafkalog.recover(request, path.parent)[0], monkeypatch)


def _open_under_a_lock(path: Path) -> None:
    with locked_directory(path.parent):
        kafkalog.Log.open(path)


@pytest.mark.parametrize("spoil", [_damaged_batch, _run_cut_short])
@pytest.mark.parametrize("opened", [kafkalog.Log.open, _open_under_a_lock])
def test_a_refusal_leaves_the_lock_file_that_was_there(
    spoil: Callable[[Path, pytest.MonkeyPatch], None],
    opened: Callable[[Path], object],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with kafkalog.Log.open(path) as log:
        log.append([b"one"])
        log.append([b"two"])
    (path.parent / MARKER).unlink()
    spoil(path, monkeypatch)
    (path.parent / ".lock").touch()  # as a broker leaves it that was killed
    before = stamps(path.parent)
    with pytest.raises((kafkalog.FormatError, kafkalog.RecoveryRefused)):
        opened(path)
    assert first_difference(dict(stamps(path.parent)), dict(before)) == ""
