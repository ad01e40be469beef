"""Names of a package that are imported when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazily"]


def lazily(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `homes`: module of the package -> names in it."""

    def find(name: str) -> Any:
        for module, names in homes.items():
            if name in names:
                from importlib import import_module

                return getattr(import_module(f"{package}.{module}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
