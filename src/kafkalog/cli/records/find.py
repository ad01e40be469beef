"""`kafkalog find`: offsets for times, and the batch of an offset, from the log and compared with its indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from msgspec import Struct, structs

from kafkalog.cli.lines import finish, print_lines
from kafkalog.cli.options.common import JSON, REPLICA
from kafkalog.cli.options.numbers import OFFSET
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.remote import Remote, remote_options
from kafkalog.cli.options.selection import selected, selection_options
from kafkalog.cli.options.times import Timestamp
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.plain.insides import Insides
from kafkalog.log import ISOLATION_LEVELS, Partition, open_all
from kafkalog.log.directories.locate import index_findings_of_offset, index_findings_of_time, locate, newest
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import unreadable
from kafkalog.log.reading.consumer_view import READ_COMMITTED
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.words.times import time_text

__all__ = ["command"]

_SPECIAL = {-1: "latest", -2: "earliest", -3: "max-timestamp"}
"""The times of `ListOffsetsRequest` that are none."""
_TIERED = {-4: "earliest-local", -5: "latest-tiered"}
"""The others, of topics with remote storage."""

if TYPE_CHECKING:
    _WhenType = click.ParamType[int | str]
else:
    _WhenType = click.ParamType  # not generic before click 8.4


class _When(_WhenType):
    """Option type for a time, or a word such as `latest`. The negative numbers (-1 to -5) by which `ListOffsetsRequest`
    encodes these words are accepted too.
    """

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return a time in ms since 1970 (from any text that `Timestamp` accepts), or a word such as `latest`, also for
        its negative number in `ListOffsetsRequest`. Fails with `click.BadParameter` for anything else.
        """
        text = str(value).strip()
        word = next((word for number, word in (_SPECIAL | _TIERED).items() if text in (str(number), word)), None)
        return Timestamp().convert(text, param, ctx) if word is None else word


class TimeLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="time"):
    """With `--time`: the first offset with at least that time, as a broker's ListOffsets answers."""

    topic: str | None
    """its topic; null if the directory's name does not give it"""
    partition: int | None
    """its number; null if the directory's name does not give it"""
    time: int | str
    """the requested time: ms since 1970, or `earliest`, `latest`, `max-timestamp`, `earliest-local` or `latest-tiered`
    """
    offset: int | None
    """null if no record has that time, or damage or a limit ends the search before one is found"""
    timestamp: int | None
    """of the record, in ms since 1970; null if there is none, and for all words but `max-timestamp`"""
    leader_epoch: int | None
    """of the record's batch; null if it is unknown"""
    is_behind_damage: bool
    """whether damage or a limit ended the search before a record was found, so that one may come behind it"""


class OffsetLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="offset"):
    """With `--offset`: where a fetch from that offset begins."""

    topic: str | None
    """its topic; null if the directory's name does not give it"""
    partition: int | None
    """its number; null if the directory's name does not give it"""
    offset: int
    """the requested offset"""
    is_there: bool = False
    """whether there is a record of that offset; compaction may have removed it"""
    segment: str | None = None
    """path of the log file; null if the offset is not reached, as are the fields down to `timestamp`"""
    segment_base_offset: int | None = None
    """in the name of that file"""
    position: int | None = None
    """of the batch in that file"""
    size: int | None = None
    """of the batch in bytes"""
    base_offset: int | None = None
    """first offset of the batch"""
    last_offset: int | None = None
    """last offset of the batch"""
    leader_epoch: int | None = None
    """of the batch; null if there is none"""
    is_control: bool | None = None
    """whether it is a control batch, whose records consumers do not see"""
    timestamp: int | None = None
    """of the record, in ms since 1970; null if it is not there"""
    is_below_log_start: bool
    """whether the offset lies below the log start offset, where consumers read nothing"""
    insides: Insides | None = None
    """whether the records of the batch can be read; `not_examined` where it is larger than what is opened"""
    is_behind_damage: bool
    """whether the log is damaged before the offset, so that no consumer reaches it; dump --all shows what comes after
    the damage"""


Line = TimeLine | OffsetLine
"""For each partition one line for each --time, then one for each --offset."""


