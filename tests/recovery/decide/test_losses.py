"""What is lost and what is skipped, in sentences: the numbers are those of the table, and no unknown is left out."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kafkalog as library
from kafkalog.recovery.broker.manager import StartResult
from kafkalog.recovery.broker.node.answer import (
    ConsequenceKind,
    NodeAnswer,
    NodeStart,
    Role,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.releases import release_of
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.choosing import _WayDescriber, _with_rest
from kafkalog.recovery.decide.counting import Comparer, WayResult
from kafkalog.recovery.decide.losses import (
    lost_beside,
    lost_text,
    readable_text,
    records_text,
    repeats_text,
    sentence_of_lost,
)
from kafkalog.recovery.decide.ways import LostRange, Measured, PartitionFacts, RecoveryRequest, total
from kafkalog.recovery.modes.table import Mode
from testkit.judging.trees import stamps
from testkit.made.batches import batch, record
from testkit.made.tens import log_of_tens, ten
from testkit.recorded.broker_dirs import brokers, own_copy, with_raised_offset
from testkit.recorded.fixture_data import recovery_cases
from testkit.running.command import kafkalog


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    return own_copy(brokers("2.8.2/torn")[0], tmp_path / "broker")


@pytest.fixture
def skipping(tmp_path: Path) -> Path:
    """A base offset that is far too high: no checksum covers it, and a consumer passes over all that follows."""
    return with_raised_offset(tmp_path / "broker")


def test_a_sum_with_an_unknown_in_it_is_a_lower_bound(torn: Path) -> None:
    (line,) = kafkalog("plan", "--json", torn).objects
    unknown = [each for way in line["ways"] for each in way["offsets_lost"] or () if each["last"] is None]
    assert unknown
    out = kafkalog("plan", torn).out
    (best,) = [each for each in out.splitlines() if each.startswith("recommended: ")]
    assert re.search(r"it loses (at least \d+ records|about \d+ records and an unknown number more)", best), best
    done = kafkalog("recover", "--yes", "--accept-loss", torn).out
    (kept,) = [each for each in done.splitlines() if re.match(r"\d+ records are kept", each)]
    assert re.search(r"; about \d+\+ are lost", kept), kept


def test_a_way_that_drops_only_a_transaction_marker_may_lose_something() -> None:
    """Recovery asks for consent to it, so the ways are shown."""
    assert Measured(records_lost=0, markers_lost=1).may_lose
    assert not Measured(records_lost=0).may_lose


def test_what_another_replica_may_have_is_said_as_a_range() -> None:
    perhaps = Measured(records_lost=4, is_exact=False, perhaps_elsewhere=4)
    assert (lost_text(perhaps), sentence_of_lost(perhaps)) == ("4 at most", "at most 4 records, perhaps none")
    both = total([perhaps, Measured(records_lost=3, bytes_cut=0)])
    assert (lost_text(both), sentence_of_lost(both), both.out_of_reach) == ("3 to 7", "3 to 7 records", 3)
    torn = total([both, Measured(records_lost=2, is_exact=False, uncounted=1)])
    assert (lost_text(torn), sentence_of_lost(torn)) == ("5 or more", "at least 5 records")


def test_a_total_is_as_sure_as_its_parts() -> None:
    whole = Measured(records_lost=12)
    offsets = Measured(records_lost=1752, is_exact=False, is_estimate=True, of_offsets=1752)
    assert sentence_of_lost(offsets) == "1752 offsets, at most as many records"  # 1460 records on a broker of 3.9.1
    assert lost_text(offsets) == "1752 at most"
    assert sentence_of_lost(total([offsets, Measured(records_lost=1, bytes_cut=0)])) == "about 1753 records"
    guessed = Measured(records_lost=6, is_exact=False, is_estimate=True)
    unknown = Measured(records_lost=0, is_exact=False, uncounted=1, lost=[LostRange("a-0", 3, None)])
    assert lost_text(total([whole, whole])) == "24"
    assert lost_text(total([whole, guessed])) == "about 18"
    assert lost_text(total([whole, unknown])) == "12 or more"
    assert lost_text(total([guessed, unknown])) == "about 6+"
    offsets = Measured(records_kept=0, records_lost=89, is_exact=False, is_estimate=True, of_offsets=89, uncounted=1)
    assert lost_text(offsets) == "89+ offsets"
    assert records_text(offsets) == "89 offsets or more, an unknown number of records"
    assert lost_text(unknown) == "unknown"
    assert sentence_of_lost(unknown) == "an unknown number of records"
    assert sentence_of_lost(total([whole, unknown])) == "at least 12 records"
    assert sentence_of_lost(Measured(records_lost=0)) == "nothing"
    assert sentence_of_lost(Measured(records_lost=125, records_hidden=105)) == (
        "125 records, but consumers may skip 105 records that are kept"
    )
    assert sentence_of_lost(Measured(records_lost=0, records_hidden=1)) == (
        "no record, but consumers may skip 1 record that is kept"
    )
    assert sentence_of_lost(Measured(records_hidden=3)) == (
        "an unknown number of records, but consumers may skip 3 records that are kept"
    )


def test_one_record_is_not_called_one_of_them() -> None:
    assert readable_text(Measured(records_lost=1)) == ""
    assert readable_text(Measured(records_lost=1, sound_lost=1)) == "the lost record can still be read"
    about = Measured(records_lost=1, sound_lost=1, is_exact=False, is_estimate=True)
    assert readable_text(about) == "the lost record can still be read"
    assert readable_text(Measured(records_lost=7, sound_lost=1)) == "1 of the lost ones can still be read"
    unknown = Measured(records_lost=1, sound_lost=1, is_exact=False, uncounted=1)
    assert readable_text(unknown) == "1 of the lost ones can still be read"


def test_records_at_offsets_that_are_written_twice_are_said_to_be() -> None:
    lost = [LostRange("t-0", 235, 259)]
    assert repeats_text(Measured(records_lost=35, lost=lost)) == " (some of them written twice)"
    assert repeats_text(Measured(records_lost=25, lost=lost)) == ""
    assert repeats_text(Measured(records_lost=35, lost=[*lost, LostRange("t-0", 300, None)])) == ""
    assert repeats_text(Measured(records_lost=3)) == ""


def test_a_plan_says_that_lost_offsets_are_written_twice(tmp_path: Path) -> None:
    """Other records at offsets that the log has too, in a segment behind damage."""
    (path,) = log_of_tens(tmp_path, 2)
    data = bytearray(path.read_bytes())
    others = batch(b"".join(record(delta, value=b"other") for delta in range(10)), 10, base_offset=20)
    data[len(ten(0)) + 20] ^= 0xFF
    path.write_bytes(data)
    path.with_name(f"{20:020}.log").write_bytes(ten(2) + others)
    (line,) = [each for each in kafkalog("plan", tmp_path).out.splitlines() if each.startswith("  t-0: ")]
    (safe,) = [each for each in kafkalog("plan", "--json", tmp_path).objects[0]["ways"] if each["way"] == "safe"]
    assert safe["records_lost"] == 30
    assert safe["offsets_lost"] == [{"partition": "t-0", "first": 10, "last": 29}]
    assert "30 records, offsets 10 to 29 (some of them written twice)" in line


def zeros_at_the_end(tmp_path: Path, *, is_stopped: bool) -> tuple[Path, list[Path]]:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    *_, last = sorted((root / "sessions-20-0").glob("*.log"))
    with last.open("ab") as file:
        file.write(bytes(4096))
    if not is_stopped:
        (root / ".kafka_cleanshutdown").unlink()
    return root, [last]


def test_zeros_behind_the_end_of_a_clean_stop_lose_nothing(tmp_path: Path) -> None:
    root, _ = zeros_at_the_end(tmp_path, is_stopped=True)
    out = kafkalog("plan", root).out
    assert "lost with this plan: nothing\n" in out
    assert "unknown number" not in out


def test_zeros_after_a_crash_may_have_been_nothing(tmp_path: Path) -> None:
    root, _ = zeros_at_the_end(tmp_path, is_stopped=False)
    out = kafkalog("plan", root).out
    assert "lost with this plan in 1 partition: an unknown number of records, perhaps none\n" in out


def test_zeros_of_a_preallocated_segment_are_no_loss(tmp_path: Path) -> None:
    """A killed 3.9.1 with `log.preallocate` left a file of `segment.bytes`, and a start had every acknowledged record.
    Zeros up to another size were not preallocated.
    """
    root, (last,) = zeros_at_the_end(tmp_path, is_stopped=False)
    given = ("--config", "log.preallocate=true", "--config", "log.segment.bytes=65536")
    for size, said in ((65536, "lost with this plan: nothing\n"), (65000, "perhaps none\n")):
        with last.open("r+b") as file:
            file.truncate(size)
        assert said in kafkalog("plan", root, *given).out
        assert "perhaps none\n" in kafkalog("plan", root).out


def test_what_is_skipped_is_told_apart_from_what_is_lost(skipping: Path) -> None:
    (line,) = kafkalog("plan", "--json", skipping).objects
    known = [each for each in line["ways"] if each["records_lost"] is not None and each["way"] != line["recommended"]]
    best = min(known, key=lambda each: each["records_lost"] + each["records_hidden"])
    out = kafkalog("plan", skipping).out
    (sentence,) = [each for each in out.splitlines() if each.startswith("recommended: ")]
    lost, hidden = best["records_lost"], best["records_hidden"]
    numbers = [int(each) for each in re.findall(r"\d+", sentence.partition("next best")[2])]
    assert numbers == [each for each in (lost, hidden) if each]
    assert any(each["records_hidden"] for each in line["ways"])


def test_what_stays_and_is_skipped_is_in_the_last_line(skipping: Path) -> None:
    (line,) = kafkalog("plan", "--json", skipping).objects
    (way,) = [each for each in line["ways"] if each["way"] == "safe"]
    assert way["records_hidden"] > 0
    out = kafkalog("recover", "--yes", skipping).out
    (kept,) = [each for each in out.splitlines() if re.match(r"\d+ records are kept", each)]
    assert f"{way['records_kept']} records are kept, {way['records_hidden']} of them skipped" in kept


@pytest.mark.parametrize("mode", ["safe", "salvage", "kafka"])
@pytest.mark.parametrize("number", ["003", "042"])
def test_damage_because_of_which_records_are_lost_is_named(number: str, mode: str, tmp_path: Path) -> None:
    """Also where the plan does not touch it, since it lies below the recovery point."""
    (case,) = [each for each in recovery_cases(["random_mix"]) if each.id.endswith(f"/{number}")]
    root = case.unpack_before(tmp_path / "logs")
    (line,) = kafkalog("plan", "--json", "--mode", mode, root).objects
    (verified,) = kafkalog("verify", "--json", root).objects
    (expected,) = [
        (each["file"].removeprefix(f"{root}/"), each["position"])
        for each in verified["partitions"][0]["findings"]
        if each["code"] == "crc_mismatch"
    ]
    places = [(each["file"], each["position"]) for each in line["findings"] if each["severity"] == "error"]
    assert places.count(expected) == 1
    assert "a recovery is not needed" not in kafkalog("plan", "--mode", mode, root).out


def test_where_a_way_is_better_than_none_a_recovery_is_not_called_needless(skipping: Path) -> None:
    out = kafkalog("plan", skipping).out
    assert "trusting the clean-shutdown marker" in out
    assert "recommended: salvage" in out
    assert "a recovery is not needed" not in out


def test_the_tables_of_a_plan_agree_on_what_is_lost(torn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (line,) = kafkalog("plan", "--json", torn).objects
    first, *ways = kafkalog("plan", "--all", torn).out.split("\nways for ")
    compared = 0
    for partition in line["partitions"]:
        row = [each for each in first.splitlines() if each.startswith(f"{partition['name']} ")]
        table = [each for each in ways if each.startswith(f"{partition['name']}\n")]
        if row and table:
            (safe,) = [each for each in partition["ways"] if each["way"] == "safe"]
            lost = ranges_text([LostRange(**each) for each in safe["offsets_lost"]]) or "none"
            assert f"  {lost}  " in row[0]
            assert any(each.startswith("safe ") and f"  {lost}  " in each for each in table[0].splitlines())
            compared += 1
    assert compared > 3


def test_a_log_that_a_broker_would_begin_again_is_hidden_by_its_start(tmp_path: Path) -> None:
    """It believes an index, finds no batch with the offset of its last entry, and goes on with the segment's first."""
    path = tmp_path / "data" / "t-0"
    path.parent.mkdir()
    with library.Log.open(path, library.LogConfig(index_interval_bytes=1000)) as log:
        for _ in range(50):
            log.append([bytes(200)])
    (index,) = path.glob("*.index")
    data = index.read_bytes()
    _, position = struct.unpack(">ii", data[-8:])
    index.write_bytes(data[:-8] + struct.pack(">ii", 50, position))
    (line,) = kafkalog("plan", "--json", path.parent).objects
    assert line["broker"]["log_end_offsets"] == {"t-0": 0}
    hidden = {way["way"]: (way["records_kept"], way["records_hidden"]) for way in line["ways"]}
    assert hidden["kafka"] == (50, 50)
    assert hidden["safe"] == (50, 0)
    assert "a recovery is not needed" not in kafkalog("plan", path.parent).out
    kafkalog("recover", "--yes", path.parent)
    assert kafkalog("verify", path.parent).code == 0
    (line,) = kafkalog("plan", "--json", path.parent).objects
    assert line["broker"]["log_end_offsets"] == {"t-0": 50}


