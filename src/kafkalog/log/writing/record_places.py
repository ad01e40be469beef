"""Remember the origin of each row of an Arrow batch: a file, and the line or record number. The places are stored in
the schema's metadata, which survives a selection of columns; a selection of rows makes them wrong.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

__all__ = ["of_file", "place_of"]

_FILE, _UNIT, _NUMBERS = b"kafkalog.file", b"kafkalog.unit", b"kafkalog.numbers"


def of_file(batch: pa.RecordBatch, file: str, unit: str, numbers: Sequence[int]) -> pa.RecordBatch:
    """Return the batch with the places of its rows added to its schema metadata: the path `file`, the kind of number
    (`unit`: `line` or `record`), and the number of each row, counted from 1. `numbers` has an element for each row. If
    it is a `range`, which must have step 1, only its start is stored.
    """
    if isinstance(numbers, range):
        packed = np.array([numbers.start], "<i8").tobytes()
    else:
        packed = np.array(numbers, "<i8").tobytes()
    place = {_FILE: os.fsencode(file), _UNIT: unit.encode(), _NUMBERS: packed}
    return batch.replace_schema_metadata({**(batch.schema.metadata or {}), **place})


def place_of(batch: pa.RecordBatch, row: int, first: int) -> str:
    """Return the place of a row in words for a message, such as `data.jsonl, line 7`. If the batch has no places,
    return the record number counted from 1; `first` is the number of rows before the batch.
    """
    known = batch.schema.metadata or {}
    if not known.keys() >= {_FILE, _UNIT, _NUMBERS}:
        return f"record {first + row + 1}"
    numbers = np.frombuffer(known[_NUMBERS], "<i8")
    number = int(numbers[row]) if len(numbers) == batch.num_rows else int(numbers[0]) + row
    return f"{os.fsdecode(known[_FILE])}, {known[_UNIT].decode()} {number}"
