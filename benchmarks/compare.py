"""kafkalog beside its peers, interleaved in one run: `python benchmarks/compare.py`.

Every row does the same work with each of them in turn on the same file, several times; medians and best rounds, and
the ratio of kafkalog's to each peer's.  No batch of a corpus is repeated; Java is warm: each work and compression has a
process of its own, with the collector that was fastest, and is run until its rate stops rising.  A peer that cannot be
had is named and not counted.  `--quick` is for correctness only: small files, two rounds, counts compared.
`--results FILE` writes the table as a page, `--json FILE` as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from support import peers, timing
from support.corpora import KAFKA, KAFKALOG, MIB, START_MS, Shape, partition, scratch_directory
from support.jvm import Jvms
from support.machine import machine
from support.rows import OURS, Row, table
from support.timing import Run, timed

import kafkalog
from kafkalog.codec import Codec
from kafkalog.codec.columnar.decompressed import decompress_together
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.encode.columns import build_batches
from kafkalog.codec.model import RecordBatch
from kafkalog.codec.native import thresholds
from kafkalog.log import open_partition

COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
KINDS = ("text", "json", "avro", "random")
TINY = Shape(writer=KAFKA, records=1, value_bytes=170)
USUAL = Shape(writer=KAFKA)
COPY_GOALS = {Codec.LZ4: 2.2, Codec.ZSTD: 2.5, Codec.SNAPPY: 2.0, Codec.GZIP: 2.0}
CEILING = 0.85
_AT_ONCE = 4 * MIB
"""decompressed in one call: what a processor's cache may still hold"""
JAVA = "Java"


