"""Names of a package that are imported when somebody asks for them."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer than all the rest here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

__all__ = ["lazily"]

_FUNCTION = type(lambda: None)


def lazily(package: str, table: Mapping[str, Sequence[str]]) -> tuple[list[str], Callable[[str], Any]]:
    """`__all__` and `__getattr__` of a package; `table`: module, relative to the package -> names in it.

    Functions examine what a caller hands over; `kafkalog.codec.arguments` says how.
    """
    homes = {name: module for module, names in table.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        if isinstance(value, _FUNCTION):
            from kafkalog.codec.arguments import at_door

            value = at_door(value, package)
        setattr(sys.modules[package], name, value)
        return value

    return list(homes), find
