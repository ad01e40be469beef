"""The argument PATH, and `--server-properties`, which can replace it because the broker's own file names its log
directories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

import click

__all__ = [
    "PATHS",
    "SERVER_PROPERTIES",
    "log_directories",
    "partition_directories",
    "paths_in_properties",
    "properties_only_for",
    "settings_in",
]

Function = TypeVar("Function", bound=Callable[..., Any])

_COMMAS = re.compile(r"\s*,\s*")


def settings_in(path: str | None) -> dict[str, str]:
    """Return the settings in the properties file of a broker or controller, by name; empty if `path` is None. Raises
    `UsageError` if it is not a properties file or too large, `StorageError` if it cannot be read.
    """
    from kafkalog.codec.common.errors import FormatError, UsageError
    from kafkalog.codec.common.limits import DEFAULT_LIMITS
    from kafkalog.codec.parsing.properties import decode_properties
    from kafkalog.log.disk.files import read_small

    if path is None:
        return {}
    try:
        return decode_properties(read_small(path, DEFAULT_LIMITS.checkpoint_bytes))
    except FormatError as error:
        raise UsageError(f"{path} is not a properties file: {error.message}") from None


def log_directories(path: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories in `log.dirs`, or else in `log.dir`, and in `metadata.log.dir`. `path` is the file with
    these settings. Raises `UsageError` if it names no directory, or names one by a variable.
    """
    metadata = settings.get("metadata.log.dir", "").strip()
    return _usable(path, [*_partition_directories(settings), *([metadata] if metadata else [])])


def partition_directories(path: str, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories in `log.dirs`, or else in `log.dir`, in which a broker creates partitions. Raises the same
    errors as `log_directories`.
    """
    return _usable(path, _partition_directories(settings))


def _partition_directories(settings: Mapping[str, str]) -> list[str]:
    """Return the directories in `log.dirs`, or else in `log.dir`, split in the same way as by Kafka's `Csv`; empty if
    neither is set.
    """
    name = "log.dirs" if settings.get("log.dirs") is not None else "log.dir"
    return [each for each in _COMMAS.split(settings.get(name, "").strip()) if each]


def _usable(path: str, directories: list[str]) -> tuple[str, ...]:
    from kafkalog.codec.common.errors import UsageError

    if not directories:
        raise UsageError(f"{path} names no log directory: it sets neither log.dirs nor log.dir; give PATH")
    if any("${" in each for each in directories):
        raise UsageError(f"{path} names its log directories by a variable that only the broker knows; give PATH")
    return tuple(dict.fromkeys(directories))


def _from_properties(ctx: click.Context, param: click.Parameter) -> tuple[str, ...]:
    path = ctx.params.get("server_properties")
    if not isinstance(path, str):
        raise click.MissingParameter(ctx=ctx, param=param)
    ctx.meta[_SUPPLIED] = True
    return log_directories(path, settings_in(path))


_SUPPLIED = "kafkalog.paths_from_properties"


def _refuse_empty(ctx: click.Context, param: click.Parameter, paths: tuple[str, ...]) -> None:
    """Fail for an empty path, which a shell passes if a variable is not set."""
    if "" in paths:
        raise click.BadParameter("a path cannot be empty", ctx=ctx, param=param)


def _many(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    _refuse_empty(ctx, param, value)
    if not value and ctx.params.get("remote") is not None and ctx.params.get("server_properties") is None:
        return ()  # a remote tier will do
    return value or _from_properties(ctx, param)


def properties_only_for(ctx: click.Context, use: str | None = None) -> None:
    """Raise `UsageError` if `--server-properties` was used together with PATH, in a command that reads only its log
    directories from that file. Does nothing if the option supplied the paths or was not used.

    `use` is an option with which the command would use more settings; the message names it.
    """
    if ctx.params.get("server_properties") is None or ctx.meta.get(_SUPPLIED):
        return
    from kafkalog.codec.common.errors import UsageError

    rest = "" if use is None else f", or its settings can be used with {use}"
    raise UsageError(f"--server-properties replaces PATH here{rest}: give one of them")


PATHS = click.argument(
    "paths", nargs=-1, required=False, metavar="PATH...", type=click.Path(path_type=str, readable=False), callback=_many
)
"""One path or more; none where `SERVER_PROPERTIES` names them."""
SERVER_PROPERTIES = click.option(
    "--server-properties",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, readable=False),
    is_eager=True,
    help="The broker's server.properties; without PATH, its log.dirs are the directories.",
)
"""As `server_properties`; read before PATH."""


def paths_in_properties(function: Function) -> Function:
    """Add `--server-properties` to a click command, and return the command. The file only replaces PATH, so the
    command's function does not receive the parameter. When the command runs, `UsageError` is raised if both were used.
    """

    @wraps(function)
    def told_nothing(*args: Any, server_properties: str | None, **given: Any) -> Any:
        properties_only_for(click.get_current_context())
        return function(*args, **given)

    return SERVER_PROPERTIES(cast(Function, told_nothing))
