"""PATH from the broker's own settings, times in all their forms, and what hostile words end in."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click
import pytest

from kafkalog.cli.options.times import Age, Timestamp
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.running.command import kafkalog

SEGMENTS = "4.1.1/segments"
ZOOKEEPER = "2.8.2/zkhist"
NOW = 1_700_000_000_000


def iso(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def properties(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(text)
    return path


@pytest.mark.parametrize("command", ["ls", "verify", "plan", "runs"])
def test_the_brokers_settings_name_its_directories(command: str, tmp_path: Path) -> None:
    one, two = brokers(ZOOKEEPER)
    three = brokers("4.1.1/metadata")[0]
    file = properties(
        tmp_path, f"broker.id=1\nlog.dir=/nowhere\nlog.dirs = {one} ,{two},,{one}\nmetadata.log.dir={three}\n"
    )
    typed = kafkalog(command, "--json", one, two, three)
    named = kafkalog(command, "--json", "--server-properties", file)
    assert [line["path"] for line in named.objects] == [str(one), str(two), str(three)]
    is_one_node = command == "plan"  # directories of two brokers, by which one node does not start
    assert named.code == (1 if is_one_node else typed.code)


def test_staging_looks_beside_each_directory(tmp_path: Path) -> None:
    """Named one by one, by their parent, by the settings; and beside what is no log directory yet."""
    one, two = (own_copy(each, tmp_path / "disks" / each.name) for each in brokers(ZOOKEEPER))
    wanted = [str(one), str(two)]
    file = properties(tmp_path, f"log.dirs={one},{two}\n")
    for words in ([one, two], [one.parent], ["--server-properties", file]):
        found = kafkalog("staging", "--json", *words)
        assert (found.code, [line["path"] for line in found.objects]) == (0, wanted), words
    (tmp_path / "new").mkdir()
    assert [line["path"] for line in kafkalog("staging", "--json", tmp_path / "new").objects] == [str(tmp_path / "new")]
    assert kafkalog("staging", one, tmp_path / "nowhere").code == 64


@pytest.mark.parametrize("command", ["offsets", "groups", "transactions", "metadata", "elections"])
def test_commands_about_the_cluster_take_it_too(command: str, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/groups")
    file = properties(tmp_path, f"log.dirs={broker}\n")
    typed, named = kafkalog(command, "--json", broker), kafkalog(command, "--json", "--server-properties", file)
    assert (named.code, named.out) == (typed.code, typed.out)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("broker.id=1\n", "names no log directory: it sets neither log.dirs nor log.dir"),
        ("log.dirs= , ,\n", "names no log directory"),
        ("log.dirs=${env:DIR}\n", "by a variable that only the broker knows"),
        ("log.dirs=\\u12\n", "is not a properties file: a \\\\u without four digits"),
        ("log.dirs=/no/such/place\n", "/no/such/place does not exist"),
    ],
)
def test_settings_that_name_none(text: str, sentence: str, tmp_path: Path) -> None:
    finished = kafkalog("ls", "--server-properties", properties(tmp_path, text))
    assert (finished.code, finished.out) == (64, "")
    assert sentence.replace("\\\\", "\\") in finished.err


@pytest.mark.parametrize("command", ["ls", "offsets", "groups", "transactions", "runs", "undo", "undelete",
                                     "metadata", "elections", "compare", "staging"])  # fmt: skip
def test_settings_beside_a_path_have_no_meaning_here(command: str, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/groups")
    finished = kafkalog(command, broker, "--server-properties", properties(tmp_path, f"log.dirs={broker}\n"))
    assert (finished.code, finished.out) == (64, "")
    assert "--server-properties replaces PATH here" in finished.err


def test_neither_path_nor_settings() -> None:
    for command in ("ls", "recover", "undo", "compact"):
        finished = kafkalog(command)
        assert finished.code == 64
        assert "Missing argument 'PATH" in finished.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-5000", -5000),
        ("1700000000000", NOW),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20+01:00", NOW),
        ("2023-11-14 22:13:20.000", NOW),
        ("2023-11-14", 1_699_920_000_000),
        (" 1700000000000 ", NOW),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert Timestamp().convert(text, None, None) == expected


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("-2h", -7_200_000),
        ("-30m", -1_800_000),
        ("-1d", -86_400_000),
        ("+1w", 604_800_000),
        ("-250ms", -250),
        ("-0s", 0),
    ],
)
def test_spans_are_counted_from_now(span: str, expected: int) -> None:
    before = time.time_ns() // 1_000_000
    found = Timestamp().convert(span, None, None)
    assert before + expected <= found <= time.time_ns() // 1_000_000 + expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("03:12", 1_700_017_920_000), ("03:12:07.5", 1_700_017_927_500), ("23:59Z", 1_700_092_740_000),
        ("00:30+02:00", 1_700_001_000_000), ("23:30-05:00", 1_700_022_600_000),
    ],
)  # fmt: skip
def test_a_time_alone_is_todays_where_its_zone_is(text: str, expected: int) -> None:
    """Now is 2023-11-15 02:00 UTC, which is still the day before in the west."""
    context = click.Context(click.Command("c"))
    context.params["at"] = 1_700_013_600_000
    assert Timestamp().convert(text, None, context) == expected


@pytest.mark.parametrize("text", ["25:00", "03:12:61", "03:1", "3:12", "03:12 and more"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="neither milliseconds"):
        Timestamp().convert(text, None, None)


@pytest.mark.parametrize("now", [253_402_297_200_000, 2**63 - 1])
def test_a_time_of_day_beyond_the_last_year_is_refused(now: int) -> None:
    context = click.Context(click.Command("c"))
    context.params["at"] = now
    with pytest.raises(click.BadParameter, match="neither milliseconds"):
        Timestamp().convert("10:00+14:00", None, context)


def test_spans_are_counted_from_at() -> None:
    """Retention of a day: what is a day old for the clock of --at goes, wherever the option stands."""
    (broker,) = brokers("4.1.1/groups")
    for words in (["--as-of", "-2h"], ["--as-of=-2h"]):
        assert kafkalog("offsets", broker, *words).code in (0, 1)
    listing = [kafkalog("plan", "--json", broker, "--at", each).code for each in ("2024-01-01", "-1d", "1700000000000")]
    assert len(set(listing)) == 1


HOSTILE = [
    (["ls", "--topic", "["], 1, "no topic matches '['"),
    (["ls", "--topic", "[!"], 1, "no topic matches '[!'"),
    (["ls", "--topic", "[z-a]*"], 1, "no topic matches '[z-a]*'"),
    (["ls", "--topic", "*a" * 5000], 1, "no topic matches '*a*a"),
    (["ls", "--topic", ""], 64, "a name cannot be empty"),
    (["ls", "--topic", "a\x1b[31m\u202eb"], 1, "no topic matches 'a\\x1b[31m\\u202eb'"),
    (["ls", "--topic", "a\nb\x00"], 1, "there is no topic 'a\\x0ab\\x00'"),
    (["ls", "--topic", "\udcff\udc80"], 1, "there is no topic '\\xff\\x80'"),
    (["ls", "--topic", "x" * 100_000], 1, "there is no topic 'xxx"),
    (["ls", "--exclude", "\udcff"], 1, "there is no topic or partition '\\xff'"),
    (["ls", "--partition", "-1"], 64, "'-1' is not a whole number from 0 to 2147483647"),
    (["ls", "--partition", "9" * 50_000], 64, "is not a whole number from 0 to 2147483647"),
    (["ls", "--partition", "\u0661"], 64, "is not a whole number"),
    (["plan", "--jobs", "100000"], 64, "'100000' is not a whole number from 1 to 1024"),
    (["plan", "--jobs", "0"], 64, "'0' is not a whole number from 1 to 1024"),
    (["plan", "--at", "99999999999999999999"], 64, "neither milliseconds since 1970 nor an ISO 8601 time"),
    (["plan", "--at", "9223372036854775808"], 64, "is not a time that 64 bits of milliseconds can hold"),
    (["plan", "--at", "-9999999999999999999d"], 64, "is not a time that 64 bits of milliseconds can hold"),
    (["plan", "--at", "10000-01-01"], 64, "neither milliseconds since 1970 nor an ISO 8601 time"),
    (["plan", "--at", "2024-02-30"], 64, "neither milliseconds since 1970 nor an ISO 8601 time"),
    (["plan", "--at", "1" * 100_000], 64, "neither milliseconds since 1970 nor an ISO 8601 time"),
    (["plan", "--at", "\udcff"], 64, "neither milliseconds since 1970 nor an ISO 8601 time"),
    (["plan", "--config", "\udcff"], 64, "--config needs NAME=VALUE"),
    (["metadata", "--as-of", "9" * 5000], 64, "is neither an offset nor a transaction"),
    (["metadata", "--as-of", "-5"], 64, "is neither an offset nor a transaction"),
    (["metadata", "--as-of", "0x1" + "0" * 16], 64, "is neither an offset nor a transaction"),
    (["metadata", "--as-of", "0x"], 64, "neither milliseconds since 1970"),
    (["ls", "--no-such-option"], 64, "No such option"),
]


@pytest.mark.parametrize(("words", "code", "sentence"), HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
def test_hostile_words_end_in_one_sentence(words: list[str], code: int, sentence: str) -> None:
    case = brokers("4.1.1/metadata" if words[0] == "metadata" else SEGMENTS)[0]
    finished = kafkalog(*words, case)
    assert (finished.code, finished.out) == (code, ""), finished.err[:500]
    assert sentence in finished.err
    assert finished.err.count("\n") == 1
    assert len(finished.err) < 1000


def test_thousands_of_patterns() -> None:
    words = [word for number in range(3000) for word in ("--exclude", f"{number}-*")]
    assert kafkalog("ls", *words, brokers(SEGMENTS)[0]).code == 0


def test_the_metadata_as_of_a_time() -> None:
    (broker,) = brokers("4.1.1/metadata")
    changes = kafkalog("metadata", "--json", "--history", broker).objects
    times = sorted({each["timestamp"] for each in changes})
    middle = times[len(times) // 2]
    by_time = kafkalog("metadata", "--json", broker, "--as-of", iso(middle))
    if by_time.code == 64:  # the log begins later, with a snapshot that has no times
        assert "the metadata log begins after that time" in by_time.err
        return
    (state,) = by_time.objects
    assert state["timestamp"] <= middle
    (by_offset,) = kafkalog("metadata", "--json", broker, "--as-of", state["next_offset"]).objects
    assert by_offset == state
    (later,) = kafkalog("metadata", "--json", broker).objects
    assert later["next_offset"] > state["next_offset"]
    assert kafkalog("metadata", "--json", broker, "--as-of", "+1d").objects == [later]
    before = kafkalog("metadata", broker, "--as-of", "1990-01-01")
    assert before.code in (0, 64)


def test_names_that_are_not_text_in_the_file_system(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path / "logs") + b"\xff"
    os.symlink(brokers(SEGMENTS)[0], raw)
    finished = kafkalog("ls", "--json", os.fsdecode(raw), "--topic", "orders-*")
    assert finished.code == 0
    assert finished.objects[0]["path"] == os.fsdecode(raw)


def test_elections_as_of_a_time_in_zookeeper() -> None:
    directory = unpacked(ZOOKEEPER) / "zookeeper"
    changes = [each for each in kafkalog("elections", "--json", directory).objects if each["kind"] == "partition"]
    last = changes[-1]
    by_zxid = kafkalog("elections", "--json", directory, "--without", 5, "--as-of", hex(last["zxid"]))
    by_time = kafkalog("elections", "--json", directory, "--without", 5, "--as-of", iso(last["time"]))
    assert (by_time.code, by_time.out, by_time.err) == (by_zxid.code, by_zxid.out, by_zxid.err)


@pytest.mark.parametrize("year", ["1970", "2020", "1000", "9999"])
def test_four_digits_are_a_year(year: str) -> None:
    assert Timestamp().convert(year, None, None) == Timestamp().convert(f"{year}-01-01T00:00:00Z", None, None)
    (broker,) = brokers("4.1.1/groups")
    named, exact = (kafkalog("offsets", "--as-of", text, broker) for text in (year, f"{year}-01-01"))
    assert named == exact


@pytest.mark.parametrize("number", ["0", "999", "0999", "10000", "-2020", "1700000000000"])
def test_other_numbers_are_milliseconds(number: str) -> None:
    assert Timestamp().convert(number, None, None) == int(number)


@pytest.mark.parametrize(
    ("text", "days"), [("1", 1.0), ("0.5", 0.5), ("1d", 1.0), ("36h", 1.5), ("2w", 14.0), ("0", 0.0), ("90m", 0.0625)]
)
def test_ages_are_days_or_spans(text: str, days: float) -> None:
    assert Age().convert(text, None, None) == days
    (broker,) = brokers(SEGMENTS)
    assert kafkalog("runs", "--purge-older-than", text, "--yes", broker).code == 0


@pytest.mark.parametrize("text", ["", "x", "-1", "-1d", "1y", "d", "1e9", "nan"])
def test_what_is_no_age_is_refused(text: str) -> None:
    (broker,) = brokers(SEGMENTS)
    finished = kafkalog("runs", f"--purge-older-than={text}", "--yes", broker)
    assert (finished.code, "neither a number of days nor a span like 36h" in finished.err) == (64, True)
