"""Print the entries of indexes, snapshots and checkpoints as lines."""

from __future__ import annotations

import json

from kafkalog.cli.dump.records import Walk
from kafkalog.cli.output import LineWriter
from kafkalog.codec.common.shapes import plain
from kafkalog.log.directories.side_files import read_side_file
from kafkalog.words.escapes import escape_controls

__all__ = ["write_side_file"]


def write_side_file(path: str, walk: Walk, writer: LineWriter, *, as_json: bool) -> None:
    """Write the entries of an index, snapshot or checkpoint file, one line each, until the walk's limit of records is
    reached; without `as_json` a heading comes first. Updates `walk.printed`; damage in the part that was read
    is added to `walk.findings`. Raises `StorageError` if the file cannot be read.
    """
    content = read_side_file(path)
    if not as_json:
        writer.write(f"Dumping {escape_controls(path)}")
    for entry in content.entries:
        if walk.full:
            break
        walk.printed += 1
        writer.write(json.dumps(plain(entry)) if as_json else _line(plain(entry)))
    walk.findings.extend(content.findings)


def _line(entry: dict[str, object]) -> str:
    words = []
    for name, value in entry.items():
        if name == "currentTxnFirstOffset":
            value = "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
        words.append(f"{name}: {escape_controls(str(value))}")
    return " ".join(words)
