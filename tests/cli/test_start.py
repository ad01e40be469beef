"""Small work does not pay for compiled code, and the one time that code is compiled is announced to whoever watches."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from broker_dirs import brokers
from kafkalog.codec.kernels import jit

PROGRAM = """
import sys
from kafkalog.cli.main import run
run(sys.argv[2:])
loaded = [name for name in sys.argv[1].split(",") if name in sys.modules]
sys.exit(f"loaded: {loaded}" if loaded else 0)
"""


@pytest.mark.parametrize(
    ("unwanted", "words"),
    [
        ("numba,numpy,pyarrow,kafkalog.codec", ["--help"]),
        ("numba,numpy,pyarrow", ["dump", "--json"]),
        ("numba,numpy,pyarrow", ["ls"]),
        ("numba,numpy,pyarrow", ["verify"]),
        ("numba,numpy,pyarrow", ["plan"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_small_work_does_not_load(unwanted: str, words: list[str]) -> None:
    paths = [] if words == ["--help"] else [str(path) for path in brokers("4.1.1/segments")]
    command = [sys.executable, "-c", PROGRAM, unwanted, *words, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "words"), [(_Terminal(), "compiling for this machine"), (io.StringIO(), "")])
def test_compiling_is_announced_once_and_on_a_terminal_only(
    stream: io.StringIO, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "_announced", False)
    monkeypatch.setattr(sys, "stderr", stream)
    for number in range(2):
        namespace: dict[str, object] = {}
        exec(f"def fresh_{number}(value):\n    return value + {number}\n", namespace)
        function = namespace[f"fresh_{number}"]
        assert jit.compiled("int64(int64)")(function)(41) == 41 + number  # type: ignore[type-var,operator]
    assert stream.getvalue().count("\n") == (1 if words else 0)
    assert words in stream.getvalue()
