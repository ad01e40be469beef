"""`kafkalog offsets --history`: every change of the committed offsets of groups."""

from __future__ import annotations

from msgspec import structs

from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.output import remark
from kafkalog.cli.shapes.offsets_lines import CommittedLine, RemovedLine
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.groups.group_lines import offset_line
from kafkalog.cluster.groups.offset_history import OffsetChange, OffsetHistory
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.codec.common.wording import counted

__all__ = ["show_history"]


def show_history(history: OffsetHistory, *, as_json: bool) -> int:
    """Print every change of committed offsets, as one table or, with `as_json`, as one JSON line each. Return the exit
    code, which the findings determine. On standard error, print a sentence for each partition of `__consumer_offsets`
    from which the cleaner has removed records, and then the findings.
    """
    if as_json:
        print_lines(map(_line, history.changes))
    else:
        print_table(
            "offsets over time",
            ["group", "topic", "partition", Column("counted", Kind.TIME), "offset", "moved by",
             Column("metadata", drop=2, wraps=True, if_any=True), Column("in", drop=3), Column("at", drop=1)],
            map(_row, history.changes),
        )  # fmt: skip
    for number, count in sorted(history.missing.items()):
        remark(
            f"{counted(count, 'record')} of {CONSUMER_OFFSETS_TOPIC}-{number} are there no more: the cleaner has "
            "removed earlier commits, which are not shown"
        )
    return finish(history.findings)


def _row(change: OffsetChange) -> list[object]:
    commit = change.commit
    moved = None if commit is None or change.previous is None else f"{commit.offset - change.previous:+}"
    return [change.key.group, change.key.topic, change.key.partition, change.timestamp,
            "removed" if commit is None else commit.offset, moved, "" if commit is None else commit.metadata,
            change.log_partition, change.log_offset]  # fmt: skip


def _line(each: OffsetChange) -> CommittedLine | RemovedLine:
    if each.commit is not None:
        fields = structs.asdict(offset_line(each.commit))
        return CommittedLine(**{**fields, "timestamp": each.timestamp, "previous": each.previous})
    return RemovedLine(
        **each.key._asdict(), timestamp=each.timestamp, previous=each.previous, log_partition=each.log_partition,
        log_offset=each.log_offset,
    )  # fmt: skip
