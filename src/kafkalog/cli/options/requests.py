"""Options of a command from the fields of its request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
import msgspec

from kafkalog.cli.options.numbers import Whole
from kafkalog.codec.common.options import default_of, options_of_fields

__all__ = ["request_fields", "request_option"]

Function = TypeVar("Function", bound=Callable[..., Any])


def request_option(request: type[msgspec.Struct], field: str, **more: Any) -> Callable[[Function], Function]:
    """Return a click decorator that declares the option of a field of `request`. A bool field becomes a flag; if it may
    also be None, it becomes a pair `--x/--no-x`. A tuple or dict field becomes a repeatable option. Another field
    becomes an option with the field's default, which the help shows if there are choices. Values are limited to the
    field's choices or range.

    `more` are further arguments of `click.option`. Its `default` and `show_default` replace those of a text or number.
    Raises `KeyError` for a field without an option.
    """
    option = options_of_fields(request)[field]
    default = default_of(request, field)
    if isinstance(default, bool):
        more["is_flag"] = True
    elif "/" in option.name:
        more["default"] = default
    elif isinstance(default, tuple | dict):
        more["multiple"] = True
    elif isinstance(default, str | int):
        more.setdefault("default", default)
        more.setdefault("show_default", bool(option.choices))
    if option.within is not None:
        more["type"] = Whole(*option.within)
    elif option.choices:
        more["type"] = click.Choice(option.choices)
    return click.option(*option.also, option.name, field, help=option.help, metavar=option.metavar, **more)


def request_fields(request: type[msgspec.Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return name -> value for the fields of a request that have options, from parsed options."""
    return {name: given[name] for name in options_of_fields(request) if name in given}
