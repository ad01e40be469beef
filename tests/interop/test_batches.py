"""Generated batches, sound and damaged: Kafka's own classes and we read the same, and convert to the same.

Where we differ on purpose is a named case here and a line of docs/differences.md.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kafkalog.codec import Codec, FormatError, TimestampType, UsageError, decode_batch, scan
from kafkalog.codec.compression import compress
from kafkalog.codec.encode import build_batch, build_messages, down_convert, up_convert
from testkit.judging.reference_execution import REFERENCE
from testkit.kafka.kafka_batches import Json, _field, _flipped, _inside, _resized, damaged, ours
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.made import stream_tails
from testkit.made.batches import GZIP, LZ4, SNAPPY, batch, message, patch, record, records_batch
from testkit.made.generated import as_records, generate, some_records
from testkit.made.histories import chosen_seed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
SEED = chosen_seed(837637693)
A_REQUEST = 50
ONE_IN = 20
LONG = 48_000
LONG_CONVERSIONS = 8_000
CONVERTING = "3.9.1"  # the last version that converts

TRAILING = "bytes after the last record"
BROKEN = "compressed stream that is cut short"
MANY = "record count above the limit"
NOTHING = "compression around no record"
MAGIC = "magic above 2"
TAIL = "tail of 12 to 16 bytes"
EMPTY_BLOCK = b"\1\0\0\0\0"
TAILS = range(12, 17)
INNER = "magic above 1 inside a wrapper"
EMPTY = "empty lz4 block"
MEMORY = "message that claims gigabytes"
NO_HEADER = "invalid snappy header"
BEGUN_HEADER = re.compile(rb"\x82SNA(?!PPY\0)", re.DOTALL)


# What Kafka throws where we have a finding while records are read.  Its heap may end first: OutOfMemoryError.
THROWN = {
    "codec_unknown": {"IllegalArgumentException", "InvalidRecordException"},
    "decompression_failed": {
        "BufferUnderflowException", "CorruptRecordException", "InvalidRecordException", "KafkaException", "SnappyError",
    },
    "header_count_invalid": {"InvalidRecordException"},
    "header_key_invalid": {"InvalidRecordException"},
    "limit_exceeded": {"IllegalArgumentException", "InvalidRecordException", "KafkaException"},
    "message_invalid": {
        "CorruptRecordException", "IllegalArgumentException", "IndexOutOfBoundsException", "InvalidRecordException",
        "KafkaException",
    },
    "record_length_mismatch": {"InvalidRecordException"},
    "record_truncated": {"InvalidRecordException"},
    "records_count_invalid": {"InvalidRecordException", "KafkaException"},
    "records_trailing_bytes": {"InvalidRecordException"},
    "varint_too_long": {"IllegalArgumentException", "InvalidRecordException"},
}  # fmt: skip


class Verdict(NamedTuple):
    """Names of the differences that are explained, and the others in words."""

    explained: list[str]
    unexplained: list[str]


def threw(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("!")


def _ends_alike(us: Json, kafka: Json) -> str | None:
    """What is different where the walks over the batches end: None if nothing is, else in words."""
    further = kafka["batches"][len(us["batches"]) :]
    match us["failure"]:
        case "":
            good = not further and kafka["failure"] is None
        case "torn_tail":
            good = not further and kafka["failure"] is None
        case "crc_mismatch":
            good = bool(further) and further[0]["valid"] is False and further[0]["ensure_valid"] != ""
        case "zero_tail":  # a size of 0, or too few bytes for one
            good = not further
        case "batch_size_invalid":
            bad = bool(further) and (further[0]["valid"] is not True or threw(further[0]["ensure_valid"]))
            good = bad or kafka["failure"] is not None
        case _:
            good = False
    return None if good else f"the walk ends with {us['failure']!r}, Kafka's with {kafka['failure']!r}"


def _fields(us: Json, kafka: Json) -> Iterator[str]:
    for name in us.keys() - {"records", "failure"}:
        mine, theirs = us[name], kafka[name]
        if mine != ("!" if threw(theirs) else theirs):
            yield f"{name}: {mine}, Kafka {theirs}"


def _without_runs(records: list[Any]) -> list[Any]:
    """How many replacement characters stand for bytes that are not UTF-8 is the decoder's own choice."""
    return [
        [*fields, [[re.sub("\ufffd+", "\ufffd", key), value] for key, value in headers]] for *fields, headers in records
    ]


