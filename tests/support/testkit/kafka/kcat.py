"""kcat, librdkafka's own command: the one on the path, or Debian's packages, unpacked into the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from testkit.kafka import kafka_jars

_PACKAGES = ("kcat", "librdkafka1", "libyajl2")
_SECONDS = 60
_FORMAT = "%t %p %o %T %K %S\\n%k%s\\n"
"""Sizes are -1 where there is nothing."""

Line = tuple[str, int, int, int, bytes | None, bytes | None]
"""Topic, partition, offset, timestamp, key, value."""


def _run(*command: str, cwd: Path) -> None:
    try:
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=kafka_jars.SETUP_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        message = f"kcat is not on the path, and {command[0]} did not bring it: {error}"
        raise kafka_jars.KafkaUnavailableError(message) from error


@cache
def _command() -> tuple[str, str]:
    """The program, and where its libraries are."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is not None:
        return found, ""
    folder = kafka_jars.cache_directory() / "kcat"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            place = Path(made)
            _run("apt-get", "download", *_PACKAGES, cwd=place)
            for package in sorted(place.glob("*.deb")):
                _run("dpkg-deb", "-x", str(package), "unpacked", cwd=place)
            (place / "unpacked").rename(folder)
    (program,) = folder.glob("usr/bin/kcat")
    (library,) = folder.glob("usr/lib/*/librdkafka.so.1")
    return str(program), str(library.parent)


def kcat(address: str, *words: str) -> bytes:
    """What it prints; it must end well."""
    program, libraries = _command()
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    done = subprocess.run([program, "-b", address, *words], capture_output=True, timeout=_SECONDS, check=False,
                          env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def consumed(address: str, topic: str, isolation_level: str) -> list[Line]:
    """All records of a topic, from the beginning to the end."""
    data = kcat(address, "-C", "-t", topic, "-e", "-q", "-o", "beginning", "-X", f"isolation.level={isolation_level}",
                "-X", "check.crcs=true", "-f", _FORMAT)  # fmt: skip
    found: list[Line] = []
    while data:
        head, _, data = data.partition(b"\n")
        name, *rest = head.decode().split(" ")
        partition, offset, timestamp, key_size, size = map(int, rest)
        parts = []
        for length in (key_size, size):
            parts.append(data[:length] if length >= 0 else None)
            data = data[max(0, length) :]
        assert data[:1] == b"\n"
        data = data[1:]
        found.append((name, partition, offset, timestamp, *parts))  # type: ignore[arg-type]
    return found
