"""The declarations themselves: nothing in them can read without end, and what is derived from them agrees."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import construct
import numpy as np
import pytest
from construct import (
    Array,
    BytesInteger,
    Const,
    Construct,
    FormatField,
    GreedyRange,
    Int8sb,
    Int16sl,
    Int32sb,
    Pickled,
    Renamed,
    RepeatUntil,
    Struct,
    VarInt,
    ZigZag,
)

from kafkalog.codec import derive, layout, model
from kafkalog.codec.derive import DerivationError, OpKind
from kafkalog.codec.layout import primitives, record_batch
from kafkalog.codec.layout.attributes import ATTRIBUTES_V0, ATTRIBUTES_V1, ATTRIBUTES_V2
from kafkalog.codec.layout.bits import UNNAMED, Bit, Bits
from kafkalog.codec.parsing.reference import parse
from kafkalog.codec.plain.decoding import PLAIN

REFUSED = tuple(
    kind if isinstance(kind, type) else type(kind)
    for kind in (
        Array,
        GreedyRange,
        RepeatUntil,
        Pickled,
        BytesInteger,
        VarInt,
        ZigZag,
        construct.Compressed,
        construct.GreedyBytes,
        construct.Lazy,
        construct.LazyStruct,
        construct.LazyArray,
        construct.Compiled,
    )
)


def children(tree: Construct) -> Iterator[Construct]:
    """Every construct that an attribute of this one holds, alone or in a list."""
    for value in vars(tree).values():
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Construct):
                yield item


def walk(tree: Construct) -> Iterator[Construct]:
    yield tree
    for child in children(tree):
        yield from walk(child)


def refused(tree: Construct) -> list[Construct]:
    return [node for node in walk(tree) if isinstance(node, REFUSED) and node is not construct.Int24ul]


def modules() -> list[str]:
    return [f"{layout.__name__}.{found.name}" for found in pkgutil.iter_modules(layout.__path__)]


def declarations() -> list[tuple[str, Construct]]:
    found = []
    for name in modules():
        module = importlib.import_module(name)
        found += [(f"{name.rpartition('.')[2]}.{key}", value) for key, value in vars(module).items()
                  if isinstance(value, Construct) and key in module.__all__]  # fmt: skip
    return found


def test_there_are_declarations() -> None:
    names = {name for name, _ in declarations()}
    assert {"record_batch.BATCH_HEADER", "record_batch.RECORD", "offset_index.OFFSET_INDEX_ENTRY"} <= names
    assert len(names) > 12


@pytest.mark.parametrize(("name", "tree"), declarations(), ids=[name for name, _ in declarations()])
def test_no_declaration_can_read_without_end(name: str, tree: Construct) -> None:
    assert refused(tree) == []


@pytest.mark.parametrize(
    "tree",
    [
        Struct("a" / VarInt),
        Struct("a" / Struct("b" / GreedyRange(Int8sb))),
        Struct("a" / Array(construct.this.n, Int8sb)),
        RepeatUntil(lambda x, *_: x == 0, Int8sb),
        Struct("a" / construct.GreedyBytes),
        primitives.VarintArray(Struct("x" / ZigZag), smallest=1),
        Struct("a" / Int32sb).compile(),
    ],
)
def test_the_walk_finds_what_it_must_refuse(tree: Construct) -> None:
    assert refused(tree)


@pytest.mark.parametrize("name", [*modules(), "kafkalog.codec.parsing.reference", "kafkalog.codec.derive"])
def test_nothing_is_compiled(name: str) -> None:
    assert ".compile(" not in inspect.getsource(importlib.import_module(name)).replace("re.compile(", "")


@pytest.mark.parametrize(("name", "tree"), declarations(), ids=[name for name, _ in declarations()])
def test_every_field_has_a_name_and_the_common_ones_a_text(name: str, tree: Construct) -> None:
    if isinstance(tree, Struct):
        assert all(isinstance(field, Renamed) and field.name for field in tree.subcons)


# --- what is derived -------------------------------------------------------------------------------------------------


def leaf(field: Construct) -> Construct:
    while isinstance(field, Renamed | Bits | Const):
        field = field.subcon
    return field


def bits(field: Construct) -> Bits | None:
    while isinstance(field, Renamed):
        field = field.subcon
    return field if isinstance(field, Bits) else None


def number(tree: Struct, name: str, value: object) -> object:
    """A parsed value as the number that is in the bytes."""
    (field,) = (field for field in tree.subcons if field.name == name)
    named = bits(field)
    return value if named is None else named.number(value)  # type: ignore[arg-type]


def order_of(tree: Struct) -> str:
    orders = {leaf(field).fmtstr[0] for field in tree.subcons if leaf(field).length > 1}
    assert len(orders) <= 1
    return orders.pop() if orders else ">"


def with_constants(tree: Struct, data: bytes) -> bytes:
    """The bytes with the declared constants in their places."""
    position = 0
    for field in tree.subcons:
        inner = field
        while isinstance(inner, Renamed):
            inner = inner.subcon
        if isinstance(inner, Const):
            data = data[:position] + inner.build(None) + data[position + inner.sizeof() :]
        position += inner.sizeof()
    return data


FIXED = [
    (name, tree)
    for name, tree in declarations()
    if isinstance(tree, Struct) and all(type(leaf(field)) is FormatField for field in tree.subcons)
]


def test_the_header_of_a_batch_is_61_bytes() -> None:
    assert model.BATCH.size == 61
    assert model.BATCH.end("magic") == model.LOG_OVERHEAD.size + 4 + 1
    assert (model.MESSAGE_V0.size, model.MESSAGE_V1.size) == (18, 26)


@pytest.mark.parametrize(("name", "tree"), FIXED, ids=[name for name, _ in FIXED])
def test_struct_dtype_and_construct_read_the_same(name: str, tree: Construct) -> None:
    fixed = derive.fixed(tree, derive.names_of(tree), order_of(tree))
    assert fixed.size == tree.sizeof() == fixed.dtype().itemsize
    for seed in range(50):
        data = with_constants(tree, np.random.default_rng(seed).bytes(fixed.size))
        parsed = tree.parse(data)
        assert tree.build(parsed) == data
        wanted = [number(tree, field, parsed[field]) for field in fixed.names]
        assert list(fixed.struct.unpack(data)) == wanted
        assert [int(value) for value in np.frombuffer(data, fixed.dtype())[0]] == wanted
        assert [fixed.reader(field)(b"x" + data, 1) for field in fixed.names] == wanted
        assert tree.build(dict(zip(fixed.names, wanted, strict=True))) == data


@pytest.mark.parametrize("bits", [ATTRIBUTES_V0, ATTRIBUTES_V1, ATTRIBUTES_V2], ids=["v0", "v1", "v2"])
def test_every_number_of_attributes_survives_its_names(bits: Bits) -> None:
    size = bits.sizeof()
    for value in range(1 << 8 * size):
        data = value.to_bytes(size, "big")
        assert bits.build(bits.parse(data)) == data


def test_bits_have_the_places_that_kafka_gives_them() -> None:
    # DefaultRecordBatch: COMPRESSION_CODEC_MASK 7, TIMESTAMP_TYPE_MASK 8, TRANSACTIONAL_FLAG_MASK 16,
    # CONTROL_FLAG_MASK 32, DELETE_HORIZON_FLAG_MASK 64
    wanted = {"codec": 7, "timestamp_type": 8, "is_transactional": 16, "is_control": 32, "has_delete_horizon": 64}
    assert {bit.name: bit.mask for bit in ATTRIBUTES_V2.bits} == wanted
    assert (model.CODEC_MASK, model.TIMESTAMP_TYPE_FLAG, model.TRANSACTIONAL_FLAG) == (7, 8, 16)
    assert (model.CONTROL_FLAG, model.DELETE_HORIZON_FLAG) == (32, 64)


def test_bits_that_do_not_fit_are_refused() -> None:
    bits = Bits(Int8sb, Bit("low", 0, 2, "two bits"))
    assert bits.parse(b"\x87") == {"low": 3, UNNAMED: 0x84}
    for wrong in ({"low": 4}, {"low": -1}, {"nothing": 1}, {UNNAMED: 3}, {UNNAMED: 256}, {"low": None}, "low"):
        with pytest.raises(construct.ConstructError):
            bits.build(wrong)


def test_positions_follow_each_other() -> None:
    position = 0
    for field in model.BATCH.fields:
        assert model.BATCH.position(field.name) == field.position == position
        assert field.doc
        position = model.BATCH.end(field.name)
    assert position == model.BATCH.size


def test_an_unknown_field_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        model.BATCH.position("nothing")


@pytest.mark.parametrize(
    "tree",
    [
        Int32sb,
        Struct("a" / Int16sl),
        Struct("a" / primitives.Varint),
        Struct("a" / construct.Bytes(3)),
        Struct("a" / construct.Padded(4, Int8sb)),
        Struct(Int32sb),
        Struct("a" / Struct("b" / Int8sb)),
    ],
)
def test_what_is_not_fixed_is_refused(tree: Construct) -> None:
    with pytest.raises(DerivationError):
        derive.fixed(tree, ("a",))


@pytest.mark.parametrize(
    "tree",
    [Struct("a" / Int32sb), Struct("a" / VarInt), Struct("a" / primitives.UnsignedVarint), Struct(primitives.Varint)],
)
def test_what_has_no_opcode_is_refused(tree: Construct) -> None:
    with pytest.raises(DerivationError):
        derive.opcodes(tree)


@pytest.mark.parametrize("leaf", [Int16sl, VarInt])
def test_a_type_without_words_is_refused(leaf: Construct) -> None:
    with pytest.raises(DerivationError):
        derive.type_name(leaf)


def test_opcodes_of_a_record() -> None:
    steps = derive.opcodes(record_batch.RECORD)
    assert [(step.kind, step.name) for step in steps] == [
        (OpKind.VARINT, "length"),
        (OpKind.INT8, "attributes"),
        (OpKind.VARLONG, "timestamp_delta"),
        (OpKind.VARINT, "offset_delta"),
        (OpKind.BYTES, "key"),
        (OpKind.BYTES, "value"),
        (OpKind.ARRAY, "headers"),
    ]
    assert [(step.kind, step.name) for step in steps[-1].children] == [(OpKind.STRING, "key"), (OpKind.BYTES, "value")]
    assert steps[-1].smallest == 2


def test_the_declared_smallest_element_is_the_smallest_there_is() -> None:
    empty_header = {"key": b"", "value": None}
    assert len(record_batch.RECORD_HEADER.build(empty_header)) == derive.opcodes(record_batch.RECORD)[-1].smallest


def test_header_values_are_fields_of_the_declaration() -> None:
    assert tuple(model.BatchHeader.__struct_fields__) == model.BATCH.names
    legacy = set(model.LegacyHeader.__struct_fields__)
    assert legacy.difference(model.MESSAGE_V1.names) == {"batch_length"}  # "size" on disk
    assert PLAIN.batch_header(bytes(61), 0) == model.BatchHeader(*[0] * 13)


def test_parse_reports_position_and_field() -> None:
    from kafkalog.codec.common.errors import FormatError

    data = struct.pack(">b", 0) + b"\x00\x00\x01\x0av"
    with pytest.raises(FormatError) as caught:
        parse(record_batch.RECORD, b"\x0e" + data, source="somewhere")
    assert caught.value.position == 5
    assert caught.value.field is not None
    assert "value" in caught.value.field
    assert caught.value.source == "somewhere"


HAND_WRITTEN = re.compile(r"""\bStruct\(["'][<>=!@]|\bstruct\.(?:un)?pack(?:_from|_into)?\(["']|\biter_unpack\(["']""")
DECLARING = {"derive.py", "messages"}
"""what turns declarations into formats, and the leaves of Kafka's published schemas"""


def test_no_module_of_the_codec_writes_a_format_by_hand() -> None:
    """Every layout is declared once, and readers and writers follow from the declaration: docs/architecture.md."""
    root = Path(inspect.getfile(derive)).parent
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in DECLARING
        for line in path.read_text(encoding="utf-8").splitlines()
        if HAND_WRITTEN.search(line)
    ]
    assert found == []
    assert HAND_WRITTEN.search('_LENGTH = struct.Struct(">i")')
