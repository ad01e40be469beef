"""`kafkalog ls`: an inventory of what is there, and whether it is whole."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import click

from kafkalog.cli.advice_words import in_options
from kafkalog.cli.options.common import JOBS, JSON, job_count
from kafkalog.cli.options.paths import PATHS, SERVER_PROPERTIES, properties_only_for
from kafkalog.cli.options.selection import chosen_findings, chosen_of, selected, selection_options
from kafkalog.cli.outcome import outcome_of_findings
from kafkalog.cli.output import LineWriter, behind_text, escape_controls, print_json, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.tables import MANY, Column, Kind, print_table, size_text
from kafkalog.cli.times import moment_text
from kafkalog.codec.errors import StorageError, UsageError
from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.codec.names import META_PROPERTIES, DirectoryState
from kafkalog.codec.wording import counted
from kafkalog.log import Inventory, LogDir, Partition, open_all
from kafkalog.log.directories.checkpoint_findings import checkpoint_findings
from kafkalog.log.directories.chosen import ALL, Chosen
from kafkalog.log.directories.deleted import deleted_segments
from kafkalog.log.disk.files import unreadable
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.log.walk.behind_damage import BehindDamage, behind_first_damage, with_what_is_behind
from kafkalog.log.walk.missing import MissingOffsets
from kafkalog.log.walk.summary import SegmentSummary, summarize
from kafkalog.recovery.act.unfinished_business import Standing, standing
from kafkalog.recovery.checks.missing_partitions import missing_partitions_of
from kafkalog.recovery.checks.missing_segments import missing_from
from kafkalog.recovery.checks.partition import Beside
from kafkalog.recovery.checks.verify import beside_of
from kafkalog.recovery.facts.workers import OnRead, in_order
from kafkalog.tiers.tiering import LocalStart

__all__ = ["command"]

_UNKNOWN = "unknown"
"""An offset that cannot be told from damaged bytes; one that there is none of stays empty."""


@dataclass(frozen=True)
class _PartitionSummary:
    partition: Partition
    segments: tuple[SegmentSummary, ...]
    findings: tuple[Finding, ...]
    behind: BehindDamage
    is_read: bool = True
    """False: the operating system did not give it out"""
    local_start: LocalStart | None = None
    """where a log begins that a log directory around it tells of; None without a segment"""

    @property
    def log_start_offset(self) -> int:
        """In whichever tier it is."""
        found = self.local_start
        return self.partition.log_start_offset if found is None or not found.is_tiered else found.log_start

    @property
    def local_log_start_offset(self) -> int | None:
        """Of a tiered log whose first segments are elsewhere."""
        found = self.local_start
        return found.local_log_start if found is not None and found.is_tiered else None

    @property
    def log_end_offset(self) -> int | None:
        if not self.is_read:
            return None
        return max((each.next_offset for each in self.segments), default=self.partition.log_start_offset)

    @property
    def is_unknown(self) -> bool:
        """There are bytes, and no offset can be told from them."""
        return self.first_offset is None and (not self.is_read or self.partition.size > 0)

    @property
    def first_offset(self) -> int | None:
        return next((each.first_offset for each in self.segments if each.first_offset is not None), None)

    @property
    def last_offset(self) -> int | None:
        return next((each.last_offset for each in reversed(self.segments) if each.last_offset is not None), None)

    @property
    def first_timestamp(self) -> int | None:
        return min((each.first_timestamp for each in self.segments if each.first_timestamp is not None), default=None)

    @property
    def last_timestamp(self) -> int | None:
        return max((each.last_timestamp for each in self.segments if each.last_timestamp is not None), default=None)

    @property
    def codecs(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for segment in self.segments:
            total.update(segment.codecs)
        return dict(sorted(total.items()))

    @property
    def health(self) -> str:
        """The worst that was found, in a word."""
        stops = [str(each.stop) for each in self.segments if each.stop is not StopReason.END]
        serious = [str(found.code) for found in self.findings if found.severity is not Severity.INFO]
        words = list(dict.fromkeys([*stops, *serious]))
        if self.behind.batches:
            words.append(f"{behind_text(self.behind.batches, self.behind.records)} after damage")
        return ", ".join(words) if words else "ok"


def _summarize(
    partition: Partition, log_dir: LogDir | None, beside: Beside | None, told: OnRead | None
) -> _PartitionSummary:
    try:
        return _summary(partition, log_dir, beside, told)
    except StorageError as error:
        findings = (*partition.findings, unreadable(error, partition.path))
        return _PartitionSummary(partition, (), findings, BehindDamage(), is_read=False)


def _summary(
    partition: Partition, log_dir: LogDir | None, beside: Beside | None, told: OnRead | None
) -> _PartitionSummary:
    following: list[int | None] = [segment.base_offset for segment in partition.segments[1:]]
    segments = tuple(
        summarize(segment, next_segment=base, on_bytes=told)
        for segment, base in zip(partition.segments, [*following, None], strict=False)
    )
    findings = [*partition.findings, *(found for each in segments for found in each.findings)]
    behind = BehindDamage()
    damage = behind_first_damage(partition.segments, findings, log_start=partition.log_start_offset)
    if damage is not None:
        finding, behind = damage
        findings[findings.index(finding)] = with_what_is_behind(finding, behind)
    findings += missing_from(partition, _missing(segments))
    local_start = None
    if log_dir is not None and partition.name is not None and partition.state is DirectoryState.LIVE:
        key = (partition.name.topic, partition.name.partition)
        end = max((each.next_offset for each in segments), default=partition.log_start_offset)
        start = log_dir.log_start_offsets.get(key, 0)
        findings += checkpoint_findings(partition, end, start, log_dir.high_watermarks.get(key))
        local_start = None if beside is None else beside.local_start(partition, end)
    return _PartitionSummary(partition, segments, tuple(findings), behind, local_start=local_start)


def _missing(segments: Sequence[SegmentSummary]) -> list[tuple[int, int]]:
    missing = MissingOffsets()
    following: list[int | None] = [each.segment.base_offset for each in segments[1:]]
    for each, next_base in zip(segments, [*following, None], strict=False):
        missing.segment(each.segment.base_offset, next_base, was_emptied=each.segment.was_emptied())
        if each.first_offset is not None and each.last_offset is not None:
            missing.batches(each.first_offset, each.last_offset, has_gaps=each.has_gaps)
        if each.stop is not StopReason.END:
            missing.damaged()
    return missing.found


def _segment_object(summary: SegmentSummary, behind: BehindDamage) -> dict[str, object]:
    segment = summary.segment
    batches, records = behind.of(segment)
    return {
        "base_offset": segment.base_offset,
        "path": segment.path,
        "bytes": segment.size,
        "valid_bytes": summary.valid_bytes,
        "stop": str(summary.stop),
        "batches": summary.batches,
        "sound_batches_behind_damage": batches,
        "sound_records_behind_damage": records,
        "first_offset": summary.first_offset,
        "last_offset": summary.last_offset,
        "first_timestamp": summary.first_timestamp,
        "last_timestamp": summary.last_timestamp,
        "codecs": summary.codecs,
        "magics": {str(magic): count for magic, count in summary.magics.items()},
        "files": {kind.value: size for kind, size in segment.sizes.items()},
    }


def _partition_object(summary: _PartitionSummary, log_dir: LogDir | None) -> dict[str, object]:
    partition = summary.partition
    key = (partition.topic or "", partition.partition or 0)
    return {
        "path": partition.path,
        "topic": partition.topic,
        "partition": partition.partition,
        "state": partition.state.value or "live",
        "topic_id": partition.metadata.topic_id if partition.metadata is not None else None,
        "log_start_offset": summary.log_start_offset,
        "tiering": summary.local_start.as_dict() if summary.local_start and summary.local_start.is_tiered else None,
        "log_end_offset": summary.log_end_offset,
        "first_offset": summary.first_offset,
        "last_offset": summary.last_offset,
        "first_timestamp": summary.first_timestamp,
        "last_timestamp": summary.last_timestamp,
        "high_watermark": log_dir.high_watermarks.get(key) if log_dir is not None else None,
        "recovery_point": log_dir.recovery_points.get(key) if log_dir is not None else None,
        "bytes": partition.size,
        "codecs": summary.codecs,
        "health": summary.health,
        "sound_batches_behind_damage": summary.behind.batches,
        "sound_records_behind_damage": summary.behind.records,
        "leader_epochs": [{"epoch": each.epoch, "start_offset": each.start_offset} for each in partition.leader_epochs],
        "segments": [_segment_object(each, summary.behind) for each in summary.segments],
        "unfinished_files": list(partition.unfinished),
        "deleted_segments": [
            {"base_offset": each.base_offset, "path": each.path, "bytes": each.size}
            for each in deleted_segments(partition)
        ],
    }


def _line(
    path: str,
    log_dir: LogDir | None,
    stands: Standing | None,
    found: Sequence[_PartitionSummary],
    rest: Sequence[Finding],
) -> dict[str, object]:
    """The JSON line of a log directory, or of what was pointed at itself: a partition directory, a segment."""
    facts = dict.fromkeys(_FACTS) if log_dir is None else _facts(log_dir)
    findings = [*rest, *(finding for each in found for finding in each.findings)]
    return {
        "path": path,
        **facts,
        "standing": None if stands is None else stands.as_dict(),
        "findings": [finding.as_dict() for finding in findings],
        "partitions": [_partition_object(each, log_dir) for each in found],
    }


_FACTS = ("clean_shutdown", "cluster_id", "node_id", "directory_id")


def _facts(log_dir: LogDir) -> dict[str, object]:
    meta = log_dir.meta_properties
    return {
        "clean_shutdown": log_dir.clean_shutdown is not None,
        "cluster_id": meta.cluster_id if meta is not None else None,
        "node_id": meta.node_id if meta is not None else None,
        "directory_id": meta.directory_id if meta is not None else None,
    }


def _codecs(codecs: dict[str, int]) -> str:
    return " ".join(f"{name}:{count}" for name, count in codecs.items())


def _print_partitions(title: str, summaries: list[_PartitionSummary], *, each_of_many: bool) -> None:
    """A table of the partitions; of many sound ones a paragraph in its place."""
    if len(summaries) > MANY and not each_of_many:
        with LineWriter() as writer:
            writer.write(title)
            for line in _paragraph(summaries):
                writer.write(line)
        summaries = [
            each for each in summaries if each.health != "ok" or each.partition.state is not DirectoryState.LIVE
        ]
        if not summaries:
            return
        title = "not sound, or not live"
    columns: list[str | Column] = [
        "topic",
        "partition",
        Column("state", if_any=True),
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
                each.partition.topic,
                each.partition.partition,
                each.partition.state.value,
                len(each.segments),
                each.log_start_offset,
                each.local_log_start_offset,
                _UNKNOWN if each.is_unknown else each.first_offset,
                _UNKNOWN if each.is_unknown else each.last_offset,
                _UNKNOWN if each.log_end_offset is None else each.log_end_offset,
                each.first_timestamp,
                each.last_timestamp,
                each.partition.size,
                _codecs(each.codecs),
                each.health,
            ]
            for each in summaries
        ],
        totals=_Sum.of(summaries).cells(),
    )


class _Sum(NamedTuple):
    """Of several partitions."""

    partitions: int
    hurt: int
    segments: int
    size: int
    first_timestamp: int | None
    last_timestamp: int | None

    @classmethod
    def of(cls, summaries: Sequence[_PartitionSummary]) -> _Sum:
        return cls(
            len(summaries),
            sum(each.health != "ok" for each in summaries),
            sum(len(each.segments) for each in summaries),
            sum(each.partition.size for each in summaries),
            min((each.first_timestamp for each in summaries if each.first_timestamp is not None), default=None),
            max((each.last_timestamp for each in summaries if each.last_timestamp is not None), default=None),
        )

    def cells(self) -> list[object]:
        """The last row of the table of partitions."""
        health = f"{self.hurt} not ok" if self.hurt else "ok"
        times = (self.first_timestamp, self.last_timestamp)
        return ["total", self.partitions, "", self.segments, "", "", "", "", "", *times, self.size, "", health]


def _paragraph(summaries: Sequence[_PartitionSummary]) -> list[str]:
    """What there is to say of many partitions in a few lines."""
    total = _Sum.of(summaries)
    topics = len({each.partition.topic for each in summaries})
    codecs: Counter[str] = Counter()
    for each in summaries:
        codecs.update(each.codecs)
    told = f"{total.partitions} partitions of {counted(topics, 'topic')} in {total.segments} segments, "
    told += size_text(total.size)
    if total.first_timestamp is not None and total.last_timestamp is not None:
        told += f", from {moment_text(total.first_timestamp)} to {moment_text(total.last_timestamp)}"
    if codecs:
        told += f"; batches by compression: {_codecs(dict(sorted(codecs.items())))}"
    sound = total.partitions - total.hurt
    whole = "all partitions are sound" if not total.hurt else f"{sound} of {total.partitions} partitions are sound"
    return [told, f"{whole}; --all lists each of them"]


def _print_deleted(summaries: list[_PartitionSummary]) -> None:
    """A line for each partition that holds deleted segments, which no table shows."""
    with LineWriter() as writer:
        for each in summaries:
            segments = deleted_segments(each.partition)
            if segments:
                path, total = escape_controls(each.partition.path), sum(segment.size for segment in segments)
                count = f"{len(segments)} deleted segments" if len(segments) > 1 else "1 deleted segment"
                writer.write(f"{path} holds {count} of {size_text(total)}: `kafkalog undelete` shows what is in them")


def _print_segments(summary: _PartitionSummary) -> None:
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
                each.segment.base_offset,
                _UNKNOWN if each.first_offset is None and each.segment.size else each.first_offset,
                _UNKNOWN if each.last_offset is None and each.segment.size else each.last_offset,
                each.first_timestamp,
                each.last_timestamp,
                each.segment.size,
                each.batches,
                _codecs(each.codecs),
                behind_text(*summary.behind.of(each.segment)),
                str(each.stop),
            ]
            for each in summary.segments
        ],
    )


def _title(log_dir: LogDir, stands: Standing) -> str:
    """The title of a log directory's table, and a line for each thing that an operator should know first."""
    words = _facts(log_dir)
    clean = "stopped cleanly" if words["clean_shutdown"] else "not stopped cleanly"
    known = [f"{name.replace('_', ' ')} {words[name]}" for name in ("cluster_id", "node_id") if words[name] is not None]
    title = escape_controls(f"{log_dir.path} ({', '.join([*known, clean])})")
    return "\n".join([title, *(escape_controls(each) for each in stands.sentences(in_options))])


