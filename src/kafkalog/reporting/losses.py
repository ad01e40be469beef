"""Compute the losses that a report shows, once for all its parts: permanent ones, those of a simple start of Kafka, and
those of earlier recoveries.

Permanently lost is what the recommended way of recovery loses, because nothing that is known restores it. The times of
lost offsets are the times of the sound batches around them, from `verify` if it has a finding about them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode, Unread
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import PartitionFacts, Planned, ReportFacts
from kafkalog.inspect.lost_batches import LostBatch, is_of_batch, lost_batch_at, when_written
from kafkalog.recovery.act.history import RunInfo, RunState
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.losses import lost_text, records_text, repeats_text
from kafkalog.recovery.decide.ways import LostRange, Measured, RecoveryWay, total
from kafkalog.words.order import natural_order

__all__ = [
    "MOST_ROWS",
    "LossRow",
    "loss_of_run",
    "loss_rows",
    "lost_for_good",
    "places_elsewhere",
    "recommended_of",
    "records_text",
    "runs_that_lost",
    "total_before",
    "total_by_start",
    "total_for_good",
    "with_skipped",
]

_ELSEWHERE = {
    FindingCode.SEGMENT_MISNAMED: "their segments get their names back",
    FindingCode.BATCHES_OUTSIDE: "they are in a file outside the logs",
}
"""Findings about batches that are not where the log has to have them, with how a way that loses them can be avoided."""
_DELETED = ".deleted files have them (kafkalog undelete)"
_KEPT = "what a recovery keeps has them (kafkalog undelete)"
MOST_ROWS = 60
"""Most rows of the table of losses."""
_LOOKED_AT = 8
"""Most damaged places of a partition whose batches are read again."""
_STANDS = (RunState.FINISHED, RunState.CUT_SHORT, RunState.HALF_PURGED)


class LossRow(Struct, frozen=True, kw_only=True):
    """One row of the table of losses: what a partition loses permanently and by a simple start, and when that was
    written.
    """

    partition: str
    permanently: str
    by_start: str
    """empty if nothing would start, or for losses of an earlier execution"""
    written: str
    by_eye: str = ""
    """number of records of the lost batches that can be decoded although nothing proves them; empty if none"""

    @property
    def sentence(self) -> str:
        """The whole row as one line."""
        words = [("permanently", self.permanently), ("by a simple start", self.by_start), ("written", self.written)]
        told = [f"{name} {text}" for name, text in words if text]
        eye = f"; {self.by_eye} can be shown (explain --records)" if self.by_eye else ""
        return f"{self.partition}: {', '.join(told)}{eye}"


def recommended_of(planned: Planned) -> RecoveryWay | None:
    """Return the recommended way of recovery if at least one of the ways may lose something; None if none may, or no
    way is recommended.
    """
    best = planned.choice.recommended
    return best if planned.is_choice else None


def total_for_good(facts: ReportFacts) -> Measured:
    """Total loss of the recommended ways, without what earlier recoveries have lost."""
    return total(measured for planned in facts.planned for measured in _for_good(facts, planned).values())


def lost_for_good(facts: ReportFacts, planned: Planned) -> Measured:
    """Loss of the recommended way of one directory, without what earlier recoveries have lost; nothing if none is
    recommended.
    """
    best, parts = recommended_of(planned), _for_good(facts, planned)
    return best.measured if best and len(parts) == len(_by_recommended(planned)) else total(parts.values())


def total_by_start(facts: ReportFacts) -> Measured | None:
    """Return the total loss if Kafka is simply started on all directories, without earlier losses. Return None if there
    are no plans, if Kafka would not load one of the directories, or if the outcome for one is unknown.
    """
    if not facts.planned or any(
        planned_directory.forecast is None or planned_directory.forecast.outcome != "loaded"
        for planned_directory in facts.planned
    ):
        return None
    return total(measured for planned in facts.planned for measured in _by_start(planned).values())


def _by_start(planned: Planned) -> dict[str, Measured]:
    """Return the loss of Kafka's own start by partition directory. Offsets that are gone already are not lost by it."""
    return {
        name: replace(measured, records_lost=0, lost=[], is_exact=True) if measured.is_lost_before else measured
        for name, measured in planned.choice.kafka_by_partition.items()
    }


def total_before(facts: ReportFacts) -> Measured:
    """Total loss of earlier executions that were not undone."""
    return total(loss_of_run(run) for _root, run in runs_that_lost(facts))


def runs_that_lost(facts: ReportFacts) -> list[tuple[str, RunInfo]]:
    """Return (log directory, execution) for the executions whose journal lists losses and that were not undone, in the
    order of `facts.runs`.
    """
    return [(root, run) for root, run_infos in facts.runs for run in run_infos if run.lost and run.state in _STANDS]


def loss_of_run(run: RunInfo) -> Measured:
    """Total loss of an execution."""
    return total(_of_run(run).values())


