"""The codec's tests under other versions of Python, with one file of compiled code: `pythons.py PYTHON...`.

Each Python gets a virtual environment in `.cache/pythons`, with what the tests need of `requirements/dev.txt`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "pythons"
LIBRARY = ROOT / "codec" / "native" / "libkafkalog.so.1"
PACKAGES = (
    "construct", "crc32c", "zstandard", "lz4", "xxhash", "python-snappy", "cramjam", "click", "rich", "numpy",
    "msgspec", "pyarrow", "isal", "markdown-it-py", "mdurl", "pygments", "pytest", "pytest-randomly", "pytest-xdist",
    "hypothesis", "execnet", "iniconfig", "packaging", "pluggy", "sortedcontainers", "typing-extensions", "protobuf",
    "grpcio-tools", "fastavro", "setuptools", "duckdb", "polars", "polars-runtime-32", "aiokafka", "async-timeout",
    "kafka-python",
)  # fmt: skip


def tested(python: str) -> bool:
    """Run the codec's tests under one Python; whether they pass."""
    version = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:3], sep='.')"],
                             capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    place = CACHE / version
    inside = place / "bin" / "python"
    sys.path.insert(0, str(ROOT))
    import dev

    wanted, installed = CACHE / f"{version}.txt", place / "installed.txt"
    CACHE.mkdir(parents=True, exist_ok=True)
    pinned = (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    wanted.write_text(dev._requirements_of(pinned, PACKAGES), "utf-8")
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        subprocess.run([python, "-m", "venv", str(place)], check=True)
        install = [str(inside), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(wanted)]
        subprocess.run(install, check=True)
        installed.write_bytes(wanted.read_bytes())
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KAFKALOG_NATIVE": str(LIBRARY)}
    command = [str(inside), "-m", "pytest", "tests/codec", "-q", "-n", "2", "-p", "no:cacheprovider"]
    passed = subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode == 0
    print(f"Python {version}: {'passed' if passed else 'FAILED'}", flush=True)
    return passed


if __name__ == "__main__":
    results = [tested(python) for python in sys.argv[1:]]
    sys.exit(0 if all(results) else 1)
