"""What is lost permanently, what a simple start would lose, what earlier recoveries have lost: counted once, for all.

What is lost permanently is what the recommended way loses: nothing that is known gives it back.  The times of lost
offsets are those of the sound batches around them, and come from `verify` where it has a finding about them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kafkalog.codec.findings import Unread
from kafkalog.codec.wording import counted
from kafkalog.inspect.facts import PartitionFacts, Planned, ReportFacts
from kafkalog.inspect.lost_batches import LostBatch, is_of_batch, lost_batch_at, when_written
from kafkalog.recovery.act.history import RunInfo, RunState
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.losses import lost_text
from kafkalog.recovery.decide.ways import LostRange, Measured, RecoveryWay, total
from kafkalog.words.order import natural_order

__all__ = [
    "MOST_ROWS",
    "LossRow",
    "loss_of_run",
    "loss_rows",
    "recommended_of",
    "records_text",
    "runs_that_lost",
    "total_before",
    "total_by_start",
    "total_for_good",
]

MOST_ROWS = 60
"""Rows of the table of losses."""
_LOOKED_AT = 8
"""Damaged places of a partition whose batches are looked at again."""
_STANDS = (RunState.FINISHED, RunState.CUT_SHORT, RunState.HALF_PURGED)


class LossRow(Struct, frozen=True):
    """One line of the table: what a partition loses permanently and by a simple start, and when that was written."""

    partition: str
    permanently: str
    by_start: str
    """empty if nothing would start, or for what an earlier run has lost"""
    written: str
    by_eye: str = ""
    """records of the lost batches that decode although nothing proves them; empty if there are none"""

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        words = [("permanently", self.permanently), ("by a simple start", self.by_start), ("written", self.written)]
        told = [f"{name} {text}" for name, text in words if text]
        eye = f"; {self.by_eye} readable by eye, unproven" if self.by_eye else ""
        return f"{self.partition}: {', '.join(told)}{eye}"


def recommended_of(planned: Planned) -> RecoveryWay | None:
    """The recommended way, where the ways differ."""
    best = planned.choice.recommended
    return best if planned.is_choice else None


def records_text(lost: Measured) -> str:
    """`7 records`, `at least 7 records`."""
    if lost.records_lost is None:
        return "an unknown number of records"
    if lost.records_lost == 0 and lost.is_exact:
        return "no record"
    return f"{'' if lost.is_exact else 'at least '}{counted(lost.records_lost, 'record')}"


def total_for_good(facts: ReportFacts) -> Measured:
    """What the recommended ways lose together."""
    return total(each for planned in facts.planned for each in _for_good(planned).values())


def total_by_start(facts: ReportFacts) -> Measured | None:
    """What Kafka's own start on the directories would lose; None where it would not start on one of them."""
    if not facts.planned or any(each.forecast is None or each.forecast.outcome != "loaded" for each in facts.planned):
        return None
    return total(each for planned in facts.planned for each in planned.choice.kafka_by_partition.values())


def total_before(facts: ReportFacts) -> Measured:
    """What recoveries have lost that were not undone."""
    return total(loss_of_run(run) for _root, run in runs_that_lost(facts))


def runs_that_lost(facts: ReportFacts) -> list[tuple[str, RunInfo]]:
    """Log directories and the runs on them that have lost records, as they noted it."""
    return [(root, run) for root, found in facts.runs for run in found if run.lost and run.state in _STANDS]


def loss_of_run(run: RunInfo) -> Measured:
    """What a run has lost, in all."""
    return total(_of_run(run).values())


def _of_run(run: RunInfo) -> dict[str, Measured]:
    return {
        each.partition: Measured(
            records_kept=0,
            records_lost=each.records,
            is_exact=each.is_exact,
            bytes_cut=0,
            lost=[LostRange(each.partition, *offsets) for offsets in each.ranges],
        )
        for each in run.lost or ()
    }


def _for_good(planned: Planned) -> dict[str, Measured]:
    """Partition directory -> what the recommended way loses of it."""
    best = recommended_of(planned)
    if best is None:
        return {}
    how = None if best.how is None else best.how.order
    alike = {name: each for name, each in planned.choice.own_by_partition.items()
             if name not in planned.choice.by_partition}  # fmt: skip
    return alike | {
        name: way.measured
        for name, ways in planned.choice.by_partition.items()
        for way in ways
        if way.way is best.way and (None if way.how is None else way.how.order) == how
    }


