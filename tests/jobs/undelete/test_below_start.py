"""Records that a broker deleted (`DeleteRecords`) and that still lie in live segments are listed and can be printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.jobs.undelete.listing import deleted
from kafkalog.jobs.undelete.remains import RemainsKind
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

TOPIC, NAME, START = "invoices-25", "invoices-25-0", 97
"""a recorded partition in which Kafka 4.1.1 deleted the records below 97, in the middle of a batch"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_case("4.1.1", "segments").unpack(tmp_path) / "broker-12"


def on_disk(data: Path) -> dict[int, bytes | None]:
    """Offset -> value of every record in the live files, whatever the log start is."""
    found = {}
    for log in sorted((data / NAME).glob("*.log")):
        for batch in Scanner(BufferSource(log.read_bytes())):
            found.update({each.offset: each.value for each in decode_batch(batch).records})
    return found


def test_they_are_listed_with_their_offsets_and_why_they_stay_deleted(data: Path) -> None:
    gone = sorted(offset for offset in on_disk(data) if offset < START)
    assert gone
    (found,) = (each for each in deleted(data, topic=TOPIC) if each.kind is RemainsKind.BELOW_START)
    assert (found.first_offset, found.last_offset, found.records) == (gone[0], START - 1, len(gone))
    assert found.why_not is not None
    assert found.deleted_ms is None
    ended = kafkalog("undelete", "--topic", TOPIC, "--list", data)
    assert ended.code == 0
    assert "deleted records" in ended.out
    assert f"the log starts at {START} by the checkpoint of the only replica" in " ".join(ended.out.split())
    assert "no deleted data" not in ended.out
    (line,) = kafkalog("undelete", "--json", data).objects
    assert {each["topic"] for each in line["remains"] if each["kind"] == "deleted records"} == {TOPIC}
    assert kafkalog("undelete", "--json", "--partition", 7, data).objects[0]["remains"] == []


def test_dump_prints_them_and_nothing_that_lives(data: Path) -> None:
    all_records = on_disk(data)
    found = kafkalog("dump", "--json", "--deleted", "--topic", TOPIC, data).objects
    values = {each["offset"]: each["value"] for each in found}
    assert values == {
        offset: None if value is None else value.decode() for offset, value in all_records.items() if offset < START
    }
    assert not values.keys() & {each["offset"] for each in kafkalog("dump", "--json", "--topic", TOPIC, data).objects}
    last = kafkalog("dump", "--json", "--deleted", "--topic", TOPIC, "-o", -1, data).objects
    assert [each["offset"] for each in last] == [START - 1]
    assert kafkalog("dump", "--json", "--deleted", "--topic", TOPIC, "--offset", START, data).objects == []


def test_nothing_is_put_back(data: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
    ended = kafkalog("undelete", "--yes", "--topic", TOPIC, data)
    assert ended.code == 3
    assert {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()} == before


def test_damage_below_the_start_is_told(data: Path) -> None:
    log = min((data / NAME).glob("*.log"))
    raw = bytearray(log.read_bytes())
    raw[70] ^= 0xFF
    log.write_bytes(raw)
    (found,) = (each for each in deleted(data, topic=TOPIC) if each.kind is RemainsKind.BELOW_START)
    assert found.segments[0].damage is not None
    assert "is damaged" in kafkalog("undelete", "--list", "--topic", TOPIC, data).out


@pytest.mark.parametrize("content", [b"0\n1\n", b"0" * (9 << 20)], ids=["malformed", "too large"])
def test_a_checkpoint_that_no_broker_reads_hides_nothing_else(data: Path, content: bytes) -> None:
    (data / "log-start-offset-checkpoint").write_bytes(content)
    assert not [each for each in deleted(data, topic=TOPIC) if each.kind is RemainsKind.BELOW_START]
    assert kafkalog("undelete", "--list", data).code == 0


def test_of_several_replicas_or_an_unknown_number_the_others_are_named(data: Path) -> None:
    (data / "__cluster_metadata-0").rename(data.parent / "away")
    ended = kafkalog("undelete", "--topic", TOPIC, "--list", data)
    said = " ".join(ended.out.split())
    assert f"the log starts at {START} by the checkpoint, undelete moves no log start, and other replicas would" in said
