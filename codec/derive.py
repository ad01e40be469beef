"""From a declaration to everything else that knows the layout: struct, column dtype, opcodes, documentation table.

A declaration is a Construct tree in `codec.layout`.  What cannot be derived exactly raises at import; there is no
silent fallback to a slower or laxer reading.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from construct import Construct, FormatField, Renamed, Struct

from kafkalog.codec.layout import primitives

if TYPE_CHECKING:
    import numpy

__all__ = [
    "DerivationError",
    "DocRow",
    "Field",
    "FixedLayout",
    "OpKind",
    "Opcode",
    "documentation",
    "element_of",
    "fields_of",
    "fixed",
    "opcodes",
]


class DerivationError(TypeError):
    """A declaration holds something that has no exact counterpart in the derived form."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a fixed layout: where it lies and how it is read."""

    name: str
    format: str
    position: int
    size: int
    doc: str


@dataclass(frozen=True, slots=True)
class FixedLayout:
    """A layout in which every field has a fixed size: one big-endian `struct` and its fields in order."""

    struct: struct.Struct
    fields: tuple[Field, ...]

    @property
    def size(self) -> int:
        """Size of one structure, in bytes."""
        return self.struct.size

    @property
    def names(self) -> tuple[str, ...]:
        """Field names in order."""
        return tuple(field.name for field in self.fields)

    def __getitem__(self, name: str) -> Field:
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def position(self, name: str) -> int:
        """Byte position of a field from the start of the structure."""
        return self[name].position

    def end(self, name: str) -> int:
        """Byte position after a field."""
        field = self[name]
        return field.position + field.size

    def reader(self, name: str) -> Callable[[Any, int], int]:
        """A function (buffer, start of structure) -> value that reads this one field."""
        field = self[name]
        unpack_from = struct.Struct(">" + field.format).unpack_from
        offset = field.position

        def read(buffer: Any, start: int) -> int:
            value: int = unpack_from(buffer, start + offset)[0]
            return value

        return read

    def dtype(self) -> numpy.dtype[Any]:
        """The same layout as a packed numpy structured type, for many structures as columns."""
        import numpy as np

        return np.dtype([(field.name, np.dtype(">" + field.format)) for field in self.fields])


def _named(tree: Construct) -> list[tuple[str, str, Construct]]:
    if not isinstance(tree, Struct):
        raise DerivationError(f"a Struct is needed, not {tree!r}")
    found: list[tuple[str, str, Construct]] = []
    for subcon in tree.subcons:
        if not isinstance(subcon, Renamed) or not subcon.name:
            raise DerivationError(f"every field needs a name: {subcon!r}")
        inner: Construct = subcon
        while isinstance(inner, Renamed):
            inner = inner.subcon
        found.append((subcon.name, subcon.docs or "", inner))
    return found


_FOUR_BYTES = str.maketrans("lL", "iI")
"""Construct writes 32 bits as `l`, which `struct` reads as 4 bytes after `>`, but numpy as 8."""


def fixed(tree: Construct) -> FixedLayout:
    """Derive a layout whose fields are all fixed-size big-endian numbers; anything else raises."""
    fields: list[Field] = []
    position = 0
    for name, doc, leaf in _named(tree):
        if type(leaf) is not FormatField or not leaf.fmtstr.startswith(">"):
            raise DerivationError(f"field {name} is not a fixed-size big-endian number: {leaf!r}")
        fields.append(Field(name, leaf.fmtstr[1:].translate(_FOUR_BYTES), position, leaf.length, doc))
        position += leaf.length
    layout = struct.Struct(">" + "".join(field.format for field in fields))
    if layout.size != position:
        raise DerivationError("the derived struct has padding")
    return FixedLayout(layout, tuple(fields))


class OpKind(enum.IntEnum):
    """What one step of a variable layout reads."""

    INT8 = 0
    VARINT = 1
    VARLONG = 2
    BYTES = 3
    """varint length, bytes; negative is null"""
    STRING = 4
    """varint length, bytes; negative is an error"""
    ARRAY = 5
    """varint count, then that many times `children`"""


@dataclass(frozen=True, slots=True)
class Opcode:
    """One step: what to read, under which name; for an array also the element's steps and smallest size."""

    kind: OpKind
    name: str
    children: tuple[Opcode, ...] = ()
    smallest: int = 0


_LEAVES: dict[int, OpKind] = {
    id(primitives.Varint): OpKind.VARINT,
    id(primitives.Varlong): OpKind.VARLONG,
    id(primitives.VarintBytes): OpKind.BYTES,
    id(primitives.VarintString): OpKind.STRING,
}


def opcodes(tree: Construct) -> tuple[Opcode, ...]:
    """Derive the steps of a layout with variable-length fields; accepts exactly our own leaves and int8."""
    steps: list[Opcode] = []
    for name, _doc, leaf in _named(tree):
        if type(leaf) is FormatField and leaf.fmtstr == ">b":
            steps.append(Opcode(OpKind.INT8, name))
        elif id(leaf) in _LEAVES:
            steps.append(Opcode(_LEAVES[id(leaf)], name))
        elif type(leaf) is primitives.VarintArray:
            steps.append(Opcode(OpKind.ARRAY, name, opcodes(leaf.element), leaf.smallest))
        else:
            raise DerivationError(f"field {name} has no opcode: {leaf!r}")
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class DocRow:
    """One line of a format page: where a field lies (None after a field of variable size), and what it is."""

    position: int | None
    name: str
    type: str
    doc: str


_TYPE_NAMES = {
    ">b": "int8", ">h": "int16", ">H": "uint16", ">l": "int32", ">L": "uint32", ">q": "int64", ">Q": "uint64",
}  # fmt: skip
_LEAF_NAMES = {
    id(primitives.Varint): "varint",
    id(primitives.Varlong): "varlong",
    id(primitives.UnsignedVarint): "unsigned varint",
    id(primitives.VarintBytes): "varint length, bytes or null",
    id(primitives.VarintString): "varint length, bytes",
}


def fields_of(tree: Construct) -> list[tuple[str, str, Construct]]:
    """Name, text and leaf (or inner structure) of every field of a declared structure, in order."""
    return _named(tree)


def element_of(leaf: Construct) -> Construct | None:
    """What an array of ours holds; None for anything else."""
    return leaf.element if isinstance(leaf, primitives.VarintArray) else None


def _type_name(leaf: Construct) -> str:
    if type(leaf) is FormatField:
        return _TYPE_NAMES[leaf.fmtstr]
    if isinstance(leaf, primitives.VarintArray):
        return "varint count, array"
    if id(leaf) in _LEAF_NAMES:
        return _LEAF_NAMES[id(leaf)]
    raise DerivationError(f"a page cannot name {leaf!r}")


def _size(leaf: Construct) -> int | None:
    return leaf.sizeof() if type(leaf) is FormatField else None


def documentation(tree: Construct, prefix: str = "", position: int | None = 0) -> list[DocRow]:
    """The lines of a format page for a declaration; what an array or an inner structure holds follows it."""
    rows: list[DocRow] = []
    for name, doc, leaf in _named(tree):
        path = prefix + name
        if isinstance(leaf, Struct):
            rows += documentation(leaf, path + ".", position)
            position = None
            continue
        rows.append(DocRow(position, path, _type_name(leaf), doc))
        size = _size(leaf)
        position = None if position is None or size is None else position + size
        element = element_of(leaf)
        if element is not None:
            rows += documentation(element, path + "[].", None)
    return rows