def loss_rows(facts: ReportFacts) -> list[LossRow]:
    """The table, at most `MOST_ROWS` and one row more, which says that there are others; each loss has one row."""
    rows = list(_rows(facts))
    left = len(rows) - MOST_ROWS
    return rows if left <= 0 else [*rows[:MOST_ROWS], LossRow(f"and {counted(left, 'more row')}", "", "", "")]


def _rows(facts: ReportFacts) -> Iterator[LossRow]:
    several = len(facts.planned) > 1
    starts = total_by_start(facts) is not None
    for planned in facts.planned:
        where = f" in {planned.path}" if several else ""
        for_good, by_start = _for_good(planned), planned.choice.kafka_by_partition if starts else {}
        for name in sorted({*for_good, *by_start}, key=natural_order):
            lost, at_start = for_good.get(name), by_start.get(name)
            if _is_any(lost) or _is_any(at_start):
                ranges = [each for found in (lost, at_start) if found is not None and _is_any(found)
                          for each in found.lost[:3]]  # fmt: skip
                batches = list(_batches(name, planned))
                times = _times(ranges, planned.root, facts, batches)
                by_eye = str(sum(each.by_eye for each in batches) or "")
                yield LossRow(name + where, _amount(lost), _amount(at_start), times, by_eye)
    for root, run in runs_that_lost(facts):
        for name, lost in _of_run(run).items():
            if _is_any(lost):
                words = f"{_amount(lost)}, by run {run.run_id}"
                where = f" in {root}" if several else ""
                yield LossRow(name + where, words, "", _times(lost.lost[:3], root, facts, ()))


def _is_any(lost: Measured | None) -> bool:
    """Whether anything is lost, or may be."""
    return lost is not None and (lost.records_lost != 0 or not lost.is_exact)


def _amount(lost: Measured | None) -> str:
    """`3 (offsets 3 to 5)`, `none`; empty if nothing is known."""
    if lost is None:
        return ""
    if not _is_any(lost):
        return "none"
    offsets = ranges_text(lost.lost)
    return f"{lost_text(lost, '{:,}'.format)}{f' ({offsets})' if offsets else ''}"


def _batches(name: str, planned: Planned) -> Iterator[LostBatch]:
    """What the damaged places of a partition tell, the first of them."""
    found = dict.fromkeys(
        (os.path.join(planned.root, each.file), each.position)
        for each in (*planned.damages, *planned.choice.damaged)
        if is_of_batch(each) and each.file is not None and os.path.basename(os.path.dirname(each.file)) == name
    )
    for path, position in list(found)[:_LOOKED_AT]:
        if position is not None:
            yield lost_batch_at(path, position)


def _times(ranges: Sequence[LostRange], root: str, facts: ReportFacts, batches: Sequence[LostBatch]) -> str:
    """When lost ranges were written: by the sound batches on both sides, else as the header of the batch claims."""
    for each in ranges:
        around = _time_of(each, root, facts)
        claimed = when_written(each, batches)
        if around or claimed:
            return around if around.startswith("between") or not claimed else claimed
    return ""


def _time_of(lost: LostRange, root: str, facts: ReportFacts) -> str:
    """Between which of the batches around it a lost range was written; nothing where no time is known."""
    path = os.path.join(os.path.realpath(root), lost.partition)
    for partition in facts.examined.partitions:
        if os.path.realpath(partition.path) == path:
            found = _around(lost, partition, _unread_in(partition, facts))
            return "" if found is None or len(found.parts) == 1 else found.parts[1]
    return ""


def _unread_in(partition: PartitionFacts, facts: ReportFacts) -> list[Unread]:
    """What `verify` says that nobody reads of a partition, and then what the walk has seen."""
    told = [
        each.unread
        for each in facts.findings
        if each.unread is not None and os.path.dirname(each.file or "") == partition.path
    ]
    return [*told, *partition.unread]


def _around(lost: LostRange, partition: PartitionFacts, unread: Sequence[Unread]) -> Unread | None:
    begins = next((each for each in unread if _holds(each, lost.first)), None)
    ends = None if lost.last is None else next((each for each in unread if _holds(each, lost.last)), None)
    first, last = partition.first_offset, partition.last_offset
    before = partition.last_timestamp if last is not None and lost.first > last else None
    after = partition.first_timestamp if first is not None and lost.last is not None and lost.last < first else None
    return Unread(
        lost.first,
        lost.last,
        before if begins is None else begins.newest_before,
        after if ends is None else ends.oldest_after,
    )


def _holds(unread: Unread, offset: int) -> bool:
    return unread.first_offset <= offset and (unread.last_offset is None or offset <= unread.last_offset)
