"""The first use after installation beside the next: `first_use.py WHEEL`, processor time of whole processes.

A process reads the columns of a log of 64 MiB with nothing but what is installed and an empty cache, then the next one
does the same; medians of five pairs, each with a cache of its own.  The last pair has the wheel without its machine
code, so that kernels are compiled.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from support.corpora import Shape, partition

PROGRAM = """
import sys
import kafkalog
for batch in kafkalog.open_partition(sys.argv[1]).to_arrow(["key", "value", "offset", "timestamp", "headers"]):
    pass
sys.exit(3 if "numba" in sys.modules else 0)
"""
SIZE = 64 << 20
PAIRS = 5
"""One alone says nothing where the machine is not quiet: the first process does what the next one does."""


def seconds(package: Path, cache: Path, log: Path) -> tuple[float, bool]:
    """Processor time of one process, and whether it loaded numba."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(log)], env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        raise SystemExit(f"a process ended with {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode == 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--check", action="store_true", help="end with 1 if the first use compiles, or loads numba")
    asked = parser.parse_args()
    log = partition(Shape(), SIZE)
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as temporary:
        package = Path(temporary) / "package"
        with zipfile.ZipFile(asked.wheel) as wheel:
            wheel.extractall(package)
        compileall.compile_dir(package, quiet=1)  # as an installation does
        ok = True
        for title, pairs, compiles in (("with its machine code", PAIRS, False), ("without", 1, True)):
            firsts, nexts = [], []
            for number in range(pairs):
                cache = Path(temporary) / f"{title} {number}"
                first, compiled = seconds(package, cache, log)
                ok = ok and (compiles or not compiled)
                firsts.append(first)
                nexts.append(seconds(package, cache, log)[0])
            first, following = statistics.median(firsts), statistics.median(nexts)
            print(
                f"the wheel {title}: first {first:.2f} s, next {following:.2f} s, {first / following:.2f} x", flush=True
            )
            if asked.check:
                break
            for each in (package / "kafkalog" / "machine_code").glob("x86-64-*"):
                shutil.rmtree(each)
    return 0 if ok or not asked.check else 1


if __name__ == "__main__":
    sys.exit(main())
