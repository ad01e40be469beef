"""`quorum-state` and `partition.metadata` as Kafka's own classes read them: which content is accepted.

The answers are those of `FileQuorumStateStore` and `PartitionMetadataFile` of 3.9.1, 4.1.0 and 4.4.0, which agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kafkalog.codec import parse
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.files.quorum_state import decode_quorum_state
from kafkalog.codec.files.text import decode_partition_metadata
from kafkalog.log.storage.java import JavaError
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import read_topic_id

STATE = (
    '{"leaderId":7,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
STATIC = (
    '{"clusterId":"","leaderId":7,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":7}],'
    '"data_version":0}'
)
EPOCH = '"leaderEpoch":3'
TOPIC_ID = "jCy57bOfTkCOYTlbWAyMhQ"
METADATA = f"version: 0\ntopic_id: {TOPIC_ID}"


@pytest.mark.parametrize("whole", [STATE, STATIC])
def test_a_node_reads_one_value_in_the_first_line(whole: str) -> None:
    for text in (
        whole, f"{whole}\n", f"{whole}\r\nx", f"{whole}\rx", f"{whole}\n]more{{", f"{whole}more", f"{whole}}}",
        f"  \t{whole}", whole + "\0" * 40, whole[:-1] + ',"more":{"a":[1]}}',
        whole.replace(EPOCH, f'"leaderEpoch":1,{EPOCH}'),
    ):  # fmt: skip
        assert decode_quorum_state(text.encode()).leader_epoch == 3, text
        assert parse(text.encode(), "quorum_state").leaderEpoch == 3, text


@pytest.mark.parametrize("whole", [STATE, STATIC])
@pytest.mark.parametrize(
    "content",
    [
        lambda whole: b"\xef\xbb\xbf" + whole.encode(),
        lambda whole: json.dumps(json.loads(whole), indent=2).encode(),
        lambda whole: whole.encode("utf-16"),
        lambda whole: whole.encode() + b"\n\xff",
        lambda whole: b"\n" + whole.encode(),
        lambda whole: b"\x0c" + whole.encode(),
        lambda whole: f"/*x*/{whole}".encode(),
        lambda whole: f"[{whole}]".encode(),
        lambda whole: whole[:-5].encode(),
        lambda whole: b"",
        lambda whole: b"   ",
        lambda whole: bytes(40),
        lambda whole: whole.replace('"', "'").encode(),
        lambda whole: whole.replace('"votedId":-1', '"votedId":NaN').encode(),
        lambda whole: (whole[:-1] + ',"more":NaN}').encode(),
        lambda whole: whole.replace('"data_version":', '"version":').encode(),
        lambda whole: whole.replace(f"{EPOCH},", "").encode(),
        *(lambda whole, value=value: whole.replace(EPOCH, f'"leaderEpoch":{value}').encode()
          for value in ('"3"', "3.0", "3000000000", "null", "true", "03")),
    ],
)  # fmt: skip
def test_what_a_node_ends_at(content, whole: str) -> None:  # type: ignore[no-untyped-def]
    for read in (decode_quorum_state, lambda data: parse(data, "quorum_state")):
        with pytest.raises(FormatError):
            read(content(whole))


@pytest.mark.parametrize("version", ['"0"', "0.7", "true", "[]", "null", "65536"])
def test_a_version_that_is_no_number_is_0(version: str) -> None:
    text = STATIC.replace('"data_version":0', f'"data_version":{version}').encode()
    assert decode_quorum_state(text).current_voters == (7,)
    assert parse(text, "quorum_state").data_version == 0


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        (METADATA, True), (f"\ufeff{METADATA}", True), (METADATA.replace("topic_id", "\ufefftopic_id"), True),
        (f"a: 0\nb: {TOPIC_ID}", True), (f": 0\n: {TOPIC_ID}", True), (METADATA.replace("\n", "\r\n"), True),
        (f"{METADATA}\nmore", True), (METADATA.replace(": 0", " :  +0"), True), (f"{METADATA}==", True),
        ("", False), ("version: 0", False), (f"\n{METADATA}", False), (f"{METADATA} ", False),
        (f"version:0\ntopic_id:{TOPIC_ID}", False), (f"topic_id: {TOPIC_ID}\nversion: 0", False),
        (METADATA.replace(": 0", ": 0: 1"), False), (METADATA.replace(": 0", ": -1"), False), (METADATA[:-1], False),
        (METADATA.replace("jC", "j+"), False), (METADATA.replace(TOPIC_ID, "A" * 22), False),
    ],
)  # fmt: skip
def test_a_broker_reads_the_values_and_not_the_names(text: str, is_read: bool) -> None:
    tree = Tree({}, {"t-0"}, lambda path: pytest.fail(f"{path} is no original"))
    tree.write("t-0/partition.metadata", text.encode())
    readers: tuple[Callable[[], str | None], ...] = (
        lambda: decode_partition_metadata(text.encode()).topic_id, lambda: read_topic_id(tree, "t-0"),
    )  # fmt: skip
    for read in readers:
        if is_read:
            assert (read() or "").rstrip("=") == TOPIC_ID
        else:
            with pytest.raises((FormatError, JavaError)):
                read()
