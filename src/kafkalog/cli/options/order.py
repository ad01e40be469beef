"""`--start-order N,N,...`: brokers in the order in which they will be started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkalog.cli.options.numbers import BROKER_ID

__all__ = ["START_ORDER"]

if TYPE_CHECKING:
    _OrderType = click.ParamType[tuple[int, ...]]
else:
    _OrderType = click.ParamType  # not generic before click 8.4


class _Order(_OrderType):
    name = "order"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the broker ids in order. Fails with `click.BadParameter` if one is not a broker id."""
        if isinstance(value, tuple):
            return value
        return tuple(BROKER_ID.convert(each, param, ctx) for each in str(value).split(","))


START_ORDER = click.option(
    "--start-order",
    type=_Order(),
    metavar="N,N,...",
    help="The brokers in the order in which they will be started, after the controllers.",
)
