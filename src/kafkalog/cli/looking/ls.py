"""`kafkalog ls`: list log directories and partitions with their health."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

import click
from msgspec import Struct

from kafkalog.cli.options.common import JOBS, JSON
from kafkalog.cli.options.paths import PATHS, paths_in_properties
from kafkalog.cli.options.selection import selected, selection_options
from kafkalog.cli.output import behind_text, print_json, remark, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.shapes.ls_lines import DeletedSegmentLine, LsLine, PartitionLine
from kafkalog.cli.tables import MANY, Column, Kind, print_table, size_text
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted
from kafkalog.codec.files.text import LeaderEpochJson
from kafkalog.codec.names import DirectoryState, may_be_cut
from kafkalog.inspect.health import DirectoryHealth, PartitionHealth, health_of
from kafkalog.log import LogDir, open_all
from kafkalog.log.directories.deleted import deleted_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.walk.summary import segment_line
from kafkalog.recovery.act.unfinished_business import Standing, StandingJson
from kafkalog.recovery.decide.losses import first_names
from kafkalog.tiers.tiering import TieringJson
from kafkalog.words.advice import in_options
from kafkalog.words.cut_names import cut_name_text
from kafkalog.words.escapes import escape_controls
from kafkalog.words.exit_codes import exit_code_of_findings
from kafkalog.words.insides import NOT_EXAMINED
from kafkalog.words.times import moment_text, unit_remarks

__all__ = ["command"]

_UNKNOWN = "unknown"
"""An offset that cannot be told from damaged bytes; one that there is none of stays empty."""


def _topic_id(partition: Partition) -> str | None:
    return partition.metadata.topic_id if partition.metadata is not None else None


def _partition_line(summary: PartitionHealth, log_dir: LogDir | None) -> PartitionLine:
    partition, start = summary.partition, summary.local_start
    key = (partition.topic or "", partition.partition or 0)
    return PartitionLine(
        path=partition.path,
        topic=partition.topic,
        partition=partition.partition,
        state=partition.state.value or "live",
        topic_id=_topic_id(partition),
        log_start_offset=summary.log_start_offset,
        tiering=shaped(start, TieringJson) if start and start.is_tiered else None,
        log_end_offset=summary.log_end_offset,
        first_offset=summary.first_offset,
        last_offset=summary.last_offset,
        first_timestamp=summary.first_timestamp,
        last_timestamp=summary.last_timestamp,
        high_watermark=log_dir.high_watermarks.get(key) if log_dir is not None else None,
        recovery_point=log_dir.recovery_points.get(key) if log_dir is not None else None,
        bytes=partition.size,
        codecs=summary.codecs,
        health=_health_text(summary),
        sound_batches_behind_damage=summary.behind.batches,
        sound_records_behind_damage=summary.behind.records,
        leader_epochs=[LeaderEpochJson(*leader_epoch) for leader_epoch in partition.leader_epochs],
        segments=[segment_line(each, summary.behind.of(each.segment)) for each in summary.segments],
        unfinished_files=partition.unfinished,
        deleted_segments=[
            DeletedSegmentLine(base_offset=segment.base_offset, path=segment.path, bytes=segment.size)
            for segment in deleted_segments(partition)
        ],
    )


def _line(health: DirectoryHealth) -> LsLine:
    """Return the JSON line of a log directory. Its findings are those of the directory and then those of its
    partitions. The fields about a log directory are None if the path is a partition directory or a segment, or cannot
    be read; the ids are None too if there is no `meta.properties` that can be read. Raises `StorageError` if a file
    marked for deletion cannot be examined.
    """
    log_dir, partitions = health.log_dir, health.partitions
    meta = None if log_dir is None else log_dir.meta_properties
    findings = [*health.findings, *(finding for partition in partitions for finding in partition.findings)]
    return LsLine(
        path=health.path,
        clean_shutdown=None if log_dir is None else log_dir.clean_shutdown is not None,
        cluster_id=None if meta is None else meta.cluster_id,
        node_id=None if meta is None else meta.node_id,
        directory_id=None if meta is None else meta.directory_id,
        standing=None if health.standing is None else shaped(health.standing, StandingJson),
        findings=shaped(findings, list[FindingJson]),
        partitions=[_partition_line(partition, log_dir) for partition in partitions],
    )


def _health_text(health: PartitionHealth) -> str:
    words = list(health.words)
    if health.behind.batches:
        words.append(f"{behind_text(health.behind.batches, health.behind.records)} after damage")
    return ", ".join(words) if words else "ok"


def _codecs(codecs: dict[str, int]) -> str:
    return " ".join(f"{name}:{count}" for name, count in codecs.items())


def _print_partitions(
    title: str, summaries: list[PartitionHealth], *, each_of_many: bool, with_directory: bool = False
) -> None:
    """Print a table of partitions, with a row of totals if there are several; `with_directory` adds a column with the
    parent directory. If there are more than `MANY` partitions and `each_of_many` is False, print a summary in a few
    lines first. The table and its totals are then limited to the partitions that are not sound or not live (future,
    deleted, stray); without such partitions the table is omitted.
    """
    if len(summaries) > MANY and not each_of_many:
        with SentenceWriter() as writer:
            writer.write(title)
            for line in _paragraph(summaries):
                writer.write(line)
        summaries = [
            each for each in summaries if not each.is_sound or each.partition.state is not DirectoryState.LIVE
        ]
        if not summaries:
            return
        title = "not sound, or not live"
    columns: list[str | Column] = [
        "topic",
        "partition",
        Column("state", if_any=True),
        Column("directory", if_any=True, wraps=True),
        Column("segments", drop=4),
        Column("start", drop=5),
        Column("local start", if_any=True),
        Column("first", drop=6),
        Column("last", drop=3),
        "end",
        Column("from", Kind.TIME, drop=8),
        Column("to", Kind.TIME, drop=2),
        Column("bytes", Kind.BYTES, drop=1),
        Column("codecs", drop=7, wraps=True),
        Column("health", wraps=True, alarms=True),
    ]
    print_table(
        title,
        columns,
        [
            [
                summary.partition.topic,
                summary.partition.partition,
                summary.partition.state.value,
                os.path.dirname(summary.partition.path) if with_directory else "",
                len(summary.segments) if summary.is_listed else _UNKNOWN,
                summary.log_start_offset if summary.is_listed else _UNKNOWN,
                summary.local_log_start_offset,
                _UNKNOWN if summary.is_unknown else summary.first_offset,
                _UNKNOWN if summary.is_unknown else summary.last_offset,
                _UNKNOWN if summary.log_end_offset is None else summary.log_end_offset,
                summary.first_timestamp,
                summary.last_timestamp,
                summary.partition.size if summary.is_listed else None,
                _codecs(summary.codecs),
                _health_text(summary),
            ]
            for summary in summaries
        ],
        totals=_Sum.of(summaries).cells(),
    )


class _Sum(Struct, frozen=True, kw_only=True):
    """Totals over several partitions."""

    partitions: int
    hurt: int
    unlisted: int
    """whose directory could not be listed: no total includes them"""
    segments: int
    size: int
    first_timestamp: int | None
    last_timestamp: int | None

    @classmethod
    def of(cls, summaries: Sequence[PartitionHealth]) -> _Sum:
        firsts = (summary.first_timestamp for summary in summaries)
        lasts = (summary.last_timestamp for summary in summaries)
        return cls(
            partitions=len(summaries),
            hurt=sum(not summary.is_sound for summary in summaries),
            unlisted=sum(not summary.is_listed for summary in summaries),
            segments=sum(len(summary.segments) for summary in summaries),
            size=sum(summary.partition.size for summary in summaries),
            first_timestamp=min((first for first in firsts if first is not None), default=None),
            last_timestamp=max((last for last in lasts if last is not None), default=None),
        )

    def cells(self) -> list[object]:
        """Return the cells of the table's last row."""
        health = f"{self.hurt} not ok" if self.hurt else "ok"
        health += f", {self.unlisted} not counted" if self.unlisted else ""
        times = (self.first_timestamp, self.last_timestamp)
        return ["total", self.partitions, "", "", self.segments, "", "", "", "", "", *times, self.size, "", health]


