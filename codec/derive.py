"""Derive other forms of a layout from its declaration in `codec.layout`: a struct, column dtype, opcodes, and a
documentation table. Anything that cannot be derived exactly raises `DerivationError` at import; there is no fallback.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from construct import Bytes, BytesInteger, Const, Construct, FormatField, Int24ul, Renamed, Struct

from kafkalog.codec.layout import primitives
from kafkalog.codec.layout.bits import Bits
from kafkalog.codec.layout.text_values import TextLeaf

if TYPE_CHECKING:
    import numpy

__all__ = [
    "DerivationError",
    "DocRow",
    "Field",
    "FixedLayout",
    "OpKind",
    "Opcode",
    "bit_range",
    "documentation",
    "element_of",
    "fields_of",
    "fixed",
    "names_of",
    "opcodes",
    "type_name",
]


class DerivationError(TypeError):
    """A declaration has something that the derived form cannot express exactly."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a fixed layout. `position` is in bytes from the start of the structure, `size` in bytes, and
    `format` is a `struct` code without byte order.
    """

    name: str
    format: str
    position: int
    size: int
    doc: str


class FixedLayout(msgspec.Struct, frozen=True):
    """Layout in which every field has a fixed size: a `struct` of one byte order, and its fields in order."""

    struct: struct.Struct
    fields: tuple[Field, ...]

    @property
    def order(self) -> str:
        """Byte order in the notation of `struct`: `>` big-endian, `<` little-endian."""
        return self.struct.format[0]

    @property
    def size(self) -> int:
        """Size of one structure in bytes."""
        return self.struct.size

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in order."""
        return tuple(field.name for field in self.fields)

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def position(self, name: str) -> int:
        """Return the position of a field in bytes from the start of the structure. Raises KeyError for an unknown
        field.
        """
        return self[name].position

    def end(self, name: str) -> int:
        """Return the position after a field, in bytes from the start of the structure. Raises KeyError for an unknown
        field.
        """
        field = self[name]
        return field.position + field.size

    def reader(self, name: str) -> Callable[[Any, int], int]:
        """Return a function (buffer, position of the structure) -> value that reads field `name`. Raises `KeyError` for
        an unknown field; the function raises `struct.error` if the buffer is too short.
        """
        field = self[name]
        unpack_from = struct.Struct(self.order + field.format).unpack_from
        offset = field.position

        def read(buffer: Any, start: int) -> int:
            value: int = unpack_from(buffer, start + offset)[0]
            return value

        return read

    def writer(self, name: str) -> Callable[[bytearray, int, int], None]:
        """Return a function (buffer, position of the structure, value) that overwrites field `name` in the buffer.
        Raises `KeyError` for an unknown field; the function raises `struct.error` if the value does not fit the field
        or the buffer is too short.
        """
        field = self[name]
        pack_into = struct.Struct(self.order + field.format).pack_into
        offset = field.position

        def write(buffer: bytearray, start: int, value: int) -> None:
            pack_into(buffer, start + offset, value)

        return write

    def dtype(self) -> numpy.dtype[Any]:
        """Return the layout as a numpy structured type without padding."""
        import numpy as np

        return np.dtype([(field.name, np.dtype(self.order + field.format)) for field in self.fields])


def _named(tree: Construct) -> list[tuple[str, str, Construct]]:
    if not isinstance(tree, Struct):
        raise DerivationError(f"a Struct is needed, not {tree!r}")
    fields: list[tuple[str, str, Construct]] = []
    for subcon in tree.subcons:
        if not isinstance(subcon, Renamed) or not subcon.name:
            raise DerivationError(f"every field needs a name: {subcon!r}")
        inner: Construct = subcon
        while isinstance(inner, Renamed):
            inner = inner.subcon
        fields.append((subcon.name, subcon.docs or "", inner))
    return fields


def _below(leaf: Construct) -> Construct:
    """Return the construct that reads a leaf. For named bits or a constant it is the construct of the number inside;
    otherwise it is the leaf itself.
    """
    return leaf.subcon if isinstance(leaf, Bits | Const) else leaf


_FOUR_BYTES = str.maketrans("lL", "iI")
"""Construct's code for 32 bits is `l`: 4 bytes to `struct` after `>`, but 8 to numpy."""


def fixed(tree: Construct, names: Sequence[str], order: str = ">") -> FixedLayout:
    """Derive the struct of a layout whose fields are all numbers of fixed size and one byte order (`order`: ">" or
    "<"). `names` must be the declared fields in their order. Raises `DerivationError` if the declaration has other
    fields, another order, or a field of another kind.
    """
    fields: list[Field] = []
    position = 0
    for name, doc, named in _named(tree):
        leaf = _below(named)
        if type(leaf) is not FormatField or (leaf.length > 1 and leaf.fmtstr[0] != order):
            raise DerivationError(f"field {name} is not a fixed-size number of byte order {order}: {leaf!r}")
        fields.append(
            Field(
                name=name, format=leaf.fmtstr[1:].translate(_FOUR_BYTES), position=position, size=leaf.length, doc=doc
            )
        )
        position += leaf.length
    declared = tuple(field.name for field in fields)
    if declared != tuple(names):
        raise DerivationError(f"{', '.join(names)} are read where {', '.join(declared)} are declared")
    layout = struct.Struct(order + "".join(field.format for field in fields))
    if layout.size != position:
        raise DerivationError("the derived struct has padding")
    return FixedLayout(layout, tuple(fields))


class OpKind(enum.IntEnum):
    """Type of the value that one step of a variable layout reads."""

    INT8 = 0
    VARINT = 1
    VARLONG = 2
    BYTES = 3
    """varint length, bytes; negative is null"""
    STRING = 4
    """varint length, bytes; negative is an error"""
    ARRAY = 5
    """varint count, then that many times `children`"""
    INT32_BYTES = 6
    """int32 length, bytes; negative is null"""


