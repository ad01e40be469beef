"""What docs/dump.md shows works, and says what the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kafkalog as library
from kafkalog.cli.main import run
from testkit.running.command import Finished, kafkalog

PAGE = Path(__file__).resolve().parents[2] / "docs" / "dump.md"
LINES = re.findall(r"^\$ kafkalog (.*)$", PAGE.read_text(), re.MULTILINE)
T0 = 1_700_000_000_000


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`data` in the current directory: two partitions of orders, and where a group has committed."""
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for partition in (0, 1):
        with library.Log.open(f"data/orders-{partition}") as log:
            for number in range(10):
                key, value = b"customer-%d" % (number % 5), b"item-%d" % number
                record = library.NewRecord(
                    value=value, key=key, timestamp=T0 + 1000 * number, headers=[("source", b"web")]
                )
                log.append([record])
    library.commit_offsets("data", "billing", {("orders", 0): 8, ("orders", 1): 10}, timestamp=T0)


@pytest.mark.parametrize("line", LINES)
def test_a_command_prints_something(line: str) -> None:
    finished = kafkalog(*shlex.split(line))
    assert (finished.code, finished.err) == (0, "")
    quiet = "--verify-index-only" in line or "--parquet" in line or "--arrow" in line
    assert bool(finished.out) is not quiet or "--verify-index-only" in line


PRINTED: dict[str, Callable[[Finished], bool]] = {
    "dump data -t 'orders*' --exclude": lambda done: done.lines[2].startswith("| offset: 1 CreateTime: 1700000001000 "),
    "dump data -t orders -p 0 --offset 7": lambda done: "payload: item-7" in done.lines[-1] and len(done.lines) == 3,
    "dump data -t orders --key-regex": lambda done: len(done.objects) == 20,
    "dump data -t __consumer_offsets --json": lambda done: all("decoded" in line for line in done.objects),
    "dump data -t __consumer_offsets --no-decode": lambda done: "billing" in done.out and "{" not in done.out,
    "dump data -t orders --redact": lambda done: "item" not in done.out and len(done.objects) == 20,
    "dump --print-data-log --skip": lambda done: done.lines[3] == "| key: customer-0 payload: item-0",
    "dump --offsets-decoder": lambda done: '"group":"billing"' in done.out,
    "dump data -C -t orders -p 0": lambda done: done.out == "item-0\nitem-1\nitem-2\n",
    "dump data -t orders -f": lambda done: done.lines[0] == "Topic orders [0] at offset 0: key customer-0: item-0",
    "dump data -t orders -J -o -5": lambda done: [line["offset"] for line in done.objects] == [*range(5, 10)] * 2,
    "dump data -t orders -o s@": lambda done: done.lines == [f"customer-{n}:item-{n}" for n in range(5)] * 2,
    "dump data -t orders -G billing": lambda done: [line["offset"] for line in done.objects] == [8, 9],
    "find data --topic orders --time": lambda done: "2023-11-14T22:13:23.000Z       3" in done.out,
    "find data --topic orders --offset": lambda done: [line["position"] > 0 for line in done.objects] == [True, True],
}  # fmt: skip


@pytest.mark.parametrize("start", PRINTED)
def test_it_prints_what_the_page_says(start: str) -> None:
    (line,) = (line for line in LINES if line.startswith(start))
    assert PRINTED[start](kafkalog(*shlex.split(line)))


def test_columns() -> None:
    line = next(line for line in LINES if "--parquet" in line)
    assert kafkalog(*shlex.split(line)).code == 0
    table = pq.read_table("orders.parquet")
    assert table.num_rows == 20
    named = re.search(r"Spark's Kafka source \((.*?)\)", PAGE.read_text(), re.DOTALL)
    assert named is not None
    assert table.schema.names == re.findall(r"`(\w+)`", named[1])


@pytest.mark.parametrize("option", ["-b x", "-X a=b", "-F x", "-m 1", "-d x", "-E", "-M 1", "-L", "-Q", "-P", "-r x",
                                    "-s avro"])  # fmt: skip
def test_what_the_page_calls_refused_is_refused(option: str) -> None:
    assert run(["dump", "data", *option.split()]) == 64
    assert f"`{option.split()[0]}" in PAGE.read_text()
