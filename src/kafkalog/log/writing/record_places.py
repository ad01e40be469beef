"""Places of the rows of an Arrow batch: a file, and the line or record number of each row. They are in the schema's
metadata, which is preserved when rows or columns are selected.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

__all__ = ["of_file", "place_of"]

_FILE, _UNIT, _NUMBERS = b"kafkalog.file", b"kafkalog.unit", b"kafkalog.numbers"


def of_file(batch: pa.RecordBatch, file: str, unit: str, numbers: Sequence[int]) -> pa.RecordBatch:
    """Return the batch with places: its rows are the lines or records (`unit`) of a file with these numbers, which
    count from 1.
    """
    if isinstance(numbers, range):
        packed = np.array([numbers.start], "<i8").tobytes()
    else:
        packed = np.array(numbers, "<i8").tobytes()
    place = {_FILE: os.fsencode(file), _UNIT: unit.encode(), _NUMBERS: packed}
    return batch.replace_schema_metadata({**(batch.schema.metadata or {}), **place})


def place_of(batch: pa.RecordBatch, row: int, first: int) -> str:
    """Return the place of one row in words. `first` is the number of rows before the batch, which is used if no file is
    known.
    """
    known = batch.schema.metadata or {}
    if not known.keys() >= {_FILE, _UNIT, _NUMBERS}:
        return f"record {first + row + 1}"
    numbers = np.frombuffer(known[_NUMBERS], "<i8")
    number = int(numbers[row]) if len(numbers) == batch.num_rows else int(numbers[0]) + row
    return f"{os.fsdecode(known[_FILE])}, {known[_UNIT].decode()} {number}"
