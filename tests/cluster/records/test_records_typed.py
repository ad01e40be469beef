"""Records of the internal topics: what Kafka's own dump tool prints, Kafka's own bytes, and back to the byte."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.cluster.layout import cluster_metadata, kraft_control, remote_log_metadata
from kafkalog.cluster.records.coordinator_records import TOPICS, decode_record, encode_record
from kafkalog.cluster.records.framed_records import (
    FramedRecord,
    decode_control,
    decode_metadata,
    decode_remote_log_metadata,
    encode_framed,
    encode_remote_log_metadata,
)
from kafkalog.cluster.records.messages import decode, encode
from kafkalog.cluster.records.record_json import control_json, coordinator_json, framed_json
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.messages.field import Field
from kafkalog.codec.messages.message import Message
from kafkalog.codec.model import Record
from kafkalog.codec.plain.control import parse_control_key
from kafkalog.log import Partition, open_all, open_segment
from testkit.recorded.broker_dirs import STOPPED, brokers
from testkit.recorded.fixture_data import BrokerCase, broker_cases
from testkit.running.examples import examples

Note = Callable[[str, int], None]
JSON_DUMP = [case for case in STOPPED if case.version in ("3.9.1", "3.9.1-zk", "4.1.1", "4.3.0")]
KRAFT = [case for case in broker_cases() if case.case["mode"] == "kraft"]


def records_of(case: BrokerCase, topic: str) -> Iterator[tuple[Partition, Record, bool]]:
    for broker in brokers(case.id):
        for partition in open_all(broker).readable():
            if partition.topic != topic:
                continue
            for batch, records in partition.records(all=True).by_batch():
                for record in records:
                    yield partition, record, batch.header.is_control


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize("case", broker_cases(), ids=lambda case: case.id)
def test_every_coordinator_record_is_understood_and_written_back(case: BrokerCase, topic: str, compared: Note) -> None:
    count = 0
    for _, record, control in records_of(case, topic):
        if control:
            continue
        decoded = decode_record(topic, record.key, record.value)
        assert decoded.understood, record
        assert decoded.findings == ()
        assert encode_record(decoded) == (record.key, record.value)
        count += 1
    compared(f"records of {topic} written back to the byte", count)


_DUMPED = re.compile(
    r"\| offset: (\d+) \w+: -?\d+ keySize: -?\d+ valueSize: -?\d+ sequence: -?\d+ headerKeys: \[\] (.*)"
)


def _dumped(text: str) -> Iterator[tuple[str, int, str]]:
    path = ""
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            path = line.removeprefix("Dumping ")
        elif found := _DUMPED.match(line):
            yield path, int(found[1]), found[2]


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize("case", JSON_DUMP, ids=lambda case: case.id)
def test_coordinator_records_are_those_of_kafkas_dump_tool(case: BrokerCase, topic: str, compared: Note) -> None:
    stem = f"dump{topic.replace('__', '_')}.txt"
    if not case.has(stem):
        assert case.name not in ("groups", "txn") or (case.name == "groups") == (topic == "__transaction_state")
        return
    got = {}
    for partition, record, control in records_of(case, topic):
        if not control:
            decoded = coordinator_json(decode_record(topic, record.key, record.value))
            got[f"{partition.topic}-{partition.partition}", record.offset] = decoded
    count = 0
    for path, offset, text in _dumped(case.expected_text(stem)):
        key, separator, value = text.removeprefix("key: ").partition(" payload: ")
        if not separator or not key.startswith("{"):
            continue  # a marker, or the older tool's own words for transactions
        wanted = {"key": json.loads(key), "value": None if value == "<DELETE>" else json.loads(value)}
        assert got[path.split("/")[1], offset] == wanted
        count += 1
    assert count or topic == "__transaction_state" or case.name == "txn"
    compared(f"records of {topic} as Kafka's dump tool prints them", count)


@pytest.mark.parametrize("case", KRAFT, ids=lambda case: case.id)
def test_metadata_records_are_those_of_kafkas_dump_tool(case: BrokerCase, compared: Note) -> None:
    (broker,) = brokers(case.id)
    got: dict[tuple[str, int], dict[str, Any]] = {}
    files: dict[str, int] = {}
    metadata = broker / "__cluster_metadata-0"
    wanted = list(_dumped(case.expected_text("dump_cluster_metadata.txt")))
    for path in sorted({path for path, _, _ in wanted}):
        for batch, records in open_segment(metadata / path.split("/")[-1]).records(all=True).by_batch():
            for record in records:
                files[path] = files.get(path, 0) + 1
                if batch.header.is_control:
                    control = decode_control(parse_control_key(record.key).type, record.value)
                    assert control.decoded is not None
                    assert (
                        encode(control.decoded.message, control.decoded.version, control.decoded.fields) == record.value
                    )
                    got[path, record.offset] = control_json(control)
                    continue
                framed = decode_metadata(record.value)
                assert framed.findings == ()
                assert encode_framed(framed) == record.value
                got[path, record.offset] = framed_json(framed, show_secrets=True)
    for path, offset, text in wanted:
        if text.startswith("payload: "):
            assert got[path, offset] == json.loads(text.removeprefix("payload: "))
        elif text.startswith("controlType: "):  # 3.9 says no more than that
            assert text == "controlType: LEADER_CHANGE(2)"
            assert "LeaderChange" in got[path, offset]
        else:
            name, _, data = text.partition(" ")
            assert got[path, offset] == {name.rstrip(":"): json.loads(data)}
    assert {*files} == {str(path.relative_to(broker.parent)) for path in metadata.iterdir()
                        if path.suffix in (".log", ".checkpoint") and path.stat().st_size}  # fmt: skip
    assert len(wanted) == len(got)
    compared("records of the metadata log and its snapshots as Kafka's dump tool prints them", len(wanted))


UUID = "0102030405060708090a0b0c0d0e0f10"
KAFKAS_COORDINATOR_BYTES = [
    # topic, key, value, what the value says
    ("__consumer_offsets", "0001 0002 6731 0002 7431 00000003", "0000 000000000000002a 0001 6d 0000018bcfe56800",
     {"offset": 42, "metadata": "m", "commit_timestamp": 1700000000000}),
    ("__consumer_offsets", "0001 0002 6731 0002 7431 00000003",
     "0001 000000000000002a 0001 6d 0000018bcfe56800 ffffffffffffffff", {"expire_timestamp": -1}),
    ("__consumer_offsets", "0001 0002 6731 0002 7431 00000003",
     "0003 000000000000002a 00000007 0001 6d 0000018bcfe56800", {"leader_epoch": 7}),
    ("__consumer_offsets", "0001 0002 6731 0002 7431 00000003",
     "0004 000000000000002a 00000007 02 6d 0000018bcfe56800 00", {"leader_epoch": 7, "metadata": "m"}),
    ("__consumer_offsets", "0002 0002 6731",
     ("0003 0008 636f6e73756d6572 00000001 0005 72616e6765 0002 6d31 0000018bcfe56800 00000001"
     "0002 6d31 ffff 0001 63 0002 2f68 000493e0 00002710 00000002 0102 00000001 03"), {"generation": 1}),
    ("__consumer_offsets", "0002 0002 6731",
     ("0004 09636f6e73756d6572 00000001 0672616e6765 036d31 0000018bcfe56800 02 036d31 00 0263 032f68"
     "000493e0 00002710 030102 0203 00 00"), {"leader": "m1"}),
    ("__consumer_offsets", "0002 0002 6731",
     "0003 0008 636f6e73756d6572 00000002 ffff ffff 0000018bcfe56800 00000000", {"protocol": None, "members": []}),
    ("__consumer_offsets", "0005 0002 6731 0001 6d",
     "0000 00 0272 0263 032f68 02037431 00 000493e0 00 01 00 10 01 0000afc8 02 06 72616e6765 02 01 00 00",
     {"rack_id": "r", "instance_id": None}),
    ("__consumer_offsets", "0008 0002 6731 0001 6d",
     f"0000 00000003 00000002 00 02 {UUID} 03 00000000 00000001 00 01 00", {"member_epoch": 3}),
    ("__transaction_state", "0000 0002 7478",
     ("0000 00000000000003e8 0001 0000ea60 01 00000001 0002 7431 00000002 00000000 00000002"
     "0000018bcfe56801 0000018bcfe56800"), {"producer_id": 1000, "transaction_status": 1}),
    ("__transaction_state", "0000 0002 7478",
     "0000 00000000000003e8 0000 0000ea60 00 ffffffff 0000018bcfe56801 ffffffffffffffff",
     {"transaction_partitions": None}),
    ("__share_group_state", f"0000 0002 6731 {UUID} 00000001",
     "0000 00000001 00000002 00000003 0000000000000004 0000000000000005 0000000000000006 01 00", {"start_offset": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "key", "value", "says"), KAFKAS_COORDINATOR_BYTES)
def test_bytes_that_kafkas_own_classes_made(topic: str, key: str, value: str, says: dict[str, Any]) -> None:
    raw = bytes.fromhex(key), bytes.fromhex(value)
    record = decode_record(topic, *raw)
    assert record.findings == ()
    assert record.value is not None
    assert says.items() <= record.value.fields.items()
    assert encode_record(record) == raw


KAFKAS_METADATA_BYTES = [
    (f"01 02 00 037431 {UUID} 00", "TopicRecord"),
    (f"01 03 00 00000000 {UUID} 03 00000001 00000002 03 00000001 00000002 01 01 00000001 00000000 00000000 00",
     "PartitionRecord"),
    ((f"01 03 01 00000000 {UUID} 03 00000001 00000002 03 00000001 00000002 01 01 00000001 00000000 00000000"
     f"03 {UUID} {UUID} 00"), "PartitionRecord"),
    (f"01 05 00 00000000 {UUID} 02 00 05 02 00000002 01 04 00000002", "PartitionChangeRecord"),
    ("01 04 00 02 037431 0d 726574656e74696f6e2e6d73 00 00", "ConfigRecord"),
    ("01 0c 00 11 6d657461646174612e76657273696f6e 0014 00", "FeatureLevelRecord"),
    ("01 14 00 00", "NoOpRecord"),
    ("01 11 00 00000001 0000000000000005 01 00 01 ff", "BrokerRegistrationChangeRecord"),
    ("01 0e 00 02 05 75736572 00 00 13 70726f64756365725f627974655f72617465 4090020000000000 00 00",
     "ClientQuotaRecord"),
    ((f"01 00 03 00000001 00 {UUID} 0000000000000005 02 0a 504c41494e54455854 02 68 2384 0000 00 01 00 01 00"
     f"01 00 11 02 {UUID}"), "RegisterBrokerRecord"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "name"), KAFKAS_METADATA_BYTES)
def test_metadata_bytes_that_kafkas_own_classes_made(data: str, name: str) -> None:
    record = decode_metadata(bytes.fromhex(data))
    assert (record.name, record.findings) == (name, ())
    assert encode_framed(record) == bytes.fromhex(data)


def test_remote_log_metadata_of_both_layouts() -> None:
    ids = f"037431 {UUID} 00000000 00 {UUID} 00"
    before = f"01 00 00 {ids} 0000000000000001 0000000000000002 00000001 0000000000000003 0000000000000004"
    epochs = "02 00000000 0000000000000008 00 000003e8"
    for custom, release in (("00", "3.6+"), ("", "3.0-3.5")):
        data = bytes.fromhex(f"{before} {epochs} {custom} 00 00")
        record = decode_remote_log_metadata(data)
        assert record.decoded is not None
        assert record.decoded.message.written_by == release
        assert record.decoded.fields["segment_size_in_bytes"] == 1000
        assert encode_framed(record) == data


def test_secrets_are_hidden_unless_asked_for() -> None:
    layout = cluster_metadata.VALUES[11][0]
    fields = {
        "name": "u",
        "mechanism": 1,
        "salt": b"salt",
        "stored_key": b"sk",
        "server_key": b"vk",
        "iterations": 4096,
    }
    record = FramedRecord(11, 0, None, decode(layout, 0, encode(layout, 0, fields)))
    hidden = framed_json(record)["data"]
    assert [hidden[name] for name in ("salt", "storedKey", "serverKey")] == ["[hidden]"] * 3
    assert framed_json(record, show_secrets=True)["data"]["salt"] == base64.b64encode(b"salt").decode()
    layout = cluster_metadata.VALUES[4][0]
    fields = {"resource_type": 4, "resource_name": "", "name": "ssl.keystore.password", "value": "pw"}
    assert (
        framed_json(FramedRecord(4, 0, None, decode(layout, 0, encode(layout, 0, fields))))["data"]["value"]
        == "[hidden]"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("remote_log_segment_id", 5), ("segment_leader_epochs", 3), ("custom_metadata", "text"),
        ("broker_id", 1 << 40), ("remote_log_segment_id", {"topic_id_partition": {"name": "\ud800"}}),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_field_is_a_format_error(field: str, value: object) -> None:
    with pytest.raises(FormatError, match="RemoteLogSegmentMetadataRecord version 0"):
        encode_remote_log_metadata("RemoteLogSegmentMetadataRecord", {field: value})


def test_what_is_not_known_is_kept_as_bytes_with_a_finding() -> None:
    key = bytes.fromhex("0001 0002 6731 0002 7431 00000003")
    for given_key, value, code in (
        (b"\x7f\xff\0\1g", b"x", FindingCode.RECORD_TYPE_UNKNOWN),
        (key, b"\0\x09rest", FindingCode.RECORD_VERSION_UNKNOWN),
        (key, b"", FindingCode.TYPED_RECORD_INVALID),
        (key, b"\0\3short", FindingCode.TYPED_RECORD_INVALID),
        (key + b"tail", None, FindingCode.TYPED_RECORD_TRAILING_BYTES),
        (None, None, FindingCode.TYPED_RECORD_INVALID),
    ):
        record = decode_record("__consumer_offsets", given_key, value)
        assert [found.code for found in record.findings] == [code]
        assert encode_record(record) == (given_key, value)
    for data, code in (
        (b"\1\x63\0", FindingCode.RECORD_TYPE_UNKNOWN),
        (b"\1\2\7", FindingCode.RECORD_VERSION_UNKNOWN),
        (b"\1\x14\0\0more", FindingCode.TYPED_RECORD_INVALID),
        (b"\0\2\0", FindingCode.TYPED_RECORD_INVALID),
        (b"\1", FindingCode.TYPED_RECORD_INVALID),
    ):
        metadata = decode_metadata(data)
        assert [found.code for found in metadata.findings] == [code]
        assert encode_framed(metadata) == data


def test_bytes_that_fit_two_releases_say_so() -> None:
    # an epoch, a hash and no tags; or, as 4.0 wrote it, an epoch and one unknown tag of six bytes
    value = bytes.fromhex("0000 00000001 01 00 06 000000000000")
    record = decode_record("__consumer_offsets", bytes.fromhex("000b 0001 67"), value)
    assert [found.code for found in record.findings] == [FindingCode.TYPED_RECORD_AMBIGUOUS]
    assert encode_record(record)[1] == value


def _layouts() -> list[tuple[Message, int]]:
    found: list[Message] = list(kraft_control.VALUES.values())
    for topic in TOPICS.values():
        found += [each for _, key, values in topic.values() for each in (key, *values)]
    for framed in (cluster_metadata.VALUES, remote_log_metadata.VALUES):
        found += [each for values in framed.values() for each in values]
    return [(each, version) for each in found for version in each.versions]


_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda raw: base64.urlsafe_b64encode(raw).rstrip(b"=").decode()),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
    **{f"int{bits}": st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    "uint16": st.integers(0, 0xFFFF),
}


def _values(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({each.name: _value(each, version) for each in fields if each.in_version(version)})


def _value(field: Field, version: int) -> st.SearchStrategy[Any]:
    one = _values(field.fields, version) if field.type == "struct" else _SCALARS[field.type]
    found: st.SearchStrategy[Any] = st.lists(one, max_size=2) if field.array else one
    return st.none() | found if field.nullable else found


@pytest.mark.parametrize(("layout", "version"), _layouts(), ids=lambda value: getattr(value, "name", value))
@examples(15)
@given(st.data())
def test_every_layout_reads_what_it_writes_and_survives_every_cut(
    layout: Message, version: int, data: st.DataObject
) -> None:
    fields = data.draw(_values(layout.fields, version))
    encoded = encode(layout, version, fields)
    decoded = decode(layout, version, encoded)
    assert (decoded.fields, decoded.size) == (fields, len(encoded))
    cut = data.draw(st.integers(0, len(encoded)))
    with contextlib.suppress(FormatError):
        assert decode(layout, version, encoded[:cut]).size <= cut


@given(st.sampled_from(sorted(TOPICS)), st.integers(-1, 30), st.binary(max_size=60), st.binary(max_size=60) | st.none())
def test_random_bytes_never_raise(topic: str, kind: int, key: bytes, value: bytes | None) -> None:
    raw = kind.to_bytes(2, "big", signed=True) + key
    record = decode_record(topic, raw, value)
    assert record.understood or record.findings
    coordinator_json(record)
    framed = decode_metadata(bytes([1, kind & 31, 0]) + key)
    assert framed.decoded is not None or framed.findings
    framed_json(framed)
