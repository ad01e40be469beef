"""Command-line options for the fields of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from kafkalog.codec.common.shell import shell_option

__all__ = ["Option", "default_of", "option_words", "options_of_fields"]


class Option(msgspec.Struct, frozen=True):
    """Option of a field, declared as `Annotated[type, Option(...)]`."""

    name: str
    """with its dashes, such as `--at`"""
    help: str = ""
    metavar: str | None = None
    is_repeated: bool = True
    """whether a recommended command for the same request repeats it"""
    is_of_acting: bool = False
    """whether it says how to act, instead of on what"""
    words: Callable[[Any], list[str]] | None = None
    """function that returns the words for a value; None: the name alone for a flag, otherwise name and value"""
    also: tuple[str, ...] = ()
    """other names of the same option, such as `-t`"""
    within: tuple[int, int] | None = None
    """lowest and highest whole number (inclusive); None: not a number, or any"""
    choices: tuple[str, ...] = ()
    """the possible values; empty: any"""
    heading: str = ""
    """heading of the help below which it is listed; empty: the heading of all other options"""

    def __repr__(self) -> str:
        """Return the name alone, so that `help()` of a request is readable."""
        return f"Option({self.name!r})"


@lru_cache(maxsize=32)
def options_of_fields(request: type) -> Mapping[str, Option]:
    """Return the option of each field of the class `request` whose annotation has an `Option`, by field name in the
    order of the fields. Fields without an option are left out. Results are cached.
    """
    options = {}
    for name, hint in get_type_hints(request, include_extras=True).items():
        extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        option = next((extra for extra in extras if isinstance(extra, Option)), None)
        if option is not None:
            options[name] = option
    return options


def default_of(request: type[msgspec.Struct], name: str) -> Any:
    """Return the default value of a field; `msgspec.NODEFAULT` if it has none."""
    field = next(candidate for candidate in msgspec.structs.fields(request) if candidate.name == name)
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def option_words(request: msgspec.Struct, *, of_acting: bool) -> list[str]:
    """Return the command-line words that repeat a request, in the order of its fields. With `of_acting` only options
    about acting (what may be changed) are included, otherwise only the others. Fields with their default value, and
    those whose option has `is_repeated` False, are omitted; the list may be empty. The words are not quoted.
    """
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
