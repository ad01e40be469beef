"""Options that the commands about the cluster's state share, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import click

from kafkalog.cli.arguments import Timestamp
from kafkalog.cli.outcome import Outcome
from kafkalog.cli.output import LineWriter, report_findings
from kafkalog.codec.errors import UsageError
from kafkalog.codec.findings import Finding
from kafkalog.codec.limits import DEFAULT_LIMITS
from kafkalog.codec.properties import decode_properties
from kafkalog.log import Inventory
from kafkalog.log.files import read_small

__all__ = ["AS_OF", "JSON_LINES", "SHOW_SECRETS", "finish", "partitions_with", "print_lines", "started_with", "unique"]

JSON_LINES = click.option("--json", "as_json", is_flag=True, help="JSON lines.")
SHOW_SECRETS = click.option("--show-secrets", is_flag=True, help="Print credentials and passwords instead of [hidden].")


def AS_OF(function: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802 - used as the constants beside it
    """`--at-offset` and `--at`: the state as it was."""
    offset = click.option(
        "--at-offset", type=click.IntRange(min=0), metavar="OFFSET", help="As of this offset of the internal topic."
    )
    time = click.option("--at", type=Timestamp(), metavar="TIME", help="As of this time (ms since 1970, or ISO 8601).")
    return offset(time(function))


def partitions_with(inventory: Inventory, topic: str, replica: str | None) -> tuple[Any, ...]:
    """What a consumer would read; `UsageError` if no partition of `topic` is there."""
    found = inventory.readable(replica)
    if not any(each.topic == topic for each in found):
        raise UsageError(f"no partition of {topic} in {', '.join(inventory.paths)}")
    return found


def print_lines(lines: Iterable[dict[str, object]]) -> None:
    """One JSON object a line."""
    import json

    with LineWriter() as writer:
        for line in lines:
            writer.write(json.dumps(line))


def started_with(path: str) -> dict[str, str]:
    """The settings in a broker's or controller's properties file."""
    return decode_properties(read_small(path, DEFAULT_LIMITS.checkpoint_bytes))


def unique(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once, in order."""
    return list(dict.fromkeys(findings))


def finish(findings: Iterable[Finding]) -> int:
    """Report findings on standard error; the exit code."""
    return Outcome.FINDINGS if report_findings(unique(findings)) else Outcome.CLEAN
