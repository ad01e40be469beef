"""One field of a message: its type, and the versions in which it is present, nullable or tagged."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["ALL_VERSIONS", "NO_DEFAULT", "NO_VERSION", "Field"]

NO_VERSION = range(0)
ALL_VERSIONS = range(1 << 15)
NO_DEFAULT = object()
"""Marker for a schema without a default."""
_ZERO: dict[str, object] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "records": b"", "uuid": "A" * 22}


class Field(Struct, frozen=True, kw_only=True):
    """One field. `type` is a scalar's name, `string`, `bytes`, `records` or `struct`; with `array` it is the type of an
    element.
    """

    name: str
    type: str
    array: bool = False
    versions: range = ALL_VERSIONS
    nullable: range = NO_VERSION
    tagged: range = NO_VERSION
    tag: int | None = None
    explicit_default: object = NO_DEFAULT
    fields: tuple[Field, ...] = ()
    flexible: range | None = None
    """versions with flexible lengths, if they differ from the message's; otherwise None"""
    about: str = ""

    def in_version(self, version: int) -> bool:
        """Whether messages of this version have the field."""
        return version in self.versions

    def default(self, version: int) -> Any:
        """Return the value that a reader uses if the field is absent: the schema's default, None for null. Without a
        default it is an empty list for an array, and a dict of the defaults of its fields in `version` for a struct.
        For another type it is zero or an empty value.
        """
        if self.explicit_default is not NO_DEFAULT:
            return self.explicit_default
        if self.array:
            return []
        if self.type == "struct":
            return {field.name: field.default(version) for field in self.fields if field.in_version(version)}
        return _ZERO.get(self.type, 0)
