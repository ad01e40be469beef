"""`kafkalog offsets --history`: how the offsets of groups came to be what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from kafkalog.cli.lines import finish, partitions_with, print_lines
from kafkalog.cli.options.names import chosen_names
from kafkalog.cli.output import remark
from kafkalog.cli.shapes.offsets_lines import CommittedLine, RemovedLine
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.groups.group_lines import offset_line
from kafkalog.cluster.groups.offset_history import OffsetChange, OffsetHistory, read_offset_history
from kafkalog.cluster.records.coordinator_records import CONSUMER_OFFSETS_TOPIC
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.wording import counted
from kafkalog.log.directories.selection import Selection

__all__ = ["show_history"]


def show_history(
    logs: Sequence[str],
    zookeeper: object,
    others: Mapping[str, object],
    replica: str | None,
    groups: Sequence[str],
    chosen: Selection,
    *,
    as_json: bool,
) -> int:
    """Print every change; the exit code.  `others` are options that make no sense beside it, if they were given."""
    given = [name for name, value in others.items() if value not in (None, False)]
    if given:
        raise UsageError(f"--history shows every moment: {', '.join(given)} cannot be used with it")
    if not logs or zookeeper is not None:
        raise UsageError(f"--history needs log directories with {CONSUMER_OFFSETS_TOPIC}, and nothing else")
    findings: list[Finding] = []
    found = read_offset_history(partitions_with(logs, CONSUMER_OFFSETS_TOPIC, replica, findings))
    findings += found.findings
    names = [each.key.group for each in found.changes]
    is_meant = chosen_names("group", groups, names, lambda name: _why_unknown(found, name), findings)
    chosen.check({(each.key.topic, each.key.partition) for each in found.changes})
    changes = [
        each for each in found.changes
        if is_meant(each.key.group) and chosen.takes(each.key.topic, each.key.partition)
    ]  # fmt: skip
    if as_json:
        print_lines(map(_line, changes))
    else:
        print_table(
            "offsets over time",
            ["group", "topic", "partition", Column("counted", Kind.TIME), "offset", "moved by",
             Column("metadata", drop=2, wraps=True, if_any=True), Column("in", drop=3), Column("at", drop=1)],
            map(_row, changes),
        )  # fmt: skip
    for number, count in sorted(found.missing.items()):
        remark(
            f"{counted(count, 'record')} of {CONSUMER_OFFSETS_TOPIC}-{number} are there no more: the cleaner has "
            "removed earlier commits, which are not shown"
        )
    return finish(findings)


def _why_unknown(found: OffsetHistory, name: str | None) -> str | None:
    """Why a group may have committed although no commit of it is there."""
    why = found.logs.why_unknown(name, found.partition_count)
    if why is not None or not found.missing:
        return why
    number = None if name is None else coordinator_partition(name, found.logs.count or found.partition_count)
    numbers = sorted(found.missing) if number is None else [number]
    removed = [each for each in numbers if each in found.missing]
    if not removed:
        return None
    count = counted(found.missing[removed[0]], "record")
    return f"the cleaner has removed {count} of {CONSUMER_OFFSETS_TOPIC}-{removed[0]}"


def _row(each: OffsetChange) -> list[object]:
    commit = each.commit
    moved = None if commit is None or each.previous is None else f"{commit.offset - each.previous:+}"
    return [each.key.group, each.key.topic, each.key.partition, each.timestamp,
            "removed" if commit is None else commit.offset, moved, "" if commit is None else commit.metadata,
            each.log_partition, each.log_offset]  # fmt: skip


def _line(each: OffsetChange) -> CommittedLine | RemovedLine:
    if each.commit is not None:
        fields = structs.asdict(offset_line(each.commit))
        return CommittedLine(**{**fields, "timestamp": each.timestamp, "previous": each.previous})
    return RemovedLine(
        **each.key._asdict(), timestamp=each.timestamp, previous=each.previous, log_partition=each.log_partition,
        log_offset=each.log_offset,
    )  # fmt: skip
