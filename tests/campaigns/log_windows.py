"""Families of `windows.py` about whole logs: what is made with compiled functions, and what is made batch by batch."""

from __future__ import annotations

import atexit
import os
import random
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from codec_windows import NO_END, field, old_entry, records

from kafkalog.cli.dump.record_lines import record_object
from kafkalog.codec.columnar.json_lines import JsonLines
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, MIB
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.encode import ProducerState, build_batch, build_end_transaction_marker
from kafkalog.codec.headers.message_runs import message_run
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import (
    BATCH,
    Codec,
    ControlType,
    EndTransactionMarker,
    Header,
    LegacyHeader,
    Record,
    RecordBatch,
    TimestampType,
)
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import BatchVerdict, gap, header_findings
from kafkalog.log import LogConfig
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.cleaning import offset_map
from kafkalog.log.storage.directory import DirectoryDisk
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.leader_epochs import LeaderEpochCheckpointFile, LeaderEpochFileCache
from kafkalog.log.storage.producers.known_producers import ProducerStateManager
from kafkalog.log.storage.segment import LogSegment
from kafkalog.log.walk.cursor import Cursor
from kafkalog.log.walk.header_walk import joined_spans
from testkit.judging.executions import choose_execution
from testkit.judging.trees import contents, copy_tree
from testkit.made.batches import fix_crc, message
from testkit.made.cleanable import MadeLog, Pass, settings

LOG = "00000000000000000005.log"
BASE = 5


@contextmanager
def compiled(is_compiled: bool) -> Iterator[None]:
    """In which compiled code does what it can even with small logs, or nothing."""
    with pytest.MonkeyPatch.context() as patch:
        choose_execution(patch, 0 if is_compiled else 1 << 62)
        yield


