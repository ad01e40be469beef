"""Random logs, damaged at random, read in every way: the same rows and the same complaint, whoever reads.

A `Pair` is one damaged directory and one way to read it.  What the rows must be, `second_opinion` says, from the bytes
alone; a reader that goes on after damage must give what the undamaged log held, and the same however it is split.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import tempfile
import warnings
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import kafkalog
from kafkalog.codec import Codec, Record, TimestampType
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.encode import ProducerState, build_batch, build_messages
from kafkalog.codec.native import thresholds
from kafkalog.log import open_partition
from kafkalog.log.reading.consumer_view import REPORTED_AND_READ
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import Layout
from testkit.judging.second_opinion import NO_END, Answer, Log, Row, answer, walked
from testkit.made import damage
from testkit.running.command import kafkalog as command

LEVELS = ("read_uncommitted", "read_committed")
TIME = 1_700_000_000_000


@dataclass
class RandomLog:
    """One partition: its segments as lists of batches, and the aborted transactions."""

    name: str
    segments: list[tuple[int, list[bytes]]] = field(default_factory=list)
    aborted: list[list[tuple[int, int, int]]] = field(default_factory=list)

    end: int = 0
    open_since: dict[int, int] = field(default_factory=dict)
    """producer id -> first offset of its transaction without a marker"""

    def write(self, root: Path) -> None:
        directory = root / self.name
        directory.mkdir(parents=True)
        for (base, batches), aborted in zip(self.segments, self.aborted, strict=True):
            log, index = bytearray(), bytearray()
            for number, each in enumerate(batches):
                if number and number % 3 == 0:
                    index += struct.pack(">ii", damage.last_offset(each) - base, len(log))
                log += each
            (directory / f"{base:020}.log").write_bytes(log)
            (directory / f"{base:020}.index").write_bytes(index)
            (directory / f"{base:020}.timeindex").write_bytes(b"")
            if aborted:
                rows = (struct.pack(">hqqqq", 0, *each, each[2] + 1) for each in aborted)
                (directory / f"{base:020}.txnindex").write_bytes(b"".join(rows))


def _record(choose: random.Random, offset: int, embedded: bytes) -> Record:
    key = choose.choice([None, b"", b"k%d" % choose.randrange(5)])
    value = choose.choice([None, b"", choose.randbytes(choose.randrange(60)), b"v" * choose.randrange(80), embedded])
    return Record(offset, TIME + offset, TimestampType.CREATE_TIME, key, value)


def random_log(choose: random.Random, name: str) -> RandomLog:
    """Segments of batches of one magic, with codecs, transactions and the gaps of a compaction."""
    made = RandomLog(name)
    magic = choose.choice([0, 1, 2, 2, 2, 2, 2, 2, 2])
    codecs = [Codec.NONE] * 4 + [Codec.GZIP, Codec.SNAPPY, Codec.LZ4] + [Codec.ZSTD] * (magic == 2)
    with_transactions = magic == 2 and choose.random() < 0.5
    gaps = choose.random() < 0.3
    offset, open_since = choose.choice([0, 0, 0, 1000]), dict[int, int]()
    embedded = b"".join(damage.batch(offset + n, [damage.record(0, value=b"inner")]) for n in range(4))
    for _ in range(choose.choice([1, 1, 2, 3])):
        base, batches, aborted = offset, list[bytes](), list[tuple[int, int, int]]()
        for _ in range(choose.randrange(3, 16)):
            if open_since and choose.random() < 0.35:
                producer = choose.choice(list(open_since))
                commit = choose.random() < 0.5
                batches.append(damage.marker(offset, producer, 0, commit=commit))
                first = open_since.pop(producer)
                if not commit:
                    aborted.append((producer, first, offset))
                offset += 1
                continue
            count = choose.choice([1, 1, 2, 4])
            records = [_record(choose, offset + n, embedded) for n in range(count)]
            codec = choose.choice(codecs)
            if magic < 2:
                batches.append(build_messages(records[: count if codec else 1], magic=magic, codec=codec))
                offset += count if codec else 1
            else:
                state = ProducerState()
                if with_transactions and choose.random() < 0.6:
                    producer = choose.randrange(1, 4)
                    open_since.setdefault(producer, offset)
                    state = ProducerState(
                        producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True
                    )
                batches.append(build_batch(records, codec=codec, producer=state, partition_leader_epoch=3))
                offset += count
            if gaps and choose.random() < 0.2:
                offset += choose.choice([1, 2, 7])
        made.segments.append((base, batches))
        made.aborted.append(aborted)
    made.end, made.open_since = offset, open_since
    return made


# --- damage ---------------------------------------------------------------------------------------------------------


Damage = Callable[[random.Random, Path], str]


def _log_of(choose: random.Random, directory: Path) -> tuple[Path, bytearray, list[tuple[int, int]]]:
    path = choose.choice(sorted(directory.glob("*.log")))
    data = bytearray(path.read_bytes())
    return path, data, damage.walk(bytes(data))


def _flip(choose: random.Random, directory: Path) -> str:
    path, data, _ = _log_of(choose, directory)
    if not data:
        return "nothing"
    at, bit = choose.randrange(len(data)), choose.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"flip {path.name} {at}.{bit}"


def _field(name: str, values: Callable[[random.Random, int], int], *, fix: bool = False) -> Damage:
    def change(choose: random.Random, directory: Path) -> str:
        path, data, batches = _log_of(choose, directory)
        if not batches:
            return "nothing"
        number = choose.randrange(len(batches))
        at, size = batches[number]
        batch = bytes(data[at : at + size])
        own = {"base_offset": "offset", "batch_length": "size"}.get(name, name) if batch[16] < 2 else name
        if own not in damage.fields_of(batch) or (batch[16] >= 2 and size < 61):
            return "nothing"  # what an earlier damage left is no whole header
        value = values(choose, damage.get(batch, own))
        changed = damage.put(batch, own, value)
        data[at : at + size] = damage.with_crc(changed) if fix else changed
        path.write_bytes(data)
        return f"{own} of batch {number} of {path.name} = {value}"

    return change


def _near(choose: random.Random, value: int) -> int:
    return value + choose.choice([-20, -7, -3, -2, -1, 1, 2, 3, 7, 20, 1000, 10**6, 2**33, -(2**33), 2**62])


def _bit(choose: random.Random, value: int) -> int:
    return value ^ 1 << choose.randrange(31)


def _whole_batch(kind: str) -> Damage:
    def change(choose: random.Random, directory: Path) -> str:
        path, data, batches = _log_of(choose, directory)
        if len(batches) < 2:
            return "nothing"
        at, size = choose.choice(batches)
        batch = bytes(data[at : at + size])
        if kind == "twice":
            data[at + size : at + size] = batch
        elif kind == "gone":
            del data[at : at + size]
        elif kind == "zeroed":
            data[at : at + size] = bytes(size)
        else:
            end = choose.choice(batches)
            data[sum(end) : sum(end)] = batch
        path.write_bytes(data)
        return f"batch at {at} of {path.name} {kind}"

    return change


def _inside(choose: random.Random, directory: Path) -> str:
    path, data, batches = _log_of(choose, directory)
    if not batches:
        return "nothing"
    at, size = choose.choice(batches)
    batch = bytearray(data[at : at + size])
    first = 61
    if first >= size or batch[16] < 2:
        return "nothing"  # of a message's inside Kafka compares less than the declarations do
    place = choose.randrange(first, size)
    batch[place] ^= 1 << choose.randrange(8)
    data[at : at + size] = damage.with_crc(bytes(batch))
    path.write_bytes(data)
    return f"byte {place} inside the batch at {at} of {path.name}, checksum right"


def _marker(choose: random.Random, directory: Path) -> str:
    path, data, batches = _log_of(choose, directory)
    markers = [(at, size) for at, size in batches if data[at + 16] == 2 and data[at + 22] & 0x20]
    if not markers:
        return "nothing"
    at, size = choose.choice(markers)
    data[at + size - 1] ^= 4
    path.write_bytes(data)
    return f"marker at {at} of {path.name}"


def _end(choose: random.Random, directory: Path) -> str:
    path = max(directory.glob("*.log"))
    data = path.read_bytes()
    kind = choose.choice(["junk", "zeros", "cut"])
    if kind == "cut":
        data = data[: max(len(data) - choose.randrange(1, 90), 0)]
    else:
        count = choose.choice([1, 11, 17, 40, 200])
        data += choose.randbytes(count) if kind == "junk" else bytes(count)
    path.write_bytes(data)
    return f"{kind} at the end of {path.name}"


def _side_file(choose: random.Random, directory: Path) -> str:
    paths = sorted(each for each in directory.iterdir() if each.suffix in (".index", ".txnindex"))
    if not paths:
        return "nothing"
    path = choose.choice(paths)
    kind = choose.choice(["gone", "junk", "flipped", "cut"])
    data = bytearray(path.read_bytes())
    if kind == "gone":
        path.unlink()
    elif kind == "junk":
        path.write_bytes(choose.randbytes(choose.choice([3, 8, 80, 800])))
    elif kind == "flipped" and data:
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(data)
    else:
        path.write_bytes(data[: len(data) // 2])
    return f"{path.name} {kind}"


DAMAGES: dict[str, Damage] = {
    "bit": _flip,
    "offset": _field("base_offset", _near),
    "epoch": _field("partition_leader_epoch", lambda choose, value: choose.choice([value + 1, 0, -1, _bit(choose, 3)])),
    "length": _field("batch_length", _bit),
    "magic": _field("magic", lambda choose, _: choose.randrange(5)),
    "checksum": _field("crc", _bit),
    "count": _field("records_count", lambda choose, value: value + choose.choice([-1, 1, 5]), fix=True),
    "twice": _whole_batch("twice"),
    "gone": _whole_batch("gone"),
    "zeroed": _whole_batch("zeroed"),
    "again": _whole_batch("again"),
    "inside": _inside,
    "marker": _marker,
    "end": _end,
    "side file": _side_file,
}


# --- readers --------------------------------------------------------------------------------------------------------

Given = tuple[list[Row], bool]
"""The rows, and whether the reader said that those were not all."""
COLUMNS = ["offset", "key", "value"]


READS_ON = "a consumer reads on"
"""In the warning of what ends nobody's reading."""
_PASSED = codes_with(Trait.READ_PAST | Trait.LISTED) - {FindingCode.OFFSET_DISPLACED}
_PASSED |= {FindingCode.CONTROL_RECORD_INVALID}
"""Told where there is a list, of a batch that is read all the same, or that is not opened."""


