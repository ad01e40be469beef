"""Families of `windows.py` about one segment in memory: what the cleaner keeps of it, what a rebuild makes of it."""

from __future__ import annotations

import copy
import random
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

from run_windows import made_run, wrapped

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.headers.rebuild_segment import IndexLimits, Progress, recover_run
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.model import BATCH, LOG_OVERHEAD, AbortedTransaction, RecordBatch
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.codec.rules.framing import BATCH_MAGIC
from kafkalog.log.storage.cleaning import by_runs, latest_offsets, offset_map
from kafkalog.log.storage.cleaning.batch_retention import BatchRetention, CleanedCounts
from kafkalog.log.storage.cleaning.cleaned_transactions import CleanedTransactions
from kafkalog.log.storage.cleaning.key_columns import KeyColumns
from kafkalog.log.storage.cleaning.offset_map import OffsetMap
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.log_file import LogBatch, LogFile
from kafkalog.log.storage.producers.state import BatchMetadata, ProducerStateEntry
from testkit.made.cleanable import MadeLog
from testkit.made.compactable import T0

LOGS = 200


@lru_cache(maxsize=LOGS)
def _batches(seed: int) -> tuple[list[bytes], list[bytes]]:
    """Consecutive v2 batches of a log that can be compacted, and the keys in it."""
    log = MadeLog(seed)
    while len(log.keys) > 100 or max(log.sizes) > 1000:  # few keys, so that most are in the log more than once
        log = MadeLog(seed := seed + LOGS)
    made: list[bytes] = [each for _ in range(3) for each in log._batches(2)]
    return made, [key for key in log.keys if key is not None]


class _Kept:
    """Receiver of what one pass of the cleaner keeps."""

    def __init__(self) -> None:
        self.data = bytearray()

    def put(self, kept: LogBatch | RecordBatch | None, _source: object) -> None:
        self.data += b"" if kept is None else kept.data

    def put_run(self, run: BatchRun) -> None:
        self.data += run.window

    def keep_run(self, run: BatchRun, _source: object) -> None:
        self.data += b"".join(batch.data for batch in run)


class _Pass:
    """One pass over a segment's bytes, in compiled code or batch by batch."""

    def __init__(self, data: bytes, start: int, aborted: list[AbortedTransaction], offsets: OffsetMap) -> None:
        self.segment: Any = SimpleNamespace(
            log=LogFile(BufferSource(data)), offset_index=SimpleNamespace(lookup=lambda _: SimpleNamespace(position=0))
        )
        self.start, self.aborted, self.offsets = start, aborted, offsets

    def latest(self, keys: list[bytes]) -> object:
        """The latest offset of each key."""
        take: Any = by_runs.take_offsets if isinstance(self.offsets, KeyColumns) else latest_offsets.take_offsets
        is_whole = take(self.segment, self.start, self.offsets, self._transactions())
        return is_whole, self.offsets.latest_offset, len(self.offsets), [self.offsets.get(key) for key in keys]

    def kept(self, retention: BatchRetention) -> object:
        """The bytes that remain."""
        output: Any = _Kept()
        retention = copy.copy(retention)
        retention.offsets, retention.counts = self.offsets, CleanedCounts()
        retention.transactions = self._transactions()
        if isinstance(self.offsets, KeyColumns):
            by_runs.clean_segment(self.segment, retention, output, keeps_old_deletes=False)
        else:
            for batch in self.segment.log.batches():
                output.put(retention.retained(batch, keeps_old_deletes=False), self.segment)
        return bytes(output.data), retention.counts

    def _transactions(self) -> CleanedTransactions:
        transactions = CleanedTransactions()
        transactions.add(self.aborted)
        return transactions