class Opcode(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a variable layout. `children` are the steps of an array's element, and `smallest` is that element's
    least size in bytes.
    """

    kind: OpKind
    name: str
    children: tuple[Opcode, ...] = ()
    smallest: int = 0


_LEAVES: dict[int, OpKind] = {
    id(primitives.Varint): OpKind.VARINT,
    id(primitives.Varlong): OpKind.VARLONG,
    id(primitives.VarintBytes): OpKind.BYTES,
    id(primitives.VarintString): OpKind.STRING,
    id(primitives.Int32Bytes): OpKind.INT32_BYTES,
}


def opcodes(tree: Construct) -> tuple[Opcode, ...]:
    """Derive the decoding steps of a layout with fields of variable length, one opcode for each field in order. An
    array's opcode contains those of its element. Raises `DerivationError` for a field that is not an int8, one of the
    variable-length types of `layout.primitives`, or an array with a varint count.
    """
    steps: list[Opcode] = []
    for name, _doc, named in _named(tree):
        leaf = _below(named)
        if type(leaf) is FormatField and leaf.fmtstr == ">b":
            steps.append(Opcode(kind=OpKind.INT8, name=name))
        elif id(leaf) in _LEAVES:
            steps.append(Opcode(kind=_LEAVES[id(leaf)], name=name))
        elif type(leaf) is primitives.VarintArray:
            steps.append(Opcode(kind=OpKind.ARRAY, name=name, children=opcodes(leaf.element), smallest=leaf.smallest))
        else:
            raise DerivationError(f"field {name} has no opcode: {leaf!r}")
    return tuple(steps)


class DocRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a format page. `position` is in bytes from the start; None after a field of variable size."""

    position: int | None
    name: str
    type: str
    doc: str


_TYPE_NAMES = {
    ">B": "uint8", "<H": "uint16, little-endian", "<L": "uint32, little-endian", "<Q": "uint64, little-endian",
    ">b": "int8", ">h": "int16", ">H": "uint16", ">l": "int32", ">L": "uint32", ">q": "int64", ">Q": "uint64",
}  # fmt: skip
_LEAF_NAMES = {
    id(primitives.Varint): "varint",
    id(primitives.Varlong): "varlong",
    id(primitives.UnsignedVarint): "unsigned varint",
    id(primitives.VarintBytes): "varint length, bytes or null",
    id(primitives.VarintString): "varint length, bytes",
    id(primitives.Int32Bytes): "int32 length, bytes or null",
}


def names_of(tree: Construct) -> tuple[str, ...]:
    """Return the names of a declared structure's fields, in order. Raises `DerivationError` if a field has no name."""
    return tuple(name for name, _doc, _leaf in _named(tree))


def fields_of(tree: Construct) -> list[tuple[str, str, Construct]]:
    """Return name, description ("" if none) and leaf or inner structure of each field, in order. Raises
    `DerivationError` if a field has no name.
    """
    return _named(tree)


def element_of(leaf: Construct) -> Construct | None:
    """Return the element of a `VarintArray`; None for any other leaf."""
    return leaf.element if isinstance(leaf, primitives.VarintArray) else None


def type_name(leaf: Construct) -> str:
    """Return a field's type in words, for a documentation page. Raises `DerivationError` for a type without such
    words.
    """
    leaf = _below(leaf)
    if isinstance(leaf, TextLeaf):
        return leaf.kind
    if type(leaf) is Bytes:
        return f"{leaf.sizeof()} bytes"
    if type(leaf) is FormatField and leaf.fmtstr in _TYPE_NAMES:
        return _TYPE_NAMES[leaf.fmtstr]
    if leaf is Int24ul:
        return "uint24, little-endian"
    if isinstance(leaf, primitives.VarintArray):
        return "varint count, array"
    if id(leaf) in _LEAF_NAMES:
        return _LEAF_NAMES[id(leaf)]
    raise DerivationError(f"a page cannot name {leaf!r}")


def _size(leaf: Construct) -> int | None:
    return leaf.sizeof() if type(_below(leaf)) in (FormatField, Bytes, BytesInteger) else None


def _bit_rows(bits: Bits, path: str, position: int | None) -> list[DocRow]:
    return [
        DocRow(position=position, name=f"{path}.{bit.name}", type=bit_range(bit.lowest, bit.width), doc=bit.doc)
        for bit in bits.bits
    ]


def bit_range(lowest: int, width: int) -> str:
    """Return the text `bit 3` or `bits 0-2`; bit 0 is the lowest."""
    return f"bit {lowest}" if width == 1 else f"bits {lowest}-{lowest + width - 1}"


def documentation(tree: Construct, prefix: str = "", position: int | None = 0) -> list[DocRow]:
    """Return the rows of a format page for the fields of `tree` in order. `prefix` is put before every name. A
    structure has no row; its fields appear as `name.field`. After the row of an array come its element's fields, as
    `name[].field`. After the row of a bit field comes one row for each named bit. `position` is the byte position of
    the first field. A row has the position None inside an array, and after a structure or a field of variable size.
    Raises `DerivationError` for a type without words.
    """
    rows: list[DocRow] = []
    for name, doc, leaf in _named(tree):
        path = prefix + name
        if isinstance(leaf, Struct):
            rows += documentation(leaf, path + ".", position)
            position = None
            continue
        rows.append(DocRow(position=position, name=path, type=type_name(leaf), doc=doc))
        rows += _bit_rows(leaf, path, position) if isinstance(leaf, Bits) else []
        size = _size(leaf)
        position = None if position is None or size is None else position + size
        element = element_of(leaf)
        if element is not None:
            rows += documentation(element, path + "[].", None)
    return rows
