"""``dump --json`` by the compiled writer prints the very bytes that the readable one prints, and finds the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog.codec.compression import compress
from kafkalog.codec.model import Codec
from testkit.judging.executions import choose_execution
from testkit.made.record_bytes import Fields, batch, damaged, payload
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import BrokerCase
from testkit.running.command import Finished, kafkalog
from testkit.running.examples import examples

SOME = [case for case in STOPPED if case.id.startswith(("4.1.1/", "2.8.2/", "0.11.0.3/", "0.10.2.2/"))]


def both_ways(*arguments: object) -> tuple[Finished, Finished]:
    found = []
    for enough in (2**62, 0):
        with pytest.MonkeyPatch.context() as patch:
            choose_execution(patch, enough)
            found.append(kafkalog("dump", "--json", *arguments))
    return found[0], found[1]


@pytest.mark.parametrize("encoding", ["text", "base64"])
@pytest.mark.parametrize("case", SOME, ids=lambda case: case.id)
def test_recorded_directories(case: BrokerCase, encoding: str) -> None:
    for level in ("read_uncommitted", "read_committed"):
        options = ("--encoding", encoding, "--isolation-level", level, "--replica", "longest")
        plain, fast = both_ways(*brokers(case.id), *options)
        assert fast == plain
    plain, fast = both_ways(*brokers(case.id), "--start-offset", 7, "--end-offset", 31, "--replica", "longest")
    assert fast == plain


ASCII = st.text(st.characters(max_codepoint=0x82), max_size=40)  # the writer examines eight bytes at a time
TEXTS = (st.text(max_size=12) | ASCII).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=12)
HEADERS = st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=3)
TIMES = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 99)
RECORDS = st.lists(
    st.tuples(st.just(0), TIMES, st.integers(0, 9), st.none() | TEXTS, st.none() | TEXTS, HEADERS), max_size=5
)


BACKWARDS = bytes([12, 0, 0, 0, 1, 1, 0, 12, 0, 0, 1, 1, 1, 0])
"""A record at the batch's base offset, then one below it."""


@examples(120)
@given(
    st.lists(st.tuples(RECORDS.map(lambda rows: (payload(rows), len(rows))) | damaged(), st.sampled_from(list(Codec)),
                       st.sampled_from([0, 8, 32]), st.integers(-1, 3)), max_size=4),
    st.sampled_from(["text", "base64"]),
    st.integers(-1, 2**16),
)  # fmt: skip
@example([((BACKWARDS, 2), Codec.NONE, 0, 0)], "text", -1)
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[tuple[bytes, int], Codec, int, int]],
    encoding: str,
    flip: int,
) -> None:
    data, offset = bytearray(), 0
    for (content, count), codec, flags, epoch in batches:
        packed = compress(codec, content) if codec != Codec.NONE and content else content
        fields = {"attributes": flags | codec, "partition_leader_epoch": epoch, "max_timestamp": 7}
        data += batch(packed, count, base_offset=offset, last_offset_delta=10, **fields)
        offset += 11
    if 0 <= flip < len(data):
        data[flip] ^= 4
    directory = tmp_path_factory.mktemp("odd") / 'a "topic"-0'
    directory.mkdir(exist_ok=True)
    (directory / f"{0:020}.log").write_bytes(data)
    plain, fast = both_ways(directory, "--encoding", encoding)
    assert fast == plain


def test_many_records_in_several_pieces(tmp_path: Path) -> None:
    source = random.Random(4)
    directory = tmp_path / "t-0"
    directory.mkdir()
    parts = []
    for number in range(500):
        name = b"h\xff" if number == 300 else b"h"
        values = [source.randbytes(9) if n % 3 else b"text" for n in range(40)]
        rows: list[Fields] = [(0, n, n, None, value, [(name, b"1")]) for n, value in enumerate(values)]
        parts.append(batch(payload(rows), 40, base_offset=40 * number, last_offset_delta=39))
    (directory / f"{0:020}.log").write_bytes(b"".join(parts))
    plain, fast = both_ways(directory)
    assert fast == plain
    assert len(fast.lines) == 20_000
