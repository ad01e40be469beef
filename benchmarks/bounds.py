"""What bounds a reader: a floor, two threads, whole processes: `python benchmarks/bounds.py`.

* floor: the log read by `preadv` in pieces of 2 MiB, CRC-32C over it, one copy of the bytes that come out, in the same
  process; beside it kafkalog with copies and with views,
  and Kafka's classes, warm.  Minor faults are those of a new process behind the first 64 MiB, rows dropped at once.
* threads: processor time of two threads beside one, and the rate of both beside that of two processes.
* processes: from start to end, beside Kafka's tools and aiokafka in a script; Spark with one query, beside the same
  Arrow batches from memory, and beside a query of nothing.

Everyone in turn, medians; processor time (c) is told beside the clock (w), because others may use the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import crc32c
import numpy as np
import pyarrow as pa
from support import jars, peers, timing
from support.corpora import KAFKA, MIB, Shape, indexed, partition, scratch_directory, second
from support.jvm import Jvms
from support.machine import machine

from kafkalog import RecordFilter
from kafkalog.codec import Codec
from kafkalog.codec.common.memory import own_pages
from kafkalog.log import open_partition

COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
OF_FLOOR = (Shape(writer=KAFKA), Shape(writer=KAFKA, kind="json", value_bytes=1000, records=16),
            Shape(writer=KAFKA, kind="json", value_bytes=10_000, records=10))  # fmt: skip
COPIES, VIEWS, THREADS, RATE, POSSIBLE = 1.6, 1.25, 1.11, 1.8, 1.9
REST_SECONDS = 1.0
JAVA_TOOLS, SCRIPT = 4.0, 3.0
FIRST = 64 * MIB
PIECE, TARGET = 2 * MIB, 16 * MIB
AIOKAFKA = Path(__file__).parent / "support" / "aiokafka_script.py"
FIRST_QUERY = Path(__file__).parent / "support" / "spark_first_query.py"
OF_SPARK = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
OF_SPARK_ROWS, OF_A_TASK = 10_000, 64 * MIB
OURS_OF_SPARK = 0.1
SPARK_ROUNDS = 3
"""At most: each takes half a minute."""


class Taken(NamedTuple):
    """Seconds of the clock and of the processor."""

    wall: float
    cpu: float


Work = Callable[[], Taken]


@dataclass
class Turns:
    """The same work by several, in turn."""

    works: dict[str, Work]
    taken: dict[str, list[Taken]] = field(default_factory=dict)

    def measure(self, rounds: int) -> None:
        """So many rounds, and one before that is not counted."""
        for number in range(rounds + 1):
            for name, work in self.works.items():
                found = work()
                if number:
                    self.taken.setdefault(name, []).append(found)

    def cpu(self, name: str) -> float:
        """Median of the processor's seconds."""
        return statistics.median(each.cpu for each in self.taken[name])

    def wall(self, name: str) -> float:
        """Median of the clock's seconds."""
        return statistics.median(each.wall for each in self.taken[name])

    def told(self, name: str) -> str:
        """Both, in milliseconds."""
        return f"{1e3 * self.cpu(name):,.0f} c, {1e3 * self.wall(name):,.0f} w"


def timed(work: Callable[[], object]) -> Work:
    """Of this process, all its threads."""

    def run() -> Taken:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return Taken(time.perf_counter() - wall, time.process_time() - cpu)

    return run


def judged(value: float, goal: float, *, at_least: bool = False) -> str:
    """A ratio beside its goal."""
    is_reached = value >= goal if at_least else value <= goal
    return f"{value:.2f} ({'≥' if at_least else '≤'} {goal:g}: {'reached' if is_reached else '**not reached**'})"


def log_of(directory: Path) -> Path:
    return next(iter(directory.glob("*.log")))


def rows_of(directory: Path, *, layout: str = "copy", threads: int = 1) -> int:
    """All rows, each Arrow batch dropped at once."""
    reader = open_partition(directory).to_arrow(COLUMNS, layout=layout, threads=threads)
    return sum(batch.num_rows for batch in reader)


# --- floor ----------------------------------------------------------------------------------------------------------


