"""The library of compiled code is that of the declarations, and is called as it is written."""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkalog.codec.native import crc_tables, functions, layout, library, tables
from kafkalog.codec.native.cells import Cells, zeros
from kafkalog.codec.native.tables import ArrowBuffer, Encoded, HeaderColumn, KeptBatch, RetainedBatch, empty_table

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "codec" / "native"
_EXPORTED = re.compile(r"^EXPORTED (?:int64_t|void) (\w+)\(([^)]*)\)", re.MULTILINE)


def test_headers_are_those_of_the_declarations() -> None:
    assert (SOURCES / "layout.h").read_text(encoding="utf-8") == layout.header_text()
    assert (SOURCES / "crc_tables.h").read_text(encoding="utf-8") == crc_tables.header_text()


def exported() -> dict[str, int]:
    """Name of each function that Python may call -> its parameters, from the sources."""
    found = {}
    for path in SOURCES.glob("*.c"):
        for name, parameters in _EXPORTED.findall(path.read_text(encoding="utf-8")):
            found[name] = 0 if parameters == "void" else parameters.count(",") + 1
    return found


def test_each_function_gets_as_many_arguments_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    called: dict[str, int] = {}

    def call(name: str, *arguments: int) -> int:
        called[name] = len(arguments)
        return 0

    monkeypatch.setattr(functions, "_call", call)
    monkeypatch.setattr(functions, "_table", lambda *_: (0, 0, 1))
    monkeypatch.setattr(functions, "_cells", lambda *_: (0, 0))
    monkeypatch.setattr(functions, "_struct", lambda *_: 0)
    monkeypatch.setattr(functions, "_numbers", lambda *_: 0)
    values: dict[str, Any] = {"int": 0, "bool": False, "Int64s": np.zeros(0, np.int64), "Table": None}
    values["Bytes"] = np.zeros(0, np.uint8)
    nothing = Cells(HeaderColumn, 0)
    values |= {"AnyTable": nothing, "Cells": nothing, "Struct": (ctypes.c_int64 * 1)(), "Numbers": zeros(0)}
    values |= {"memoryview": zeros(0), "memoryview | None": None, "Numbers | None": None, "Sequence[int]": (4, 4)}
    values |= {"tuple[int, int]": (0, 0), "tuple[int, int] | None": None, "bytes | bytearray | memoryview": bytes(8)}
    for name in set(functions.__all__) - {"address_of"}:
        function = getattr(functions, name)
        parameters = inspect.signature(function).parameters.values()
        function(*(values[each.annotation] for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD))
    assert called == exported()


def test_an_array_of_another_kind_is_refused() -> None:
    good = empty_table(HeaderColumn, 4)
    assert functions.scan_batches(0, 0, 0, True, good) == 0
    others: list[Any] = [good[:-1], good.astype(np.int32), good[:, ::2], good[0]]
    for wrong in others:
        with pytest.raises(TypeError):
            functions.scan_batches(0, 0, 0, True, wrong)
    others = [np.zeros(3, np.int64), np.zeros(8, np.int64)[::2], np.zeros(4, np.int32)]
    for short in others:
        with pytest.raises(TypeError):
            functions.consecutive_batches(good, 0, 0, 0, 0, 0, short)


def test_a_table_with_too_few_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_call", lambda *_: 0)  # C would write beyond the table
    two, buffers = np.zeros(2, np.int64), np.zeros(len(ArrowBuffer), np.int64)
    with pytest.raises(TypeError):
        functions.encode(2, two, two, buffers, 0, 0, empty_table(Encoded, 1))
    headers, written = empty_table(HeaderColumn, 2), empty_table(KeptBatch, 2)
    with pytest.raises(TypeError):
        functions.kept_records(two, two, headers, 0, np.arange(2), two, empty_table(RetainedBatch, 1), 0, written)


def test_a_library_of_other_declarations_is_not_called() -> None:
    program = (
        "from kafkalog.codec.native import layout, library\n"
        "layout.constants = lambda: {'BATCH_SIZE': 60}\n"
        "try:\n    library.library()\nexcept OSError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    reason = "the compiled code was built from other declarations than these; install kafkalog again"
    assert done.stdout == f"{library.PATH}: {reason}\n"


def test_it_is_left_alone_if_that_is_asked_for() -> None:
    program = "from kafkalog.codec.native import library; print(library.is_there())"
    for value, printed in (("none", "False\n"), ("", "True\n")):
        settings = {**os.environ, library.CHOICE: value}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=settings)
        assert done.stdout == printed


def test_checksums_are_computed_by_instructions_where_the_processor_has_them() -> None:
    facts = Path("/proc/cpuinfo").read_text(encoding="ascii")
    flags = set(re.findall(r"^(?:flags|Features)\s*: (.*)$", facts, re.MULTILINE)[0].split())
    assert functions.has_instructions() == ({"sse4_2", "pclmulqdq"} <= flags or "crc32" in flags)


def test_each_table_and_struct_has_a_name_in_c() -> None:
    kinds = {each for each in vars(tables).values() if inspect.isclass(each) and issubclass(each, tables.Rows)}
    named = [name for name in layout.constants() if name.startswith("NAMES_OF_")]
    assert len(named) == len(kinds - {tables.Rows})
