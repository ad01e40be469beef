"""Build lines for the properties files of the new quorum's nodes, in the syntax of `java.util.Properties`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.parsing.properties import property_line

__all__ = ["listener_lines", "log_dirs_line", "refuse_as_log_dir"]

_COMMA = re.compile(r"\s*,\s*")
_NAMES, _LISTENERS, _ADVERTISED = "controller.listener.names", "listeners", "advertised.listeners"


def refuse_as_log_dir(asked: Ask, path: str) -> None:
    """Raise `UsageError` for a path that `log.dirs` of a node cannot contain: with a comma, with white space at an end,
    or not UTF-8. `asked` is the option that the path came from, for the message.

    Kafka splits `log.dirs` at commas and drops white space around each part (`Csv`); a path that is not UTF-8 has no
    name in Java.
    """
    if "," in path or path != path.strip():
        why = "which Kafka takes for two" if "," in path else "and Kafka drops white space there"
        where = "a comma in its name" if "," in path else "white space at an end of its name"
        raise UsageError(Sentence(asked, f" {path!r} has {where}, {why} in log.dirs: choose another directory"))
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode("utf-8", "backslashreplace").decode()
        raise UsageError(
            Sentence(asked, f" {shown} is not UTF-8, so that Kafka cannot open it: choose another directory")
        ) from None


def log_dirs_line(path: str) -> str:
    """Line that names the only log directory."""
    return property_line("log.dirs", path)


def listener_lines(listener: str, place: str, settings: Mapping[str, str] | None) -> Iterator[str]:
    """Yield the property lines for a controller's listener `listener` at `place` (host:port). `settings` are the node's
    present properties. If they are unknown (None), only the line `listeners` is yielded.

    The line `listeners` keeps the other listeners, and replaces or adds this one; names are compared without case. If
    the present `advertised.listeners` has this listener, a line follows in which it is replaced. If the present
    `controller.listener.names` lacks its name, a line follows that begins with it.
    """
    own = f"{listener}://{place}"
    if settings is None:
        yield property_line(_LISTENERS, own)
        return
    yield property_line(_LISTENERS, ",".join(_replaced(settings.get(_LISTENERS, ""), listener, own, add=True)))
    advertised = settings.get(_ADVERTISED, "")
    if any(_name(part) == listener.upper() for part in _parts(advertised)):
        yield property_line(_ADVERTISED, ",".join(_replaced(advertised, listener, own, add=False)))
    names = _parts(settings.get(_NAMES, ""))
    if listener.upper() not in (name.upper() for name in names):
        yield property_line(_NAMES, ",".join([listener, *names]))


def _parts(value: str) -> list[str]:
    return [part for part in _COMMA.split(value.strip()) if part]


def _name(entry: str) -> str:
    return entry.partition("://")[0].strip().upper()


def _replaced(value: str, listener: str, own: str, *, add: bool) -> list[str]:
    parts = _parts(value)
    is_present = any(_name(part) == listener.upper() for part in parts)
    replaced = [own if _name(part) == listener.upper() else part for part in parts]
    return replaced if is_present or not add else [*replaced, own]
