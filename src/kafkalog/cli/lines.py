"""How commands about the cluster's state print and end."""

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
    """What a consumer would read.

    Files and directories that cannot be read are left out, and are findings; so are directories that are half done.
    """
    inventory = open_all(*paths, tolerant=True)
    findings += [*inventory.half_done, *inventory.all_unreadable]
    return inventory.readable(replica, select)


def partitions_with(
    paths: Sequence[str], topic: str, replica: str | None, findings: list[Finding], *, or_topic: str | None = None
) -> tuple[Partition, ...]:
    """All partitions that are there, if one of `topic` (or of `or_topic`) is among them.

    `UsageError` if none is, `StorageError` if something that could not be read may be why.
    """
    topics = [topic] if or_topic is None else [topic, or_topic]
    found = partitions_at(paths, replica, findings, Selection.of(topics))
    if not any(each.topic in topics for each in found):
        open_all(*paths)  # raises what was left out
        raise UsageError(f"no partition of {topic} in {', '.join(paths)}")
    return found


def half_done_in(paths: Iterable[str]) -> list[Finding]:
    """Findings about the log directories among the paths in which a recovery was cut short."""
    return [finding for path in paths for finding in findings_of_half_done(path)]


def print_lines(lines: Iterable[object], shape: type | None = None) -> None:
    """One JSON object a line: lines, or results in the shape of one."""
    import json

    with LineWriter() as writer:
        for line in lines:
            writer.write(json.dumps(plain(line if shape is None else shaped(line, shape))))


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once, in order."""
    return list(dict.fromkeys(findings))


def finish(findings: Iterable[Finding]) -> int:
    """Report findings on standard error; the exit code."""
    found = unique(findings)
    report_findings(found)
    return exit_code_of_findings(found)
