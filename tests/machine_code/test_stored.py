"""Machine code that is kept answers as numba's function does; what is not whole or not ours is not run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kafkalog.codec.kernels import probe as probing
from kafkalog.codec.kernels.keeping import convention_holds, machine_code
from kafkalog.codec.kernels.loading import Kernel
from kafkalog.codec.kernels.tables import HeaderColumn
from kafkalog.codec.kernels.warm import warm
from kafkalog.machine_code import stored
from kafkalog.machine_code.native import ALLOCATIONS, UnknownSignatureError, native
from kafkalog.machine_code.stored import StoredKernel

KEPT = warm()
"""before any test gives them another place"""


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def code() -> StoredKernel:
    found = machine_code("probe", "probe")
    assert found is not None
    return found


def test_the_calling_convention_is_numbas(code: StoredKernel) -> None:
    assert convention_holds()
    function = native(code)
    for number in (0, 1, -(2**63), 2**63 - 1):
        here, there = probing.questions(), probing.questions()
        here[0] = there[0] = number
        here[1] = there[1] = number % 2 == 0
        assert probing.seen(function(*here), here) == probing.seen(probing.probe(*there), there)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (3, np.zeros(5, np.int32)), (3, np.zeros((5, 1), np.int64)), (3, np.zeros(10, np.int64)[::2]),
        (6, np.zeros((4, 4), np.int64).T[1:]), (7, np.zeros(5, np.int64)), (3, [1, 2]), (0, "7"),
    ],
)  # fmt: skip
def test_arguments_that_machine_code_would_misread_are_refused(code: StoredKernel, number: int, value: object) -> None:
    given = probing.questions()
    given[number] = value
    with pytest.raises((TypeError, AttributeError, ValueError)):
        native(code)(*given)
    with pytest.raises(TypeError):
        native(code)(*probing.questions()[:-1])


@pytest.mark.parametrize("signature", ["float64(int64)", "int64(float32[::1])", "int64(int64[:,:,:])", "int64", ""])
def test_what_cannot_be_passed_is_said(code: StoredKernel, signature: str) -> None:
    with pytest.raises(UnknownSignatureError):
        native(StoredKernel(code.symbol, signature, code.code))


def test_every_kernel_is_kept_and_none_allocates_memory() -> None:
    assert len(KEPT) >= 20
    assert warm() == KEPT
    for name, path in KEPT.items():
        kept = stored.stored(*name)
        assert kept is not None, name
        assert Path(path).name.startswith(".".join(name))
        assert not any(each in kept.code for each in ALLOCATIONS), name
        native(kept)


PROGRAM = """
import hashlib, sys
from kafkalog.codec import thresholds
thresholds.ENOUGH_BYTES = thresholds.ENOUGH_BATCHES = 0
from kafkalog.log import open_partition
import pathlib
digest = hashlib.sha256()
for directory in sorted(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else PLACE).glob("*/")):
    opened = open_partition(directory)
    reader = opened.to_arrow(["key", "value", "offset", "timestamp", "headers"], findings=[])
    digest.update(str(reader.read_all().to_pylist()).encode())
print(digest.hexdigest(), "numba" in sys.modules)
"""


@pytest.mark.sweep
def test_records_are_the_same_with_numba_and_without(tmp_path: Path) -> None:
    from testkit.recorded.broker_dirs import brokers

    (place,) = brokers("4.1.1/segments")
    program = PROGRAM.replace("PLACE", repr(str(place)))
    first = run(program, NUMBA_CACHE_DIR=str(tmp_path))  # compiles
    second = run(program, NUMBA_CACHE_DIR=str(tmp_path))
    assert first.split() == [first.split()[0], "True"]
    assert second.split() == [first.split()[0], "False"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "writable by all"])
def test_a_file_that_is_not_whole_or_not_ours_is_not_run(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: StoredKernel
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kept = stored.keep("some", "thing", code)
    assert kept is not None
    assert stored.stored("some", "thing") == code
    path = Path(kept)
    data = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "flipped":
            path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        case "empty":
            path.write_bytes(b"")
        case "foreign":
            path.write_bytes(b"\x7fELF" + data)
        case _:
            path.chmod(0o666)
    assert stored.stored("some", "thing") is None
    nothing = np.zeros((len(HeaderColumn), 0), np.int64)
    assert Kernel("select_batches", "consecutive_batches")(nothing, 0, 0, 0, 0, np.zeros(0, np.int64)) == 0


def test_no_flipped_bit_of_the_head_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: StoredKernel, measured: Callable[[str, int], None]
) -> None:
    """The head names the function and its arguments: one wrong letter there, and a process would run into nowhere."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    path = Path(stored.keep("some", "thing", code) or "")
    data = path.read_bytes()
    bits = 8 * (len(data) - len(code.code))
    for bit in range(bits):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        assert stored.stored("some", "thing") is None, bit
    measured("flipped bits in the head of a kept kernel, none believed", bits)
    assert stored.keep("some", "thing", code) == str(path)
    assert stored.stored("some", "thing") == code


