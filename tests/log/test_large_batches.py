"""Batches that unpack to more than the limit: read if a caller raises it, and an error that says how if not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.errors import FormatError
from kafkalog.codec.limits import DEFAULT_LIMITS, UNPACKED_BYTES
from kafkalog.codec.model import Codec, Record, TimestampType

SMALL = replace(DEFAULT_LIMITS, decompressed_batch_bytes=10_000)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    records = [Record(n, 1000, TimestampType.CREATE_TIME, None, b"a" * 1000) for n in range(20)]
    (tmp_path / "data" / "t-0" / f"{0:020}.log").write_bytes(build_batch(records, codec=Codec.ZSTD))
    return tmp_path / "data"


def test_limits_of_opening_are_those_of_all_that_is_read(directory: Path) -> None:
    small = kafkalog.open(directory, limits=SMALL)["t", 0]
    for read in (lambda: list(small.records()), lambda: small.to_arrow().read_all()):
        with pytest.raises(FormatError, match=UNPACKED_BYTES):
            read()
    assert sum(1 for _ in small.records(limits=replace(SMALL, decompressed_batch_bytes=50_000))) == 20
    assert sum(1 for _ in kafkalog.open(directory)["t", 0].records()) == 20


def found_by_command(directory: Path, **more: str) -> str:
    words = [sys.executable, "-m", "kafkalog", "find", str(directory), "--topic", "t", "--offset", "5"]
    environment = os.environ | {"COLUMNS": "200"} | more
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_environment_sets_the_limit_of_commands(directory: Path) -> None:
    limited = found_by_command(directory, **{UNPACKED_BYTES: "10000"})
    assert "beyond a limit" in limited
    assert "no such record" not in limited
    assert "limit" not in found_by_command(directory, **{UNPACKED_BYTES: "much"})
