"""The peers: kafka-python, aiokafka, Kafka's Java classes in a warm process, and kafka-dump-log.

Each reader takes a log file, checks every checksum, reads every record, and gives (seconds, records).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import kafka_jars  # noqa: E402

KAFKA = "4.1.0"
Measured = tuple[float, int]

use_cpu_time = False
"""Whether seconds are those of the thread that works, or of the clock on the wall."""


def clock() -> float:
    """Seconds since some moment."""
    return time.thread_time() if use_cpu_time else time.perf_counter()


def _python_reader(memory_records: Any) -> Any:
    def read(path: Path) -> Measured:
        data = path.read_bytes()
        start = clock()
        found = memory_records(data)
        count = 0
        while found.has_next():
            batch = found.next_batch()
            if not batch.validate_crc():
                raise SystemExit(f"{path}: a checksum does not match")
            for _record in batch:
                count += 1
        return clock() - start, count

    return read


def kafka_python(path: Path) -> Measured:
    """kafka-python; the bytes are in memory before the clock starts."""
    from kafka.record.memory_records import MemoryRecords

    return _python_reader(MemoryRecords)(path)  # type: ignore[no-any-return]


def aiokafka(path: Path) -> Measured:
    """aiokafka; the bytes are in memory before the clock starts."""
    from aiokafka.record.memory_records import MemoryRecords

    return _python_reader(MemoryRecords)(path)  # type: ignore[no-any-return]


def decompressor(codec: int, payloads: list[bytes]) -> float:
    """Seconds that the native library takes to decompress the record bytes of batches, and nothing else is done."""
    import zlib

    import lz4.frame
    import snappy
    import zstandard

    def of_xerial(data: bytes) -> None:
        position = 16  # its header
        while position < len(data):
            size = int.from_bytes(data[position : position + 4], "big")
            snappy.decompress(data[position + 4 : position + 4 + size])
            position += 4 + size

    zstd = zstandard.ZstdDecompressor()
    work: dict[int, Callable[[bytes], object]] = {
        1: lambda data: zlib.decompress(data, 31),
        2: of_xerial,
        3: lz4.frame.decompress,
        4: lambda data: zstd.decompress(data, max_output_size=1 << 24),
    }
    one, start = work[codec], clock()
    for payload in payloads:
        one(payload)
    return clock() - start


def aiokafka_build(items: list[tuple[bytes, bytes]], codec: int, timestamp: int) -> Measured:
    """aiokafka's batch builder, batches of 16 KiB."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    def new() -> Any:
        return DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 16384)

    start = clock()
    builder, offset = new(), 0
    for key, value in items:
        if builder.append(offset, timestamp, key, value, []) is None:
            builder.build()
            builder, offset = new(), 0
            builder.append(offset, timestamp, key, value, [])
        offset += 1
    builder.build()
    return clock() - start, len(items)


class Java:
    """A warm JVM that does one piece of work at a time; a context manager."""

    def __init__(self) -> None:
        self.why_not: str | None = kafka_jars.available(KAFKA)
        self._process: subprocess.Popen[str] | None = None
        if self.why_not is None:
            try:
                self._start()
            except (kafka_jars.KafkaUnavailableError, OSError) as error:
                self.why_not = str(error)

    @staticmethod
    def command() -> list[str]:
        """What starts a JVM that takes work from its standard input."""
        source = Path(__file__).resolve().parents[1] / "java" / "Peer.java"
        classes = kafka_jars.compiled(KAFKA, "bench", {"Peer.java": source.read_text()})
        path = ":".join([str(classes), *map(str, kafka_jars.jars(KAFKA))])
        return ["java", "-Xmx1g", f"-Dcpu={str(use_cpu_time).lower()}", "-cp", path, "Peer"]

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._line()

    def _line(self) -> str:
        if self._process is None or self._process.stdout is None:
            raise OSError("there is no JVM")
        return self._process.stdout.readline()

    def run(self, mode: str, path: Path) -> Measured:
        """Seconds as the JVM measures them, and records (batches for `shallow` and `recover`)."""
        if self._process is None or self._process.stdin is None:
            raise OSError(self.why_not or "there is no JVM")
        self._process.stdin.write(f"{mode} {path}\n")
        self._process.stdin.flush()
        words = self._line().split()
        if len(words) != 3:
            raise OSError(f"the JVM could not do {mode}")
        return float(words[0]), int(words[1])

    def __enter__(self) -> Java:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def dump_log(path: Path, output: Path) -> float:
    """Seconds of a whole kafka-dump-log process that prints every record into a file."""
    command = ["java", "-Xmx256m", "-cp", ":".join(map(str, kafka_jars.jars(KAFKA))), "kafka.tools.DumpLogSegments",
               "--print-data-log", "--files", str(path)]  # fmt: skip
    return process(command, output)


def recover_log_directory(root: Path, output: Path) -> float:
    """Seconds of a whole process in which Kafka itself loads a log directory after a crash, and closes it."""
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in kafka_jars.OPENED_PACKAGES]
    classes = [kafka_jars.version_directory(KAFKA) / "classes", *kafka_jars.jars(KAFKA)]
    command = ["java", "-Xmx1g", *opened, "-cp", ":".join(map(str, classes)), "interop.Main"]
    request = {"id": 1, "op": "recover", "timeout_s": 120, "dir": str(root), "params": {"hash": 0}}
    seconds = process(command, output, json.dumps(request) + "\n")
    answer = json.loads(output.read_text(encoding="utf-8").splitlines()[0])
    if answer.get("result", {}).get("outcome") != "loaded":
        raise SystemExit(f"Kafka did not load {root}: {answer}")
    return seconds


def process(command: list[str], output: Path, told: str = "") -> float:
    """Seconds of a process from its start to its end, its output in a file; of processor time, all its threads'.

    `told` is its standard input.
    """
    # an installed package has its bytecode on disk, as the peers' classes are compiled
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    output.unlink(missing_ok=True)  # letting go of an old one takes time too
    before, start = _of_children(), time.perf_counter()
    with output.open("wb") as target:
        subprocess.run(
            command, input=told, text=True, stdout=target, stderr=subprocess.DEVNULL, check=False, env=environment
        )
    return _of_children() - before if use_cpu_time else time.perf_counter() - start


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def versions() -> str:
    """The peers' versions in one line."""
    from importlib.metadata import version

    answer = ""
    if shutil.which("java") is not None:
        shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
        answer = (shown.stderr + shown.stdout).splitlines()[0]
    return f"kafka-python {version('kafka-python')}, aiokafka {version('aiokafka')}, Kafka {KAFKA}, {answer}"
