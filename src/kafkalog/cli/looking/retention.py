"""`kafkalog retention`: segments that a broker would delete now, when it deletes the others, and what delays this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import click
from msgspec import Struct, field

from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import CONFIG, JSON
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, settings_in
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import AT
from kafkalog.cli.output import remark
from kafkalog.cli.settings import parse_settings
from kafkalog.cli.tables import Column, Kind, print_table, size_text
from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.retention import PartitionRetention, SegmentRetention, retention
from kafkalog.log.directories.selection import Selection
from kafkalog.words.times import time_text

__all__ = ["command"]


Origin = Literal["default", "server.properties", "kafka", "broker", "topic", "--config"]


class OriginsLine(Struct, frozen=True, kw_only=True):
    """Where settings are from."""

    cleanup_policy: Origin = field(name="cleanup.policy")
    """where `cleanup.policy` is from; `kafka` is what a broker gives its own topics"""
    retention_ms: Origin = field(name="retention.ms")
    """where `retention.ms` is from; `kafka` is what a broker gives its own topics"""
    retention_bytes: Origin = field(name="retention.bytes")
    """where `retention.bytes` is from; `kafka` is what a broker gives its own topics"""


class RetentionLine(Struct, frozen=True, kw_only=True):
    """One line for each partition."""

    path: str
    """the partition directory"""
    topic: str
    """its topic"""
    partition: int
    """its number"""
    policy: str = field(name="cleanup_policy")
    """`delete`, `compact`, or both with a comma"""
    retention_ms: int
    """-1 for no limit"""
    retention_bytes: int
    """-1 for no limit"""
    origins: OriginsLine
    """where these settings are from"""
    at: int
    """the time to treat as now, in ms since 1970"""
    segments_going: int
    """how many would go now"""
    bytes_going: int
    """of their logs"""
    next_at: int | None
    """when the next one goes, in ms since 1970; null if none does"""
    last_at: int | None
    """when all that is there now is gone, in ms since 1970; null if not all of it goes"""
    segments: list[SegmentRetention]
    """oldest first"""
    findings: list[FindingJson]
    """damage in the logs"""


@click.command(name="retention")
@PATHS
@CONFIG
@SERVER_PROPERTIES
@AT
@selection_options
@JSON
def command(
    paths: tuple[str, ...],
    config: tuple[str, ...],
    server_properties: str | None,
    at: int | None,
    chosen: Selection,
    as_json: bool,
) -> int:
    """Show which segments a running broker would delete now, when the others go, and what holds them.

    Topic settings come from the metadata log in PATH, else from --server-properties, else they are Kafka's defaults;
    --config is tried in place of all of them, for every topic that is chosen.  Nothing is changed.

    Exit code 0, 1 if something was found, such as a damaged log, 4 if something could not be read.
    """
    started_with, instead = settings_in(server_properties), parse_settings(config)
    found = retention(*paths, select=chosen, at=at, started_with=started_with, instead=instead)
    if as_json:
        print_lines(found.partitions, RetentionLine)
    else:
        _print(found.partitions, found.at)
    if found.deleted:
        remark(
            f"deleted before, and removed at the next start: {counted(len(found.deleted), 'segment')}, the first "
            f"{found.deleted[0]}; `kafkalog undelete` lists them"
        )
    return finish(found.findings)


def _print(retentions: Sequence[PartitionRetention], now: int) -> None:
    going = [segment for partition_retention in retentions for segment in partition_retention.going]
    size = size_text(sum(segment_retention.size for segment_retention in going))
    print_table(
        f"at {time_text(now)}: {counted(len(going), 'segment')} would go, {size}",
        ["topic", "partition", Column("policy", drop=5), Column("retention", Kind.SPAN, drop=4),
         Column("bytes kept", Kind.BYTES, if_any=True, drop=3), Column("segments", drop=6), "go now",
         Column("bytes", Kind.BYTES), Column("next goes", Kind.TIME, drop=1), Column("all gone", Kind.TIME, drop=2),
         Column("held", wraps=True, if_any=True)],
        [
            [each.topic, each.partition, each.policy, None if each.retention_ms < 0 else each.retention_ms,
             None if each.retention_bytes < 0 else each.retention_bytes, len(each.segments), len(each.going),
             sum(segment.size for segment in each.going), each.next_at, each.last_at, _held(each)]
            for each in retentions
        ],
    )  # fmt: skip


def _held(partition_retention: PartitionRetention) -> str | None:
    """Return text about delayed deletions in a partition; None if there are none. Kafka deletes segments only from the
    start of the log, so a segment may have to wait for an earlier one. The text has the number of waiting segments, and
    describes the segment for which the first of them waits. It says when that segment is deleted (or "without end"),
    and gives its base offset. It also gives the time of the segment's newest record, or of its file if the segment is
    empty.
    """
    held = [segment for segment in partition_retention.segments if segment.held_by is not None]
    if not held:
        return None
    holder = next(segment for segment in partition_retention.segments if segment.base_offset == held[0].held_by)
    wait = "without end" if holder.goes_at is None else f"until {time_text(holder.goes_at)}"
    newest = time_text(holder.largest_timestamp)
    time = f"whose newest record is of {newest}" if holder.size else f"which is empty, and whose file is of {newest}"
    by = f"by segment {holder.base_offset}, {time}"
    return f"{counted(len(held), 'segment')} {wait}, {by}"
