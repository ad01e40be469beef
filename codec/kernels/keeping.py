"""Kernels that numba has compiled here, kept as machine code for processes that will not load it."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from kafkalog.codec.kernels.jit import with_signature
from kafkalog.machine_code.native import ALLOCATIONS, native
from kafkalog.machine_code.stored import StoredKernel, keep, stored, where_stored

__all__ = ["convention_holds", "keep_compiled", "machine_code"]

_PROBE = ("probe", "probe")


def machine_code(module: str, name: str) -> StoredKernel | None:
    """What numba has put into its cache of a kernel, if it is what this version of it is known to put there."""
    function, signature = with_signature[module, name]
    with suppress(Exception):  # numba has no public way to ask; without an answer later processes load numba
        file = function._cache._cache_file  # noqa: SLF001
        (key,) = (each for each in file._load_index() if each[0] == signature)  # noqa: SLF001
        (_, kind, (code, _)), described, *_ = file.load(key)
        if kind == "object" and not any(each in code for each in ALLOCATIONS):
            return StoredKernel(described.llvm_func_name, signature, code)
    return None


@lru_cache(maxsize=1)
def convention_holds() -> bool:
    """Whether machine code of this numba can be called as `native` calls it."""
    from kafkalog.codec.kernels import probe  # compiled only where something is to be kept

    made = machine_code(*_PROBE)
    if made is None:
        return False
    here, there = probe.questions(), probe.questions()
    return bool(probe.seen(native(made)(*here), here) == probe.seen(probe.probe(*there), there))


_kept: dict[tuple[str, str], str | None] = {}


def keep_compiled() -> dict[tuple[str, str], str | None]:
    """Module and name of each kernel of this process -> the file with its machine code, None if there is no place."""
    for module, name in list(with_signature):
        if (module, name) not in _kept and (module, name) != _PROBE:
            if stored(module, name) is None:
                made: Any = machine_code(module, name)
                _kept[module, name] = keep(module, name, made) if made is not None and convention_holds() else None
            else:
                _kept[module, name] = where_stored(module, name)
    return dict(_kept)
