"""What `kafkalog.codec.build` made of changed values is read by Kafka's own classes: values, times, offsets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.codec import build, iter_records, parse, scan, with_timestamps
from kafkalog.codec.model import RecordBatch
from testkit.kafka.kafka_batches import shown
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.broker_dirs import brokers

VALUE = b"a value that was changed"
LATER = 86_400_000
CASES = ("0.10.2.2/codecs", "2.8.2/codecs", "4.1.1/codecs")


def recorded() -> Iterator[RecordBatch]:
    """Sound entries with records, of every magic and codec."""
    for case in CASES:
        for broker in brokers(case):
            for path in sorted(broker.rglob("*.log")):
                batches = scan(path.read_bytes()).batches
                yield from (batch for batch in batches if not batch.header.is_control and iter_records(batch))


def changed(entry: Any, codec: int) -> Any:
    """Another value in the last record, a day later, compressed with `codec` where it was compressed."""
    records = [entry] if entry.magic < 2 and entry.messages is None else entry.get("messages") or entry.get("records")
    records[-1].value = VALUE
    if entry.attributes.codec:
        entry.attributes.codec = codec
    return entry if entry.magic == 0 else with_timestamps(entry, lambda time: time + LATER)


@pytest.mark.interop
def test_kafka_reads_what_was_built(kafka: KafkaOracle, compared: Callable[[str, int], None]) -> None:
    entries = random.Random(29).sample(list(recorded()), 400)
    built, wanted = [], []
    for number, batch in enumerate(entries):
        codec = 1 + number % (4 if batch.magic == 2 else 3)
        built.append(build(changed(parse(bytes(batch.data)), codec)))
        before = iter_records(batch)
        later = 0 if batch.magic == 0 else LATER
        values = [*(record.value for record in before[:-1]), VALUE]
        wanted.append(
            [(record.offset, record.timestamp + later, shown(value))
             for record, value in zip(before, values, strict=True)]
        )  # fmt: skip
    assert {(batch.magic, bool(batch.header.codec)) for batch in entries} == {
        (magic, packed) for magic in (0, 1, 2) for packed in (False, True)
    }
    answers = kafka.batches(built)
    for answer, expected in zip(answers, wanted, strict=True):
        (read,) = answer["batches"]
        assert read["valid"] is True
        assert [(record[0], record[1], record[4]) for record in read["records"]] == expected
    compared("entries that were parsed, changed and built, and read by Kafka", len(built))
