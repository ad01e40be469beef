"""Names of a package that are imported when somebody asks for them, from the one table of them: the package's stub."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` takes longer than all the rest here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["homes", "lazily"]

_FUNCTION = type(lambda: None)


def homes(package: str) -> dict[str, str]:
    """Public name -> its module; the loader reads the stub, which may lie in an archive."""
    module: Any = sys.modules[package]
    stub: bytes = module.__spec__.loader.get_data(f"{module.__path__[0]}/__init__.pyi")
    imports = (line.split() for line in stub.decode().splitlines() if line.startswith("from "))
    return {name: home for _, home, _, name, *_ in imports}


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `names`: name -> the module it is in.

    Functions examine what a caller hands over; `kafkalog.codec.arguments` says how.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(names[name]), name)
        if isinstance(value, _FUNCTION):
            from kafkalog.codec.arguments import at_door

            value = at_door(value, package)
        setattr(sys.modules[package], name, value)
        return value

    return find
