"""`kafkalog dump` with kafka-dump-log's options prints what that tool of 4.1.1 and 4.3.0 printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testkit.recorded.broker_dirs import STOPPED, unpacked
from testkit.recorded.dump_lines import as_lines
from testkit.recorded.fixture_data import BrokerCase
from testkit.running.command import kafkalog

Note = Callable[[str, int], None]
NEW = [case for case in STOPPED if case.version in ("4.1.1", "4.3.0")]
RECORDED = {
    "dump_logs.txt": [],
    "dump_indexes.txt": [],
    "dump_consumer_offsets.txt": [],
    "dump_transaction_state.txt": [],
    "dump_cluster_metadata.txt": ["--show-secrets"],
}


def _by_file(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        elif line.startswith("[stderr]"):
            lines = []
        lines.append(line)
    return found


def _names(case: BrokerCase) -> list[str]:
    return sorted({path.name.removesuffix(".gz") for path in (case.path / "expected").iterdir()} & set(RECORDED))


PAIRS = [(case, name) for case in NEW for name in _names(case)]


def test_there_are_dumps_of_every_kind() -> None:
    assert {name for _, name in PAIRS} == set(RECORDED)
    assert len(PAIRS) >= 3 * len(NEW)


@pytest.mark.parametrize(("case", "name"), PAIRS, ids=lambda value: value if isinstance(value, str) else value.id)
def test_lines(case: BrokerCase, name: str, compared: Note, monkeypatch: pytest.MonkeyPatch) -> None:
    text = case.expected_text(name)
    options = [word for word in text.split("\n", 1)[0].split()[2:] if word not in ("--files", "...")]
    monkeypatch.chdir(unpacked(case.id))
    for path, lines in _by_file(text).items():
        ours = kafkalog("dump", "--files", path, *options, *RECORDED[name])
        wanted = as_lines("\n".join(lines))
        if wanted[1:] in (["timestamp: 0 offset: 0"], ["offset: 0 position: 0"]):
            wanted = wanted[:1]  # allocated and never written: Kafka's tool prints the first slot of zeros
        assert as_lines(ours.out) == wanted, path
        compared(f"lines of {name}", len(wanted))
