"""`kafkalog top`: which topics, keys or producers fill the disk, when they wrote, and which records were written
twice.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any

import click
from msgspec import UNSET, Struct, UnsetType

from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import JOBS, JSON, REPLICA
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selection_options
from kafkalog.cli.options.times import time_range_options
from kafkalog.cli.output import remark
from kafkalog.cli.tables import Column, Kind, print_table, size_text
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.top import top
from kafkalog.inspect.top_groups import TopBy, TopGroup, TopQuestion
from kafkalog.log.directories.selection import Selection
from kafkalog.words.escapes import escape_controls, text_of
from kafkalog.words.times import unit_remarks

__all__ = ["command"]

_LONGEST_KEY = 60


class TopLine(Struct, frozen=True, kw_only=True):
    """One line for each group, the largest first."""

    topic: str | None
    """its topic; null if records are not told apart by it"""
    partition: int | None
    """its number; null if records are not told apart by it"""
    key: str | None
    """the key of its records; null if there is none, if it is not UTF-8, or if records are not told apart by it"""
    producer_id: int | None
    """who wrote them, -1 without one; null if records are not told apart by it"""
    time: int | None
    """where the hour or minute begins, in ms since 1970; null for records without a timestamp, or if records are not
    told apart by it"""
    key_b64: str | UnsetType = UNSET
    """the key in base64; only where it is not UTF-8"""
    records: int
    """number of them"""
    bytes: int
    """of their keys and values, not compressed"""
    disk_bytes: int | None
    """of the log files of its topic or partition; null where groups are not whole topics or partitions"""
    missed_bytes: int
    """by how much the counts may be too low, because there were more groups than fit in memory; the same in every
    line"""
    first_timestamp: int | None
    """ms since 1970; null without timestamps"""
    last_timestamp: int | None
    """ms since 1970; null without timestamps"""
    records_per_minute: float | None
    """between these two; null if they are the same"""


@click.command(name="top")
@PATHS
@click.option("--by", "ways", type=click.Choice([by.value for by in TopBy]), multiple=True, default=("topic",),
              show_default=True,
              help="Property to group by; may be repeated. repeat: the same key and value in a topic.")  # fmt: skip
@click.option("--sort", "order", type=click.Choice(["bytes", "records"]), default="bytes", show_default=True,
              help="The measure to sort by.")  # fmt: skip
@click.option("-n", "--limit", "most", type=click.IntRange(min=1), default=20, show_default=True,
              help="Number of groups to print, the largest first.")  # fmt: skip
@time_range_options
@selection_options
@click.option("--isolation-level", type=click.Choice(["read_uncommitted", "read_committed"]),
              default="read_uncommitted", show_default=True, help="Isolation level, as in a consumer's "
                  "settings.")  # fmt: skip
@JOBS
@REPLICA
@paths_in_properties
@JSON
def command(
    paths: tuple[str, ...],
    ways: tuple[str, ...],
    chosen: Selection,
    as_json: bool,
    **given: Any,
) -> int:
    """Show what fills a log directory: records and bytes by topic, partition, key, producer or time.

    The bytes of whole topics and partitions are the sizes of their log files.  Those of keys, producers and times
    are the bytes of keys and values before compression.  The rate is the average between the first and the last record
    of a group.  A record of magic 0 has no time, and one without a producer id has -1.

    Exit code 0, 1 if damage ended the reading of a partition or a recovery was cut short, 4 if something could not
    be read.
    """
    if {"hour", "minute"} <= set(ways):
        raise UsageError("--by hour and --by minute are two ways to group by time: give one of them")
    groups = top(
        TopQuestion(
            by=[TopBy(way) for way in ways],
            order=given["order"],
            most=given["most"],
            start_time=given["start_time"],
            end_time=given["end_time"],
            isolation_level=given["isolation_level"],
        ),
        *paths,
        select=chosen,
        replica=given["replica"],
        threads=given["jobs"],
    )
    if as_json:
        print_lines(_line(group, groups.missed_bytes) for group in groups.groups)
    else:
        title = f"{counted(groups.records, 'record')}, {size_text(groups.size)} of keys and values before compression"
        if groups.disk_size is not None:
            title += f", {size_text(groups.disk_size)} of log files"
        if groups.missed_bytes:
            title += f"; too many groups for memory, each figure may be too low by {size_text(groups.missed_bytes)}"
        print_table(
            title,
            [Column("topic", if_any=True), Column("partition", if_any=True), Column("key", if_any=True, wraps=True),
             Column("producer id", if_any=True), Column("time", Kind.TIME, if_any=True), "records",
             Column("on disk", Kind.BYTES, if_any=True), Column("uncompressed", Kind.BYTES), Column("share", drop=1),
             Column("records/min", drop=2), Column("first", Kind.TIME, drop=4), Column("last", Kind.TIME, drop=3)],
            [
                [group.topic, group.partition, _shown(group.key), group.producer_id, group.time, group.records,
                 group.disk_size, group.size, _share(group.size, groups.size, group.disk_size, groups.disk_size),
                 None if group.records_per_minute is None else f"{group.records_per_minute:.1f}",
                 group.first_timestamp, group.last_timestamp]
                for group in groups.groups
            ],
        )  # fmt: skip
    for open_transaction in [*groups.open_transactions, *unit_remarks(map(_times, groups.groups))]:
        remark(open_transaction)
    return finish(groups.findings)


def _times(group: TopGroup) -> tuple[str, int | None, int | None]:
    """Return the name of a group for a sentence, and its smallest and largest time."""
    place = "-".join(str(each) for each in (group.topic, group.partition) if each is not None)
    return place or "the records", group.first_timestamp, group.last_timestamp


def _share(size: int, of: int, on_disk: int | None, of_disk: int | None) -> str:
    """Return a group's share as text: of the disk if both disk sizes are known, else of all bytes; empty if the total
    is 0.
    """
    part, whole = (size, of) if on_disk is None or of_disk is None else (on_disk, of_disk)
    return f"{100 * part / whole:.1f} %" if whole else ""


def _line(group: TopGroup, missed_bytes: int) -> TopLine:
    key, key_b64 = _key(group.key)
    return TopLine(
        topic=group.topic,
        partition=group.partition,
        key=key,
        key_b64=key_b64,
        producer_id=group.producer_id,
        time=group.time,
        records=group.records,
        bytes=group.size,
        disk_bytes=group.disk_size,
        missed_bytes=missed_bytes,
        first_timestamp=group.first_timestamp,
        last_timestamp=group.last_timestamp,
        records_per_minute=group.records_per_minute,
    )


def _key(key: bytes | None) -> tuple[str | None, str | UnsetType]:
    if key is None:
        return None, UNSET
    try:
        return key.decode("utf-8"), UNSET
    except UnicodeDecodeError:
        return None, b2a_base64(key, newline=False).decode("ascii")


def _shown(key: bytes | None) -> str | None:
    if key is None:
        return None
    text = text_of(key[: 4 * _LONGEST_KEY])
    return escape_controls(text) if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 1] + "…"
