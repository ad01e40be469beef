"""Memory goes back to the system: what is asked of glibc takes effect."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from kafkalog.server.memory import Budget

PROGRAM = """
import ctypes, tempfile, threading
from pathlib import Path
from kafkalog.server.memory import keep_little

assert keep_little()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.fopen.restype = ctypes.c_void_p
ready = threading.Barrier(17)

def allocate():
    libc.malloc(50_000)
    ready.wait()
    ready.wait()

threads = [threading.Thread(target=allocate) for _ in range(16)]
for each in threads:
    each.start()
ready.wait()
with tempfile.NamedTemporaryFile() as file:
    stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    assert libc.malloc_info(0, stream) == 0
    libc.fclose(stream)
    print(Path(file.name).read_text().count("<heap "))
ready.wait()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what is asked is asked of glibc")
def test_many_threads_share_two_arenas() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert 1 <= int(run.stdout) <= 2


def test_what_was_taken_of_a_budget_is_given_back_once() -> None:
    budget = Budget(10)
    first, second = budget.take(6), budget.take(4)
    assert first is not None
    assert second is not None
    assert budget.take(1) is None
    first.release()
    first.release()
    assert budget.take(7) is None
    assert budget.take(6) is not None