def test_whether_what_is_lost_was_committed_is_no_surer_than_the_least_sure_part() -> None:
    lost = [LostRange("a-0", 3, 5)]
    unknown, no, yes = (Measured(lost=lost, below_high_watermark=value) for value in (None, False, True))
    nothing, uncounted = Measured(records_lost=0), Measured()
    assert total([nothing, no]).below_high_watermark is False
    assert total([no, unknown]).below_high_watermark is None
    assert total([unknown, yes, no]).below_high_watermark is True
    assert total([nothing]).below_high_watermark is None
    assert total([no, uncounted]).below_high_watermark is None


@pytest.mark.parametrize(("high_watermark", "committed"), [(1, None), (1_000_000, True)])
def test_a_gap_that_the_log_goes_on_behind_may_have_been_committed(
    high_watermark: int, committed: bool | None, tmp_path: Path
) -> None:
    """A backup that is copied over a directory has an older checkpoint, and its segments in place of newer ones."""
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "broker")
    logs = next(
        found
        for each in sorted(root.glob("*-0"))
        if len(found := sorted(path for path in each.glob("*.log") if path.stat().st_size)) > 2
    )
    for path in logs[1].parent.glob(f"{logs[1].stem}.*"):
        path.unlink()
    name, _, number = logs[1].parent.name.rpartition("-")
    checkpoint = root / "replication-offset-checkpoint"
    lines = [line for line in checkpoint.read_text().splitlines()[2:] if not line.startswith(f"{name} {number} ")]
    lines.append(f"{name} {number} {high_watermark}")
    checkpoint.unlink()
    checkpoint.write_text("".join(f"{line}\n" for line in ["0", len(lines), *lines]))
    (planned,) = kafkalog("plan", "--json", root).objects
    (partition,) = [each for each in planned["partitions"] if each["name"] == logs[1].parent.name]
    (safe,) = [each for each in partition["ways"] if each["way"] == "safe"]
    assert safe["offsets_lost"]
    assert safe["below_high_watermark"] is committed


