"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from support import peers

__all__ = ["machine"]


def machine() -> str:
    """One line about where this ran."""
    model = ""
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return (f"{os.cpu_count()} cores {model or platform.machine()}, {platform.system()}, "
            f"Python {platform.python_version()}, numba {version('numba')}, pyarrow {pa.__version__}; "
            f"{peers.versions()}; load {os.getloadavg()[0]:.1f}")  # fmt: skip
