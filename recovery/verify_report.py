"""What the checks of directories saw, and what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkalog.codec.findings import Finding, Severity

__all__ = ["PartitionReport", "VerifyReport"]


@dataclass(slots=True)
class PartitionReport:
    """What the checks of one partition directory saw."""

    path: str
    log_end_offset: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    log_bytes: int = 0
    valid_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "path": self.path,
            "log_end_offset": self.log_end_offset,
            "segments": self.segments,
            "batches": self.batches,
            "records": self.records,
            "log_bytes": self.log_bytes,
            "valid_bytes": self.valid_bytes,
            "findings": [finding.as_dict() for finding in self.findings],
        }


@dataclass(slots=True)
class VerifyReport:
    """All partitions, and what was found about the directories themselves."""

    paths: Sequence[str]
    partitions: list[PartitionReport]
    directory_findings: list[Finding]

    @property
    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return [*self.directory_findings, *(found for each in self.partitions for found in each.findings)]

    @property
    def is_clean(self) -> bool:
        """Nothing but information was found."""
        return all(finding.severity is Severity.INFO for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "paths": list(self.paths),
            "clean": self.is_clean,
            "partitions": [partition.as_dict() for partition in self.partitions],
            "findings": [finding.as_dict() for finding in self.findings],
        }
