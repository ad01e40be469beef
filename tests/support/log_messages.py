"""The table of log messages in ``docs/log-messages.md``, and whether Kafka's releases can print each of them.

A message is looked for in the constant pools of Kafka's classes: ``…`` stands for what differs, so that each piece
between two of them is a constant.  Run as a program it prints the releases of every message.
"""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from testkit.kafka.kafka_jars import cache_directory

__all__ = ["COLUMNS", "PAGE", "Message", "has_message", "messages"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "log-messages.md"
COLUMNS = {"2.8": "2.8.2", "3.9": "3.9.1", "4.1": "4.1.0", "4.3": "4.3.0", "4.4": "4.4.0"}
"""How the page names a release, and whose classes are asked."""
_ROW = re.compile(r"^\| `+ ?(.+?) ?`+ \| ([^|]+) \| (.+) \| \[[^\]]+\]\(([^)]+)\) \|$")


@dataclass(frozen=True)
class Message:
    """One row."""

    text: str
    releases: tuple[str, ...]
    meaning: str
    page: str

    @property
    def pieces(self) -> list[str]:
        """What is constant in it."""
        return [piece.strip() for piece in self.text.split("…") if piece.strip()]


def messages() -> list[Message]:
    """Every row of the page."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    found = []
    for line in rows:
        match = _ROW.match(line)
        assert match is not None, f"not a row of the table: {line}"
        text, releases, meaning, page = match.groups()
        found.append(Message(text, tuple(releases.split(" ")), meaning, page))
    return found


def classes_of(release: str) -> list[bytes]:
    """All classes of Kafka's own jars."""
    found = []
    for jar in sorted((cache_directory() / "kafka" / COLUMNS[release] / "lib").glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            found += [archive.read(name) for name in archive.namelist() if name.endswith(".class")]
    return found


def has_message(message: Message, classes: list[bytes]) -> bool:
    """Whether one class has every piece of it."""
    pieces = [piece.encode() for piece in message.pieces]
    return any(all(piece in each for piece in pieces) for each in classes)


if __name__ == "__main__":
    known = {release: classes_of(release) for release in COLUMNS}
    for each in messages():
        print(" ".join(name for name in COLUMNS if has_message(each, known[name])) or "none", "|", each.text)
