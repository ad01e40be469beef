"""Read a metadata log on from a batch with a wrong base offset, which no checksum covers.

Kafka's readers take the batches in the order of the file, so all records are read (`RecordsIterator`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import Limits
from kafkalog.codec.model import BatchHeader, Record, RecordBatch
from kafkalog.codec.plain.records import decode_batch
from kafkalog.log.directories.partition import Partition
from kafkalog.log.walk.on_damage import SKIP
from kafkalog.log.walk.segment import Segment

__all__ = ["FromDisplaced", "displaced_of"]

_ENDING = codes_with(Trait.NO_BATCH | Trait.ENDS_READING) - {FindingCode.OFFSET_DISPLACED}


def displaced_of(findings: Sequence[Finding]) -> Finding | None:
    """First finding that a batch has a wrong base offset, and the only fault that ended a reading; else None."""
    if any(finding.code in _ENDING for finding in findings):
        return None
    displaced = FindingCode.OFFSET_DISPLACED
    return next((each for each in findings if each.code is displaced and each.severity is Severity.ERROR), None)


class FromDisplaced:
    """The batches from a displaced one on, up to other damage. Each displaced batch has the base offset that it should
    have. `findings` has the faults that the reading has met, without the first.
    """

    def __init__(self, partition: Partition, first: Finding, limits: Limits) -> None:
        self._reader = partition.batches(on_damage=SKIP, limits=limits)
        self._first = first
        self._limits = limits

    @property
    def segment(self) -> Segment | None:
        """The segment of the last batch."""
        return self._reader.segment

    @property
    def findings(self) -> list[Finding]:
        """Faults behind the first displaced batch, up to the one that ends the reading."""
        place = self._first.file, self._first.position
        behind = [each for each in self._reader.findings if (each.file, each.position) != place]
        end = next((number for number, each in enumerate(behind, 1) if each.code in _ENDING), len(behind))
        return behind[:end]

    def by_batch(self) -> Iterator[tuple[RecordBatch, Sequence[Record]]]:
        """Yield each batch with its records. Raises `StorageError` if a file cannot be read."""
        for batch in self:
            yield batch, decode_batch(batch, limits=self._limits).records

    def __iter__(self) -> Iterator[RecordBatch]:
        """Yield the batches. Raises `StorageError` if a file cannot be read."""
        is_reached = False
        for batch in self._reader:
            path = "" if self._reader.segment is None else self._reader.segment.path
            is_reached = is_reached or (path, batch.position) == (self._first.file, self._first.position)
            if not is_reached:
                continue
            if any(each.code in _ENDING for each in self._reader.findings):
                return
            offset = next(
                (each.offset for each in self._reader.findings if each.code is FindingCode.OFFSET_DISPLACED
                 and (each.file, each.position) == (path, batch.position)), None
            )  # fmt: skip
            if offset is not None and isinstance(batch.header, BatchHeader):
                header = replace(batch.header, base_offset=offset)
                yield RecordBatch(header, batch.position, batch.data)
            else:
                yield batch