def _paragraph(summaries: Sequence[PartitionHealth]) -> list[str]:
    """Return two lines about many partitions: first the numbers of partitions, topics and segments, the bytes, and the
    time span and codecs if they are known; then how many partitions are sound.
    """
    total = _Sum.of(summaries)
    topics = len({each.partition.topic for each in summaries})
    codecs: Counter[str] = Counter()
    for summary in summaries:
        codecs.update(summary.codecs)
    told = f"{total.partitions} partitions of {counted(topics, 'topic')} in {total.segments} segments, "
    told += size_text(total.size)
    if total.first_timestamp is not None and total.last_timestamp is not None:
        told += f", from {moment_text(total.first_timestamp)} to {moment_text(total.last_timestamp)}"
    if codecs:
        told += f"; batches by compression: {_codecs(dict(sorted(codecs.items())))}"
    sound = total.partitions - total.hurt
    whole = "all partitions are sound" if not total.hurt else f"{sound} of {total.partitions} partitions are sound"
    return [told, f"{whole}, as far as headers and checksums tell; --all lists each of them"]


def _print_deleted(summaries: list[PartitionHealth]) -> None:
    """Print a sentence for each log directory with segments marked for deletion (`.deleted`): their number and total
    size, the first partitions, and the command that shows them. Raises `StorageError` if a file cannot be examined.
    """
    waiting: dict[str, dict[str, list[int]]] = {}
    for partition in (summary.partition for summary in summaries):
        sizes = [segment.size for segment in deleted_segments(partition)]
        if sizes:
            root, name = os.path.split(partition.path)
            waiting.setdefault(root or ".", {})[name] = sizes
    with SentenceWriter() as writer:
        for root, by_name in waiting.items():
            sizes = [size for sizes in by_name.values() for size in sizes]
            held = f"{counted(len(sizes), 'deleted segment')} of {size_text(sum(sizes))} in {first_names([*by_name])}"
            writer.write(escape_controls(f"{held}; to see what is in them: kafkalog undelete {shell_word(root)}"))


