"""How commands about the cluster's state print and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkalog.cli.outcome import outcome_of_findings
from kafkalog.cli.output import LineWriter, report_findings
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.log import Inventory
from kafkalog.log.chosen import Chosen

__all__ = ["finish", "partitions_with", "print_lines", "unique"]


def partitions_with(inventory: Inventory, topic: str, replica: str | None) -> tuple[Any, ...]:
    """What a consumer would read; `UsageError` if no partition of `topic` is there."""
    found = inventory.readable(replica, Chosen.of([topic]))
    if not any(each.topic == topic for each in found):
        raise UsageError(f"no partition of {topic} in {', '.join(inventory.paths)}")
    return found


def print_lines(lines: Iterable[dict[str, object]]) -> None:
    """One JSON object a line."""
    import json

    with LineWriter() as writer:
        for line in lines:
            writer.write(json.dumps(line))


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once, in order."""
    return list(dict.fromkeys(findings))


def finish(findings: Iterable[Finding]) -> int:
    """Report findings on standard error; the exit code."""
    found = unique(findings)
    report_findings(found)
    return outcome_of_findings(found)