class Suite:
    """The rows of one run."""

    def __init__(self, java: Jvms, scratch: Path, wanted: str, *, quick: bool, payload: int) -> None:
        self.java = java
        self.wanted = re.compile(wanted)
        self.scratch = scratch
        self.quick = quick
        self.payload = payload

    def corpus(self, shape: Shape, payload: int | None = None) -> tuple[Path, Path]:
        """Partition directory and its log file."""
        directory = partition(shape, payload or self.payload)
        return directory, next(iter(sorted(directory.glob("*.log"))))

    def _leaves_out(self, title: str, shape: Shape) -> bool:
        return self.wanted.search(f"{title}, {described(shape)}") is None

    def _row(self, title: str, shape: Shape, log: Path, runs: dict[str, Run], unit: str, **more: object) -> Row:
        row = Row(title, described(shape), runs, log.stat().st_size, unit)
        for name, value in more.items():
            setattr(row, name, value)
        return row

    def _java(self, row: Row, mode: str, shape: Shape, log: Path) -> Row:
        """The row with Java in it, if it can be had."""
        if self.java.why_not is None:
            group = shape.codec.label if mode == "deepcopy" else "any"
            row.warm.append(lambda: self.java.warmed(mode, group, log))
            row.runs[JAVA] = lambda: self.java.running(mode, group).run(mode, log)
        return row

    def views(self, shape: Shape, goal: float | None) -> Iterator[Row]:
        """Every record, checksum compared, values as views of the bytes that were read."""
        title = "decode to Arrow, views"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        opened = open_partition(directory)
        ours = timed(lambda: sum(batch.num_rows for batch in opened.to_arrow(COLUMNS, layout="view")))
        row = self._row(title, shape, log, {OURS: ours}, "records", goals={} if goal is None else {JAVA: goal})
        yield self._java(row, "deepcopy", shape, log)

    def decode(self, shape: Shape, goal: float | None, *, slow: bool = False) -> Iterator[Row]:
        """Every record, checksum compared, values copied out."""
        title = "decode to Arrow"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        opened = open_partition(directory)
        ours = timed(lambda: sum(batch.num_rows for batch in opened.to_arrow(COLUMNS)))
        runs: dict[str, Run] = {OURS: ours, "aiokafka": lambda: peers.aiokafka(log)}
        if slow:
            runs["kafka-python"] = lambda: peers.kafka_python(log)
        goals = {} if goal is None else {JAVA: goal}
        packed = shape.codec != Codec.NONE and shape.magic == 2
        if packed:
            payloads = [bytes(batch.payload) for batch in opened.batches()]
            records = sum(batch.header.records_count for batch in opened.batches())
            most = shape.records * (shape.value_bytes + 100) + 1024
            for name, one in peers.decompressors(shape.codec, most).items():
                runs[name] = timed(lambda one=one: [one(each) for each in payloads] and records)
                if goal is not None:
                    goals[name] = CEILING
        row = self._row(title, shape, log, runs, "records", goals=goals, any_goal=packed)
        yield self._java(row, "deepcopy", shape, log)

    def decompress(self, shape: Shape, goal: float) -> Iterator[Row]:
        """Nothing but decompressing, beside the library: from memory, many batches in a call, where it takes one."""
        title = "decompress alone"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        batches = list(open_partition(directory).batches())
        payloads = [bytes(batch.payload) for batch in batches]
        records = sum(batch.header.records_count for batch in batches)
        sources = np.array([np.frombuffer(each, np.uint8).ctypes.data for each in payloads], np.int64)
        sizes = np.array([len(each) for each in payloads], np.int64)

        def ours() -> int:
            start = 0
            while start < len(payloads):
                found = decompress_together(shape.codec, sources[start:], sizes[start:], DEFAULT_LIMITS, _AT_ONCE)
                assert found is not None
                assert len(found.addresses)
                start += len(found.addresses)
            return records

        runs: dict[str, Run] = {OURS: timed(ours)}
        most = shape.records * (shape.value_bytes + 100) + 1024
        for name, one in peers.decompressors(shape.codec, most).items():
            runs[name] = timed(lambda one=one: [one(each) for each in payloads] and records)
        yield self._row(title, shape, log, runs, "records", goals=dict.fromkeys(list(runs)[1:], goal))

    def loop(self, shape: Shape) -> Iterator[Row]:
        """What most people begin with: a loop over records as objects."""
        title = "records()"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape, self.payload // 4)
        opened = open_partition(directory)
        runs = {
            OURS: timed(lambda: sum(1 for _ in opened.records())),
            "aiokafka": lambda: peers.aiokafka(log), "kafka-python": lambda: peers.kafka_python(log),
        }  # fmt: skip
        yield self._row(title, shape, log, runs, "records")

    def walk(self, shape: Shape) -> Iterator[Row]:
        """The checksum of every batch; counts batches."""
        title = "walk with checksums"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        opened = open_partition(directory)

        def ours() -> int:
            return sum(1 if isinstance(found, RecordBatch) else len(found) for found in opened.batches().by_run())

        row = self._row(title, shape, log, {OURS: timed(ours)}, "batches")
        yield self._java(row, "shallow", shape, log)

    def verify(self, shape: Shape, goal: float) -> Iterator[Row]:
        """`kafkalog.verify` without a look into the records; counts batches."""
        title = "kafkalog.verify(deep=False)"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        ours = timed(lambda: kafkalog.verify(directory, deep=False).partitions[0].batches)
        row = self._row(title, shape, log, {OURS: ours}, "batches", goals={JAVA: goal})
        yield self._java(row, "shallow", shape, log)

    def recover(self, shape: Shape, goal: float) -> Iterator[Row]:
        """A whole recovery of a directory whose indexes are gone; copying it is not measured.  Counts batches."""
        title = "recover a segment, indexes rebuilt"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        batches = sum(1 for _ in open_partition(directory).batches())

        def ours() -> timing.Measured:
            root = self._copied("recover", directory, log)
            start = timing.clock()
            kafkalog.recover(root)
            return timing.clock() - start, batches

        yield self._java(
            self._row(title, shape, log, {OURS: ours}, "batches", goals={JAVA: goal}), "recover", shape, log
        )

    def recover_cold(self) -> Iterator[Row]:
        """The same on 512 MiB, from the start of a process to its end, as Kafka loads it after a crash."""
        shape = USUAL
        if self._leaves_out("recover 512 MiB", shape):
            return
        directory, log = self.corpus(shape, self.payload if self.quick else 512 * MIB)

        def ours() -> timing.Measured:
            root = self._copied("cold", directory, log)
            command = [sys.executable, "-m", "kafkalog", "recover", "--yes", str(root)]
            return timing.process(command, self.scratch / "out"), 1

        runs: dict[str, Run] = {OURS: ours}
        if self.java.why_not is None:
            runs["Kafka"] = lambda: (
                peers.recover_log_directory(self._copied("cold", directory, log), self.scratch / "out"), 1
            )  # fmt: skip
        yield self._row("recover 512 MiB, whole process", shape, log, runs, "runs", goals={"Kafka": 4.0})

    def _copied(self, name: str, directory: Path, log: Path) -> Path:
        """A log directory with the log alone, on the disk, without what earlier rounds left beside it."""
        place = self.scratch / name
        shutil.rmtree(place, ignore_errors=True)
        root = place / "logs"
        (root / directory.name).mkdir(parents=True)
        copy: Path = shutil.copy(log, root / directory.name / log.name)
        with copy.open("rb") as written:
            os.fsync(written.fileno())  # so that nothing that is measured waits for it
        return root

    def recover_small(self) -> Iterator[Row]:
        """The command on a directory of one small partition, process start included; goal 0.5 s."""
        title = "kafkalog recover on a small directory (goal: 0.5 s, 2 runs/s)"
        if self._leaves_out(title, USUAL):
            return
        directory, log = self.corpus(USUAL, 64 * 1024)

        def ours() -> timing.Measured:
            root = self._copied("small", directory, log)
            command = [sys.executable, "-m", "kafkalog", "recover", "--yes", str(root)]
            return timing.process(command, self.scratch / "out"), 1

        yield self._row(title, USUAL, log, {OURS: ours}, "runs")

    def dump(self, shape: Shape, *, text: bool = False) -> Iterator[Row]:
        """Every record of a segment printed into a file, process start included."""
        title = "dump, as text, into a file" if text else "dump --json into a file"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape, self.payload if self.quick else 512 * MIB)
        records = sum(batch.header.records_count for batch in open_partition(directory).batches())
        out = self.scratch / "out"
        command = [sys.executable, "-m", "kafkalog", "dump", *([] if text else ["--json"]), str(log)]

        def ours() -> timing.Measured:
            seconds = timing.process(command, out)
            with out.open("rb") as lines:
                printed = sum(1 for _ in lines)
            return seconds, records if text and printed >= records else printed

        runs: dict[str, Run] = {OURS: ours}
        if self.java.why_not is None:
            runs["kafka-dump-log"] = lambda: (peers.dump_log(log, out), records)
        yield self._row(title, shape, log, runs, "records", goals={} if text else {"kafka-dump-log": 10.0})

    def build(self, kind: str) -> Iterator[Row]:
        """16 KiB batches of records that are in memory already."""
        shape, title = Shape(writer=KAFKA, kind=kind), "build batches from columns"
        if self._leaves_out(title, shape):
            return
        directory, log = self.corpus(shape)
        reader = open_partition(directory).to_arrow(["key", "value", "timestamp"], batch_rows=1 << 20)
        rows = reader.read_all().combine_chunks().slice(0, 300_000)
        (columns,) = rows.to_batches()
        items = list(zip(columns["key"].to_pylist(), columns["value"].to_pylist(), strict=True))

        def ours() -> int:
            for _batch in build_batches(columns):
                pass
            return len(items)

        row = self._row(
            title, shape, log,
            {OURS: timed(ours), "aiokafka": lambda: peers.aiokafka_build(items, 0, START_MS)}, "records",
            goals={"aiokafka": 3.0, JAVA: 1.5}, size=columns.nbytes,
        )  # fmt: skip
        if self.java.why_not is None:

            def java() -> timing.Measured:
                seconds, count = self.java.running("build-none", "any").run("build-none", log)
                return seconds * len(items) / count, len(items)

            row.warm.append(lambda: self.java.warmed("build-none", "any", log))
            row.runs[JAVA] = java
        yield row

    def rows(self) -> Iterator[Row]:
        """All rows, in the order of the goals."""
        yield from self._plain()
        yield from self._compressed()
        yield from self._others()

    def _plain(self) -> Iterator[Row]:
        sizes = ((100, 140, 2.5, 3.0), (1000, 16, 2.2, 4.5), (10_000, 10, None, None))
        for (size, records, goal, view), kind in itertools.product(sizes, KINDS):
            shape = Shape(writer=KAFKA, kind=kind, value_bytes=size, records=records)
            slow = size == 100 and kind == "text"
            yield from self.decode(shape, goal, slow=slow)
            yield from self.views(shape, view)
        for records in (1, 10, 1000):
            yield from self.decode(Shape(writer=KAFKA, records=records), None)
            yield from self.views(Shape(writer=KAFKA, records=records), None)
        yield from self.decode(Shape(writer=KAFKALOG), 2.5)
        yield from self.views(Shape(writer=KAFKALOG), 3.0)

    def _compressed(self) -> Iterator[Row]:
        codecs = (Codec.LZ4, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP)
        for codec in codecs:
            for kind in KINDS:
                shape = Shape(writer=KAFKA, kind=kind, codec=codec)
                yield from self.decode(shape, COPY_GOALS[shape.codec])
                yield from self.views(shape, None)
            for size, records in ((1000, 16), (10_000, 10), (100, 10), (100, 1000)):
                shape = Shape(writer=KAFKA, kind="json", codec=codec, value_bytes=size, records=records)
                yield from self.decode(shape, None)
            shape = Shape(writer=KAFKALOG, codec=codec)
            yield from self.decode(shape, COPY_GOALS[shape.codec])
        for kind in KINDS:
            yield from self.decompress(Shape(writer=KAFKA, kind=kind, codec=Codec.SNAPPY), 1.0)

    def _others(self) -> Iterator[Row]:
        for shape in (
            Shape(writer=KAFKA, headers=2), Shape(writer=KAFKA, magic=1), Shape(writer=KAFKA, magic=0),
            Shape(writer=KAFKA, magic=1, codec=Codec.LZ4),
        ):  # fmt: skip
            yield from self.decode(shape, 2.0)
        yield from self.loop(USUAL)
        for shape, verify, recover in ((USUAL, 2.5, 1.8), (TINY, 7.0, 3.5)):
            yield from self.walk(shape)
            yield from self.verify(shape, verify)
            yield from self.recover(shape, recover)
        yield from self.recover_cold()
        yield from self.recover_small()
        for kind in KINDS:
            yield from self.dump(Shape(writer=KAFKA, kind=kind))
        yield from self.dump(USUAL, text=True)
        for kind in KINDS:
            yield from self.build(kind)


