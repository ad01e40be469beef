"""Import the names of a package when they are first used."""

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
    """Return `__all__` and `__getattr__` of a package. `table` has the names in each module, which is relative to the
    package. Functions are returned with a check of their arguments; see `kafkalog.codec.common.arguments`.
    """
    homes = {name: module for module, names in table.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name], package), name)
        if isinstance(value, _FUNCTION):
            from kafkalog.codec.common.arguments import at_door

            value = at_door(value, package)
        setattr(sys.modules[package], name, value)
        return value

    return list(homes), find
