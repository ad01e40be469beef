"""What the checks of directories saw, and what they found."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.findings import Finding, FindingCode, FindingJson, Severity
from kafkalog.codec.insides import Insides
from kafkalog.codec.names import FileKind, parse_segment_file
from kafkalog.recovery.broker.node.answer import NodeStart, NodeStartJson
from kafkalog.recovery.checks.moments import offset_reached
from kafkalog.tiers.tiering import LocalStart, TieringJson

__all__ = ["IN_USE", "BrokerStart", "DirectoryJson", "DirectoryReport", "PartitionReport", "VerifyReport"]


class PartitionReport(Struct):
    """What the checks of one partition directory saw."""

    path: str
    log_end_offset: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    """from the log start on, that a consumer would see: markers of transactions and other control records are none"""
    log_bytes: int = 0
    valid_bytes: int = 0
    """up to the first damage of each segment"""
    sound_batches_behind_damage: int = 0
    """that no consumer reaches: they come after the first damage, in the same segment or in later ones"""
    sound_records_behind_damage: int = 0
    """that a consumer would see of those"""
    end_behind_damage: int = 0
    """the offset after the last of those; 0 where there is none"""
    insides: Insides = Insides.NOT_EXAMINED
    """whether the records of all batches up to the damage can be read"""
    findings: list[Finding] = []
    local_start: LocalStart | None = None
    """where a tiered log's local part begins; None if the log is not tiered, as far as is known"""

    @property
    def is_log_read(self) -> bool:
        """Whether nothing could not be read but indexes and snapshots: then the log's end is known."""
        unread = [each.file or "" for each in self.findings if each.code is FindingCode.UNREADABLE]
        kinds = [parse_segment_file(os.path.basename(file)) for file in unread]
        return all(each is not None and each.kind is not FileKind.LOG for each in kinds)

    @property
    def offset_reached(self) -> int | None:
        """Offset up to which the log may have gone; None if it is damaged."""
        return offset_reached(max(self.log_end_offset, self.end_behind_damage), self.findings)


class BrokerStart(Struct, frozen=True):
    """What a broker with default settings would make of a log directory."""

    outcome: str | None
    """`loaded`, or what happens instead; None if it could not be predicted"""
    exception: str | None = None
    message: str | None = None
    node: NodeStart | None = None
    """what the whole node does when it is started; None if that was not asked"""


IN_USE = "another process, such as a running broker, has the directory open"
"""In place of what a start would do, if a process holds the lock."""


class DirectoryReport(Struct):
    """One log directory; or what was pointed at itself: a partition directory, a segment, a path not to be read."""

    path: str
    partitions: list[PartitionReport] = []
    directory_findings: list[Finding] = []
    """about the directory itself; each partition has its own"""
    broker: BrokerStart | None = None
    """None where `path` is not a log directory, or only some of its partitions were chosen"""

    @property
    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return [*self.directory_findings, *(found for each in self.partitions for found in each.findings)]

    @property
    def is_in_use(self) -> bool:
        """Whether a running broker had the directory open."""
        return self.broker is not None and self.broker.message == IN_USE

    @property
    def is_clean(self) -> bool:
        """Nothing but information was found."""
        return all(finding.severity is Severity.INFO for finding in self.findings)


class PartitionReportJson(Struct, frozen=True, kw_only=True):
    """What the checks of one partition directory saw."""

    path: str
    """the partition directory"""
    log_end_offset: int
    """where the log ends"""
    segments: int
    """number of segments"""
    batches: int
    """number of batches that were read"""
    records: int
    """number of records that were read from the log start on, without control records; 0 with --shallow"""
    log_bytes: int
    """of all its logs"""
    valid_bytes: int
    """up to the first damage of each segment"""
    sound_batches_behind_damage: int
    """batches that no consumer reaches"""
    sound_records_behind_damage: int
    """records in them"""
    insides: Insides
    """whether the records in the batches up to the damage can be read; `not_examined` with --shallow"""
    local_start: TieringJson | None = msgspec.field(name="tiering")
    """null if the log is not tiered, as far as is known"""
    findings: list[FindingJson]
    """of this partition"""


class BrokerStartJson(Struct, frozen=True, kw_only=True):
    """What a broker would do with the directory."""

    outcome: str | None
    """`loaded`, `start_fails` or `dir_offline`; null if it could not be predicted"""
    exception: str | None
    """the Java exception that it would log; null if there is none"""
    message: str | None
    """the message of that exception; null if there is none"""
    node: NodeStartJson | None
    """what the whole node does when it is started; null if that was not asked"""


class DirectoryJson(Struct, frozen=True, kw_only=True):
    """One line for each log directory, or for the given path itself: a partition directory, a segment, a path that
    cannot be read.
    """

    path: str
    """the log directory, partition directory or segment"""
    is_clean: bool = msgspec.field(name="clean")
    """nothing but information was found"""
    changed: bool = False
    """always false"""
    run_id: str | None = None
    """always null"""
    broker: BrokerStartJson | None
    """what a broker with default settings would do with the directory; null for anything but a log directory, and if
    only some partitions were chosen"""
    ways: list[Any] = []
    """always empty: `plan` knows the ways"""
    recommended: str | None = None
    """always null"""
    findings: list[FindingJson]
    """of the directory and its partitions"""
    partitions: list[PartitionReportJson]
    """the partitions, in order"""


class VerifyReport(Struct):
    """All directories that were checked."""

    paths: Sequence[str]
    """as they were given"""
    directories: list[DirectoryReport]

    @property
    def partitions(self) -> list[PartitionReport]:
        """The partitions of all directories."""
        return [each for directory in self.directories for each in directory.partitions]

    @property
    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return [found for directory in self.directories for found in directory.findings]

    @property
    def is_clean(self) -> bool:
        """Whether nothing but information was found."""
        return all(directory.is_clean for directory in self.directories)

    def as_dicts(self) -> list[dict[str, Any]]:
        """The line of each directory as plain values, for programs."""
        return plain(shaped(self.directories, list[DirectoryJson]))  # type: ignore[no-any-return]
