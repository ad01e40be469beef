"""Print JSON lines and findings, and determine the exit code, for commands about the state of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.cli.output import LineWriter, report_findings
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.shapes import plain, shaped
from kafkalog.log.disk.pointer import findings_of_half_done
from kafkalog.words.exit_codes import exit_code_of_findings

__all__ = ["finish", "half_done_in", "print_lines"]


def half_done_in(paths: Iterable[str]) -> list[Finding]:
    """Return findings about log directories among the paths in which a recovery was interrupted."""
    return [finding for path in paths for finding in findings_of_half_done(path)]


def print_lines(lines: Iterable[object], shape: type | None = None) -> None:
    """Print each of `lines` as a JSON object on a line of its own, on standard output; with `shape` each is first
    converted to that type of Struct. Consumes `lines` as it prints.
    """
    import json

    with LineWriter() as writer:
        for line in lines:
            writer.write(json.dumps(plain(line if shape is None else shaped(line, shape))))


def finish(findings: Iterable[Finding]) -> int:
    """Print findings on standard error, each once, and return the exit code."""
    found = list(dict.fromkeys(findings))
    report_findings(found)
    return exit_code_of_findings(found)