def test_records_that_are_only_skipped_are_not_called_missing(tmp_path: Path) -> None:
    """A segment of a compacted log that a copy of a later one has replaced, as in a restored mix of two moments."""
    root = own_copy(brokers("4.3.0/compact")[0], tmp_path / "data")
    first, *_, last = sorted((root / "ledger-43-0").glob("*.log"))
    first.chmod(0o600)
    first.write_bytes(last.read_bytes())
    kafkalog("recover", "--yes", root)
    printed = " ".join(kafkalog("plan", root).out.split())
    assert "lost with this plan in 1 partition: no record, but consumers may skip 12 records that are kept" in printed
    assert "nothing is left to do here: no record is missing" in printed
    assert "is not in these files" not in printed


def test_a_way_that_leaves_no_offsets_to_the_remote_tier_names_none() -> None:
    before = SimpleNamespace(start=None, before=None)
    describer = _WayDescriber(cast(Comparer, before), [])
    text = describer.left_to_remote(WayResult(request=None, tree=None), [])
    assert text.startswith("what is lost here is in the remote tier, by ")


def test_if_no_loss_is_known_the_rest_is_recovered_in_the_first_way_that_is_not_refused() -> None:
    before = SimpleNamespace(start=SimpleNamespace(outcome=StartResult.LOADED, is_loaded=True), before=None)
    names = ("t-0", "t-1")
    hurt = [
        SimpleNamespace(name=name, facts=PartitionFacts(
            topic="t", partition=number, directories=(name,), log_start=0, high_watermark=None))
        for number, name in enumerate(names)
    ]  # fmt: skip
    refused, allowed = (
        WayResult(request=RecoveryRequest(mode=mode), tree=None, refusals=refusals,
                  measured={name: Measured() for name in names})
        for mode, refusals in ((Mode.SAFE, {"t-1": "it is declined"}), (Mode.SALVAGE, {}))
    )  # fmt: skip
    describer = _WayDescriber(cast(Comparer, before), [])
    way = WayResult(request=None, tree=None)
    chosen = _with_rest(way, {"t-0": Measured()}, [refused, allowed], describer, cast(Any, hurt))
    assert chosen.rest is not None
    assert chosen.rest.request == allowed.request


