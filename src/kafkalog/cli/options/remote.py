"""`--remote`, and what says how it is read: the other tier of tiered logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["remote_options", "tier_of", "with_remote"]


def remote_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options `remote`, `layout` and `storage`."""
    for option in (
        click.option("--storage", "storage", multiple=True, metavar="NAME=VALUE",
                     help="An option of the object store of --remote, such as endpoint=URL; may be repeated."),
        click.option("--layout", metavar="NAME", help="How objects are named in --remote [found out]."),
        click.option("--remote", metavar="URI", is_eager=True,
                     help="Where the remote segments of tiered logs are: a directory, or a URI of an object store."),
    ):  # fmt: skip
        function = option(function)
    return function


def tier_of(remote: str | None, layout: str | None, storage: Sequence[str]) -> RemoteTier | None:
    """The tier that was named; `UsageError` where the others were given without it."""
    from kafkalog.codec.errors import UsageError
    from kafkalog.tiers.layouts import open_tier

    if remote is None:
        if layout is not None or storage:
            name = "--layout" if layout is not None else "--storage"
            raise UsageError(f"{name} is about --remote, which was not given")
        return None
    return open_tier(remote, layout=layout, storage=_values(storage))


def with_remote(
    paths: Sequence[str], remote: str | None, layout: str | None, storage: Sequence[str]
) -> tuple[str, ...]:
    """The paths of a command; with `--remote` those that stand for both tiers, or for the remote one alone."""
    tier = tier_of(remote, layout, storage)
    if tier is None:
        return tuple(paths)
    from kafkalog.tiers.reading import mounted

    return tuple(path for _, path in mounted(paths, tier))


def _values(storage: Sequence[str]) -> Mapping[str, str]:
    from kafkalog.codec.errors import UsageError

    found = {}
    for each in storage:
        name, sign, value = each.partition("=")
        if not (name and sign):
            raise UsageError("--storage takes NAME=VALUE, such as endpoint=http://localhost:9000")
        found[name] = value
    return found
