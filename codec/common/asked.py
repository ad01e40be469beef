"""How the fields of a request are asked for on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from kafkalog.codec.common.shell import shell_option

__all__ = ["Option", "default_of", "option_words", "options_of_fields"]


class Option(msgspec.Struct, frozen=True):
    """The option of a field, stated as `Annotated[type, Option(...)]`."""

    name: str
    """with its dashes, as `--at`"""
    help: str = ""
    metavar: str | None = None
    is_repeated: bool = True
    """a recommended command that does the same repeats it"""
    is_of_acting: bool = False
    """it says how to act, and not on what"""
    words: Callable[[Any], list[str]] | None = None
    """the words for a value; None: the name for a flag, the name and the value for others"""


@lru_cache(maxsize=32)
def options_of_fields(request: type) -> Mapping[str, Option]:
    """The options of a request's fields, by the name of the field, in their order."""
    found = {}
    for name, hint in get_type_hints(request, include_extras=True).items():
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        option = next((extra for extra in extras if isinstance(extra, Option)), None)
        if option is not None:
            found[name] = option
    return found


def default_of(request: type[msgspec.Struct], name: str) -> Any:
    """The default value of a field; `msgspec.NODEFAULT` if it has none."""
    field = next(each for each in msgspec.structs.fields(request) if each.name == name)
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def option_words(request: msgspec.Struct, *, of_acting: bool) -> list[str]:
    """The words of a command line that repeat a request, without those that have their default values."""
    words: list[str] = []
    for name, option in options_of_fields(type(request)).items():
        value = getattr(request, name)
        if not option.is_repeated or option.is_of_acting is not of_acting or value == default_of(type(request), name):
            continue
        words += _words(option, value)
    return words


def _words(option: Option, value: Any) -> list[str]:
    if option.words is not None:
        return option.words(value)
    if value is True:
        return [option.name]
    if isinstance(value, Mapping):
        return [word for each in value.items() for word in shell_option(option.name, "=".join(each))]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [word for each in value for word in shell_option(option.name, str(each))]
    return shell_option(option.name, str(value))
