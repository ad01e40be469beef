"""This checkout beside another one of kafkalog, interleaved in one run: `python benchmarks/before_after.py TREE`.

TREE is a checkout of another commit that was set up (`git worktree add TREE COMMIT`, then `python3 dev.py setup`
there).  Each of the two works in processes of its own, on the same files; of each round first one begins, then the
other, and every third round new processes, since where a process's memory lies moves its times by more than noise.
Medians of processor time, their ratio, and the spread: half the distance of the quartiles as a part of the median, of
the checkout where it is larger.  A row is the same where the ratio is within 5 % of 1, or within the spread.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.corpora import Shape, partition
from support.functions import functions

import kafkalog
from kafkalog.cli.main import run as command
from kafkalog.codec import BufferSource, Codec, Scanner
from kafkalog.log import open_partition

SAME = 0.05
BROKERS = Path(__file__).resolve().parents[1] / "fixtures" / "brokers"
EACH = 3
"""Rounds of one pair of processes."""


Work = Callable[[], float]
"""One run; gives its seconds."""
COLUMNS = ["key", "value", "offset", "timestamp", "headers"]
SIZE = 64 << 20


def timed(work: Callable[[], object]) -> Work:
    """Processor time of a call."""

    def run() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return run


def reading(shapes: dict[str, Shape]) -> Iterator[tuple[str, Work]]:
    """Records, as columns and as objects."""
    for name, shape in shapes.items():
        opened = open_partition(partition(shape, SIZE))
        for threads in (1, 2):
            yield (
                f"to_arrow, {name}, threads={threads}",
                timed(lambda opened=opened, threads=threads: [
                    batch.num_rows for batch in opened.to_arrow(COLUMNS, threads=threads)
                ]),
            )  # fmt: skip
    for name in ("100 B plain", "lz4", "two headers", "magic 1"):
        opened = open_partition(partition(shapes[name], SIZE // 8))
        yield f"records(), {name}", timed(lambda opened=opened: sum(1 for _ in opened.records()))


def with_gaps(scratch: Path, shape: Shape) -> Path:
    """A partition of which every fifth batch is gone, as compaction leaves it."""
    whole = partition(shape, SIZE)
    directory = scratch / "gaps" / whole.name
    directory.mkdir(parents=True)
    for log in whole.glob("*.log"):
        data = log.read_bytes()
        kept = [each for number, each in enumerate(Scanner(BufferSource(data))) if number % 5]
        (directory / log.name).write_bytes(b"".join(each.data for each in kept))
    return directory


def between_gaps(scratch: Path) -> Iterator[tuple[str, Work]]:
    """What walks over headers, and columns, where offsets are missing."""
    directory = with_gaps(scratch, Shape(records=1, value_bytes=170))
    opened = open_partition(directory)
    yield "ls, 256 B batches with gaps", timed(lambda: command(["ls", str(directory)]))
    for threads in (1, 2):
        yield (
            f"to_arrow, 256 B batches with gaps, threads={threads}",
            timed(lambda threads=threads: [
                batch.num_rows for batch in opened.to_arrow(COLUMNS, threads=threads)
            ]),
        )  # fmt: skip


def dumping(scratch: Path, shape: Shape) -> Iterator[tuple[str, Work]]:
    """A file of columns, without and with what headers of batches say."""
    directory, target = partition(shape, SIZE), scratch / "out" / "records.parquet"
    target.parent.mkdir()

    def dump(*more: str) -> float:
        target.unlink(missing_ok=True)
        return timed(lambda: command(["dump", str(directory), "--parquet", str(target), *more]))()

    yield "dump --parquet", dump
    yield "dump --parquet --metadata", lambda: dump("--metadata")


def recover_one(root: Path, mode: str) -> object:
    """Recover a log directory, by the call of either side of the comparison."""
    if hasattr(kafkalog, "Recovery"):
        return kafkalog.recover(kafkalog.Recovery(mode=mode), root)
    return kafkalog.recover(root, mode=mode)  # type: ignore[call-arg]


def recovering(scratch: Path, name: str, shape: Shape) -> Iterator[tuple[str, Work]]:
    """A segment without its indexes recovered, copying it not measured, and verified."""
    directory = partition(shape, SIZE)
    log = next(iter(sorted(directory.glob("*.log"))))

    def recover(mode: str) -> float:
        root = scratch / "recover"
        shutil.rmtree(root, ignore_errors=True)
        (root / directory.name).mkdir(parents=True)
        shutil.copy(log, root / directory.name / log.name)
        return timed(lambda: recover_one(root, mode))()

    for mode in ("kafka", "safe"):
        yield f"recover, mode {mode}, {name}", lambda mode=mode: recover(mode)
    for deep in (False, True):
        yield f"verify(deep={deep}), {name}", timed(lambda deep=deep: kafkalog.verify(directory, deep=deep))


def writing(scratch: Path) -> Work:
    """Batches appended to a new log."""
    values = [b"%d" % number * 20 for number in range(10_000)]

    def append() -> float:
        with tempfile.TemporaryDirectory(dir=scratch) as root, kafkalog.Log.open(Path(root) / "t-0") as log:
            return timed(lambda: [log.append(values[at : at + 100]) for at in range(0, len(values), 100)])()

    return append


def recorded_directories(scratch: Path) -> list[Path]:
    """The log directories that real brokers left, unpacked."""
    for path in BROKERS.rglob("*.tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(scratch / "recorded" / path.relative_to(BROKERS).with_suffix(""), filter="data")
    return sorted({path.parent.parent for path in (scratch / "recorded").rglob("[0-9]*.log")})


def starting(scratch: Path) -> Iterator[tuple[str, Work]]:
    """Whole processes: processor time from the start of Python to its end, and of large logs the memory, in thousands
    of MiB so that it is printed as MiB.
    """
    root = scratch / "broker"
    root.mkdir()
    for number in range(9):
        with kafkalog.Log.open(root / f"t-{number}") as log:
            log.append([b"%d" % value for value in range(100)])
    large = partition(Shape(), 4 * SIZE)
    small_batches = partition(Shape(records=1, value_bytes=170), SIZE)
    recorded = [str(each) for each in recorded_directories(scratch)]
    first = f"next(iter(kafkalog.open_partition({str(root / 't-0')!r}).records()))"
    programs = {"import": "import kafkalog; kafkalog.open_partition", "first record": f"import kafkalog; {first}"}
    for name in ("ls", "verify", "plan"):
        begin = f"from kafkalog.cli.main import run; run([{name!r}, "
        programs[f"{name} of nine partitions"] = f"{begin}{str(root)!r}])"
        programs[f"{name} of 256 MiB"] = f"{begin}{str(large)!r}])"
        programs[f"{name} of 64 MiB in 256 B batches"] = f"{begin}{str(small_batches)!r}])"
        programs[f"{name} of {len(recorded)} recorded directories"] = (
            f"from kafkalog.cli.main import run\nfor each in {recorded!r}: run([{name!r}, each])"
        )

    def seconds(program: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def peak(program: str) -> float:
        program += "\nimport sys; print(open('/proc/self/status').read(), file=sys.stderr)"
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True).stderr
        return int(re.findall(r"VmHWM:\s+(\d+) kB", said)[-1]) / 1024 / 1000

    for title, program in programs.items():
        yield f"process: {title}", lambda program=program: seconds(program)
        if "MiB" in title:
            yield f"peak memory, MiB: {title}", lambda program=program: peak(program)


def rows(scratch: Path) -> Iterator[tuple[str, Work]]:
    """Title and work of each row."""
    yield from reading({
        "100 B plain": Shape(), "1 KB plain": Shape(value_bytes=1000, records=16), "two headers": Shape(headers=2),
        "magic 1": Shape(magic=1), "magic 0": Shape(magic=0), "lz4, magic 1": Shape(magic=1, codec=Codec.LZ4),
        **{codec.label: Shape(codec=codec) for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)},
    })  # fmt: skip
    yield from between_gaps(scratch)
    yield from dumping(scratch, Shape())
    yield from recovering(scratch, "16 KiB batches", Shape())
    yield from recovering(scratch, "256 B batches", Shape(records=1, value_bytes=170))
    yield "Log.append, 100 batches of 100", writing(scratch)
    yield from starting(scratch)
    yield from functions()


def work() -> None:
    """The process of one checkout: names of its rows, then the seconds of each row that is asked for."""
    answers, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory() as scratch:
        runs = dict(rows(Path(scratch)))
        print(json.dumps(list(runs)), file=answers, flush=True)
        for line in sys.stdin:
            print(runs[line.rstrip("\n")](), file=answers, flush=True)


class Checkout:
    """A process that works with one checkout."""

    def __init__(self, tree: Path) -> None:
        support = Path(__file__).resolve().parent
        command = [str(tree / ".venv" / "bin" / "python"), str(Path(__file__).resolve()), "--work", str(tree)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=support
        )
        self.titles: list[str] = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a checkout has ended early; what it said is above")
        return line

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def seconds(self, title: str) -> float:
        """One run."""
        assert self._process.stdin is not None
        self._process.stdin.write(title + "\n")
        return float(self._line())


def compare(before: list[float], after: list[float]) -> tuple[float, float, str]:
    """Ratio of the medians, half the distance of the quartiles of the wider one as a part of the median, and a word."""
    ratio = statistics.median(after) / statistics.median(before)
    spreads = []
    for taken in (before, after):
        low, _, high = statistics.quantiles(taken, n=4)
        spreads.append((high - low) / 2 / statistics.median(taken))
    spread = max(spreads)
    said = "same" if abs(ratio - 1) <= max(SAME, spread) else "faster" if ratio < 1 else "SLOWER"
    return ratio, spread, said


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path, nargs="?", help="a checkout of another commit that was set up")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose title this expression finds")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    here = Path(__file__).resolve().parents[1]
    if arguments.tree is None:
        print("no TREE was named to compare this checkout with")
        return
    taken: dict[str, tuple[list[float], list[float]]] = {}
    for begun in range(0, arguments.rounds, EACH):
        with Checkout(arguments.tree.resolve()) as before, Checkout(here) as after:
            for title in after.titles:
                if re.search(arguments.only, title):
                    times = taken.setdefault(title, ([], []))
                    for number in range(min(EACH, arguments.rounds - begun) + 1):
                        for which in (0, 1) if number % 2 else (1, 0):
                            seconds = (before, after)[which].seconds(title)
                            if number:  # the one before is to warm up
                                times[which].append(seconds)
    print(f"processor time if nothing else is named, median of {arguments.rounds}, interleaved\n")
    print("| work | before, ms | now, ms | now / before | spread | |\n|---|---|---|---|---|---|")
    ratios: list[float] = []
    for title, times in taken.items():
        ratio, spread, said = compare(*times)
        ratios.append(ratio)
        medians = " | ".join(f"{1000 * statistics.median(each):.1f}" for each in times)
        print(f"| {title} | {medians} | {ratio:.2f} | {spread:.0%} | {said} |")
    if len(ratios) > 1:
        print(f"\ngeometric mean of {len(ratios)} rows: {statistics.geometric_mean(ratios):.3f}")


if __name__ == "__main__":
    main()
