"""Check whether Protobuf messages can be read as a later version, in which fields are matched by their numbers.

Protobuf's own parser drops values that a field cannot have and cuts numbers to the size of their field. So only types
are accepted that keep every value, or of which the decoder of a value can tell that it was not kept.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field

from kafkalog.values.payloads import UndecodableError

__all__ = ["check_later"]

_WIDER: dict[int, set[int]] = {
    Field.TYPE_INT32: {Field.TYPE_INT64, Field.TYPE_ENUM},
    Field.TYPE_UINT32: {Field.TYPE_UINT64, Field.TYPE_INT64},
    Field.TYPE_BOOL: {Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64},
    Field.TYPE_ENUM: {Field.TYPE_INT32, Field.TYPE_INT64},
    Field.TYPE_SINT32: {Field.TYPE_SINT64},
    Field.TYPE_STRING: {Field.TYPE_BYTES},
    Field.TYPE_BYTES: {Field.TYPE_STRING},
}
"""type of a field -> the others that read its values from the same bytes; string and enum not all of them"""


def check_later(older: Any, later: Any) -> set[tuple[str, str]]:
    """Return the pairs (name in `older`, name in `later`) of all fields whose names differ; inner messages are
    included. A field that only one of the two has is accepted: a reader of `later` ignores it, or gets its default.

    Raises `UndecodableError` if a field of both is no longer repeated, also in inner messages. Raises it also if the
    type in `later` does not read the bytes of the type in `older` as the same value. Values are not considered: bytes
    may become a string, and an int32 or an enum may become an enum that lacks some numbers.
    """
    renamed: set[tuple[str, str]] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(older, later)]
    while waiting:
        one, other = waiting.pop()
        if (one.full_name, other.full_name) in seen:
            continue
        seen.add((one.full_name, other.full_name))
        for written in one.fields:
            read = other.fields_by_number.get(written.number)
            if read is None:
                continue
            if not _takes(read, written):
                raise UndecodableError(
                    f"field {read.number} ({read.name}) has a type that does not take what it was written with"
                )
            if read.name != written.name:
                renamed.add((written.name, read.name))
            if read.message_type is not None:
                waiting.append((written.message_type, read.message_type))
    return renamed


def _takes(read: Any, written: Any) -> bool:
    if written.is_repeated and not read.is_repeated:
        return False
    if read.message_type is None or written.message_type is None:
        return bool(read.type == written.type or read.type in _WIDER.get(written.type, ()))
    return bool(read.message_type.GetOptions().map_entry == written.message_type.GetOptions().map_entry)
