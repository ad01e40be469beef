"""Damage that stays in the log is said: in the table, in the plan and after a recovery."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog.recovery import Recovery, recover
from testkit.judging.trees import copy_tree
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import recovery_case
from testkit.recorded.quorums import flip
from testkit.running.command import kafkalog as command

SENTENCE = "1 damaged place remains in the log, and a consumer stops there"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Damage in a segment that was flushed before the crash, where nobody looks without --full."""
    root = recovery_case("undamaged/full-scan-plain").unpack_before(tmp_path / "logs")
    recover(Recovery(full=True), root)
    segment = kafkalog.open_partition(root / "t-0").segments[0]
    log = Path(segment.path)
    position = list(kafkalog.open_segment(log).batches())[1].position
    data = bytearray(log.read_bytes())
    data[position + 66] ^= 3
    data[position + 75] ^= 5
    log.write_bytes(data)
    return root


def test_it_is_said_where_nothing_changes(root: Path) -> None:
    planned = command("plan", root)
    assert planned.code == 1
    lines = planned.out.splitlines()
    assert f"with this plan {SENTENCE}; --full examines segments below the recovery point too" in lines
    title = next(line for line in lines if line.startswith("way "))
    column = title.index("damage left")
    left = {line.split()[0]: line[column : column + len("damage left")].strip()
            for line in lines if line.split()[:1] in (["safe"], ["salvage"], ["kafka"])}  # fmt: skip
    (line,) = command("plan", "--json", root).objects
    assert left == {way["way"]: str(way["damage_left"]) for way in line["ways"] if way["way"] in left}
    assert left == {"safe": "1", "salvage": "0", "kafka": "1"}


@pytest.mark.parametrize(("mode", "helps"), [("remote", True), ("strict", True), ("kafka", False)])
def test_full_is_named_for_the_modes_that_examine_more_with_it(mode: str, helps: bool, root: Path) -> None:
    for options in ((), ("--full",)):
        lines = command("plan", root, "--mode", mode, *options).out.splitlines()
        more = "; --full examines segments below the recovery point too" if helps else ""
        assert (f"with this plan {SENTENCE}{more}" in lines) == (not options or not helps)


def test_it_is_said_behind_a_recovery(root: Path) -> None:
    last = max(path for path in (root / "t-0").glob("*.log") if path.stat().st_size)
    last.write_bytes(last.read_bytes()[:-3])
    finished = command("recover", "--yes", root)
    assert finished.code == 2
    assert SENTENCE in finished.out.splitlines()


def test_there_is_no_such_column_where_none_stays(root: Path) -> None:
    planned = command("plan", "--full", root)
    assert "ways for" in planned.out
    assert "kafka" in planned.out
    typed = command("recover", "--full", "--mode", "salvage", "--yes", root)
    assert typed.code == 2
    assert SENTENCE not in typed.out
    assert "damage left" not in command("plan", "--full", root).out


def _cut_middle(tmp_path: Path, length: int) -> Path:
    """A recorded directory that was closed in order, of which a segment in the middle has lost its last bytes."""
    root = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    log = root / "trades-41-0" / f"{86:020d}.log"
    log.write_bytes(log.read_bytes()[:-length])
    return root


def test_a_consumer_goes_on_behind_a_batch_that_its_segment_cuts_short(tmp_path: Path) -> None:
    """Consumers of a real broker 4.1.0 that was started on these files got all records but that at offset 188."""
    root = _cut_middle(tmp_path, 20)
    before, after = "1 damaged place remains in the log, and a consumer", "goes on in the next segment"
    assert f"{before} {after}, without what is lost" in " ".join(command("plan", root).out.split())
    told = command("verify", root, "--all")
    assert f"a consumer {after} from here, 668 bytes before the end of the segment" in told.out + told.err
    log = root / "trades-41-0" / f"{86:020d}.log"
    log.write_bytes(log.read_bytes() + bytes(20))  # the batch is as long as its header says, and its checksum is wrong
    assert f"{before} stops there" in " ".join(command("plan", root).out.split())
    told = command("verify", root, "--all")
    assert "a consumer stops here" in told.out + told.err


def test_the_way_by_which_consumers_of_committed_data_get_more_is_recommended(tmp_path: Path) -> None:
    """Of a real broker 4.1.0, a consumer of committed data got 76 records after safe, to the last stable offset 206,
    and 70 after salvage, which stopped it at 165: the broker then finds a transaction without its lost end marker.
    """
    root = _cut_middle(tmp_path, 6000)
    (made,) = kafkalog.plan(root)
    ways = {way.way: way.measured for way in made.choice.ways}
    assert ways["safe"].records_lost == ways["salvage"].records_lost
    assert (ways["safe"].held_back, ways["salvage"].held_back) == (0, 211 - 165)
    assert made.choice.recommended is not None
    assert made.choice.recommended.way == "safe"
    told = " ".join(command("plan", root).out.split())
    assert "other ways stop consumers of committed data earlier, at a transaction whose end marker is lost" in told


def test_the_offset_at_which_consumers_of_committed_data_stop_is_on_the_first_screen(tmp_path: Path) -> None:
    root = _cut_middle(tmp_path, 6000)
    (root / ".kafka_cleanshutdown").unlink()
    checkpoint = root / "recovery-point-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("trades-41 0 211", "trades-41 0 0"))
    screen, _, _ = command("plan", root).out.partition("partitions that lose")
    stops = re.findall(r"read_committed consumers stop at offset (\d+) of trades-41-0", " ".join(screen.split()))
    assert stops


def test_a_segment_that_was_compressed_is_to_be_decompressed_first(tmp_path: Path) -> None:
    root = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    log = root / "trades-41-0" / f"{86:020d}.log"
    packed = log.with_name(f"{log.name}.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    flip(log, log.stat().st_size - 20)
    assert "first decompress" not in " ".join(command("plan", root).out.split()), "the log is there too"
    log.unlink()
    (made,) = kafkalog.plan(root)
    told = " ".join(command("plan", root).out.split())
    assert f"first decompress trades-41-0/{packed.name}, a segment, and ask again; else type this" in told
    assert made.choice.own.records_lost == 189 - 86
    log.write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    assert kafkalog.plan(root)[0].choice.own.records_lost == 0


def test_so_it_is_if_only_producer_snapshots_tell_which_transactions_had_ended(tmp_path: Path) -> None:
    root = copy_tree(brokers("4.1.1/txn")[0], tmp_path / "data")
    for path in root.glob("__transaction_state-*"):
        shutil.rmtree(path)
    log = root / "sensors-0-0" / f"{8:020}.log"
    log.write_bytes(gzip.compress(log.read_bytes()))
    (made,) = kafkalog.plan(root)
    ways = {way.way: way.measured for way in made.choice.ways}
    assert ways["safe"].records_lost == ways["salvage"].records_lost
    assert (ways["safe"].held_back, ways["salvage"].held_back) == (0, 105)
    assert made.choice.recommended is not None
    assert made.choice.recommended.way == "safe"
    (salvage,) = kafkalog.plan(Recovery(mode="salvage"), root)
    lost = [each.detail for each in salvage.consequences if each.kind == "marker_lost"]
    assert len(lost) == 3
    assert all(f"had ended by {105:020}.snapshot" in detail for detail in lost)
