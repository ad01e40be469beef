"""The text files: what Java's readers accept is accepted, the rest is named; cut at every byte; written again."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kafkalog.codec import DEFAULT_LIMITS, FindingCode, FormatError, LimitExceeded
from kafkalog.codec.files.text import (
    CleanShutdown,
    LeaderEpoch,
    MetaProperties,
    OffsetCheckpointEntry,
    PartitionMetadata,
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offset_checkpoint,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_leader_epochs,
    encode_meta_properties,
    encode_offset_checkpoint,
    encode_partition_metadata,
    meta_properties,
)
from kafkalog.codec.parsing.properties import decode_properties, encode_properties

# --- checkpoints -----------------------------------------------------------------------------------------------------

TWO = [OffsetCheckpointEntry("a-b", 1, 7), OffsetCheckpointEntry("c", 0, 9)]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", []),
        (b"0", []),
        (b"0\n", []),
        (b"0\n0\n", []),
        (b"0\n2\na-b 1 7\nc 0 9\n", TWO),
        (b"0\n2\na-b 1 7\nc 0 9", TWO),
        (b"0\r\n2\r\na-b 1 7\r\nc 0 9\r\n", TWO),
        (b"0\r2\ra-b 1 7\rc 0 9\r", TWO),
        (b"0\n2\na-b\t1 \t 7\nc\x0b0\x0c9 \n", TWO),
        (b"+0\n+2\na-b +1 7\nc 0 9\n", TWO),
        (b"0\n1\n\xc2\x85x\xff 0 -9223372036854775808\n", [OffsetCheckpointEntry("\x85x\udcff", 0, -(2**63))]),
        (b"0\n1\n../../etc/x 0 5\n", [OffsetCheckpointEntry("../../etc/x", 0, 5)]),
    ],
)
def test_offset_checkpoints(data: bytes, wanted: list[OffsetCheckpointEntry]) -> None:
    assert decode_offset_checkpoint(data) == wanted
    assert decode_offset_checkpoint(encode_offset_checkpoint(wanted)) == wanted


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"1\n0\n", 1), (b"x\n0\n", 1), (b" 0\n0\n", 1), (b"\n", 1), (b"0x0\n", 1), (b"99999999999999999999\n", 1),
        (b"0\n1\n", 2), (b"0\n-1\n", 2), (b"0\nx\n", 2), (b"0\n2147483648\n", 2), (b"0\n\n", 2),
        (b"0\n0\na 0 5\n", 2), (b"0\n1\na 0 5\nb 0 6\n", 2),
        (b"0\n1\na 0\n", 3), (b"0\n1\na 0 5 6\n", 3), (b"0\n1\n a 0 5\n", 3), (b"0\n1\na x 5\n", 3),
        (b"0\n1\na 2147483648 5\n", 3), (b"0\n1\na 0 9223372036854775808\n", 3), (b"0\n1\na 0 0x5\n", 3),
        (b"0\n1\na 0 " + b"1" * 5000 + b"\n", 3), (b"0\n1\n\na 0 5\n", 3), (b"0\n2\na 0 5\n\n", 4), (b"\0" * 40, 1),
    ],
)  # fmt: skip
def test_offset_checkpoints_that_cannot_be_read(data: bytes, line: int) -> None:
    with pytest.raises(FormatError, match=f"line {line}") as caught:
        decode_offset_checkpoint(data, source="here")
    assert (caught.value.code, caught.value.source) == (FindingCode.CHECKPOINT_INVALID, "here")


def test_leader_epochs() -> None:
    assert decode_leader_epochs(b"0\n2\n3 0\n4 2\n") == [LeaderEpoch(3, 0), LeaderEpoch(4, 2)]
    assert encode_leader_epochs([LeaderEpoch(3, 0), LeaderEpoch(4, 2)]) == b"0\n2\n3 0\n4 2\n"
    assert encode_leader_epochs([]) == b"0\n0\n"
    for data in (b"0\n1\n3 0 1\n", b"0\n1\n3\n", b"0\n1\n2147483648 0\n", b"0\n2\n3 0\n"):
        with pytest.raises(FormatError):
            decode_leader_epochs(data)


def test_a_checkpoint_cut_at_every_byte_is_refused_or_ends_inside_a_number() -> None:
    data = encode_offset_checkpoint([*TWO, OffsetCheckpointEntry("d", 3, 123456)])
    for cut in range(len(data) + 1):
        try:
            got = decode_offset_checkpoint(data[:cut])
        except FormatError:
            continue
        assert got == [] or got[:2] == TWO
        assert len(got) in (0, 3)


@pytest.mark.parametrize("data", [bytes(4096), b"\xff" * 4096, b"9" * 4096])
def test_what_stands_for_a_number_is_shown_in_few_columns(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_offset_checkpoint(data)
    assert max(map(len, str(caught.value).split(" "))) < 72


def test_checkpoints_have_a_cap() -> None:
    with pytest.raises(LimitExceeded, match="too large"):
        decode_offset_checkpoint(b"0\n0\n", limits=replace(DEFAULT_LIMITS, checkpoint_bytes=3))


def test_random_bytes_give_entries_or_our_error() -> None:
    choose = random.Random(5)
    alphabet = b'0129 -+\n\r\tax\x00\xff{}":=\\u'
    decoders: tuple[Callable[[bytes], object], ...] = (
        decode_offset_checkpoint,
        decode_leader_epochs,
        decode_partition_metadata,
        decode_meta_properties,
        decode_clean_shutdown,
    )
    for _ in range(20_000):
        data = bytes(choose.choices(alphabet, k=choose.randrange(30)))
        for decode in decoders:
            try:
                decode(data)
            except FormatError as error:
                assert error.message  # noqa: PT017


# --- partition.metadata ----------------------------------------------------------------------------------------------

TOPIC_ID = "AAAAAAAAAAEAAAAAAAAAAg"


@pytest.mark.parametrize(
    "text",
    ["", "\n", "\nsomething\n", "\r\n", "\nversion: 5"],
    ids=["as written", "newline", "third line", "CRLF", "twice"],
)
def test_partition_metadata(text: str) -> None:
    data = f"version: 0\ntopic_id: {TOPIC_ID}{text}".encode()
    assert decode_partition_metadata(data) == PartitionMetadata(0, TOPIC_ID)


def test_partition_metadata_of_a_later_version() -> None:
    assert decode_partition_metadata(f"version: 1\r\ntopic_id:\t{TOPIC_ID}".encode()) == PartitionMetadata(1, TOPIC_ID)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"version: 0", b"version: 0\n", b"version: -1\ntopic_id: " + TOPIC_ID.encode(), b"\0" * 40,
        b"version: x\ntopic_id: " + TOPIC_ID.encode(), b"version: 0\ntopic_id: " + b"A" * 22,
        b"version: 0\ntopic_id: short", b"version: 0\ntopic_id:", f"topic_id: {TOPIC_ID}\nversion: 0".encode(),
        b"version: 0\ntopic_id: \xff\xfe", b"version: " + b"1" * 5000 + b"\ntopic_id: " + TOPIC_ID.encode(),
    ],
)  # fmt: skip
def test_partition_metadata_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_partition_metadata(data)
    assert caught.value.code == FindingCode.PARTITION_METADATA_INVALID


def test_partition_metadata_cut_at_every_byte() -> None:
    data = encode_partition_metadata(PartitionMetadata(0, TOPIC_ID))
    for cut in range(len(data)):
        with pytest.raises(FormatError):
            decode_partition_metadata(data[:cut])


# --- meta.properties -------------------------------------------------------------------------------------------------

V0 = b"#\n#Sat Nov 21 00:45:50 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=UYGgaDmhQtalTbOeVbO35Q\n"
V1 = (
    b"#\n#Sat Nov 21 00:43:44 UTC 2026\nnode.id=7\ndirectory.id=LJgkKl3ArOUsv56lJGNUXA\nversion=1\n"
    b"cluster.id=TUqJaOC45eHosYLZp7Hu9g\n"
)


@pytest.mark.parametrize(
    ("data", "version", "node", "directory"), [(V0, 0, 1, None), (V1, 1, 7, "LJgkKl3ArOUsv56lJGNUXA")]
)
def test_meta_properties_of_brokers(data: bytes, version: int, node: int, directory: str | None) -> None:
    meta = decode_meta_properties(data)
    assert (meta.version, meta.node_id, meta.directory_id) == (version, node, directory)
    assert encode_meta_properties(meta) == data
    written = meta_properties(
        version=version, node_id=node, cluster_id=meta.cluster_id, directory_id=directory, comment=meta.comments[1]
    )
    assert {**written.properties} == {**meta.properties}
    assert encode_meta_properties(written).splitlines()[:2] == data.splitlines()[:2]


def test_meta_properties_may_say_little() -> None:
    assert decode_meta_properties(b"") == MetaProperties(
        version=0, cluster_id=None, node_id=None, directory_id=None, properties={}
    )
    assert decode_meta_properties(b"cluster.id = x\n").cluster_id == "x"


@pytest.mark.parametrize(
    "data",
    [
        b"version=2\n", b"version=x\n", b"version=1\n", b"version=1\nnode.id=1\n", b"version=1\ncluster.id=x\n",
        b"version=1\ncluster.id=x\nnode.id=one\n", b"broker.id=2147483648\n", b"broker.id=" + b"1" * 5000,
        b"version=\\u12\n",
    ],
)  # fmt: skip
def test_meta_properties_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_meta_properties(data, source="meta.properties")
    assert (caught.value.code, caught.value.source) == (FindingCode.META_PROPERTIES_INVALID, "meta.properties")


# The rules are those that the documentation of java.util.Properties states; values by hand.
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=b", {"a": "b"}), ("a:b", {"a": "b"}), ("a b", {"a": "b"}), ("a = b ", {"a": "b "}), ("a", {"a": ""}),
        ("a==b", {"a": "=b"}), ("  a\t:  b", {"a": "b"}), ("#c\n!d\n  #e\na=b", {"a": "b"}),
        ("\n\n \t\f\na=1", {"a": "1"}),
        ("a=b\\\n   c", {"a": "bc"}), ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}), ("a=b\\\n#c", {"a": "b#c"}),
        ("\\\n\n\\\n#c=d\n \\\n a=b", {"a": "b"}), ("a=b\\\n\\\n#c", {"a": "b#c"}), ("\\\n", {"": ""}),
        ("a\\ b\\=c\\:=d", {"a b=c:": "d"}), ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}), ("a=\\u00e9", {"a": "é"}),
        ("a=1\na=2", {"a": "2"}), ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}), ("a=b\\", {"a": "b"}),
        ("=b", {"": "b"}), ("a=#b", {"a": "#b"}), ("a\\\n=b", {"a": "b"}), ("a=\xe9", {"a": "é"}),
        ("a=\\uD83D\\uDE00", {"a": "\U0001f600"}), ("a=\\uD83D", {"a": "\ud83d"}),
    ],
)  # fmt: skip
def test_java_properties(text: str, wanted: dict[str, str]) -> None:
    assert decode_properties(text.encode("latin-1")) == wanted
    assert decode_properties(encode_properties(wanted)) == wanted


def test_properties_are_escaped_as_java_does() -> None:
    assert encode_properties({"a b": " c d", "é=": "\t#!:\\"}) == (b"a\\ b=\\ c d\n\\u00E9\\==\\t\\#\\!\\:\\\\\n")
    assert encode_properties({"a": "b"}, ["x\r\ny\n!z\n"]) == b"#x\n#y\n!z\n#\na=b\n"
    assert encode_properties({"a": "\U0001f600"}) == b"a=\\uD83D\\uDE00\n"


# --- .kafka_cleanshutdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", CleanShutdown(None, None)),
        (b'{"version":0,"brokerEpoch":164}', CleanShutdown(0, 164)),
        (b'{"version":0,"brokerEpoch":-1}', CleanShutdown(0, -1)),
    ],
)
def test_clean_shutdown(data: bytes, wanted: CleanShutdown) -> None:
    assert decode_clean_shutdown(data) == wanted
    assert encode_clean_shutdown(wanted) == data


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b"5", b"{}", b"\xff", b"[" * 100_000, b'{"version":1e999,"brokerEpoch":1}', b"null"]
)
def test_an_unreadable_marker_is_still_a_marker(data: bytes) -> None:
    assert decode_clean_shutdown(data) == CleanShutdown(None, None)
