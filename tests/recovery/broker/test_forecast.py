"""What the next start makes of a directory: from the recovery point that is left there, and to its very end."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.compression.specs import Codec
from kafkalog.codec.files.index_files import encode_producer_snapshot
from kafkalog.codec.model import ProducerEntry
from kafkalog.codec.names import FileKind, segment_file
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.recovery.broker.manager import BrokerResult, load_log_directory
from kafkalog.recovery.facts.survey import survey
from testkit.judging.trees import stamps
from testkit.made.batches import batch, record, records_batch

DAY = 86_400_000
NOW = 1_700_000_000_000
TRANSACTIONAL = 1 << 4


def of_producer(offset: int, producer_id: int, time: int = NOW, attributes: int = 0) -> bytes:
    return batch(
        record(), 1, base_offset=offset, attributes=attributes, base_timestamp=time, max_timestamp=time,
        producer_id=producer_id, producer_epoch=0, base_sequence=0,
    )  # fmt: skip


def plain(offset: int) -> bytes:
    return records_batch(record(), base_offset=offset)


def log_dir(root: Path, logs: dict[int, bytes], point: int = 0, start: int | None = None) -> Path:
    partition = root / "t-0"
    partition.mkdir(parents=True)
    for base, data in logs.items():
        (partition / segment_file(base, FileKind.LOG)).write_bytes(data)
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            (partition / segment_file(base, kind)).touch()
    (partition / "partition.metadata").write_text("version: 0\ntopic_id: EY8sFxa5y9ipvMtiaRixAA")
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {point}\n")
    if start is not None:
        (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    return partition


def started(root: Path, now_ms: int) -> BrokerResult:
    with survey(str(root)) as found:
        return load_log_directory(found.tree(), settings=lambda topic: LogSettings(), now_ms=now_ms)


LOGS = {
    "producers that expired": {0: of_producer(0, 1) + of_producer(1, 2), 2: of_producer(2, 3)},
    "a batch beyond its segment": {77: of_producer(83, 1), 82: of_producer(84, 2)},
    "many segments": {number: of_producer(number, number) for number in range(5)},
    "offsets that go back": {0: plain(0) + plain(5) + plain(2), 6: plain(6)},
    "one producer that went on": {0: of_producer(0, 1), 1: of_producer(1, 2), 2: of_producer(2, 1, NOW + 9 * DAY)},
}


@pytest.mark.parametrize("days", [0, 2, 10])
@pytest.mark.parametrize("what", LOGS)
def test_the_next_start_changes_nothing_from_the_recovery_point_that_is_left(
    what: str, days: int, tmp_path: Path
) -> None:
    """A start scans from the recovery point, and takes producers before it from a snapshot, but for those expired."""
    root, at = tmp_path / "data", NOW + days * DAY
    log_dir(root, LOGS[what])
    kafkalog.recover(kafkalog.Recovery(at=at, accept_loss=True), root)
    before = stamps(root)
    result = started(root, at)
    assert result.outcome == "loaded"
    assert {path: len(result.tree.read(path)) for path in result.tree.files if path.startswith("t-0/")} == {
        str(each.relative_to(root)): each.stat().st_size for each in (root / "t-0").iterdir()
    }
    for path in result.tree.files:
        if path.startswith("t-0/"):
            assert result.tree.read(path) == (root / path).read_bytes(), path
    assert kafkalog.recover(kafkalog.Recovery(at=at), root)[0].run_id is None
    assert stamps(root) == before


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("opened", [0, 1])
def test_a_start_reads_on_into_the_next_segment(gap: int, opened: int, tmp_path: Path) -> None:
    """`LocalLog.read`: where the segment of the first open transaction has nothing left, the one after it is read."""
    root = tmp_path / "data"
    second = bytearray(plain(3 + gap) + plain(4 + gap))
    struct.pack_into(">i", second, 8, 1)  # the size of its first batch, which lies below the recovery point
    first = of_producer(0, 7, attributes=TRANSACTIONAL) + plain(1) + plain(2)
    logs = {0: first, 3 + gap: bytes(second), 9: plain(9)}
    partition = log_dir(root, logs, point=10, start=3 + (1 if gap else 0))
    entry = ProducerEntry(7, 0, 0, 0, 0, NOW, -1, opened)
    (partition / segment_file(9, FileKind.PRODUCER_SNAPSHOT)).write_bytes(encode_producer_snapshot([entry]))
    result = started(root, NOW)
    assert (result.outcome, (result.exception or "").rpartition(".")[2]) == ("start_fails", "CorruptRecordException")
    plan = kafkalog.plan(kafkalog.Recovery(mode="kafka", at=NOW), root)[0]
    assert plan.broker.outcome == "start_fails"
    kafkalog.recover(kafkalog.Recovery(at=NOW, accept_loss=True), root)
    assert started(root, NOW).outcome == "loaded"


def test_a_start_ends_where_a_transaction_is_open_beyond_the_log(tmp_path: Path) -> None:
    partition = log_dir(tmp_path / "data", {0: plain(0), 1: plain(1)}, point=2)
    entry = ProducerEntry(7, 0, 0, 0, 0, NOW, -1, 1 << 40)
    (partition / segment_file(1, FileKind.PRODUCER_SNAPSHOT)).write_bytes(encode_producer_snapshot([entry]))
    result = started(tmp_path / "data", NOW)
    assert (result.exception or "").endswith("OffsetOutOfRangeException")


@pytest.mark.parametrize(
    ("unreadable", "codec"), [(0, Codec.NONE), (1, Codec.NONE), (2, Codec.NONE), (1, Codec.ZSTD), (2, Codec.GZIP)]
)
def test_what_is_recommended_is_what_its_command_does(unreadable: int, codec: Codec, tmp_path: Path) -> None:
    """Salvage looks inside batches, and so does who measures what it would leave."""
    damaged = bytearray(plain(1))
    damaged[-3:] = bytes(each ^ 0x55 for each in damaged[-3:])  # more than flipped bits that a checksum can prove
    poison = b"".join(
        batch(
            b"\xff" * 40, 2, base_offset=3 + 2 * number, base_timestamp=NOW, max_timestamp=NOW, attributes=codec
        )
        for number in range(unreadable)
    )
    after = 3 + 2 * unreadable
    root = tmp_path / "data"
    log_dir(root, {0: plain(0) + bytes(damaged) + plain(2) + poison + plain(after) + plain(after + 1)})
    plan = kafkalog.plan(kafkalog.Recovery(at=NOW), root)[0]
    recommended = plan.choice.recommended
    assert recommended is not None
    assert recommended.how is not None
    assert recommended.how.mode == "salvage"
    measured = recommended.measured
    lost = measured.sound_lost, measured.unopened_lost
    assert lost == ((2 * unreadable, 0) if codec is Codec.NONE else (0, 2 * unreadable))
    assert measured.records_kept == 4
    assert recommended.needs_consent is (unreadable > 0)
    done = kafkalog.recover(kafkalog.Recovery(mode="salvage", at=NOW, accept_loss=recommended.needs_consent), root)[0]
    assert done.run_id is not None
    assert [each.offset for each in kafkalog.open(root)["t", 0].records()] == [0, 2, after, after + 1]
