"""Families of `windows.py` about runs of headers, and index entries and snapshots beside them: every answer of compiled
code about all batches is compared with one that is worked out header by header.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from codec_windows import batch, changed

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.compression.specs import is_known_codec
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.headers import index_columns
from kafkalog.codec.headers.checked_records import RecordsOfRuns
from kafkalog.codec.headers.continuity import in_place
from kafkalog.codec.headers.index_agreement import first_later_batch, first_wrong_position
from kafkalog.codec.headers.listed_producers import ListedProducers
from kafkalog.codec.headers.run_scanner import RunScanner
from kafkalog.codec.headers.runs import BatchRun
from kafkalog.codec.headers.table import HeaderRun
from kafkalog.codec.model import (
    CODEC_MASK,
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Codec,
    ProducerEntry,
    TimestampType,
)
from kafkalog.codec.native import functions
from kafkalog.codec.native.cells import Cells, column_of
from kafkalog.codec.native.tables import HeaderColumn, OrderOfRun, RunFacts
from kafkalog.codec.plain.records import stored_records
from kafkalog.codec.rules.batches import out_of_place
from kafkalog.log.walk.batch_filter import BatchFilter
from testkit.judging.executions import choose_execution

PRODUCERS = [-1, -1, 1, 2, 3, 2**40]


def made_run(rng: random.Random, *, ordered: bool = False) -> HeaderRun:
    """A run of one to nine headers in any order, or with increasing offsets."""
    count, offset, position = rng.randrange(1, 10), rng.choice([0, 5, 2**40]), 0
    rows = []
    for _ in range(count):
        delta = rng.choice([0, 0, 1, 2, 9] if ordered else [-1, 0, 0, 1, 2, 9, 2**31 - 1])
        size = rng.choice([61, 70, 500])
        rows.append([
            wrapped(offset), size - 12, rng.choice([-1, 0, 1, 2, 2]), 2 if ordered else rng.choice([0, 1, 2, 2, 2, 2]),
            rng.choice([1, 2, 3]), rng.choice([0, 0, 1, 4, 6, 8, 16, 16, 32, 48, 64]), delta,
            rng.choice([-1, 0, 7]), rng.choice([-1, 0, 5, 9]), rng.choice(PRODUCERS), rng.choice([0, 0, 1]),
            0, rng.choice([0, 1, delta + 1, delta, -1]), position,
        ])  # fmt: skip
        position += size
        offset += delta + 1 if ordered or rng.randrange(3) else rng.choice([-4, 0, 1])
        offset += rng.choice([0, 0, 0, 1, 40])
        if not ordered and rng.randrange(30) == 0:
            offset = rng.choice([-3, 2**62, 2**63 - 40])
    cells = Cells(HeaderColumn, count)
    for row, values in zip(HeaderColumn, zip(*rows, strict=True), strict=True):
        cells.row(row)[:] = column_of(values)
    return HeaderRun(cells, rng.choice([0, 100]))


def headers_of(run: BatchRun) -> list[BatchHeader]:
    """The headers in the form of v2 headers."""
    return [run.v2_header(number) for number in range(len(run))]


def wrapped(number: int) -> int:
    """A sum in 64 bits, as Java and C have it."""
    return (number + 2**63) % 2**64 - 2**63


def last_of(header: BatchHeader) -> int:
    """The last offset, in 64 bits."""
    return wrapped(header.base_offset + header.last_offset_delta)


def facts(rng: random.Random) -> tuple[object, object]:
    """Sums, extremes and places of a whole run."""
    run = made_run(rng)
    headers = headers_of(run)
    lasts = [last_of(header) for header in headers]
    pairs = list(pairwise(headers))
    gap_numbers = [n for n, (one, two) in enumerate(pairs, 1) if two.base_offset != wrapped(last_of(one) + 1)]
    of_producers = [header for header in headers if header.producer_id > -1]
    expected = {
        RunFacts.LEAST_LAST_OFFSET: min(lasts),
        RunFacts.LARGEST_LAST_OFFSET: max(lasts),
        RunFacts.LARGEST_EPOCH: max(header.partition_leader_epoch for header in headers),
        RunFacts.EPOCH_FALLS: sum(two.partition_leader_epoch < one.partition_leader_epoch for one, two in pairs),
        RunFacts.LEAST_TIMESTAMP: min(header.max_timestamp for header in headers),
        RunFacts.LARGEST_TIMESTAMP: max(header.max_timestamp for header in headers),
        RunFacts.DATA_RECORDS: sum(max(header.records_count, 0) for header in headers if not header.is_control),
        RunFacts.MARKERS: sum(header.is_control for header in of_producers),
        RunFacts.OF_PRODUCERS: len(of_producers),
        RunFacts.GAPS: len(gap_numbers),
        RunFacts.LAST_GAP: max(gap_numbers, default=0),
        RunFacts.NOT_ABOVE: sum(two.base_offset <= last_of(one) for one, two in pairs),
        RunFacts.TURNED: sum(last < header.base_offset for last, header in zip(lasts, headers, strict=True)),
        RunFacts.OLDER: sum(header.magic != 2 for header in headers),
        RunFacts.UNKNOWN_CODECS: sum(not is_known_codec(header.codec, 2) for header in headers),
        RunFacts.LAST_CLEANED: max(
            (n for n, header in enumerate(headers) if 0 <= header.records_count <= header.last_offset_delta), default=-1
        ),
        RunFacts.LAST_V2: max((n for n, header in enumerate(headers) if header.magic == 2), default=-1),
    }
    return {fact: run.fact(fact) for fact in RunFacts}, expected


def transactions(rng: random.Random) -> tuple[object, object]:
    """Batches that may change the state of a transaction."""
    run = made_run(rng)
    first = rng.randrange(len(run) + 1)
    expected: list[int] = []
    before: tuple[int, bool] | None = None
    for number, header in list(enumerate(headers_of(run)))[first:]:
        if header.attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG):
            here = header.producer_id, header.is_control
            if header.is_control or before != here:
                expected.append(number)
            before = here
    return run.transaction_numbers(first), expected


def places(rng: random.Random) -> tuple[object, object]:
    """Offsets that a segment can hold, and offsets at and below the highest one so far."""
    run, base, highest = made_run(rng), rng.choice([0, 5, 2**40]), rng.choice([-1, 4, 9, 2**40])
    headers = headers_of(run)
    ends = [header.base_offset + header.last_offset_delta for header in headers]
    known = [out_of_place(2, header.base_offset, end, base) for header, end in zip(headers, ends, strict=True)]
    count = next((number for number, problem in enumerate(known) if problem is not None), len(run))
    before, fronts, repeats = [highest], [], []
    for number, header in enumerate(headers):
        if header.base_offset <= before[-1]:
            repeats.append(number)
        if last_of(header) >= before[-1]:
            fronts.append(number)
        before.append(max(before[-1], last_of(header)))
    rest = fronts[-1] + 1 if fronts else 0
    kept = [number for number in repeats if number < rest]
    order = run.order(highest)
    found = [order[OrderOfRun.REST], order[OrderOfRun.BEFORE_REST]]
    wanted = [rest, before[rest]]
    if order[OrderOfRun.FIRST_REPEAT] >= 0 or kept:
        found += order[OrderOfRun.FIRST_REPEAT :].tolist()
        wanted += [kept[0], before[kept[0]], kept[-1], before[kept[-1]]] if kept else []
    return (in_place(run, base), found), (count, wanted)


def epochs(rng: random.Random) -> tuple[object, object]:
    """Batches with another leader epoch than a given one, and than the batch before them."""
    run, epoch = made_run(rng), rng.choice([-1, 0, 1, 2])
    each = [header.partition_leader_epoch for header in headers_of(run)]
    found = functions.other_epochs(run.cells, epoch), functions.new_epochs(run.cells)
    others = [number for number, own in enumerate(each) if own not in (epoch, -1)]
    return found, (others, [number for number, (one, two) in enumerate(pairwise(each), 1) if one != two])


def doubts(rng: random.Random) -> tuple[object, object]:
    """Batches that can contradict the entries of a producer snapshot."""
    run = made_run(rng, ordered=True)
    listed: list[Any] = []
    for producer in sorted(rng.sample([1, 2, 3, 2**40, 7], rng.randrange(1, 5))):
        last = rng.randrange(0, 40) + rng.choice([0, 2**40])
        listed.append(ProducerEntry(
            producer_id=producer, producer_epoch=rng.choice([0, 1]), last_sequence=0, last_offset=last, offset_delta=0,
            timestamp=0, coordinator_epoch=0, current_txn_first_offset=rng.choice([-1, 0, last]),
        ))  # fmt: skip
    by_id = {entry.producer_id: entry for entry in listed}
    expected = []
    for number, header in enumerate(headers_of(run)):
        entry = by_id.get(header.producer_id)
        is_doubtful = any(header.base_offset <= each.last_offset <= last_of(header) for each in listed)
        if entry is not None and header.is_control:
            is_doubtful |= 0 <= entry.current_txn_first_offset < header.base_offset
        elif entry is not None:
            is_doubtful |= header.base_offset > entry.last_offset and header.producer_epoch >= entry.producer_epoch
        if is_doubtful:
            expected.append(number)
    return ListedProducers(listed).doubtful(run), expected


def chosen(rng: random.Random) -> tuple[object, object]:
    """Batches of two runs that are equal, that have some checksum, that fulfill a filter, and copies of columns."""
    run, other = made_run(rng), made_run(rng)
    if rng.randrange(2):
        other = run.part(rng.randrange(len(run)), len(run))
    start, other_start = rng.randrange(len(run)), rng.randrange(len(other))
    headers, others = headers_of(run), headers_of(other)
    keys = [
        [(h.base_offset, h.last_offset_delta, h.batch_length, h.crc, h.partition_leader_epoch, h.magic) for h in each]
        for each in (headers[start:], others[other_start:])
    ]
    alike = next(
        (number for number, (one, two) in enumerate(zip(*keys, strict=False)) if one != two), min(map(len, keys))
    )
    wanted = sorted(rng.sample([1, 2, 3, 9], rng.randrange(4)))
    filtered = BatchFilter(
        producer_ids=rng.choice([None, frozenset(rng.sample([1, 2, 3, 2**40], rng.randrange(3)))]),
        codecs=rng.choice([None, frozenset(rng.sample(range(5), rng.randrange(4)))]),
        transactional=rng.choice([None, True, False]), control=rng.choice([None, True, False]),
    )  # fmt: skip
    numbers = [rng.randrange(len(run)) for _ in range(rng.randrange(4))]
    taken = run.chosen(numbers)
    functions.move_positions(taken.cells, 7)
    found = (
        functions.equal_batches(run.cells, start, other.cells, other_start),
        functions.with_checksums(run.cells, column_of(wanted)), filtered.numbers(run),
        [taken.column(number) for number in range(len(taken))],
    )  # fmt: skip
    moved = [[*run.column(number)[:-1], run.column(number)[-1] + 7] for number in numbers]
    checked = [number for number, header in enumerate(headers) if header.crc in wanted]
    return found, (alike, checked, [n for n, header in enumerate(headers) if filtered.accepts(header)], moved)


def agreement(rng: random.Random) -> tuple[object, object]:
    """Index entries beside a run of batches."""
    run, before, base = made_run(rng, ordered=True), rng.choice([-1, 3, 2**40 - 1]), rng.choice([0, 5])
    headers, starts = headers_of(run), [run.position(number) for number in range(len(run))]
    reached = [max(before, *(last_of(header) for header in headers[:number]), before) for number in range(len(run))]
    positions = sorted(
        min(rng.choice(starts) + rng.choice([0, 0, 0, 3, -1]), starts[-1]) for _ in range(rng.randrange(4))
    )
    keys = [rng.randrange(60) + rng.choice([0, 2**40]) for _ in positions]
    wrong = None
    for number, (key, position) in enumerate(zip(keys, positions, strict=True)):
        place = next((n for n, start in enumerate(starts) if start >= position), len(starts))
        begins = place < len(starts) and starts[place] == position
        if not begins or key + base <= reached[place]:
            wrong = number, reached[place] if begins else None
            break
    offsets = sorted(rng.sample(range(60), rng.randrange(4)))
    offsets = [offset + rng.choice([0]) for offset in offsets]
    stamps = [rng.choice([-1, 0, 5, 9]) for _ in offsets]
    later = None
    for number, header in enumerate(headers):
        entry = next((n for n, offset in enumerate(offsets) if offset + base > reached[number]), None)
        if entry is None or last_of(header) > offsets[entry] + base:
            continue
        if header.max_timestamp > stamps[entry]:
            later = entry, number
            break
    found = (
        first_wrong_position(run, before, keys, positions, base=base),
        first_later_batch(run, before, stamps, offsets, base=base),
    )
    return found, (wrong, later)


def index_entries(rng: random.Random) -> tuple[object, object]:
    """Index entries read, written and compared with the one before, in both executions."""
    layout = rng.choice([OFFSET_ENTRY, TIME_ENTRY])
    rows, first, second = [], 0, 0
    for _ in range(rng.randrange(9)):
        first, second = first + rng.choice([0, 1, 1, 9, -1]), second + rng.choice([0, 1, 1, 9, -1])
        rows.append((first, second))
    data = b"".join(layout.struct.pack(*row) for row in rows)
    rule: dict[str, Any] = {"may_repeat": rng.choice([True, False]), "never": rng.choice([None, (0, 0), (1, 1)])}
    answers = []
    for enough in (0, 1 << 62):
        with pytest.MonkeyPatch.context() as patch:
            choose_execution(patch, enough)
            firsts, seconds = index_columns.columns_of_entries(data, layout).values()
            answers.append((list(firsts), list(seconds), index_columns.increasing(firsts, seconds, (-1, 0), **rule)))
    packed = index_columns.packed_columns(column_of(answers[0][0]), column_of(answers[0][1]), layout)
    return (answers[0], packed), (answers[1], data)


def largest_times(rng: random.Random) -> tuple[object, object]:
    """Batches whose records cannot all be read, or have another largest timestamp than their header."""
    codecs = rng.choice([[Codec.NONE], list(Codec)])
    data = changed(rng, b"".join(batch(rng, 100 * number, rng.choice(codecs)) for number in range(rng.randrange(1, 7))))
    run = next((each for each in RunScanner(BufferSource(data)) if isinstance(each, BatchRun)), None)
    if run is None:
        return None, None
    found, expected = set(RecordsOfRuns(DEFAULT_LIMITS).doubtful(run)), set()
    for number, each in enumerate(run):
        header = each.header
        if not isinstance(header, BatchHeader) or header.records_count == 0:
            continue
        stored, finding = stored_records(each, header, limits=DEFAULT_LIMITS)
        times = [wrapped(header.base_timestamp + raw.timestamp_delta) for raw in stored]
        is_created = header.timestamp_type is TimestampType.CREATE_TIME
        if finding is not None or (is_created and times and max(times) != header.max_timestamp):
            expected.add(number)
    unread = {number for number in found - expected if run.batch(number).header.codec & CODEC_MASK}
    return found - unread, expected  # compressed ones may be handed to Python for another reason


