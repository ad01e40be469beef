"""Output and exit codes of commands about the state of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkalog.cli.output import LineWriter, report_findings
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log import Partition, open_all
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.words.exit_codes import exit_code_of_findings

__all__ = ["finish", "half_done_in", "partitions_at", "partitions_with", "print_lines", "unique"]


def partitions_at(
    paths: Sequence[str], replica: str | None, findings: list[Finding], select: Selection = ALL
) -> tuple[Partition, ...]:
    """Partitions as a consumer would read them.

    Unreadable files and directories are left out and reported as findings, as are directories with an unfinished
    recovery.
    """
    inventory = open_all(*paths, tolerant=True)
    findings += [*inventory.half_done, *inventory.all_unreadable]
    return inventory.readable(replica, select)


def partitions_with(
    paths: Sequence[str], topic: str, replica: str | None, findings: list[Finding], *, or_topic: str | None = None
) -> tuple[Partition, ...]:
    """All partitions, provided that one of `topic` (or of `or_topic`) is among them.

    Raises `UsageError` if none is, `StorageError` if something that could not be read may be the reason.
    """
    topics = [topic] if or_topic is None else [topic, or_topic]
    found = partitions_at(paths, replica, findings, Selection.of(topics))
    if not any(each.topic in topics for each in found):
        open_all(*paths)  # raises what was left out
        raise UsageError(f"no partition of {topic} in {', '.join(paths)}")
    return found


def half_done_in(paths: Iterable[str]) -> list[Finding]:
    """Findings about log directories among the paths with an unfinished recovery."""
    return [finding for path in paths for finding in findings_of_half_done(path)]


def print_lines(lines: Iterable[object], shape: type | None = None) -> None:
    """Print one JSON object per line: lines, or results converted to `shape`."""
    import json

    with LineWriter() as writer:
        for line in lines:
            writer.write(json.dumps(plain(line if shape is None else shaped(line, shape))))


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without duplicates, in order."""
    return list(dict.fromkeys(findings))


def finish(findings: Iterable[Finding]) -> int:
    """Print findings on standard error and return the exit code."""
    found = unique(findings)
    report_findings(found)
    return exit_code_of_findings(found)
