"""The peers in Python, the decompressors alone, kafka-dump-log and Kafka's own recovery.

Each reader takes a log file, checks every checksum, reads every record, and gives (seconds, records).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkalog.codec import Codec
from support.jars import KAFKA, kafka_jars
from support.timing import Measured, clock, process


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


def decompressors(codec: Codec, most: int) -> dict[str, Callable[[bytes], object]]:
    """Well-kept libraries that decompress the record bytes of a batch; `most` is a bound of what comes out."""
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

    match codec:
        case Codec.GZIP:
            found: dict[str, Callable[[bytes], object]] = {"zlib alone": lambda data: zlib.decompress(data, 31)}
            with contextlib.suppress(ImportError):
                from isal import igzip

                found["isal alone"] = igzip.decompress
            return found
        case Codec.SNAPPY:
            return {"snappy alone": of_xerial}
        case Codec.LZ4:
            return {"lz4 alone": lz4.frame.decompress}
        case _:
            zstd = zstandard.ZstdDecompressor()
            return {"zstd alone": lambda data: zstd.decompress(data, max_output_size=most)}


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


def dump_log(path: Path, output: Path) -> float:
    """Seconds of a whole kafka-dump-log process that prints every record into a file."""
    command = ["java", "-Xmx256m", "-cp", ":".join(map(str, kafka_jars.jars(KAFKA))), "kafka.tools.DumpLogSegments",
               "--print-data-log", "--files", str(path)]  # fmt: skip
    return process(command, output)


def recover_log_directory(root: Path, output: Path) -> float:
    """Seconds of a whole process in which Kafka itself loads a log directory after a crash, and closes it."""
    return _kafka("recover", root, {"hash": 0}, output)


def compact_log_directory(root: Path, config: dict[str, str], now_ms: int, output: Path) -> float:
    """Seconds of a whole process in which Kafka loads a log directory, its own log cleaner makes a pass, and it closes.

    With the 128 MiB for its map that a broker has.
    """
    params = {**config, "now_ms": now_ms, "log.cleaner.dedupe.buffer.size": 128 << 20}
    return _kafka("clean", root, params, output)


def _kafka(operation: str, root: Path, params: dict[str, Any], output: Path) -> float:
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in kafka_jars.OPENED_PACKAGES]
    classes = [kafka_jars.version_directory(KAFKA) / "classes", *kafka_jars.jars(KAFKA)]
    command = ["java", "-Xmx1g", *opened, "-cp", ":".join(map(str, classes)), "interop.Main"]
    request = {"id": 1, "op": operation, "timeout_s": 600, "dir": str(root), "params": params}
    seconds = process(command, output, json.dumps(request) + "\n")
    answer = json.loads(output.read_text(encoding="utf-8").splitlines()[0])
    if answer.get("result", {}).get("outcome") != "loaded":
        raise SystemExit(f"Kafka did not load {root}: {answer}")
    return seconds


def versions() -> str:
    """The peers' versions in one line."""
    from importlib.metadata import version

    answer = ""
    if shutil.which("java") is not None:
        shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
        answer = (shown.stderr + shown.stdout).splitlines()[0]
    return f"kafka-python {version('kafka-python')}, aiokafka {version('aiokafka')}, Kafka {KAFKA}, {answer}"