def _of_run(run: RunInfo) -> dict[str, Measured]:
    return {
        loss.partition: Measured(
            records_kept=0,
            records_lost=loss.records,
            is_exact=loss.is_exact,
            bytes_cut=0,
            lost=[LostRange(loss.partition, *offsets) for offsets in loss.ranges],
        )
        for loss in run.lost or ()
    }


def _for_good(facts: ReportFacts, planned: Planned) -> dict[str, Measured]:
    """Return the loss of the recommended way by partition directory; empty if no way is recommended. Partitions for
    which all ways lose the same are included. Left out are partitions of which all that is lost was lost before, by
    earlier recoveries.
    """
    runs = [run for root, run in runs_that_lost(facts) if os.path.realpath(root) == os.path.realpath(planned.root)]
    return {name: measured for name, measured in _by_recommended(planned).items()
            if not (measured.is_lost_before and _is_lost_by(runs, name, measured.lost))}  # fmt: skip


def _is_lost_by(runs: Sequence[RunInfo], name: str, ranges: Sequence[LostRange]) -> bool:
    """Whether each of these ranges of a partition lies within one that an execution has lost; True for no ranges. A
    range without an end counts if it begins in a lost range or at the offset after it: what the log had there is
    unknown.
    """
    lost = [lost_range for run in runs for lost_range in _of_run(run).get(name, Measured()).lost]

    def holds(by_run: LostRange, lost_range: LostRange) -> bool:
        end = by_run.last if lost_range.last is not None or by_run.last is None else by_run.last + 1
        last = lost_range.first if lost_range.last is None else lost_range.last
        return by_run.first <= lost_range.first and (end is None or last <= end)

    return all(any(holds(by_run, lost_range) for by_run in lost) for lost_range in ranges)


def _by_recommended(planned: Planned) -> dict[str, Measured]:
    """Return the loss of the recommended way by partition directory; empty if no way is recommended. Partitions that
    the way does not choose lose what the way for the rest loses.
    """
    best = recommended_of(planned)
    if best is None:
        return {}
    alike = {name: measured for name, measured in planned.choice.own_by_partition.items()
             if name not in planned.choice.by_partition}  # fmt: skip
    chosen = _measured_by(planned, best)
    if best.rest is None:
        return alike | chosen
    others = _measured_by(planned, best.rest)
    return alike | others | {name: measured for name, measured in chosen.items() if name in best.partitions}


def _measured_by(planned: Planned, way: RecoveryWay) -> dict[str, Measured]:
    """Return the loss of this way by partition directory, without the partitions for which it is not among the ways."""
    return {
        name: each.measured
        for name, ways in planned.choice.by_partition.items()
        for each in ways
        if each.way == way.way and _order(each) == _order(way)
    }


def _order(way: RecoveryWay) -> object:
    return None if way.how is None else way.how.order


def loss_rows(facts: ReportFacts) -> list[LossRow]:
    """Return the rows of the table: one for each partition that loses records, then one for each partition and earlier
    execution that lost some. Empty if there are none. After `MOST_ROWS` rows, one more row counts the others.
    """
    rows = list(_rows(facts))
    left = len(rows) - MOST_ROWS
    return (
        rows
        if left <= 0
        else [
            *rows[:MOST_ROWS],
            LossRow(partition=f"and {counted(left, 'more row')}", permanently="", by_start="", written=""),
        ]
    )


def _rows(facts: ReportFacts) -> Iterator[LossRow]:
    several = len(facts.planned) > 1
    starts = total_by_start(facts) is not None
    for planned in facts.planned:
        where = f" in {planned.path}" if several else ""
        for_good, by_start = _for_good(facts, planned), _by_start(planned) if starts else {}
        for name in sorted({*for_good, *by_start}, key=natural_order):
            lost, at_start = for_good.get(name), by_start.get(name)
            if _is_any(lost) or _is_any(at_start):
                ranges = [lost_range for measured in (lost, at_start) if measured is not None and _is_any(measured)
                          for lost_range in measured.lost[:3]]  # fmt: skip
                batches = list(_batches(name, planned))
                times = _times(ranges, planned.root, facts, batches)
                by_eye = str(sum(batch.by_eye for batch in batches) or "")
                elsewhere = _elsewhere(name, lost, planned)
                yield LossRow(
                    partition=name + where,
                    permanently=_amount(lost) + elsewhere,
                    by_start=_amount(at_start),
                    written=times,
                    by_eye=by_eye,
                )
    for root, run in runs_that_lost(facts):
        for name, lost in _of_run(run).items():
            if _is_any(lost):
                words = f"{_amount(lost)}, by run {run.run_id}"
                where = f" in {root}" if several else ""
                yield LossRow(
                    partition=name + where,
                    permanently=words,
                    by_start="",
                    written=_times(lost.lost[:3], root, facts, ()),
                )