def _of_records(us: Json, kafka: Json, data: bytes) -> tuple[str | None, str | None]:
    """The name of an explained difference between the records, or one in words."""
    code, failure = us["failure"], kafka["failure"]
    mine, theirs = _without_runs(us["records"]), _without_runs(kafka["records"])
    if failure == "!OutOfMemoryError":
        return MEMORY, None
    if bool(code) == bool(failure) and mine == theirs:
        return None, None
    if code and failure:
        if code == "records_trailing_bytes" and mine[:-1] == theirs:
            return TRAILING, None
        if code == "decompression_failed" and mine == []:
            return BROKEN, None
        if code == "limit_exceeded" and mine == []:
            return MANY, None
    if us["codec"] == LZ4 and code == "decompression_failed" and not failure and EMPTY_BLOCK in data:
        return EMPTY, None
    if us["codec"] == SNAPPY and BEGUN_HEADER.search(data, 17) is not None:
        return NO_HEADER, None
    if us["count"] == 0 and us["codec"] != 0 and not code and theirs == []:
        return NOTHING, None
    return None, f"{len(mine)} records and {code!r}, Kafka {len(theirs)} and {failure!r}"


def judge(data: bytes, us: Json, kafka: Json) -> Verdict:
    """Compare what we read in one buffer with what Kafka's classes read."""
    found = Verdict([], [])
    behind = sum(each["size"] for each in kafka["batches"])
    if kafka["failure"] == "CorruptRecordException" and data[behind + 16 : behind + 17] > b"\x02":
        us = {**us, "batches": us["batches"][: len(kafka["batches"])]}
        found.explained.append(MAGIC)
    elif us["failure"] == "torn_tail" and kafka["failure"] == "CorruptRecordException" and len(data) - behind in TAILS:
        found.explained.append(TAIL)
    elif (end := _ends_alike(us, kafka)) is not None:
        found.unexplained.append(end)
    for number, (mine, theirs) in enumerate(zip(us["batches"], kafka["batches"], strict=False)):
        if mine["failure"] == "message_invalid" and "inner message of magic" in detail_of(data, number):
            found.explained.append(INNER)
            continue
        name, words = _of_records(mine, theirs, data)
        found.explained.extend([name] if name else [])
        found.unexplained.extend([words] if words else [])
        if theirs["base_offset"] == "!OutOfMemoryError":
            theirs = {**theirs, "base_offset": mine["base_offset"]}
        found.unexplained.extend(_fields(mine, theirs))
    return found


def detail_of(data: bytes, number: int) -> str:
    """In words why a batch cannot be read."""
    finding = decode_batch(scan(data).batches[number]).finding
    return "" if finding is None else finding.detail


class Campaign:
    """Batches made up from a seed, compared with Kafka; counts by what was compared."""

    def __init__(self, kafka: KafkaOracle, seed: int) -> None:
        self.kafka = kafka
        self.choose = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.explained: Counter[str] = Counter()
        self.failures: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []

    def run(self, count: int) -> None:
        for start in range(0, count, A_REQUEST):
            self._request(min(A_REQUEST, count - start))

    def _request(self, count: int) -> None:
        made = []
        for number in range(count):
            generated = generate(self.choose)
            sound = number % 2 == 0
            made.append((generated.kind, generated.data) if sound else damaged(self.choose, generated))
        answers = self.kafka.batches([data for _, data in made])
        for number, ((kind, data), answer) in enumerate(zip(made, answers, strict=True)):
            self._compare(kind, data, answer, sound=number % 2 == 0, thorough=number % ONE_IN < 2)

    def _compare(self, kind: str, data: bytes, answer: Json, *, sound: bool, thorough: bool) -> None:
        us = ours(data)
        if self.kafka.version == "2.8.2":  # knew no delete horizon
            for each in answer["batches"][: len(us["batches"])]:
                each["delete_horizon"] = us["batches"][answer["batches"].index(each)]["delete_horizon"]
        if thorough:
            assert ours(data, REFERENCE) == us, kind
        verdict = judge(data, us, answer)
        if sound:
            verdict.unexplained.extend(f"{name} in a sound batch" for name in verdict.explained)
        self.explained.update(set(verdict.explained))
        for mine, theirs in zip(us["batches"], answer["batches"], strict=False):
            if mine["failure"] and theirs["failure"]:
                self.failures[mine["failure"], theirs["failure"]] += 1
                older = self.kafka.version == "2.8.2"  # which threw what its reader happened to meet
                if not older and theirs["failure"][1:] not in THROWN[mine["failure"]] | {"OutOfMemoryError"}:
                    verdict.unexplained.append(f"{mine['failure']}, where Kafka throws {theirs['failure'][1:]}")
        if verdict.unexplained:
            self.wrong.append(f"{kind}: {verdict.unexplained[:3]} {data[:4000].hex()}")
        self.done["sound" if sound else "damaged"] += 1

    def report(self, compared: Callable[[str, int], None]) -> None:
        for what, count in self.done.items():
            compared(f"Kafka's classes: batches read, {what}", count)
        for name, count in self.explained.items():
            compared(f"Kafka's classes: explained, {name}", count)
        compared("Kafka's classes: unexplained differences", len(self.wrong))


