"""Kafka's published jars, and our Java harness compiled against them, kept in the checkout's cache.

The versions are a table, ``tests/interop/kafka/versions.toml``. Each version has a directory ``.cache/kafka/<version>``
(``KAFKALOG_CACHE`` moves the whole cache) with ``lib/`` (what Maven resolved) and ``classes/`` (the harness). Setting
up is idempotent and holds a file lock, so that several test processes may start at once. What is there is reused
without Maven, and without a compiler.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[4]
HARNESS = ROOT / "tests" / "interop" / "kafka"
JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)
# What Kafka and ZooKeeper of before 2021 reach into on a JDK of today.
OPENED_PACKAGES = ("java.lang", "java.nio", "java.util", "java.util.concurrent", "java.net", "sun.nio.ch")
SETUP_SECONDS = 900


class KafkaUnavailableError(Exception):
    """Kafka cannot be run here; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Version:
    """One line of the table."""

    name: str
    scala: str
    modes: tuple[str, ...]
    harness: bool
    extra: tuple[str, ...]
    tools: str
    """the version whose command-line tools and MirrorMaker are used with it"""

    @property
    def artifacts(self) -> tuple[str, ...]:
        return (f"org.apache.kafka:kafka_{self.scala}:{self.name}", *self.extra)

    def at_least(self, other: str) -> bool:
        return number(self.name) >= number(other)


