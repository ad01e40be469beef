"""`compact`: what it does to a log directory, what it leaves alone, and that nothing is lost wherever it is stopped."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog import FindingCode, RecoveryRefused, StorageError
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.pointer import POINTER
from kafkalog.words.advice import told
from testkit.judging.every_byte import Originals
from testkit.judging.trees import contents, copy_tree, first_difference, stamps
from testkit.made.compactable import CONFIG, T0, compactable, compacted, meaning
from testkit.recorded.fixture_data import RecoveryCase, broker_case, recovery_cases, recovery_families
from testkit.running.command import kafkalog as command
from testkit.running.elsewhere import PLACES, quarantine_at
from testkit.running.stopping import Failure, Stopped, beside, complete_what_began, disturbed, killed_at, take_back_all

# --- what it does ---------------------------------------------------------------------------------------------------


def test_a_pass_keeps_what_the_log_means_and_can_be_taken_back(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    before, means = stamps(root), meaning(root / "t-0")
    result = compacted(root)
    (partition,) = result.done.partitions
    assert (partition.name, partition.is_cleaned, partition.problem) == ("t-0", True, None)
    assert partition.records_dropped > 8
    assert partition.bytes_after < partition.bytes_before
    assert meaning(root / "t-0") == means
    assert (root / "cleaner-offset-checkpoint").read_text() == f"0\n1\nt 0 {partition.cleaned_to}\n"
    log = root / "t-0" / f"{0:020d}.log"
    assert log.stat().st_mtime_ns == T0 * 1_000_000, "the time of the last old log, in ms"
    assert kafkalog.plan(kafkalog.Recovery(at=T0), root)[0].actions == []
    kafkalog.undo(root)
    assert first_difference(dict(stamps(root)), dict(before)) == ""


def test_a_second_pass_has_nothing_to_do(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    compacted(root)
    before = stamps(root)
    again = compacted(root)
    assert (again.changed, again.run_id) == (False, None)
    assert stamps(root) == before


def test_into_leaves_the_original_alone(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    before = stamps(root)
    result = compacted(root, into=tmp_path / "copy")
    assert result.changed
    assert stamps(root) == before
    assert meaning(tmp_path / "copy" / "t-0") == meaning(root / "t-0")


def test_topics_of_another_policy_are_not_touched(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    before = stamps(root)
    assert not kafkalog.compact(kafkalog.Compaction(at=T0), root)[0].changed
    assert not kafkalog.compact(kafkalog.Compaction(config={"cleanup.policy": "delete"}, at=T0), root)[
        0
    ].done.partitions
    assert stamps(root) == before


def test_the_settings_come_from_the_metadata_log(tmp_path: Path) -> None:
    (root,) = broker_case("4.1.1", "compact").unpack(tmp_path / "data").iterdir()
    means = {path.name: meaning(path) for path in root.glob("*-[0-9]*") if not path.name.startswith("__")}
    (root / "cleaner-offset-checkpoint").unlink()
    at = int((root / "clicks-0-0").stat().st_mtime * 1000)
    made = kafkalog.plan_compaction(
        kafkalog.Compaction(at=at, select=Selection.of(excluded=["__transaction_state"])), root
    )[0]
    assert [each.name for each in made.partitions] == [
        "clicks-0-0", "payments-42-0", "quotes-3-0", "trades-4-0", "visits-41-0",
    ]  # fmt: skip
    result = kafkalog.compact(kafkalog.Compaction(at=at, select=Selection.of(excluded=["__transaction_state"])), root)[
        0
    ]
    assert any(each.is_cleaned for each in result.done.partitions)
    assert not result.done.has_findings
    assert {name: meaning(root / name) for name in means} == means


def test_retention_follows_where_the_policy_says_so(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    config = {**CONFIG, "cleanup.policy": "compact,delete", "retention.ms": "1000"}
    (partition,) = kafkalog.compact(kafkalog.Compaction(config=config, at=T0 + 10_000), root)[0].done.partitions
    assert partition.deleted_segments
    left = kafkalog.open_partition(root / "t-0")
    assert left.log_start_offset > 0
    assert list(left.records()) == []
    kafkalog.undo(root)
    assert meaning(root / "t-0")


def test_a_log_that_is_open_comes_out_the_same(tmp_path: Path) -> None:
    one, other = compactable(tmp_path / "one"), tmp_path / "other"
    copy_tree(one, other)
    compacted(one)
    config = kafkalog.LogConfig(
        min_cleanable_dirty_ratio=0.0, index_interval_bytes=80, file_delete_delay_ms=0, retention_ms=-1
    )
    with kafkalog.Log.open(other / "t-0", config, clock=lambda: T0 + 5) as log:
        log.compact()
    left, right = contents(one), contents(other)
    assert {path for path in left if path != POINTER} == {*right} - {".kafka_cleanshutdown"}, "a run leaves no marker"
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "cleaner-offset-checkpoint")
    same = [path for path in right if path.endswith(suffixes)]
    assert len(same) > 8
    assert first_difference({path: left[path] for path in same}, {path: right[path] for path in same}) == ""
    assert log_times(one) == log_times(other)


@pytest.mark.parametrize("place", PLACES)
def test_what_an_earlier_pass_left_unfinished_is_in_nobodys_way(place: str, tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    for name in (".log", ".index", ".timeindex", ".txnindex"):
        (root / "t-0" / f"{0:020d}{name}.cleaned").write_bytes(b"of a pass that failed")
    before, means = stamps(root), meaning(root / "t-0")
    with quarantine_at(place, tmp_path) as kept:
        assert compacted(root, kept).changed
        assert not [name for name in os.listdir(root / "t-0") if name.endswith(".cleaned")]
        assert meaning(root / "t-0") == means
        take_back_all(root, before, "a pass over what another had left", kept)


# --- what it leaves alone -------------------------------------------------------------------------------------------


def test_a_damaged_log_is_left_as_it_is_and_named(tmp_path: Path) -> None:
    root = compactable(compactable(tmp_path / "data"), "u-0")
    damaged = root / "t-0" / f"{0:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[70] ^= 1
    damaged.write_bytes(data)
    before = stamps(root / "t-0")
    result = compacted(root)
    assert [each.name for each in result.done.partitions] == ["u-0"]
    assert list(result.done.declined) == ["t-0"]
    (finding,) = result.done.findings
    assert (finding.code, finding.file) == (FindingCode.CRC_MISMATCH, f"t-0/{0:020d}.log")
    assert stamps(root / "t-0") == before
    assert "u 0" in (root / "cleaner-offset-checkpoint").read_text()


def test_a_log_that_a_start_would_cut_is_left_as_it_is(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    last = max((root / "t-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    before = stamps(root)
    result = compacted(root)
    why = result.done.declined["t-0"]
    assert why.endswith(f"; recover({str(root)!r}) repairs it")
    assert told(why).endswith(f"; `kafkalog recover {root}` repairs it")
    assert not result.changed
    assert stamps(root) == before


def test_a_compaction_that_was_interrupted_is_for_recover(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    first = root / "t-0" / f"{0:020d}.log"
    shutil.copy(first, first.with_name(first.name + ".swap"))
    assert "interrupted" in compacted(root).done.declined["t-0"]


def test_records_that_cannot_be_read_are_damage(tmp_path: Path) -> None:
    from testkit.made.batches import batch

    root = compactable(tmp_path / "data")
    first = root / "t-0" / f"{0:020d}.log"
    data = first.read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    broken = batch(b"\x7f" * (size - 61), 1, base_offset=0)
    assert len(broken) == size
    first.write_bytes(broken + data[size:])
    before = stamps(root)
    result = compacted(root)
    assert result.done.declined
    assert result.done.findings[0].file == f"t-0/{0:020d}.log"
    assert stamps(root) == before


@pytest.mark.parametrize("text", ["1\n0\n", "0\n7\n", "garbage", "0\n1\nt 0 x\n"])
def test_a_cleaner_checkpoint_that_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    (root / "cleaner-offset-checkpoint").write_text(text)
    before = stamps(root)
    with pytest.raises(RecoveryRefused, match="cleaner-offset-checkpoint cannot be read"):
        compacted(root)
    assert stamps(root) == before


def test_rows_of_topics_that_are_gone_go(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    (root / "cleaner-offset-checkpoint").write_text("0\n2\ngone 3 17\nt 0 0\n")
    cleaned_to = compacted(root).done.partitions[0].cleaned_to
    assert (root / "cleaner-offset-checkpoint").read_text() == f"0\n1\nt 0 {cleaned_to}\n"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("min.cleanable.dirty.ratio", "2", "from 0 to 1"),
        ("segment.bytes", "0", "from 1 to"),
        ("cleanup.policy", "shred", "compact, delete or both"),
        ("log.cleaner.dedupe.buffer.size", "24", "more than one key"),
        ("no.such.setting", "1", "unknown setting"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(name: str, value: str, said: str, tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    with pytest.raises(kafkalog.UsageError, match=said):
        kafkalog.compact(kafkalog.Compaction(config={**CONFIG, name: value}), root)


def test_what_changed_since_the_plan_is_not_touched(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    made = kafkalog.plan_compaction(kafkalog.Compaction(config=CONFIG, at=T0), root)[0]
    (root / "t-0" / "foreign").write_text("x")
    with pytest.raises(RecoveryRefused, match="changed since the plan was made"):
        kafkalog.compact(kafkalog.Compaction(config=CONFIG, at=T0), root, expected=[made])


def damaged(each: int) -> list[RecoveryCase]:
    """Some of the recorded cases of each kind of damage."""
    return [case for family in recovery_families() for case in recovery_cases([family])[::each]]


@pytest.mark.parametrize("each", [12, pytest.param(1, marks=pytest.mark.sweep)])
def test_whatever_is_there_it_is_cleaned_left_alone_or_refused(
    each: int, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    """On damaged directories of all kinds: never an error of our own, and what was done can be taken back."""
    cases = damaged(each)
    done = {"cleaned": 0, "left alone": 0}
    for case in cases:
        root = case.unpack_before(tmp_path / "case")
        before = stamps(root)
        try:
            result = compacted(root)
            done["left alone"] += bool(result.done.declined)
            done["cleaned"] += result.changed
            if result.changed:
                kafkalog.undo(root)
        except RecoveryRefused:
            done["left alone"] += 1
        assert first_difference(dict(stamps(root)), dict(before)) == "", case.id
        shutil.rmtree(root)
        shutil.rmtree(beside(root), ignore_errors=True)
    assert min(done.values()) > len(cases) / 5
    measured("damaged directories compacted and taken back, or left alone", len(cases))


# --- the command ----------------------------------------------------------------------------------------------------

WORDS = [word for name, value in CONFIG.items() for word in ("--config", f"{name}={value}")]


def test_the_command(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    words = [*WORDS, "--at", T0 + 5]
    before = stamps(root)
    declined = command("compact", *words, root)
    assert (declined.code, "Pass --yes to proceed." in declined.err, "t-0" in declined.out) == (3, True, True)
    assert command("compact", "--dry-run", *words, root).code == 0
    (planned,) = command("compact", "--dry-run", "--json", *words, root).objects
    assert (planned["changed"], planned["changes"]) == (False, True)
    assert stamps(root) == before
    done = command("compact", "--yes", "--json", *words, root)
    (found,) = done.objects
    assert (done.code, found["changed"], found["mode"]) == (2, True, "compact")
    assert found["partitions"][0]["cleaned"] is True
    assert command("compact", "--yes", *words, root).code == 0
    assert command("undo", "--yes", root).code == 2
    assert first_difference(dict(stamps(root)), dict(before)) == ""
    assert command("compact", "--into", tmp_path / "copy", *words, root).code == 0
    assert command("compact", "--yes", root).code == 0, "no topic is compacted"
    assert command("compact", "--yes", "--config", "a=b", root).code == 64
    assert command("compact", "--yes", tmp_path / "nowhere").code == 64


def test_the_command_reads_the_brokers_own_settings(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    properties = tmp_path / "server.properties"
    properties.write_text("log.dirs=data\nlog.cleanup.policy=compact\nlog.cleaner.min.cleanable.ratio=0.0\n")
    found = command("compact", "--json", "--dry-run", "--server-properties", properties, root).objects
    assert found[0]["partitions"][0]["cleaned"] is True


def test_the_command_on_damage_and_on_what_cannot_be_read(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    first = root / "t-0" / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"\1")
    done = command("compact", "--yes", "--json", *WORDS, root)
    assert (done.code, done.objects[0]["findings"][0]["code"]) == (1, "crc_mismatch")
    assert "left as it is" in command("compact", "--yes", *WORDS, root).out
    (root / "t-0" / "00000000000000000099.log").mkdir()
    os.mkfifo(root / "t-0" / "00000000000000000098.snapshot")
    assert command("compact", "--yes", "--json", *WORDS, root).code == 4


def test_the_command_says_how_many_records_have_no_key(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    with kafkalog.Log.open(root / "t-0", kafkalog.LogConfig(retention_ms=-1)) as log:
        for _ in range(3):
            log.append([kafkalog.NewRecord(key=None, value=b"v")])
        log.roll()
        log.append([kafkalog.NewRecord(key=None, value=b"of the last segment")])
    for words in (("--dry-run",), ("--yes",)):
        said = command("compact", *words, *WORDS, root).out
        assert "t-0: 3 records have no key and are removed" in said


def test_the_command_says_what_goes_besides(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    assert command("compact", "--yes", *WORDS, root).code == 2
    for number in range(3):
        (root / "t-0" / f"{number:020d}.log.deleted").write_bytes(b"")
    (root / "t-0" / f"{18:020d}.snapshot").unlink()
    done = command("compact", "--dry-run", *WORDS, root)
    assert (done.code, "also, 3 files that a start deletes are removed, 1 file is created" in done.out) == (0, True)


def test_dropped_records_are_all_that_are_gone(tmp_path: Path) -> None:
    """With records of an aborted transaction and, once their time has come, with markers."""
    root = compactable(tmp_path / "data")
    config = {**CONFIG, "delete.retention.ms": "0", "producer.id.expiration.ms": "1"}

    def count() -> int:
        decoded = (kafkalog.decode_batch(batch) for batch in kafkalog.open_partition(root / "t-0").batches())
        return sum(len(each.records) for each in decoded)

    dropped = 0
    before = count()
    for at in (T0 + 5, T0 + 10):
        (root / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        (partition,) = kafkalog.compact(kafkalog.Compaction(config=config, at=at), root)[0].done.partitions
        dropped += partition.records_dropped
        assert before - count() == dropped
    assert dropped > 10


@pytest.mark.parametrize("interval", ["1", "80"])
def test_settings_that_do_not_fit_are_named(interval: str, tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    config = {**CONFIG, "segment.index.bytes": "8", "index.interval.bytes": interval}
    (why,) = kafkalog.plan_compaction(kafkalog.Compaction(config=config, at=T0), root)[0].declined.values()
    assert f"segment.index.bytes=8 does not fit its indexes (index.interval.bytes={interval})" in why
    assert "recover" not in why
    config["segment.index.bytes"] = "24"
    (partition,) = kafkalog.plan_compaction(
        kafkalog.Compaction(config={**config, "index.interval.bytes": "1"}, at=T0), root
    )[0].partitions
    assert "segment.index.bytes=24 is too small for it" in (partition.problem or "")


# --- stopped anywhere -----------------------------------------------------------------------------------------------


def started(root: Path, scratch: Path) -> dict[bytes | None, bytes | None]:
    """What the log means after a broker has started on the directory as it is, and stopped."""
    copy = copy_tree(root, scratch)
    try:
        kafkalog.recover(
            kafkalog.Recovery(mode="kafka", at=T0, quarantine=scratch.with_name("scratch-quarantine"), complete=None),
            copy,
        )
        return meaning(copy / "t-0")
    finally:
        shutil.rmtree(copy)
        shutil.rmtree(scratch.with_name("scratch-quarantine"), ignore_errors=True)


STEPS = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.sweep)])
"""How far apart the changes are before which something happens."""


@STEPS
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", ["stopped", "out of space"])
def test_stopped_anywhere_a_second_run_completes_and_undo_restores(
    how: str,
    place: str,
    step: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str, int], None],
) -> None:
    failure: Failure = Stopped if how == "stopped" else lambda: StorageError(errno.ENOSPC, "No space left on device")
    original = compactable(tmp_path / "original")
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    compacted(undisturbed)
    want, means = contents(undisturbed), meaning(original / "t-0")
    before, originals = stamps(original), Originals(original)
    number = 1
    while True:
        again = copy_tree(original, tmp_path / "again")
        with quarantine_at(place, tmp_path) as kept:
            if not disturbed(lambda: compacted(again, kept), number, failure, monkeypatch):  # noqa: B023
                break
            assert originals.missing(again, kept or beside(again)) == [], f"operation {number}"
            without_run = copy_tree(again, tmp_path / "without")
            (without_run / POINTER).unlink(missing_ok=True)
            (without_run / ".lock").unlink(missing_ok=True)
            assert started(without_run, tmp_path / "scratch") == means, f"a broker's start after operation {number}"
            shutil.rmtree(without_run)
            if number % 2:
                complete_what_began(again, kept)
                compacted(again, kept)
                got = {path: held for path, held in contents(again).items() if path != POINTER}
                assert first_difference(dict(got), dict(want)) == "", f"second run after operation {number}"
                assert log_times(again) == log_times(undisturbed), f"operation {number}"
            take_back_all(again, before, f"operation {number}", kept)
        number += step
    assert number > 40
    measured(f"compactions {how} before one of their changes, quarantine {place}, completed or undone", number // step)


def log_times(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns // 1_000_000 for path in (root / "t-0").glob("*.log")}


@STEPS
@pytest.mark.parametrize("place", PLACES)
def test_an_undo_stopped_anywhere_is_gone_on_with(
    place: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    original = compactable(tmp_path / "original")
    before, originals = stamps(original), Originals(original)
    number = 1
    went_on = True
    while went_on:
        again = copy_tree(original, tmp_path / "again")
        with quarantine_at(place, tmp_path) as kept:
            compacted(again, kept)
            request = kafkalog.Undo(quarantine=kept)
            went_on = disturbed(lambda: kafkalog.undo(request, again), number, Stopped, monkeypatch)  # noqa: B023
            assert originals.missing(again, kept or beside(again)) == [], f"operation {number}"
            take_back_all(again, before, f"operation {number} of an undo", kept)
        number += step
    measured(f"undos of a compaction stopped before one of their changes, quarantine {place}", number // step)


@STEPS
def test_killed_anywhere_then_completed_and_undone(
    step: int, tmp_path: Path, measured: Callable[[str, int], None]
) -> None:
    original = compactable(tmp_path / "original")
    undisturbed = copy_tree(original, tmp_path / "undisturbed")
    compacted(undisturbed)
    want, before = contents(undisturbed), stamps(original)
    number = 1
    while True:
        again = copy_tree(original, tmp_path / "again")
        if not killed_at(number, lambda: compacted(again)):  # noqa: B023
            break
        complete_what_began(again)
        compacted(again)
        got = {path: held for path, held in contents(again).items() if path != POINTER}
        assert first_difference(dict(got), dict(want)) == "", f"kill {number}"
        take_back_all(again, before, f"kill {number}", None)
        number += step
    assert number > 40
    measured("kills of a compaction, each then completed and undone", number // step)


def test_an_unknown_topic_beside_a_known_one_is_refused(tmp_path: Path) -> None:
    root = compactable(tmp_path / "data")
    request = kafkalog.Compaction(select=Selection.of(["t", "tt"]))
    for call in (kafkalog.plan_compaction, kafkalog.compact):
        with pytest.raises(kafkalog.UnknownName, match="tt"):
            call(request, root)
