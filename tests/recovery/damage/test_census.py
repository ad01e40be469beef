"""What is missing is counted beside damage too, and bits are turned back wherever they are."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog import Log, LogConfig
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery import Recovery, plan, recover
from kafkalog.recovery.damage.census import census
from kafkalog.recovery.facts.survey import survey
from kafkalog.words.ways import needs_of
from testkit.judging.executions import choose_execution
from testkit.judging.ways_taken import options_of
from testkit.made import batches
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog as command

RECORDS = 400


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One partition: 80 batches of five records in some seven segments, after a crash."""
    root = tmp_path / "logs"
    root.mkdir()
    with Log.open(root / "t-0", LogConfig(segment_bytes=4096)) as log:
        for first in range(0, RECORDS, 5):
            log.append([(b"k%d" % number, b"value %d " % number * 4) for number in range(first, first + 5)],
                       leader_epoch=0)  # fmt: skip
    (root / ".kafka_cleanshutdown").unlink()
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    return root


def logs(root: Path) -> list[Path]:
    return sorted((root / "t-0").glob("*.log"))


def starts(log: Path) -> list[int]:
    """Where its batches begin."""
    data, found, position = log.read_bytes(), [], 0
    while position < len(data):
        found.append(position)
        position += 12 + int(struct.unpack_from(">i", data, position + 8)[0])
    return found


def change(log: Path, position: int, with_bytes: bytes) -> None:
    data = bytearray(log.read_bytes())
    data[position : position + len(with_bytes)] = bytes(
        old ^ new for old, new in zip(data[position:], with_bytes, strict=False)
    )
    log.write_bytes(data)


def remove(log: Path) -> None:
    for path in sorted(log.parent.glob(f"{log.stem}.*")):
        path.unlink()


def last_batch(root: Path) -> None:
    change(logs(root)[2], starts(logs(root)[2])[-1] + 80, b"\x11\x07\x35\x02")


def middle_batch(root: Path) -> None:
    change(logs(root)[2], starts(logs(root)[2])[5] + 80, b"\x11\x07\x35\x02")


def base_offset(root: Path) -> None:
    change(logs(root)[0], starts(logs(root)[0])[4] + 7, b"\x01")


def lower_base_offset(root: Path) -> None:
    change(logs(root)[0], starts(logs(root)[0])[4] + 7, b"\x04")


@pytest.mark.parametrize("damage", [last_batch, middle_batch, base_offset, lower_base_offset])
def test_a_missing_segment_counts_beside_damage(damage: Callable[[Path], None], root: Path) -> None:
    damage(root)
    before = {record.offset for record in kafkalog.open_partition(root / "t-0").records(all=True)}
    gone = logs(root)[3]
    missing = int(logs(root)[4].stem) - int(gone.stem)
    remove(gone)
    made = plan(root)[0]
    assert FindingCode.SEGMENT_MISSING in [finding.code for finding in made.findings]
    best = made.choice.recommended
    assert best is not None
    assert not best.measured.is_exact
    result = recover(Recovery(**options_of(best)), root)[0]
    left = sum(1 for _ in kafkalog.open_partition(root / "t-0").records())
    assert left == result.plan.choice.own.records_kept
    assert result.plan.choice.own.records_lost == RECORDS - left
    assert result.plan.choice.own.records_lost >= missing
    assert len(before) <= RECORDS


def test_a_first_segment_that_is_gone_is_known_by_its_leader_epoch(root: Path) -> None:
    first = int(logs(root)[1].stem)
    remove(logs(root)[0])
    made = plan(root)[0]
    assert (made.choice.own.records_lost, made.choice.own.is_exact) == (first, False)
    assert command("plan", root).code == 1