def number(version: str) -> tuple[int, ...]:
    """A version as numbers that compare as versions do."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def holds(version: str, condition: str) -> bool:
    """Whether a version meets a condition such as ``>=0.11 <4.0``."""
    tests = re.findall(r"(>=|<)([\d.]+)", condition)
    if not tests:
        raise ValueError(f"no condition: {condition!r}")
    return all((number(version) >= number(bound)) is (sign == ">=") for sign, bound in tests)


def fit(source: str, version: str) -> str | None:
    """A Java source as it reads for one Kafka version, or None if it is not for it.

    Lines that end in ``//@ >=4.3`` and blocks between ``//@begin >=4.3`` and ``//@end`` are kept where the condition
    holds; ``//@file >=4.0`` in the first line decides about the whole file. Lines left out stay as empty lines.
    """
    lines: list[str] = []
    kept = [True]
    for line in source.split("\n"):
        match = re.search(r"//@(file|begin|end)?\s*([<>=\d. ]*)$", line)
        kind = match[1] if match else None
        if match and kind == "file":
            if not holds(version, match[2]):
                return None
        elif match and kind == "begin":
            kept.append(holds(version, match[2]))
        elif match and kind == "end":
            kept.pop()
        elif all(kept) and (match is None or holds(version, match[2])):
            lines.append(line)
            continue
        lines.append("")
    if len(kept) != 1:
        raise ValueError("a //@begin without its //@end")
    return "\n".join(lines)


@cache
def versions() -> dict[str, Version]:
    """The table of versions."""
    table = tomllib.loads((HARNESS / "versions.toml").read_text())["versions"]
    return {
        name: Version(
            name, row["scala"], tuple(row["modes"]), row["harness"], tuple(row["extra"]), row.get("tools", name)
        )
        for name, row in table.items()
    }


def harness_versions() -> list[str]:
    """The versions that the harness is compiled for, newest first."""
    return sorted((name for name, row in versions().items() if row.harness), key=number, reverse=True)


def newest_with_tools() -> str:
    """The version whose tools are used with the newest one of the harness."""
    return versions()[harness_versions()[0]].tools


def cache_directory() -> Path:
    return Path(os.environ.get("KAFKALOG_CACHE") or ROOT / ".cache")


def version_directory(version: str) -> Path:
    return cache_directory() / "kafka" / version


def _pom(version: Version) -> str:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n".format(
            *artifact.split(":")
        )
        for artifact in version.artifacts
    )
    return (HARNESS / "pom.xml").read_text().replace("<!-- dependencies -->", dependencies)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _sources(version: str) -> dict[str, str]:
    root = HARNESS / "java"
    fitted = {str(path.relative_to(root)): fit(path.read_text(), version) for path in sorted(root.rglob("*.java"))}
    return {name: text for name, text in fitted.items() if text is not None}


def _missing_parts(version: str) -> list[str]:
    """What is not in the cache, or not as the table and the sources are now: "lib", "classes"."""
    row, directory = versions()[version], version_directory(version)
    missing = []
    if not _stamped(directory / "lib", _digest(_pom(row))):
        missing.append("lib")
    if row.harness and not _stamped(directory / "classes", _digest(_pom(row), *_sources(version).values())):
        missing.append("classes")
    return missing


def _stamped(directory: Path, digest: str) -> bool:
    stamp = directory / ".stamp"
    return stamp.is_file() and stamp.read_text() == digest


def available(version: str = "4.1.0") -> str | None:
    """None if Kafka of that version can be run here (perhaps after setting it up), otherwise the reason in one line."""
    if shutil.which("java") is None:
        return "Kafka itself was not asked: there is no java on the path"
    missing = _missing_parts(version)
    if "lib" in missing and shutil.which("mvn") is None:
        return f"Kafka itself was not asked: the jars of {version} are not in the cache and there is no mvn on the path"
    if "classes" in missing and shutil.which("javac") is None:
        return (
            f"Kafka itself was not asked: the harness for {version} is not compiled and there is no javac on the path"
        )
    return None


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], directory: Path, what: str) -> None:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=SETUP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as e:
        raise KafkaUnavailableError(f"{what}: not done after {SETUP_SECONDS} s") from e
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if re.search("(?i)error", line)]
        telling = [line for line in lines if re.search("[Cc]ould not|Failed|No matching|do not match", line)]
        first = re.sub(r"\x1b\[[0-9;]*m", "", [*telling, *lines, "no message"][0])
        raise KafkaUnavailableError(f"{what}: {first.strip()[:300]}")


def _replace(directory: Path, made: Path, digest: str) -> None:
    (made / ".stamp").write_text(digest)
    shutil.rmtree(directory, ignore_errors=True)
    made.rename(directory)


def _resolve(version: Version, directory: Path) -> None:
    made = directory / "lib.new"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    (directory / "pom.xml").write_text(_pom(version))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={made}"]
    _run(command, directory, f"Maven did not resolve Kafka {version.name}")
    _replace(directory / "lib", made, _digest(_pom(version)))


def compile_java(version: str, sources: dict[str, str], target: Path, classpath: str) -> None:
    """Compile sources (name to text) into a directory of classes."""
    work = target.with_name(target.name + ".src")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, text in sources.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    names = [str(work / name) for name in sources]
    command = ["javac", "-nowarn", "-proc:none", "-Xlint:none", "-cp", classpath, "-d", str(target), *names]
    _run(command, target, f"the Java sources do not compile against Kafka {version}")
    shutil.rmtree(work)


def jars(version: str) -> list[Path]:
    return sorted((version_directory(version) / "lib").glob("*.jar"))


def setup(version: str) -> None:
    """Resolve and compile what is missing; does nothing if nothing is."""
    if version not in versions():
        raise KafkaUnavailableError(f"Kafka {version} is not in the table ({', '.join(versions())})")
    reason = available(version)
    if reason:
        raise KafkaUnavailableError(reason)
    if not _missing_parts(version):
        return
    row, directory = versions()[version], version_directory(version)
    with _locked(directory):
        missing = _missing_parts(version)
        if "lib" in missing:
            _resolve(row, directory)
        if "classes" in missing:
            sources = _sources(version)
            compile_java(version, sources, directory / "classes.new", ":".join(map(str, jars(version))))
            digest = _digest(_pom(row), *sources.values())
            _replace(directory / "classes", directory / "classes.new", digest)


def compiled(version: str, name: str, sources: dict[str, str]) -> Path:
    """The classes of further Java sources (name to text, for all versions), compiled once beside the jars."""
    setup(version)
    fitted = {path: text for path, source in sources.items() if (text := fit(source, version)) is not None}
    directory, digest = version_directory(version), _digest(*fitted.values())
    with _locked(directory):
        if not _stamped(directory / name, digest):
            compile_java(version, fitted, directory / f"{name}.new", ":".join(map(str, jars(version))))
            _replace(directory / name, directory / f"{name}.new", digest)
    return directory / name


def further_jars(
    version: str, *artifacts: str, classifier: str = "", group: str = "org.apache.kafka"
) -> tuple[Path, ...]:
    """Single jars, Kafka's or another group's, beside what a version's tools bring; Maven brings each once."""
    folder = cache_directory() / "further" / version
    found = []
    for artifact in artifacts:
        jar = folder / (f"{artifact}-{version}" + (f"-{classifier}.jar" if classifier else ".jar"))
        if not jar.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as made:
                wanted = f"{group}:{artifact}:{version}" + (f":jar:{classifier}" if classifier else "")
                command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={wanted}", f"-DoutputDirectory={made}"]
                try:
                    subprocess.run(command, check=True, capture_output=True, timeout=SETUP_SECONDS)
                except (OSError, subprocess.SubprocessError) as error:
                    raise KafkaUnavailableError(f"Maven did not resolve {artifact}: {error}") from error
                (Path(made) / jar.name).rename(jar)
        found.append(jar)
    return tuple(found)


def classpath(version: str) -> str:
    """The class path of a version, harness first; sets the version up if needed."""
    setup(version)
    parts = [version_directory(version) / "classes"] if versions()[version].harness else []
    return ":".join(str(part) for part in [*parts, *jars(version)])


def java(
    version: str,
    main: str,
    *arguments: str,
    heap: str = "512m",
    flags: tuple[str, ...] = (),
    classes: tuple[Path, ...] = (),
) -> list[str]:
    """The command that runs a main class of a version with a small, quick-starting JVM; ``classes`` go first."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES]
    return [
        "java",
        f"-Xmx{heap}",
        *JVM_FLAGS,
        "-Djava.security.manager=allow",
        *opened,
        *flags,
        "-cp",
        ":".join([*map(str, classes), classpath(version)]),
        main,
        *arguments,
    ]
