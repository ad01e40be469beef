"""What kernels are made of: compiling with a cache on disk, and loads and stores at addresses.

Only kernels import this: it loads numba.  Addresses are those of buffers that the caller keeps alive; a kernel never
touches a byte outside of what it was given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pkgutil import get_data, iter_modules
from typing import Any, TypeVar, cast
from zlib import crc32

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kafkalog.machine_code.levels import features_asked_for

__all__ = [
    "HAS_CARRYLESS_MULTIPLICATION", "HAS_CRC_INSTRUCTION", "compiled", "copy", "copy_whole", "fetch_ahead", "load",
    "load_big", "move", "on_stack", "prefetch", "store", "with_signature",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_FOR_ANOTHER = features_asked_for()
"""What the machine can do that kernels are compiled for, which are not called here; None: this one."""
_FEATURES = dict.fromkeys(_FOR_ANOTHER, True) if _FOR_ANOTHER is not None else binding.get_host_cpu_features()

HAS_CRC_INSTRUCTION = bool(_FEATURES.get("sse4.2", False))
"""Whether the processor computes CRC-32C by itself in the way that kernels know (x86-64 with SSE 4.2)."""
HAS_CARRYLESS_MULTIPLICATION = bool(_FEATURES.get("pclmul", False))
"""Whether it multiplies polynomials in the way that kernels know (x86-64 with PCLMULQDQ)."""


def _fingerprint_of_kernels() -> int:
    """A number that follows from the source of every kernel.

    Functions end up inside those of others, where the cache does not see a change.
    """
    value = 0
    for module in sorted(each.name for each in iter_modules(sys.modules[__package__].__path__)):
        value = crc32(get_data(__package__, f"{module}.py") or b"", value)
    return value


_FROZEN = (HAS_CRC_INSTRUCTION, HAS_CARRYLESS_MULTIPLICATION, _fingerprint_of_kernels())
_announced = False
with_signature: dict[tuple[str, str], tuple[Any, str]] = {}
"""module and name of a kernel that Python calls -> numba's function, and its signature"""


def _announce() -> None:
    """Say once on a terminal why the first use on a machine takes seconds."""
    global _announced
    if not _announced and sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("kafkalog: compiling for this machine; this is done once and takes some seconds\n")
        sys.stderr.flush()
    _announced = True


def compiled(signature: str | None = None, *, inline: bool = False, declared: object = None) -> Callable[[F], F]:
    """`numba.njit` with a cache on disk, or without one where there is no place for it.

    The cache is found by name and source file, so whatever is frozen into the code from elsewhere goes into the name:
    the source of all kernels, and `declared`.
    """

    def compile_it(function: F) -> F:
        name = function.__qualname__
        fingerprint = crc32(repr((declared, _FROZEN)).encode())
        function.__qualname__ = f"{function.__qualname__}_{fingerprint:08x}"
        # without numba's runtime: else a call that is given an array counts its owners, as long as a record takes
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": inline, "_nrt": False}
        if _FOR_ANOTHER is not None:  # nothing of Python's is in the code then
            options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        try:
            made: Any = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # "cannot cache function": a read-only or zipped package and no home directory
            made = numba.njit(**options)(function)
        if signature is not None:
            if not _is_cached(made):
                _announce()
            made.compile(signature)
            made.disable_compile()
            package, _, module = (function.__module__ or "").rpartition(".")
            if package == __package__:
                with_signature[module, name] = made, signature
        return cast(F, made)

    return compile_it


def _is_cached(dispatcher: Any) -> bool:
    """Whether the disk holds an index of compiled forms of a function."""
    cache = getattr(dispatcher._cache, "_cache_file", None)  # noqa: SLF001 - numba has no public way to ask
    return cache is not None and bool(cache._load_index())  # noqa: SLF001


def _loader(bits: int) -> Any:
    def load_it(_context: Any, address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            value.align = 1
            return builder.zext(value, ir.IntType(64)) if bits < 64 else value

        return types.uint64(types.int64), generate

    return intrinsic(load_it)


def _big_loader(bits: int) -> Any:
    def load_it(_context: Any, address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            value.align = 1
            if bits > 8:
                value = builder.call(builder.module.declare_intrinsic("llvm.bswap", [ir.IntType(bits)]), [value])
            return builder.sext(value, ir.IntType(64)) if bits < 64 else value

        return types.int64(types.int64), generate

    return intrinsic(load_it)


def _storer(bits: int) -> Any:
    def store_it(_context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            kind = ir.IntType(bits)
            value = builder.trunc(arguments[1], kind) if bits < 64 else arguments[1]
            stored = builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(store_it)


def _mover(size: int) -> Any:
    def move(_context: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = ir.VectorType(ir.IntType(8), size).as_pointer()
            value = builder.load(builder.inttoptr(arguments[1], pointer))
            value.align = 1
            stored = builder.store(value, builder.inttoptr(arguments[0], pointer))
            stored.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return intrinsic(move)


def fetch_ahead(builder: Any, address: Any) -> None:
    """Bring near what is at an address, if it is anything at all; it may lie outside of any buffer."""
    pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    builder.call(function, [builder.inttoptr(address, pointer), number(0), number(3), number(1)])


def _prefetch(_context: Any, address: Any) -> Any:
    """(address) -> nothing: `fetch_ahead`."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        fetch_ahead(builder, arguments[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def on_stack(words: int) -> Any:
    """() -> the address of so many 64-bit words, which are the function's own until it returns and hold anything."""

    def reserve(_context: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
            word = ir.IntType(64)
            place = cgutils.alloca_once(builder, word, size=words)  # type: ignore[no-untyped-call]
            return builder.ptrtoint(place, word)

        return types.int64(), generate

    return intrinsic(reserve)


prefetch: Any = intrinsic(_prefetch)
load = {bits: _loader(bits) for bits in (8, 16, 32, 64)}
"""bits -> (address) -> that many bits, unsigned, in the machine's order"""
load_big = {bits: _big_loader(bits) for bits in (8, 16, 32, 64)}
"""bits -> (address) -> a signed big-endian number of so many bits"""
store = {bits: _storer(bits) for bits in (8, 16, 32, 64)}
"""bits -> (address, number): its lowest bits, in the machine's order"""

move = {size: _mover(size) for size in (1, 4, 8, 16, 32)}
"""bytes -> (target, source): moves so many"""

_move1, _move4, _move8, _move16, _move32 = move[1], move[4], move[8], move[16], move[32]


@compiled(inline=True)
def copy(target: int, source: int, size: int) -> None:
    """Exactly `size` bytes, in the largest moves that fit; the last one may overlap the one before."""
    if size >= 32:
        last = size - 32
        done = 0
        while done < last:
            _move32(target + done, source + done)
            done += 32
        _move32(target + last, source + last)
    elif size >= 16:
        _move16(target, source)
        _move16(target + size - 16, source + size - 16)
    elif size >= 8:
        _move8(target, source)
        _move8(target + size - 8, source + size - 8)
    elif size >= 4:
        _move4(target, source)
        _move4(target + size - 4, source + size - 4)
    else:
        for done in range(size):
            _move1(target + done, source + done)


@compiled(inline=True)
def copy_whole(target: int, source: int, size: int) -> None:
    """At least `size` bytes, and fewer than 32 more, in large moves."""
    if size <= 16:
        _move16(target, source)
    else:
        done = 0
        while done < size:
            _move32(target + done, source + done)
            done += 32
