"""How cost grows: with threads, segment size, directory size, partitions, batch and record size, and with nothing.

What costs without holding data: empty segments, indexes that a broker reserved, holes in files.

`python benchmarks/scaling.py` measures each point in a process of its own, which tells its peak of memory too; all of
it takes some minutes and 5 GiB of disk below ``.cache/bench``.  Goals are about the clock, with both processors quiet;
for who measures on a busy machine the same is said of processor seconds, of the process and of those that it starts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from support.broker_directory import broker_directory, one_partition
from support.broker_works import change, look, planned_tasks, stage_of_tasks
from support.corpora import CACHE, MIB, Shape, indexed, made_once, partition, scratch_directory
from support.machine import machine

import kafkalog
import kafkalog.recovery.checks.verify
import kafkalog.recovery.run
from kafkalog.__main__ import main as kafkalog_command
from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Record, TimestampType
from kafkalog.log import open_partition
from kafkalog.log.walk.summary import summarize

COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
GIB = 1024 * MIB
OF_MANY = 10, 512 * MIB
"""Seconds and memory that a command may take over 10,000 partitions, or over 8 GiB."""
EACH = "Spark's planning, a task each"
SOONER = {"kafkalog verify": (5, 512 * MIB), "Spark's planning": (2, 512 * MIB), EACH: (2, 0)}
"""The same over 10,000 partitions, of what is to be there sooner."""
FIRST_TRIGGER_SECONDS = 30
HOLE_SECONDS = 5


# --- what a process measures ----------------------------------------------------------------------------------------


def _decode(path: Path, threads: int) -> int:
    reader = open_partition(path).to_arrow(COLUMNS, threads=threads)
    return sum(batch.num_rows for batch in reader)


def _decode_all(path: Path, threads: int) -> int:
    return sum(_decode(each, threads) for each in sorted(path.iterdir()))


def _verify(path: Path, threads: int) -> int:
    report = kafkalog.verify(path, deep=False)
    return sum(found.batches for found in report.partitions)


def _recover(path: Path, threads: int) -> int:
    _on_a_copy(path, lambda root: kafkalog.recover(root, jobs=threads)[0], path.name)
    return 1


def _recover_all(path: Path, threads: int) -> int:
    """Partitions; a directory that recovery declines (a topic id that nobody can know) took as long as that."""

    def recover(root: Path) -> None:
        with contextlib.suppress(kafkalog.RecoveryRefused):
            kafkalog.recover(root, jobs=threads)

    _on_a_copy(path, recover)
    return len(list(path.glob("*-*")))


def _copy(path: Path, target: Path) -> None:
    """A copy with its holes."""
    for file in sorted(path.rglob("*")):
        new = target / file.relative_to(path)
        new.parent.mkdir(parents=True, exist_ok=True)
        if file.is_file():
            with file.open("rb") as source, new.open("wb") as copy:
                _copy_data(source.fileno(), copy.fileno(), file.stat().st_size)


def _copy_data(source: int, copy: int, size: int) -> None:
    position = 0
    while position < size:
        try:
            position = os.lseek(source, position, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(source, position, os.SEEK_HOLE)
        while position < end:
            position += os.pwrite(copy, os.pread(source, min(MIB, end - position), position), position)
    os.ftruncate(copy, size)


def _bare_reading(path: Path, threads: int) -> int:
    """Every byte of every log, into the same memory again and again: nothing that reads can take less."""
    buffer = bytearray(MIB)
    count = 0
    for log in sorted(path.rglob("*.log")):
        with log.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                count += 1
    return count


def _bare_look(path: Path, threads: int) -> int:
    look(path)
    return _directories(path)


def _bare_change(path: Path, threads: int) -> int:
    _on_a_copy(path, change)
    return _directories(path)


def _on_a_copy(path: Path, work: Callable[[Path], object], name: str = "") -> None:
    """Do some work on a log directory with a copy, which may be that of one partition; making it does not count."""
    root = Path(_copies.enter_context(scratch_directory())) / "data"
    _copy(path, root / name)
    start, used = time.perf_counter(), _processor_seconds()
    work(root)
    _recover_seconds.append(time.perf_counter() - start)
    _recover_used.append(_processor_seconds() - used)


def _ls(path: Path, threads: int) -> int:
    return sum(summarize(each).batches for part in kafkalog.open(path).partitions for each in part.segments)


def _open(path: Path, threads: int) -> int:
    return sum(len(each.segments) for each in kafkalog.open(path).partitions)


def _plan(path: Path, threads: int) -> int:
    return len(kafkalog.plan(path, jobs=threads)[0].partitions)


def _command(name: str) -> Callable[[Path, int], int]:
    """A whole command as somebody types it, but for the start of the interpreter; as many jobs as processors."""

    def work(path: Path, threads: int) -> int:
        code = _typed(name, str(path))
        if code not in (0, 1):  # a log directory after a crash is for recovery: a finding
            raise SystemExit(f"kafkalog {name} {path} ended with {code}")
        return _directories(path)

    return work


def _typed(*words: str) -> int:
    """The exit code of `kafkalog` with these words; what it prints is for nobody."""
    before, sys.argv = sys.argv, ["kafkalog", *words]
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            kafkalog_command()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv = before
    return 0


def _recover_command(path: Path, threads: int) -> int:
    def recover(root: Path) -> None:
        code = _typed("recover", "--yes", str(root))
        if code not in (0, 2):
            raise SystemExit(f"kafkalog recover {path} ended with {code}")

    _on_a_copy(path, recover)
    return _directories(path)


def _spark_plan(path: Path, threads: int) -> int:
    """What the driver does before Spark has tasks."""
    from kafkalog.spark.discovery import plan_read
    from kafkalog.spark.options import parse_options

    if not plan_read(parse_options({"path": str(path)})):
        raise SystemExit(f"nothing is planned to be read of {path}")
    return _directories(path)


def _spark_plan_of_tasks(path: Path, threads: int) -> int:
    return planned_tasks(path, _with_data(path))


def _stage(source: str) -> Callable[[Path, int], int]:
    """A query of a task for each partition, by the clock; the session is there already."""

    def work(path: Path, threads: int) -> int:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        _recover_seconds.append(stage_of_tasks(source, path, _with_data(path)))
        return _with_data(path)

    return work


def _first_trigger(path: Path, threads: int) -> int:
    """The first trigger of a stream, by Spark's own clock; the session is there already."""
    from support.local_session import local_session

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = local_session()
    try:
        with scratch_directory() as checkpoints:
            options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}
            frame = spark.readStream.format("kafkalog").options(**options).load(str(path))
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoints)
            query = writer.trigger(once=True).start()
            query.awaitTermination()
            first = query.recentProgress[0]
    finally:
        spark.stop()
    if not first["numInputRows"]:
        raise SystemExit(f"the first trigger over {path} had no rows")
    _recover_seconds.append(first["durationMs"]["triggerExecution"] / 1000)
    return _directories(path)


