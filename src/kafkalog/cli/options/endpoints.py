"""Addresses of controllers on the command line: `1=host:9093`, and Kafka's own `1@host:9093,2@other:9093`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

__all__ = ["NodeEndpoint", "VoterList"]

_PLACE = r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:,@=\[\]]+)):(?P<port>[0-9]{1,5})"
_ENDPOINT = re.compile(rf"(?:(?P<node>[0-9]{{1,10}})=)?{_PLACE}\Z")
_VOTER = re.compile(rf"(?P<node>[0-9]{{1,10}})@{_PLACE}\Z")

Endpoint = tuple[int | None, str, int]
"""node, if it is named; host; port"""

if TYPE_CHECKING:
    _EndpointType = click.ParamType[Endpoint]
    _VotersType = click.ParamType[tuple[Endpoint, ...]]
else:
    _EndpointType = _VotersType = click.ParamType  # not generic before click 8.4


def _parsed(match: re.Match[str]) -> Endpoint:
    node = match["node"]
    return None if node is None else int(node), match["six"] or match["host"], int(match["port"])


class NodeEndpoint(_EndpointType):
    """Option type for `ID=HOST:PORT`, or `HOST:PORT` if there is only one node."""

    name = "ID=HOST:PORT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Endpoint:
        """Return node id, host and port. Fails with `click.BadParameter` for another form."""
        match = _ENDPOINT.match(str(value))
        if match is None:
            self.fail(f"{value!r} is not ID=HOST:PORT, such as 1=controller-1:9093", param, ctx)
        return _parsed(match)


class VoterList(_VotersType):
    """Option type for `ID@HOST:PORT,…`, the format of `controller.quorum.voters`."""

    name = "ID@HOST:PORT,..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Endpoint, ...]:
        """Parse the text `ID@HOST:PORT,…` to endpoints with their node ids, in order; blanks around a voter are
        ignored. Fails with `click.BadParameter` if a voter is not of this form.
        """
        found = []
        for each in str(value).split(","):
            match = _VOTER.match(each.strip())
            if match is None:
                self.fail(f"{each!r} is not ID@HOST:PORT, as controller.quorum.voters has it", param, ctx)
            found.append(_parsed(match))
        return tuple(found)
