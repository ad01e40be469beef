"""Seeded segments in ``.cache/bench``: some batches of random records, repeated with increasing offsets.

No checksum covers a batch's base offset or a message's offset, so a copy needs no other change.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kafkalog.codec import Codec
from kafkalog.codec.encode import build_batch, build_messages
from kafkalog.codec.model import Header, Record, TimestampType

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
MIB = 1 << 20
START_MS = 1_700_000_000_000
_TEMPLATES = 16
_OFFSET = struct.Struct(">q")


@dataclass(frozen=True)
class Shape:
    """What the batches of a corpus look like."""

    codec: Codec = Codec.NONE
    magic: int = 2
    value_bytes: int = 100
    records: int = 140
    headers: int = 0

    @property
    def name(self) -> str:
        """A topic's name that tells all of it."""
        return f"m{self.magic}-{self.codec.label}-v{self.value_bytes}-r{self.records}-h{self.headers}"


def _value(source: random.Random, size: int) -> bytes:
    """Text that compresses about as JSON does."""
    words = (f'{{"user": {source.randrange(10**6)}, "action": "see", "page": "/p/{source.randrange(500)}", "id": "'
             f'{source.randbytes(size // 4 + 1).hex()}').encode()  # fmt: skip
    return (words * (size // len(words) + 1))[:size]


def records_of(shape: Shape, source: random.Random) -> list[Record]:
    """The records of one batch, offsets from 0."""
    headers = [Header(f"name-{number}", b"%08d" % number) for number in range(shape.headers)]
    return [
        Record(number, START_MS + number, TimestampType.CREATE_TIME if shape.magic else TimestampType.NO_TIMESTAMP_TYPE,
               b"%010d" % source.randrange(10**10), _value(source, shape.value_bytes), tuple(headers))
        for number in range(shape.records)
    ]  # fmt: skip


def _templates(shape: Shape) -> Iterator[bytes]:
    source = random.Random(shape.name)
    for _ in range(_TEMPLATES):
        records = records_of(shape, source)
        if shape.magic == 2:
            yield build_batch(records, codec=shape.codec, partition_leader_epoch=0)
        else:
            yield build_messages(records, magic=shape.magic, codec=shape.codec)


def _shifted(template: bytes, base: int, magic: int) -> bytes:
    if magic == 2:
        return _OFFSET.pack(base) + template[_OFFSET.size :]
    moved = bytearray(template)
    position = 0
    while position < len(moved):
        offset, size = struct.unpack_from(">qi", moved, position)
        _OFFSET.pack_into(moved, position, offset + base)
        position += 12 + size
    return bytes(moved)


def partition(shape: Shape, size: int, *, segments: int = 1, say: Callable[[str], None] = print) -> Path:
    """The partition directory of a shape with segments of about `size` bytes each; made once."""
    directory = CACHE / f"{shape.name}-{size}-{segments}" / f"{shape.name}-0"
    complete = directory.parent / "complete"
    if complete.exists():
        return directory
    say(f"making {directory.parent.name}")
    directory.mkdir(parents=True, exist_ok=True)
    templates = list(_templates(shape))
    offset = 0
    for _ in range(segments):
        written = number = 0
        with (directory / f"{offset:020}.log").open("wb") as log:
            while written < size:
                written += log.write(_shifted(templates[number % len(templates)], offset, shape.magic))
                offset += shape.records
                number += 1
    complete.touch()
    return directory