class _Search:
    """Searches one partition after another, and collects findings in `findings`."""

    def __init__(self, isolation_level: str) -> None:
        self._committed = isolation_level == READ_COMMITTED
        self.findings: list[Finding] = []

    def time(self, partition: Partition, when: int | str) -> TimeLine:
        """Return the answer to a `ListOffsets` request for a time in ms or a word. A time gives the first record at or
        after it, and `max-timestamp` gives the record with the largest timestamp before any damage. `latest` gives the
        log end offset, or with read_committed the last stable offset; `earliest` gives the log start offset,
        `earliest-local` that of the local part, and `latest-tiered` the highest remote offset. The offset is None if
        there is no such record, or if damage or a limit ends the search before one is found; in this second case
        `is_behind_damage` is true. Timestamp and leader epoch are None for words other than `max-timestamp`.

        Damage that the search for a record meets and wrong index entries are added to `findings`. Raises `StorageError`
        if a file cannot be read.
        """
        timestamp: OffsetAndTimestamp | None = None
        offset: int | None = None
        findings: list[Finding] = []
        of_index: list[Finding] = []
        if when == "earliest":
            offset = partition.log_start_offset
        elif when == "latest":
            offset = partition.last_stable_offset() if self._committed else partition.log_end_offset()
        elif when in _TIERED.values():
            offset = _of_tiers(str(when), partition)
        elif when == "max-timestamp":
            timestamp, findings = newest(partition)
        else:
            timestamp = partition.offset_for_timestamp(int(when), findings=findings)
            of_index = index_findings_of_time(partition, int(when))
        self.findings += [*findings, *of_index]
        offset = offset if timestamp is None else timestamp.offset
        has_errors = any(finding.severity is Severity.ERROR for finding in findings)
        return TimeLine(
            topic=partition.topic,
            partition=partition.partition,
            time=when,
            offset=offset,
            is_behind_damage=offset is None and has_errors,
            timestamp=None if timestamp is None else timestamp.timestamp,
            leader_epoch=None if timestamp is None or timestamp.leader_epoch < 0 else timestamp.leader_epoch,
        )

    def offset(self, partition: Partition, offset: int) -> OffsetLine:
        """Return segment, position and batch with which a fetch from `offset` begins. An offset below the log start is
        searched too, although consumers read nothing there. The fields are None if `offset` is beyond the end of the
        log, or if damage ends the search; only for damage `is_behind_damage` is true. Damage and wrong index entries
        are added to `findings`. Raises `StorageError` if a file cannot be read.
        """
        self.findings += index_findings_of_offset(partition, offset)
        found, findings = locate(partition, offset)
        self.findings += findings
        line = OffsetLine(
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
            is_below_log_start=offset < partition.log_start_offset,
            is_behind_damage=found is None and any(finding.severity is Severity.ERROR for finding in findings),
        )
        if found is None:
            return line
        return structs.replace(
            line, is_there=found.is_there, segment=found.segment, segment_base_offset=found.segment_base_offset,
            position=found.position, size=found.size, base_offset=found.base_offset, last_offset=found.last_offset,
            is_control=found.is_control, timestamp=found.record_timestamp, insides=found.insides,
            leader_epoch=found.leader_epoch if found.leader_epoch >= 0 else None,
        )  # fmt: skip


def _of_tiers(word: str, partition: Partition) -> int | None:
    from kafkalog.tiers.reading import tier_bounds

    bounds = tier_bounds(partition)
    if word == "earliest-local":
        return partition.log_start_offset if bounds is None else bounds.local_log_start
    return None if bounds is None or bounds.highest_remote_offset < 0 else bounds.highest_remote_offset


def _lines(
    search: _Search, partitions: list[Partition], times: tuple[int | str, ...], offsets: tuple[int, ...]
) -> Iterator[Line]:
    for partition in partitions:
        try:
            for when in times:
                yield search.time(partition, when)
            for offset in offsets:
                yield search.offset(partition, offset)
        except StorageError as error:
            search.findings.append(unreadable(error, partition.path))


