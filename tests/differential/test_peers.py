"""Generated batches: we, kafka-python and aiokafka see the same records and write the same bytes.

Where they differ on purpose is a named case of `test_known_differences.py` and a line of docs/differences.md.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codec import BatchHeader, Codec, decode_batch, scan
from kafkalog.codec.encode import ProducerState, build_batch, build_messages, encode_raw_batch, read_raw_batch
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.execution import Execution
from testkit.judging.reference_execution import REFERENCE
from testkit.kafka.peers import READERS, Producer, Seen, builds, builds_messages
from testkit.made.generated import Generated, as_records, generate, some_records
from testkit.running.examples import examples

CHUNK = 2_500
CHUNKS = 4 if os.environ.get("KAFKALOG_SWEEP") == "ci" else 48
ONE_IN = 20


def we_read(data: bytes, execution: Execution = PLAIN) -> list[Seen]:
    result = scan(data, execution=execution)
    assert result.valid_bytes == len(data)
    found = []
    for batch in result.batches:
        decoded = decode_batch(batch, execution=execution)
        assert decoded.finding is None, decoded.finding
        found += [
            Seen(
                record.offset,
                record.timestamp,
                int(record.timestamp_type),
                record.key,
                record.value,
                tuple((header.key, header.value) for header in record.headers),
            )
            for record in decoded.records
        ]
    return found


def check_reading(made: Generated, thorough: bool) -> None:
    wanted = list(made.records)
    assert we_read(made.data) == wanted, made.kind
    for name, read in READERS.items():
        assert read(made.data) == wanted, (name, made.kind)
    if thorough:
        assert we_read(made.data, REFERENCE) == wanted, made.kind


def check_writing(choose: random.Random) -> str:
    """The same records through the builder of a peer and through ours."""
    peer = choose.choice(sorted(READERS))
    magic = choose.choice([0, 1, 2, 2, 2])
    found = [each._replace(offset=number) for number, each in enumerate(some_records(choose, headers=magic == 2))]
    codec = choose.choice(list(Codec) if magic == 2 else [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
    if magic == 2:
        producer = choose.choice([Producer(), Producer(42, 3, 10), Producer(42, 3, 10, True)])
        theirs = builds(peer, found, codec, producer)
        state = ProducerState(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=producer.transactional,
        )
        header = (
            scan(theirs).batches[0].header
        )  # plain where compressing gains nothing; the leader epoch is for the broker to set
        ours = build_batch(
            as_records(found), codec=header.codec, producer=state, partition_leader_epoch=header.partition_leader_epoch
        )
        if isinstance(header, BatchHeader) and header.codec != Codec.NONE:
            raw = read_raw_batch(scan(theirs).batches[0])
            assert raw.records == read_raw_batch(scan(ours).batches[0]).records
            assert encode_raw_batch(raw) == theirs
            ours = theirs
    else:
        theirs = builds_messages(peer, found, codec, magic)
        ours = build_messages(as_records(found), magic=magic, codec=scan(theirs).batches[0].header.codec)
        if scan(theirs).batches[0].header.codec != Codec.NONE:
            assert we_read(theirs) == we_read(ours) == READERS[peer](theirs)
            return f"written by {peer}"
    assert ours == theirs, (peer, magic, codec)
    wanted = found if magic else [each._replace(timestamp=-1, timestamp_type=-1) for each in found]
    assert we_read(theirs) == wanted
    return f"written by {peer}"


def campaign(seed: int, count: int) -> Counter[str]:
    choose = random.Random(seed)
    done: Counter[str] = Counter()
    for number in range(count):
        if number % 5 == 4:
            done[check_writing(choose)] += 1
        else:
            made = generate(choose)
            check_reading(made, number % ONE_IN == 0)
            done["read by both"] += 1
    return done


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_batches(seed: int, compared: Callable[[str, int], None]) -> None:
    for what, count in campaign(seed, 250).items():
        compared(f"peers: batches {what}", count)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1000, 1000 + CHUNKS))
def test_a_hundred_thousand_batches(seed: int, compared: Callable[[str, int], None]) -> None:
    for what, count in campaign(seed, CHUNK).items():
        compared(f"peers: batches {what}", count)
    compared("peers: unexplained differences", 0)


TEXT = st.text(max_size=20).filter(lambda text: not any("\ud800" <= character <= "\udfff" for character in text))
DATA = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2**62), DATA, DATA, st.lists(st.tuples(TEXT, DATA), max_size=4)), min_size=1, max_size=12
)


@examples(200)
@given(RECORDS, st.integers(0, 2**62), st.sampled_from(Codec))
def test_any_records_are_seen_alike(
    drawn: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], base: int, codec: Codec
) -> None:
    found = [
        Seen(base + number, time, 0, key, value, tuple(headers))
        for number, (time, key, value, headers) in enumerate(drawn)
    ]
    data = build_batch(as_records(found), codec=codec)
    check_reading(Generated(f"drawn, {codec.label}", data, tuple(found)), thorough=True)
