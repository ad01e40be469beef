"""Compiled kernels for kinds of processors, for a wheel to bring along: `kernels.py FOLDER`, a folder for each kind.

Each kind is compiled in a process of its own, with a cache of its own.  Before that, a probe has to show that this
version of numba calls kernels as kafkalog does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from kafkalog.codec.kernels.keeping import convention_holds
from kafkalog.codec.kernels.shipping import environment
from kafkalog.machine_code.levels import LEVELS


def main(folder: str) -> int:
    """Compile for each level into a folder of its name; gives the exit code."""
    if not convention_holds():
        print("kernels.py: this numba calls compiled code in another way than kafkalog does", file=sys.stderr)
        return 1
    for level in LEVELS:
        with tempfile.TemporaryDirectory(prefix="kafkalog-") as cache:
            made = subprocess.run(
                [sys.executable, "-m", "kafkalog.codec.kernels.shipping", folder],
                env=os.environ | environment(level, cache), check=False,
            )  # fmt: skip
        if made.returncode:
            return made.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
