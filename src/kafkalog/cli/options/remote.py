"""`--remote` and the options that say how to read it: the remote tier of tiered logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from msgspec import Struct

from kafkalog.cli.options.pairs import pairs_of
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.shell import shell_option

if TYPE_CHECKING:
    from kafkalog.tiers.remote_tier import RemoteTier

__all__ = ["Remote", "remote_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


class Remote(Struct, frozen=True, kw_only=True):
    """The options that name a remote tier and how to read it; `uri` is None if `--remote` was not used."""

    uri: str | None
    layout: str | None
    storage: tuple[str, ...]
    private_keys: tuple[str, ...]

    def tier(self) -> RemoteTier | None:
        """Open the remote tier; None if `--remote` was not used. Raises `UsageError` if the other options were used
        without it or are invalid, or the tier is missing or does not fit them. Raises `StorageError` if it or a key
        file cannot be read.
        """
        if self.uri is None:
            given = {"--layout": self.layout, "--storage": self.storage, "--private-key": self.private_keys}
            for name, value in given.items():
                if value:
                    raise UsageError(f"{name} is about --remote, which was not given")
            return None
        from kafkalog.tiers.layouts import key_files, open_tier

        return open_tier(self.uri, layout=self.layout, storage=_values(self.storage), keys=key_files(self.private_keys))

    def beside(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the paths to open. Without `--remote` they are `paths` themselves. With it, they are paths in a mount
        that combines each log directory or partition with its remote part. If `paths` is empty, or no local partition
        is in the tier, the result is one path for the whole tier. Raises the errors of
        `tier`, `UsageError` for a path without a log directory or partition, and `StorageError` if a path cannot be
        read.
        """
        tier = self.tier()
        if tier is None:
            return tuple(paths)
        from kafkalog.tiers.reading import mounted

        return tuple(path for _, path in mounted(paths, tier))

    def words(self) -> list[str]:
        """Return these options as arguments of a command line that repeats them; empty without `--remote`. Values of
        `--storage` are replaced by `...`, because they may be secrets.
        """
        if self.uri is None:
            return []
        words = shell_option("--remote", self.uri)
        if self.layout:
            words += shell_option("--layout", self.layout)
        for each in self.storage:
            words += shell_option("--storage", f"{each.partition('=')[0]}=...")
        for each in self.private_keys:
            words += shell_option("--private-key", each)
        return words


def remote_options(function: Function) -> Function:
    """Add `--remote`, `--layout`, `--storage` and `--private-key` to a click command, and return the command; its
    function receives them as one `Remote` named `remote`. The tier is not opened.
    """

    @wraps(function)
    def with_tier(
        *args: Any,
        remote: str | None,
        layout: str | None,
        storage: tuple[str, ...],
        private_keys: tuple[str, ...],
        **given: Any,
    ) -> Any:
        return function(
            *args, remote=Remote(uri=remote, layout=layout, storage=storage, private_keys=private_keys), **given
        )

    wrapped = cast(Function, with_tier)
    for option in (
        click.option("--private-key", "private_keys", multiple=True, metavar="[ID=]FILE",
                     help="PEM file with the private key of key pair ID, if --remote is encrypted; may be repeated."),
        click.option("--storage", "storage", multiple=True, metavar="NAME=VALUE",
                     help="An option of the object store of --remote, such as endpoint=URL; may be repeated."),
        click.option("--layout", metavar="NAME", help="Layout of the object names in --remote [detected]."),
        click.option("--remote", metavar="URI", is_eager=True,
                     help="Directory or object store URI of the remote segments of tiered logs."),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped


def _values(storage: Sequence[str]) -> dict[str, str]:
    return pairs_of("--storage", storage, "NAME=VALUE, such as endpoint=http://localhost:9000", is_secret=True)
