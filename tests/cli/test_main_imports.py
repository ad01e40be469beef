"""What a start loads, and what small work does not load."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Record, TimestampType
from testkit.recorded.broker_dirs import brokers

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
        ("numpy,pyarrow,kafkalog.codec.common.errors,kafkalog.log", ["--help"]),
        ("numpy,pyarrow", ["dump", "--json"]),
        ("numpy,pyarrow", ["ls"]),
        ("numpy,pyarrow", ["verify"]),
        ("numpy,pyarrow", ["plan"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_small_work_does_not_load(unwanted: str, words: list[str]) -> None:
    paths = [] if words == ["--help"] else [str(path) for path in brokers("4.1.1/segments")]
    command = [sys.executable, "-c", PROGRAM, unwanted, *words, *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


LARGE = [["ls"], ["verify"], ["plan"], ["recover", "--yes"], ["report"], ["compare"]]


@pytest.mark.parametrize("words", LARGE, ids=" ".join)
def test_large_logs_do_not_load_numpy(words: list[str], tmp_path: Path) -> None:
    root = tmp_path / "data"
    (root / "t-0").mkdir(parents=True)
    value = random.Random(5).randbytes(20_000)
    parts = [
        bytes(build_batch([Record(offset, 1_700_000_000_000, TimestampType.CREATE_TIME, b"key", value)]))
        for offset in range(500)
    ]
    (root / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts) + b"torn")
    more = {"report": ["--output", str(tmp_path / "page.html")], "compare": [str(root)]}.get(words[0], [])
    command = [sys.executable, "-c", PROGRAM, "numpy,pyarrow", *words, str(root), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


AT_THE_END = """
import atexit, gc, sys
from kafkalog.__main__ import main
atexit.register(lambda: print("frozen:", gc.get_freeze_count() > 0))
sys.argv = ["kafkalog", "--version"]
main()
"""


def test_an_interpreter_that_ends_does_not_search_what_was_imported() -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "frozen: True"


LOADED = """
import sys
before = set(sys.modules)
from kafkalog.cli.main import run
code = run(sys.argv[1:])
print("loaded:", code, *sorted(set(sys.modules) - before - {"__mp_main__"}))
"""
PACKAGES = {
    "click", "construct", "cramjam", "crc32c", "kafkalog", "lz4", "msgspec", "snappy", "typing_extensions", "xxhash",
    "zstandard",
}  # fmt: skip
"""What is needed for names, layouts, checksums and codecs, whichever of these are installed."""
MOST_MODULES = 570
"""Each takes a fifth of a millisecond of every start; there are about 570, 13 of them msgspec and what it imports."""


@pytest.mark.parametrize(("words", "code"), [(["verify"], 1), (["recover", "--yes"], 2)], ids=["verify", "recover"])
def test_how_many_modules_a_start_loads(words: list[str], code: int, tmp_path: Path) -> None:
    partition = tmp_path / "data" / "t-0"
    partition.mkdir(parents=True)
    batch = build_batch([Record(0, 1_700_000_000_000, TimestampType.CREATE_TIME, None, b"value")])
    (partition / f"{0:020}.log").write_bytes(batch + b"torn")
    command = [sys.executable, "-c", LOADED, *words, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = done.stdout.rpartition("loaded: ")[2].split()
    assert found[0] == str(code), done.stderr
    modules = found[1:]
    others = {name.split(".")[0] for name in modules} - sys.stdlib_module_names - PACKAGES
    assert not others, others
    assert 100 < len(modules) <= MOST_MODULES, len(modules)
