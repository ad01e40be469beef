"""A command that rejects repeated options and empty values, because a slip could damage disks."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

__all__ = ["StrictCommand"]


class StrictCommand(click.Command):
    """A command that rejects an empty value, and an option that is used twice (click would silently use the last
    value).
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments like any click command. Before that, raises `click.UsageError` if an option that takes one
        value is used twice, or if a value is empty or blank. During shell completion nothing is checked.
        """
        if not ctx.resilient_parsing:
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for param, count in Counter(order).items():
                if isinstance(param, click.Option) and count > 1 and not (param.multiple or param.is_flag):
                    raise click.UsageError(f"{param.opts[0]} is given {count} times: give it once", ctx)
            for param in self.params:
                if any(isinstance(value, str) and not value.strip() for value in _values(given.get(param.name or ""))):
                    name = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(ctx).strip("[].")
                    raise click.UsageError(f"{name} is empty: give a value, or leave it out", ctx)
        return super().parse_args(ctx, args)


def _values(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)
