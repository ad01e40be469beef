"""Entries with the name of a log or of a partition that are not read: links, FIFOs and folders. Their records are in no
result, so that a reader must say so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import PartitionName, parse_partition_directory, parse_segment_file
from kafkalog.log.walk.on_damage import RAISE, SKIP, check_on_damage, warn_of_loss

__all__ = ["check_left_out", "leaves_out_records", "linked_logs", "partition_of", "report_left_out", "why_left_out"]


def leaves_out_records(finding: Finding) -> bool:
    """Return whether a finding from a listing is about a log or a partition directory that is not read."""
    if finding.severity is not Severity.ERROR or finding.code not in codes_with(Trait.ENTRY_UNREAD):
        return False
    return finding.file is not None and (finding.code is not FindingCode.UNREADABLE or _is_log(finding.file))


def _is_log(path: str) -> bool:
    parsed = parse_segment_file(os.path.basename(path))
    return parsed is not None and parsed.is_live_log


def linked_logs(findings: Iterable[Finding]) -> frozenset[int]:
    """Return the base offsets of logs that are not read and are symbolic links to files: what they hold is unknown, but
    not missing. `findings` are those of a partition's listing.
    """
    paths = (finding.file for finding in findings if leaves_out_records(finding))
    names = (parse_segment_file(os.path.basename(path)) for path in paths if path is not None and os.path.isfile(path))
    return frozenset(name.base_offset for name in names if name is not None)


def partition_of(finding: Finding) -> PartitionName | None:
    """Return the partition of the log or directory that is not read; None if its path names none. `finding` is one for
    which `leaves_out_records` is true.
    """
    path = os.path.abspath(finding.file or "")
    directory = path if finding.code is FindingCode.FOREIGN_DIRECTORY else os.path.dirname(path)
    return parse_partition_directory(os.path.basename(directory))


def why_left_out(finding: Finding) -> str:
    """Return a sentence that names the log or directory that is not read, and why."""
    return f"{finding.file} cannot be read: {finding.detail.removesuffix('; left out')}"


def check_left_out(findings: Sequence[Finding], on_damage: str) -> None:
    """Raise `StorageError` for the first log or directory that is not read if `on_damage` is `"raise"`. `findings` are
    those for which `leaves_out_records` is true. Raises `UsageError` for an unknown `on_damage`.
    """
    if check_on_damage(on_damage) == RAISE and findings:
        raise StorageError(
            f"{why_left_out(findings[0])}; put the real one there, or leave it out with on_damage={SKIP!r}"
        )


def report_left_out(findings: Iterable[Finding], into: list[Finding] | None) -> None:
    """Append findings about logs and directories that are not read to the list `into`; if `into` is None, give a Python
    warning for each.
    """
    for finding in findings:
        if into is None:
            warn_of_loss(finding, SKIP)
        else:
            into.append(finding)
