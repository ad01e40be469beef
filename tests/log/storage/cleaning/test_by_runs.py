"""The cleaner that reads, chooses and writes records with compiled code leaves what the readable one leaves."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import kafkalog
from kafkalog.codec.columnar.decompressed import opened_batches
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.log.storage.cleaning import by_runs, key_columns
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.key_columns import KeyColumns
from kafkalog.log.storage.java import InvalidRecordError
from kafkalog.log.storage.log_file import LogBatch
from testkit.judging.executions import choose_execution
from testkit.judging.trees import copy_tree, first_difference
from testkit.made import batches
from testkit.made.cleanable import MadeLog, Pass, settings

pytestmark = pytest.mark.compiled

def take_less(patch: pytest.MonkeyPatch, seed: int) -> None:
    """Let compiled code leave more than usual to the readable cleaner, which it works side by side with."""
    if seed % 3 == 1:
        patch.setattr(by_runs, "DEFAULT_LIMITS", replace(DEFAULT_LIMITS, records_per_batch=3))
    elif seed % 3 == 2:
        patch.setattr(key_columns, "_LARGEST", 0)  # headers of a record


@pytest.mark.parametrize("count", [25, pytest.param(1500, marks=pytest.mark.sweep)])
def test_both_ways_leave_the_same(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    by_runs_calls: list[str] = []
    clean_segment = by_runs.clean_segment

    def counted(*given: Any, **options: Any) -> None:
        by_runs_calls.append("")
        clean_segment(*given, **options)

    monkeypatch.setattr(by_runs, "clean_segment", counted)
    done = {"cleaned": 0, "declined": 0, "given up": 0}
    for seed in range(count):
        readable = MadeLog(seed).write(tmp_path / str(seed) / "readable")
        compiled = copy_tree(readable, tmp_path / str(seed) / "compiled")
        config = settings(random.Random(f"{seed}/settings"))
        want = Pass(readable, config)
        before = len(by_runs_calls)
        with monkeypatch.context() as patch:
            choose_execution(patch, 0)
            take_less(patch, seed)
            got = Pass(compiled, config)
        assert got.said == want.said, seed
        assert first_difference(dict(got.files), dict(want.files)) == "", seed
        assert got.times == want.times, seed
        assert not want.is_cleaned or len(by_runs_calls) > before, seed
        done["cleaned"] += want.is_cleaned
        done["declined"] += not want.is_cleaned
        done["given up"] += want.is_given_up
    assert done["cleaned"] > count / 2, done
    assert done["declined"] > 0, done
    assert done["given up"] > 0 or count < 500, done
    measured("made logs compacted by both ways", count)


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_a_marker_that_cannot_be_read_matters_unless_the_map_is_full_before(limit: int) -> None:
    class Transactions(CleanedTransactions):
        def control_batch(self, batch: LogBatch) -> bool:
            raise InvalidRecordError("a marker")

    data = b"".join(
        [
            batches.batch(batches.record(0, b"a") + batches.record(1, b"b"), 2),
            batches.batch(batches.record(0), 1, base_offset=2, attributes=batches.CONTROL),
            batches.batch(batches.record(0, b"c"), 1, base_offset=3),
        ]
    )
    (run,) = RunScanner(BufferSource(data))
    assert isinstance(run, BatchRun)
    offsets = key_columns.KeyColumns(10, limit)
    if limit == 1:
        assert not by_runs._take_run(run, 0, offsets, Transactions())
        assert (offsets.latest_offset, len(offsets)) == (0, 1)
        return
    with pytest.raises(InvalidRecordError):
        by_runs._take_run(run, 0, offsets, Transactions())
    assert (offsets.get(b"b"), offsets.get(b"c")) == (1, -1)


@pytest.mark.parametrize("offset_delta", [-40, -1, 3, 200])
def test_a_record_with_an_offset_outside_of_its_batch_is_left_to_the_readable_cleaner(offset_delta: int) -> None:
    """`Cleaner.shouldRetainRecord` compares such an offset with -1 if the map does not have the key."""
    records = b"".join(batches.record(delta, b"k", b"v") for delta in (0, offset_delta, 2))
    data = batches.batch(records, 3, base_offset=20, last_offset_delta=2)
    (run,) = RunScanner(BufferSource(data))
    assert isinstance(run, BatchRun)
    (opened,) = opened_batches(run, DEFAULT_LIMITS, 1000)
    offsets = KeyColumns(100, 75)
    assert offsets.put_batches(opened, 0) == (0, None)
    assert offsets.choose(opened, np.zeros(1, np.int64))[0].shape[1] == 0


def test_an_index_that_points_between_batches_ends_both_ways_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Cleaner.buildOffsetMapForSegment` begins where the index says, and the bytes there are no batch."""
    root = tmp_path / "log"
    (root / "t-0").mkdir(parents=True)
    (root / ".kafka_cleanshutdown").touch()
    (root / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=vPeOCWypqUOSepEvx0cbog\n")
    for base, count in ((0, 2), (2, 2), (4, 0)):
        pair = [batches.batch(batches.record(0, b"k"), 1, base_offset=base + number) for number in range(count)]
        stem = root / "t-0" / f"{base:020}"
        stem.with_suffix(".log").write_bytes(b"".join(pair))
        stem.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 0, 0) if count else b"")
        stem.with_suffix(".index").write_bytes(b"")
    (root / "t-0" / f"{0:020}.index").write_bytes(struct.pack(">ii", 0, 14) + bytes(3))
    said = []
    for enough_bytes in (0, 1 << 62):
        with monkeypatch.context() as patch:
            choose_execution(patch, enough_bytes)
            (plan,) = kafkalog.plan_compaction(kafkalog.Compaction(config={"cleanup.policy": "compact"}), root)
        said.append([(each.cleaned_to, each.problem) for each in plan.partitions])
    assert said[0] == said[1]
    assert "CorruptRecordException" in str(said[1])