@pytest.mark.java
def test_five_hundred_batches(kafka: KafkaOracle, compared: Callable[[str, int], None]) -> None:
    campaign = Campaign(kafka, 4)
    campaign.run(500)
    assert campaign.wrong == []
    campaign.report(compared)


@pytest.mark.java
@pytest.mark.interop
def test_many_batches(kafka: KafkaOracle, compared: Callable[[str, int], None]) -> None:
    campaign = Campaign(kafka, SEED)
    campaign.run(LONG)
    assert campaign.wrong == [], f"seed {SEED}: {len(campaign.wrong)} of {LONG}"
    assert sum(campaign.done.values()) == LONG >= 40_000
    campaign.report(compared)


@pytest.mark.java
@pytest.mark.interop
@pytest.mark.parametrize("version", ["4.4.0", "4.3.0", "3.9.1", "2.8.2"])
def test_other_versions(
    version: str, kafka_of: Callable[[str], KafkaOracle], compared: Callable[[str, int], None]
) -> None:
    campaign = Campaign(kafka_of(version), SEED + 1)
    campaign.run(1_000)
    assert campaign.wrong == [], f"seed {SEED + 1}"
    compared(f"Kafka's classes: batches read by {version}", 1_000)


@pytest.mark.java
def test_every_level(kafka: KafkaOracle) -> None:
    """Level 22 of zstd asks for a window of 128 MiB."""
    payload = b"".join(record(number, value=bytes(range(250))) for number in range(40))
    levels = [(Codec.GZIP, level) for level in range(1, 10)] + [(Codec.ZSTD, level) for level in (-5, 1, 12, 19, 22)]
    made = [batch(compress(codec, payload, level=level), 40, attributes=codec) for codec, level in levels]
    for data, answer, level in zip(made, kafka.batches(made), levels, strict=True):
        assert len(answer["batches"][0]["records"]) == 40, level
        assert judge(data, ours(data), answer) == Verdict([], []), level


# --- tails of streams -------------------------------------------------------------------------------------------------


@pytest.mark.java
def test_what_stands_behind_the_records_of_a_stream(kafka: KafkaOracle, compared: Callable[[str, int], None]) -> None:
    buffers = list(dict.fromkeys(stream_tails.made()))
    explained: Counter[str] = Counter()
    wrong = []
    for start in range(0, len(buffers), A_REQUEST):
        some = buffers[start : start + A_REQUEST]
        for data, answer in zip(some, kafka.batches(some), strict=True):
            us = ours(data)
            assert ours(data, REFERENCE) == us
            verdict = judge(data, us, answer)
            explained.update(verdict.explained)
            if verdict.unexplained:
                wrong.append(f"{verdict.unexplained[:2]} {data[:300].hex()}")
    assert wrong == []
    assert set(explained) <= {BROKEN, TRAILING, NO_HEADER}
    compared("Kafka's classes: tails of compressed streams", len(buffers))


# --- mutated batches of each format and compression -------------------------------------------------------------------

EACH = int(os.environ.get("KAFKALOG_MUTATIONS", "400"))
"""Mutated batches of each magic and compression."""
FORMATS = [
    (magic, codec)
    for magic in (0, 1, 2)
    for codec in Codec
    if magic == 2 or codec != Codec.ZSTD  # of magic 2 alone
]
REPAIRED = (_flipped, _resized, _field, _inside, _inside)


class Mutations(Campaign):
    """Batches of one magic and compression, all mutated, their checksums repaired."""

    def __init__(self, kafka: KafkaOracle, seed: int, magic: int, codec: Codec) -> None:
        super().__init__(kafka, seed)
        self.magic, self.codec = magic, codec

    def _request(self, count: int) -> None:
        made: list[tuple[str, bytes]] = []
        while len(made) < count:
            found = self.choose.choice(scan(self._sound()).batches)
            mutate = self.choose.choice(REPAIRED)
            data = mutate(self.choose, bytes(found.data))
            made.append((f"magic {self.magic}, {self.codec.label}, {mutate.__name__[1:]}", data))
        answers = self.kafka.batches([data for _, data in made])
        for number, ((kind, data), answer) in enumerate(zip(made, answers, strict=True)):
            self._compare(kind, data, answer, sound=False, thorough=number % ONE_IN == 0)

    def _sound(self) -> bytes:
        records = as_records(some_records(self.choose, headers=self.magic == 2))
        append = self.magic > 0 and self.choose.random() < 0.3
        kind = TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME
        now = 1700000000123 if append else -1
        if self.magic == 2:
            return build_batch(records, codec=self.codec, timestamp_type=kind, log_append_time=now)
        return build_messages(records, magic=self.magic, codec=self.codec, timestamp_type=kind, log_append_time=now)