def test_retention_is_no_loss(root: Path) -> None:
    """It cuts the leader epochs before it deletes; and of a tiered log the beginning is elsewhere."""
    first = int(logs(root)[1].stem)
    remove(logs(root)[0])
    epochs = root / "t-0" / "leader-epoch-checkpoint"
    before = epochs.read_text()
    epochs.write_text(f"0\n1\n0 {first}\n")
    assert plan(root)[0].choice.own.records_lost == 0
    epochs.write_text(before)
    (root / "remote-log-index-cache").mkdir()
    assert plan(root)[0].choice.own.records_lost == 0


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("at", [80, 18])
def test_a_bit_below_the_recovery_point_is_turned_back(at: int, is_clean: bool, root: Path) -> None:
    """Neither a broker nor `safe` looks there; the way that loses nothing is named all the same."""
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {RECORDS}\n")
    if is_clean:
        (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    log = logs(root)[2]
    change(log, starts(log)[3] + at, b"\x01")
    best = plan(root)[0].choice.recommended
    assert best is not None
    assert (str(best.way), needs_of(best)[0]) == ("repair_bits", "--full")
    assert (best.measured.records_lost, best.measured.damage_left) == (0, 0)
    assert command("recover", "--yes", *needs_of(best), root).code == 2
    assert [record.offset for record in kafkalog.open_partition(root / "t-0").records()] == list(range(RECORDS))


def test_damage_that_reaches_above_the_log_start_gives_no_offset_out_again(root: Path) -> None:
    """The last batch is damaged, and its header tells that the log went on above the log start offset."""
    log = logs(root)[-1]
    start = RECORDS - 3
    (root / "log-start-offset-checkpoint").write_text(f"0\n1\nt 0 {start}\n")
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {RECORDS - 5}\n")
    change(log, starts(log)[-1] + 80, b"\x11\x07\x35\x02")
    own = plan(root)[0].choice.own
    assert own.records_lost == 3
    recover(root)
    assert kafkalog.open(root).log_start_offsets.get(("t", 0), start) == start
    partition = kafkalog.open(root)["t", 0]
    assert (partition.log_start_offset, partition.log_end_offset()) == (start, start)


def test_damage_below_the_log_start_stops_no_consumer(root: Path) -> None:
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {RECORDS}\n")
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 300\n")
    log = logs(root)[2]
    change(log, starts(log)[3] + 80, b"\x11\x07\x35\x02")
    own = plan(root)[0].choice.own
    assert (own.damage_left, own.records_lost) == (0, 0)
    assert sum(1 for _ in kafkalog.open(root)["t", 0].records()) == RECORDS - 300


def without_trailing_zeros(partition: Path) -> tuple[int, int]:
    """Cut the zeros at the end of each segment, as copying by text tools does; return how many records and end markers
    of transactions were in the batches that are cut short.
    """
    records, markers = 0, 0
    for log in partition.glob("*.log"):
        data = log.read_bytes()
        with FileSource(str(log)) as source:
            last = list(Scanner(source))[-1].header
        if data.rstrip(b"\0") != data:
            log.write_bytes(data.rstrip(b"\0"))
            assert isinstance(last, BatchHeader)
            records += 0 if last.is_control else last.records_count
            markers += last.is_control
    return records, markers


@pytest.mark.parametrize("name", ["__consumer_offsets-1", "sensors-0-1"])
def test_end_markers_that_are_cut_short_are_no_records(name: str, tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    records, markers = without_trailing_zeros(root / name)
    assert markers
    measured = plan(root)[0].choice.own_by_partition[name]
    assert (measured.records_lost, measured.markers_damaged) == (records, markers)
    first_screen = " ".join(command("plan", root).out.split("\n\n")[0].split())
    assert (f"{name}: no record; an end marker of a transaction" in first_screen) is (records == 0)


def test_what_is_skipped_may_be_reached_from_a_batch_that_is_cut_short(tmp_path: Path) -> None:
    """A real 4.1.0 gave consumers 95 to 103 of a log that ended at 94: a fetch at 93 went on in the next segment."""
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    without_trailing_zeros(root / "sensors-0-0")
    told = " ".join(command("plan", "--all", root).out.split())
    assert "7 of them skipped" in told
    assert "above the log's end, which a consumer may reach from a batch that its segment cuts short" in told


@pytest.mark.compiled
@pytest.mark.parametrize("enough_bytes", [0, 1 << 62])
def test_a_batch_that_lost_records_shows_the_cleaner_in_either_way(
    enough_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    cleaned = batches.batch(batches.record(1), 1, last_offset_delta=1)  # offset 0 is gone
    first = cleaned + batches.simple(1, 2) + batches.simple(1, 6) + batches.simple(1, 7)
    (partition / f"{0:020}.log").write_bytes(first)
    (partition / f"{12:020}.log").write_bytes(batches.simple(2, 12))
    choose_execution(monkeypatch, enough_bytes)
    with survey(str(tmp_path)) as found:
        counted = census(found.tree(), ["t-0"], 0, is_uncleaned=True)
    assert counted.missing == []