def _print_cut_names(summaries: list[PartitionHealth]) -> None:
    """Print one line for each partition directory whose name may have only a part of the topic: its topic id, or that
    it has none. Names of deleted, stray and future directories are limited in length, so long topic names are cut off.
    """
    with SentenceWriter() as writer:
        for summary in summaries:
            directory = os.path.basename(summary.partition.path)
            if may_be_cut(directory):
                writer.write(f"{escape_controls(directory)}: {cut_name_text(_topic_id(summary.partition))}")


def _print_segments(summary: PartitionHealth) -> None:
    print_table(
        escape_controls(summary.partition.path),
        [
            "segment",
            Column("first", drop=4),
            "last",
            Column("from", Kind.TIME, drop=5),
            Column("to", Kind.TIME, drop=2),
            Column("bytes", Kind.BYTES),
            Column("batches", drop=1),
            Column("codecs", drop=3, wraps=True),
            Column("after damage", wraps=True, if_any=True, alarms=True),
            Column("ends", wraps=True),
        ],
        [
            [
                segment.segment.base_offset,
                _UNKNOWN if segment.first_offset is None and segment.segment.size else segment.first_offset,
                _UNKNOWN if segment.last_offset is None and segment.segment.size else segment.last_offset,
                segment.first_timestamp,
                segment.last_timestamp,
                segment.segment.size,
                segment.batches,
                _codecs(segment.codecs),
                behind_text(*summary.behind.of(segment.segment)),
                str(segment.stop),
            ]
            for segment in summary.segments
        ],
    )


def _title(log_dir: LogDir, stands: Standing) -> str:
    """Return the title of a log directory's table, in one or more lines. The first line has the path, the cluster id
    and node id if known, and whether the broker stopped cleanly. Each further line is a sentence of `stands`: about
    a lock, unfinished executions, or one that can be undone.
    """
    meta = log_dir.meta_properties
    clean = "not stopped cleanly" if log_dir.clean_shutdown is None else "stopped cleanly"
    named = [] if meta is None else [("cluster id", meta.cluster_id), ("node id", meta.node_id)]
    known = [f"{name} {value}" for name, value in named if value is not None]
    title = escape_controls(f"{log_dir.path} ({', '.join([*known, clean])})")
    return "\n".join([title, *(escape_controls(sentence) for sentence in stands.sentences(in_options))])