def described(shape: Shape) -> str:
    """A corpus in a few words."""
    size = f"{shape.value_bytes / 1000:g} KB" if shape.value_bytes >= 1000 else f"{shape.value_bytes} B"
    words = [shape.kind, size, shape.codec.label, f"{shape.records} a batch", f"by {shape.writer}"]
    words += [f"magic {shape.magic}"] if shape.magic < 2 else []
    words += [f"{shape.headers} headers"] if shape.headers else []
    return ", ".join(words)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=128, help="MiB of values in a corpus")
    parser.add_argument("--cpu", action="store_true", help="processor time of the working thread; for busy machines")
    parser.add_argument("--only", default="", help="rows whose title and corpus match this regular expression")
    parser.add_argument("--results", type=Path, help="write the table into this page")
    parser.add_argument("--json", type=Path, help="write everything that was measured")
    arguments = parser.parse_args()
    timing.use_cpu_time = arguments.cpu
    rounds = 1 if arguments.quick else arguments.rounds
    if arguments.quick:
        thresholds.ENOUGH_BYTES = 0  # so that the compiled executions are what is tried
    with Jvms(quick=arguments.quick) as java, scratch_directory() as scratch:
        if java.why_not is not None:
            print(f"Java is not measured: {java.why_not}")
        seconds = "processor time of the working thread (processes: of all threads)" if arguments.cpu else "wall clock"
        place = f"{machine()}; {rounds} rounds, {seconds}; a rate is the median (the best round, half the spread)"
        print(place)
        rows: list[Row] = []
        payload = MIB if arguments.quick else arguments.size * MIB
        suite = Suite(java, Path(scratch), arguments.only, quick=arguments.quick, payload=payload)
        for row in suite.rows():
            row.measure(rounds)
            rows.append(row)
            print(row.line(), flush=True)
            _write(arguments, place, rows, java)  # a run that is stopped has not measured for nothing
        print(_collectors(java))


def _collectors(java: Jvms) -> str:
    return f"Java's collectors: {java.collectors()}"


def _write(arguments: argparse.Namespace, place: str, rows: list[Row], java: Jvms) -> None:
    """What was measured so far."""
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": place, "rows": [row.as_dict() for row in rows]}, indent=1))
    if arguments.results:
        page = ["# Results", "", place, "", *table(rows), "", _collectors(java), ""]
        arguments.results.write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
