"""`kafkalog ls`: an inventory of what is there, and whether it is whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import click

from kafkalog.cli.arguments import PATHS
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, escape_controls, print_json, print_table, report_findings
from kafkalog.cli.progress import ByteProgress
from kafkalog.cli.times import time_text
from kafkalog.codec.findings import Finding, FindingCode, Severity, StopReason
from kafkalog.log import Inventory, LogDir, Partition, open_all
from kafkalog.log.deleted import deleted_segments
from kafkalog.log.summary import SegmentSummary, summarize
from kafkalog.recovery.standing import Standing, standing

__all__ = ["command"]


@dataclass(frozen=True)
class _PartitionSummary:
    partition: Partition
    segments: tuple[SegmentSummary, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.partition.findings, *(found for segment in self.segments for found in segment.findings))

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else self.partition.log_start_offset

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
        return ", ".join(words) if words else "ok"


def _summarize(partition: Partition, progress: ByteProgress) -> _PartitionSummary:
    following: list[int | None] = [segment.base_offset for segment in partition.segments[1:]]
    return _PartitionSummary(
        partition,
        tuple(
            summarize(segment, next_segment=base, on_bytes=progress.advance)
            for segment, base in zip(partition.segments, [*following, None], strict=False)
        ),
    )


def _duplicate_findings(inventory: Inventory) -> list[Finding]:
    """Replicas in several log directories: worth knowing here, refused where only one can be read."""
    found = []
    for name, several in inventory.duplicates().items():
        detail = f"{name} stands in several directories: {' and '.join(each.path for each in several)}"
        code = FindingCode.DUPLICATE_PARTITION
        found.append(Finding(code, Severity.INFO, None, None, detail, several[0].path))
    return found


def _segment_object(summary: SegmentSummary) -> dict[str, object]:
    segment = summary.segment
    return {
        "base_offset": segment.base_offset,
        "path": segment.path,
        "bytes": segment.size,
        "valid_bytes": summary.valid_bytes,
        "stop": str(summary.stop),
        "batches": summary.batches,
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
        "log_start_offset": partition.log_start_offset,
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
        "leader_epochs": [{"epoch": each.epoch, "start_offset": each.start_offset} for each in partition.leader_epochs],
        "segments": [_segment_object(each) for each in summary.segments],
        "unfinished_files": list(partition.unfinished),
        "deleted_segments": [
            {"base_offset": each.base_offset, "path": each.path, "bytes": each.size}
            for each in deleted_segments(partition)
        ],
    }


def _log_dir_object(log_dir: LogDir, stands: Standing) -> dict[str, object]:
    return {**_facts(log_dir), "standing": stands.as_dict()}


def _facts(log_dir: LogDir) -> dict[str, object]:
    meta = log_dir.meta_properties
    return {
        "path": log_dir.path,
        "clean_shutdown": log_dir.clean_shutdown is not None,
        "cluster_id": meta.cluster_id if meta is not None else None,
        "node_id": meta.node_id if meta is not None else None,
        "directory_id": meta.directory_id if meta is not None else None,
    }


def _codecs(codecs: dict[str, int]) -> str:
    return " ".join(f"{name}:{count}" for name, count in codecs.items())


def _print_partitions(title: str, summaries: list[_PartitionSummary]) -> None:
    columns = ["topic", "partition", "state", "segments", "start", "first", "last", "end", "from", "to", "bytes",
               "codecs", "health"]  # fmt: skip
    print_table(
        title,
        columns,
        [
            [
                each.partition.topic,
                each.partition.partition,
                each.partition.state.value,
                len(each.segments),
                each.partition.log_start_offset,
                each.first_offset,
                each.last_offset,
                each.log_end_offset,
                time_text(each.first_timestamp),
                time_text(each.last_timestamp),
                each.partition.size,
                _codecs(each.codecs),
                each.health,
            ]
            for each in summaries
        ],
    )


def _print_deleted(summaries: list[_PartitionSummary]) -> None:
    """A line for each partition that holds deleted segments, which no table shows."""
    with LineWriter() as writer:
        for each in summaries:
            segments = deleted_segments(each.partition)
            if segments:
                path, total = escape_controls(each.partition.path), sum(segment.size for segment in segments)
                count = f"{len(segments)} deleted segments" if len(segments) > 1 else "1 deleted segment"
                writer.write(f"{path} holds {count} of {total} bytes: `kafkalog undelete` tells what is in them")


def _print_segments(summary: _PartitionSummary) -> None:
    print_table(
        escape_controls(summary.partition.path),
        ["segment", "first", "last", "from", "to", "bytes", "batches", "codecs", "ends"],
        [
            [
                each.segment.base_offset,
                each.first_offset,
                each.last_offset,
                time_text(each.first_timestamp),
                time_text(each.last_timestamp),
                each.segment.size,
                each.batches,
                _codecs(each.codecs),
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
    return "\n".join([title, *(escape_controls(each) for each in stands.sentences())])


@click.command(name="ls")
@PATHS
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--segments", "with_segments", is_flag=True, help="A table of segments for every partition.")
def command(paths: tuple[str, ...], as_json: bool, with_segments: bool) -> int:
    """List topics, partitions and segments: offsets, times, bytes, codecs, health.

    Reads every batch and checks its checksum.  Deleted, future and stray directories are listed too.
    """
    inventory = open_all(*paths)
    stands = {log_dir.path: standing(log_dir.path) for log_dir in inventory.log_dirs}
    with ByteProgress("reading", sum(partition.size for partition in inventory.partitions)) as progress:
        of_log_dirs = [
            (log_dir, [_summarize(partition, progress) for partition in log_dir.partitions])
            for log_dir in inventory.log_dirs
        ]
        standalone = [_summarize(partition, progress) for partition in inventory.standalone]
    summaries = [each for _log_dir, found in of_log_dirs for each in found] + standalone
    findings = [finding for log_dir in inventory.log_dirs for finding in log_dir.findings]
    findings += [finding for each in summaries for finding in each.findings]
    findings += _duplicate_findings(inventory)
    if as_json:
        print_json(
            {
                "paths": list(inventory.paths),
                "log_dirs": [_log_dir_object(log_dir, stands[log_dir.path]) for log_dir in inventory.log_dirs],
                "partitions": [
                    _partition_object(each, log_dir) for log_dir, found in of_log_dirs for each in found
                ] + [_partition_object(each, None) for each in standalone],
                "findings": [finding.as_dict() for finding in findings],
            }
        )  # fmt: skip
    else:
        for log_dir, found in of_log_dirs:
            _print_partitions(_title(log_dir, stands[log_dir.path]), found)
        if standalone:
            _print_partitions("pointed at", standalone)
        _print_deleted(summaries)
        if with_segments:
            for each in summaries:
                _print_segments(each)
    return Outcome.FINDINGS if report_findings(findings) else Outcome.CLEAN