@pytest.mark.parametrize(("not_given", "is_sure"), [(0, True), (None, False), (1, False)])
def test_partitions_of_a_log_directory_that_was_not_given_are_not_called_lost(
    not_given: int | None, is_sure: bool
) -> None:
    """Kafka 3.9.1 with two log directories and metadata of 3.6, which has no directory ids, starts with all of them."""
    again = StartConsequence(kind=ConsequenceKind.EMPTY_AGAIN, detail="", names=("t-1",), lost=("t-1",))
    answer = NodeAnswer(outcome=StartOutcome.STARTS, consequences=(again,))
    start = NodeStart(
        roots=("/d1",), role=Role.COMBINED, node_id=1, releases=(release_of("3.9"),), answers=(answer,),
        not_given=not_given,
    )  # fmt: skip
    said = "all or part of 1 partition (t-1), by the broker's next start, recovered or not"
    unsure = "1 partition (t-1), unless another of its log.dirs, which was not given, has them"
    assert lost_beside([start], []) == [said if is_sure else unsure]


def test_what_is_gone_already_is_not_lost_with_the_plan(tmp_path: Path) -> None:
    """After a recovery whose log ends below its high watermark, 4.1.1 changed no log, and nor did the plan."""
    broker = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    checkpoint = broker / "replication-offset-checkpoint"
    version, count, *lines = checkpoint.read_text().splitlines()
    (topic, number, end), *_others = (line.split() for line in lines if int(line.split()[2]))
    raised = [f"{topic} {number} {int(end) + 3}" if line.split()[:2] == [topic, number] else line for line in lines]
    checkpoint.unlink()
    checkpoint.write_text("\n".join([version, count, *raised, ""]))
    (broker / ".kafka_cleanshutdown").unlink(missing_ok=True)
    before = stamps(broker)
    printed = " ".join(kafkalog("plan", broker).out.split())
    assert stamps(broker) == before
    assert "lost before this plan in 1 partition: 3 offsets or more, an unknown number of records" in printed
    assert "lost with this plan" not in printed
