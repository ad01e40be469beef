"""`dump` as text of large logs is made from columns: the same lines, findings and exit codes as record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.codec.encode import build_batch
from kafkalog.codec.model import Header, Record, TimestampType
from testkit.judging.executions import choose_execution
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_cases, recovery_cases
from testkit.running.command import kafkalog


def compare(path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    answers = []
    for enough in (2**62, 0):
        choose_execution(monkeypatch, enough)
        finished = kafkalog("dump", path, *words)
        answers.append((finished.out, finished.err, finished.code))
    assert answers[0] == answers[1]
    return answers[0][0]


@pytest.mark.parametrize("case", broker_cases(), ids=lambda case: case.id)
def test_every_line_of_a_broker(case: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for broker in brokers(case.id):  # type: ignore[attr-defined]
        compare(broker, monkeypatch)


@pytest.mark.parametrize("family", ["bit_flip", "middle_cut", "torn_tail", "offset_order", "txn_index"])
def test_damaged_directories(family: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cases = recovery_cases([family])[::4]
    printed = [compare(case.unpack_before(tmp_path / str(number)), monkeypatch) for number, case in enumerate(cases)]
    assert any("| offset: " in text for text in printed)


def test_text_of_all_kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    kinds = [
        (None, None, ()), (b"", b"", ()), (b"k", None, (Header("a", None), Header("b,c", b""))),
        (b"caf\xc3\xa9", b"\x1b[31m\xff\n", (Header("\u202e", b"1"), Header("\udcff", b""))), (b"k", b"plain", ()),
    ]  # fmt: skip
    data = b""
    for base in range(3):
        chosen = kinds if base else kinds[-1:]
        records = [Record(10 * base + number, 10**12, TimestampType.CREATE_TIME, *fields)
                   for number, fields in enumerate(chosen)]  # fmt: skip
        data += build_batch(records)
    (directory / f"{0:020}.log").write_bytes(data)
    text = compare(tmp_path, monkeypatch)
    assert text.count("| offset: ") == 11
    assert "\\x1b[31m\\xff\\x0a" in text
