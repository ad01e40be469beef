"""Recorded broker directories, unpacked once for a whole run, and what Kafka's own consumer read from them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from testkit.made.sparse import copy_folder
from testkit.recorded.fixture_data import BrokerCase, broker_case, broker_cases

KILLED = ("crash", "torn", "tornbig")
"""Cases whose expected records were read after the broker's own recovery."""

STOPPED = tuple(case for case in broker_cases() if case.name not in KILLED)

Key = tuple[str, int, int]
"""(topic, partition, offset)"""


@cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kafkalog-brokers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def unpacked(case_id: str) -> Path:
    """The unpacked archive of ``<version>/<name>``; tests must not change it, see ``own_copy``."""
    version, _, name = case_id.partition("/")
    return broker_case(version, name).unpack(_scratch() / version / name)


def brokers(case_id: str) -> list[Path]:
    """The broker directories of a case, entries of log.dirs each."""
    return sorted(unpacked(case_id).glob("broker-*"))


def own_copy(source: Path, target: Path) -> Path:
    """A copy that a test may damage."""
    return copy_folder(source, target)


def expected_records(case: BrokerCase, isolation_level: str) -> dict[Key, dict[str, Any]]:
    """What the consumer returned, by place; read_committed is recorded only where it differs."""
    stem = isolation_level if case.has(isolation_level) else "read_uncommitted"
    if not case.has(stem):
        return {}
    return {(line["topic"], line["partition"], line["offset"]): line for line in case.expected(stem)}


def expected_offsets(case: BrokerCase, isolation_level: str) -> dict[tuple[str, int], tuple[int, int]]:
    """Start and end offset of every partition that was consumed."""
    stem = f"{isolation_level}.offsets"
    stem = stem if case.has(stem) else "read_uncommitted.offsets"
    if not case.has(stem):
        return {}
    return {(line["topic"], line["partition"]): (line["start"], line["end"]) for line in case.expected(stem)}


def join_cluster(directory: Path, of: Path, *, same_broker: bool = False) -> Path:
    """Make a log directory one of the cluster that `of` is in, or another volume of its very broker."""
    names = ("cluster.id", "node.id", "broker.id") if same_broker else ("cluster.id",)
    known = dict(line.split("=", 1) for line in (of / "meta.properties").read_text().splitlines() if "=" in line)
    file = directory / "meta.properties"
    lines = [line for line in file.read_text().splitlines() if line.split("=")[0] not in names]
    file.write_text("\n".join([*lines, *(f"{name}={known[name]}" for name in names if name in known)]) + "\n")
    return directory


def with_raised_offset(target: Path) -> Path:
    """``4.1.1/segments`` copied; in it a batch of orders-23-0 claims an offset in the millions; its CRC is right."""
    root = own_copy(brokers("4.1.1/segments")[0], target)
    log = root / "orders-23-0" / "00000000000000000135.log"
    data = bytearray(log.read_bytes())
    data[5000] = 0x55
    log.write_bytes(data)
    return root
