"""`Log.compact`: the latest of each key stays, and a crash leaves the old log or the new one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.codec.model import BatchHeader
from kafkalog.log.disk import fs
from testkit.judging.scripted import Clock
from testkit.judging.trees import contents

T0 = 1_700_000_000_000
CONFIG = kafkalog.LogConfig(
    segment_bytes=400,
    index_interval_bytes=80,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    retention_ms=-1,
    file_delete_delay_ms=0,
)
CHANGES = ("append", "truncate", "trim")


def filled(root: Path, clock: Clock, count: int = 40) -> dict[bytes, bytes | None]:
    """A log of many values for few keys, of which one was deleted, with a transaction; what it means in the end."""
    latest: dict[bytes, bytes | None] = {}
    with kafkalog.Log.open(root / "t-0", CONFIG, clock=clock) as log:

        def append(key: bytes, value: bytes | None, **more: Any) -> None:
            log.append([kafkalog.NewRecord(key=key, value=value, timestamp=clock.now_ms)], **more)
            latest[key] = value

        for number in range(count):
            clock.now_ms += 10
            append(b"k%d" % (number % 5), b"%d" % number * 5, compression="gzip" if number % 7 == 0 else "none")
        append(b"k3", None)
        append(
            b"k9",
            b"in a transaction",
            producer=kafkalog.ProducerState(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        log.end_transaction(5, 0, commit=False, timestamp=clock.now_ms)
        del latest[b"k9"]
        log.roll()
        append(b"last", b"of the last segment")
    return latest


def meaning(root: Path) -> dict[bytes | None, bytes | None]:
    """What a consumer makes of the log: the last value of each key, deleted keys left out."""
    records = kafkalog.open_partition(root / "t-0").records(kafkalog.RecordFilter(isolation_level="read_committed"))
    latest = {record.key: record.value for record in records}
    return {key: value for key, value in latest.items() if value is not None}


def test_only_the_latest_of_each_key_stays(tmp_path: Path) -> None:
    clock = Clock(T0)
    latest = filled(tmp_path, clock)
    with kafkalog.Log.open(tmp_path / "t-0", CONFIG, clock=clock) as log:
        end, before = log.end_offset, log.size
        counts = log.compact()
        assert (counts.first_dirty_offset, counts.cleaned_to) == (0, log.segments[-1])
        assert counts.records_dropped > 30
        assert (counts.bytes_before, counts.bytes_after) == (before, log.size)
        assert log.end_offset == end
        found = [
            (record.key, record.value)
            for record in log.partition().records(kafkalog.RecordFilter(isolation_level="read_committed"))
        ]
        assert dict(found) == latest
        assert len(found) == len(latest)
        assert log.read(0).batches
        assert log.compact().cleaned_to is None, "there is nothing dirty"
        log.append([b"goes on"])
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\nt 0 {counts.cleaned_to}\n"
    assert not kafkalog.verify(tmp_path).findings or all(
        finding.severity is not kafkalog.Severity.ERROR for finding in kafkalog.verify(tmp_path).findings
    )


def test_a_tombstone_goes_with_a_later_pass(tmp_path: Path) -> None:
    clock = Clock(T0)
    filled(tmp_path, clock)

    def keys() -> set[bytes | None]:
        return {record.key for record in kafkalog.open_partition(tmp_path / "t-0").records()}

    for later, is_there in ((0, True), (999, True), (2, False)):
        clock.now_ms += later
        with kafkalog.Log.open(tmp_path / "t-0", CONFIG, clock=clock) as log:
            log.append([kafkalog.NewRecord(key=b"other", value=b"value")])
            log.roll()
            assert log.compact().cleaned_to == log.end_offset
        assert (b"k3" in keys()) is is_there


def test_what_is_not_dirty_enough_is_left_alone(tmp_path: Path) -> None:
    clock = Clock(T0)
    filled(tmp_path, clock)
    config = kafkalog.LogConfig(min_cleanable_dirty_ratio=1.0)
    with kafkalog.Log.open(tmp_path / "t-0", config, clock=clock) as log:
        counts = log.compact()
    assert (counts.cleaned_to, counts.dirty_ratio) == (None, 1.0)
    assert not (tmp_path / "cleaner-offset-checkpoint").exists()


def test_a_damaged_log_is_not_cleaned_and_goes_on(tmp_path: Path) -> None:
    clock = Clock(T0)
    filled(tmp_path, clock)
    with kafkalog.Log.open(tmp_path / "t-0", CONFIG, clock=clock) as log:
        damaged = tmp_path / "t-0" / f"{log.segments[1]:020d}.log"
        data = bytearray(damaged.read_bytes())
        data[70] ^= 1
        damaged.write_bytes(data)
        before = contents(tmp_path)
        with pytest.raises(kafkalog.FormatError, match=r"; let recover\(.*\) decide") as caught:
            log.compact()
        assert caught.value.source == str(damaged)
        assert contents(tmp_path) == before
        log.append([b"goes on"])


def test_truncating_below_the_cleaned_part_makes_it_dirty_again(tmp_path: Path) -> None:
    clock = Clock(T0)
    filled(tmp_path, clock)
    with kafkalog.Log.open(tmp_path / "t-0", CONFIG, clock=clock) as log:
        cleaned_to = log.compact().cleaned_to
        assert cleaned_to is not None
        log.truncate_to(30)
        for number in range(30):
            log.append([kafkalog.NewRecord(key=b"same", value=b"%d" % number * 20)])
        log.roll()
        counts = log.compact()
        assert counts.first_dirty_offset == 30
        assert [r.value for r in log.partition().records() if r.key == b"same"] == [b"29" * 20]


def test_a_reader_goes_on_reading_what_it_has_open(tmp_path: Path) -> None:
    clock = Clock(T0)
    latest = filled(tmp_path, clock)
    with kafkalog.Log.open(tmp_path / "t-0", CONFIG, clock=clock) as log:
        reading = iter(log.partition().records(kafkalog.RecordFilter(isolation_level="read_committed")))
        first = next(reading)
        log.compact()
        found = {record.key: record.value for record in [first, *reading]}
        assert found == latest


# --- crashes --------------------------------------------------------------------------------------------------------


class Gone(BaseException):
    """The machine is gone."""


@contextmanager
def stopped_before(change: int, failure: Callable[[], BaseException]) -> Iterator[list[int]]:
    """Stop at the given change on disk, counted from 0; the list's only number is how many there were."""
    count = [0]
    names = ("rename", "remove", "write_new", "make_directory", "set_modified", "sync_directory")
    kept = {name: getattr(fs, name) for name in names}
    methods = {name: getattr(fs.AppendFile, name) for name in (*CHANGES, "sync")}
    made = fs.AppendFile.__init__

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] > change:
                raise failure()
            return real(*args, **options)

        return call

    def opened(self: fs.AppendFile, path: str, **options: Any) -> None:
        if options.get("create"):
            count[0] += 1
            if count[0] > change:
                raise failure()
        made(self, path, **options)

    with pytest.MonkeyPatch.context() as patch:
        for name, real in kept.items():
            patch.setattr(fs, name, counted(real))
        for name, real in methods.items():
            patch.setattr(fs.AppendFile, name, counted(real))
        patch.setattr(fs.AppendFile, "__init__", opened)
        yield count


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("how", ["gone", "out of space"])
def test_a_crash_at_any_moment_leaves_the_old_records_or_the_new_ones(
    how: str, step: int, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    failure: Callable[[], BaseException] = Gone if how == "gone" else lambda: kafkalog.StorageError(28, "No space left")
    clock = Clock(T0)
    original = tmp_path / "original"
    original.mkdir()
    latest = {key: value for key, value in filled(original, clock, 14).items() if value is not None}
    headers = {batch.header.last_offset for batch in kafkalog.open_partition(original / "t-0").batches()}
    change = 0
    while True:
        root = tmp_path / "cut"
        shutil.copytree(original, root)
        log = kafkalog.Log.open(root / "t-0", CONFIG, clock=clock)
        is_over = False
        try:
            with stopped_before(change, failure) as count:
                log.compact()
                is_over = count[0] <= change
        except (Gone, kafkalog.StorageError):
            pass
        finally:
            with stopped_before(0, Gone), suppress(Gone):
                log.close()
        (root / ".lock").unlink(missing_ok=True)
        kafkalog.recover(kafkalog.Recovery(at=clock.now_ms), root)
        assert meaning(root) == latest, change
        with kafkalog.Log.open(root / "t-0", CONFIG, clock=clock) as again:
            offsets = {batch.header.last_offset for batch in again.partition().batches()}
            assert offsets <= headers
            again.compact()
            assert again.append([kafkalog.NewRecord(key=b"more", value=b"1")]) == again.end_offset - 1
        assert meaning(root) == latest | {b"more": b"1"}, change
        assert not [name for name in os.listdir(root / "t-0") if name.endswith((".swap", ".cleaned"))]
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "cut.recovery", ignore_errors=True)
        if is_over:
            break
        change += step
    assert change > 40
    measured(f"compactions of an open log, {how} before one of their changes, then recovered", change // step)


def test_batches_that_lose_nothing_stay_as_they_are(tmp_path: Path) -> None:
    clock = Clock(T0)
    with kafkalog.Log.open(tmp_path / "t-0", CONFIG, clock=clock) as log:
        for number in range(6):
            log.append([kafkalog.NewRecord(key=b"%d" % number, value=b"v" * 90)], compression="zstd")
        log.roll()
        before = {b.header.last_offset: bytes(b.data) for b in log.partition().batches()}
        assert log.compact().records_dropped == 0
        after = {b.header.last_offset: bytes(b.data) for b in log.partition().batches()}
        assert after == before
        assert all(isinstance(b.header, BatchHeader) for b in log.partition().batches())
