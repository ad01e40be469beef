"""`kafkalog dump` against Kafka: its consumer's records, its own dump tool's lines."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from testkit.recorded.broker_dirs import STOPPED, brokers, expected_records
from testkit.recorded.fixture_data import BrokerCase
from testkit.running.command import kafkalog

LEVELS = ("read_uncommitted", "read_committed")
FIELDS = ("timestamp", "timestampType", "leaderEpoch", "key", "value", "headers")
NEW_DUMP = [case for case in STOPPED if case.version in ("3.9.1", "3.9.1-zk", "4.1.1", "4.3.0")]

Note = Callable[[str, int], None]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", STOPPED, ids=lambda case: case.id)
def test_records_are_those_of_kafkas_consumer(case: BrokerCase, level: str, compared: Note) -> None:
    wanted = expected_records(case, level)
    if not wanted:
        assert (case.version, case.name) == ("0.8.2.2", "zkhist"), "only this case has no records file"
        return
    got = {}
    for broker in brokers(case.id):
        finished = kafkalog("dump", "--json", "--encoding", "base64", "--isolation-level", level, broker)
        assert finished.code == 0, finished.err
        for line in finished.objects:
            got[line["topic"], line["partition"], line["offset"]] = line
    topics = {topic for topic, _, _ in wanted}
    assert {key for key in got if key[0] in topics} == set(wanted)
    for key, line in wanted.items():
        for name in FIELDS:
            # what an old consumer did not know is not in its lines
            assert got[key][name] == line.get(name, got[key][name]), (key, name)
        assert {"key", "value"} <= set(line)
    compared(f"records, {level}", len(wanted))


def _dumped(text: str) -> dict[str, list[str]]:
    """Lines of Kafka's dump tool by file; values may hold newlines, so only lines that begin like one of its own."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        elif line.startswith("[stderr]"):
            lines = []
        else:
            lines.append(line)
    return found


_BATCH = re.compile(r"baseOffset: -?\d+ lastOffset: ")


@pytest.mark.parametrize("case", NEW_DUMP, ids=lambda case: case.id)
def test_batch_lines_are_those_of_kafkas_dump_tool(case: BrokerCase, compared: Note) -> None:
    dumped = _dumped(case.expected_text("dump_logs.txt"))
    assert dumped
    for broker in brokers(case.id):
        for path, lines in dumped.items():
            file = broker.parent / path
            if not path.startswith(f"{broker.name}/") or not path.endswith(".log"):
                continue
            wanted = [line for line in lines if _BATCH.match(line)]
            finished = kafkalog("dump", "--batches", "--all", file)
            assert finished.code == 0, finished.err
            assert finished.lines[2:] == wanted, path
            compared("batch lines", len(wanted))


@pytest.mark.parametrize("case", NEW_DUMP, ids=lambda case: case.id)
def test_record_lines_begin_like_those_of_kafkas_dump_tool(case: BrokerCase, compared: Note) -> None:
    record = re.compile(
        r"\| offset: \d+ \w+: -?\d+ keySize: -?\d+ valueSize: -?\d+ sequence: -?\d+ headerKeys: \[.*?\]"
    )
    marker = re.compile(r" endTxnMarker: \w+ coordinatorEpoch: -?\d+")
    for path, lines in _dumped(case.expected_text("dump_logs.txt")).items():
        if not path.endswith(".log"):
            continue
        finished = kafkalog("dump", "--all", brokers(case.id)[0].parent / path)
        wanted = [found for line in lines if (found := record.match(line))]
        got = [found for line in finished.lines[2:] if (found := record.match(line))]
        assert [found.group() for found in got] == [found.group() for found in wanted], path
        ends = [[found.group() for line in text if (found := marker.search(line))] for text in (lines, finished.lines)]
        assert ends[0] == ends[1]
        compared("record lines", len(wanted))


@pytest.mark.parametrize("case", NEW_DUMP, ids=lambda case: case.id)
def test_entries_of_other_files_are_those_of_kafkas_dump_tool(case: BrokerCase, compared: Note) -> None:
    entry = re.compile(r"(offset|timestamp|version|producerId): ")
    for path, lines in _dumped(case.expected_text("dump_indexes.txt")).items():
        wanted = [line.rstrip() for line in lines if entry.match(line)]
        file = brokers(case.id)[0].parent / path
        if not any(file.read_bytes()):
            wanted = []  # allocated and never written: Kafka's tool prints the first zero slot as an entry
        finished = kafkalog("dump", file)
        assert finished.code == 0, finished.err
        assert [line.rstrip() for line in finished.lines[1:]] == wanted, path
        compared("index and snapshot entries", len(wanted))
