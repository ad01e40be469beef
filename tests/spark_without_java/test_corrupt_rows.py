"""The row of a batch that cannot be opened: the offsets that it stands for are its own, and no good record's."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.encode.batch import build_batch
from kafkalog.codec.encode.message import build_messages
from kafkalog.codec.model import NO_END, Codec, Record, TimestampType
from kafkalog.log import open_partition
from kafkalog.spark.options import parse_options
from kafkalog.spark.reader import LogReader
from kafkalog.spark.schema import full_schema, layout_of
from testkit.judging.executions import choose_execution
from testkit.made import damage

FIVE = 5


def batch(first: int, codec: Codec) -> bytes:
    records = [Record(first + n, 1000, TimestampType.CREATE_TIME, None, b"v" * 50) for n in range(FIVE)]
    return build_batch(records, codec=codec)


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """All rows of a partition, with `bad` as the column of corrupt records."""
    options = parse_options({"path": str(directory), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"})
    reader = LogReader(options, layout_of(full_schema(options).add("bad", "string"), options))
    return [row for task in reader.partitions() for part in reader.read(task) for row in part.to_pylist()]


def broken(data: bytes, kind: str) -> bytes:
    """A batch whose records cannot be opened under a right checksum, or its last one, or whose checksum is wrong."""
    if kind == "last record":
        return damage.with_crc(data[:-8] + b"\xff" * 8)
    changed = data[:70] + bytes(each ^ 0xFF for each in data[70:80]) + data[80:]
    return changed if kind == "checksum" else damage.with_crc(changed)


CASES = [*product((Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY), ("checksum", "insides"))]


@pytest.mark.parametrize(("codec", "kind"), [*CASES, (Codec.NONE, "checksum"), (Codec.NONE, "last record")])
def test_it_has_the_first_offset_that_is_lost(codec: Codec, kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    log = batch(0, codec) + broken(batch(FIVE, codec), kind) + batch(2 * FIVE, codec)
    (directory / f"{0:020}.log").write_bytes(log)
    rows = rows_of(directory)
    (bad,) = [each for each in rows if each["bad"] is not None]
    good = [each["offset"] for each in rows if each["bad"] is None]
    assert {*range(FIVE), *range(2 * FIVE, 3 * FIVE)} <= set(good)
    assert bad["offset"] not in good
    assert FIVE <= bad["offset"] < 2 * FIVE
    told = json.loads(bad["bad"])
    assert told["offset"] == bad["offset"]
    assert told.get("last_offset", 2 * FIVE - 1) == 2 * FIVE - 1
    failing = parse_options({"path": str(directory)})
    plain = LogReader(failing, layout_of(full_schema(failing), failing))
    with pytest.raises(FormatError, match=rf"\(offset {bad['offset']}\)"):
        _ = [part for task in plain.partitions() for part in plain.read(task)]


@pytest.mark.filterwarnings("ignore:.*offset_displaced", "ignore:.*offset_below_segment")
@pytest.mark.parametrize("enough_bytes", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_behind_the_highest_offset_it_has_that_one(
    enough_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough_bytes)
    directory = tmp_path / "t-0"
    directory.mkdir()
    wrapper = build_messages([Record(0, -1, TimestampType.CREATE_TIME, None, b"v")], magic=0, codec=Codec.GZIP)
    highest = NO_END.to_bytes(8, "big") + wrapper[8:]  # no checksum covers it
    (directory / f"{NO_END - 9:020}.log").write_bytes(highest)
    (directory / f"{NO_END - 5:020}.log").write_bytes(broken(batch(NO_END - 5, Codec.NONE), "last record"))
    rows = rows_of(directory)
    *_, bad = [each for each in rows if each["bad"] is not None]
    assert bad["offset"] == json.loads(bad["bad"])["offset"] == NO_END


@pytest.mark.parametrize("enough_bytes", [pytest.param(0, marks=pytest.mark.compiled), 1 << 62])
def test_behind_an_offset_above_its_segment_it_has_its_own(
    enough_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_execution(monkeypatch, enough_bytes)
    directory = tmp_path / "t-0"
    directory.mkdir()
    wrapper = build_messages([Record(0, -1, TimestampType.CREATE_TIME, None, b"v")], magic=0, codec=Codec.GZIP)
    (directory / f"{0:020}.log").write_bytes(NO_END.to_bytes(8, "big") + wrapper[8:])  # no checksum covers it
    (directory / f"{10:020}.log").write_bytes(broken(batch(10, Codec.NONE), "last record"))
    rows = rows_of(directory)
    above, bad = [each for each in rows if each["bad"] is not None]
    assert above["offset"] == json.loads(above["bad"])["offset"] == 0
    assert bad["offset"] == json.loads(bad["bad"])["offset"] == 14
    good = [each["offset"] for each in rows if each["bad"] is None]
    given = [record.offset for record in open_partition(directory).records(on_damage="skip")]
    assert good == given == [*range(10, 14)]  # the batch above the segment's offsets hides none


def test_batches_beyond_the_next_segment_have_rows_with_offsets_of_their_own(tmp_path: Path) -> None:
    """A segment's file was copied under an earlier name: its batches have offsets of the next segment."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    copied = [batch(FIVE + 1 + number * FIVE, Codec.NONE) for number in range(3)]
    (directory / f"{0:020}.log").write_bytes(batch(0, Codec.NONE))
    for base in (FIVE, FIVE + 1):
        (directory / f"{base:020}.log").write_bytes(b"".join(copied))
    rows = rows_of(directory)
    bad = [each["offset"] for each in rows if each["bad"] is not None]
    assert len(bad) > 1
    assert bad == sorted(set(bad))
