"""Options of kcat and kafka-dump-log that make no sense without a broker: each is refused with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kafkalog.codec.errors import UsageError

__all__ = ["refused_options"]

Function = TypeVar("Function", bound=Callable[..., Any])

_BROKER = "kafkalog contacts no broker: it reads the files in PATH itself"
_BUILD = "nothing is produced here; kafkalog build writes partition directories from files"
_VALUED = {
    "-b": _BROKER,
    "-X": f"it sets a property of a client, and {_BROKER}",
    "-F": f"it names a client's configuration, and {_BROKER}",
    "-m": f"it is a time to wait for a broker, and {_BROKER}",
    "-d": f"it debugs a client, and {_BROKER}",
    "-r": "kafkalog contacts no schema registry",
    "-M": "kafkalog simulates no cluster",
    "-z": _BUILD,
    "-k": _BUILD,
    "-H": _BUILD,
}
_FLAGS = {
    "-P": _BUILD,
    "-l": _BUILD,
    "-T": _BUILD,
    "-L": "kafkalog ls lists topics and partitions",
    "-Q": "kafkalog find looks for the offsets of times",
    "-E": f"it goes on after a broker's errors, and {_BROKER}",
    "-O": "kcat takes it and does nothing with it; %o in -f prints the offset",
    "-v": "there is nothing more to say; --metadata shows what batches say of records",
}


def _refusal(name: str, why: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def refuse(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value:
            raise UsageError(f"{name}: {why}")

    return refuse


def refused_options(function: Function) -> Function:
    """Declares them, hidden from the help."""
    for name, why in _VALUED.items():
        function = click.option(
            name,
            f"refused_{ord(name[1])}",
            hidden=True,
            expose_value=False,
            multiple=True,
            callback=_refusal(name, why),
        )(function)
    for name, why in _FLAGS.items():
        function = click.option(
            name, f"refused_{ord(name[1])}", hidden=True, expose_value=False, is_flag=True, callback=_refusal(name, why)
        )(function)
    return function
