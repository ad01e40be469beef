"""Programs of the checkout that are no part of the package, loaded as modules wherever the tests are started from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["dev", "loaded"]

_ROOT = Path(__file__).resolve().parents[4]


def loaded(path: Path) -> ModuleType:
    """The module that a program is, without running it as one."""
    spec = importlib.util.spec_from_file_location(f"kafkalog_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


dev = loaded(_ROOT / "dev.py")
