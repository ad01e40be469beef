"""Line of `kafkalog compact`."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field, structs

from kafkalog.codec.common.shapes import shaped
from kafkalog.codec.findings import FindingJson
from kafkalog.jobs.compact.run import CompactionResult
from kafkalog.recovery.decide.actions import ActionJson
from kafkalog.recovery.facts.topic_facts import SettingsJson

__all__ = ["CompactLine", "compact_line"]


class CompactedLine(Struct, frozen=True, kw_only=True):
    """A compacted partition."""

    name: str
    """partition directory"""
    first_dirty_offset: int
    """where cleaning begins"""
    dirty_ratio: float
    """bytes that were never cleaned, as a fraction of all bytes that can be cleaned"""
    is_cleaned: bool = field(name="cleaned")
    """it is cleaned"""
    cleaned_to: int | None
    """up to which offset; null if it is not cleaned"""
    problem: str | None
    """why a broker could not clean it either; null otherwise"""
    bytes_before: int
    """of its logs"""
    bytes_after: int
    """of its logs"""
    segments_before: int
    """number of them"""
    segments_after: int
    """number of them"""
    records_read: int
    """number of them"""
    records_dropped: int
    """of those"""
    records_without_key: int
    """of those dropped, records that nothing could ever supersede"""
    deleted_segments: list[int]
    """base offsets of segments that retention deletes"""


class CompactLine(Struct, frozen=True, kw_only=True):
    """One line."""

    root: str = field(name="path")
    """the log directory"""
    mode: str
    """`compact`"""
    changes: bool
    """anything would be, or was, done"""
    partitions: list[CompactedLine]
    """compacted partitions"""
    declined: dict[str, str]
    """partition directory, and why it is left as it is"""
    findings: list[FindingJson]
    """what is in the way"""
    topics: SettingsJson = field(name="settings")
    """where settings came from"""
    actions: list[ActionJson]
    """every change of a file, in order"""
    changed: bool = False
    """the directory was changed"""
    run_id: str | None = None
    """the run that can be undone; null if nothing was changed"""
    quarantine: str | None = None
    """where removed bytes are kept; null if nothing was changed"""
    completed_runs: tuple[str, ...] = ()
    """earlier interrupted runs that were completed first"""
    superseded_runs: Mapping[str, str] = {}
    """run that was interrupted and set aside, and why"""


def compact_line(result: CompactionResult) -> CompactLine:
    """Line of what a compaction did; the plan of one alone is `shaped`."""
    return structs.replace(
        shaped(result.done, CompactLine),
        changed=result.changed,
        run_id=result.run_id,
        quarantine=result.quarantine,
        completed_runs=result.earlier.completed,
        superseded_runs=result.earlier.superseded,
    )
