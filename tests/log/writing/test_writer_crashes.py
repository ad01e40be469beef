"""Crashes of a writer: what is left recovers to a prefix with everything that was flushed.

Two kinds: a process that is killed (all that was written is there), and a power cut, of which the model is that every
change since the last flush may be missing, from some point on: the tree as it was before each single change on disk.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import crashed_writer
import kafkalog
from kafkalog.log.disk import fs
from testkit.judging.scripted import Clock

T0 = 1_700_000_000_000
WRITER = Path(crashed_writer.__file__)
MARKER_OFFSET = 55
"""Where `life` writes a marker, which no consumer sees."""
CHANGES = ("append", "truncate", "trim")


def recovered(root: Path) -> list[tuple[int, bytes]]:
    """Offsets and values after a recovery, which must leave a log that opens and can be appended to."""
    (root / ".lock").unlink(missing_ok=True)
    found: list[tuple[int, bytes]] = []
    if list(root.glob("t-0/*.log")):  # before the first one there is nothing to recover
        kafkalog.recover(root)
        records = kafkalog.open_partition(root / "t-0").records(on_damage="stop")
        found = [(record.offset, record.value or b"") for record in records]
    with kafkalog.Log.open(root / "t-0", crashed_writer.CONFIG) as log:
        end = log.end_offset
        assert log.append([b"more"]) == end
        assert list(log.partition().records(on_damage="stop"))[-1].value == b"more"
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process_leaves_a_prefix_with_everything_flushed(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    command = [sys.executable, str(WRITER), str(tmp_path), str(seed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    seen = {"appended": 0, "flushed": 0}
    until = rng.randint(30, 400)
    for line in process.stdout:
        word, number = line.split()
        seen[word] = int(number)
        if seen["appended"] >= until:
            time.sleep(rng.random() / 200)
            process.kill()
            break
    for line in process.stdout.read().splitlines()[:-1]:
        word, _, number = line.partition(" ")
        seen[word] = int(number)
    process.wait()
    process.stdout.close()
    found = recovered(tmp_path)
    assert [offset for offset, _ in found] == list(range(len(found)))
    assert all(value == crashed_writer.value(offset) for offset, value in found)
    assert len(found) >= seen["appended"] >= seen["flushed"]


class PowerCut(BaseException):
    """The machine is gone."""


@contextmanager
def power_cut_before(change: int) -> Iterator[list[int]]:
    """Stop at the given change on disk, counted from 0; the list's only number is how many there were."""
    count = [0]
    names = ("rename", "remove", "write_new", "make_directory")
    kept = {name: getattr(fs, name) for name in names}
    methods = {name: getattr(fs.AppendFile, name) for name in CHANGES}

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if count[0] >= change:
                raise PowerCut
            count[0] += 1
            return real(*args, **options)

        return call

    for name, real in kept.items():
        setattr(fs, name, counted(real))
    for name, real in methods.items():
        setattr(fs.AppendFile, name, counted(real))
    try:
        yield count
    finally:
        for name, real in kept.items():
            setattr(fs, name, real)
        for name, real in methods.items():
            setattr(fs.AppendFile, name, real)


def life(root: Path, ends: dict[str, int]) -> None:
    """Appends, rolls, flushes, transactions, retention, truncation; `ends` says what must be there if it stops now."""
    config = kafkalog.LogConfig(segment_bytes=500, index_interval_bytes=80, retention_ms=-1, file_delete_delay_ms=0)
    ends |= {"low": 0, "start": 0, "appended": 0}
    with kafkalog.Log.open(root / "t-0", config, clock=lambda: T0) as log:
        producer = kafkalog.ProducerState(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)

        def append(count: int) -> None:
            ends["appended"] = log.end_offset + count
            log.append([crashed_writer.value(log.end_offset + n) for n in range(count)])

        def flush() -> None:
            log.flush()
            ends["low"] = log.end_offset

        for _ in range(6):
            append(9)
        flush()
        ends["appended"] = log.end_offset + 2
        log.append([crashed_writer.value(log.end_offset)], producer=producer)
        log.end_transaction(5, 0, commit=False)
        flush()
        ends["low"] = 27
        log.truncate_to(27)
        ends["appended"] = log.end_offset
        append(4)
        flush()
        ends["start"] = 20
        log.delete_records_before(20)
        log.delete_old_segments()
        for _ in range(3):
            append(9)
        flush()


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.sweep)])
def test_a_power_cut_before_any_change_leaves_a_prefix(step: int, tmp_path: Path) -> None:
    everything = tmp_path / "whole"
    everything.mkdir()
    with power_cut_before(10**9) as count:
        life(everything, {})
    assert count[0] > 60
    for change in range(0, count[0], step):
        root = tmp_path / "cut"
        root.mkdir()
        ends: dict[str, int] = {}
        with power_cut_before(change):
            abandoned(root, ends)
        found = recovered(root)
        offsets = [offset for offset, _ in found]
        first, end = (offsets[0], offsets[-1] + 1) if offsets else (0, 0)
        assert {*range(first, end)} - {*offsets} <= {MARKER_OFFSET}, change
        assert first <= ends["start"], change
        assert ends["low"] <= end + (end == MARKER_OFFSET), (change, ends)
        assert end <= ends["appended"], (change, ends)
        assert all(value == crashed_writer.value(offset) for offset, value in found), change
        shutil.rmtree(root)


def abandoned(root: Path, ends: dict[str, int]) -> None:
    """A life that is cut; closing is cut too, and only gives up the lock."""
    try:
        life(root, ends)
    except PowerCut:
        return
    raise AssertionError("it was to be cut")


SYNCED: dict[str, int] = {}
"""Path -> bytes of a file that were flushed."""


