"""Checks of a command line before it is parsed: repeated options, which all commands reject, and empty values, which
commands reject that could damage disks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

__all__ = ["StrictCommand", "refuse_repeats"]


def refuse_repeats(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise `click.UsageError` if an option that takes one value is used twice; click would silently use the last
    value. If the command is a group, the subcommand that is the first argument is checked instead. If `args` cannot be
    parsed, nothing is raised, because the command itself reports that later.
    """
    if isinstance(command, click.Group):
        sub = command.get_command(ctx, args[0]) if args else None
        if sub is not None:
            refuse_repeats(sub, click.Context(sub, info_name=args[0], parent=ctx), args[1:])
        return
    try:
        order = command.make_parser(ctx).parse_args(args=list(args))[2]
    except click.UsageError:
        return
    for param, count in Counter(order).items():
        if isinstance(param, click.Option) and count > 1 and not (param.multiple or param.is_flag or param.count):
            raise click.UsageError(f"{param.opts[0]} is given {count} times: give it once", ctx)


class StrictCommand(click.Command):
    """A command that rejects an empty value, and an option that is used twice (click would silently use the last
    value).
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments like any click command. Before that, raises `click.UsageError` if an option that takes one
        value is used twice, or if a value is empty or blank. During shell completion nothing is checked.
        """
        if not ctx.resilient_parsing:
            refuse_repeats(self, ctx, args)
            given = self.make_parser(ctx).parse_args(args=list(args))[0]
            for param in self.params:
                if any(isinstance(value, str) and not value.strip() for value in _values(given.get(param.name or ""))):
                    name = param.opts[0] if isinstance(param, click.Option) else param.make_metavar(ctx).strip("[].")
                    raise click.UsageError(f"{name} is empty: give a value, or leave it out", ctx)
        return super().parse_args(ctx, args)


def _values(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)