def _with_data(path: Path) -> int:
    """Logs that hold something, each of which can be a task."""
    return sum(1 for each in path.glob("*/*.log") if each.stat().st_size)


def _directories(path: Path) -> int:
    return sum(1 for each in path.iterdir() if each.is_dir())


OF_A_BROKER: dict[str, Callable[[Path, int], int]] = {
    **{f"kafkalog {name}": _command(name) for name in ("ls", "verify", "plan", "offsets")},
    "kafkalog recover": _recover_command,
    "Spark's planning": _spark_plan,
}
BARE: dict[str, Callable[[Path, int], int]] = {
    "system calls to look": _bare_look,
    "system calls to change": _bare_change,
}
OF_TASKS = {"a stage of tasks": _stage("kafkalog"), "a stage of empty tasks": _stage("nothing")}
OF_MUCH_DATA = "bare reading", "kafkalog ls", "kafkalog verify", "kafkalog plan", "Spark's planning"
"""Recovery of what a plan finds in order is the plan."""
TRIGGER = "first trigger of a stream"
WORKS: dict[str, Callable[[Path, int], int]] = {
    "decode": _decode, "decode all": _decode_all, "verify": _verify, "recover": _recover, "open": _open, "plan": _plan,
    "bare reading": _bare_reading, "ls": _ls, "recover all": _recover_all, TRIGGER: _first_trigger, **OF_A_BROKER,
    EACH: _spark_plan_of_tasks, **BARE, **OF_TASKS,
}  # fmt: skip
_recover_seconds: list[float] = []
_recover_used: list[float] = []
"""What a work itself says that it took, where preparing it takes time too: by the clock, and of processors."""
_copies = contextlib.ExitStack()
"""Copies of log directories, which go after the last round: for minutes after many files were removed ext4 takes ten
times as long to make a new one, and nobody recovers a broker then."""


