"""Refuse options of Kafka's own tools that a command does not have under that name, with a sentence that names the
replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from kafkalog.codec.common.errors import UsageError

__all__ = ["NO_BROKER", "group_tool_words", "refused_with_hints"]

Function = TypeVar("Function", bound=Callable[..., Any])

NO_BROKER = "kafkalog contacts no broker: it reads the files in PATH itself"
_READS = "nothing is changed here; `kafkalog offsets --format reset-csv` writes the file that kafka-consumer-groups "
_READS += "--reset-offsets --from-file takes"
_ENDS = "`kafkalog ls` shows where each partition starts and ends"
_TIMES = "`kafkalog find --time TIME` gives the offsets of a time"
_GROUP_FLAGS = {
    "--describe": "it is not needed, every group is shown; --group chooses, `kafkalog offsets` has offsets and lag",
    "--list": "it is not needed, every group is shown",
    "--all-groups": "it is not needed, all groups are shown unless --group chooses",
    "--all-topics": "it is not needed, all topics are shown unless --topic chooses",
    "--members": "`kafkalog groups` shows members with their assignments",
    "--state": "`kafkalog groups` shows the state of each group",
    "--offsets": "`kafkalog offsets` shows offsets and lag",
    "--verbose": "there is nothing more to say; --json has everything",
    "--reset-offsets": _READS,
    "--execute": _READS,
    "--dry-run": _READS,
    "--export": _READS,
    "--delete": _READS,
    "--delete-offsets": _READS,
    "--to-current": _READS,
    "--to-earliest": _ENDS,
    "--to-latest": _ENDS,
    "--exclude-internal-topics": "--exclude '__*' leaves them out",
}
_GROUP_VALUED = {
    "--to-offset": _READS,
    "--shift-by": _READS,
    "--from-file": _READS,
    "--to-datetime": _TIMES,
    "--by-duration": f"{_TIMES}, also -2h",
    "--time": f"{_TIMES}; {_ENDS}",
    "--topic-partitions": "--topic and --partition choose",
    "--bootstrap-server": NO_BROKER,
    "--broker-list": NO_BROKER,
    "--command-config": NO_BROKER,
    "--timeout": NO_BROKER,
}


def refused_with_hints(*, flags: Mapping[str, str], valued: Mapping[str, str]) -> Callable[[Function], Function]:
    """Return a decorator that adds hidden options to a click command. If a user passes such an option, `UsageError` is
    raised with a sentence about what to use instead. `flags` and `valued` map the names of options to these sentences.
    Options in `flags` take no value, and options in `valued` take one.
    """

    def declare(function: Function) -> Function:
        for number, (name, why) in enumerate({**flags, **valued}.items()):
            declared = f"refused_{number}"
            refuse = _refusal(name, why)
            option = (
                click.option(name, declared, hidden=True, expose_value=False, callback=refuse, is_flag=True)
                if name in flags
                else click.option(name, declared, hidden=True, expose_value=False, callback=refuse, multiple=True)
            )
            function = option(function)
        return function

    return declare


def _refusal(name: str, why: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def refuse(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value:
            raise UsageError(f"{name}: {why}")

    return refuse


group_tool_words = refused_with_hints(flags=_GROUP_FLAGS, valued=_GROUP_VALUED)
"""The words of kafka-consumer-groups and kafka-get-offsets, for `groups` and `offsets`."""