def floor(log: Path, share: float) -> None:
    """What no reader with copies can spare; `share` of the bytes come out."""
    memory, target = own_pages(PIECE, is_filled=True), np.frombuffer(own_pages(TARGET, is_filled=True), np.uint8)
    source, view = np.frombuffer(memory, np.uint8), memoryview(memory)
    position = checksum = at = 0
    with log.open("rb", buffering=0) as file:
        while size := os.preadv(file.fileno(), [view], position):
            checksum = crc32c.crc32c(view[:size], checksum)
            left = int(size * share)
            while left > 0:
                count = min(left, size)
                at = 0 if at + count > TARGET else at
                target[at : at + count] = source[:count]
                at, left = at + count, left - count
            position += size


def faults(directory: Path, layout: str) -> float:
    """Minor faults for each MiB of log behind the first 64, in a process of its own."""
    command = [sys.executable, __file__, "--faults", str(directory), layout]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def faults_here(directory: Path, layout: str) -> float:
    """The same, of this process."""
    size = log_of(directory).stat().st_size
    whole = sum(batch.header.records_count for batch in open_partition(directory).batches())
    first, rows, before = whole * FIRST // size, 0, -1
    for batch in open_partition(directory).to_arrow(COLUMNS, layout=layout):
        rows += batch.num_rows
        del batch
        if before < 0 and rows >= first:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / max((size - FIRST) / MIB, 1)


def of_floor(java: Jvms, payload: int, rounds: int) -> Iterator[str]:
    yield ("| corpus | floor | copies | views | Java | copies / floor | views / floor | "
           "faults a MiB, copies, views |")  # fmt: skip
    yield "|---|---|---|---|---|---|---|---|"
    for shape in OF_FLOOR:
        directory = indexed(partition(shape, payload))
        log = log_of(directory)
        share = sum(each.nbytes for each in open_partition(directory).to_arrow(COLUMNS)) / log.stat().st_size
        works: dict[str, Work] = {"floor": timed(lambda log=log, share=share: floor(log, share))}
        for layout in ("copy", "view"):
            works[layout] = timed(lambda layout=layout, directory=directory: rows_of(directory, layout=layout))
        if java.why_not is None:
            java.warmed("deepcopy", "none", log)
            jvm = java.running("deepcopy", "none")
            works["Java"] = lambda log=log, jvm=jvm: Taken(*[jvm.run("deepcopy", log)[0]] * 2)
            works["after Java"] = timed(works["floor"])  # its collector still uses the memory; not counted
        turns = Turns(works)
        turns.measure(rounds)
        base = turns.cpu("floor")
        told = [turns.told(name) for name in ("floor", "copy", "view")]
        told.append(f"{1e3 * turns.cpu('Java'):,.0f} c" if "Java" in works else "")
        told += [judged(turns.cpu("copy") / base, COPIES), judged(turns.cpu("view") / base, VIEWS)]
        told.append(f"{faults(directory, 'copy'):.1f}, {faults(directory, 'view'):.1f}")
        yield f"| {shape.kind}, {shape.value_bytes} B | {' | '.join(told)} |"


# --- threads --------------------------------------------------------------------------------------------------------


class Reader:
    """A process that reads a partition each time it is told to."""

    def __init__(self, directory: Path) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, __file__, "--reader", str(directory)]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> float:
        """Seconds of the processor."""
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        if not told:
            raise SystemExit("a reader ended")
        return float(told)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Readers:
    """Two processes that read at the same time; afterwards, what the processor took for each."""

    def __init__(self, *directories: Path) -> None:
        self._readers = [Reader(directory) for directory in directories]

    def read(self) -> Taken:
        """One pass of both."""
        start = time.perf_counter()
        for each in self._readers:
            each.begin()
        taken = [each.end() for each in self._readers]
        return Taken(time.perf_counter() - start, statistics.mean(taken))

    def close(self) -> None:
        for each in self._readers:
            each.close()


