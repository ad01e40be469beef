"""What docs/build.md shows works."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from testkit.running.command import kafkalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "build.md"


def test_the_examples() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert (result.failed, result.attempted) == (0, 6)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"value": ["a", "b"]}), "records.parquet")
    Path("dump.jsonl").write_text('{"topic":"orders","partition":0,"offset":7,"timestamp":5,"key":null,"value":"c"}\n')
    lines = re.findall(r"^\$ kafkalog (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(lines) == 4
    for name in ("first", "second"):
        Path(name).mkdir()
    Path("server.properties").write_text("log.dirs=first,second\n")
    for line in lines:
        assert kafkalog(*shlex.split(line)).code == (2 if "--append" in line else 0)
    assert sorted(path.name for path in Path("spread").glob("orders-*")) == ["orders-0", "orders-1", "orders-2"]
    found = kafkalog("dump", "data", "--json").objects
    assert [(each["offset"], each["value"]) for each in found] == [(0, "a"), (1, "b"), (7, "c")]
    assert [path.name for path in Path("first").glob("orders-*")] == ["orders-0"]
