"""Elections after a power cut, foreseen from recorded disks; expected is what Kafka then made of them."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.model import BATCH, RecordBatch
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.codec.plain.scanner import scan
from kafkalog.jobs.triage import sources
from kafkalog.jobs.triage.flaws import flaws_of
from kafkalog.jobs.triage.kraft import kraft_memory
from kafkalog.jobs.triage.outcome import PartitionTriage
from kafkalog.jobs.triage.run import Triage, best_order, triage
from kafkalog.log import open_partition
from kafkalog.log.directories.selection import Selection
from testkit.judging.trees import first_difference, stamps
from testkit.kafka.start_records import append_metadata
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import REPLICA_VERSIONS, replica_roles, unpack_replicas
from testkit.recorded.quorums import node
from testkit.running.command import kafkalog
from testkit.running.lock_holder import held

NAMES = ("broker-1", "broker-2", "broker-3", "controller")


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    unpack_replicas(tmp_path / "disks")
    return tmp_path / "disks"


def of(disks: Path, order: tuple[int, ...] | None = None) -> Triage:
    return triage(*(disks / name for name in NAMES), start_order=order)


def test_a_real_properties_file_may_be_given(disks: Path, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("process.roles=broker\nnode.id=1\nlog.dirs=a\nunclean.leader.election.enable=false\n")
    paths = [disks / name for name in NAMES]
    with_it, without = (kafkalog("triage", "--json", *more, *paths) for more in (("--server-properties", settings), ()))
    assert (with_it.code, with_it.out) == (without.code, without.out)


def test_brokers_that_start_later_are_named_and_without_any_there_is_no_order(disks: Path) -> None:
    some = kafkalog("triage", "--start-order", 2, *(disks / name for name in NAMES))
    assert "What 1, 3 would lose, starting later than these, is not shown." in some.out
    none = kafkalog("triage", disks / "controller")
    assert "No broker is known to start with these directories." in none.out
    assert "one after the other" not in none.out


def test_what_other_copies_lose_in_the_best_order_is_said_with_it(disks: Path) -> None:
    """As recorded, the old leader of `tale` truncated offsets 90 to 129 when it followed the new one."""
    said = " ".join(kafkalog("triage", *(disks / name for name in NAMES)).out.split())
    assert "a best copy leads each partition, and other copies of 1 partition lose 40 offsets." in said


def test_partitions_with_too_few_replicas_for_their_ends_to_be_read_are_named(disks: Path) -> None:
    """The only broker left of 4.3.0, with min.insync.replicas=2: OFFSET_NOT_AVAILABLE for every end."""
    log = max(path for path in (disks / "controller" / "__cluster_metadata-0").glob("*.log") if path.stat().st_size)
    fields = {"resource_type": 2, "resource_name": "tale", "name": "min.insync.replicas", "value": "2"}
    append_metadata(log, ("ConfigRecord", 0, fields))
    assert of(disks).below_min_isr == []
    paths = [disks / name for name in ("broker-1", "controller")]
    assert triage(*paths).below_min_isr == ["tale-0"]
    said = " ".join(kafkalog("triage", *paths).out.split())
    assert "Fewer replicas of 1 partition (tale-0) come up than min.insync.replicas: from Kafka 3.7 on" in said


def test_an_order_that_loses_a_whole_topic_is_not_the_best(disks: Path) -> None:
    log = min(path for path in (disks / "broker-1" / "cleaned-0").glob("*.log") if path.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    found = of(disks)
    assert partition(of(disks, found.best_order), "cleaned").outcomes[found.best_order[0]][3] == 300


def partition(found: Triage, topic: str) -> PartitionTriage:
    (each,) = (each for each in found.partitions if each.topic == topic)
    return each


@pytest.mark.parametrize("version", REPLICA_VERSIONS)
def test_what_kafka_made_of_these_disks_is_foreseen(version: str, tmp_path: Path) -> None:
    """Recorded: the new leader was started first, and the logs of `tale` afterwards."""
    disks = unpack_replicas(tmp_path / "before", version=version)
    unpack_replicas(tmp_path / "after", after=True, version=version)
    roles = replica_roles(version)
    first = roles["new_leader"]
    order = (first, *(each for each in (1, 2, 3) if each != first))
    each = partition(of(disks, order), "tale")
    assert each.leaders == (first,)
    made = {number: open_partition(tmp_path / f"after/broker-{number}/tale-0").log_end_offset() for number in (1, 2, 3)}
    assert each.outcomes == {first: made}
    loss = each.losses[first][roles["old_leader"]]
    assert (loss.start, loss.end) == (90, 130)


def test_the_order_decides_and_every_order_is_among_all(disks: Path) -> None:
    free = partition(of(disks), "tale")
    seen = set()
    for order in [(1, 2, 3), (2, 3, 1), (3, 1, 2)]:
        each = partition(of(disks, order), "tale")
        assert each.leaders == order[:1], "unclean elections are allowed"
        assert set(each.leaders) <= set(free.leaders)
        seen |= set(each.leaders)
    assert seen == set(free.leaders)


def test_a_better_copy_is_named_and_what_makes_it_lead(disks: Path) -> None:
    found = of(disks, (2, 3, 1))
    each = partition(found, "cleaned")
    assert (each.leaders, each.best, each.may_be_led_worse) == ((2,), (1, 3), True)
    assert (each.losses[2][1].start, each.losses[2][1].end) == (150, 300)
    assert each.losses[2][1].below_high_watermark == 150
    assert each.advice.what == "start_order"
    assert set(partition(of(disks, each.advice.order), "cleaned").leaders) <= set(each.best)
    assert partition(of(disks, found.best_order), "tale").leaders == partition(found, "tale").best


@pytest.mark.parametrize(("count", "expected"), [(3, (2, 3, 1)), (6, (1, 2, 3, 4, 5, 6))])
def test_orders_that_differ_after_the_first_broker_are_compared_too(count: int, expected: tuple[int, ...]) -> None:
    """Three nodes of Kafka 4.1.0: an unclean leader was elected as soon as broker 1 had come after broker 2."""
    up = list(range(1, count + 1))
    partitions: Any = [
        SimpleNamespace(topic="un", partition=0, best=(2, 3), up=up, is_better_merged=False,
                        lost_under=lambda node: 1500 if node == 1 else 0)
    ]  # fmt: skip

    def leaders(_key: object, order: tuple[int, ...], **_given: bool) -> frozenset[int]:
        return frozenset({2} if order[:2] == (2, 3) else {1})

    memory: Any = SimpleNamespace(leaders=leaders)
    nodes: Any = dict.fromkeys(up, SimpleNamespace(is_up=True))
    order, left, compared = best_order(partitions, memory, nodes, up)
    assert (order, left) == (expected, 0 if count == 3 else 1)
    assert compared == 6


def test_nothing_is_changed(disks: Path) -> None:
    before = stamps(disks)
    of(disks)
    assert first_difference(stamps(disks), before) == ""


def test_a_torn_end_is_cut_before_anybody_follows(disks: Path) -> None:
    log = max((disks / "broker-1/tale-0").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 7)
    each = partition(of(disks, (1, 2, 3)), "tale")
    assert each.leaders == (1,)
    end = each.outcomes[1][1]
    assert 90 <= end < 120
    assert each.outcomes[1] == {1: end, 2: end, 3: end}


def test_a_partition_that_is_gone_comes_up_empty(disks: Path) -> None:
    shutil.rmtree(disks / "broker-2/equal-0")
    each = partition(of(disks, (1, 2, 3)), "equal")
    assert each.logs[2].end == 0
    assert each.logs[2].path is None
    assert 2 not in each.best


def test_a_disk_that_is_held_back_keeps_its_partition_waiting(disks: Path) -> None:
    each = partition(of(disks, (1, 3)), "alone")
    assert each.leaders == (-1,)
    assert each.may_have_none
    without = triage(*(disks / name for name in NAMES if name != "broker-2"))
    assert partition(without, "alone").leaders == (-1,)
    assert without.without_disks == (2,)
    assert any("is given (2)" in each.detail for each in without.findings)


@pytest.fixture
def combined(disks: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The brokers are the controllers."""
    monkeypatch.setattr(
        sources, "kraft_memory", lambda *asked: replace(kraft_memory(*asked), voters=frozenset({1, 2, 3}))
    )
    return disks


