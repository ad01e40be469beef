"""The compiled execution: the same records, fault and position as the readable one, many batches at a time.

`scan_batches` gives a table of where every field is; `KernelExecution` is the same behind the interface that all
executions share.  Needs numba, numpy and pyarrow; ask `codec.thresholds` whether that is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalog.codec.execution import RawRecord, RecordFault
from kafkalog.codec.kernels import kernels
from kafkalog.codec.kernels.leaves import FAULTS
from kafkalog.codec.limits import Limits
from kafkalog.codec.plain import PlainExecution
from kafkalog.codec.record_shape import SMALLEST_RECORD

if TYPE_CHECKING:
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

__all__ = ["KERNEL", "BatchOutcome", "KernelExecution", "RecordTable", "address_of", "scan_batches"]

_WIDTH = sum(len(slot) for slot in kernels.RECORD_SLOTS.values())
_ELEMENT_WIDTH = sum(len(slot) for slot in kernels.ELEMENT_SLOTS.values())


class BatchOutcome(NamedTuple):
    """How many records of one batch could be read, and what stopped the reading."""

    records: int
    fault: RecordFault | None


class RecordTable:
    """Where the fields of records are; `column(name)` gives one array for each of the field's slots.

    `keep` holds the buffers that the addresses point into.
    """

    def __init__(self, fields: Int64s, slots: dict[str, kernels.Slot], keep: object) -> None:
        self.fields = fields
        self._slots = slots
        self.keep = keep

    def __len__(self) -> int:
        return int(self.fields.shape[1])

    def column(self, name: str) -> list[Int64s]:
        """The slots of a field, a contiguous array for each."""
        return [np.ascontiguousarray(self.fields[slot]) for slot in self._slots[name]]

    def where(self, rows: Any) -> RecordTable:
        """Only the rows that a mask or slice selects."""
        return RecordTable(self.fields[:, rows], self._slots, self.keep)

    def elements(self, name: str) -> RecordTable:
        """The elements of an array field of all rows, one behind the other."""
        addresses, counts, ends = self.column(name)
        fields = np.empty((_ELEMENT_WIDTH, int(counts.sum())), np.int64)
        kernels.elements(addresses, counts, ends, fields)
        return RecordTable(fields, kernels.ELEMENT_SLOTS, self.keep)


def address_of(buffer: bytes | memoryview) -> int:
    """Where the bytes of a buffer begin; the caller keeps it alive."""
    return int(pa.py_buffer(buffer).address)


def scan_batches(
    payloads: Sequence[bytes | memoryview], counts: Sequence[int], limits: Limits
) -> tuple[RecordTable, list[BatchOutcome]]:
    """The records of many batches, given the decompressed bytes of each and the count that its header declares.

    A batch with a fault contributes the records before it; the ones behind are read all the same.
    """
    addresses = np.array([address_of(payload) for payload in payloads], np.int64)
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    declared = np.array(counts, np.int64)
    room = int(np.minimum(np.maximum(declared, 0), sizes // SMALLEST_RECORD + 1).sum())
    fields = np.empty((_WIDTH, room), np.int64)
    outcome = np.zeros((3, len(payloads)), np.int64)
    rows = kernels.scan(addresses, sizes, declared, limits.headers_per_record, fields, outcome)
    outcomes = [
        BatchOutcome(found, None if code is None else RecordFault(code, position))
        for found, fault, position in outcome.T.tolist()
        for code in (FAULTS[fault],)
    ]
    return RecordTable(fields[:, :rows], kernels.RECORD_SLOTS, payloads), outcomes


class KernelExecution(PlainExecution):
    """Runs the kernel on the records of one batch at a time; headers as in plain Python."""

    name = "kernel"

    def records(
        self, payload: bytes | memoryview, count: int, limits: Limits
    ) -> tuple[list[RawRecord], RecordFault | None]:
        """The declared records, those before the first fault."""
        table, (outcome,) = scan_batches([payload], [count], limits)
        start = address_of(payload)

        def values(of: RecordTable, name: str) -> list[bytes | None]:
            addresses, sizes = of.column(name)
            return [
                None if size < 0 else bytes(payload[at - start : at - start + size])
                for at, size in zip(addresses.tolist(), sizes.tolist(), strict=True)
            ]

        headers = table.elements("headers")
        pairs = list(zip(values(headers, "key"), values(headers, "value"), strict=True))
        ends = np.cumsum(table.column("headers")[1]).tolist()
        rows = zip(
            *(table.column(name)[0].tolist() for name in ("attributes", "timestamp_delta", "offset_delta")),
            values(table, "key"),
            values(table, "value"),
            [tuple(pairs[start:end]) for start, end in zip([0, *ends[:-1]], ends, strict=True)] if ends else [],
            strict=True,
        )
        return [RawRecord(*row) for row in rows], outcome.fault


KERNEL = KernelExecution()
