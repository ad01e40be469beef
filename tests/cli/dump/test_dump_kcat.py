"""`kafkalog dump` with kcat's options.

Expected values are written from kcat's manual and source (`kcat.c`, `format.c`, `json.c` of 1.7.1), not from ours.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog as library
from kafkalog.cli.dump.kcat.format import MOST_PARTS, KcatFormat
from kafkalog.cli.main import run
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.model import Record, TimestampType
from testkit.running.command import kafkalog
from testkit.running.examples import examples

T0 = 1_700_000_000_000
COUNT = 1000


def _texts(number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    source = random.Random(number)
    key = source.choice([None, b"", b"k%d" % number])
    value = source.choice([None, b"", b"value %d" % number, source.randbytes(5), "слово\n\t".encode()])
    headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("c", b"")]
    return key, value, headers[: source.randrange(4)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`words-0` with a thousand records of all kinds, `words-1` with ten more."""
    root = tmp_path_factory.mktemp("kcat")
    for partition, count in ((0, COUNT), (1, 10)):
        with library.Log.open(root / f"words-{partition}") as log:
            for number in range(count):
                key, value, headers = _texts(number)
                log.append([library.NewRecord(value=value, key=key, timestamp=T0 + number, headers=headers)])
    return root


def printed(capfdbinary: pytest.CaptureFixture[bytes], *arguments: object) -> bytes:
    assert run(["dump", *map(str, arguments)]) == 0
    out: bytes = capfdbinary.readouterr().out
    return out


def by_hand(token: str, partition: int, number: int) -> bytes:
    """What kcat's manual says that a token prints."""
    key, value, headers = _texts(number)
    shown = {
        "s": value or b"",
        "S": b"%d" % (-1 if value is None else len(value)),
        "R": struct.pack(">i", -1 if value is None else len(value)),
        "k": key or b"",
        "K": b"%d" % (-1 if key is None else len(key)),
        "T": b"%d" % (T0 + number),
        "h": b",".join(name.encode() + b"=" + (b"NULL" if data is None else data) for name, data in headers),
        "t": b"words",
        "p": b"%d" % partition,
        "o": b"%d" % number,
    }
    return shown[token]


