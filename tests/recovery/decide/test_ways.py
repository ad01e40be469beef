"""The ways that a plan compares: what each would keep is what it keeps when it is really carried out.

Every way of a part of the recorded cases in each run, of all in the sweep.  What is left is read by the record reader,
which decodes every record; the comparison counts by batch headers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import kafkalog
from kafkalog import RecoveryRefused, verify
from kafkalog.codec.encode import build_batch, build_end_transaction_marker
from kafkalog.codec.encode.batch import ProducerState
from kafkalog.codec.files.index_files import encode_producer_snapshot
from kafkalog.codec.model import (
    BATCH,
    ControlType,
    EndTransactionMarker,
    Record,
    TimestampType,
)
from kafkalog.codec.plain.scanner import scan
from kafkalog.recovery import Recovery, Undo, plan, recover, undo
from kafkalog.recovery.damage.bit_repair import Proof
from kafkalog.recovery.decide.losses import records_text
from kafkalog.recovery.decide.ways import RecoveryWay
from testkit.judging.counted_records import FAMILIES, readable_records, strays
from testkit.judging.trees import stamps
from testkit.judging.ways_taken import options_of
from testkit.made.tens import AT, flip, log_of_tens
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.fixture_data import RecoveryCase, recovery_case, recovery_cases
from testkit.recorded.recovery_settings import given
from testkit.running.command import kafkalog as kafkalog_command


@pytest.mark.parametrize("family", FAMILIES)
def test_ways_keep_what_they_say(family: str, tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    _carry_out(recovery_cases([family])[::10], tmp_path, compared)


@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
def test_every_way_of_every_case_keeps_what_it_says(
    family: str, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    _carry_out(recovery_cases([family]), tmp_path, compared)


def _carry_out(cases: Sequence[RecoveryCase], tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    wrong = []
    counts: dict[str, int] = {}
    for case in cases:
        before = case.unpack_before(tmp_path / "before")
        made = plan(Recovery(**given(case)), before)[0]
        for way in made.choice.ways:
            counts[way.way] = counts.get(way.way, 0) + 1
            wrong += _difference(case, way, before, tmp_path / "root", made.declined)
        shutil.rmtree(before)
    for name, count in counts.items():
        compared(f"ways carried out that kept what was said, {name}", count)
    assert wrong == []


@pytest.mark.parametrize("name", ["overflow/back-and-forth", "segment_set/segments-swapped"])
def test_what_lies_above_the_end_that_is_left_is_skipped(
    name: str, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    """A broker goes on below records that each way keeps."""
    _carry_out([recovery_case(name)], tmp_path, compared)


def _difference(
    case: RecoveryCase, way: RecoveryWay, before: Path, root: Path, declined: Mapping[str, str]
) -> list[str]:
    shutil.copytree(before, root, symlinks=True)
    try:
        known = strays(root)
        if way.measured.sound_lost and way.way != "kafka":
            _declines(case, way, root)
        try:
            recover(Recovery(**given(case), **options_of(way)), root)
        except RecoveryRefused as refused:
            said = way.measured.records_kept is None or str(refused) in declined.values()
            return [] if said else [f"{case.id} {way.way}: {refused}"]
        found = readable_records(root, known, _ends_of_kafka(case) if way.way == "kafka" else {})
        said_kept = way.measured.records_kept, way.measured.records_hidden
        if found != said_kept:
            return [f"{case.id} {way.way} {way.how}: {said_kept} said, {found} found"]
        return []
    finally:
        shutil.rmtree(root)
        shutil.rmtree(root.with_name(root.name + ".recovery"), ignore_errors=True)


def _ends_of_kafka(case: RecoveryCase) -> dict[str, int]:
    """Where Kafka itself went on after it had started on the directory."""
    started = case.case["result"].get("partitions") or {}  # null where it did not start
    return {name: int(found["log_end_offset"]) for name, found in started.items()}


def _declines(case: RecoveryCase, way: RecoveryWay, root: Path) -> None:
    """Without consent nothing is changed, and the refusal says what would be lost and how to go on."""
    untouched = stamps(root)
    with pytest.raises(RecoveryRefused, match="can still be read") as raised:
        recover(Recovery(**given(case), **{**options_of(way), "accept_loss": False}), root)
    assert raised.value.reason == "loss"
    assert f"this would drop {way.measured.sound_lost} record" in str(raised.value)
    assert stamps(root) == untouched
    assert not root.with_name(root.name + ".recovery").exists()


def test_the_recommended_way_loses_least(tmp_path: Path, compared: Callable[[str, int], None]) -> None:
    cases = [case for family in ("bit_flip", "not_under_crc", "random_mix") for case in recovery_cases([family])[::2]]
    for case in cases:
        before = case.unpack_before(tmp_path / "before")
        comparison = plan(Recovery(**given(case)), before)[0].choice
        best = comparison.recommended
        assert best is not None
        known = [way.measured for way in comparison.ways if way.measured.records_lost is not None]
        least = min((each.records_lost or 0) + each.records_hidden for each in known)
        assert (best.measured.records_lost or 0) + best.measured.records_hidden == least, case.id
        shutil.rmtree(before)
    compared("recommendations that lose least", len(cases))


def test_what_is_done_with_consent_can_be_undone(tmp_path: Path) -> None:
    case = recovery_case("not_under_crc/magic-3")
    root = case.unpack_before(tmp_path / "root")
    before = stamps(root)
    result = recover(Recovery(**given(case), accept_loss=True), root)[0]
    assert result.plan.choice.own.sound_lost == 75
    undo(Undo(run_ids=[result.run_id or ""]), root)
    assert stamps(root) == before


def test_another_copy_is_a_way(tmp_path: Path) -> None:
    """Two copies, damaged in different places, make a whole one; what `merge` then writes holds as much."""
    case = recovery_case("undamaged/clean-plain")
    root, copy = case.unpack_before(tmp_path / "root"), case.unpack_before(tmp_path / "copy")
    for directory, position in ((root, 400), (copy, 2000)):
        log = max(directory.glob("t-0/*.log"), key=lambda path: path.stat().st_size)
        data = bytearray(log.read_bytes())
        data[position : position + 3] = bytes(each ^ 0xA5 for each in data[position : position + 3])
        log.write_bytes(data)
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    choice = plan(Recovery(**given(case), full=True, copies=[copy]), root)[0].choice
    ways = {str(way.way): way for way in choice.ways}
    assert choice.recommended is ways["merge"]
    assert ways["merge"].measured.records_lost == 0
    assert (ways["salvage"].measured.records_lost or 0) > 0
    kafkalog.merge_replicas(root / "t-0", copy / "t-0", target=tmp_path / "merged")
    records = [record.offset for record in kafkalog.open_partition(tmp_path / "merged" / "t-0").records()]
    assert len(records) == ways["merge"].measured.records_kept


@pytest.mark.parametrize("known", [None, 260], ids=["nothing-knows-the-end", "checkpoints-know-the-end"])
def test_a_merge_with_a_copy_that_begins_behind_the_lost_end_loses_what_lies_between(
    known: int | None, tmp_path: Path
) -> None:
    """The topic is not compacted, so a producer wrote each offset from 180 to 224: they are in no file here."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "root")
    (root / ".kafka_cleanshutdown").unlink()
    log, copy = root / "orders-23-0", tmp_path / "copy" / "orders-23-0"
    shutil.copytree(log, copy)
    ends = [(log, "00000000000000000180"), (log, "00000000000000000225")]
    for directory, base in (*ends, (copy, "00000000000000000135"), (copy, "00000000000000000180")):
        for path in directory.glob(f"{base}.*"):
            path.unlink()
    if known is None:
        for path in (*root.glob("*-offset-checkpoint"), *log.glob("*.snapshot")):
            path.unlink()
    choice = plan(Recovery(copies=[copy]), root)[0].choice
    merge = next(way for way in choice.ways if str(way.way) == "merge")
    assert choice.recommended is merge
    assert (merge.measured.records_lost, merge.measured.is_exact) == (45, False)
    assert (merge.measured.lost[0].first, merge.measured.lost[0].last) == (180, 224)
    recover(Recovery(mode="merge", copies=[copy], accept_loss=True), root)
    kept = [record.offset for record in kafkalog.open_partition(log).records()]
    assert kept == [*range(135, 180), *range(225, 260)]


