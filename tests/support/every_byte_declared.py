"""Counts what the whole declarations cover in every sound file of the recorded brokers.

Each structure is read field by field, parsed and built again; every byte must belong to a declared field, and the bytes
must come back. Run as a program it prints how many
there are by magic, codec and kind of file: ``python tests/support/every_byte_declared.py`` for all of them, with a
number for every n-th case.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from construct import Container

from kafkalog.codec import LAYOUTS, build, names, parse, scan
from kafkalog.codec.derive import names_of
from kafkalog.codec.model import codec_label
from kafkalog.codec.names import FileKind
from kafkalog.codec.parsing.text_layouts import Checkpoint, JsonObject, NamedLines, Properties
from kafkalog.codec.parsing.trace import UNREAD, FieldSpan, Traced, read_spans
from kafkalog.recovery.explain.text_files import TEXT_FILES, text_spans
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_cases

SLOTS = {FileKind.OFFSET_INDEX: "offset_index", FileKind.TIME_INDEX: "time_index",
         FileKind.TRANSACTION_INDEX: "transaction_index"}  # fmt: skip


def uncovered(span: FieldSpan) -> int:
    """Bytes of a structure that belong to none of its fields; what was decompressed counts like the rest."""
    if not span.children or _is_number_with_bits(span):
        return len(span.data) if span.name == UNREAD else 0
    here, end = (0, None) if span.is_unpacked else (span.position, span.end)
    missed = 0
    for child in span.children:
        if child.is_unpacked:
            missed += uncovered(child)
            continue
        missed += max(child.position - here, 0) + uncovered(child)
        here = child.end
    return missed + (0 if end is None else max(end - here, 0))


def _is_number_with_bits(span: FieldSpan) -> bool:
    return isinstance(span.value, Container) and all(
        (child.position, child.end) == (span.position, span.end) and child.type.startswith("bit")
        for child in span.children
    )


def declared_names(layout: Traced) -> list[str]:
    """Names of the fields of a text file, in all its versions."""
    if isinstance(layout, Checkpoint):
        return list(names_of(layout.line))
    assert isinstance(layout, NamedLines | Properties | JsonObject)
    trees = [layout.fields] if isinstance(layout, NamedLines) else layout.versions.values()
    return [name for tree in trees for name in names_of(tree)]


@dataclass
class Counts:
    """What was read and built again, by kind; bytes seen, and those that no declaration covers."""

    same: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)
    size: int = 0
    uncovered: int = 0

    def structure(self, kind: str, what: str, data: bytes, where: str) -> None:
        """Read one structure in both ways and build it again."""
        tree = LAYOUTS[what]
        assert isinstance(tree, Traced)
        span = read_spans(tree, data)
        value = parse(data, what)
        is_sound = not list(span.problems()) and span.value == value and build(value, what) == data
        self.size += len(data)
        self.uncovered += uncovered(span)
        if is_sound:
            self.same[kind] += 1
        else:
            self.different.append(where)

    def log(self, data: bytes, where: str, prefix: str) -> None:
        """Every entry of a log, as far as it is sound."""
        for batch in scan(data).batches:
            header = batch.header
            kind = (
                f"{prefix}magic {header.magic}, {codec_label(header.codec)}{', control' if header.is_control else ''}"
            )
            self.structure(kind, "entry", bytes(batch.data), f"{where} at byte {batch.position}")

    def text(self, name: str, data: bytes, where: str) -> None:
        """A text file: values in declared fields, and around them nothing but their names and what separates them."""
        span = text_spans(name, data)
        rest = bytearray(data)
        for leaf in (each for each in span.walk() if each.data and not each.children):
            rest[leaf.position : leaf.end] = bytes(leaf.end - leaf.position)
        left = re.sub(rb"[\0\s]", b"", bytes(rest)).translate(None, b'{}:,="')
        for name_of_field in sorted(declared_names(TEXT_FILES[name][1]), key=len, reverse=True):
            left = left.replace(name_of_field.encode(), b"")
        self.size += len(data)
        self.uncovered += len(left)
        what = TEXT_FILES[name][0]
        value = parse(data, what)
        if next(span.problems(), None) is None and span.value == value and build(value, what) == data:
            self.same[f"text file {name}"] += 1
        else:
            self.different.append(where)


def count_file(path: Path, counts: Counts) -> None:
    """One file of a broker's directory."""
    if path.name in TEXT_FILES:
        counts.text(path.name, path.read_bytes(), str(path))
        return
    if path.name == names.BOOTSTRAP_CHECKPOINT or names.parse_kraft_snapshot_file(path.name) is not None:
        counts.log(path.read_bytes(), str(path), "KRaft snapshot, ")
        return
    found = names.parse_segment_file(path.name)
    if found is None:
        return
    data = path.read_bytes()
    if found.kind is FileKind.LOG:
        counts.log(data, str(path), "")
    elif found.kind is FileKind.PRODUCER_SNAPSHOT:
        counts.structure("file .snapshot", "producer_snapshot", data, str(path))
    elif found.kind in SLOTS and len(data) < 1 << 16:  # larger ones are zeros that a broker allocated
        counts.structure(f"file {found.kind.value}", SLOTS[found.kind], data, str(path))


def files(every: int = 1) -> Iterator[Path]:
    """Files of every n-th recorded case."""
    for case in broker_cases()[::every]:
        for broker in brokers(case.id):
            yield from (path for path in sorted(broker.rglob("*")) if path.is_file())


def main(arguments: list[str]) -> int:
    """Print the counts; 1 if a byte is not covered or not the same again."""
    counts = Counts()
    for path in files(int(arguments[0]) if arguments else 1):
        count_file(path, counts)
    for kind, number in sorted(counts.same.items()):
        sys.stdout.write(f"{number:8}  {kind}\n")
    sys.stdout.write(f"{counts.same.total():8}  parsed and built again, byte for byte\n")
    sys.stdout.write(f"{len(counts.different):8}  not the same again\n")
    sys.stdout.write(f"{counts.size:8}  bytes\n{counts.uncovered:8}  bytes that no declaration covers\n")
    return int(bool(counts.different or counts.uncovered))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
