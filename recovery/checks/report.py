"""Results of `verify`: counts and findings for partitions and directories."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode, FindingJson, Severity
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.names import FileKind, parse_segment_file
from kafkalog.codec.plain.insides import Insides
from kafkalog.recovery.broker.node.answer import NodeStart, NodeStartJson
from kafkalog.recovery.checks.moments import offset_reached
from kafkalog.tiers.tiering import LocalStart, TieringJson

__all__ = ["IN_USE", "BrokerStart", "DirectoryJson", "DirectoryReport", "PartitionReport", "VerifyReport"]


class PartitionReport(Struct, kw_only=True):
    """Counts and findings of one partition directory."""

    path: str
    log_end_offset: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    """records from the log start on, without control records, as a consumer sees them"""
    log_bytes: int = 0
    valid_bytes: int = 0
    """bytes up to the first damage of each segment"""
    sound_batches_behind_damage: int = 0
    """sound batches after the first damage, in its segment or in later ones: no consumer reaches them"""
    sound_records_behind_damage: int = 0
    """records in those batches, without control records"""
    end_behind_damage: int = 0
    """offset after the last of those batches; 0 if there are none"""
    insides: Insides = Insides.NOT_EXAMINED
    """whether the records of all batches up to the damage can be read"""
    findings: list[Finding] = []
    local_start: LocalStart | None = None
    """where the local part of a tiered log begins; None if the log is not known to be tiered"""
    open_transactions: Mapping[int, int] = {}
    """first offsets of the transactions that are open at the end of a live log, by producer id; empty if an error or
    damage at the log's end may hide their markers"""

    @property
    def is_log_read(self) -> bool:
        """Whether every log could be read, so that the log's end is known. Only unreadable indexes and snapshots are
        tolerated.
        """
        unread = [finding.file or "" for finding in self.findings if finding.code is FindingCode.UNREADABLE]
        kinds = [parse_segment_file(os.path.basename(file)) for file in unread]
        return all(kind is not None and kind.kind is not FileKind.LOG for kind in kinds)

    @property
    def offset_reached(self) -> int | None:
        """Offset up to which the log may have been written; None if there is an error or damage at the log's end."""
        return offset_reached(max(self.log_end_offset, self.end_behind_damage), self.findings)


class BrokerStart(Struct, frozen=True, kw_only=True):
    """Forecast of a broker's start on a log directory, with default settings."""

    outcome: str | None
    """`loaded`, or how the start fails; None if it could not be predicted"""
    exception: str | None = None
    message: str | None = None
    node: NodeStart | None = None
    """forecast of the whole node's start; None if it was not requested"""
    is_clean: bool = False
    """whether the start finds a clean-shutdown marker, and so does not scan logs"""
    is_in_use: bool = False
    """whether there is no forecast because another process has the directory open"""


IN_USE = "another process, such as a running broker, has the directory open"
"""Message of a `BrokerStart` if another process holds the lock of the directory."""


class DirectoryReport(Struct, kw_only=True):
    """Results for one log directory, or for a partition directory, a segment or an unreadable path that was passed by
    its own path.
    """

    path: str
    partitions: list[PartitionReport] = []
    directory_findings: list[Finding] = []
    """findings about the directory itself; each partition has its own"""
    broker: BrokerStart | None = None
    """None if `path` is not a log directory, or only some of its partitions were chosen"""

    @property
    def findings(self) -> list[Finding]:
        """Findings of the directory, then those of its partitions."""
        return [*self.directory_findings, *(finding for partition in self.partitions for finding in partition.findings)]

    @property
    def is_in_use(self) -> bool:
        """Whether another process, such as a running broker, had the directory open."""
        return self.broker is not None and self.broker.is_in_use

    @property
    def is_clean(self) -> bool:
        """Whether no finding is a warning or an error."""
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


class VerifyReport(Struct, frozen=True):
    """Results for all directories that were checked."""

    paths: Sequence[str]
    """paths as the caller gave them"""
    directories: list[DirectoryReport]

    @property
    def partitions(self) -> list[PartitionReport]:
        """Partitions of all directories."""
        return [partition for directory in self.directories for partition in directory.partitions]

    @property
    def findings(self) -> list[Finding]:
        """Findings of all directories."""
        return [finding for directory in self.directories for finding in directory.findings]

    @property
    def is_clean(self) -> bool:
        """Whether no finding is a warning or an error."""
        return all(directory.is_clean for directory in self.directories)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary of plain values per directory, in the shape of `DirectoryJson`."""
        return plain(shaped(self.directories, list[DirectoryJson]))  # type: ignore[no-any-return]