def _in_order(summaries: Iterable[_PartitionSummary], *, damage_first: bool) -> list[_PartitionSummary]:
    return sorted(summaries, key=lambda each: each.health == "ok") if damage_first else list(summaries)


@click.command(name="ls")
@PATHS
@selection_options
@click.option("--segments", "with_segments", is_flag=True, help="Print a table of segments for every partition.")
@click.option("--damage-first", is_flag=True, help="List partitions that are not sound first.")
@click.option("--all", "each_of_many", is_flag=True, help=f"List every partition, even if there are more than {MANY}.")
@JOBS
@SERVER_PROPERTIES
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    topics: tuple[str, ...],
    numbers: tuple[int, ...],
    excluded: tuple[str, ...],
    with_segments: bool,
    damage_first: bool,
    each_of_many: bool,
    jobs: int | None,
    server_properties: str | None,
    as_json: bool,
) -> int:
    """List topics, partitions and segments, with their health: offsets, times, bytes, codecs.

    Reads every batch and checks its checksum.  Also lists deleted, future and stray directories.  If only some
    partitions are chosen, log directories that hold none of them are left out.  Exit code 0 if all is well, 1 if
    something was found, 4 if something could not be read; the rest is still listed.
    """
    properties_only_for(ctx)
    if as_json and with_segments:
        raise UsageError("--segments is a table; --json has the segments of every partition anyway")
    if as_json and (damage_first or each_of_many):
        raise UsageError(f"{'--damage-first' if damage_first else '--all'} is for the table; --json lists everything")
    chosen = chosen_of(topics, numbers, excluded)
    inventory = open_all(*paths, tolerant=True)
    wanted = selected(chosen, inventory.partitions, inventory.all_unreadable)
    listed = _listed(inventory, chosen, wanted, job_count(jobs))
    if as_json:
        for each in listed:
            print_json(_line(each.path, each.log_dir, each.stands, each.partitions, each.findings))
    else:
        _print(listed, with_segments=with_segments, damage_first=damage_first, each_of_many=each_of_many)
    findings = [finding for each in listed for finding in each.findings]
    findings += [finding for each in listed for one in each.partitions for finding in one.findings]
    report_findings(findings)
    return outcome_of_findings(findings)


