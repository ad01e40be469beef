"""What a benchmark ran on."""

from __future__ import annotations

import os
import platform

import pyarrow as pa

from support import peers
from support.processor import processor

__all__ = ["machine"]


def machine() -> str:
    """One line about where this ran."""
    return (f"{processor()}, "
            f"Python {platform.python_version()}, pyarrow {pa.__version__}; "
            f"{peers.versions()}; load {os.getloadavg()[0]:.1f}")  # fmt: skip