def compacted(rng: random.Random) -> tuple[object, object]:
    """The latest offset of each key, and the bytes that the cleaner keeps."""
    made, keys = _batches(rng.randrange(LOGS))
    first = rng.randrange(len(made))
    batches = made[first : first + rng.choice([1, 1, 2, 4])]
    base = int.from_bytes(batches[0][:8])
    damaged = rng.randrange(len(batches))
    if len(batches[damaged]) > BATCH.size and rng.random() < 0.4:  # a log with damaged headers is not compacted
        batch = bytearray(batches[damaged])
        batch[rng.randrange(BATCH.size, len(batch))] = rng.randrange(256)
        batches[damaged] = bytes(batch)
    aborted = [
        AbortedTransaction(0, producer, base + rng.randrange(20), base + 1000, base)
        for producer in (3, 4)
        if rng.random() < 0.3
    ]
    last = base + rng.randrange(40)
    producer = ProducerStateEntry(producer_id=rng.randint(1, 4), producer_epoch=0)
    producer.batches = (BatchMetadata(last_sequence=0, last_offset=last, offset_delta=0),)
    start = base + rng.choice([-7, 0, 0, 3, 20])
    slots = rng.choice([7, 100, 100, 100])
    retention = BatchRetention(
        offsets=OffsetMap(1, 1), transactions=CleanedTransactions(), counts=CleanedCounts(),
        producers={producer.producer_id: producer}, upper_bound=base + rng.randrange(40),
        now_ms=T0 + rng.choice([0, 10**9]), delete_retention_ms=rng.choice([0, 60_000]),
    )  # fmt: skip
    answers: list[object] = []
    with mock.patch.object(offset_map, "_FIRST_SLOTS", 4):  # so that the map grows
        for kind in (KeyColumns, OffsetMap):
            done = _Pass(b"".join(batches), start, aborted, kind(slots, slots * 3 // 4))
            try:
                answers.append((done.latest(keys), done.kept(retention)))
            except (JavaError, FormatError):  # the cleaner goes on batch by batch
                answers.append("refused")
    return (None, None) if answers[0] == "refused" else (answers[0], answers[1])


def recovered(rng: random.Random) -> tuple[object, object]:
    """Index entries and leader epochs of a run (`LogSegment.recover`), up to a batch that needs the broker's rules."""
    run = made_run(rng, ordered=rng.random() < 0.7)
    limits = IndexLimits(
        rng.choice([0, 0, 5, 2**40]), rng.choice([0, 60, 600]), rng.choice([1, 3, 100]), rng.choice([1, 3, 100])
    )
    base, entries = limits.base_offset, rng.choice([0, 0, 1])
    before = Progress(
        valid_bytes=0, last_indexed=rng.choice([0, 0, -500]), timestamp=rng.choice([-1, 7]), timestamp_offset=base,
        offsets=entries, last_offset=base, times=entries, last_timestamp=rng.choice([-1, 5]),
        last_timestamp_offset=base, epoch=rng.choice([-1, 1]),
    )  # fmt: skip
    first = rng.randrange(len(run))
    found = recover_run(run, first, len(run), before, limits)
    return (
        (found.stopped, found.progress, found.offset_entries, found.time_entries, found.epochs),
        _recovered(run, first, before, limits),
    )


def _recovered(run: BatchRun, first: int, progress: Progress, limits: IndexLimits) -> object:
    offsets: list[bytes] = []
    times: list[bytes] = []
    epochs: list[tuple[int, int]] = []
    for number in range(first, len(run)):
        header = run.v2_header(number)
        last = wrapped(header.base_offset + header.last_offset_delta)
        epoch = header.partition_leader_epoch
        is_new = header.magic >= BATCH_MAGIC and epoch > progress.epoch
        largest = progress.timestamp, progress.timestamp_offset
        if header.max_timestamp > progress.timestamp:
            largest = header.max_timestamp, last
        is_older = largest[0] < progress.last_timestamp or largest[1] < progress.last_timestamp_offset
        is_due = progress.valid_bytes - progress.last_indexed > limits.interval_bytes
        if (
            not 0 <= wrapped(last - limits.base_offset) <= MAX_RELATIVE_OFFSET
            or (is_new and header.base_offset < 0)
            or (is_due and (progress.offsets >= limits.offset_entries or progress.times >= limits.time_entries - 1))
            or (is_due and progress.offsets > 0 and last <= progress.last_offset)
            or (is_due and progress.times > 0 and is_older)
        ):
            return number, progress, b"".join(offsets), b"".join(times), epochs
        if is_due:
            offsets.append(OFFSET_ENTRY.struct.pack(last - limits.base_offset, progress.valid_bytes))
            progress = progress._replace(
                offsets=progress.offsets + 1, last_offset=last, last_indexed=progress.valid_bytes
            )
            if largest[0] > progress.last_timestamp:
                times.append(TIME_ENTRY.struct.pack(largest[0], largest[1] - limits.base_offset))
                progress = progress._replace(
                    times=progress.times + 1, last_timestamp=largest[0], last_timestamp_offset=largest[1]
                )
        progress = progress._replace(
            timestamp=largest[0], timestamp_offset=largest[1],
            valid_bytes=progress.valid_bytes + header.batch_length + LOG_OVERHEAD.size,
        )  # fmt: skip
        if is_new:
            epochs.append((epoch, header.base_offset))
            progress = progress._replace(epoch=epoch)
    return len(run), progress, b"".join(offsets), b"".join(times), epochs
