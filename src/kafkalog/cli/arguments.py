"""Types of arguments that several subcommands share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

__all__ = ["PATHS", "REPLICA", "Timestamp"]

PATHS = click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=str))
REPLICA = click.option(
    "--replica",
    metavar="longest|PATH",
    help="Which directory to read when a topic-partition is in several.",
)


if TYPE_CHECKING:
    _TimeType = click.ParamType[int]
else:
    _TimeType = click.ParamType  # not generic before click 8.4


class Timestamp(_TimeType):
    """Milliseconds since 1970, or an ISO 8601 date and time (UTC unless it says otherwise)."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The time in ms."""
        text = str(value).strip()
        if re.fullmatch(r"-?[0-9]{1,19}", text, re.ASCII):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither milliseconds since 1970 nor an ISO 8601 time", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