def _processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _peak() -> int:
    """Peak of the memory of this process or, if that is more, of one that it started; bytes, 0 if not told."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    own = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)


def measure_here(work: str, path: Path, threads: int, rounds: int) -> dict[str, float]:
    """Best of some rounds."""
    seconds, used = [], []
    count = 0
    with _copies:
        for _ in range(rounds):
            start, before = time.perf_counter(), _processor_seconds()
            count = WORKS[work](path, threads)
            seconds.append(_recover_seconds.pop() if _recover_seconds else time.perf_counter() - start)
            used.append(_recover_used.pop() if _recover_used else _processor_seconds() - before)
    return {"seconds": min(seconds), "processor": min(used), "count": count, "peak": _peak()}


# --- what the program prints ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One measurement: `size` bytes of log below `path`."""

    group: str
    label: str
    work: str
    path: Path
    size: int
    threads: int = 1
    rounds: int = 3
    goal: tuple[float, int] | None = None
    """at most so many seconds and so many bytes of memory"""
    by_clock: bool = False
    """the goal is about the clock only: the process waits for others, and their processor seconds are not seen"""

    def judged(self, found: dict[str, float]) -> str:
        """The goal, and whether it is reached; empty without one."""
        if self.goal is None:
            return ""
        seconds, memory = self.goal
        fits = not memory or found["peak"] <= memory

        def reached(taken: float) -> str:
            return "reached" if taken <= seconds and fits else "not reached"

        limits = f"{seconds:g} s" + (f", {memory // MIB} MiB" if memory else "")
        beside = "" if self.by_clock else f"; in processor seconds {reached(found['processor'])}"
        return f"{limits}: {reached(found['seconds'])}{beside}"

    def measure(self) -> dict[str, float]:
        """Seconds, count and peak memory (bytes), from a process of its own."""
        words = [sys.executable, __file__, "--one", self.work, str(self.path), str(self.threads), str(self.rounds)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.label}: {done.stderr.strip().splitlines()[-1:]}")
        found: dict[str, float] = json.loads(done.stdout)
        return found


def _size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*.log"))


def _linked(name: str, source: Path, copies: int) -> Path:
    """A log directory whose partitions all have the same bytes: hard links, which take no room."""
    root = CACHE / f"{name}-{copies}"
    with made_once(root) as is_new:
        for number in range(copies if is_new else 0):
            target = root / "data" / f"linked-{number}"
            target.mkdir(parents=True)
            for file in source.iterdir():
                os.link(file, target / file.name)
    return root / "data"