@dataclass(frozen=True)
class _Listed:
    """A log directory with the partitions that are meant, or what was pointed at itself."""

    path: str
    log_dir: LogDir | None
    stands: Standing | None
    partitions: list[_PartitionSummary]
    findings: list[Finding]
    """besides those of the partitions"""


def _summaries(
    partitions: Sequence[Partition], log_dir: LogDir | None, beside: Beside | None, jobs: int, on_read: OnRead
) -> list[_PartitionSummary]:
    def work(partition: Partition, told: OnRead | None) -> _PartitionSummary:
        return _summarize(partition, log_dir, beside, told)

    return list(in_order(partitions, work, size=lambda each: each.size, jobs=jobs, on_read=on_read))


def _listed(inventory: Inventory, chosen: Chosen, wanted: Sequence[Partition], jobs: int) -> list[_Listed]:
    """In the order of the paths; a path that cannot be read is one too."""
    together = inventory.findings_together()
    meant = {id(partition) for partition in wanted}
    listed = [_Listed(finding.file or "", None, None, [], [finding]) for finding in inventory.unreadable]
    with ByteProgress("reading", sum(partition.size for partition in wanted)) as progress:
        for log_dir in inventory.log_dirs:
            partitions = [each for each in log_dir.partitions if id(each) in meant]
            hidden = [each for each in log_dir.findings if each.code is FindingCode.UNREADABLE]
            if log_dir.partitions and not partitions and not chosen_findings(chosen, hidden):
                continue
            places = {os.path.join(log_dir.path, META_PROPERTIES), *(each.path for each in partitions)}
            found = [*findings_of_half_done(log_dir.path), *log_dir.findings]
            found += [each for each in together if each.file in places]
            found += missing_partitions_of(log_dir) if chosen == ALL else []
            beside = beside_of(log_dir, inventory.log_dirs)
            summaries = _summaries(partitions, log_dir, beside, jobs, progress.advance)
            listed.append(_Listed(log_dir.path, log_dir, standing(log_dir.path), summaries, found))
        for partition in inventory.standalone:
            if id(partition) in meant:
                found = [each for each in together if each.file == partition.path]
                listed.append(
                    _Listed(
                        partition.path, None, None, _summaries([partition], None, None, jobs, progress.advance), found
                    )
                )
    return listed


def _print(listed: Sequence[_Listed], *, with_segments: bool, damage_first: bool, each_of_many: bool) -> None:
    standalone = []
    for each in listed:
        if each.log_dir is not None and each.stands is not None:
            shown = _in_order(each.partitions, damage_first=damage_first)
            _print_partitions(_title(each.log_dir, each.stands), shown, each_of_many=each_of_many)
        else:
            standalone += each.partitions
    if standalone:
        shown = _in_order(standalone, damage_first=damage_first)
        places = dict.fromkeys(each.partition.path for each in standalone)
        title = escape_controls(*places) if len(places) == 1 else "partitions and segments named by their paths"
        _print_partitions(title, shown, each_of_many=each_of_many)
    summaries = [one for each in listed for one in each.partitions]
    _print_deleted(summaries)
    if with_segments:
        for summary in summaries:
            _print_segments(summary)