def _state(line: OffsetLine) -> str:
    if line.is_behind_damage:
        return "not reached: damage comes before"
    if line.segment is None:
        return "beyond the end"
    if line.is_below_log_start:
        return "below the log start"
    if line.insides == Insides.UNREADABLE:
        return "its batch cannot be read"
    if not line.is_there:
        if line.insides == Insides.NOT_EXAMINED:
            return "its batch was not opened: it is beyond a limit"
        return "no such record: the batch that comes next"
    return "control record" if line.is_control else ""


def _offset(line: TimeLine) -> int | str:
    if line.offset is not None:
        return line.offset
    return "not reached: damage comes before" if line.is_behind_damage else "none"


def _print(lines: list[Line]) -> None:
    times = [line for line in lines if isinstance(line, TimeLine)]
    if times:
        print_table(
            "offsets of times",
            ["topic", "partition", "time", "offset", Column("timestamp", drop=2), Column("leader epoch", drop=1)],
            [
                [line.topic, line.partition,
                 line.time if isinstance(line.time, str) else time_text(line.time),
                 _offset(line), time_text(line.timestamp),
                 line.leader_epoch]
                for line in times
            ],
        )  # fmt: skip
    offsets = [line for line in lines if isinstance(line, OffsetLine)]
    if offsets:
        print_table(
            "where offsets are",
            ["topic", "partition", "offset", "segment", "position", Column("size", Kind.BYTES, drop=3),
             Column("first", drop=2), Column("last", drop=1), Column("leader epoch", drop=4),
             Column("timestamp", drop=5), Column("remark", wraps=True, if_any=True)],
            [
                [line.topic, line.partition, line.offset, os.path.basename(line.segment or ""),
                 line.position, line.size, line.base_offset, line.last_offset, line.leader_epoch,
                 time_text(line.timestamp), _state(line)]
                for line in offsets
            ],
        )  # fmt: skip


@click.command(name="find")
@PATHS
@click.option("--time", "times", type=_When(), multiple=True, metavar="TIME",
              help="Find the first offset at or after this time: ms since 1970, ISO 8601, or earliest, latest, "
              "max-timestamp, and with --remote earliest-local or latest-tiered.  May be repeated.")  # fmt: skip
@click.option("--offset", "offsets", type=OFFSET, multiple=True, metavar="N",
              help="Find where this offset is: segment, position, batch.  May be repeated.")  # fmt: skip
@selection_options
@click.option("--isolation-level", type=click.Choice(ISOLATION_LEVELS), default=ISOLATION_LEVELS[0], show_default=True,
              help="With read_committed, latest is the last stable offset.")  # fmt: skip
@remote_options
@JSON
@REPLICA
@paths_in_properties
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    remote: Remote,
    times: tuple[int | str, ...],
    offsets: tuple[int, ...],
    chosen: Selection,
    isolation_level: str,
    as_json: bool,
    replica: str | None,
) -> int:
    """Find the offset of a time, as a broker's ListOffsets does, or the place of an offset.

    The answers come from the log.  The indexes that a broker would use are compared with it; errors in them are
    reported on standard error.

    At least one --time or --offset is needed, and --isolation-level read_committed needs --time latest; otherwise the
    exit code is 64. It is 0 if all is well, 1 if something was found, such as a wrong index, 4 if something could not
    be read.
    """
    if not times and not offsets:
        raise UsageError("nothing to find: give --time or --offset")
    if isolation_level == READ_COMMITTED and "latest" not in times:
        raise UsageError("--isolation-level has an effect only with --time latest")
    of_tiers = next((word for word in times if word in _TIERED.values()), None)
    if of_tiers is not None and remote.uri is None:
        raise UsageError(f"--time {of_tiers} is about remote storage: name it with --remote")
    inventory = open_all(*remote.beside(paths), tolerant=True)
    partitions = selected(chosen, inventory.all_readable(replica, chosen), inventory.all_unreadable)
    search = _Search(isolation_level)
    search.findings += [*inventory.half_done, *chosen.of_unreadable(inventory.all_unreadable)]
    lines = _lines(search, partitions, times, offsets)
    if as_json:
        print_lines(lines)
    else:
        _print(list(lines))
    return finish(search.findings)