def _told(findings: list[Finding]) -> bool:
    return any(
        each.severity.value == "error" and each.code not in _PASSED and not each.detail.startswith("compression id")
        for each in findings
    )


def _of_table(batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
    for each in batches:
        yield from zip(*(each[name].to_pylist() for name in COLUMNS), strict=True)


def by_records(path: Path, level: str, start: int, end: int, choose: random.Random) -> Given:
    stop = None if end == NO_END else end
    reader = open_partition(path).records(
        kafkalog.RecordFilter(start_offset=start or None, end_offset=stop, isolation_level=level), on_damage="stop"
    )
    rows = [(each.offset, each.key, each.value) for each in reader]
    return rows, reader.ended_by is not None


def by_arrow(path: Path, level: str, start: int, end: int, choose: random.Random) -> Given:
    findings: list[Finding] = []
    options: dict[str, Any] = {
        "threads": choose.choice([1, 3]), "layout": choose.choice(["copy", "view"]),
        "batch_rows": choose.choice([1, 7, 65_536]),
    }  # fmt: skip
    wanted = kafkalog.RecordFilter(
        isolation_level=level, start_offset=start or None, end_offset=None if end == NO_END else end
    )
    reader = open_partition(path).to_arrow(COLUMNS, wanted, findings=findings, on_damage="stop", **options)
    rows = list(_of_table(iter(reader)))
    raised = False
    again = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            for each in open_partition(path).to_arrow(COLUMNS, wanted, **options):
                again += list(_of_table(iter([each])))
        except FormatError:
            raised = True
    assert again == rows, f"with a list {len(rows)} rows, without {len(again)}"
    passed = {each.code for each in findings if each.code in REPORTED_AND_READ and each.severity.value != "info"}
    if not raised:
        assert len(warned) == len(passed), f"warned: {[*map(str, warned)]}, found: {findings}"
    assert raised == _told(findings), f"raised: {raised}, found: {findings}"
    return rows, raised


def by_dump(path: Path, level: str, start: int, end: int, choose: random.Random) -> Given:
    arguments = ["dump", str(path), "--json", "--isolation-level", level]
    arguments += ["--start-offset", str(start)] if start else []
    arguments += ["--end-offset", str(end)] if end != NO_END else []
    done = command(*arguments)
    rows = [(each["offset"], _bytes(each, "key"), _bytes(each, "value")) for each in done.objects if "offset" in each]
    return rows, done.code == 1


def _bytes(line: dict[str, str | None], name: str) -> bytes | None:
    encoded = line.get(f"{name}_b64")
    if encoded is not None:
        return b64decode(encoded)
    text = line.get(name)
    return None if text is None else text.encode()


def by_consumer(path: Path, level: str, start: int, end: int, choose: random.Random) -> Given:
    rows: list[Row] = []
    name = kafkalog.open_partition(path).name
    assert name is not None
    with kafkalog.Consumer(path.parent, isolation_level=level) as consumer:
        (stream,) = consumer.create_message_streams({name.topic: 1})[name.topic]
        try:
            for each in stream:
                record = each.record
                if start <= record.offset < end:
                    rows.append((record.offset, record.key, record.value))
        except FormatError:
            return rows, True
    return rows, False


def spark_tasks(path: Path, level: str, start: int, end: int, choose: random.Random, mode: str) -> Given:
    name = open_partition(path).name
    assert name is not None
    options = {"path": str(path), "kafka.isolation.level": level, "mode": mode}
    options |= choose.choice([
        {}, {"maxPartitionBytes": "300"}, {"maxPartitionBytes": "1000"}, {"maxRecordsPerPartition": "3"},
        {"minPartitions": "5"}, {"maxRecordsPerPartition": "7", "maxPartitionBytes": "600"},
    ])  # fmt: skip
    if start:
        options["startingOffsets"] = json.dumps({name.topic: {str(name.partition): start}})
    if end != NO_END:
        options["endingOffsets"] = json.dumps({name.topic: {str(name.partition): end}})
    corrupt = "_corrupt" if mode == "PERMISSIVE" else None
    parsed = parse_options(options | ({"columnNameOfCorruptRecord": corrupt} if corrupt else {}))
    rows: list[Row] = []
    told = False
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            reader = LogReader(parsed, Layout(names=(*COLUMNS, *([corrupt] if corrupt else [])), corrupt=corrupt))
            for task in reader.partitions():
                for batch in reader.read(task):
                    kept = batch
                    if corrupt:
                        is_row = batch[corrupt].is_null()
                        told = told or not all(is_row.to_pylist())
                        kept = batch.filter(is_row)
                    rows += list(_of_table(iter([kept])))
        except (FormatError, kafkalog.UsageError):  # an offset that the log does not reach is an error too
            return rows, True
    told = told or any("unreadable" in str(each.message) for each in warned)
    for each in warned:
        if READS_ON in str(each.message):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return rows, told


def by_spark(path: Path, level: str, start: int, end: int, choose: random.Random) -> Given:
    return spark_tasks(path, level, start, end, choose, "FAILFAST")


Reader = Callable[[Path, str, int, int, random.Random], Given]
READERS: dict[str, tuple[Reader, int]] = {
    "records": (by_records, 4),
    "to_arrow": (by_arrow, 4),
    "dump": (by_dump, 1),
    "Consumer": (by_consumer, 1),
    "Spark": (by_spark, 4),
}
"""With how often each is chosen."""


# --- pairs ----------------------------------------------------------------------------------------------------------


@cache
def commit() -> str:
    """Of this checkout."""
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def as_log(directory: Path) -> Log:
    """What lies in a directory, for the second opinion."""
    logs = sorted(directory.glob("*.log"))
    listed = []
    for path in sorted(directory.glob("*.txnindex")):
        data = path.read_bytes()
        for _, *entry, _ in struct.iter_unpack(">hqqqq", data[: len(data) // 34 * 34]):
            listed.append((entry[0], entry[1], entry[2]))
    segments = [(int(each.stem), each.read_bytes()) for each in logs]
    return Log(segments, segments[0][0] if segments else 0, listed)


def same(expected: Answer, given: Given, name: str) -> str:
    """What is wrong with what a reader gave, or nothing."""
    rows, told = given
    if name == "dump" and told and not expected.is_error:
        told = False  # its exit code is also for findings that hide no record
    if told != expected.is_error and not (expected.is_open and rows == expected.rows):
        said = "said nothing of" if expected.is_error else "complained, and there is no"
        return f"{said} {expected.why or 'damage'}; {len(rows)} rows, {len(expected.rows)} expected"
    if name == "Spark" and expected.is_error:  # a query that failed gives none, whatever tasks have read
        return ""
    if expected.why == "inside" and rows[: len(expected.rows)] == expected.rows:
        return ""  # of a compressed batch what comes before the fault
    if name == "Spark" and expected.astray:  # where tasks share a batch, one that lies beyond its batch may be in none
        rows, wanted = ([row for row in each if row not in expected.astray] for each in (rows, expected.rows))
        return "" if rows == wanted else f"{len(rows)} rows, {len(wanted)} expected, those astray left out"
    if rows != expected.rows:
        return f"{len(rows)} rows, {len(expected.rows)} expected ({expected.why or 'no damage'})"
    return ""


def damaged_log(choose: random.Random, root: Path) -> tuple[Path, int, str]:
    """A partition directory, the end that its log had when it was whole, and what was done to it."""
    original = random_log(choose, "t-0")
    original.write(root)
    directory = root / "t-0"
    done = [f"{kind}: {DAMAGES[kind](choose, directory)}"
            for kind in choose.choices(sorted(DAMAGES), k=choose.choice([0, 1, 1, 1, 2, 3]))]  # fmt: skip
    for path in directory.iterdir():
        os.utime(path, (TIME // 1000, TIME // 1000))  # nobody is writing to it
    return directory, original.end, "; ".join(done)


def pairs(seed: int, readers_each: int = 4) -> Iterator[tuple[str, str]]:
    """Pairs of one damaged directory: each as a line, and what is wrong with it."""
    choose = random.Random(f"pairs {seed}")
    with tempfile.TemporaryDirectory() as made:
        directory, whole, done = damaged_log(choose, Path(made))
        log = as_log(directory)
        for _ in range(readers_each):
            level = choose.choice(LEVELS)
            start, end = 0, NO_END
            if choose.random() < 0.2:
                end = choose.randrange(log.segments[0][0] + 1, whole + 1)
            name = choose.choices(list(READERS), [often for _, often in READERS.values()])[0]
            if name == "Consumer":  # which reads to the end
                start, end = 0, NO_END
            if name == "Spark" and end != NO_END and end > walked(log).reached:
                end = NO_END  # which is an error of its own
            line = f"seed={seed} commit={commit()} {name} {level} end={end} [{done}]"
            enough = choose.choice([0, thresholds.ENOUGH_BYTES])
            line += " compiled" if enough == 0 else ""
            expected = answer(log, start, end, committed=level == LEVELS[1])
            try:
                with patch.object(thresholds, "ENOUGH_BYTES", enough), warnings.catch_warnings():
                    warnings.filterwarnings("ignore", f".*{READS_ON}")
                    problem = same(expected, READERS[name][0](directory, level, start, end, choose), name)
            except AssertionError as wrong:
                problem = str(wrong)
            yield line, problem


def run(seeds: range, report: Callable[[str], None] = print) -> Counter[str]:
    """All pairs of some seeds; how many there were, and how many are unexplained."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        for line, problem in pairs(seed):
            counts["pairs"] += 1
            if problem:
                counts["unexplained"] += 1
                report(f"{line}: {problem}")
    return counts


if __name__ == "__main__":
    import sys

    first, count = (int(each) for each in sys.argv[1:3])
    print(dict(run(range(first, first + count))))
