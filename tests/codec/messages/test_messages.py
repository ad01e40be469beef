"""Messages of Kafka's schemas: how a schema is read, in which order its bytes are, and what is there at all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from construct import Construct

from kafkalog.codec.layout.primitives import LayoutError
from kafkalog.codec.messages import leaves
from kafkalog.codec.messages.control import CONTROL_SCHEMAS, control_layout
from kafkalog.codec.messages.field import NO_DEFAULT, NO_VERSION
from kafkalog.codec.messages.message import UNKNOWN_TAGS, Message, MessageStruct
from kafkalog.codec.messages.published import layouts, record_types
from kafkalog.codec.messages.schema import message_of, parse_schema, snake_case, versions_of

TOPICS = (
    "__cluster_metadata", "__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata",
)  # fmt: skip


def message(fields: str, versions: str = "0-2", flexible: str = "1+", common: str = "[]") -> Message:
    head = f'"name": "M", "validVersions": "{versions}", "flexibleVersions": "{flexible}"'
    return message_of(parse_schema(f'{{ {head}, "fields": [{fields}], "commonStructs": {common} }}'))


def written(layout: Message, version: int, values: dict[str, Any]) -> str:
    data: bytes = layout.construct(version).build(values)
    assert layout.construct(version).parse(data) == values
    return data.hex()


def test_comments_are_left_out_and_what_looks_like_one_in_a_text_is_not() -> None:
    text = '// head\n{ "a": "x // y", /* and\nmore */ "b": "\\"//" } // tail\n ]'
    assert parse_schema(text) == {"a": "x // y", "b": '"//'}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0", range(1)), ("1-3", range(1, 4)), ("2+", range(2, 1 << 15)), ("none", NO_VERSION), (None, NO_VERSION)],
)
def test_versions(text: str | None, wanted: range) -> None:
    assert versions_of(text) == wanted


@pytest.mark.parametrize("text", ["", "1-", "1-3+", "+"])
def test_versions_of_another_form(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        versions_of(text)


def test_names_are_kafkas_in_snake_case() -> None:
    names = ["LeaderEpoch", "commitTimestamp", "KRaftVersionFeature", "SessionTimeoutMs", "id", "BaseOffsetV2"]
    assert [snake_case(name) for name in names] == [
        "leader_epoch", "commit_timestamp", "k_raft_version_feature", "session_timeout_ms", "id", "base_offset_v2",
    ]  # fmt: skip


def test_a_field_is_classic_then_flexible_and_then_tagged() -> None:
    layout = message(
        '{"name": "A", "type": "string", "versions": "0+", "taggedVersions": "2+", "tag": 0},'
        '{"name": "B", "type": "[]int8", "versions": "0+", "nullableVersions": "1+"}'
    )
    assert written(layout, 0, {"a": "x", "b": [7]}) == "0001 78 00000001 07".replace(" ", "")
    assert written(layout, 1, {"a": "x", "b": None}) == "0278 00 00".replace(" ", "")
    assert written(layout, 2, {"b": [7], "a": "x"}) == "0207 01 00 02 0278".replace(" ", "")
    assert written(layout, 2, {"b": [7], "a": ""}) == "0207 00".replace(" ", "")
    with pytest.raises(LayoutError):
        layout.construct(0).build({"a": "x", "b": None})


def test_a_field_of_classic_lengths_in_a_flexible_message() -> None:
    layout = message('{"name": "A", "type": "string", "versions": "0+", "flexibleVersions": "none"}')
    assert written(layout, 1, {"a": "x"}) == "00017800"


def test_structs_that_are_declared_once_and_used_twice() -> None:
    layout = message(
        '{"name": "A", "type": "Pair", "versions": "0+"},{"name": "B", "type": "[]Pair", "versions": "1+"}',
        common='[{"name": "Pair", "versions": "0+", "fields": ['
        '{"name": "L", "type": "int8", "versions": "0+"}, {"name": "R", "type": "int8", "versions": "1+"}]}]',
    )
    assert written(layout, 0, {"a": {"l": 1}}) == "01"
    assert written(layout, 1, {"a": {"l": 1, "r": 2}, "b": [{"l": 3, "r": 4}]}) == "010200" + "02" + "030400" + "00"


def test_defaults_are_texts_or_values_and_only_the_text_null_is_null() -> None:
    given = [
        ("int32", '"-1"'), ("int32", '"0x7f"'), ("int64", "-2"), ("bool", '"true"'), ("bool", "false"),
        ("string", '"null"'), ("string", "null"), ("[]int8", '"null"'), ("[]int8", "null"), ("float64", '"0.5"'),
    ]  # fmt: skip
    fields = [
        f'{{"name": "F{number}", "type": "{kind}", "versions": "0+", "nullableVersions": "0+", "default": {default}}}'
        for number, (kind, default) in enumerate(given)
    ]
    layout = message(",".join(fields))
    assert [field.default(0) for field in layout.fields] == [-1, 127, -2, True, False, None, "", None, [], 0.5]
    assert layout.fields[8].explicit_default is NO_DEFAULT


def test_a_schema_with_a_type_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="of type varint, which is unknown"):
        message('{"name": "A", "type": "varint", "versions": "0+"}')
    with pytest.raises(ValueError, match="a default"):
        message('{"name": "A", "type": "[]int8", "versions": "0+", "default": "5"}')


def test_unknown_tags_are_kept_as_they_came() -> None:
    construct = control_layout(next(iter(CONTROL_SCHEMAS))).construct(0)
    data = bytes.fromhex("0000 00000001 01 01 03 05 01 aa 02 00 05 01 bb")
    values = construct.parse(data)
    assert values[UNKNOWN_TAGS] == ((5, b"\xaa"), (2, b""), (5, b"\xbb"))
    assert construct.build(values) == data


def every_layout() -> Iterator[Message]:
    for topic in TOPICS:
        for name in record_types(topic).values():
            for each in (f"{name}Key", f"{name}Value") if not name.endswith("Record") else (name,):
                yield from layouts(each)
    for kind in CONTROL_SCHEMAS:
        yield control_layout(kind)


def inside(construct: Construct) -> Iterator[Construct]:
    yield construct
    if isinstance(construct, MessageStruct):
        for _, kind in (*construct.ordinary, *construct.tagged.values()):
            yield from inside(kind)
    elif isinstance(construct, leaves.Array):
        yield from inside(construct.element)
    elif isinstance(construct, leaves.Optional):
        yield from inside(construct.struct)


def test_every_layout_is_made_of_leaves_that_know_their_bounds() -> None:
    kinds = {
        type(part)
        for layout in every_layout()
        for version in layout.versions
        for part in inside(layout.construct(version))
    }
    scalars = {type(scalar) for scalar in leaves.SCALARS.values()}
    assert kinds <= {MessageStruct, leaves.Array, leaves.Optional, leaves.Text, leaves.Bytes, *scalars}
    assert kinds > {MessageStruct, leaves.Array, leaves.Optional, leaves.Text, leaves.Bytes}


def test_a_schema_is_read_when_its_type_is_met() -> None:
    program = """if True:
        import kafkalog.cluster.records.record_json
        from kafkalog.cluster.records.framed_records import decode_metadata
        from kafkalog.codec.messages import published
        opened = []
        read = published._read
        published._read = lambda file: opened.append(file) or read(file)
        assert decode_metadata(bytes.fromhex("01140000")).name == "NoOpRecord"
        assert decode_metadata(bytes.fromhex("01140000")).name == "NoOpRecord"
        assert decode_metadata(bytes.fromhex("01630000")).name == "UNKNOWN"
        print(*opened)
    """
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert sorted(answer.stdout.split()) == ["NoOpRecord.json", "additions.json", "index.json"]
