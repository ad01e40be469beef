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
    """Return the list `__all__` and the function `__getattr__` of a package. `table` maps each module (relative to the
    package) to the names that it defines. `__getattr__` imports the module at the first use of a name and stores the
    value in the package; it raises `AttributeError` for an unknown name, and `UsageError` if the module needs an
    optional package that is missing. Functions come wrapped so that they check their arguments; see
    `kafkalog.codec.common.arguments`.
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