def of_threads(payload: int, rounds: int) -> Iterator[str]:
    """Processes that read one log fetch it from memory once for both; two threads fetch two logs' worth."""
    yield ("| codec | one thread | two threads | processor time | rate, two / one | two processes, one log: rate, "
           "processor time of each | two processes, two logs | ≥ 1.8 of the rate |")  # fmt: skip
    yield "|---|---|---|---|---|---|---|---|"
    for codec in Codec:
        directory = indexed(partition(Shape(writer=KAFKA, kind="json", codec=codec), payload))
        one_log, two_logs = Readers(directory, directory), Readers(directory, second(directory))
        turns = Turns({
            "one": timed(lambda directory=directory: rows_of(directory)),
            "two": timed(lambda directory=directory: rows_of(directory, threads=2)),
            "one log": one_log.read,
            "two logs": two_logs.read,
        })  # fmt: skip
        turns.measure(rounds)
        one_log.close()
        two_logs.close()
        gain = turns.wall("one") / turns.wall("two")
        possible = 2 * turns.wall("one") / turns.wall("two logs")
        told = [turns.told("one"), turns.told("two"), judged(turns.cpu("two") / turns.cpu("one"), THREADS)]
        told += [f"{gain:.2f}"]
        told += [f"{2 * turns.wall('one') / turns.wall(name):.2f}, {turns.cpu(name) / turns.cpu('one'):.2f}"
                 for name in ("one log", "two logs")]  # fmt: skip
        void = f"void: two processes get less than {POSSIBLE}"
        told.append(judged(gain, RATE, at_least=True) if possible >= POSSIBLE else void)
        yield f"| {codec.label} | {' | '.join(told)} |"


# --- processes ------------------------------------------------------------------------------------------------------


def process(command: list[str], scratch: Path, told: str = "") -> Taken:
    """A process from its start to its end, after a rest; what it prints goes into a file.

    Behind a JVM that has used both processors a short process takes a fifth more, whoever's it is.
    """
    (scratch / "out").unlink(missing_ok=True)  # of what a tool has printed, hundreds of megabytes: 30 ms
    time.sleep(REST_SECONDS)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    timing.process(command, scratch / "out", told)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(time.perf_counter() - start, cpu)


def copied(log: Path, scratch: Path) -> Path:
    """A log directory with the log alone, flushed."""
    root = scratch / "logs"
    shutil.rmtree(scratch / "logs", ignore_errors=True)
    shutil.rmtree(scratch / "logs.recovery", ignore_errors=True)
    (root / log.parent.name).mkdir(parents=True)
    copy: Path = shutil.copy(log, root / log.parent.name / log.name)
    with copy.open("rb") as written:
        os.fsync(written.fileno())
    return root


def recovered_by_kafka(root: Path, scratch: Path) -> Taken:
    timing.use_cpu_time = False
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = peers.recover_log_directory(root, scratch / "out")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def of_processes(payload: int, rounds: int, scratch: Path, row: str = "") -> Iterator[str]:
    directory = indexed(partition(Shape(writer=KAFKA, kind="json"), payload))
    log = log_of(directory)
    target = scratch / "rows.parquet"

    def ours(*words: str) -> Work:
        def run() -> Taken:
            target.unlink(missing_ok=True)
            return process([sys.executable, "-m", "kafkalog", *words], scratch)

        return run

    def script(work: str) -> Work:
        return lambda: process([sys.executable, str(AIOKAFKA), work, str(log), str(target)], scratch)

    def tool(*words: str) -> Work:
        classes = ":".join(map(str, jars.kafka_jars.jars(jars.KAFKA)))
        command = ["java", "-Xmx256m", "-cp", classes, "kafka.tools.DumpLogSegments", *words, "--files", str(log)]
        return lambda: process(command, scratch)

    has_java = jars.why_not() is None
    works: dict[str, dict[str, Work]] = {
        "dump --json": {"ours": ours("dump", "--json", str(log)), "aiokafka": script("json")},
        "dump --parquet": {"ours": ours("dump", "--parquet", str(target), str(log)), "aiokafka": script("parquet")},
        "verify, every record": {"ours": ours("verify", str(directory)), "aiokafka": script("verify")},
        "recover": {"ours": lambda: process(
            [sys.executable, "-m", "kafkalog", "recover", "--yes", str(copied(log, scratch))], scratch)},
    }  # fmt: skip
    if has_java:
        works["dump --json"]["Java"] = tool("--print-data-log")
        works["verify, every record"]["Java"] = tool("--deep-iteration")
        works["recover"]["Java"] = lambda: recovered_by_kafka(copied(log, scratch), scratch)
    yield "| process | kafkalog | Kafka's tool | aiokafka in a script | × Kafka's tool, by clock and c | × aiokafka |"
    yield "|---|---|---|---|---|---|"
    for title, each in works.items():
        if row not in title:
            continue
        turns = Turns(each)
        turns.measure(rounds)
        told = [turns.told("ours"), *(turns.told(name) if name in each else "" for name in ("Java", "aiokafka"))]
        for name, goal in (("Java", JAVA_TOOLS), ("aiokafka", SCRIPT)):
            if name in each:
                by_clock, by_cpu = turns.wall(name) / turns.wall("ours"), turns.cpu(name) / turns.cpu("ours")
                told.append(f"{judged(by_clock, goal, at_least=True)}; {by_cpu:.2f} c")
            else:
                told.append("")
        yield f"| {title} | {' | '.join(told)} |"
    if row:
        return
    yield from ("", "| process | kafkalog | the same batches from memory | no source | up to the session | ours |")
    yield "|---|---|---|---|---|---|"
    yield from of_spark(directory, rounds, scratch)