def places_elsewhere(facts: ReportFacts) -> list[str]:
    """Return clauses about the places that may still have records which the recommended ways lose; empty if there are
    none. First come the places in `_ELSEWHERE` for which a plan has a finding, with its code, then `.deleted` files,
    then what recoveries keep. Each place is named once.
    """
    codes = {finding.code for planned in facts.planned for finding in planned.damages}
    return [
        *(f"{where} ({code})" for code, where in _ELSEWHERE.items() if code in codes),
        *([_DELETED] if any(planned.lost_in_deleted for planned in facts.planned) else []),
        *([_KEPT] if any(planned.kept_by_runs for planned in facts.planned) else []),
    ]


def _elsewhere(name: str, lost: Measured | None, planned: Planned) -> str:
    """Return `, unless …` with the first place that may still have the lost records of the partition directory `name`:
    its segments under wrong names, a file outside the logs, `.deleted` files or what a recovery keeps. The first two
    are followed by the code of their finding. Return an empty string if `lost` is None or there is no such place.
    """
    for code, where in _ELSEWHERE.items():
        begins = [each.offset or 0 for each in planned.damages if each.code is code
                  and (code is not FindingCode.SEGMENT_MISNAMED or _partition_of(each) == name)]  # fmt: skip
        is_there = lost is not None and any(
            lost_range.first <= offset and (lost_range.last is None or offset <= lost_range.last)
            for lost_range in lost.lost
            for offset in begins
        )
        if is_there:
            return f", unless {where} ({code})"
    if lost is not None and name in planned.lost_in_deleted:
        return f", unless {_DELETED}"
    return f", unless {_KEPT}" if lost is not None and name in planned.kept_by_runs else ""


def _partition_of(finding: Finding) -> str:
    return os.path.basename(os.path.dirname(finding.file or ""))


def _is_any(lost: Measured | None) -> bool:
    """Whether records are lost or hidden from readers, or may be. False for None."""
    return lost is not None and (lost.records_lost != 0 or not lost.is_exact or lost.records_hidden > 0)


def _amount(lost: Measured | None) -> str:
    """Return text about the number of lost records (`lost_text`), such as `3 (offsets 3 to 5)`, `unknown`, `none` or
    `none; 7 records on disk that readers skip`. Return an empty string if `lost` is None: nothing was counted.
    """
    if lost is None:
        return ""
    if lost.records_lost == 0 and lost.is_exact:
        return with_skipped("none", lost)
    offsets = ranges_text(lost.lost) + repeats_text(lost)
    return with_skipped(f"{lost_text(lost, '{:,}'.format)}{f' ({offsets})' if offsets else ''}", lost)


def with_skipped(text: str, lost: Measured) -> str:
    """Return text about lost records, followed by the number of records that are kept but that no reader gets, if there
    are any.
    """
    hidden = lost.records_hidden
    return f"{text}; {counted(hidden, 'record')} on disk that readers skip" if hidden else text


def _batches(name: str, planned: Planned) -> Iterator[LostBatch]:
    """Yield facts about the batches at the first `_LOOKED_AT` damaged places of the partition directory `name`. Reads
    the files again; a file that cannot be read yields an empty `LostBatch`.
    """
    places = dict.fromkeys(
        (os.path.join(planned.root, damage.file), damage.position)
        for damage in (*planned.damages, *planned.choice.damaged)
        if is_of_batch(damage) and damage.file is not None and _partition_of(damage) == name
    )
    for path, position in list(places)[:_LOOKED_AT]:
        if position is not None:
            yield lost_batch_at(path, position)


def _times(ranges: Sequence[LostRange], root: str, facts: ReportFacts, batches: Sequence[LostBatch]) -> str:
    """Return text about when a range was written: the first range in `ranges` with a known time. Empty if no time is
    known. The text gives the times of the sound batches on both sides. If one of these is unknown, it gives the time in
    the header of the damaged batch or of the batch before it. If that is unknown too, it gives the time of the one
    sound batch.
    """
    for lost_range in ranges:
        around = _time_of(lost_range, root, facts)
        claimed = when_written(lost_range, batches)
        if around or claimed:
            return around if around.startswith(("between ", "at ")) or not claimed else claimed
    return ""


def _time_of(lost: LostRange, root: str, facts: ReportFacts) -> str:
    """Return text about when the range `lost` of a partition in the log directory `root` was written: `between` or `at`
    the times of the sound batches around it, or `after` or `before` one of them if the other time is unknown. Empty if
    both are unknown or the partition was not examined.
    """
    path = os.path.join(os.path.realpath(root), lost.partition)
    for partition in facts.examined.partitions:
        if os.path.realpath(partition.path) == path:
            around = _around(lost, partition, _unread_in(partition, facts))
            return "" if around is None or len(around.parts) == 1 else around.parts[1]
    return ""


def _unread_in(partition: PartitionFacts, facts: ReportFacts) -> list[Unread]:
    """Return the unreadable offset ranges of a partition: first the ranges in findings of `verify`, then those of the
    report's own walk over the batches. A range may be in both.
    """
    ranges = [
        finding.unread
        for finding in facts.findings
        if finding.unread is not None and os.path.dirname(finding.file or "") == partition.path
    ]
    return [*ranges, *partition.unread]


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