def _log_dir(name: str, fill: Callable[[Path], None]) -> Path:
    """A log directory after an unclean stop, everything to be examined."""
    root = CACHE / name
    with made_once(root) as is_new:
        if is_new:
            (root / "data").mkdir()
            (root / "data" / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
            fill(root / "data")
    return root / "data"


def _batch() -> bytes:
    return build_batch([Record(0, 1_700_000_000_000, TimestampType.CREATE_TIME, None, bytes(200))], base_offset=0)


def _sparse(path: Path, content: bytes, size: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    os.truncate(path, size)


def _empty_segments(count: int) -> Path:
    def fill(root: Path) -> None:
        (root / "empty-0").mkdir()
        for base in range(count):
            (root / "empty-0" / f"{base:020}.log").touch()

    return _log_dir(f"empty-{count}", fill)


def _reserved_indexes(partitions: int) -> Path:
    """Indexes of 10 MiB each, as a broker has them that runs."""

    def fill(root: Path) -> None:
        for number in range(partitions):
            stem = root / f"reserved-{number}" / f"{0:020}"
            _sparse(stem.with_suffix(".index"), b"", 10 * MIB)
            _sparse(stem.with_suffix(".timeindex"), b"", 10 * MIB)
            stem.with_suffix(".log").write_bytes(_batch())

    return _log_dir(f"reserved-{partitions}", fill)


def _sparse_log(size: int) -> Path:
    return _log_dir(f"sparse-{size}", lambda root: _sparse(root / "sparse-0" / f"{0:020}.log", _batch(), size))


OF_A_LOG_DIR = (
    "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint",
    "cleaner-offset-checkpoint", "meta.properties", ".kafka_cleanshutdown", "junk",
)  # fmt: skip
OF_A_PARTITION = (
    f"{0:020}.index", f"{0:020}.timeindex", f"{0:020}.txnindex", f"{77:020}.index", f"{3:020}.snapshot",
    "leader-epoch-checkpoint", "partition.metadata", "quorum-state", "junk", f"{40:020}.log", f"{40:020}.log.deleted",
    f"{40:020}.log.swap", f"{40:020}.log.cleaned",
)  # fmt: skip


def _huge_file(name: str, size: int) -> Path:
    """Beside one sound log a sparse file of any other kind."""

    def fill(root: Path) -> None:
        (root / "huge-0").mkdir()
        (root / "huge-0" / f"{0:020}.log").write_bytes(_batch())
        _sparse(root / name, b"", size)

    return _log_dir(f"huge-{size}-{name.replace('/', '-')}", fill)


class Points:
    """All that is measured."""

    def __init__(self, *, quick: bool) -> None:
        self._quick = quick

    def _small(self, sizes: list[int]) -> list[int]:
        return [size for size in sizes if size <= MIB] if self._quick else sizes

    def without_data(self) -> Iterator[Point]:
        """What costs although there is nothing, or next to nothing."""
        works = ("verify", "plan", "recover all")
        for count in (50, 100) if self._quick else (500, 1000, 2000, 4000, 8000):
            root = _empty_segments(count)
            for work in works:
                yield Point(f"empty segments: {work.split()[0]}", f"{count:,}", work, root, 0, rounds=1)
        for count in (5, 10) if self._quick else (50, 100, 200, 500, 1000):
            root = _reserved_indexes(count)
            for work in works:
                group = f"partitions with reserved indexes: {work.split()[0]}"
                yield Point(group, f"{count:,}", work, root, _size_of(root), rounds=1)
        for size in (GIB,) if self._quick else (8 * GIB, 1024 * GIB):
            root = _sparse_log(size)
            for work in ("ls", *works):
                group = f"a hole after the log: {work.split()[0]}"
                yield Point(group, f"{size // GIB:,} GiB", work, root, 0, rounds=1, goal=(HOLE_SECONDS, 0))
        size = GIB if self._quick else 3 * GIB
        names = [*OF_A_LOG_DIR, *(f"huge-0/{name}" for name in OF_A_PARTITION)]
        for name in names[:: 7 if self._quick else 1]:
            root = _huge_file(name, size)
            for work in ("ls", *works):
                group = f"a file of {size // GIB} GiB, sparse: {work.split()[0]}"
                yield Point(group, name, work, root, 0, rounds=1)

    def of_a_broker(self) -> Iterator[Point]:
        """Whole commands on what a broker leaves: very many partitions, very many segments."""
        count = 20 if self._quick else 10_000
        for label, crashed in ((f"{count:,}", False), (f"{count:,}, after a crash", True)):
            root = broker_directory(count, crashed=crashed)
            for work in (*BARE, *OF_A_BROKER, EACH):
                group = f"a broker's partitions: {work}"
                goal = None if work in BARE else SOONER.get(work, OF_MANY)
                yield Point(group, label, work, root, _size_of(root), rounds=2, goal=goal)
        root = broker_directory(count)
        for work in OF_TASKS:
            yield Point(f"a broker's partitions: {work}", f"{count:,}", work, root, 0, rounds=1, by_clock=True)
        goal = FIRST_TRIGGER_SECONDS, 0
        size = _size_of(root)
        yield Point(f"a broker's partitions: {TRIGGER}", f"{count:,}", TRIGGER, root, size, 1, 1, goal, by_clock=True)
        many = one_partition(50 if self._quick else 100_000)
        for work in (each for each in OF_A_BROKER if each != "kafkalog offsets"):  # no group has committed any
            label = f"{len(list((many / 'many-0').glob('*.log'))):,} in 1"
            yield Point(f"a broker's segments: {work}", label, work, many, _size_of(many), rounds=1, goal=OF_MANY)
        for segments in (5, 10) if self._quick else (100, 1000):
            partitions = 2 if self._quick else 100
            root = broker_directory(partitions, segments=segments)
            for work in ("kafkalog ls", "kafkalog verify"):
                label = f"{segments * partitions:,} in {partitions}"
                yield Point(f"a broker's segments: {work}", label, work, root, _size_of(root), rounds=1)

    def all(self) -> Iterator[Point]:
        """Group by group."""
        yield from self.without_data()
        yield from self.of_a_broker()
        rounds = 1 if self._quick else 3
        unit = MIB if self._quick else 64 * MIB
        for threads in (1, 2):
            for codec in Shape().codec.__class__:
                path = indexed(partition(Shape(codec=codec), unit if self._quick else 4 * unit, say=_say))
                label = f"{codec.label}, {threads} thread{'s' * (threads > 1)}"
                yield Point("threads: decode", label, "decode", path, _size_of(path), threads, rounds)
        for size in self._small([MIB, 16 * MIB, 256 * MIB, GIB, 2 * GIB - 2 * MIB]):
            path = partition(Shape(), size, say=_say)
            for work in ("decode", "verify", "recover"):
                again = 1 if size > GIB // 2 else rounds
                yield Point(f"segment size: {work}", f"{size / MIB:,.0f} MiB", work, path, size, rounds=again)
        for copies in (1, 2) if self._quick else (1, 2, 4, 8):
            root = _linked("directory", partition(Shape(), MIB if self._quick else GIB, say=_say), copies)
            size = _size_of(root)
            for work in ("decode all", "verify"):
                yield Point(f"directory size: {work}", f"{size / GIB:.1f} GiB", work, root, size, rounds=1)
            for work in OF_MUCH_DATA if self._quick or copies == 8 else ():
                goal = None if work == "bare reading" else OF_MANY
                group = f"whole commands on much data: {work}"
                yield Point(group, f"{size / GIB:.1f} GiB", work, root, size, rounds=1, goal=goal)
        for copies in (1, 10) if self._quick else (1, 10, 100, 1000, 10_000):
            root = _linked("partitions", partition(Shape(), 16 * 1024, say=_say), copies)
            for work in ("open", "verify", "plan"):
                yield Point(f"partitions: {work}", f"{copies:,}", work, root, _size_of(root), rounds=1)
        for records, value in ((1, 170), (8, 110), (140, 100), (1150, 100), (9200, 100)):
            path = partition(Shape(records=records, value_bytes=value), unit, say=_say)
            bytes_of_batch = records * (value + 20)
            for work in ("decode", "verify"):
                group = f"batch size: {work}"
                yield Point(group, f"about {bytes_of_batch:,} B", work, path, _size_of(path), rounds=rounds)
        for value, records in ((10, 700), (100, 140), (1000, 16), (10_000, 2), (100_000, 1)):
            path = partition(Shape(records=records, value_bytes=value), unit, say=_say)
            yield Point("record size: decode", f"{value:,} B", "decode", path, _size_of(path), rounds=rounds)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(measured: list[tuple[Point, dict[str, float]]]) -> list[str]:
    """Lines of Markdown, a table for each group."""
    lines: list[str] = []
    group = ""
    groups = list(dict.fromkeys(point.group for point, _ in measured))
    for point, found in sorted(measured, key=lambda each: groups.index(each[0].group)):
        if point.group != group:
            group = point.group
            lines += [
                "",
                f"## {group.capitalize()}",
                "",
                "| | seconds | processor s | MB/s | per s | peak memory | at most |",
            ]
            lines.append("|---|---|---|---|---|---|---|")
        rate = f"{point.size / 1e6 / found['seconds']:,.0f}" if point.size else ""
        per_second = found["count"] / found["seconds"]
        count = f"{per_second / 1e6:.2f} M" if per_second >= 1e5 else f"{per_second:,.0f}"
        memory = f"{found['peak'] / MIB:,.0f} MiB" if found["peak"] else ""
        times = f"{found['seconds']:.3f} | {found['processor']:.3f}"
        lines.append(f"| {point.label} | {times} | {rate} | {count} | {memory} | {point.judged(found)} |")
    return lines


def main() -> None:
    """Run and print."""
    if sys.argv[1:2] == ["--one"]:
        work, path, threads, rounds = sys.argv[2:]
        print(json.dumps(measure_here(work, Path(path), int(threads), int(rounds))))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small and for correctness only")
    parser.add_argument("--without-data", action="store_true", help="only what costs although there is no data")
    parser.add_argument("--only", default="", help="groups that contain this text")
    parser.add_argument("--results", type=Path, help="write the tables into this page")
    arguments = parser.parse_args()
    place = machine()
    print(place)
    measured = []
    points = Points(quick=arguments.quick)
    for point in points.without_data() if arguments.without_data else points.all():
        if arguments.only in point.group:
            measured.append((point, point.measure()))
            print(point.group, table(measured[-1:])[-1], flush=True)
    if arguments.results:
        told = f"{place}. Best of up to three rounds, wall clock."
        arguments.results.write_text("\n".join(["# Scaling", "", told, *table(measured), ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
