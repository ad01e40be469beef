"""The compiled code on aarch64, under qemu-user: its digests of recorded logs are those of this machine.

Python for arm64 comes from Debian by `apt-get download`, packages from the registry by `pip download`; all is kept in
`.cache/aarch64`.  Exit code 1 if a digest differs, 2 if something cannot be had, which is said in one sentence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "aarch64"
PLATFORM = "manylinux_2_17_aarch64"
EMULATOR = "qemu-aarch64"
DEBIAN = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "zlib1g", "libexpat1", "libssl3",
    "libffi8", "libgcc-s1", "libstdc++6", "libbz2-1.0", "liblzma5", "libcrypt1", "libuuid1",
)  # fmt: skip
PACKAGES = (
    "construct", "crc32c", "zstandard", "lz4", "xxhash", "python-snappy", "cramjam", "click", "rich", "numpy",
    "msgspec", "pyarrow", "isal", "markdown-it-py", "mdurl", "pygments",
)  # fmt: skip
CASES = ("4.1.1/codecs", "4.1.1/txn", "2.8.2/compact", "0.10.2.2/codecs", "0.8.2.2/codecs")


class CannotBeHadError(Exception):
    """Why this cannot be checked here, in one sentence."""


def run(what: str, *command: str, folder: Path = ROOT, **variables: str) -> str:
    """What a program prints.  Raises `CannotBeHadError` if it fails."""
    try:
        settings = os.environ | variables
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=settings)
    except OSError as error:
        raise CannotBeHadError(f"{what}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CannotBeHadError(f"{what}: {command[0]} ended with {done.returncode}: {said[-1] if said else ''}")
    return done.stdout


def python_of_aarch64() -> Path:
    """A folder that has Debian's Python for arm64 in it."""
    root = CACHE / "root"
    if not root.is_dir():
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            lists, archives = Path(temporary, "lists"), Path(temporary, "cache")
            (lists / "partial").mkdir(parents=True)
            (archives / "archives" / "partial").mkdir(parents=True)
            settings = {
                "Dir::State::Lists": lists, "Dir::Cache": archives, "Dir::State::status": "/dev/null",
                "APT::Architecture": "arm64", "APT::Architectures::": "arm64",
            }  # fmt: skip
            apt = ["apt-get", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
            run("lists of packages for arm64", *apt, "update")
            run("Python for arm64", *apt, "download", *DEBIAN, folder=Path(temporary))
            made = Path(temporary, "root")
            for package in sorted(Path(temporary).glob("*.deb")):
                run("unpacking", "dpkg", "-x", str(package), str(made))
            made.rename(root)
    return root


def packages_of_aarch64() -> Path:
    """A folder of the packages that the codec needs, for aarch64, as they are pinned."""
    site = CACHE / "site"
    if not site.is_dir():
        sys.path.insert(0, str(ROOT))
        import dev

        pinned = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            wanted, made = Path(temporary, "wanted.txt"), Path(temporary, "site")
            wanted.write_text(dev._requirements_of(pinned, PACKAGES), encoding="utf-8")
            platforms = [word for minor in (17, 26, 27, 28) for word in ("--platform", f"manylinux_2_{minor}_aarch64")]
            run(
                "packages for aarch64", sys.executable, "-m", "pip", "install", "--quiet", "--target", str(made),
                *platforms, "--platform", "manylinux2014_aarch64", "--platform", "any", "--python-version", "3.11",
                "--only-binary", ":all:", "--no-deps", "--require-hashes", "-r", str(wanted),
            )  # fmt: skip
            made.rename(site)
    return site


def main() -> int:
    """Compare the digests; the exit code."""
    CACHE.mkdir(parents=True, exist_ok=True)
    program, library = str(ROOT / "tests" / "campaigns" / "digests.py"), CACHE / "libkafkalog.so.1"
    try:
        if shutil.which(EMULATOR) is None:
            raise CannotBeHadError(f"there is no {EMULATOR}")
        root, site = python_of_aarch64(), packages_of_aarch64()
        build = [sys.executable, str(ROOT / "release" / "native.py"), "--platform", PLATFORM, "--output", str(library)]
        run("the library", *build)
        with tempfile.TemporaryDirectory() as temporary:
            for case in CASES:
                archive = ROOT / "fixtures" / "brokers" / f"kafka-{case}" / "data.tar.gz"
                with tarfile.open(archive) as packed:
                    packed.extractall(Path(temporary, case.replace("/", "-")), filter="data")
            here = run("this machine", sys.executable, program, temporary)
            there = run(
                "aarch64", EMULATOR, "-L", str(root), str(root / "usr/bin/python3.11"), program, temporary,
                PYTHONPATH=f"{ROOT / 'src'}:{site}", KAFKALOG_NATIVE=str(library), PYTHONDONTWRITEBYTECODE="1",
            )  # fmt: skip
    except CannotBeHadError as error:
        print(f"aarch64: not checked: {error}")
        return 2
    same = here == there
    print(f"aarch64 under {EMULATOR}: {len(there.splitlines())} digests, {'as here' if same else 'OTHERS than here'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
