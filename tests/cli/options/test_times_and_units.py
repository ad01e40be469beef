"""Times that are no milliseconds are named with their unit, and -1 is "none" and no moment of 1969."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.model import Record, TimestampType
from testkit.running.command import kafkalog as command

NOW_S = 1_700_000_000


def log_of(root: Path, name: str, times: list[int]) -> None:
    (root / name).mkdir(parents=True)
    records = [Record(n, time, TimestampType.CREATE_TIME, b"k", b"v") for n, time in enumerate(times)]
    (root / name / f"{0:020}.log").write_bytes(build_batch(records))


@pytest.mark.parametrize(("factor", "unit"), [(1, "seconds"), (10**6, "microseconds"), (10**9, "nanoseconds")])
def test_ls_and_top_name_the_unit_that_times_look_like(factor: int, unit: str, tmp_path: Path) -> None:
    log_of(tmp_path, "odd-0", [NOW_S * factor, NOW_S * factor + 1])
    log_of(tmp_path, "usual-0", [NOW_S * 1000])
    listed = command("ls", tmp_path)
    assert f"times of odd-0 look like {unit} in place of milliseconds" in listed.err
    assert "usual" not in listed.err
    counted = command("top", tmp_path)
    if unit == "nanoseconds":  # which a table has null
        assert "odd-0" in counted.err
        assert "nanoseconds in place of milliseconds" in counted.err
    else:
        assert f"times of odd look like {unit} in place of milliseconds" in counted.err
    assert "usual" not in counted.err


def test_no_timestamp_is_none_and_not_1969(tmp_path: Path) -> None:
    page, tmp_path = tmp_path / "page.html", tmp_path / "data"
    log_of(tmp_path, "none-0", [-1, -1])
    log_of(tmp_path, "some-0", [-1, NOW_S * 1000, -1])
    for words in (
        ("ls", tmp_path, "--segments"), ("top", tmp_path), ("top", tmp_path, "--by", "hour"), ("verify", tmp_path),
        ("find", tmp_path, "--offset", "0", "--time", "max-timestamp"), ("report", tmp_path, "-o", page),
        ("dump", tmp_path / "none-0"), ("dump", tmp_path / "none-0", "-f", "%T\n"), ("retention", tmp_path),
    ):  # fmt: skip
        done = command(*words)
        assert done.out or done.err
        assert "1969" not in done.out + done.err, words
        assert "look like" not in done.err
    assert "1969" not in page.read_text()
    top = {each["topic"]: each for each in map(json.loads, command("top", tmp_path, "--json").out.splitlines())}
    assert (top["none"]["first_timestamp"], top["none"]["last_timestamp"]) == (None, None)
    assert (top["some"]["first_timestamp"], top["some"]["last_timestamp"]) == (NOW_S * 1000, NOW_S * 1000)
    (listed,) = map(json.loads, command("ls", tmp_path, "--json").out.splitlines())
    some = next(each for each in listed["partitions"] if each["topic"] == "some")
    assert (some["first_timestamp"], some["last_timestamp"]) == (NOW_S * 1000, NOW_S * 1000)
    rows = command("find", tmp_path, "--offset", "0").out.splitlines()
    assert [row.split()[-1] for row in rows if row.startswith(("none", "some"))] == ["none", "none"]
