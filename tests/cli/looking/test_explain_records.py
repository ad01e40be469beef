"""`explain --records`: the records of a damaged batch that decode before the damage, and that nothing else gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog import open_partition
from kafkalog.codec.compression import compress
from kafkalog.codec.model import Codec
from testkit.made.batches import batch, record, simple
from testkit.running.command import kafkalog

COUNT = 40
RECORDS = [record(number, b"key-%d" % number, b"%d" % number * 30, timestamp_delta=number) for number in range(COUNT)]
codecs = pytest.mark.parametrize("codec", list(Codec), ids=lambda each: each.label)


def log_of(tmp_path: Path, data: bytes) -> Path:
    directory = tmp_path / "made-0"
    directory.mkdir(parents=True)
    log = directory / f"{0:020d}.log"
    log.write_bytes(data)
    return log


def poisoned(codec: Codec) -> bytes:
    """Forty records from offset 3 on, whose last bytes are none that can be read, under a right checksum."""
    payload = compress(codec, b"".join(RECORDS))
    return batch(payload[:-30] + b"\xff" * 30, COUNT, base_offset=3, attributes=codec, base_timestamp=1000,
                 max_timestamp=1000 + COUNT - 1)  # fmt: skip


def records_of(log: Path, *place: object, code: int = 1) -> tuple[str, list[dict[str, object]]]:
    finished = kafkalog("explain", "--records", *place, log, "--json")
    assert (finished.code, finished.err) == (code, "")
    told, *lines = finished.objects
    assert told["kind"] == "records"
    assert {line["kind"] for line in lines} <= {"record"}
    return str(told["remark"]), lines


@codecs
def test_of_a_batch_that_stops_consumers(codec: Codec, tmp_path: Path) -> None:
    log = log_of(tmp_path, simple(3) + poisoned(codec) + simple(2, 3 + COUNT))
    remark, lines = records_of(log, "--offset", 3)
    assert remark.startswith(f"{len(lines)} of {COUNT} records of a damaged batch; the last of them may be damaged too")
    wanted = [(3 + number, 1000 + number, f"key-{number}", f"{number}" * 30) for number in range(COUNT)]
    whole = [(each["offset"], each["timestamp"], each["key"], each["value"]) for each in lines]
    assert all(each["is_of_damaged_batch"] for each in lines)
    assert whole[: max(len(whole) - 1, 0)] == wanted[: max(len(whole) - 1, 0)]
    if codec is not Codec.ZSTD:  # whose blocks come whole or not at all
        assert len(lines) >= COUNT // 2
    text = kafkalog("explain", "--records", log, "--position", len(simple(3)))
    assert text.code == 1
    assert len(text.lines) == 1 + len(lines)
    assert text.lines[0].startswith(f"{log}, damaged, batch of magic 2 at byte {len(simple(3))}, ")
    if codec is not Codec.NONE:  # of which consumers get those before the fault anyway
        readable = {each.offset for each in open_partition(log.parent).records(on_damage="stop")}
        assert readable.isdisjoint(range(3, 3 + COUNT)), "no reader gives them"


@codecs
def test_of_a_torn_batch(codec: Codec, tmp_path: Path) -> None:
    torn = batch(compress(codec, b"".join(RECORDS)), COUNT, base_offset=3, attributes=codec)[:-20]
    remark, lines = records_of(log_of(tmp_path, simple(3) + torn))
    assert remark == (
        f"{len(lines)} of {COUNT} records of a damaged batch; the batch is torn, so that no checksum vouches for them"
    )
    assert [each["value"] for each in lines] == [f"{number}" * 30 for number in range(len(lines))]
    if codec is Codec.NONE:
        assert len(lines) == COUNT - 1


def test_of_a_wrong_checksum_what_decodes_is_unproven(tmp_path: Path) -> None:
    hurt = bytearray(batch(b"".join(RECORDS), COUNT, base_offset=3))
    place = bytes(hurt).index(b"7" * 30)
    hurt[place] = ord("x")
    remark, lines = records_of(log_of(tmp_path, simple(3) + bytes(hurt)))
    assert remark == (
        f"{COUNT} of {COUNT} records of a damaged batch; unproven: the checksum does not fit, and any of them may be "
        "what is damaged"
    )
    values = [f"{number}" * 30 for number in range(COUNT)]
    values[7] = "x" + "7" * 29
    assert [each["value"] for each in lines] == values
    assert all(each["is_of_damaged_batch"] for each in lines)
    hurt[bytes(hurt).index(b"key-7") - 1] = 0x7F  # the length of a key, which is then longer than its record
    remark, lines = records_of(log_of(tmp_path / "again", simple(3) + bytes(hurt)))
    assert len(lines) == 7
    assert remark.startswith(f"{len(lines)} of {COUNT} records of a damaged batch; unproven: ")


@pytest.mark.parametrize("cut", [0, 20], ids=["whole", "torn"])
def test_a_damaged_batch_of_more_fields_than_are_shown_has_all_its_records(cut: int, tmp_path: Path) -> None:
    hurt = bytearray(batch(b"".join(RECORDS), COUNT, base_offset=3))
    hurt[bytes(hurt).index(b"7" * 30)] = ord("x")
    log = log_of(tmp_path, simple(3) + bytes(hurt[: len(hurt) - cut]))
    remark, lines = records_of(log, "--max-fields", 20)
    decoded = COUNT - 1 if cut else COUNT
    why = "the batch is torn" if cut else "unproven: the checksum does not fit"
    assert len(lines) == decoded
    assert remark.startswith(f"{decoded} of {COUNT} records of a damaged batch; {why}")
    place = f"batch of magic 2 at byte {len(simple(3))}, {len(hurt) - cut} bytes"
    assert place in kafkalog("explain", log, "--max-fields", 20).out


@pytest.mark.parametrize("codec", [each for each in Codec if each is not Codec.NONE], ids=lambda each: each.label)
def test_of_a_wrong_checksum_over_compressed_records_nothing_is_told(codec: Codec, tmp_path: Path) -> None:
    hurt = bytearray(batch(compress(codec, b"".join(RECORDS)), COUNT, base_offset=3, attributes=codec))
    hurt[-3:] = bytes(each ^ 0xA5 for each in hurt[-3:])
    assert records_of(log_of(tmp_path, simple(3) + bytes(hurt))) == (
        "no record can be told: the checksum does not fit, and nothing tells which of its bytes are right", [],
    )  # fmt: skip


def test_of_a_header_that_is_cut(tmp_path: Path) -> None:
    sound = simple(3)
    (tmp_path / "other").mkdir()
    remark, lines = records_of(log_of(tmp_path / "other", sound + simple(3, 3)[:60]))
    assert (remark, lines) == ("no record can be told: no whole header of a batch of magic 2 is there", [])


def test_of_a_sound_batch_it_is_all(tmp_path: Path) -> None:
    remark, lines = records_of(log_of(tmp_path, simple(3)), "--offset", 1, code=0)
    assert (remark, len(lines)) == ("all 3 records of the batch", 3)
    assert not any(each["is_of_damaged_batch"] for each in lines)


def test_a_file_without_batches_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    finished = kafkalog("explain", "--records", tmp_path / "meta.properties")
    assert finished.code == 64
    assert "has no batches, and no records" in finished.err
