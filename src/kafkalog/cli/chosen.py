"""Options that choose topic-partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["chosen_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


def chosen_options(function: Function) -> Function:
    """`--topic`, `--partition` and `--exclude`, as `topics`, `numbers` and `excluded`."""
    for option in (
        click.option("--exclude", "excluded", metavar="TOPIC[-N]", multiple=True, help="Without it; may be repeated."),
        click.option(
            "--partition", "numbers", metavar="N", type=int, multiple=True, help="Only this number; may be repeated."
        ),
        click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only this topic; may be repeated."),
    ):
        function = option(function)
    return function
