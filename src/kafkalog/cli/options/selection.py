"""`--topic`, `--partition` and `--exclude`: which topic-partitions a command is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import click

from kafkalog.cli.options.numbers import PARTITION
from kafkalog.codec.common.findings import Finding
from kafkalog.log.directories.selection import Selection, unreadable_names

__all__ = ["selected", "selection_options", "topic_names"]

Function = TypeVar("Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # not generic before click 8.4


class _Pattern(_TextType):
    """Option type for a name, or a pattern with `*`, `?` and `[…]`."""

    name = "glob"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text itself. Fails with `click.BadParameter` if it is empty."""
        text = str(value)
        if not text:
            self.fail("a name cannot be empty", param, ctx)
        return text


def selection_options(function: Function) -> Function:
    """Add `--topic`, `--partition` and `--exclude` to a click command, and return the command. Its function receives
    them as one `Selection` named `chosen`.

    The function should call `Selection.check(keys)`. It raises `UnknownName` (exit code 1) for a topic or partition
    that is not among `keys`, and `UsageError` if all of them are excluded. `Selection.takes(topic, partition)` then
    returns whether one is selected.
    """

    @wraps(function)
    def choosing(
        *args: Any, topics: Iterable[str], numbers: Iterable[int], excluded: Iterable[str], **given: Any
    ) -> Any:
        return function(*args, chosen=Selection.of(topics, numbers, excluded), **given)

    wrapped = cast(Function, choosing)
    for option in (
        click.option("--exclude", "excluded", metavar="TOPIC[-N]", type=_Pattern(), multiple=True,
                     help="Leave out this topic or partition: a name or a pattern; may be repeated."),
        click.option("-p", "--partition", "numbers", metavar="N", type=PARTITION, multiple=True,
                     help="Only partitions with this number; may be repeated."),
        click.option("-t", "--topic", "topics", metavar="TOPIC", type=_Pattern(), multiple=True,
                     help="Only this topic: a name or a pattern with *, ? and [...]; may be repeated."),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped


class _Named(Protocol):
    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...


Item = TypeVar("Item", bound=_Named)


def topic_names(items: Iterable[_Named]) -> list[tuple[str, int]]:
    """Return topic and partition number of each item that has both."""
    return [(each.topic, each.partition) for each in items if each.topic is not None and each.partition is not None]


def selected(chosen: Selection, items: Iterable[Item], unreadable: Iterable[Finding] = ()) -> list[Item]:
    """Return the selected items in their order. Raises `UnknownName` if a named topic or partition is not among
    them, `UsageError` if everything that was selected is excluded. Partitions that `unreadable` findings are about
    count as existing, although they cannot be read.
    """
    found = list(items)
    chosen.check([*topic_names(found), *unreadable_names(unreadable)])
    return [each for each in found if chosen.takes(each.topic, each.partition)]
