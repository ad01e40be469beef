"""KRaft: control records whose bytes Kafka's own classes gave, snapshots, quorum-state and names."""

from __future__ import annotations

import json
import struct

import pytest

from kafkalog.codec import FindingCode, FormatError, Record, TimestampType, UsageError, decode_batch, scan
from kafkalog.codec.encode import build_control_batch
from kafkalog.codec.files.kraft import (
    KRaftRecord,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterEndpoint,
    VoterNode,
    encode_kraft_value,
    kraft_record,
    parse_kraft_value,
)
from kafkalog.codec.files.kraft_snapshot import build_kraft_snapshot, read_kraft_snapshot
from kafkalog.codec.files.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from kafkalog.codec.model import ControlType
from kafkalog.codec.names import KRaftSnapshotName, kraft_snapshot_file, parse_kraft_snapshot_file
from kafkalog.codec.plain.control import parse_control_key

UUID_1_2 = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
VOTERS = KRaftVoters(
    0,
    (
        VoterNode(
            voter_id=1,
            directory_id=UUID_1_2,
            endpoints=(VoterEndpoint(name="C", host="h", port=9093),),
            min_supported_version=0,
            max_supported_version=1,
        ),
    ),
)

# control record -> checksum of the batch, the record's bytes
VECTORS: dict[str, tuple[KRaftRecord, int, str]] = {
    "LEADER_CHANGE": (
        LeaderChange(version=0, leader_id=1, voters=(Voter(1), Voter(2)), granting_voters=(Voter(1),)),
        0xF1FCFDEC,
        "44 00 00 00 08 0000 0002 30 0000 00000001 03 00000001 00 00000002 00 02 00000001 00 00 00",
    ),
    "SNAPSHOT_HEADER": (
        SnapshotHeader(0, 999), 0x6D4CBD64, "2a 00 00 00 08 0000 0003 16 0000 00000000000003e7 00 00",
    ),
    "SNAPSHOT_FOOTER": (SnapshotFooter(0), 0x8DB697CB, "1a 00 00 00 08 0000 0004 06 0000 00 00"),
    "KRAFT_VERSION": (KRaftVersion(0, 1), 0xDB904E74, "1e 00 00 00 08 0000 0005 0a 0000 0001 00 00"),
    "KRAFT_VOTERS": (
        VOTERS,
        0xF29D31AB,
        """60 00 00 00 08 0000 0006 4c 0000 02 00000001 00000000000000010000000000000002 02 0243 0268 2385 00
        0000 0001 00 00 00 00""",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_control_batches_are_kafkas(name: str) -> None:
    value, checksum, text = VECTORS[name]
    kind = ControlType[name]
    data = build_control_batch([encode_kraft_value(value)], base_offset=0, timestamp=1000, partition_leader_epoch=7)
    assert data[61:] == bytes.fromhex(text)
    (batch,) = scan(data).batches
    assert batch.header.crc == checksum
    assert batch.header.attributes == 0x20
    (record,) = decode_batch(batch).records
    assert parse_control_key(record.key).type == kind
    assert kraft_record(record) == value


def test_lengths_of_the_longer_ones() -> None:
    for name, length in (("LEADER_CHANGE", 0x54), ("KRAFT_VOTERS", 0x62)):
        data = build_control_batch([encode_kraft_value(VECTORS[name][0])], base_offset=0, timestamp=1000)
        assert struct.unpack_from(">i", data, 8) == (length,)


def test_directories_of_voters_since_version_1() -> None:
    change = LeaderChange(version=1, leader_id=1, voters=(Voter(1, UUID_1_2),), granting_voters=(Voter(1, UUID_1_2),))
    kind, value = encode_kraft_value(change)
    assert value == bytes.fromhex("0001 00000001") + 2 * (bytes.fromhex("02 00000001") + UUID_1_2 + b"\x00") + b"\x00"
    assert parse_kraft_value(kind, value) == change


def test_fields_of_later_versions_survive() -> None:
    for value in (SnapshotFooter(0, ((3, b"xyz"), (4, b""))), KRaftVersion(0, 1, ((0, b"\x01"),))):
        kind, data = encode_kraft_value(value)
        assert parse_kraft_value(kind, data) == value
    assert encode_kraft_value(SnapshotFooter(0, ((3, b"xyz"),)))[1] == bytes.fromhex("0000 01 03 03 78797a")


@pytest.mark.parametrize("name", VECTORS)
def test_values_cut_at_every_byte_and_longer_ones(name: str) -> None:
    kind, value = encode_kraft_value(VECTORS[name][0])
    for cut in range(len(value)):
        with pytest.raises(FormatError) as caught:
            parse_kraft_value(kind, value[:cut])
        assert caught.value.code == FindingCode.CONTROL_RECORD_INVALID
    assert parse_kraft_value(kind, value + b"more") == VECTORS[name][0]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ControlType.SNAPSHOT_HEADER, "0001 00000000000003e7 00"),
        (ControlType.SNAPSHOT_FOOTER, "ffff 00"),
        (ControlType.LEADER_CHANGE, "0002 00000001 01 01 00"),
        (ControlType.LEADER_CHANGE, "0000 00000001 00 01 00"),
        (ControlType.LEADER_CHANGE, "0000 00000001 ffffffff0f 01 00"),
        (ControlType.KRAFT_VOTERS, "0000 02 00000001" + 16 * "00" + "02 00 0268 2385 00 0000 0001 00 00 00"),
        (ControlType.KRAFT_VOTERS, "0000 02 00000001" + 16 * "00" + "02 ffff03 0268 2385 00 0000 0001 00 00 00"),
        (ControlType.SNAPSHOT_FOOTER, "0000 ffffffff0f"),
        (ControlType.SNAPSHOT_FOOTER, "0000 01 00 ffffffff0f"),
        (ControlType.SNAPSHOT_FOOTER, "0000 ffffffffff01"),
    ],
    ids=["later version", "negative version", "unknown version", "null array", "absurd array", "null string",
         "string past the end", "absurd tags", "tag past the end", "endless varint"],
)  # fmt: skip
def test_values_that_cannot_be_read(kind: ControlType, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_kraft_value(kind, bytes.fromhex(text))
    assert caught.value.code == FindingCode.CONTROL_RECORD_INVALID


def test_null_values_and_other_types() -> None:
    with pytest.raises(FormatError):
        parse_kraft_value(ControlType.SNAPSHOT_FOOTER, None)
    with pytest.raises(UsageError):
        parse_kraft_value(ControlType.COMMIT, bytes(6))
    with pytest.raises(UsageError):
        encode_kraft_value(KRaftVersion(7, 1))
    marker = Record(0, 0, TimestampType.CREATE_TIME, struct.pack(">hh", 0, 1), bytes(6))
    assert kraft_record(marker) is None


# --- snapshots -------------------------------------------------------------------------------------------------------

RECORDS = [Record(0, 0, TimestampType.CREATE_TIME, None, b"one"), Record(0, 0, TimestampType.CREATE_TIME, None, b"two")]


def test_a_snapshot_is_batches_between_header_and_footer() -> None:
    data = build_kraft_snapshot(
        RECORDS, epoch=3, timestamp=1000, last_contained_log_timestamp=999, kraft_version=1, voters=VOTERS
    )
    result = scan(data, base_offset=0)
    assert result.findings == ()
    assert [(batch.header.is_control, batch.last_offset) for batch in result.batches] == [
        (True, 2),
        (False, 4),
        (True, 5),
    ]
    assert {batch.header.partition_leader_epoch for batch in result.batches} == {3}
    snapshot = read_kraft_snapshot(data)
    assert (snapshot.header, snapshot.footer) == (SnapshotHeader(0, 999), SnapshotFooter(0))
    assert (snapshot.kraft_version, snapshot.voters) == (KRaftVersion(0, 1), VOTERS)
    assert [record.value for record in snapshot.records] == [b"one", b"two"]
    assert snapshot.findings == ()


def test_a_snapshot_without_records() -> None:
    snapshot = read_kraft_snapshot(build_kraft_snapshot([], epoch=0, timestamp=0, last_contained_log_timestamp=0))
    assert (snapshot.header, snapshot.records, snapshot.footer) == (SnapshotHeader(0, 0), (), SnapshotFooter(0))
    assert snapshot.findings == ()


def test_a_snapshot_cut_at_every_byte_is_not_whole() -> None:
    data = build_kraft_snapshot(RECORDS, epoch=3, timestamp=1000, last_contained_log_timestamp=999)
    for cut in range(len(data)):
        snapshot = read_kraft_snapshot(data[:cut])
        assert snapshot.footer is None
        assert FindingCode.CONTROL_RECORD_INVALID in {finding.code for finding in snapshot.findings}


def test_a_control_record_that_cannot_be_read_is_a_finding() -> None:
    data = build_control_batch([(ControlType.SNAPSHOT_HEADER, b"")], base_offset=0, timestamp=0)
    snapshot = read_kraft_snapshot(data)
    assert snapshot.header is None
    assert {finding.code for finding in snapshot.findings} == {FindingCode.CONTROL_RECORD_INVALID}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("00000000000000000051-0000000001.checkpoint", KRaftSnapshotName(51, 1)),
        ("00000000000000000051-0000000001.checkpoint.deleted", KRaftSnapshotName(51, 1, ".deleted")),
        ("00000000000000000051-0000000001-3498273498723.checkpoint.part", KRaftSnapshotName(51, 1, ".part")),
        ("bootstrap.checkpoint", None),
        ("00000000000000000051.log", None),
        ("00000000000000000051-000000000x.checkpoint", None),
        ("00000000000000000051-0000000001.checkpoint.tmp", None),
        ("recovery-point-offset-checkpoint", None),
        ("", None),
    ],
)
def test_names_of_snapshots(name: str, wanted: KRaftSnapshotName | None) -> None:
    assert parse_kraft_snapshot_file(name) == wanted
    if wanted is not None and not wanted.pending:
        assert kraft_snapshot_file(wanted.end_offset, wanted.epoch) == name


