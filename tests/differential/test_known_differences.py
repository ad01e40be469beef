"""Where kafka-python or aiokafka read something else than we do: each case named, with Kafka's own rule on our side.

docs/differences.md has a line for every name; the test keeps the two together.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalog.codec import FindingCode, decode_batch, scan
from kafkalog.codec.compression import compress
from testkit.kafka.peers import READERS, Seen
from testkit.made.batches import GZIP, LZ4, SNAPPY, batch, message, patch, record, records_batch, sized, varint

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"
SAME, OTHER, RAISES = "the same", "other records", "an exception"
K, V = sized(b"k"), sized(b"v")


def body(*parts: bytes) -> bytes:
    content = b"".join(parts)
    return batch(varint(len(content)) + content, 1)


def one(offset: int = 0, timestamp: int = 0, kind: int = 0, headers: tuple[tuple[str, bytes | None], ...] = ()) -> Seen:
    return Seen(offset, timestamp, kind, b"k", b"v", headers)


class Difference(NamedTuple):
    data: bytes
    ours: list[Seen] | FindingCode
    kafka_python: str
    aiokafka: str


TWO_OLD = message(0, magic=0) + message(1, magic=0)
THREE = message(0) + message(1) + message(2)

CASES = {
    "header key that is not UTF-8": Difference(
        records_batch(record(headers=[(b"\xff", b"1")])), [one(headers=(("\udcff", b"1"),))], RAISES, RAISES,
    ),
    "record attributes above 127": Difference(
        body(b"\x80", b"\0\0", K, V, b"\0"), [one()], OTHER, OTHER,
    ),
    "varint of six bytes": Difference(
        body(b"\0\0", b"\x82\x80\x80\x80\x80\x00", K, V, b"\0"), FindingCode.VARINT_TOO_LONG, OTHER, OTHER,
    ),
    "varint with surplus bits": Difference(
        body(b"\0\0", b"\xfe\xff\xff\xff\x7f", K, V, b"\0"), [one(2**31 - 1)], OTHER, OTHER,
    ),
    "timestamp beyond 64 bits": Difference(
        batch(record(timestamp_delta=2**63 - 1), 1, base_timestamp=2**63 - 1), [one(0, -2)], OTHER, SAME,
    ),
    "offset beyond 64 bits": Difference(
        batch(record(5), 1, base_offset=2**63 - 1), [one(-(2**63) + 4)], OTHER, SAME,
    ),
    "bytes after the header of an empty batch": Difference(batch(b"abc", 0), [], RAISES, RAISES),
    "control key too short": Difference(
        batch(record(key=b"k"), 1, attributes=0x20), [one()], RAISES, SAME,
    ),
    "lz4 header of magic 0": Difference(
        message(1, None, compress(LZ4, TWO_OLD, magic=0), magic=0, attributes=LZ4),
        [one(0, -1, -1), one(1, -1, -1)], SAME, RAISES,
    ),
    "wrapper offset below that of its last message": Difference(
        message(1, None, compress(GZIP, THREE), attributes=GZIP), FindingCode.MESSAGE_INVALID, OTHER, OTHER,
    ),
    "magic 0 inside magic 1": Difference(
        message(1, None, compress(GZIP, message(0, magic=0) + message(1)), attributes=GZIP),
        [one(0, -1), one(1)], RAISES, OTHER,
    ),
    "wrapper whose last message is cut off": Difference(
        message(1, None, compress(GZIP, THREE[:-5]), attributes=GZIP), [one(0), one(1)], RAISES, RAISES,
    ),
    "null length below -1 in a message": Difference(
        message(body=b"\xff\xff\xff\xfb\xff\xff\xff\xf9"), [Seen(0, 0, 0, None, None, ())], OTHER, RAISES,
    ),
    "message of magic 1 without a timestamp": Difference(message(timestamp=-1), [one(0, -1)], SAME, OTHER),
    "bytes after the last gzip member": Difference(
        batch(gzip.compress(record()) + b"junk", 1, attributes=GZIP), [one()], RAISES, RAISES,
    ),
    "bytes after the lz4 end mark": Difference(
        batch(compress(LZ4, record()) + b"junk", 1, attributes=LZ4), [one()], SAME, RAISES,
    ),
    "second snappy header": Difference(
        batch(compress(SNAPPY, record()) + compress(SNAPPY, record(1)), 2, attributes=SNAPPY), [one(), one(1)],
        RAISES, RAISES,
    ),
    "size that is too small": Difference(
        records_batch(record()) + patch(records_batch(record(), base_offset=1), 8, b"\0\0\0\x05"),
        FindingCode.BATCH_SIZE_INVALID, RAISES, RAISES,
    ),
}  # fmt: skip


def we(data: bytes) -> list[Seen] | FindingCode:
    result = scan(data)
    found = []
    for each in result.batches:
        decoded = decode_batch(each)
        if decoded.finding is not None:
            return decoded.finding.code
        found += [
            Seen(
                seen.offset,
                seen.timestamp,
                int(seen.timestamp_type),
                seen.key,
                seen.value,
                tuple((header.key, header.value) for header in seen.headers),
            )
            for seen in decoded.records
        ]
    return result.findings[0].code if result.findings else found


def outcome(peer: str, data: bytes, ours: list[Seen] | FindingCode) -> str:
    try:
        return SAME if READERS[peer](data) == ours else OTHER
    except Exception:  # noqa: BLE001 - whatever they raise
        return RAISES


@pytest.mark.parametrize("name", CASES)
def test_each_difference(name: str) -> None:
    case = CASES[name]
    assert we(case.data) == case.ours
    assert outcome("kafka-python", case.data, case.ours) == case.kafka_python
    assert outcome("aiokafka", case.data, case.ours) == case.aiokafka


def test_the_page_names_every_difference_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")][1:]
    named = {row[1].strip(): (row[4].strip(), row[5].strip()) for row in rows}
    assert named == {name: (case.kafka_python, case.aiokafka) for name, case in CASES.items()}
