"""Files of Confluent's server are named and left alone; a directory with them is as clean as without."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

NAMES = (
    "stock-41-0/00000000000000000000.tierstate", "stock-41-0/00000000000000000000.tierstate.mutable",
    "stock-41-0/00000000000000000000.tierstate.tmp", "stock-41-0/stock-41_0.tierlog", "tier.offsets",
)  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    for name in NAMES:
        (data / name).write_bytes(b"\0\1\2" * 40)
    return data


@pytest.mark.parametrize("command", ["ls", "verify", "plan"])
def test_they_are_information(command: str, data: Path) -> None:
    before = stamps(data)
    finished = kafkalog(command, "--json", data)
    assert finished.code == 0, finished.err
    if command != "plan":
        found = [each for line in finished.objects for each in _findings(line) if each["code"] == "foreign_file"]
        assert {each["file"] for each in found} == {str(data / name) for name in NAMES}
        assert {(each["code"], each["severity"]) for each in found} == {("foreign_file", "info")}
        assert all("Confluent" in each["detail"] for each in found)
    assert stamps(data) == before


def _findings(line: dict[str, object]) -> list[dict[str, str]]:
    """Of a directory and of its partitions."""
    found: list[dict[str, str]] = list(line.get("findings", ()))  # type: ignore[call-overload]
    for each in line.get("partitions", ()):  # type: ignore[attr-defined]
        found += each.get("findings", ())
    return found


def test_a_recovery_leaves_them_as_they_are(data: Path) -> None:
    log = max((data / "stock-41-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"torn")
    before = {name: stamps(data)[name] for name in NAMES}
    assert kafkalog("recover", "--yes", data).code == 2
    assert {name: stamps(data)[name] for name in NAMES} == before
