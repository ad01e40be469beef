"""Empty segment files were deleted (`find -size 0 -delete`): nothing is lost, but the logs begin again at 0.

Retention had removed the records of these logs, so each was an empty file with the log start as its name.
"""

from __future__ import annotations

import shlex
import struct
from pathlib import Path

import pytest

from testkit.recorded.broker_dirs import brokers, expected_offsets, own_copy
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

CASE = broker_case("4.1.1", "metadata")
OFFSETS = {f"{topic}-{number}": offsets for (topic, number), offsets in
           expected_offsets(CASE, "read_uncommitted").items()}  # fmt: skip
EMPTIED = {name: end for name, (start, end) in OFFSETS.items() if start == end != 0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A broker's directory without its empty files."""
    data = own_copy(brokers("4.1.1/metadata")[0], tmp_path / "data")
    for path in data.rglob("*"):
        if path.is_file() and not path.stat().st_size:
            path.unlink()
    return data


def without_log(root: Path) -> dict[str, int]:
    return {name: end for name, end in EMPTIED.items() if not list((root / name).glob("*.log"))}


def told(root: Path) -> dict[str, str]:
    (line,) = kafkalog("plan", "--json", root).objects
    return {each["partition"]: each["detail"] for each in line["consequences"] if each["kind"] == "end_goes_back"}


def test_what_retention_had_removed_before_is_not_lost(root: Path) -> None:
    assert without_log(root)
    planned = kafkalog("plan", root).out
    assert "lost with this plan: nothing" in planned
    report = kafkalog("report", "--format", "text", "--output", "-", root).out
    assert "lost with this plan: nothing" in report
    assert "permanently" not in report


def test_the_end_that_goes_back_is_told_with_what_keeps_it(root: Path) -> None:
    recorded = brokers("4.1.1/metadata")[0]
    details = told(root)
    assert details.keys() == without_log(root).keys()
    for name, detail in details.items():
        assert f"began at {EMPTIED[name]}, without records, and will end at 0" in detail
        (path,) = shlex.split(detail.partition("touch ")[2])
        Path(path).touch()
        kept, original = ({log.name for log in (each / name).glob("*.log")} for each in (root, recorded))
        assert kept == original
    assert told(root) == {}
    (line,) = kafkalog("plan", "--json", root).objects
    ends = {each["name"]: each["log_end_offset"] for each in line["partitions"]}
    assert {name: ends[name] for name in details} == {name: EMPTIED[name] for name in details}


def test_what_was_written_after_the_start_is_lost(root: Path) -> None:
    name = min(without_log(root))
    checkpoint = root / "replication-offset-checkpoint"
    topic, _, number = name.rpartition("-")
    line = f"{topic} {number} {EMPTIED[name]}\n"
    text = checkpoint.read_text()
    assert line in text
    checkpoint.write_text(text.replace(line, f"{topic} {number} {EMPTIED[name] + 3}\n"))
    (planned,) = kafkalog("plan", "--json", root).objects
    lost = {each["partition"]: (each["first"], each["last"]) for each in planned["ways"][0]["offsets_lost"]}
    assert lost == {name: (EMPTIED[name], EMPTIED[name] + 2)}


@pytest.mark.parametrize("case", ["entries", "no entry", "not increasing", "log with a batch"])
def test_an_index_beside_an_emptied_newest_segment_shows_which_offsets_were_there(case: str, tmp_path: Path) -> None:
    """A broker adds an entry only after the batch with its offset (`LogSegment.append`)."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    log = max((data / "stock-41-0").glob("*.log"))
    base = int(log.stem)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
        (data / name).unlink(missing_ok=True)
    for path in [each for each in (data / "stock-41-0").glob("*.snapshot") if int(each.stem) > base]:
        path.unlink()
    (data / "stock-41-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    entries = {"no entry": [], "not increasing": [(4, 4200), (9, 8400), (7, 9000)]}.get(case, [(4, 4200), (9, 8400)])
    index = b"".join(struct.pack(">ii", *entry) for entry in entries)
    log.with_suffix(".index").write_bytes(index + bytes(800))
    log.write_bytes(log.read_bytes() if case == "log with a batch" else b"")
    (planned,) = kafkalog("plan", "--json", data).objects
    lost = [(each["first"], each["last"]) for each in planned["ways"][0]["offsets_lost"]] if planned["ways"] else []
    assert lost == ([(base, base + 9), (base + 10, None)] if case == "entries" else [])