def test_every_token_on_a_thousand_records(logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    tokens = "sSRkKThtpo"
    format_text = "".join(f"{token}=%{token}|" for token in tokens) + "100%%\\n\\r\\t\\x41\\x7a\\065\\q\\\\"
    out = printed(capfdbinary, logs, "-t", "words", "-p", 0, "-f", format_text)
    wanted = b"".join(
        b"".join(token.encode() + b"=" + by_hand(token, 0, number) + b"|" for token in tokens) + b"100%\n\r\tAz5q\\"
        for number in range(COUNT)
    )
    assert out == wanted


@pytest.mark.parametrize(
    ("options", "pieces"),
    [
        (["-C"], "s\n"),
        (["-C", "-e", "-q", "-u"], "s\n"),
        (["-D", ";"], "s;"),
        (["-D", "\\x00\\t"], "s\0\t"),
        (["-K", ":"], "k:s\n"),
        (["-K", "\\t", "-D", "\\x21"], "k\ts!"),
        (["-f", "%s"], "s"),
    ],
)
def test_delimiters(logs: Path, options: list[str], pieces: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    out = printed(capfdbinary, logs, "-t", "words", "-p", 0, *options)
    line = [by_hand(piece, 0, 0) if piece in "sk" else piece.encode() for piece in pieces]
    assert out.startswith(b"".join(line))
    assert out == b"".join(
        b"".join(by_hand(piece, 0, number) if piece in "sk" else piece.encode() for piece in pieces)
        for number in range(COUNT)
    )


def test_null_is_said_for_null_and_for_empty(logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    out = printed(capfdbinary, logs, "-t", "words", "-p", 0, "-Z", "-f", "%k %s|")
    assert out == b"".join(
        (by_hand("k", 0, number) or b"NULL") + b" " + (by_hand("s", 0, number) or b"NULL") + b"|"
        for number in range(COUNT)
    )


def test_the_envelope(logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lines = printed(capfdbinary, logs, "-t", "words", "-p", 0, "-J").decode().splitlines()
    assert len(lines) == COUNT
    for number, line in enumerate(lines):
        key, value, headers = _texts(number)
        found = json.loads(line)
        names = ["topic", "partition", "offset", "tstype", "ts", "broker", *(["headers"] if headers else []), "key",
                 "payload"]  # fmt: skip
        assert [name for name in found if not name.endswith("_b64")] == names
        assert (found["topic"], found["partition"], found["offset"]) == ("words", 0, number)
        assert (found["tstype"], found["ts"], found["broker"]) == ("create", T0 + number, -1)
        if headers:
            flat = [word for name, data in headers for word in (name, None if data is None else data.decode())]
            assert found["headers"] == flat
        assert found["key"] == (None if key is None else key.decode())
        try:
            assert found["payload"] == (None if value is None else value.decode())
        except UnicodeDecodeError:
            assert found["payload"] is None
            assert "payload_b64" in found


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["-o", "beginning"], range(COUNT)),
        (["-o", "end"], range(0)),
        (["-o", "0"], range(COUNT)),
        (["-o", "990"], range(990, COUNT)),
        (["-o", "-5"], range(COUNT - 5, COUNT)),
        (["-o", "-5000"], range(COUNT)),
        (["-o", f"s@{T0 + 700}"], range(700, COUNT)),
        (["-o", f"s@{T0 + 5000}"], range(0)),
        (["-o", f"e@{T0 + 30}"], range(30)),
        (["-o", f"s@{T0 + 20}", "-o", f"e@{T0 + 30}"], range(20, 30)),
        (["-o", "5", "-c", "3"], range(5, 8)),
        (["-o", "-5", "-e", "-c", "100"], range(COUNT - 5, COUNT)),
        (["--offset", "17"], range(17, 18)),
        (["--since", str(T0 + 998)], range(998, COUNT)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_where_it_begins_and_ends(
    logs: Path, options: list[str], offsets: range, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = printed(capfdbinary, logs, "-t", "words", "-p", 0, "-f", "%o\\n", *options)
    assert out.split() == [b"%d" % offset for offset in offsets]


def test_stored_is_what_the_group_has_committed(logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    library.commit_offsets(logs, "readers", {("words", 0): 995, ("words", 1): 7}, timestamp=T0)
    for options in (["-G", "readers"], ["-G", "readers", "-o", "stored"]):
        out = printed(capfdbinary, logs, "-t", "words", "-f", "%p:%o ", *options)
        assert out.split() == [*(b"0:%d" % n for n in range(995, COUNT)), *(b"1:%d" % n for n in range(7, 10))]
    nobody = kafkalog("dump", logs, "-t", "words", "-G", "raeders")
    assert nobody.code == 1
    assert "nothing is known of group 'raeders': __consumer_offsets-8, where" in nobody.err  # another broker's, maybe
    assert "; did you mean 'readers'?" in nobody.err
    alone = kafkalog("dump", logs / "words-0", "-G", "readers")
    assert alone.code == 64
    assert "__consumer_offsets" in alone.err


@pytest.mark.parametrize(
    ("pattern", "data", "wanted"),
    [
        ("b", b"\xff", b"-1"), ("B", b"\xff", b"255"), (">h", b"\xff\xfe", b"-2"), ("H", b"\x01\x00", b"256"),
        ("<h", b"\xfe\xff", b"-2"), ("i", b"\0\0\1\0", b"256"), ("<I", b"\0\0\0\x80", b"2147483648"),
        ("q", struct.pack(">q", -7), b"-7"), ("<Q", struct.pack("<Q", 2**64 - 1), b"18446744073709551615"),
        ("c c", b"ab", b"a b"), ("bs", b"\x05rest", b"5rest"), ("b$", b"\x05", b"5"), ("b", b"\x05\x06", b"5"),
    ],
)  # fmt: skip
def test_serdes(
    tmp_path: Path, pattern: str, data: bytes, wanted: bytes, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with library.Log.open(tmp_path / "n-0") as log:
        log.append([library.NewRecord(value=data, key=data, timestamp=T0)])
    for option, shown in ((pattern, b"%b %b"), (f"key={pattern}", b"%b " + data), (f"value={pattern}", data + b" %b")):
        out = printed(capfdbinary, tmp_path / "n-0", "-f", "%k %s", "-s", option)
        assert out == shown.replace(b"%b", wanted)


@pytest.mark.parametrize(("pattern", "why"), [
    ("i", "value truncated, expected 4 bytes to unpack i but only 2 bytes remaining"),
    ("b$", "expected value end-of-input, but 1 bytes remaining"),
])  # fmt: skip
def test_a_record_that_serdes_do_not_fit_is_left_out_and_said(tmp_path: Path, pattern: str, why: str) -> None:
    with library.Log.open(tmp_path / "n-0") as log:
        log.append([library.NewRecord(value=b"\1\2", timestamp=T0), library.NewRecord(value=b"", timestamp=T0)])
    finished = kafkalog("dump", tmp_path / "n-0", "-f", "%o=%s;", "-s", f"value={pattern}")
    assert finished.out == "1=;"
    assert finished.code == 1
    assert finished.err == f"kafkalog: n [0] at offset 0 is left out: {why}\n"


@pytest.mark.parametrize(("options", "why"), [
    (["-b", "host:9092"], "-b: kafkalog contacts no broker"),
    (["-X", "a=b"], "-X: it sets a property of a client"),
    (["-F", "kcat.conf"], "-F: it names a client's configuration"),
    (["-L"], "-L: kafkalog ls"),
    (["-Q"], "-Q: kafkalog find"),
    (["-P"], "-P: nothing is produced here"),
    (["-M", "3"], "-M: kafkalog simulates no cluster"),
    (["-r", "url"], "-r: kafkalog contacts no schema registry"),
    (["-O"], "%o in -f prints the offset"),
    (["-s", "avro"], "-s avro needs a schema registry"),
    (["-s", "x"], "has 'x', which is not one of"),
    (["-s", ""], "has no letters"),
    (["-s", "key="], "'key=' has no letters"),
    (["-s", "b" * 2000], "has more than 1000 letters"),
    (["-o", "stored"], "-o stored needs -G GROUP"),
    (["-o", "soon"], "-o 'soon' is not one of"),
    (["-o", "9" * 30], "is not one of"),
    (["-o", "s@"], "is not one of"),
    (["-o", "1", "-o", "2"], "says twice where to begin"),
    (["-o", "e@1", "-o", "e@2"], "-o e@ is given twice"),
    (["-o", "5", "-G", "g"], "-G has no effect with a -o that is not stored"),
    (["-o", "5", "--start-offset", "5"], "-o has no effect with --start-offset"),
    (["-f", "%x"], "the format has %x, which kcat does not know"),
    (["-f", "100%"], "the format ends in %"),
    (["-f", "%s" * 200], f"more than {MOST_PARTS} parts"),
    (["-f", "%s%" * 35_000], f"more than {MOST_PARTS} parts"),
    (["-D", "\\x"], "has \\x without a hexadecimal number"),
    (["-J", "-f", "%s"], "-f has no effect with -J"),
    (["-J", "-s", "i"], "-s has no effect with -J"),
    (["-f", "%s", "-K", ":"], "-K has no effect with -f"),
    (["-J", "--json"], "--json has no effect for what kcat prints"),
    (["-C", "--batches"], "--batches has no effect for what kcat prints"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(logs: Path, options: list[str], why: str) -> None:
    finished = kafkalog("dump", logs, *options)
    assert finished.code == 64
    assert finished.out == "" or (finished.objects[0]["exit_code"] == 64 and "--json" in options)
    assert why in finished.err
    assert finished.err.count("\n") == 1


def test_a_format_of_a_megabyte_is_text(logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    out = printed(capfdbinary, logs, "-p", 0, "-c", 2, "-f", "x" * 100_000)
    assert out == b"x" * 200_000
    parsed = KcatFormat.parse("\\n" * 500_000)
    assert parsed.parts == (b"\n" * 500_000,)


RECORD = Record(5, T0, TimestampType.CREATE_TIME, b"k\x1b[2J", b"v")


@examples(300)
@given(st.text(max_size=40) | st.text("%\\xskKo0189af ", max_size=30))
def test_any_format_prints_or_is_refused(text: str) -> None:
    try:
        parsed = KcatFormat.parse(text)
    except UsageError:
        assert "%" in text
        return
    assert isinstance(parsed.of("t", 0, RECORD), bytes)


def test_a_terminal_is_not_steered() -> None:
    assert KcatFormat.parse("%k\n", for_people=True).of("t", 0, RECORD) == b"k\\x1b[2J\n"
    assert KcatFormat.parse("%k\n").of("t", 0, RECORD) == b"k\x1b[2J\n"