# --- quorum-state ----------------------------------------------------------------------------------------------------

V0 = (
    b'{"clusterId":"","leaderId":7,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":7}],'
    b'"data_version":0}'
)
V1 = b'{"leaderId":3,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (V0, QuorumState(data_version=0, leader_id=7, leader_epoch=3, current_voters=(7,))),
        (V1, QuorumState(data_version=1, leader_id=3, leader_epoch=3)),
    ],
    ids=["version 0", "version 1"],
)
def test_quorum_states_of_brokers(data: bytes, state: QuorumState) -> None:
    assert decode_quorum_state(data) == state
    assert encode_quorum_state(state) == data
    assert decode_quorum_state(data + b"\n") == state
    for cut in range(len(data)):
        with pytest.raises(FormatError):
            decode_quorum_state(data[:cut])


@pytest.mark.parametrize(
    "change",
    [
        {"data_version": 2}, {"data_version": "1"}, {"leaderId": None}, {"leaderId": "3"}, {"leaderId": True},
        {"leaderId": 2**31}, {"leaderEpoch": 1.5}, {"votedDirectoryId": "short"}, {"votedDirectoryId": 5},
        {"data_version": 0, "clusterId": "", "appliedOffset": 0, "currentVoters": 5},
        {"data_version": 0, "clusterId": "", "appliedOffset": 0, "currentVoters": [5]},
        {"data_version": 0, "clusterId": "", "appliedOffset": 0, "currentVoters": [{}]},
        {"data_version": []},
    ],
    ids=str,
)  # fmt: skip
def test_quorum_states_that_cannot_be_read(change: dict[str, object]) -> None:
    with pytest.raises(FormatError) as caught:
        decode_quorum_state(json.dumps(json.loads(V1) | change).encode())
    assert caught.value.code == FindingCode.CHECKPOINT_INVALID


@pytest.mark.parametrize("data", [b"", b"[]", b"5", b"[" * 100_000, b"\xff\xfe", b'{"data_version":1e999}', b"null"])
def test_what_is_no_json_object(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_quorum_state(data)


def test_only_known_versions_are_written() -> None:
    with pytest.raises(UsageError):
        encode_quorum_state(QuorumState(data_version=2, leader_id=1, leader_epoch=1))


def test_half_a_surrogate_pair_is_written_as_java_does() -> None:
    state = QuorumState(data_version=0, leader_id=1, leader_epoch=1, cluster_id="a\ud800")
    assert b'"clusterId":"a?"' in encode_quorum_state(state)
