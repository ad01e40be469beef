"""Check whether timestamps of a partition's records look like another unit than milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.time_units import unit_of
from kafkalog.codec.common.wording import counted
from kafkalog.codec.headers.one_batch import AnyRun
from kafkalog.codec.native.tables import HeaderColumn, RunFacts

__all__ = ["RecordTimes"]


class RecordTimes:
    """Counter of batches whose largest timestamp looks like seconds, microseconds or nanoseconds."""

    def __init__(self) -> None:
        self._batches: Counter[str] = Counter()
        self._first: dict[str, tuple[int, str]] = {}

    def _note(self, max_timestamp: int, last_offset: int, file: str) -> None:
        unit = unit_of(max_timestamp)
        if unit is not None:
            self._batches[unit] += 1
            self._first.setdefault(unit, (last_offset, file))

    def run(self, run: AnyRun, file: str) -> None:
        """Count the batches of a run whose largest timestamp looks like another unit than milliseconds (`unit_of`).
        Timestamps of a run are examined one by one only if its smallest or largest one is unusual.
        """
        columns = run.columns()
        if columns is None:
            self._note(run.header(0).max_timestamp, run.final_offset, file)
            return
        if _are_usual(columns.fact(RunFacts.LEAST_TIMESTAMP), columns.fact(RunFacts.LARGEST_TIMESTAMP)):
            return
        for number, time in enumerate(columns.row(HeaderColumn.MAX_TIMESTAMP)):
            self._note(time, columns.last_offset(number), file)

    def findings(self) -> Iterator[Finding]:
        """Yield one TIMESTAMP_UNIT finding for each unit other than milliseconds, in the order in which the units
        appeared. It has the number of batches, and the last offset and the file of the first such batch. Yields nothing
        if all timestamps look like milliseconds.
        """
        for unit, count in self._batches.items():
            offset, file = self._first[unit]
            detail = (
                f"the times of {counted(count, 'batch')} look like {unit} in place of milliseconds: retention, "
                "look-ups by time and queries take them for other moments"
            )
            yield Finding.of(FindingCode.TIMESTAMP_UNIT, None, offset, detail, file)


_USUAL_FROM, _USUAL_TO = 4_102_444_801, 315_532_799_999_999
"""only numbers of milliseconds are in this range for a moment from 1980 to 2100"""


def _are_usual(least: int, largest: int) -> bool:
    return least >= _USUAL_FROM and largest <= _USUAL_TO
