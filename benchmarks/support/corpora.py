"""Seeded segments in ``.cache/bench`` in which no batch is repeated, written by Kafka's own producer path or by us."""

from __future__ import annotations

import itertools
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kafkalog
from kafkalog.codec import Codec
from kafkalog.codec.encode import build_batch, build_messages
from kafkalog.codec.model import Header, Record, TimestampType
from support import jars
from support.values import values

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "bench"
MIB = 1 << 20
START_MS = 1_700_000_000_000
KAFKA, KAFKALOG = "Kafka", "kafkalog"
_SIZE = struct.Struct(">i")


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    """A directory beside the corpora that goes when it is left."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=CACHE)


@contextmanager
def made_once(root: Path) -> Iterator[bool]:
    """Whether a directory is to be filled: it is new, or was not filled to the end; within, it is there."""
    complete = root / "complete"
    is_new = not complete.exists()
    if is_new:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
    yield is_new
    complete.touch()


@dataclass(frozen=True)
class Shape:
    """What the batches of a corpus look like, and who writes them."""

    codec: Codec = Codec.NONE
    magic: int = 2
    kind: str = "text"
    value_bytes: int = 100
    records: int = 140
    headers: int = 0
    writer: str = KAFKALOG

    @property
    def name(self) -> str:
        """A topic's name that tells all of it."""
        return (
            f"{self.writer}-m{self.magic}-{self.codec.label}-{self.kind}-v{self.value_bytes}-r{self.records}"
            f"-h{self.headers}"
        )


def records_of(shape: Shape, source: random.Random, some: Iterator[bytes], first: int) -> list[Record]:
    """The records of one batch; `first` is the offset of its first."""
    kind = TimestampType.CREATE_TIME if shape.magic else TimestampType.NO_TIMESTAMP_TYPE
    return [
        Record(
            first + number, START_MS + (first + number) // 7, kind, b"%010d" % source.randrange(10**10), value,
            tuple(Header(f"name-{each}", b"%08d" % source.randrange(10**8)) for each in range(shape.headers)),
        )
        for number, value in enumerate(itertools.islice(some, shape.records))
    ]  # fmt: skip


def _by_us(shape: Shape, payload: int, log: Path, first: int) -> int:
    """Write values of `payload` bytes in all; gives the next offset."""
    source, some = random.Random(f"{shape.name}{first}"), values(shape.kind, shape.value_bytes, f"{shape.name}{first}")
    offset = first
    with log.open("wb") as target:
        for _ in range(max(1, payload // (shape.records * shape.value_bytes))):
            made = records_of(shape, source, some, offset)
            if shape.magic == 2:
                target.write(build_batch(made, codec=shape.codec, partition_leader_epoch=0))
            else:
                target.write(build_messages(made, magic=shape.magic, codec=shape.codec))
            offset += shape.records
    return offset


def _by_kafka(shape: Shape, payload: int, log: Path) -> None:
    words = [shape.codec.label, str(shape.magic), str(shape.records), str(shape.headers), str(START_MS)]
    count = max(shape.records, payload // shape.value_bytes)
    writer = subprocess.Popen(
        jars.java("Writer", str(log), *words, heap="1g"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    if writer.stdin is None:
        raise OSError("there is no pipe to the JVM")
    with writer.stdin:
        for value in itertools.islice(values(shape.kind, shape.value_bytes, shape.name), count):
            writer.stdin.write(_SIZE.pack(len(value)) + value)
    if writer.wait() != 0:
        raise SystemExit(f"Kafka's producer path could not write {log}")


def partition(shape: Shape, payload: int, *, segments: int = 1, say: Callable[[str], None] = print) -> Path:
    """The partition directory of a shape with segments of `payload` bytes of values each; made once."""
    directory = CACHE / f"{shape.name}-{payload}-{segments}" / f"{shape.name}-0"
    with made_once(directory.parent) as is_new:
        if is_new:
            say(f"making {directory.parent.name}")
            directory.mkdir()
            offset = 0
            for _ in range(segments):
                log = directory / f"{offset:020}.log"
                if shape.writer != KAFKA:
                    offset = _by_us(shape, payload, log, offset)
                elif segments > 1:
                    raise ValueError("Kafka's producer path writes one segment")
                else:
                    _by_kafka(shape, payload, log)
    return directory


def indexed(source: Path) -> Path:
    """A copy with the indexes that a broker's directory has: threads find there where to begin."""
    root = CACHE / f"indexed-{source.parent.name}"
    with made_once(root) as is_new:
        if is_new:
            shutil.copytree(source, root / "data" / source.name)
            kafkalog.recover(root / "data")
    return root / "data" / source.name


def second(source: Path) -> Path:
    """A copy of an indexed partition, in memory of its own once it was read."""
    root = source.parent.parent / "second"
    with made_once(root) as is_new:
        if is_new:
            shutil.copytree(source, root / source.name)
    return root / source.name