def _in_order(summaries: Iterable[PartitionHealth], *, damage_first: bool) -> list[PartitionHealth]:
    return sorted(summaries, key=lambda each: each.is_sound) if damage_first else list(summaries)


@click.command(name="ls")
@PATHS
@selection_options
@click.option("--segments", "with_segments", is_flag=True, help="Print a table of segments for every partition.")
@click.option("--damage-first", is_flag=True, help="List the damaged partitions of all PATHs first.")
@click.option("--all", "each_of_many", is_flag=True, help=f"List every partition, even if there are more than {MANY}.")
@JOBS
@paths_in_properties
@JSON
def command(
    paths: tuple[str, ...],
    chosen: Selection,
    with_segments: bool,
    damage_first: bool,
    each_of_many: bool,
    jobs: int,
    as_json: bool,
) -> int:
    """List topics, partitions and segments, with their health: offsets, times, bytes, codecs.

    Reads every batch and checks its checksum; `kafkalog verify` also checks the contents of batches.  Also lists
    deleted, future and stray directories.  If only some partitions are chosen, log directories that hold none of
    them are left out.  Exit code 0 if all is well, 1 if something was found, 4 if something could not be read; the
    rest is listed.
    """
    if as_json and with_segments:
        raise UsageError("--segments is a table; --json has the segments of every partition anyway")
    if as_json and (damage_first or each_of_many):
        raise UsageError(f"{'--damage-first' if damage_first else '--all'} is for the table; --json lists everything")
    inventory = open_all(*paths, tolerant=True, missing_too=True)
    wanted = selected(chosen, inventory.partitions, inventory.all_unreadable)
    with ByteProgress("reading", sum(partition.size for partition in wanted)) as progress:
        listed = health_of(inventory, chosen, wanted, jobs, progress.advance)
    if as_json:
        for directory_health in listed:
            print_json(_line(directory_health))
    else:
        _print(listed, with_segments=with_segments, damage_first=damage_first, each_of_many=each_of_many)
    findings = [finding for health in listed for finding in health.findings]
    findings += [finding for health in listed for partition in health.partitions for finding in partition.findings]
    times = [(str(one.partition.name or one.partition.path), one.first_timestamp, one.last_timestamp)
             for health in listed for one in health.partitions]  # fmt: skip
    for each_remark in unit_remarks(times):
        remark(each_remark)
    report_findings(findings)
    return exit_code_of_findings(findings)


def _print(listed: Sequence[DirectoryHealth], *, with_segments: bool, damage_first: bool, each_of_many: bool) -> None:
    standalone: list[PartitionHealth] = []
    is_over_all = damage_first and len(listed) > 1
    damaged = (
        [partition for each in listed for partition in each.partitions if not partition.is_sound] if is_over_all else []
    )
    if damaged:
        title = "not sound, in all directories"
        _print_partitions(title, damaged, each_of_many=True, with_directory=True)
    for health in listed:
        if health.log_dir is not None and health.standing is not None:
            rest = [partition for partition in health.partitions if partition.is_sound or not is_over_all]
            shown = _in_order(rest, damage_first=damage_first)
            _print_partitions(_title(health.log_dir, health.standing), shown, each_of_many=each_of_many)
        else:
            standalone += health.partitions
    if standalone:
        rest = [partition_health for partition_health in standalone if partition_health.is_sound or not is_over_all]
        shown = _in_order(rest, damage_first=damage_first)
        places = dict.fromkeys(partition_health.partition.path for partition_health in standalone)
        title = escape_controls(*places) if len(places) == 1 else "partitions and segments named by their paths"
        _print_partitions(title, shown, each_of_many=each_of_many)
    summaries = [partition for directory_health in listed for partition in directory_health.partitions]
    _print_deleted(summaries)
    _print_cut_names(summaries)
    if with_segments:
        for summary in summaries:
            _print_segments(summary)
    tables = [each.partitions for each in listed if each_of_many or len(each.partitions) <= MANY]
    if any(partition.is_sound for partitions in tables for partition in partitions):
        with SentenceWriter() as writer:
            writer.write(f"ok means headers and checksums; {NOT_EXAMINED}")