def test_controllers_that_are_brokers_are_not_started_alone(combined: Path) -> None:
    found = of(combined)
    assert "controllers alone" not in found.first_step
    assert found.first_step == (
        "Start the brokers one after the other, and once a majority of the controllers runs, wait for longer than "
        "broker.session.timeout.ms before the next"
    )
    assert {each.leaders for each in of(combined, (1,)).partitions} == {(-1,)}, "Kafka 4.1.0 waited for the others"


def test_no_majority_of_controllers_is_held_back(combined: Path) -> None:
    """Kafka 4.1.0 never started the only broker that was not held back."""
    advice = {each.topic: each.advice for each in of(combined).partitions}
    assert all(len(each.hold_back) < 2 for each in advice.values())
    for name in NAMES[1:3]:
        for log in (combined / name / "cleaned-0").glob("*.log"):
            os.truncate(log, log.stat().st_size // 3)
    told = partition(of(combined), "cleaned").advice
    assert told.sentence() == "merge the copies before the first start"


def test_a_broker_that_does_not_start_does_not_lead(disks: Path) -> None:
    (disks / "broker-1/tale-0/leader-epoch-checkpoint").write_bytes(b"0\n1\nx 0\n")
    found = of(disks)
    assert list(found.not_starting) == [1]
    assert 1 not in partition(found, "tale").leaders
    assert FindingCode.BROKER_REFUSES in {each.code for each in found.findings}


def test_a_damaged_copy_of_the_metadata_is_told(disks: Path) -> None:
    log = max((disks / "controller/__cluster_metadata-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(bytes(data))
    ended = kafkalog("triage", "--json", *(disks / name for name in NAMES))
    assert ended.code == 1
    assert "crc_mismatch" in ended.err or "corrupt" in ended.err
    assert "Traceback" not in ended.err


def refused(*arguments: object) -> tuple[int, str]:
    ended = kafkalog("triage", *arguments)
    assert ended.out == ""
    assert len(ended.err.splitlines()) <= 2, ended.err
    return ended.code, ended.err


def test_disks_of_two_clusters_are_refused(disks: Path) -> None:
    code, words = refused(*(disks / name for name in NAMES), node("dynamic", 11))
    assert code == 3
    assert "several clusters" in words


def test_a_live_directory_is_refused(disks: Path) -> None:
    with held(disks / "broker-3/.lock"):
        code, words = refused(*(disks / name for name in NAMES))
    assert code == 3
    assert "broker-3 is locked: a broker is using it" in words
    with held(disks / "controller/.lock"), pytest.raises(RecoveryRefused, match="controller is locked"):
        of(disks)


def test_without_any_metadata_nothing_is_foreseen(disks: Path) -> None:
    for name in NAMES:
        shutil.rmtree(disks / name / "__cluster_metadata-0", ignore_errors=True)
    code, words = refused(*(disks / name for name in NAMES))
    assert code == 64
    assert "says who may lead" in words


def test_metadata_that_says_nothing_is_refused(disks: Path) -> None:
    for name in NAMES:
        for log in (disks / name / "__cluster_metadata-0").glob("*.log"):
            log.write_bytes(b"")
    code, words = refused(*(disks / name for name in NAMES))
    assert code == 3
    assert "says nothing" in words


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("1,1", "twice"),
        ("7", "not a broker"),
        ("x", "not a whole number"),
        ("", "not a whole number"),
        ("1,,2", "'' is"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(disks: Path, order: str, said: str) -> None:
    ended = kafkalog("triage", "--start-order", order, *(disks / name for name in NAMES))
    assert ended.code == 64
    assert said in ended.err


def test_a_broker_in_the_order_must_be_there(disks: Path) -> None:
    with pytest.raises(UsageError, match="none of the directories is its"):
        triage(disks / "controller", disks / "broker-1", start_order=[1, 2])


def test_only_some_topics(disks: Path) -> None:
    found = triage(*(disks / name for name in NAMES), select=Selection.of(["tale", "equal"]))
    assert [each.topic for each in found.partitions] == ["equal", "tale"]


@pytest.mark.parametrize("case_id", ["3.9.1-zk/zkhist", "2.8.2/zkhist", "1.1.1/zkhist"])
def test_with_zookeeper_only_who_is_in_the_isr_leads(case_id: str) -> None:
    found = brokers(case_id)
    zookeeper = found[0].parent / "zookeeper"
    assert zookeeper.is_dir()
    told = triage(*found, zookeeper)
    assert told.partitions
    for each in told.partitions:
        assert set(each.leaders) <= {*each.known.isr, -1}, "unclean elections are off since 0.11"
        assert {*each.outcomes} == {*each.leaders}


def broken(log: Path, at: int) -> None:
    """Content that no single bit explains, with the checksum as it was."""
    data = bytearray(log.read_bytes())
    data[at : at + 4] = bytes(each ^ 0xA5 for each in data[at : at + 4])
    log.write_bytes(data)


def poisoned(log: Path, batch: RecordBatch) -> None:
    """Its first record says that it is longer than the batch, and the checksum is that of these bytes."""
    data = bytearray(log.read_bytes())
    first, end = batch.position + BATCH.size, batch.position + batch.size
    data[first : first + 2] = b"\xfe\x7f"
    data[batch.position + 17 : batch.position + 21] = crc32c(bytes(data[batch.position + 21 : end])).to_bytes(4, "big")
    log.write_bytes(data)


def test_where_each_copy_has_damage_of_its_own_the_copies_are_merged(disks: Path) -> None:
    """Three real nodes served what their leader could read, and not what only another copy had sound."""
    before = partition(of(disks), "equal")
    for number, broker in enumerate(sorted(before.logs)):
        root = disks / f"broker-{broker}"
        (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nequal 0 {before.logs[broker].end}\n")
        log = root / "equal-0" / "00000000000000000000.log"
        broken(log, scan(log.read_bytes()).batches[number + 1].position + BATCH.size + 2)
    found = partition(of(disks), "equal")
    assert set(found.flaws.values()) == {1}
    assert (found.flawed_leaders, found.is_clean) == (found.leaders, False)
    assert found.advice.sentence() == "merge the copies before the first start"
    assert of(disks).worse_in_best_order > 0
    text = " ".join(kafkalog("triage", disks).out.split())
    assert "advised below (no other order of starts is better)" in text


@pytest.mark.parametrize("how", ["damage", "poison"])
def test_of_logs_that_end_alike_the_one_without_flaws_is_the_best(how: str, disks: Path) -> None:
    """An election looks at none of them, and whoever follows fetches nothing below its own end."""
    before = partition(of(disks), "equal")
    assert len(before.best) > 1
    assert before.flawed_leaders == ()
    (node,) = set(before.best).intersection(before.leaders)
    end = before.logs[node].end
    root = disks / f"broker-{node}"
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n1\nequal 0 {end}\n")
    log = root / "equal-0" / "00000000000000000000.log"  # not the last, which a start after a crash examines
    batch = scan(log.read_bytes()).batches[1]
    if how == "damage":
        broken(log, batch.position + BATCH.size + 2)
    else:
        poisoned(log, batch)
    found = partition(of(disks), "equal")
    assert (set(found.best), found.flaws[node]) == (set(before.best) - {node}, 1)
    assert (found.leaders, found.flawed_leaders, found.is_clean) == ((node,), (node,), False)
    shown = kafkalog("triage", *(disks / name for name in NAMES))
    assert f"{node} is damaged in 1 place" in " ".join(shown.out.split())


def test_a_copy_that_can_no_longer_be_read_is_not_without_flaws(disks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = partition(of(disks), "equal")
    node, real_open = found.best[0], os.open
    log = str(disks / f"broker-{node}" / "equal-0" / "00000000000000000000.log")

    def opened(path: str, *arguments: Any, **named: Any) -> int:
        if str(path) == log:
            raise OSError(errno.EIO, os.strerror(errno.EIO), log)
        return real_open(path, *arguments, **named)

    monkeypatch.setattr(os, "open", opened)
    assert flaws_of(found.logs, DEFAULT_LIMITS).places == {each: int(each == node) for each in found.logs}
