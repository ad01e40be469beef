"""Topics whose names hold controls, bytes that are no UTF-8 or a hyphen in front: printed commands and every output."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.cli.settings import planning_words
from kafkalog.codec.common.shell import UNSAFE
from kafkalog.codec.names import without_surrogates
from kafkalog.log.directories.selection import Selection
from kafkalog.recovery.facts.recovery_request import Recovery
from kafkalog.words.escapes import escape_controls
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog as command
from testkit.running.shell_words import as_bash_reads

NAMES = ["caf\udce9", "a\nb\x1b[31m", "--topic", "-x", "it's $x", "caf\u00e9"]


@pytest.fixture(params=NAMES, ids=[ascii(name) for name in NAMES])
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(topic: str, tmp_path: Path) -> Path:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "broker")
    os.rename(root / "sessions-20-0", root / f"{topic}-0")
    for path in root.iterdir():
        if path.is_dir() and path.name != f"{topic}-0":
            shutil.rmtree(path)
        elif path.name.endswith("-checkpoint"):
            path.unlink()
    return root


def test_a_recommended_command_names_that_topic(root: Path, topic: str) -> None:
    log = max((root / f"{topic}-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-1])
    planned = command("plan", f"--topic={topic}", root)
    if without_surrogates(topic) != topic:  # Java does not see such a directory, so neither does recovery
        assert "this mode changes nothing" in planned.out
        assert "kafkalog recover" not in planned.out
        return
    line = next(each.strip() for each in planned.lines if each.startswith("  kafkalog recover "))
    assert UNSAFE.search(line) is None
    words = as_bash_reads(line)
    assert [word.removeprefix("--topic=") for word in words].count(topic) == 1
    assert command(*words[1:]).code == 2


def test_the_line_that_undoes_names_the_directory(topic: str, tmp_path: Path) -> None:
    folder = tmp_path / topic.replace("\n", "\t")  # a quarantine has no line end in its path
    folder.mkdir()
    root = own_copy(brokers("4.1.1/segments")[0], folder / "logs")
    (root / "clicks-42-0" / f"{0:020d}.index").write_bytes(b"")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    done = command("recover", "--yes", root)
    (line,) = [each for each in done.lines if each.startswith("to undo this: ")]
    words = as_bash_reads(line.removeprefix("to undo this: "))
    assert words[:3] == ["kafkalog", "undo", str(root)]
    assert command(*words[1:], "--yes").code == 2


def test_words_that_are_repeated() -> None:
    request = Recovery(select=Selection.of(["y", "-x"], excluded=["--z-1"]), config={"a": "b"})
    assert planning_words(request, None) == ["--config", "a=b", "--topic=-x", "--topic", "y", "--exclude=--z-1"]


def test_records_as_arrow(root: Path, topic: str) -> None:
    partition = kafkalog.open(root)[topic, 0]
    table = partition.to_arrow().read_all()
    assert set(table.column("topic").to_pylist()) == {without_surrogates(topic)}
    assert table.num_rows == sum(1 for _ in partition.records())


def test_records_as_files(root: Path, topic: str, tmp_path: Path) -> None:
    target = tmp_path / "records.parquet"
    finished = command("dump", "--parquet", target, f"--topic={topic}", root)
    if without_surrogates(topic) != topic:
        assert (finished.code, "is not UTF-8, so no column can hold its topic" in finished.err) == (64, True)
        return
    assert finished.code == 0, finished.err
    assert set(pq.read_table(target).column("topic").to_pylist()) == {topic}


def test_every_listing(root: Path, topic: str, tmp_path: Path) -> None:
    for words in (["ls"], ["verify"], ["plan"], ["dump"], ["find", "--offset", "3"], ["runs"]):
        for options in ([], ["--json"]):
            finished = command(*words, *options, root)
            assert finished.code in (0, 1), finished.err
            assert "unexpected" not in finished.err
    (line,) = command("ls", "--json", root).objects
    assert [each["topic"] for each in line["partitions"]] == [topic]
    assert json.loads(json.dumps(line)) == line
    page = tmp_path / "page.html"
    assert command("report", "-o", page, root).code in (0, 1)
    assert escape_controls(topic).split("'")[0] in page.read_text().replace("&#x27;", "'")
