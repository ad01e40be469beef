"""Kernels by name, loaded when they are first called: from machine code that was kept, else with numba.

What imports this has imported nothing yet; a command loads the kernels that it calls and no others.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from threading import Lock
from typing import Any

from kafkalog.codec.errors import StorageError

__all__ = ["Kernel", "kernels_are_loaded"]

_NOT_LOADED = "numba cannot be loaded: give this process more memory (ulimit -v), or install numba again"
_lock = Lock()
_loaded = False


def kernels_are_loaded() -> bool:
    """Whether this process has paid for what all kernels need."""
    return _loaded or "numba" in sys.modules


class Kernel:
    """A compiled function of `kafkalog.codec.kernels`; it takes what that takes."""

    __slots__ = ("_function", "_module", "_name")

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name
        self._function: Callable[..., Any] | None = None

    def __call__(self, *given: Any) -> Any:
        """Load it if this is the first call, and call it."""
        function = self._function
        return (self.load() if function is None else function)(*given)

    def __reduce__(self) -> tuple[type[Kernel], tuple[str, str]]:
        return Kernel, (self._module, self._name)

    def load(self) -> Callable[..., Any]:
        """The function itself."""
        global _loaded
        with _lock:  # LLVM takes one at a time
            if self._function is None:
                self._function = self._from_machine_code() or self._compiled()
            _loaded = True
            return self._function

    def _compiled(self) -> Callable[..., Any]:
        try:
            found: Callable[..., Any] = getattr(import_module(f"kafkalog.codec.kernels.{self._module}"), self._name)
            import_module("kafkalog.codec.kernels.keeping").keep_compiled()
        except OSError as error:  # of libraries, mostly because memory is short: what they say is long
            raise StorageError(error.errno or errno.ENOMEM, _NOT_LOADED) from error
        return found

    def _from_machine_code(self) -> Callable[..., Any] | None:
        if "numba" in sys.modules:  # its price is paid, and its own call is the faster one
            return None
        from kafkalog.machine_code.stored import stored

        found = stored(self._module, self._name)
        if found is None:
            return None
        with suppress(OSError, ValueError, RuntimeError, ImportError):
            from kafkalog.machine_code.native import native

            return native(found)
        return None
