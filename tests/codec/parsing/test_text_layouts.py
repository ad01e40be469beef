"""The declared text files beside the readers written by hand: same values, same refusals, and the bytes come back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.codec import FormatError, build, parse
from kafkalog.codec.files.quorum_state import decode_quorum_state
from kafkalog.codec.files.text import (
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offset_checkpoint,
    decode_partition_metadata,
)
from kafkalog.recovery.explain.text_files import TEXT_FILES, text_spans
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_cases

CHANGES = 300
BYTES = b" \t\r\n\x0b0+-9:=#!\\\\{}\",a\xff\0"


def rows(data: bytes, what: str) -> list[tuple[Any, ...]]:
    return [tuple(entry.values()) for entry in parse(data, what).entries]


def checkpoint(data: bytes) -> Any:
    return rows(data, "offset_checkpoint")


def epochs(data: bytes) -> Any:
    return rows(data, "leader_epoch_checkpoint")


def metadata(data: bytes) -> Any:
    return tuple(parse(data, "partition_metadata").values())


def properties(data: bytes) -> Any:
    return {name: str(value) for name, value in parse(data, "meta_properties").properties.items()}


def marker(data: bytes) -> Any:
    try:
        found = parse(data, "clean_shutdown")
    except FormatError:
        return None, None
    return found.get("version"), found.get("brokerEpoch")


def state(data: bytes) -> Any:
    found = parse(data, "quorum_state")
    return found.data_version, found.leaderId, found.leaderEpoch, found.votedId


def by_hand(name: str, data: bytes) -> Any:
    match name:
        case "offset_checkpoint":
            return [tuple(entry) for entry in decode_offset_checkpoint(data)]
        case "leader_epoch_checkpoint":
            return [tuple(entry) for entry in decode_leader_epochs(data)]
        case "partition_metadata":
            found = decode_partition_metadata(data)
            return found.version, found.topic_id
        case "meta_properties":
            return dict(decode_meta_properties(data).properties)
        case "clean_shutdown":
            read = decode_clean_shutdown(data)
            return read.version, read.broker_epoch
    quorum = decode_quorum_state(data)
    return quorum.data_version, quorum.leader_id, quorum.leader_epoch, quorum.voted_id


DECLARED: dict[str, Callable[[bytes], Any]] = {
    "offset_checkpoint": checkpoint, "leader_epoch_checkpoint": epochs, "partition_metadata": metadata,
    "meta_properties": properties, "clean_shutdown": marker, "quorum_state": state,
}  # fmt: skip


def answer(read: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return read(*arguments)
    except FormatError:
        return "refused"


def normal(value: Any) -> Any:
    """Numbers of properties as numbers: `01` and `1` are the same node."""
    if not isinstance(value, dict):
        return value
    numbers = ("version", "node.id", "broker.id")
    return {name: int(text) if name in numbers and text.strip().lstrip("+-").isdecimal() else text
            for name, text in value.items()}  # fmt: skip


def recorded() -> Iterator[tuple[str, bytes]]:
    """One file of each kind and content."""
    seen = set()
    for case in broker_cases()[::4]:
        for broker in brokers(case.id):
            for path in broker.rglob("*"):
                if path.name in TEXT_FILES and path.is_file():
                    found = path.name, path.read_bytes()
                    if found not in seen:
                        seen.add(found)
                        yield found


def inputs(data: bytes, seed: str) -> Iterator[bytes]:
    yield data
    chance = random.Random(seed)
    for end in range(0, len(data), max(len(data) // 60, 1)):
        yield data[:end]
    for _ in range(CHANGES if data else 0):
        place = chance.randrange(len(data))
        changed = bytes([chance.choice(BYTES)])
        yield data[:place] + changed + data[place + chance.randrange(2) :]


def test_declared_and_hand_written_readers_agree(measured: Callable[[str, int], None]) -> None:
    kinds: dict[str, list[bytes]] = {}
    for name, data in recorded():
        kinds.setdefault(name, []).append(data)
    compared = 0
    for name, examples in sorted(kinds.items()):
        what = TEXT_FILES[name][0]
        for example in examples[:4]:
            for data in inputs(example, f"{name} {len(example)}"):
                declared, read = answer(DECLARED[what], data), answer(by_hand, what, data)
                if what == "meta_properties" and declared == "refused" and read != "refused":
                    # a directory id that is no UUID is left to the checks by the reader
                    assert "directory.id" in read or "broker.id" in read or "node.id" in read, data
                    continue
                assert normal(declared) == normal(read), (name, data)
                compared += 1
    assert set(kinds) > {"meta.properties", "partition.metadata", "recovery-point-offset-checkpoint", "quorum-state"}
    measured("inputs that declared and hand-written text readers read alike", compared)


def test_what_brokers_wrote_comes_back(measured: Callable[[str, int], None]) -> None:
    count = 0
    for name, data in recorded():
        what = TEXT_FILES[name][0]
        assert build(parse(data, what), what) == data, name
        spans = text_spans(name, data)
        assert list(spans.problems()) == [], name
        count += 1
    measured("text files parsed and built again", count)


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n0\n"])
def test_a_checkpoint_without_entries_comes_back(data: bytes) -> None:
    assert build(parse(data, "offset_checkpoint"), "offset_checkpoint") == data
    assert parse(data, "offset_checkpoint").entries == []


def test_counts_follow_and_words_are_words() -> None:
    value = parse(b"0\n1\nt 0 5\n", "offset_checkpoint")
    value.entries.append({"topic": "u", "partition": 1, "offset": 6})
    assert build(value, "offset_checkpoint") == b"0\n2\nt 0 5\nu 1 6\n"
    value.entries[0].topic = "two words"
    with pytest.raises(FormatError, match="not one word"):
        build(value, "offset_checkpoint")
    value.entries[0].topic, value.entries[0].partition = "t", 2**31
    with pytest.raises(FormatError, match="is not an int32"):
        build(value, "offset_checkpoint")


def test_a_fault_is_named_and_the_rest_is_read() -> None:
    spans = text_spans("recovery-point-offset-checkpoint", b"0\n3\na 0 5\nb x 6\nc 0 7\n")
    assert [(span.name, span.problem) for span in spans.problems()] == [("partition", "it is not an int32")]
    assert spans.children[-1].children[-1].value == 7


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("meta.properties", b"a=\\u12\n", "a \\u without four digits"),
        ("meta.properties", b"version=1\nnode.id=\\x\ncluster.id=a", "node.id: it is not an int32"),
        (".kafka_cleanshutdown", b'{"version":0,"broker\\u0045poch":"x"}', "brokerEpoch: 'x' is not an int64"),
    ],
)
def test_a_fault_without_a_known_position_is_the_problem_of_what_is_not_read(
    name: str, data: bytes, problem: str
) -> None:
    assert [(span.name, span.problem) for span in text_spans(name, data).problems()] == [("unread", problem)]


def test_an_empty_file_where_none_may_be_is_refused() -> None:
    for what in ("partition_metadata", "quorum_state"):
        with pytest.raises(FormatError):
            parse(b"", what)
