"""Machine code that was kept, made callable: numba's calling convention, spoken through ctypes.

A kernel takes the place of its results, that of an exception, and its arguments: numbers as they are, and of an array
seven or more words (two of Python's objects, which are null, the number and the size of its elements, where they are,
its shape and its strides).  `kernels.probe` is what this is tried on before any machine code is kept.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any

from kafkalog.machine_code.linking import Image, NotLinkableError

if TYPE_CHECKING:
    from kafkalog.machine_code.stored import StoredKernel

__all__ = ["ALLOCATIONS", "NEVER_CALLED", "UnknownSignatureError", "native"]

ALLOCATIONS = (b"NRT_Allocate", b"NRT_MemInfo_alloc")
"""Names in machine code that allocates memory through numba, which is not there."""
NEVER_CALLED = (
    "numba_adapt_ndarray", "numba_do_raise", "numba_gil_ensure", "numba_gil_release",
    "numba_runtime_build_excinfo_struct", "numba_unpickle",
)  # fmt: skip
"""Of numba's: asked for by the wrappers for Python that stand beside a kernel."""
_ARGUMENT = re.compile(r"(int64|boolean)|(int64|uint8)\[(:|::1|:,:|:,::1)\]")
_SIGNATURE = re.compile(r"(int64|void|UniTuple\(int64, (\d)\))\((.*)\)")
"""What it gives, how many numbers if several, and its arguments."""
_Words = Callable[[Any], tuple[int, ...]]


class UnknownSignatureError(ValueError):
    """A signature has an argument or a result that nothing here can pass."""


def _number(value: Any) -> tuple[int, ...]:
    return (index(value),)


def _array(kind: str, shape: str) -> _Words:
    """Words of an array, which must be as the signature says: machine code does not look."""
    import numpy as np

    expected, dimensions, contiguous = np.dtype(kind), shape.count(",") + 1, shape.endswith("1")
    size, start = expected.itemsize, (ctypes.c_char * 0).from_buffer

    def words(array: Any) -> tuple[int, ...]:
        if array.dtype != expected or array.ndim != dimensions or (contiguous and not array.flags.c_contiguous):
            raise TypeError(f"not an array of {kind}[{shape}]")
        try:
            address = ctypes.addressof(start(array))
        except (TypeError, ValueError):  # read-only, or with gaps: asking numpy takes five times as long
            address = array.__array_interface__["data"][0]
        return (0, 0, array.size, size, address, *array.shape, *array.strides)

    return words


def _arguments(words: str) -> tuple[list[_Words], int]:
    """How each argument becomes words, and how many all have."""
    ways: list[_Words] = []
    count = 0
    for word in re.split(r",\s+", words):
        found = _ARGUMENT.fullmatch(word)
        if found is None:
            raise UnknownSignatureError(word)
        if found[1]:
            ways.append(_number)
            count += 1
        else:
            ways.append(_array(found[2], found[3]))
            count += 5 + 2 * (found[3].count(",") + 1)
    return ways, count


@lru_cache(maxsize=1)
def _elsewhere() -> dict[str, int]:
    """Name -> address of what numba's wrappers ask for, if numba is not there: a function that ends the process."""
    nowhere = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value or 0
    return dict.fromkeys(NEVER_CALLED, nowhere)


_running: list[Any] = []
"""What machine code lives as long as."""


def _address(symbol: str, code: bytes) -> int:
    try:
        image = Image(code, _elsewhere())
        address = image.address(symbol)
    except NotLinkableError:
        return _address_by_llvm(symbol, code)
    _running.append(image)
    return address


@lru_cache(maxsize=1)
def _target() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    if "numba" not in sys.modules:  # which knows its own functions
        for name, address in _elsewhere().items():
            binding.add_symbol(name, address)
    return binding.Target.from_default_triple().create_target_machine()


def _address_by_llvm(symbol: str, code: bytes) -> int:
    """The same, on other machines and systems."""
    from llvmlite import binding

    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _running.append(engine)
    address = engine.get_function_address(symbol)
    if not address:
        raise ValueError(f"no function {symbol}")
    return int(address)


def native(kernel: StoredKernel) -> Callable[..., Any]:
    """The kernel as a function of numbers and numpy arrays; it lets go of the interpreter's lock while it runs.

    Raises `UnknownSignatureError`, and ValueError if the function is not in the code.
    """
    matched = _SIGNATURE.fullmatch(kernel.signature)
    if matched is None:
        raise UnknownSignatureError(kernel.signature)
    result, several = matched[1], matched[2]
    ways, count = _arguments(matched[3])
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * count)
    function = kind(_address(kernel.symbol, kernel.code))
    place, nothing, expected = ctypes.c_int64 * int(several or 1), ctypes.c_int64, len(ways)

    def call(*given: Any) -> Any:
        if len(given) != expected:
            raise TypeError(f"{expected} arguments expected, not {len(given)}")
        words: list[int] = []
        for way, value in zip(ways, given, strict=True):
            words += way(value)
        results, failed = place(), nothing()
        if function(ctypes.addressof(results), ctypes.addressof(failed), *words) != 0:
            raise RuntimeError(f"{kernel.symbol} failed")
        if several:
            return tuple(results)
        return None if result == "void" else results[0]

    return call
