"""What a run is about to do, written down before it does anything: the journal, which becomes the manifest.

`journal.json` in the run's directory means that the run has begun and not ended; `manifest.json` that it has;
`undoing.json` that it is being taken back, and `undone.json` that it was.  Each is the same document with a checksum
of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from kafkalog.codec.crc32c import crc32c
from kafkalog.codec.errors import FormatError
from kafkalog.recovery.actions import ActionKind

__all__ = ["JOURNAL", "MANIFEST", "UNDOING", "UNDONE", "FileState", "Journal", "Step"]

JOURNAL = "journal.json"
MANIFEST = "manifest.json"
UNDOING = "undoing.json"
UNDONE = "undone.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's content and time."""

    size: int
    sha256: str
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One action with what was there, what will be there, and where each is kept.

    `saved` is where the quarantine keeps the original (for a truncation: the tail), `staged` where new content waits.
    """

    kind: ActionKind
    path: str
    target: str | None = None
    before: FileState | None = None
    after: FileState | None = None
    saved: str | None = None
    staged: str | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """All steps of a run, in order; `directories` holds the modification times (ns) of the directories it touches."""

    run_id: str
    tool_version: str
    root: str
    mode: str
    steps: Sequence[Step]
    directories: Mapping[str, int]

    def encode(self) -> bytes:
        """The document, one line of JSON and its CRC-32C."""
        body = json.dumps({"version": _VERSION, **asdict(self)}, sort_keys=True, ensure_ascii=True).encode()
        return body + f"\n{crc32c(body):08x}\n".encode()

    @classmethod
    def decode(cls, data: bytes, source: str) -> Journal:
        """The document; raises `FormatError` if it is damaged or of another version."""
        body, _, checksum = data.rstrip(b"\n").rpartition(b"\n")
        if checksum != f"{crc32c(body):08x}".encode():
            raise FormatError("the recovery journal is damaged: its checksum does not fit", source=source)
        values = json.loads(body)
        if values.pop("version") != _VERSION:
            raise FormatError("the recovery journal is of another version", source=source)
        steps = [
            Step(
                ActionKind(step["kind"]),
                step["path"],
                step["target"],
                FileState(**step["before"]) if step["before"] else None,
                FileState(**step["after"]) if step["after"] else None,
                step["saved"],
                step["staged"],
            )
            for step in values.pop("steps")
        ]
        return cls(steps=steps, **values)
