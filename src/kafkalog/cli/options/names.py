"""Options that name groups and other things with ids of their own: names or patterns, each of which must exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

from kafkalog.codec.errors import UnknownName
from kafkalog.codec.unknown import quoted, unknown
from kafkalog.log.directories.chosen import is_glob, matcher

__all__ = ["GROUPS", "chosen_names"]

GROUPS = click.option(
    "--group", "groups", metavar="GROUP", multiple=True,
    help="Only this group: a name or a pattern with *, ? and [...]; may be repeated.",
)  # fmt: skip


def chosen_names(kind: str, patterns: Sequence[str], known: Iterable[str]) -> Callable[[str], bool]:
    """Which of the known names are meant, all without a pattern; `UnknownName` for a pattern that is none of them."""
    if not patterns:
        return lambda name: True
    names = set(known)
    for each in dict.fromkeys(patterns):
        if each in names or (is_glob(each) and any(map(matcher(frozenset({each})), names))):
            continue
        if is_glob(each):
            raise UnknownName(f"no {kind} matches {quoted(each)}")
        raise unknown(kind, each, names)
    return matcher(frozenset(patterns))
