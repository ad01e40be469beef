"""Tables: they fit, no number is cut, nothing goes without a word, and what steers a terminal stays visible."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import re
import struct
import termios
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.output import said
from kafkalog.cli.tables import MANY, Column, Kind, print_table, size_text
from kafkalog.cli.width import terminal_width
from kafkalog.words.order import natural_order
from kafkalog.words.times import moment_text, span_text, time_text
from testkit.made.batches import simple
from testkit.running.command import kafkalog as command

COLUMNS: list[str | Column] = [
    "topic",
    "partition",
    Column("end offset", drop=2),
    Column("size", Kind.BYTES, drop=1),
    Column("appended", Kind.TIME, drop=3),
    Column("health", wraps=True),
    Column("state", if_any=True, drop=4),
]
ROWS = [
    ["orders", 0, 1234567890123, 5_000_000_000, 1_700_000_000_000, "ok", ""],
    ["orders", 11, 2**63 - 1, 734, None, "corruption, missing_records, 45 records in 3 batches after damage", ""],
    ["a-topic-with-a-name-that-is-longer-than-most", 2, 7, None, 1_700_000_000_000, "ok", None],
]


@pytest.fixture
def drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> object:
    def draw(width: int | None, columns: list[str | Column] = COLUMNS, rows: list[list[object]] = ROWS) -> list[str]:
        if width is None:
            monkeypatch.delenv("COLUMNS", raising=False)
        else:
            monkeypatch.setenv("COLUMNS", str(width))
        print_table("title", columns, rows)
        return capsys.readouterr().out.splitlines()

    return draw


def joined(lines: list[str]) -> str:
    return " ".join(lines)


@pytest.mark.parametrize("width", range(32, 170))
def test_every_width_fits_and_cuts_no_number(drawn, width: int) -> None:  # type: ignore[no-untyped-def]
    lines = drawn(width)
    assert max(map(len, lines)) <= width
    shows_all = re.search(r" \(COLUMNS=(\d+) shows all\)", joined(lines))
    if shows_all is not None:
        assert "Not shown" not in joined(drawn(int(shows_all[1])))
    numbers = set(re.findall("[0-9]+", re.sub("COLUMNS=[0-9]+", "", joined(lines))))
    allowed = {
        "0",
        "11",
        "2",
        "7",
        "1234567890123",
        str(2**63 - 1),
        "734",
        "45",
        "3",
        "4",
        "66",
        "2023",
        "14",
        "22",
        "13",
        "20",
    }
    assert numbers <= allowed
    assert {"0", "11", "2"} <= numbers
    left_out = next((joined(lines[i:]) for i, each in enumerate(lines) if each.startswith("Not shown")), "")
    for name, number in (("end offset", "1234567890123"), ("appended", "2023")):
        assert (number in numbers) is not (name in left_out)


def test_without_a_width_everything_is_on_one_line(drawn) -> None:  # type: ignore[no-untyped-def]
    lines = drawn(None)
    assert len(lines) == 2 + len(ROWS)
    assert "45 records in 3 batches after damage" in lines[3]
    assert not any("state" in each for each in lines)


def test_too_narrow_records_stand_one_below_the_other_with_nothing_left_out(drawn) -> None:  # type: ignore[no-untyped-def]
    lines = drawn(32)
    assert lines.count("") == len(ROWS) - 1
    assert "end offset  9223372036854775807" in lines
    assert not any(each.startswith("Not shown") for each in lines)


def test_a_table_without_rows_says_so(drawn) -> None:  # type: ignore[no-untyped-def]
    assert drawn(80, COLUMNS, []) == ["title: none"]


def test_characters_that_are_two_columns_wide_keep_columns_aligned(drawn) -> None:  # type: ignore[no-untyped-def]
    lines = drawn(None, ["topic", "end"], [["注文", 1], ["orders", 2]])
    assert lines[2:] == ["注文      1", "orders    2"]


def test_controls_become_visible(drawn) -> None:  # type: ignore[no-untyped-def]
    lines = drawn(None, ["topic"], [["a\x1b[31mb\nc\u202e"]])
    assert lines[2:] == ["a\\x1b[31mb\\x0ac\\u202e"]


def test_totals_stand_below_several_rows_only(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("t", ["name", "count"], [["a", 1], ["b", 2]], totals=["total", 3])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["total", "3"]
    print_table("t", ["name", "count"], [["a", 1]], totals=["total", 1])
    assert "total" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (10_239, "10239 B"), (10_240, "10.0 KiB"), (1_048_575, "1.00 MiB"), (123_456_789, "118 MiB"),
     (1_023_590, "0.98 MiB"), (10_480_517, "9.99 MiB"), (10_480_518, "10.0 MiB"), (-10_482_614, "-10.0 MiB"),
     (104_805_171, "99.9 MiB"), (104_805_172, "100 MiB"), (2**40, "1.00 TiB"), (2**62, "4096 PiB"),
     (2**63 - 1, "8192 PiB"), (-20_480, "-20.0 KiB")],
)  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("span", "text"),
    [(0, "0 ms"), (1999, "1999 ms"), (2000, "2 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"),
     (172_800_000, "2 d"), (-5000, "-5 s")],
)  # fmt: skip
def test_spans(span: int, text: str) -> None:
    assert span_text(span) == text


def test_moments() -> None:
    assert moment_text(1_700_000_000_999) == "2023-11-14 22:13:20Z"
    assert moment_text(-62_135_596_800_000) == "0001-01-01 00:00:00Z"
    assert time_text(-62_135_596_800_000) == "0001-01-01T00:00:00.000Z"
    assert moment_text(2**63 - 1) == str(2**63 - 1)


def test_natural_order() -> None:
    names = [f"orders-{number}" for number in range(30)] + ["orders", "a-2-10", "a-2-9", "a-10-1"]
    shuffled = random.Random(5).sample(names, len(names))
    assert sorted(shuffled, key=natural_order) == ["a-2-9", "a-2-10", "a-10-1", "orders", *names[:30]]


def many(root: Path, count: int) -> Path:
    for number in range(count):
        place = root / f"t-{number}"
        place.mkdir(parents=True)
        for kind in ("index", "timeindex"):
            (place / f"{0:020d}.{kind}").touch()
        (place / f"{0:020d}.log").write_bytes(simple(5))
    return root


def test_many_sound_partitions_are_a_paragraph(tmp_path: Path) -> None:
    root = many(tmp_path / "logs", MANY + 1)
    listed = command("ls", root)
    assert (listed.code, len(listed.out.splitlines())) == (0, 3)
    assert f"{MANY + 1} partitions of 1 topic in {MANY + 1} segments" in listed.out
    assert "all partitions are sound" in listed.out
    verified = command("verify", root)
    assert (verified.code, len(verified.out.splitlines())) == (0, 5)
    assert f"{(MANY + 1) * 5} records" in verified.out
    assert len(command("ls", "--all", root).out.splitlines()) == MANY + 5
    rows = [line for line in command("verify", "--all", root).out.splitlines() if line.startswith("t-")]
    assert len(rows) == MANY + 1


def test_of_many_those_that_are_damaged_are_listed(tmp_path: Path) -> None:
    root = many(tmp_path / "logs", MANY + 1)
    for number in (7, 11):
        with (root / f"t-{number}" / f"{0:020d}.log").open("r+b") as file:
            file.seek(60)
            file.write(b"\xff\xff")
    listed, verified = command("ls", root), command("verify", root)
    assert f"{MANY - 1} of {MANY + 1} partitions are sound" in listed.out
    assert "2 partitions with findings" in verified.out
    assert [line.split()[:2] for line in listed.out.splitlines() if line.startswith("t ")] == [["t", "7"], ["t", "11"]]
    assert [line.split()[0] for line in verified.out.splitlines() if line.startswith("t-")] == ["t-7", "t-11"]


def test_problems_only_are_sorted_by_what_they_cost(tmp_path: Path) -> None:
    root = many(tmp_path / "logs", 4)
    for number, size in ((1, 100), (3, 30)):
        path = root / f"t-{number}" / f"{0:020d}.log"
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - size)
    every, problems = command("verify", "--all", root), command("verify", "--problems-only", root)
    assert problems.out == command("verify", root).out
    rows = [line.split()[0] for line in every.out.splitlines() if line.startswith("t-")]
    assert rows == ["t-0", "t-1", "t-2", "t-3"]
    listed = [line.split()[0] for line in problems.out.splitlines() if line.startswith("t-")]
    assert sorted(listed) == ["t-1", "t-3"]
    lost = {each["path"]: each["log_bytes"] - each["valid_bytes"]
            for each in command("verify", "--json", root).objects[0]["partitions"]}  # fmt: skip
    assert [lost[str(root / name)] for name in listed] == sorted((size for size in lost.values() if size), reverse=True)
    assert (every.code, every.err) == (problems.code, problems.err)
    assert command("verify", "--json", "--problems-only", root).code == 64


def test_damage_comes_first_on_request(tmp_path: Path) -> None:
    root = many(tmp_path / "logs", 12)
    with (root / "t-11" / f"{0:020d}.log").open("r+b") as file:
        file.truncate(30)
    numbers = [line.split()[1] for line in command("ls", root).out.splitlines() if line.startswith("t ")]
    assert numbers == [str(number) for number in range(12)]
    first = [
        line.split()[1] for line in command("ls", "--damage-first", root).out.splitlines() if line.startswith("t ")
    ]
    assert first == ["11", *map(str, range(11))]


def test_damage_comes_first_over_all_directories(tmp_path: Path) -> None:
    sound, hurt = many(tmp_path / "sound", 2), many(tmp_path / "hurt", 3)
    with (hurt / "t-2" / f"{0:020d}.log").open("r+b") as file:
        file.truncate(30)
    lines = command("ls", "--damage-first", sound, hurt).out.splitlines()
    assert lines[0] == "not sound, in all directories"
    assert str(hurt) in lines[2]
    assert [line.split()[1] for line in lines if line.startswith("t ")] == ["2", "0", "1", "0", "1"]


@pytest.mark.parametrize(
    ("terminal", "no_color", "colored"), [(True, "", True), (False, "", False), (True, "1", False)]
)
def test_color_is_for_terminals(
    drawn: Any, monkeypatch: pytest.MonkeyPatch, *, terminal: bool, no_color: str, colored: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    lines = drawn(120, ["partition", Column("health", alarms=True)], [["a-0", "ok"], ["b-1", "torn_tail"]])
    assert ("\x1b[1mpartition" in lines[1]) is colored
    assert "\x1b" not in lines[2]
    assert ("\x1b[31mtorn_tail\x1b[0m" in lines[3]) is colored


def test_the_width_is_that_of_the_stream_and_not_of_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0), os.fdopen(theirs, "w") as terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        assert terminal_width(terminal) == 200
        monkeypatch.setenv("COLUMNS", "60")
        assert terminal_width(terminal) == 60


def test_a_sentence_on_standard_error_wraps_unless_it_has_a_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    named = "give the one that node 2 will be started with, or mend both first (`kafkalog plan`), and ask again"
    assert max(map(len, said(named).splitlines())) <= 60
    whole = "the first that helps is `kafkalog recover /data/of/broker-2 --mode salvage --yes`, which is not wrapped"
    assert said(whole) == f"kafkalog: {whole}\n"