def remember_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    real, real_truncate = fs.AppendFile.sync, fs.AppendFile.truncate

    def sync(file: fs.AppendFile) -> None:
        real(file)
        SYNCED[file.path] = file.size

    def truncate(file: fs.AppendFile, size: int) -> None:
        real_truncate(file, size)
        SYNCED[file.path] = min(SYNCED.get(file.path, 0), size)

    monkeypatch.setattr(fs.AppendFile, "sync", sync)
    monkeypatch.setattr(fs.AppendFile, "truncate", truncate)


@dataclass
class Model:
    """What the log must hold: values by offset, and what may not be lost."""

    values: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    durable: int = 0


class Lives(RuleBasedStateMachine):
    """A log against a dictionary, through any order of appends, rolls, flushes, truncations, deletions and restarts."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(os.environ["KAFKALOG_TEST_SCRATCH"]) / f"life-{time.monotonic_ns()}"
        self.root.mkdir()
        self.clock = Clock(T0)
        self.config = kafkalog.LogConfig(
            segment_bytes=600, index_interval_bytes=50, retention_bytes=900, retention_ms=-1, file_delete_delay_ms=0
        )
        self.model = Model()
        self.open()

    def open(self) -> None:
        self.log = kafkalog.Log.open(self.root / "t-0", self.config, clock=self.clock)

    @rule(values=st.lists(st.binary(max_size=60), min_size=1, max_size=4), codec=st.sampled_from(["none", "gzip"]))
    def append(self, values: list[bytes], codec: str) -> None:
        first = self.log.append(values, compression=codec)
        assert first == self.model.end
        self.model.values.update(enumerate(values, first))
        self.model.end += len(values)

    @rule()
    def roll(self) -> None:
        assert self.log.roll() == self.model.end

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.model.durable = self.model.end

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """At the start of a batch, where nothing else goes with it."""
        starts = [batch.header.next_offset for batch in self.log.partition().batches(start_offset=self.model.start)]
        choices = sorted({self.model.start, *starts} & {*range(self.model.start, self.model.end + 1)})
        offset = choices[int(share * (len(choices) - 1))]
        if offset < self.log.segments[0]:
            return
        holds = [b for b in self.log.partition().batches() if b.header.next_offset > offset]
        first = getattr(holds[0].header, "base_offset", offset) if holds else offset
        if first < offset:
            return  # the log's start is in the middle of a batch
        self.log.truncate_to(offset)
        self.model.end = offset
        self.model.durable = min(self.model.durable, offset)
        self.model.values = {at: value for at, value in self.model.values.items() if at < offset}

    @rule(share=st.floats(0, 1))
    def delete_before(self, share: float) -> None:
        offset = self.model.start + int(share * (self.model.end - self.model.start))
        self.log.delete_records_before(offset)
        self.model.start = max(self.model.start, offset)
        self.model.durable = max(self.model.durable, offset)

    @rule()
    def retain(self) -> None:
        self.log.delete_old_segments()
        self.model.start = max(self.model.start, self.log.segments[0])

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.model.durable = self.model.end
        self.open()

    @rule(seed=st.integers(0, 2**32), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        """The process is gone; with the power go parts of what was not flushed, file by file, cut or as zeros."""
        copy = self.root.with_name(self.root.name + "-copy")
        shutil.copytree(self.root, copy)
        if power:
            self.lose(copy, random.Random(seed))
        self.log.close()
        shutil.rmtree(self.root)
        copy.rename(self.root)
        (self.root / ".lock").unlink(missing_ok=True)
        kafkalog.recover(self.root)
        self.open()
        model = self.model
        assert model.durable <= self.log.end_offset <= model.end
        assert power or self.log.end_offset == model.end
        if self.log.log_start_offset < model.start:  # where nothing is left, recovery shows what was deleted last
            assert self.log.end_offset == model.start
            self.log.delete_records_before(model.start)
        model.end = self.log.end_offset
        model.values = {at: value for at, value in model.values.items() if at < model.end}
        model.durable = min(self.log.recovery_point, model.end)

    def lose(self, copy: Path, rng: random.Random) -> None:
        for file in (copy / "t-0").iterdir():
            flushed = SYNCED.get(str(self.root / "t-0" / file.name))
            data = file.read_bytes()
            if flushed is None or flushed >= len(data) or file.suffix not in (".log", ".index", ".timeindex"):
                continue
            kept = rng.randint(flushed, len(data))
            zeros = bytes(rng.choice([0, len(data) - kept]))
            file.write_bytes(data[:kept] + zeros)

    @precondition(lambda self: self.model.end > self.model.start)
    @rule()
    def start_anew(self) -> None:
        offset = self.model.end + 5
        self.log.truncate_fully_and_start_at(offset)
        self.model = Model({}, offset, offset, offset)

    @invariant()
    def the_log_is_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        model = self.model
        assert (self.log.log_start_offset, self.log.end_offset) == (model.start, model.end)
        assert self.log.recovery_point >= model.durable
        found = {record.offset: record.value for record in self.log.partition().records(on_damage="stop")}
        assert found == {offset: value for offset, value in model.values.items() if offset >= model.start}

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            (self.root / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
            assert [f for f in kafkalog.verify(self.root).findings if f.severity == "error"] == []
            shutil.rmtree(self.root)


@pytest.mark.parametrize("examples", [40, pytest.param(1500, marks=pytest.mark.sweep)])
def test_any_order_of_operations_against_a_model(
    examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    monkeypatch.setenv("KAFKALOG_TEST_SCRATCH", str(tmp_path))
    SYNCED.clear()
    remember_flushes(monkeypatch)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Lives,
        settings=settings(max_examples=examples, stateful_step_count=25, suppress_health_check=checks),
    )