SOUND = recovery_case("undamaged/full-scan-plain")


def logs_of(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("t-0/*.log") if path.stat().st_size)


def test_segments_that_changed_their_names_can_still_be_read(tmp_path: Path) -> None:
    """Every checksum is right; only where the batches stand is wrong."""
    root = SOUND.unpack_before(tmp_path / "root")
    first, second = logs_of(root)[:2]
    count = len(list(kafkalog.open_segment(second).batches()))
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert count
    for mode in ("safe", "salvage"):
        with pytest.raises(RecoveryRefused, match="can still be read"):
            recover(Recovery(mode=mode, **given(SOUND)), root)


def test_offsets_between_two_segments_are_missed(tmp_path: Path) -> None:
    root = SOUND.unpack_before(tmp_path / "root")
    middle = logs_of(root)[1]
    missing = int(middle.stem), int(logs_of(root)[2].stem) - 1
    for path in root.glob(f"t-0/{middle.stem}.*"):
        path.unlink()
    own = plan(Recovery(**given(SOUND)), root)[0].choice.own
    assert [(each.first, each.last) for each in own.lost] == [missing]
    assert own.records_lost == missing[1] - missing[0] + 1
    assert not own.is_exact


def test_what_ends_below_the_high_watermark_is_lost(tmp_path: Path) -> None:
    root = SOUND.unpack_before(tmp_path / "root")
    last = logs_of(root)[-1]
    last.write_bytes(last.read_bytes()[:-3])
    end = max(batch.last_offset for batch in kafkalog.open_segment(last).batches()) + 1
    for ahead in (0, 40):
        (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {end + ahead}\n")
        own = plan(Recovery(**given(SOUND)), root)[0].choice.own
        lost = max(ahead, 1)  # the last batch's record: the snapshot beside the log was taken after it
        assert (own.records_lost, own.below_high_watermark) == (lost, True if ahead else None)
        further = [(end + lost, None)] if ahead else []  # a high watermark is noted every 5 s only
        assert [(each.first, each.last) for each in own.lost] == [(end, end + lost - 1), *further]


@pytest.mark.parametrize("closed", [True, False])
def test_the_high_watermark_of_a_broker_that_was_killed_is_a_lower_bound(closed: bool, tmp_path: Path) -> None:
    """A compacted log of 4000 records was gone after a kill, and the checkpoint named 2000 as the high watermark."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    if not closed:
        (root / ".kafka_cleanshutdown").unlink()
    for path in (root / "stock-41-0").iterdir():
        if path.name not in ("partition.metadata", "leader-epoch-checkpoint"):
            path.unlink()
    (root / "replication-offset-checkpoint").write_text("0\n1\nstock-41 0 2000\n")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nstock-41 0 2000\n")
    own = plan(root)[0].choice.own
    assert own.records_lost == 2000
    ranges = [(0, 1999)] if closed else [(0, 1999), (2000, None)]
    assert [(each.first, each.last) for each in own.lost] == ranges
    text = "2000 offsets, at most as many records" if closed else "2000 offsets or more, an unknown number of records"
    assert records_text(own) == text


@pytest.mark.parametrize(
    ("epochs", "has_metadata", "reason"),
    [
        ("0 0\n2 25\n7 99999", True, "which the metadata does not know (leader epoch 5): the file is wrong, or the"),
        ("0 0\n3 99999\n4 38", True, "which a later line contradicts: the file is wrong"),
        ("0 0\n2 25\n7 99999", False, None),
        ("0 0\n2 25\n5 99999", True, None),
    ],
)
def test_a_leader_epoch_that_something_contradicts_proves_no_loss(
    epochs: str, has_metadata: bool, reason: str | None, tmp_path: Path
) -> None:
    """A real 4.1.1 removed such an epoch at its start; its log, of which it was the only replica, had lost nothing."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    if not has_metadata:
        shutil.rmtree(root / "__cluster_metadata-0")
    path = root / "clicks-42-0" / "leader-epoch-checkpoint"
    path.write_text(f"0\n3\n{epochs}\n")
    (planned,) = plan(root)
    named = [each.detail for each in planned.findings if each.file == "clicks-42-0/leader-epoch-checkpoint"]
    verified = [each.detail for each in verify(root).findings if each.file == str(path)]
    assert (planned.choice.own.records_lost == 0) == (reason is not None)
    assert len(named) == len(verified) == (reason is not None)
    assert all(detail.startswith("epoch ") and (reason or "") in detail for detail in [*named, *verified])


@pytest.mark.parametrize(
    ("field", "bit", "hidden"),
    [("base_offset", 5, 32), ("base_offset", 40, 0), ("base_offset", 2, 4), ("partition_leader_epoch", 7, 0)],
)
def test_a_bit_outside_of_every_checksum_is_turned_back_where_neighbors_prove_it(
    field: str, bit: int, hidden: int, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    batches = [
        bytearray(
            build_batch(
                [Record(base + n, AT, TimestampType.CREATE_TIME, None, b"v%d" % (base + n)) for n in range(10)],
                partition_leader_epoch=3,
            )
        )
        for base in range(0, 60, 10)
    ]
    sound = b"".join(batches)
    place = BATCH[field]
    batches[1][place.position + place.size - 1 - bit // 8] ^= 1 << bit % 8
    log = root / "t-0" / f"{0:020}.log"
    log.write_bytes(b"".join(batches))
    found = plan(root)[0].choice
    assert found.own.records_hidden == hidden
    assert found.own.epoch_falls == (field != "base_offset")
    if hidden or field != "base_offset":
        assert found.recommended is not None
        assert str(found.recommended.way) == "repair_bits"
    recover(Recovery(repair_bits=Proof.CONTEXT), root)
    assert log.read_bytes() == sound


def test_other_records_at_the_same_offsets_are_no_copies(tmp_path: Path) -> None:
    """A moved base offset lies on a later batch's; that one, or this one, is still nothing that may go unasked."""
    root = tmp_path / "root"
    (log,) = log_of_tens(root, 8)
    values = {each.value for each in kafkalog.open(root)["t", 0].records()}
    flip(log, (6, BATCH.size + 5, 0xFF), (6, BATCH.size + 9, 0xFF), (1, 7, 0x20))  # damage elsewhere; 10 becomes 42
    choice = plan(Recovery(mode="salvage"), root)[0].choice
    assert (choice.own.records_kept, choice.own.sound_lost, choice.own.records_lost) == (60, 10, 20)
    with pytest.raises(RecoveryRefused, match="this would drop 10 records that can still be read"):
        recover(Recovery(mode="salvage"), root)
    best = plan(root)[0].choice.recommended
    assert best is not None
    recover(Recovery(**options_of(best)), root)
    left = {each.value for each in kafkalog.open(root)["t", 0].records()}
    assert len(values - left) == best.measured.records_lost == 10


def test_a_copy_of_a_batch_may_go_unasked(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (log,) = log_of_tens(root)
    data = log.read_bytes()
    first = data[: scan(data).batches[1].position]
    log.write_bytes(data + first)
    own = plan(Recovery(mode="salvage"), root)[0].choice.own
    assert (own.records_kept, own.records_hidden, own.sound_lost) == (60, 0, 0)


def test_a_damaged_marker_is_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    data = [
        build_batch(
            [Record(base, AT, TimestampType.CREATE_TIME, None, b"v")],
            producer=ProducerState(producer_id=7, producer_epoch=0, base_sequence=base, is_transactional=True),
        )
        for base in (0, 2)
    ]
    marker = EndTransactionMarker(ControlType.ABORT, 0)
    abort = bytearray(
        build_end_transaction_marker(marker, base_offset=1, timestamp=AT, producer_id=7, producer_epoch=0)
    )
    abort[-1] ^= 0x5A
    abort[-2] ^= 0x33
    (root / "t-0" / f"{0:020}.log").write_bytes(data[0] + bytes(abort) + data[1])
    ways = {str(way.way): way.measured for way in plan(root)[0].choice.ways}
    assert (ways["salvage"].records_lost, ways["salvage"].markers_damaged) == (0, 1)
    out = run_command(root, "plan")
    assert "1 marker of the end of a transaction cannot be read" in out


def test_indexes_tell_of_a_first_segment_that_is_gone(tmp_path: Path) -> None:
    root = tmp_path / "root"
    first, _second = log_of_tens(root, segments=2)
    recover(root)
    first.unlink()
    own = plan(root)[0].choice.own
    assert (own.records_kept, own.records_lost, own.is_exact) == (60, 60, False)
    assert [(each.first, each.last) for each in own.lost] == [(0, 59)]
    retained = first.with_name(first.name + ".deleted")
    retained.touch()
    assert not plan(root)[0].choice.own.records_lost


def test_the_recommended_command_names_the_partition_that_was_asked_about(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (log,) = log_of_tens(root)
    shutil.copytree(root / "t-0", root / "t-1")
    flip(log, (2, BATCH.size + 5, 0xFF), (2, BATCH.size + 9, 0xFF))
    out = run_command(root / "t-0", "plan")
    commands = [line.strip() for line in out.splitlines() if line.strip().startswith("kafkalog recover")]
    assert commands
    assert all(f"{root}/t-0 " in each for each in commands)


def run_command(path: Path, name: str) -> str:
    return kafkalog_command(name, path).out


@pytest.mark.parametrize("evidence", ["recovery point", "snapshot", "epoch", "none", "absurd"])
def test_damage_at_the_end_is_counted_by_headers_and_by_what_stands_beside(evidence: str, tmp_path: Path) -> None:
    """A damaged batch before the last one, which is cut: nothing sound is after them, and still much is lost."""
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)

    def data(base: int, count: int) -> bytes:
        return build_batch([Record(base + n, AT, TimestampType.CREATE_TIME, None, b"v" * 40) for n in range(count)])

    damaged = bytearray(data(10, 7))
    damaged[-1] ^= 0x33
    damaged[-15] ^= 0x33
    (root / "t-0" / f"{0:020}.log").write_bytes(data(0, 10) + bytes(damaged) + data(17, 5)[:-7])
    if evidence == "recovery point":
        (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 22\n")
    elif evidence == "snapshot":
        (root / "t-0" / f"{22:020}.snapshot").write_bytes(encode_producer_snapshot([]))
    elif evidence == "epoch":
        (root / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 22\n")
    elif evidence == "absurd":
        (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {2**62}\n")
    own = plan(root)[0].choice.own
    told = evidence not in ("none", "absurd")
    assert (own.records_kept, own.records_lost, own.is_exact) == (10, 12 if told else 7, not told)
    assert [(each.first, each.last) for each in own.lost] == [(10, 21 if told else 16)]
    assert not plan(root)[0].needs_consent


def test_a_sound_marker_is_not_dropped_without_consent(tmp_path: Path) -> None:
    """After a damaged batch stands the marker alone that ends the transaction of sound batches before it."""
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)

    def data(base: int) -> bytes:
        records = [Record(base, AT, TimestampType.CREATE_TIME, None, b"v")]
        return build_batch(
            records, producer=ProducerState(producer_id=7, producer_epoch=0, base_sequence=base, is_transactional=True)
        )

    damaged = bytearray(data(1))
    damaged[-1] ^= 0x33
    damaged[-5] ^= 0x33
    marker = build_end_transaction_marker(
        EndTransactionMarker(ControlType.COMMIT, 0), base_offset=2, timestamp=AT, producer_id=7, producer_epoch=0
    )
    (root / "t-0" / f"{0:020}.log").write_bytes(data(0) + bytes(damaged) + marker)
    (root / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    choice = plan(Recovery(at=AT), root)[0].choice
    assert (choice.own.sound_lost, choice.own.markers_lost) == (0, 1)
    assert choice.recommended is not None
    assert choice.recommended.way == "salvage"
    with pytest.raises(RecoveryRefused, match="1 sound marker of"):
        recover(Recovery(at=AT), root)


def test_a_part_of_a_directory_promises_nothing_of_the_rest(tmp_path: Path) -> None:
    root = SOUND.unpack_before(tmp_path / "root")
    shutil.copytree(root / "t-0", root / "other-0")
    log = logs_of(root)[-1]
    log.write_bytes(log.read_bytes()[:-3])
    finished = kafkalog_command("recover", "--yes", "--topic", "t", "--partition", "0", root)
    assert finished.code == 2
    assert "whether it starts was not examined" in " ".join(finished.out.split())
    assert "other partitions were not examined" in finished.out
