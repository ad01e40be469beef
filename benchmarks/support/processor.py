"""What a machine is."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

__all__ = ["processor"]


def processor() -> str:
    """How many cores of which processor, and the system."""
    model = ""
    if sys.platform == "linux":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{os.cpu_count()} cores {model or platform.machine()}, {platform.system()}"
