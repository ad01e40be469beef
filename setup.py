"""The part of the build that pyproject.toml cannot express: a library of compiled code, which fits any Python 3.

A wheel is for the machine that it is built on, or for `KAFKALOG_PLATFORM` (`manylinux_2_17_aarch64`), which Zig builds.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PLATFORM = os.environ.get("KAFKALOG_PLATFORM")


def _native() -> Any:
    spec = importlib.util.spec_from_file_location("native", ROOT / "release" / "native.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native = _native()


class BuildWithLibrary(build_py):
    """Copies the packages, and compiles the library into them: in place if the installation is editable."""

    def run(self) -> None:
        """Copy the packages to the build folder, then build the library of compiled code there; in an editable
        installation it is built in the source folder. Without a compiler, a library that is there already is removed,
        and a message is printed to stderr. Raises `BuildError` if the compiler rejects the sources.
        """
        super().run()
        if self.editable_mode:
            target = native.HERE / native.LIBRARY
        else:
            target = Path(self.build_lib, "kafkalog", "codec", "native", native.LIBRARY)
        native.provide(target, PLATFORM)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Paths of all files that were built, the library among them."""
        library = Path(self.build_lib, "kafkalog", "codec", "native", native.LIBRARY)
        return super().get_outputs(include_bytecode) + ([str(library)] if library.exists() else [])


class WithLibrary(Distribution):
    """A distribution for one kind of machine, unless nothing is compiled."""

    def has_ext_modules(self) -> bool:
        """Whether what is built holds compiled code."""
        return PLATFORM is not None or native.compiler() is not None


class WheelForAnyPython(bdist_wheel):
    """A wheel whose compiled code asks for nothing of Python's."""

    def get_tag(self) -> tuple[str, str, str]:
        """Python, binary interface and platform of the wheel."""
        return "py3", "none", PLATFORM or super().get_tag()[2]


if sys.byteorder == "little":
    setup(distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelForAnyPython})
else:
    setup()
