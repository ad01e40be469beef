"""Recovery and verification over columns of headers give what they give batch by batch: bytes, findings, positions."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import KIB
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.headers import header_tables, table
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.headers.one_batch import OneBatch
from kafkalog.codec.headers.table import HeaderTable, MemoryBudget
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.storage.content import Content
from kafkalog.log.storage.tree import Tree
from kafkalog.log.walk.summary import summarize
from kafkalog.recovery.broker.manager import load_log_directory
from kafkalog.recovery.checks.indexes import OffsetIndexCheck, TimeIndexCheck
from kafkalog.recovery.damage.soundness import end_of_last_sound, sound_prefix
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.safe.recovery import recover_safely
from testkit.judging.executions import choose_execution
from testkit.made import damage
from testkit.made.batches import batch, fix_crc, message, patch, record, simple
from testkit.recorded import recovery_settings
from testkit.recorded.fixture_data import recovery_cases
from testkit.running.examples import examples

NOW_MS = 1_700_000_100_000
DIRECTORY = "t-0"
STRAY = re.compile(r"[0-9a-f]{32}-stray")
SLIPS = st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, -1, 1, -3])
PRODUCERS = st.sampled_from([1, 1, 2, 2**40])


@dataclass(frozen=True)
class Columns:
    """How columns are made: bytes read at a time, batches of a run, bytes kept of them; no window: not at all."""

    window: int = 512 * KIB
    batches: int = 16 * KIB
    kept: int = 1 << 20


NONE = Columns(window=0)
SHAPES = st.sampled_from([Columns(), Columns(300, 2), Columns(1000, 5, kept=500), Columns(kept=0), Columns(100, 1)])


@contextmanager
def columns(shape: Columns) -> Iterator[None]:
    """Small work goes over columns too, or nothing does."""
    with pytest.MonkeyPatch.context() as patched:
        choose_execution(patched, 0 if shape.window else 1 << 62)
        patched.setattr(header_tables, "_KEPT_BYTES", shape.kept)
        patched.setattr(table, "_WINDOW", max(shape.window, 100))
        patched.setattr(table, "_BATCHES_OF_A_RUN", shape.batches)
        yield


@st.composite
def logs(draw: st.DrawFn, start: int = 0) -> bytes:
    """Batches of any kind after each other, mostly as a broker writes them, and then some damage."""
    parts: list[bytes] = []
    offset, epoch, time = start + draw(st.sampled_from([0, 0, 0, -9])), draw(st.integers(-1, 2)), 1000
    for _ in range(draw(st.integers(0, 25))):
        kind = draw(st.sampled_from(["plain", "plain", "idempotent", "idempotent", "txn", "marker", "old", "odd"]))
        epoch += draw(st.sampled_from([0, 0, 0, 0, 0, 1, -1]))
        time += draw(st.sampled_from([0, 0, 5, 5, -7]))
        count = draw(st.integers(1, 3))
        payload = b"".join(record(delta, b"k", b"v" * draw(st.sampled_from([0, 9, 70]))) for delta in range(count))
        told = draw(st.sampled_from([epoch, epoch, epoch, epoch, -1]))
        common = {"base_offset": offset, "leader_epoch": told, "max_timestamp": time, "base_timestamp": time}
        match kind:
            case "plain":
                data = batch(payload, count, **common)
            case "idempotent" | "txn":
                attributes = 0x10 if kind == "txn" else 0
                sequence, term = draw(st.integers(0, 4)), draw(st.sampled_from([0, 0, 0, 1]))
                data = batch(
                    payload, count, attributes=attributes, producer_id=draw(PRODUCERS), producer_epoch=term,
                    base_sequence=sequence, **common,
                )  # fmt: skip
            case "marker":
                count = 1
                data = damage.marker(offset, draw(PRODUCERS), 0, commit=draw(st.booleans()))
                if draw(st.integers(0, 9)) == 0:
                    data = fix_crc(patch(data, len(data) - 12, b"\xff\xff"))
            case "old":
                count = 1
                data = message(offset, magic=draw(st.integers(0, 1)), timestamp=time)
            case _:
                attributes = draw(st.sampled_from([0, 7, 0x20, 0x30]))
                delta = draw(st.sampled_from([-1, 0, 5, 2**31 - 1]))
                magic = draw(st.sampled_from([2, 2, 2, 3, -1]))
                places = [offset, offset + 9, -3, -3, 0, 2**62, 2**63 - 1]
                odd = {**common, "base_offset": draw(st.sampled_from(places)), "leader_epoch": told + 5}
                data = batch(
                    payload, count, attributes=attributes, last_offset_delta=delta, magic=magic,
                    producer_id=draw(st.sampled_from([-1, 1])), **odd,
                )  # fmt: skip
        parts.append(data)
        offset += count + draw(st.sampled_from([0, 0, 0, 0, 0, 2, -2, -count]))
    whole = bytearray(b"".join(parts))
    if whole and draw(st.integers(0, 3)) == 0:
        whole[draw(st.integers(0, len(whole) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.integers(0, 3)) == 0:
        whole += bytes(draw(st.integers(0, 90)))
    return bytes(whole)


@st.composite
def indexes(draw: st.DrawFn, data: bytes, base: int) -> dict[str, bytes]:
    """Index files that describe a log, but for an entry here and there."""
    offsets, times = b"", b""
    for found in Scanner(BufferSource(data)):
        relative, time = found.last_offset - base, found.header.max_timestamp
        if draw(st.booleans()) and 0 <= relative < 2**30 and 3 < time < 2**40:
            key, position = relative + draw(SLIPS), found.position + draw(SLIPS)
            offsets += struct.pack(">ii", key, position)
            times += struct.pack(">qi", time + draw(SLIPS), relative)
    return {"index": offsets, "timeindex": times, "txnindex": b""}


@st.composite
def directories(draw: st.DrawFn) -> dict[str, bytes]:
    """The files of a log directory with one partition of up to three segments."""
    files: dict[str, bytes] = {}
    for number in range(draw(st.integers(1, 3))):
        base = number * draw(st.sampled_from([0, 7, 30]))
        files[f"{DIRECTORY}/{base:020d}.log"] = draw(logs(base))
        of_log = draw(indexes(files[f"{DIRECTORY}/{base:020d}.log"], base))
        for kind, entries in of_log.items():
            found = draw(st.sampled_from([None, entries, entries, b"", bytes(48), b"\0\0\0\1\0\0\0\2\0\0\1\0"]))
            if found is not None:
                files[f"{DIRECTORY}/{base:020d}.{kind}"] = found
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        if draw(st.integers(0, 3)) == 0:
            files[name] = f"0\n1\nt 0 {draw(st.integers(0, 40))}\n".encode()
    if draw(st.integers(0, 5)) == 0:
        files[f"{DIRECTORY}/leader-epoch-checkpoint"] = b"0\n2\n0 0\n1 5\n"
    if draw(st.integers(0, 5)) == 0:
        files[".kafka_cleanshutdown"] = b'{"version":0,"brokerEpoch":-1}'
    return files


CONFIGS = st.builds(
    LogSettings,
    index_interval_bytes=st.sampled_from([0, 100, 4096]),
    segment_index_bytes=st.sampled_from([36, 60, 1 << 20]),
)


def tree_of(files: Mapping[str, bytes]) -> Tree:
    tables = HeaderTables()
    sizes = {path: len(data) for path, data in files.items()}
    return Tree(sizes, {DIRECTORY}, lambda path: BufferSource(files[path]), tables.of)


def bytes_of(tree: Tree) -> dict[str, bytes | Content]:
    return {path: tree.read(path) for path in tree.files}


def loaded(files: Mapping[str, bytes], config: LogSettings) -> object:
    tree = tree_of(files)
    result = load_log_directory(tree, settings=lambda topic: config, now_ms=NOW_MS)
    error = result.error
    place = None if error is None else (error.position, error.segment_path)
    left = bytes_of(tree) if result.outcome == "loaded" else None
    return result.outcome, result.exception, result.message, place, result.partitions, left


def recovered(files: Mapping[str, bytes], config: LogSettings, *, full: bool) -> object:
    rules = Rules(config=config.as_names(), at=NOW_MS, full=full)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rules, "unique", staticmethod(lambda directory: "0" * 32))
        result = recover_safely(tree_of(files), rules)
    return result.refusals, result.partitions, result.findings(), bytes_of(result.tree)


@pytest.mark.compiled
@examples(150)
@given(logs(), st.integers(0, 2000), SHAPES)
def test_a_table_holds_what_a_walk_finds(data: bytes, end: int, shape: Columns) -> None:
    with columns(shape):
        table = HeaderTable(len(data), MemoryBudget(shape.kept))
        for limit in (end, len(data), end):  # the second and third time from what was kept
            found = [each for run in table.runs(BufferSource(data), limit) for each in run]
            wanted = list(Scanner(BufferSource(data)))
            known = next((number for number, each in enumerate(wanted) if each.magic not in (0, 1, 2)), len(wanted))
            wanted = [each for each in wanted[:known] if each.position + each.size <= limit]
            assert [(each.header, each.position) for each in found] == [(each.header, each.position) for each in wanted]


@pytest.mark.sweep
@examples(150)
@given(directories(), CONFIGS, SHAPES)
def test_the_model_of_the_broker_does_the_same(files: dict[str, bytes], config: LogSettings, shape: Columns) -> None:
    with columns(NONE):
        plain = loaded(files, config)
    with columns(shape):
        assert loaded(files, config) == plain


@pytest.mark.sweep
@examples(120)
@given(directories(), CONFIGS, SHAPES, st.booleans())
def test_mode_safe_does_the_same(files: dict[str, bytes], config: LogSettings, shape: Columns, full: bool) -> None:
    with columns(NONE):
        plain = recovered(files, config, full=full)
        sound = sound_prefix(tree_of(files), DIRECTORY)
    with columns(shape):
        assert sound_prefix(tree_of(files), DIRECTORY) == sound
        assert recovered(files, config, full=full) == plain


@pytest.mark.sweep
@examples(120)
@given(directories(), SHAPES)
def test_verification_finds_the_same(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], shape: Columns
) -> None:
    root = tmp_path_factory.mktemp("logs")
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    answers = []
    for way in (NONE, shape):
        with columns(way):
            verified = kafkalog.verify(root, deep=False).as_dicts()
            partition = kafkalog.open_partition(root / DIRECTORY)
            summaries = [summarize(segment) for segment in partition.segments]
            answers.append((verified, partition.transactions(), summaries))
    assert answers[0] == answers[1]


def agreement(check: OffsetIndexCheck | TimeIndexCheck, data: bytes, *, by_run: bool) -> list[Finding]:
    before = 9
    if by_run:
        for run in HeaderTable(len(data), MemoryBudget(0)).runs(BufferSource(data), len(data)):
            check.run(run, before)
            before = run.final_offset
    else:
        for each in Scanner(BufferSource(data)):
            check.run(OneBatch(each), before)
            before = each.last_offset
    check.end(before)
    return check.findings


@pytest.mark.compiled
@pytest.mark.parametrize("slip", [-70, -2, -1, 0, 1, 2, 2000])
@pytest.mark.parametrize("place", range(5))
def test_index_entries_agree_with_a_run_as_with_its_batches(place: int, slip: int) -> None:
    times = [5, 3, 8, 8, 9]
    found = [batch(record(0), 1, base_offset=10 + number, max_timestamp=time) for number, time in enumerate(times)]
    data = b"".join(found)
    keys, positions, latest = [*range(5)], [number * len(found[0]) for number in range(5)], [5, 5, 8, 8, 9]
    outcomes = []
    for column in (keys, positions, latest):
        column[place] += slip
        offsets = b"".join(struct.pack(">ii", *entry) for entry in zip(keys, positions, strict=True))
        stamps = b"".join(struct.pack(">qi", *entry) for entry in zip(latest, keys, strict=True))
        with columns(Columns(batches=2)):
            for kind, entries in (
                (OffsetIndexCheck, offsets[8:]),
                (TimeIndexCheck, stamps),
                (TimeIndexCheck, stamps[24:]),
            ):
                plain, by_run = (
                    agreement(kind("file", 10, BufferSource(entries)), data, by_run=way) for way in (False, True)
                )
                assert by_run == plain
                outcomes += plain
        column[place] -= slip
    assert outcomes or slip == 0


@pytest.mark.parametrize("by_run", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_entries_that_promise_more_than_the_log_holds_are_found(by_run: bool) -> None:
    found = [batch(record(0), 1, base_offset=10 + number, max_timestamp=100 + number) for number in range(5)]
    data, size = b"".join(found), len(found[0])

    def told(kind: type[OffsetIndexCheck | TimeIndexCheck], layout: str, *entries: tuple[int, int]) -> list[int | None]:
        index = BufferSource(b"".join(struct.pack(layout, *each) for each in entries))
        with columns(Columns(batches=2)):
            findings = agreement(kind("file", 10, index), data, by_run=by_run)
        assert all(each.code is FindingCode.INDEX_ENTRY_MISMATCH for each in findings)
        return [each.position for each in findings]

    assert told(OffsetIndexCheck, ">ii", (1, size), (4, 3 * size)) == []  # a broker wrote two batches at once
    for key in (5, 6, 2**31 - 1):
        assert told(OffsetIndexCheck, ">ii", (1, size), (key, 3 * size)) == [8]
    assert told(TimeIndexCheck, ">qi", (101, 1), (104, 4)) == []
    for timestamp in (105, 2**63 - 1):
        assert told(TimeIndexCheck, ">qi", (101, 1), (timestamp, 4)) == [12]


@pytest.mark.sweep
def test_every_recorded_case_is_planned_the_same(tmp_path: Path) -> None:
    shape = Columns(2000, 3)
    cases = [case for number, case in enumerate(recovery_cases()) if number % 4 == 0]
    for number, case in enumerate(cases):
        root = case.unpack_before(tmp_path / str(number))
        arguments = recovery_settings.given(case)
        answers = []
        for way in (NONE, shape):
            with columns(way):
                made = kafkalog.plan(kafkalog.Recovery(mode="safe", **arguments), root)[0]
                found = kafkalog.verify(root, deep=False).as_dicts()
                answers.append(STRAY.sub("stray", repr((made.as_dict(), made.actions, found))))
        assert answers[0] == answers[1], case.id


def test_the_end_of_a_log_whose_last_segment_begins_with_an_impossible_offset() -> None:
    """The index of the segment cannot hold it and lower ones follow: the log ends in the segment before."""
    names = (f"{DIRECTORY}/{base:020}.log" for base in (0, 10))
    files = dict(zip(names, (simple(3), simple(1, 10 + 2**31) + simple(2, 12)), strict=True))
    tree = Tree({path: len(data) for path, data in files.items()}, {DIRECTORY}, lambda path: BufferSource(files[path]))
    assert sound_prefix(tree, DIRECTORY).end_offset == 3
    assert end_of_last_sound(tree, DIRECTORY) == 3
