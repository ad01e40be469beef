"""Options that name groups."""

from __future__ import annotations

import click

__all__ = ["GROUPS"]

GROUPS = click.option(
    "--group", "groups", metavar="GROUP", multiple=True,
    help="Only this group: a name or a pattern with *, ? and [...]; may be repeated.",
)  # fmt: skip