@contextmanager
def written(data: bytes) -> Iterator[Path]:
    """A partition directory with one segment, until it is left."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "t-0" / LOG
        path.parent.mkdir()
        path.write_bytes(data)
        yield path


@cache
def _scratch_file() -> Path:
    """A file that each window of one family writes anew."""
    with tempfile.NamedTemporaryFile(delete=False) as file:
        atexit.register(os.unlink, file.name)
        return Path(file.name)


def odd_header(rng: random.Random, data: bytes) -> bytes:
    """A batch with one field of its header changed, under a checksum that is right again."""
    changed = bytearray(data)
    name, kind, values = rng.choice([
        ("base_offset", ">q", [-1, 0, 4, 6, 9, 30, 2**31 + 4, 2**31 + 5, 2**62, 2**63 - 1, -(2**63)]),
        ("partition_leader_epoch", ">i", [-1, 0, 9, 2**31 - 1, -(2**31)]),
        ("last_offset_delta", ">i", [-1, 0, 1, 100, 2**31 - 1, -(2**31)]),
        ("max_timestamp", ">q", [-1, 0, 2**63 - 1, -(2**63)]),
        ("records_count", ">i", [-1, 0, 1, 2**31 - 1]),
        ("attributes", ">h", [0, 7, 16, 32, 48, 64, 1]), ("magic", ">b", [2, 3, -1]),
        ("producer_id", ">q", [-1, 0, 1, 2**40]), ("producer_epoch", ">h", [-1, 0, 3]),
    ])  # fmt: skip
    struct.pack_into(kind, changed, BATCH.position(name), rng.choice(values))
    return fix_crc(bytes(changed))


def some_log(rng: random.Random, *, most: int = 12, first: int = BASE) -> bytes:
    """Batches of a segment, mostly in order; some with an odd header, some markers, sometimes damage between them."""
    parts, offset, epoch = [], first, rng.choice([-1, 0, 3])
    oddity = rng.choice([0.0, 0.05, 0.3])
    for _ in range(rng.randrange(1, most)):
        epoch += rng.random() < 0.2
        offset += rng.choice([0, 0, 0, 0, 2, 7]) if oddity else 0
        producer = rng.choice([-1, -1, 1, 2])
        if producer > 0 and rng.random() < 0.3:
            marker = EndTransactionMarker(rng.choice([ControlType.ABORT, ControlType.COMMIT]), 0)
            made = build_end_transaction_marker(
                marker, base_offset=offset, timestamp=7, producer_id=producer, producer_epoch=0,
                partition_leader_epoch=epoch,
            )  # fmt: skip
            taken = 1
        else:
            some = records(rng, rng.choice([1, 1, 3]), offset)
            state = ProducerState()
            if producer > 0:
                state = ProducerState(
                    producer_id=producer, producer_epoch=0, base_sequence=offset % 2**31, is_transactional=producer == 2
                )
            made = build_batch(
                some, codec=rng.choice([Codec.NONE, Codec.LZ4]), producer=state, partition_leader_epoch=epoch
            )
            taken = some[-1].offset + 1 - offset
        if rng.random() < oddity:
            made = odd_header(rng, made)
        parts.append(made)
        if rng.random() < oddity / 2:
            parts.append(rng.choice([made, b"", bytes(rng.randrange(1, 80)), message(offset, None, b"v", magic=1)]))
        offset = min(offset + taken, 2**63 - 40)
    data = b"".join(parts)
    return data[: rng.randrange(len(data) + 1)] if rng.random() < oddity / 2 else data


# --- families -------------------------------------------------------------------------------------------------------


def _listed(batch: RecordBatch, findings: Iterable[Finding]) -> tuple[object, ...]:
    return batch.position, batch.header, [(each.code, each.detail) for each in findings]


def order(rng: random.Random) -> tuple[object, object]:
    """Findings about the order of batches, as `Continuity` has them batch by batch."""
    source, next_base = BufferSource(some_log(rng)), rng.choice([None, None, 9, 15, 2**31 + 5])
    gaps = rng.random() < 0.5
    many, plain = (Cursor(source, BASE, next_base) for _ in range(2))
    found: list[object] = []
    for run in many.judged(RunScanner(source), gaps=gaps):
        if not isinstance(run, BatchRun):
            found.append(_listed(run.batch(0), run.findings))
            continue
        between = {position: gap(before, first) for before, first, position in run.gaps()}
        for batch in run:
            missing = between.get(batch.position)
            about = [] if missing is None else [Finding.of(missing[0], batch.position, 0, missing[1])]
            found.append(_listed(batch, about))
    expected = [_listed(one.batch(0), one.findings) for one in map(plain.one, Scanner(source))]
    states = [(each.expected, each.last_offset, each.leader_epoch) for each in (many.continuity, plain.continuity)]
    return (found, states[0]), (expected, states[1])


def next_ones(rng: random.Random) -> tuple[object, object]:
    """Batches that need not be examined one by one are those about which nothing is found, and all next ones are."""
    is_old = rng.random() < 0.4
    data = b"".join(old_entry(rng, BASE + 2 * number) for number in range(4)) if is_old else some_log(rng)
    run: Any = None
    if is_old:
        run = message_run(data, 0, largest=MIB, check=True)
    else:
        run = next((each for each in RunScanner(BufferSource(data)) if isinstance(each, BatchRun)), None)
    if run is None:
        return None, None
    end, next_base = rng.choice([(NO_END, None), (9, None), (NO_END, 9), (12, 15)])
    cursor = Cursor(BufferSource(data), BASE, next_base)
    lows = np.empty(len(run), np.int64)
    count = run.consecutive(BASE, cursor.highest, end, cursor.continuity.leader_epoch, lows)
    found, expected = [], []
    next_offset, is_plain = BASE, True
    for number in range(len(run)):
        batch = run.batch(number)
        header = batch.header
        first, last = header.first_offset, header.last_offset
        if isinstance(header, LegacyHeader):
            first = last if header.codec else first
        is_plain &= first == next_offset <= last <= cursor.highest and first < end
        is_plain &= header.partition_leader_epoch >= cursor.continuity.leader_epoch
        is_plain &= not header.is_control and (is_old or next(header_findings(header, 0), None) is None)
        if number < count or is_plain:
            found.append((number < count, [] if number >= count else int(lows[number])))
            is_kept = cursor.judge(batch) is BatchVerdict.KEEP or (is_old and number == len(run) - 1)
            expected.append((is_kept and not header.is_control, next_offset))
        next_offset = last + 1
    return found, expected


def spans(rng: random.Random) -> tuple[object, object]:
    """Spans of batches from header to header through a file."""
    first = rng.choice([BASE, BASE, BASE, 2**62 - 3, 2**63 - 2000])
    pieces = [some_log(rng, first=first)] + [old_entry(rng, first + number) for number in range(rng.choice([0, 0, 3]))]
    data = b"".join(pieces)
    step, less = rng.choice([1, 100, 1000, MIB]), rng.choice([0, 0, 1, 61])
    next_base = rng.choice([None, None, first + 9, first + 30])
    answers = []
    path = _scratch_file()
    path.write_bytes(data)
    with FileSource(path) as source:
        for way in (True, False):
            with compiled(way):
                answers.append(list(joined_spans(source, first, max(len(data) - less, 0), step, next_base=next_base)))
    return answers[0], answers[1]


def rebuilt(rng: random.Random) -> tuple[object, object]:
    """Indexes, leader epochs and producers that `LogSegment.recover` makes, and how much it cuts off."""
    data = some_log(rng, most=30)
    config = LogConfig(
        index_interval_bytes=rng.choice([0, 150, 400]), segment_index_bytes=rng.choice([24, 48, 4096, 4096])
    )
    answers: list[object] = []
    for way in (True, False):
        with written(data) as path, compiled(way):
            disk, directory = DirectoryDisk(), str(path.parent)
            epochs = LeaderEpochFileCache(LeaderEpochCheckpointFile(disk, directory))
            producers = ProducerStateManager(disk, directory, 10**6, 10**9)
            segment = LogSegment(disk, directory, BASE, config)
            done: object
            try:
                done = segment.recover(producers, epochs)
            except JavaError as error:
                done = type(error), str(error).replace(directory, "")
            producers.take_snapshot()
            answers.append((done, list(epochs.epochs.values()), producers.first_unstable_offset()))
            segment.close()
            segment.close_handlers()
            answers.append(contents(path.parent))
    return answers[:2], answers[2:]


def _texts(rng: random.Random, record: Record) -> Record:
    """A record with a key, value and headers that JSON has to escape, or that are not UTF-8."""
    texts = ["", "a", 'q"\\', "\n\t\r\b\f\x00\x1f\x7f", "é€𝄞", "\u2028", "\ufeff"]
    odd = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80a"]

    def some() -> bytes | None:
        parts = [rng.choice(texts).encode() for _ in range(rng.randrange(4))]
        if rng.random() < 0.1:
            parts.append(rng.choice(odd))
        return field(rng) if rng.random() < 0.1 else b"".join(parts)

    headers = tuple(Header(rng.choice(texts), some()) for _ in range(rng.choice([0, 0, 1, 3])))
    return Record(record.offset, record.timestamp, TimestampType.CREATE_TIME, some(), some(), headers)


@cache
def _lines_of(seed: int, codec: Codec) -> bytes:
    """A batch of such records, kept because building it takes long."""
    rng = random.Random(seed)
    some = [_texts(rng, record) for record in records(rng, rng.choice([1, 3, 8]))]
    kind, moment = rng.choice([(TimestampType.CREATE_TIME, -1)] * 4 + [(TimestampType.LOG_APPEND_TIME, 7)])
    return bytes(
        build_batch(some, codec=codec, partition_leader_epoch=3, timestamp_type=kind, log_append_time=moment)
    )


def lines(rng: random.Random) -> tuple[object, object]:
    """JSON lines of records."""
    parts = []
    for number in range(rng.randrange(1, 6)):
        made = _lines_of(rng.randrange(2000), rng.choice(list(Codec)))
        parts.append((BASE + 100 * number).to_bytes(8) + made[8:])
        if rng.random() < 0.1:
            parts[-1] = odd_header(rng, parts[-1])
    encoding = rng.choice(["text", "base64"])
    data, found = b"".join(parts), b""
    readable, compiled = record_object("t", 0, encoding), JsonLines("t", 0, encoding, DEFAULT_LIMITS)
    for run in RunScanner(BufferSource(data)):
        if not isinstance(run, BatchRun) or any(batch.header.is_control for batch in run):  # readers take markers out
            some = run if isinstance(run, BatchRun) else [run]
            found += b"".join(_of_batch(readable, batch) for batch in some)
            continue
        for piece in compiled.pieces(run, np.full(len(run), -(2**63)), NO_END):
            if isinstance(piece, memoryview):
                found += piece
            else:
                found += b"".join(_of_batch(readable, run.batch(number)) for number in piece)
    return found, b"".join(_of_batch(readable, batch) for batch in Scanner(BufferSource(data)))


def _of_batch(readable: Any, batch: RecordBatch) -> bytes:
    wanted = (record for record in decode_batch(batch).records if record.offset < NO_END)
    return "".join(readable(batch, record) + "\n" for record in wanted).encode()


def cleaned(rng: random.Random) -> tuple[object, object]:
    """The files of a log after two passes of the cleaner."""
    few_slots = mock.patch.object(offset_map, "_FIRST_SLOTS", 4)  # so that the map grows
    with tempfile.TemporaryDirectory() as root, few_slots:
        config, seed = settings(rng), rng.randrange(2**40)
        readable = MadeLog(seed).write(Path(root) / "readable")
        other = copy_tree(readable, Path(root) / "compiled")
        with compiled(False):
            plain = Pass(readable, config)
        with compiled(True):
            made = Pass(other, config)
        return (made.said, made.files, made.times), (plain.said, plain.files, plain.times)
