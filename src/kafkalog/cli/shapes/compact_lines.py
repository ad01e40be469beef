"""Type of the line of `kafkalog compact --json`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field, structs

from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.common.shapes import shaped
from kafkalog.jobs.compact.run import CompactionResult
from kafkalog.recovery.decide.actions import ActionJson
from kafkalog.recovery.facts.topic_facts import SettingsJson

__all__ = ["CompactLine", "compact_line"]


class CompactedLine(Struct, frozen=True, kw_only=True):
    """One partition of a compacted topic: one pass of the log cleaner over it, planned or done."""

    name: str
    """name of the partition directory"""
    first_dirty_offset: int
    """first offset that earlier compactions have not cleaned (inclusive): the start of the dirty part"""
    dirty_ratio: float
    """dirty ratio from 0 to 1: bytes of the dirty part that can be cleaned, divided by these bytes plus the bytes of
    the clean part
    """
    is_cleaned: bool = field(name="cleaned")
    """whether the pass cleans the partition; false if the dirty ratio is not above min.cleanable.dirty.ratio and no
    dirty record is older than max.compaction.lag.ms
    """
    cleaned_to: int | None
    """offset up to which the log is clean after the pass (exclusive); null if the pass does not clean the partition"""
    problem: str | None
    """reason why a broker's cleaner would mark the partition as uncleanable; null if it would not"""
    bytes_before: int
    """total size of the partition's segments before the pass, in bytes"""
    bytes_after: int
    """total size of the partition's segments after the pass, in bytes"""
    segments_before: int
    """number of segments before the pass"""
    segments_after: int
    """number of segments after the pass"""
    records_read: int
    """number of records that the pass reads to clean them, including control records"""
    records_dropped: int
    """number of records that cleaning removes, including control records and records of aborted transactions"""
    records_without_key: int
    """number of records that cleaning removes because they have no key"""
    deleted_segments: list[int]
    """base offsets of segments that are deleted by retention or because they end below the log start offset; empty if
    none
    """


class CompactLine(Struct, frozen=True, kw_only=True):
    """Compaction of one log directory: the plan or, if it was carried out, the result."""

    root: str = field(name="path")
    """path of the log directory"""
    mode: str
    """always `compact`"""
    changes: bool
    """whether the plan changes any file"""
    partitions: list[CompactedLine]
    """partitions of compacted topics, without the declined ones"""
    declined: dict[str, str]
    """partitions that are not compacted: name of the partition directory, and the reason"""
    findings: list[FindingJson]
    """damage in declined partitions, and files that cannot be read"""
    topics: SettingsJson = field(name="settings")
    """settings of the topics and of the broker, and the metadata log from which they were read"""
    actions: list[ActionJson]
    """all changes of files, planned or done, in order"""
    changed: bool = False
    """whether the log directory was changed; false for a plan"""
    run_id: str | None = None
    """id of the run, for `kafkalog undo`; null if the compaction changed nothing, and for a plan"""
    quarantine: str | None = None
    """path of the directory that keeps the removed bytes; null if the compaction changed nothing, and for a plan"""
    completed_runs: tuple[str, ...] = ()
    """ids of earlier interrupted runs that were completed first; empty if none"""
    superseded_runs: Mapping[str, str] = {}
    """interrupted runs that were set aside instead of completed: id of the run, and the reason; empty if none"""


def compact_line(result: CompactionResult) -> CompactLine:
    """Return the `--json` line of a compaction that was carried out. The line of a plan alone is `shaped(plan,
    CompactLine)`.
    """
    return structs.replace(
        shaped(result.done, CompactLine),
        changed=result.changed,
        run_id=result.run_id,
        quarantine=result.quarantine,
        completed_runs=result.earlier.completed,
        superseded_runs=result.earlier.superseded,
    )
