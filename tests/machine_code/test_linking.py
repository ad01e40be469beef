"""Machine code is put into memory as LLVM's linker puts it; what an object file has beyond that is not guessed at."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.codec.kernels import probe as probing
from kafkalog.codec.kernels.keeping import machine_code
from kafkalog.codec.kernels.warm import warm
from kafkalog.machine_code import linking, native
from kafkalog.machine_code.levels import LEVELS, levels_here, processor
from kafkalog.machine_code.linking import Image, NotLinkableError
from kafkalog.machine_code.stored import StoredKernel, stored

SECTION, RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<QIIq")
RELOCATIONS = 4


@pytest.fixture
def code() -> StoredKernel:
    found = machine_code("probe", "probe")
    assert found is not None
    return found


def relocations(code: bytes) -> Iterator[int]:
    """Positions of the relocations of sections with code."""
    (begin,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
    sections = [SECTION.unpack_from(code, begin + number * SECTION.size) for number in range(count)]
    for _, kind, _, _, at, size, _, info, *_ in sections:
        if kind == RELOCATIONS and sections[info][1] == 1:
            yield from range(at, at + size, RELOCATION.size)


def test_both_linkers_give_the_same_function(code: StoredKernel) -> None:
    answers = []
    for address in (native._address(code.symbol, code.code), native._address_by_llvm(code.symbol, code.code)):
        patched = pytest.MonkeyPatch()
        with patched.context() as context:
            context.setattr(native, "_address", lambda *_, address=address: address)
            given = probing.questions()
            answers.append(probing.seen(native.native(code)(*given), given))
    assert answers[0] == answers[1]


def test_every_kernel_is_linked_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every start would load it, and nobody would notice."""
    if not levels_here():
        pytest.fail("this machine compiles for something else than Linux on x86-64: say here what it is")
    kept = warm()
    monkeypatch.setattr(native, "_address_by_llvm", lambda *_: pytest.fail("LLVM was asked"))
    for name in kept:
        found = stored(*name)
        assert found is not None
        native.native(found)
    assert len(kept) >= 20


def test_code_that_runs_cannot_be_written(code: StoredKernel) -> None:
    image = Image(code.code, native._elsewhere())
    address = image.address(code.symbol)
    (line,) = (
        each for each in Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
        if int(each.split("-")[0], 16) <= address < int(each.split("-")[1].split()[0], 16)
    )  # fmt: skip
    assert line.split()[1] == "r-xp"


def test_another_kind_of_address_is_left_to_llvm(code: StoredKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = bytearray(code.code)
    at = next(relocations(code.code))
    place, _, symbol, addend = RELOCATION.unpack_from(changed, at)
    RELOCATION.pack_into(changed, at, place, 2, symbol, addend)
    with pytest.raises(NotLinkableError, match="an address of kind 2"):
        Image(bytes(changed), native._elsewhere())
    asked: list[str] = []

    def by_llvm(symbol: str, _: bytes) -> int:
        asked.append(symbol)
        return 1

    monkeypatch.setattr(native, "_address_by_llvm", by_llvm)
    native._address(code.symbol, bytes(changed))
    assert asked == [code.symbol]


def test_a_function_that_is_nowhere_is_said(code: StoredKernel) -> None:
    with pytest.raises(NotLinkableError, match="no function other"):
        Image(code.code, native._elsewhere()).address("other")
    name = b"numba_adapt_ndarray\0"
    assert name in code.code
    unknown = code.code.replace(name, b"numba_adapt_ndarraz\0")
    with pytest.raises(NotLinkableError, match="there is no function numba_adapt_ndarraz"):
        Image(unknown, native._elsewhere())


def test_an_object_file_that_is_cut_or_for_another_machine_is_not_linked(code: StoredKernel) -> None:
    for end in (*range(0, 64, 7), len(code.code) // 2, len(code.code) - 1):
        with pytest.raises(NotLinkableError):
            Image(code.code[:end], native._elsewhere())
    for at in (0, 4, 5, 16, 18):
        changed = bytearray(code.code)
        changed[at] ^= 0xFF
        with pytest.raises(NotLinkableError, match="no object file of x86-64"):
            Image(bytes(changed), native._elsewhere())


def test_memory_that_the_system_does_not_let_run_is_an_error(
    code: StoredKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        @staticmethod
        def mprotect(*_: object) -> int:
            ctypes.set_errno(13)
            return -1

        def __getattr__(self, name: str) -> object:
            return getattr(ctypes.CDLL(None), name)

    monkeypatch.setattr(linking, "_libraries", Refusing)
    with pytest.raises(PermissionError):
        Image(code.code, native._elsewhere())


def test_linux_tells_of_a_processor_what_llvm_does() -> None:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    assert processor()["flags"]
    told = [level for level, needed in LEVELS.items() if all(features.get(each) for each in needed)]
    assert list(levels_here()) == told
