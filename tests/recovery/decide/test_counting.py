"""What is lost is counted by everything that names an offset: torn headers, indexes, commits, other copies."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.files.index_files import decode_offset_index
from kafkalog.codec.model import BATCH
from kafkalog.codec.plain.scanner import scan
from kafkalog.recovery import Recovery, plan
from kafkalog.recovery.decide.aftermath import of_missing
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.decide.ways import RecoveryWay
from kafkalog.recovery.facts.coordinators import Coordinators
from testkit.made.batches import batch, message, record, simple
from testkit.made.tens import log_of_tens, ten
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.quorums import flip
from testkit.running.command import kafkalog as command

WITH_INDEX = 4000


def way(made: Plan, name: str) -> RecoveryWay:
    return next(each for each in made.choice.ways if str(each.way) == name)


@pytest.mark.parametrize("cut", [1, 50, 100])
def test_a_torn_batch_counts_by_its_header(cut: int, tmp_path: Path) -> None:
    (path,) = log_of_tens(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:-cut])
    made = plan(tmp_path)[0]
    measured = way(made, "safe").measured
    assert (measured.records_kept, measured.records_lost, measured.sound_lost) == (20, 10, 0)
    assert not measured.is_exact, "whether they were acknowledged nobody knows"
    assert made.partitions[0].offsets_lost == (20, 29)
    assert not made.needs_consent


def test_a_torn_batch_without_its_header_is_an_unknown_number(tmp_path: Path) -> None:
    (path,) = log_of_tens(tmp_path, 3)
    path.write_bytes(path.read_bytes()[: 2 * len(ten(0)) + BATCH.size - 1])
    measured = way(plan(tmp_path)[0], "safe").measured
    assert (measured.records_kept, measured.records_lost, measured.is_exact, measured.uncounted) == (20, 0, False, 1)


def log_with_index(root: Path) -> Path:
    """A partition of records with an index, as `build` makes it; returns its log."""
    rows = ({"topic": "t", "partition": 0, "key": "k", "value": f"{n} " + "x" * 300} for n in range(WITH_INDEX))
    source = root.with_suffix(".jsonl")
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command("build", source, "--into", root, "--batch-bytes", "3000")
    for path in [root / ".kafka_cleanshutdown", *root.glob("*-checkpoint"), *root.glob("t-0/*.snapshot")]:
        path.unlink(missing_ok=True)
    return root / "t-0" / f"{0:020}.log"


def zero_from(path: Path, position: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:position] + bytes(len(data) - position))


def test_zeros_from_inside_a_batch_are_a_tail_of_zeros_and_the_index_says_how_far_the_log_went(tmp_path: Path) -> None:
    path = log_with_index(tmp_path / "root")
    indexed = decode_offset_index(path.with_suffix(".index").read_bytes())[-1].relative_offset
    shutil.copytree(tmp_path / "root", tmp_path / "whole")
    batches = scan(path.read_bytes()).batches
    torn = batches[-60]
    zero_from(path, torn.position + torn.size // 2)
    (finding,) = [each for each in kafkalog.verify(tmp_path / "root").findings if each.code is FindingCode.ZERO_TAIL]
    assert finding.position == torn.position
    assert finding.batch is not None
    assert finding.batch.first_offset == torn.header.first_offset
    first = torn.header.first_offset
    measured = way(plan(tmp_path / "root")[0], "safe").measured
    assert (measured.records_kept, measured.records_lost) == (first, indexed + 1 - first)
    assert [(each.first, each.last) for each in measured.lost] == [(first, indexed), (indexed + 1, None)]
    made = plan(Recovery(copies=[tmp_path / "whole"]), tmp_path / "root")[0]
    best = made.choice.recommended
    assert best is not None
    assert (str(best.way), best.measured.records_kept, best.measured.records_lost) == ("merge", WITH_INDEX, 0)


def test_a_flipped_bit_in_the_last_batch_is_no_tail_of_zeros(tmp_path: Path) -> None:
    (path,) = log_of_tens(tmp_path, 3)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data) + bytes(4096))
    codes = {each.code for each in kafkalog.verify(tmp_path).findings}
    assert FindingCode.CRC_MISMATCH in codes
    assert FindingCode.ZERO_TAIL not in codes


def test_committed_offsets_say_how_far_a_damaged_log_went(tmp_path: Path) -> None:
    (path,) = log_of_tens(tmp_path / "root", 3)
    path.write_bytes(path.read_bytes()[: 2 * len(ten(0)) + 20])
    for group, offset in (("readers", 57), ("others", 20)):
        kafkalog.commit_offsets(tmp_path / "root", group, {("t", 0): offset})
    made = plan(tmp_path / "root")[0]
    measured = way(made, "safe").measured
    assert (measured.records_lost, measured.lost[0].first, measured.lost[0].last) == (37, 20, 56)
    (consequence,) = made.consequences
    assert (consequence.kind, consequence.partition) == ("groups_beyond_end", "t-0")
    assert "readers at 57" in consequence.detail
    assert "others" not in consequence.detail, "that one stands at the end, where it goes on"


def test_groups_beyond_the_end_of_a_log_that_is_sound_are_named(tmp_path: Path) -> None:
    """As where the partition was put back from an older copy: nothing in its own files is wrong."""
    root = tmp_path / "root"
    log_of_tens(root, 3)
    for group, offset in (("readers", 57), ("others", 30)):
        kafkalog.commit_offsets(root, group, {("t", 0): offset})
    made = plan(root)[0]
    assert made.choice.own.records_lost == 0
    (consequence,) = made.consequences
    assert (consequence.kind, consequence.partition) == ("groups_beyond_end", "t-0")
    assert "readers at 57" in consequence.detail
    assert "others" not in consequence.detail
    screen = " ".join(command("plan", root).out.partition("\n\n")[0].split())
    assert "nothing; before it perhaps the end of 1 partition (t-0), where groups have committed" in screen
    (log,) = (root / "t-0").glob("*.log")
    (root / "u-0").mkdir()
    (root / "u-0" / log.name).write_bytes(log.read_bytes()[:-5])
    screen = " ".join(command("plan", root).out.partition("\n\n")[0].split())
    assert "10 records in 1 partition; before it perhaps the end of 1 partition (t-0), where groups have" in screen
    shutil.rmtree(root / "u-0")
    kafkalog.recover(root)  # builds the indexes
    planned = command("plan", root)
    assert (planned.code, "\nnothing to do in the files; " in planned.out) == (1, True)
    report = command("report", "--format", "text", "-o", "-", root)
    assert report.code == 1
    assert report.out.startswith(f"findings: {root}\n")
    assert "groups or transactions know of more than the logs have" in " ".join(report.out.split())


def test_groups_of_many_partitions_of_a_topic_are_one_sentence(tmp_path: Path) -> None:
    """On 4.1.1 with a topic of 100 partitions, a plan had 333 lines."""
    for number in range(5):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020}.log").write_bytes(ten(0))
    ends = [57, 57, 57, 57, 58]
    kafkalog.commit_offsets(tmp_path, "of t-1 (mail", {("t", number): end for number, end in enumerate(ends)})
    made = plan(tmp_path)[0]
    assert [each.partition for each in made.consequences] == [f"t-{number}" for number in range(5)]
    told = " ".join(command("plan", tmp_path).out.split())
    assert "1 group stands beyond the end 10 of t-0, t-1, t-2 and 1 more (of t-1 (mail at 57): consumers" in told
    assert "1 group stands beyond the end 10 of t-4 (of t-1 (mail at 58): consumers" in told
    assert told.count("stands beyond the end") == 2


@pytest.mark.parametrize("is_damaged", [False, True])
def test_commits_behind_damage_are_said_not_to_be_counted(is_damaged: bool, tmp_path: Path) -> None:
    log_of_tens(tmp_path, 1)
    for offset in (57, 58, 59):
        kafkalog.commit_offsets(tmp_path, "readers", {("t", 0): offset})
    (log,) = (path for path in tmp_path.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    if is_damaged:
        data[second + 12 + int.from_bytes(data[second + 8 : second + 12], "big") - 1] ^= 0xFF
        log.write_bytes(data)
    detail = next(each.detail for each in plan(tmp_path)[0].consequences if each.kind == "groups_beyond_end")
    if is_damaged:
        told = "at least 1 group stands beyond the end 10 of t-0 (readers at 57; commits behind damage are not counted)"
    else:
        told = "1 group stands beyond the end 10 of t-0 (readers at 59)"
    assert detail.startswith(f"{told}: consumers there")


def test_groups_of_partitions_that_a_start_makes_again_are_named(tmp_path: Path) -> None:
    """Kafka 4.1.0 served the five partitions of a replaced disk again, empty: `mail` stood at 1500 of 0."""
    kafkalog.commit_offsets(tmp_path, "mail", {("payments", 0): 1500, ("payments", 1): 0})
    lost = ["payments-0", "payments-1", *(f"__consumer_offsets-{number}" for number in range(4)), "no partition"]
    lost += ["__share_group_state-7"]
    beyond, commits, shared = of_missing(lost, Coordinators([str(tmp_path)]))
    assert (beyond.kind, beyond.partition) == ("groups_beyond_end", "payments-0")
    assert "1 group stands beyond the end 0 of payments-0 (mail at 1500)" in beyond.detail
    assert commits.kind == "older_values_return"
    assert "__consumer_offsets-2 and 1 more have none left" in commits.detail
    assert shared.partition == "__share_group_state-7"
    assert "share groups whose state was in __share_group_state-7 have none left" in shared.detail


def test_a_plan_names_the_groups_of_a_partition_whose_directory_is_gone(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    kafkalog.commit_offsets(root, "mail", {("orders-48", 0): 1500})
    assert not [each for each in plan(root)[0].consequences if "beyond the end 0" in each.detail]
    shutil.rmtree(root / "orders-48-0")
    told = [each for each in plan(root)[0].consequences if each.kind == "groups_beyond_end"]
    assert [each.partition for each in told] == ["orders-48-0"]


def twice_compressed(offsets: range, magic: int) -> bytes:
    """What a client made that compressed a set of messages again when it retried."""
    inner = b"".join(message(n - offsets[0] if magic else n, magic=magic) for n in offsets)
    once = message(0 if magic else offsets[-1], None, gzip.compress(inner), magic=magic, attributes=1)
    return message(offsets[-1], None, gzip.compress(once), magic=magic, attributes=1)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_cannot_be_opened_count_and_need_consent(magic: int, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    plain = b"".join(message(n, magic=magic) for n in range(3))
    after = b"".join(message(n, magic=magic) for n in range(6, 9))
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(plain + twice_compressed(range(3, 6), magic) + after)
    made = plan(Recovery(mode="salvage"), tmp_path)[0]
    assert made.choice.own.records_lost == 3
    assert made.needs_consent
    assert not made.choice.own.is_exact
    assert made.choice.own.records_kept == 6


def test_a_batch_below_its_segment_is_never_dropped_without_consent(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{1000:020}.log"
    path.write_bytes(simple(10, 1000) + simple(5, 0) + simple(5, 1020))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1000\n")
    for mode in ("safe", "salvage"):
        made = plan(Recovery(mode=mode), tmp_path)[0]
        assert made.needs_consent, mode
        assert made.choice.own.sound_lost == (10 if mode == "safe" else 5)


@pytest.mark.parametrize(("cleaned", "lost"), [(60, 59), (0, 79)])
def test_what_the_cleaner_removed_below_a_wrong_log_start_is_not_lost(cleaned: int, lost: int, tmp_path: Path) -> None:
    """One segment of 20 records is gone; of the other 60 records the recovery keeps the last one."""
    log_of_tens(tmp_path, 2, segments=4)[1].unlink()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1000\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {cleaned}\n")
    assert plan(tmp_path)[0].choice.own.records_lost == lost


@pytest.mark.parametrize("segment", [1, 2])
def test_what_an_empty_replacement_replaces_is_lost_by_a_start(segment: int, tmp_path: Path) -> None:
    logs = log_of_tens(tmp_path, 1, segments=3)
    logs[segment].with_name(f"{logs[segment].name}.swap").touch()
    ways = plan(tmp_path)[0].choice.ways
    by_name = {str(each.way): each.measured for each in ways}
    assert (by_name["kafka"].records_kept, by_name["kafka"].records_lost) == (20, 10)
    assert (by_name["safe"].records_kept, by_name["safe"].records_lost) == (30, 0)


def test_the_printed_commands_together_leave_a_directory_that_starts(tmp_path: Path) -> None:
    logs = log_of_tens(tmp_path / "root", 6)
    other = tmp_path / "root" / "u-0"
    other.mkdir()
    (other / f"{0:020}.log").write_bytes(ten(0))
    for name in ("t-0", "u-0"):
        (tmp_path / "root" / name / "partition.metadata").write_text("version: 0\ntopic_id: EY8sFxa5y9ipvMtiaRixAA")
    shutil.copytree(other, tmp_path / "root" / "u-1")  # which tells u-0's topic id
    (tmp_path / "root" / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    data = bytearray(logs[0].read_bytes())
    data[len(ten(0)) : len(ten(0)) + 40] = b"\xff" * 40
    logs[0].write_bytes(data)
    (other / "partition.metadata").write_text("")  # a start ends with it, and merging t-0 does not change that
    output = command("plan", "--copy", tmp_path / "copy", tmp_path / "root").out
    screen = output.partition("\n\n")[0].replace("\\\n", "")
    commands = [shlex.split(line)[1:] for line in screen.splitlines() if line.startswith("  kafkalog recover ")]
    assert len(commands) == 2
    for words in commands:
        assert command(*words).code == 2
    after = plan(tmp_path / "root")[0]
    assert after.broker.outcome == "loaded"
    assert not after.changes


def test_older_values_of_a_compacted_topic_return(tmp_path: Path) -> None:
    path = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    path.parent.mkdir()
    last = batch(record(0, b"k", b"v"), 1, base_offset=5)
    path.write_bytes(simple(5) + last[:-1])
    (consequence,) = plan(tmp_path)[0].consequences
    assert consequence.kind == "older_values_return"
    assert "left: the newest commits in __consumer_offsets-0 are lost" in consequence.detail


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "records at the beginning of {} are lost, and commits after them are left"),
     (5, "records in the middle of {} are lost, and commits after them are left"),
     (-1, "left: the newest commits in {} are lost")],
)  # fmt: skip
def test_which_commits_are_lost(number: int, told: str, tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/groups")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    name = "__consumer_offsets-2"
    log = root / name / f"{0:020}.log"
    batches = scan(log.read_bytes()).batches
    flip(log, batches[number].position + batches[number].size - 3)
    (planned,) = plan(Recovery(mode="salvage"), root)
    (detail,) = (each.detail for each in planned.consequences if each.kind == "older_values_return")
    assert told.format(name) in detail


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("__transaction_state", []),
        ("__consumer_offsets", ["groups whose commits were in __consumer_offsets-0 have none left"]),
        ("__share_group_state", ["share groups whose state was in __share_group_state-0 have none left"]),
    ],
)
def test_no_older_values_return_to_a_compacted_log_of_which_nothing_is_left(
    topic: str, told: list[str], tmp_path: Path
) -> None:
    """Nothing goes back to values before, but groups have lost what they had."""
    path = tmp_path / f"{topic}-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(b"")
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 6\n")
    planned = plan(tmp_path)[0]
    assert planned.choice.own.records_lost == 6
    details = [each.detail for each in planned.consequences if each.kind == "older_values_return"]
    assert [detail.partition(":")[0] for detail in details] == told


def test_a_high_watermark_of_a_deleted_topic_of_the_same_name_shows_no_loss(tmp_path: Path) -> None:
    """Three brokers of Kafka 4.1.0 that lost power after a topic was deleted and made again had lost nothing of it."""
    path = tmp_path / "made-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(simple(5))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nmade 0 100\n")
    assert plan(tmp_path)[0].choice.own.records_lost == 95
    (tmp_path / "made-0.00112233445566778899aabbccddeeff-delete").mkdir()
    assert plan(tmp_path)[0].choice.own.records_lost == 0
    assert ("made", 0) not in kafkalog.open(tmp_path).high_watermarks


@pytest.mark.parametrize("hurt", [1, 2])
def test_groups_of_a_damaged_partition_of_committed_offsets_are_named(hurt: int, tmp_path: Path) -> None:
    """Four groups of one partition, by Java's hash. Commits behind the damage can still be read: these groups go back;
    what the damaged batch had is unknown.
    """
    for group in ("AaAa", "AaBB", "BBAa", "BBBB"):
        kafkalog.commit_offsets(tmp_path, group, {("t", 0): 7})
    (log,) = tmp_path.glob("__consumer_offsets-*/*.log")
    starts = [each.position for each in scan(log.read_bytes()).batches]
    assert len(starts) == 4
    data = bytearray(log.read_bytes())
    data[starts[hurt] + BATCH.size + 3] ^= 0x3C
    log.write_bytes(data)
    (told,) = (each.detail for each in plan(tmp_path)[0].consequences if each.kind == "older_values_return")
    sure, perhaps = ["BBAa, BBBB", "BBBB"][hurt - 1], ["AaAa", "AaAa, AaBB"][hurt - 1]
    assert told.startswith(f"groups {sure} and perhaps {perhaps} and groups of which nothing is left read records ag")
    assert told.partition(" are lost (those after 20")[2]


@pytest.mark.parametrize(
    ("hurt", "whose"), [(45, "tx-1: by 1"), (51, "op-0: by 1"), (54, "ids whose newest epoch is lost with it")]
)
def test_transactional_ids_of_damaged_transaction_state_are_named(hurt: int, whose: str, tmp_path: Path) -> None:
    """At 45 tx-1 has epoch 7 and later 8, and op-0 has no record yet; at 51 op-0 goes from epoch 0 to 1; 54 is the last
    record. An id of which nothing is left gets a new producer id.
    """
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    (log,) = (root / "__transaction_state-0").glob("*.log")
    log.chmod(0o600)
    data = bytearray(log.read_bytes())
    (position,) = [each.position for each in scan(bytes(data)).batches if each.header.first_offset == hurt]
    data[position + BATCH.size + 3] ^= 0x3C
    log.write_bytes(data)
    (told,) = (each.detail for each in plan(root)[0].consequences if "used epochs" in each.detail)
    assert f"transactional ids may go back to used epochs ({whose}): what they write next is refused" in told
