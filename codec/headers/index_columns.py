"""Columns of index entries: both fields of many entries, read from and written to the bytes of an index file.

Compiled code is used if it is available, otherwise plain Python; the results are equal.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from operator import and_, le, lt

from kafkalog.codec.derive import DerivationError, FixedLayout
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.native.library import is_there

__all__ = ["columns_of_entries", "increasing", "joined", "packed_columns"]

for _layout in (OFFSET_ENTRY, TIME_ENTRY):
    if _layout.order != ">" or any(field.format not in "iq" for field in _layout.fields) or len(_layout.fields) != 2:
        raise DerivationError("an index entry is not declared as two big-endian numbers of 32 or 64 bits")


def _sizes(layout: FixedLayout) -> list[int]:
    return [struct.calcsize(layout.order + field.format) for field in layout.fields]


def columns_of_entries(data: bytes | bytearray | memoryview, layout: FixedLayout) -> dict[str, Sequence[int]]:
    """Return the values of both fields of the entries in `data`, by the field's name in declared order; both are empty
    for no bytes. The size of `data` must be a multiple of the entry's.
    """
    columns: tuple[Sequence[int], ...] = ((), ())
    if is_there():
        from kafkalog.codec.native.functions import read_entries

        columns = read_entries(data, _sizes(layout))
    elif data:
        columns = tuple(zip(*layout.struct.iter_unpack(data), strict=True))
    return dict(zip(layout.names, columns, strict=True))


def packed_columns(firsts: memoryview, seconds: memoryview, layout: FixedLayout) -> bytes:
    """Encode entries with these fields in the format of an index file. Needs compiled code."""
    from kafkalog.codec.native.functions import write_entries

    return write_entries(firsts, seconds, _sizes(layout))


def increasing(
    firsts: Sequence[int],
    seconds: Sequence[int],
    before: tuple[int, int],
    *,
    may_repeat: bool,
    never: tuple[int, int] | None,
) -> int:
    """Return the number of entries at the start that increase without interruption, beginning after the entry `before`,
    a pair of both fields.

    The first field must increase; the second must increase too, or with `may_repeat` must not decrease. An entry equal
    to `never`, such as an empty slot, ends the count; None means that there is no such entry.
    """
    if isinstance(firsts, memoryview) and isinstance(seconds, memoryview):
        from kafkalog.codec.native.functions import increasing_entries

        return increasing_entries(firsts, seconds, before, may_repeat, never)
    of_second = le if may_repeat else lt
    increase = map(
        and_, map(lt, chain(before[:1], firsts), firsts), map(of_second, chain(before[1:], seconds), seconds)
    )
    if never is not None:
        increase = map(and_, increase, map(never.__ne__, zip(firsts, seconds, strict=True)))
    return next((number for number, is_larger in enumerate(increase) if not is_larger), len(firsts))


def joined(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """Concatenate the parts of a column; a single part is returned unchanged, and no parts give an empty column."""
    return parts[0] if len(parts) == 1 else [*chain.from_iterable(parts)]