@pytest.mark.java
@pytest.mark.interop
@pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=str)
def test_mutations_of_each_format(
    magic: int, codec: Codec, kafka: KafkaOracle, compared: Callable[[str, int], None]
) -> None:
    campaign = Mutations(kafka, SEED + 10 * magic + codec, magic, codec)
    campaign.run(EACH)
    assert campaign.wrong == [], f"seed {SEED}: {len(campaign.wrong)} of {EACH}"
    label = f"Kafka's classes: mutated batches of magic {magic}, {codec.label}"
    compared(label, EACH)
    compared("Kafka's classes: mutated batches, unexplained differences", len(campaign.wrong))
    for name, count in campaign.explained.items():
        compared(f"Kafka's classes: mutated batches, explained, {name}", count)


# --- the differences, one by one --------------------------------------------------------------------------------------


class Case(NamedTuple):
    """Bytes, and of the first batch how many records we see and with which finding, and what Kafka sees."""

    data: bytes
    records: int
    finding: str
    kafka_records: int
    thrown: str


THREE = b"".join(message(number) for number in range(3))
SIX = b"".join(record(number, value=bytes(range(200))) for number in range(6))
FILLING = record(0, b"k", random.Random(1).randbytes(2038))
"""2048 bytes, as many as Kafka decompresses at once."""
BROKEN_STREAM = patch(compress(Codec.GZIP, SIX), len(compress(Codec.GZIP, SIX)) - 8, b"\0\0\0\0")

CASES = {
    TRAILING: Case(batch(record(0) + record(1) + b"x", 2), 2, "records_trailing_bytes", 1, "InvalidRecordException"),
    BROKEN: Case(batch(BROKEN_STREAM, 6, attributes=GZIP), 0, "decompression_failed", 5, "KafkaException"),
    MANY: Case(batch(record() + record(1), 2**31 - 1), 0, "limit_exceeded", 2, "InvalidRecordException"),
    NOTHING: Case(batch(b"", 0, attributes=GZIP), 0, "", 0, "KafkaException"),
    MAGIC: Case(records_batch(record()) + batch(record(), 1, base_offset=1, magic=3), 1, "", 1, ""),
    TAIL: Case(records_batch(record()) + b"\xff" * 14, 1, "", 1, ""),
    INNER: Case(
        message(2, None, compress(Codec.GZIP, message(0, magic=5) + message(1) + message(2)), attributes=GZIP),
        0, "message_invalid", 3, "",
    ),
    EMPTY: Case(
        batch(compress(Codec.LZ4, record())[:-4] + EMPTY_BLOCK, 1, attributes=LZ4), 0, "decompression_failed", 1, "",
    ),
    MEMORY: Case(
        message(1, None, compress(Codec.GZIP, message(0) + message(1) + b"\0" * 8 + b"\x7f\xff\xff\xff"),
                attributes=GZIP),
        2, "", 0, "OutOfMemoryError",
    ),
    NO_HEADER: Case(
        batch(compress(Codec.SNAPPY, FILLING) + b"\x82SNA" + bytes(16), 1, attributes=SNAPPY),
        0, "decompression_failed", 1, "",
    ),
}  # fmt: skip


@pytest.mark.java
@pytest.mark.parametrize("name", CASES)
def test_each_difference(name: str, kafka: KafkaOracle) -> None:
    case = CASES[name]
    (answer,) = kafka.batches([case.data])
    us, theirs = ours(case.data)["batches"][0], answer["batches"][0]
    assert (len(us["records"]), us["failure"]) == (case.records, case.finding)
    assert (len(theirs["records"]), theirs["failure"].lstrip("!")) == (case.kafka_records, case.thrown)
    if name in (MAGIC, TAIL):
        assert answer["failure"] == "CorruptRecordException"
    verdict = judge(case.data, ours(case.data), answer)
    assert verdict == Verdict([name], [])


def test_the_page_names_every_difference_and_no_other() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Kafka's own classes")[2]
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(CASES)