@pytest.mark.parametrize("head", ["null", "[]", "7", '"x"', "{}", '{"name": 1}', "[" * 100_000, "not JSON", "\xff"])
def test_another_head_with_a_right_checksum_is_no_kernel(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: StoredKernel
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    path = Path(stored.keep("some", "thing", code) or "")
    sealed = stored._checksum(body := head.encode("latin-1") + b"\n" + code.code)
    path.write_bytes(stored._MAGIC + sealed + b"\n" + body)
    assert stored.stored("some", "thing") is None
    path.write_bytes(path.read_bytes().replace(body, b""))
    assert stored.stored("some", "thing") is None


@pytest.mark.parametrize("how", ["its group may write it", "it is a link", "it is another kernel's", "it is a FIFO"])
def test_a_file_that_others_can_have_put_there_is_not_run(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: StoredKernel
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    path = Path(stored.keep("some", "thing", code) or "")
    other = Path(stored.keep("another", "thing", code) or "")
    if how == "its group may write it":
        path.chmod(0o664)
    elif how == "it is a link":
        path.rename(tmp_path / "moved")
        path.symlink_to(tmp_path / "moved")
    elif how == "it is another kernel's":
        path.write_bytes(other.read_bytes())
    else:
        path.unlink()
        os.mkfifo(path)
    assert stored.stored("some", "thing") is None
    assert stored.where_stored("some", "thing") is None


def test_another_source_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels freeze layouts from all over the codec, so any of its sources counts."""
    fresh = stored.fingerprint.__wrapped__
    found = list(stored._sources())
    assert fresh() == fresh() == stored.fingerprint()
    names = {Path(path).name for path, _, _ in found}
    assert {"limits.py", "model.py", "scan_batches.py", "primitives.py"} <= names
    path, size, time = found[-1]
    for other in ((path + "x", size, time), (path, size + 1, time), (path, size, time + 1)):
        monkeypatch.setattr(stored, "_sources", lambda other=other: iter([*found[:-1], other]))
        assert fresh() != stored.fingerprint()


def test_where_nothing_can_be_written_kernels_still_work(tmp_path: Path) -> None:
    file = tmp_path / "no directory"
    file.touch()
    program = """
from kafkalog.machine_code import stored
print(stored.keep("some", "thing", stored.StoredKernel("a", "b", b"c")))
"""
    assert run(program, NUMBA_CACHE_DIR=str(file)) == "None"


def test_old_files_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: StoredKernel) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "kafkalog").mkdir()
    for number in range(9):
        (tmp_path / "kafkalog" / f"some.thing.{number:016x}.kernel").touch()
    stored.keep("some", "thing", code)
    assert len(list((tmp_path / "kafkalog").iterdir())) == 4
    assert stored.stored("some", "thing") == code


def test_an_old_file_may_go_while_its_age_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: StoredKernel
) -> None:
    """Another process that keeps its kernels at the same time removes old files too."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "kafkalog").mkdir()
    (tmp_path / "kafkalog" / f"some.thing.{0:016x}.kernel").symlink_to(tmp_path / "gone")
    path = stored.keep("some", "thing", code)
    assert path is not None
    assert stored.stored("some", "thing") == code
