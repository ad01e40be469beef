"""`--as-of`, which shows a past state; `--at-offset` and `--zxid`, which name a moment by a position in one log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkalog.cli.options.numbers import OFFSET
from kafkalog.cli.options.times import TIME_METAVAR, Timestamp
from kafkalog.cluster.questions.moment import Moment

__all__ = ["AS_OF_POSITION", "AT_ZXID", "Zxid", "as_of_time"]

Function = TypeVar("Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    _NumberType = click.ParamType[int]
    _PositionType = click.ParamType[Moment]
else:
    _NumberType = _PositionType = click.ParamType  # not generic before click 8.4


class Zxid(_NumberType):
    """Option type for a ZooKeeper transaction id (zxid): decimal, or hexadecimal after 0x."""

    name = "zxid"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the ZooKeeper transaction id. Fails with `click.BadParameter` if the text is not a number from 0 to
        2**63 - 1.
        """
        text = str(value).strip()
        number = _number(text)
        if number is None:
            self.fail(f"{text[:60]!r} is not a zxid (decimal, or 0x…)", param, ctx)
        return number


def _number(text: str) -> int | None:
    try:
        number = int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None
    return number if text.isascii() and "_" not in text and 0 <= number < 1 << 63 else None


class _PositionOrTime(_PositionType):
    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        """Return the moment that a text names. `0x…` is a ZooKeeper transaction id. A decimal number is set as
        `offset`; ZooKeeper commands use it as a transaction id. Anything else is a time. Fails with
        `click.BadParameter` for a negative or too large number, or an invalid time.
        """
        text = str(value).strip()
        number = _number(text)
        if number is not None:
            return Moment(zxid=number) if text.lower().startswith("0x") else Moment(offset=number)
        if text.lstrip("+-").isdecimal() or re.fullmatch("0x[0-9a-f]+", text, re.IGNORECASE):
            detail = "is neither an offset nor a transaction: those are 0 or more, in 63 bits"
            self.fail(f"{text[:60]!r} {detail}", param, ctx)
        return Moment(time=Timestamp().convert(text, param, ctx))


AS_OF_POSITION = click.option(
    "--as-of",
    metavar="OFFSET|ZXID|TIME",
    type=_PositionOrTime(),
    help="The state before this offset of the metadata log, after this ZooKeeper transaction, or at this time "
    "(ISO 8601, or a span from now such as -2h).",
)
"""As `as_of`, a `Moment`."""

AT_ZXID = click.option("--zxid", type=Zxid(), metavar="N", help="The state after this ZooKeeper transaction.")


def _refuse_at(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError("--at is the time to treat as now and has no effect here; --as-of selects a past state")


def as_of_time(function: Function) -> Function:
    """Add the options `--as-of` (parameter `as_of`, ms since 1970 or None) and `--at-offset` (`at_offset`, an int
    or None) to a click command, and return it. The hidden option `--at`, an earlier name, is refused.
    """
    for option in (
        click.option("--at", hidden=True, expose_value=False, is_eager=True, callback=_refuse_at),
        click.option("--at-offset", type=OFFSET, metavar="OFFSET",
                     help="The state before this offset of the internal topic."),
        click.option("--as-of", metavar=TIME_METAVAR, type=Timestamp(),
                     help="The state at this time: ms since 1970, ISO 8601, or a span from now such as -2h."),
    ):  # fmt: skip
        function = option(function)
    return function