# --- conversions ----------------------------------------------------------------------------------------------------


def down_items(choose: random.Random, count: int) -> Iterator[tuple[Json, bytes | None]]:
    """Any batch to a lower magic, and what we make of it; None where we refuse."""
    for _ in range(count):
        data = generate(choose).data
        found = scan(data).batches
        magic = choose.choice([0, 1, 2])
        first = choose.choice([0, found[-1].last_offset, found[-1].last_offset - 1])
        try:
            made: bytes | None = down_convert(found, magic, first_offset=max(0, first))
        except (FormatError, UsageError):
            made = None
        yield {"data": data, "to": magic, "way": "down", "first_offset": max(0, first)}, made


def up_items(choose: random.Random, count: int) -> Iterator[tuple[Json, bytes | None]]:
    """One message or wrapper, offsets consecutive as the broker assigns them, to a higher magic."""
    for _ in range(count):
        base = choose.choice([0, 7, 2**40])
        magic = choose.choice([0, 0, 1])
        codec = choose.choice([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
        records = some_records(choose, headers=False)[: 1 if codec == Codec.NONE else 70]
        records = [each._replace(offset=base + number) for number, each in enumerate(records)]
        data = build_messages(as_records(records), magic=magic, codec=codec)
        to = choose.choice([1, 2]) if magic == 0 else 2
        target = choose.choice(list(Codec) if to == 2 else [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
        append, now, epoch = choose.random() < 0.4, 1700000000999, choose.choice([-1, 0, 12])
        (found,) = scan(data).batches
        made = up_convert(
            found,
            to,
            codec=target,
            timestamp_type=TimestampType.LOG_APPEND_TIME if append else TimestampType.CREATE_TIME,
            log_append_time=now if append else -1,
            partition_leader_epoch=epoch,
        )
        item = {"data": data, "to": to, "way": "up", "base_offset": base, "codec": int(target), "now_ms": now}
        yield {**item, "append_time": append, "leader_epoch": epoch}, made


def alike(kafka: KafkaOracle, pairs: list[tuple[bytes, bytes]]) -> Iterator[int]:
    """Numbers of the pairs that Kafka does not read alike, compressed bytes aside."""
    answers = kafka.batches([data for pair in pairs for data in pair])
    for number in range(len(pairs)):
        mine, theirs = answers[2 * number : 2 * number + 2]
        for answer in (mine, theirs):
            for each in answer["batches"]:
                if each["codec"]:
                    each["size"] = each["checksum"] = None
        if mine != theirs:
            yield number


def conversions(kafka: KafkaOracle, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    choose = random.Random(seed)
    done: Counter[str] = Counter()
    wrong = []
    for _ in range(0, count, A_REQUEST):
        asked = [*down_items(choose, A_REQUEST // 2), *up_items(choose, A_REQUEST // 2)]
        answers = kafka.convert([item for item, _ in asked])
        pairs = []
        for (item, mine), answer in zip(asked, answers, strict=True):
            where = f"{ {**item, 'data': item['data'][:3000].hex()} }"
            theirs = answer.get("data")
            if mine is None or theirs is None:
                if mine is not theirs:
                    wrong.append(f"ours {mine is not None}, Kafka {answer.get('failure')}: {where}")
                done[f"{item['way']}, refused by both"] += 1
                continue
            plain = all(each.header.codec == Codec.NONE for each in scan(mine).batches)
            if plain and mine != theirs:
                wrong.append(f"other bytes: {where}")
            pairs.append((mine, theirs))
            done[f"{item['way']}, {'the same bytes' if plain else 'the same records'}"] += 1
        wrong += [f"read differently: {pairs[number][0][:600].hex()}" for number in alike(kafka, pairs)]
    return done, wrong


@pytest.mark.java
def test_two_hundred_conversions(kafka_of: Callable[[str], KafkaOracle], compared: Callable[[str, int], None]) -> None:
    done, wrong = conversions(kafka_of(CONVERTING), 3, 200)
    assert wrong == []
    for what, count in done.items():
        compared(f"Kafka's classes: conversions {what}", count)


@pytest.mark.java
@pytest.mark.interop
def test_many_conversions(kafka_of: Callable[[str], KafkaOracle], compared: Callable[[str, int], None]) -> None:
    done, wrong = conversions(kafka_of(CONVERTING), SEED + 2, LONG_CONVERSIONS)
    assert wrong == [], f"seed {SEED + 2}: {len(wrong)}"
    for what, count in done.items():
        compared(f"Kafka's classes: conversions {what}", count)