def of_spark(directory: Path, rounds: int, scratch: Path) -> Iterator[str]:
    """Spark's start and first query, a count and a sum over all values, in one process; what of it is kafkalog's."""
    if jars.why_not() is not None:
        yield f"Spark was not asked: {jars.why_not()}"
        return
    rows = sum(batch.header.records_count for batch in open_partition(directory).batches())
    tasks = -(-log_of(directory).stat().st_size // OF_A_TASK)
    (batch,) = (
        open_partition(directory).to_arrow(OF_SPARK, RecordFilter(end_offset=OF_SPARK_ROWS)).read_all().to_batches()
    )
    with pa.ipc.new_file(str(scratch / "batch.arrow"), batch.schema) as file:
        file.write_batch(batch)
    places = {
        "kafkalog": str(directory.parent), "from-memory": f"{scratch / 'batch.arrow'},{rows},{tasks}", "nothing": "",
    }  # fmt: skip
    sessions = []

    def run(source: str) -> Taken:
        target = scratch / "first-query.json"
        target.unlink(missing_ok=True)
        command = [sys.executable, str(FIRST_QUERY), source, places[source], str(target)]
        wall = process(command, scratch).wall
        told = json.loads(target.read_text(encoding="utf-8"))
        if told["rows"] != (1 if source == "nothing" else rows):
            raise SystemExit(f"{rows} rows were written, and Spark had {told['rows']} of {source}")
        sessions.append(told["processor"][0])
        return Taken(wall, told["processor"][1])

    turns = Turns({source: partial(run, source) for source in places})
    turns.measure(min(rounds, SPARK_ROUNDS))
    ours = turns.cpu("kafkalog") - turns.cpu("from-memory")
    share = judged(ours / turns.cpu("kafkalog"), OURS_OF_SPARK)
    told = [turns.told(source) for source in places]
    told += [f"{1e3 * statistics.median(sessions):,.0f} c", f"{1e3 * ours:,.0f} c, a share of {share}"]
    yield f"| Spark's first query | {' | '.join(told)} |"


def main() -> None:
    """Run and print."""
    if sys.argv[1:2] == ["--faults"]:
        print(faults_here(Path(sys.argv[2]), sys.argv[3]))
        return
    if sys.argv[1:2] == ["--reader"]:
        for _ in sys.stdin:
            print(timed(lambda: rows_of(Path(sys.argv[2])))().cpu, flush=True)
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=256, help="MiB of values in a corpus")
    parser.add_argument("--only", choices=("floor", "threads", "processes"), help="one of the tables")
    parser.add_argument("--row", default="", help="processes whose name contains this; without Spark")
    parser.add_argument("--results", type=Path, help="write the tables into this page")
    arguments = parser.parse_args()
    rounds, payload = (1, MIB) if arguments.quick else (arguments.rounds, arguments.size * MIB)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    timing.use_cpu_time = True
    place = f"{machine()}; {rounds} rounds, medians; milliseconds of the processor (c) and the clock (w)"
    lines = ["# What bounds a reader", "", place]
    print(place)
    with Jvms(quick=arguments.quick) as java, scratch_directory() as scratch:
        tables = {
            "floor": lambda: of_floor(java, payload, rounds),
            "threads": lambda: of_threads(payload, rounds),
            "processes": lambda: of_processes(payload, rounds, Path(scratch), arguments.row),
        }
        for name, table in tables.items():
            if arguments.only in (None, name):
                lines += ["", f"## {name.capitalize()}", ""]
                for line in table():
                    print(line, flush=True)
                    lines.append(line)
                    if arguments.results:
                        arguments.results.write_text("\n".join([*lines, ""]), encoding="utf-8")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
