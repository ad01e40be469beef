"""Metadata and logs that were restored from older copies, and what is said of them.

Expected is what real brokers did. With metadata of yesterday 3.9.1 and 4.3.0, and 3.9.1 with ZooKeeper, gave new
producers ids that the logs had, and acknowledged 90 records of which none was written.

With `__transaction_state` of yesterday 3.9.1 and 4.1.1 served ids that were new or as old as their logs. An id one
epoch back had its first transaction acknowledged and not written (two records, as in the last one in the log), or
refused with OUT_OF_ORDER_SEQUENCE_NUMBER (another number of them), and worked from its second start on. Further back
the first transaction was refused (INVALID_PRODUCER_EPOCH). From three epochs back on (librdkafka), or two (the Java
producer of 3.9.1), every later start got CONCURRENT_TRANSACTIONS, also after the broker's; the Java producer of 4.1.1
worked after one to four failed starts. New ids worked on the same partitions, and so did all ids with the newer
`__transaction_state` put back before the start.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.transactions.transactions import read_transactions
from kafkalog.codec.encode import build_batch
from kafkalog.codec.encode.batch import ProducerState
from kafkalog.codec.files.index_files import encode_producer_snapshot
from kafkalog.codec.model import ProducerEntry, Record, TimestampType
from kafkalog.log import open_partition
from kafkalog.log.directories.partition import open_live
from kafkalog.recovery.broker.node.answer import ConsequenceKind, NodeAnswer, StartOutcome
from kafkalog.recovery.broker.node_start import node_start
from testkit.kafka.start_records import append_metadata, partition_change
from testkit.recorded.broker_dirs import brokers, own_copy, unpacked
from testkit.running.command import kafkalog

METADATA = "__cluster_metadata-0"
HOUR = 60 * 60 * 1000


def now() -> int:
    return time.time_ns() // 1_000_000


def producers(partition: Path, *ids: int, epoch: int = 0, timestamp: int | None = None) -> None:
    """Write the producer snapshot of a log that was stopped in order."""
    for path in partition.glob("*.snapshot"):
        path.unlink()
    path = partition / f"{open_partition(partition).log_end_offset():020d}.snapshot"
    at = now() if timestamp is None else timestamp
    entries = [ProducerEntry(each, epoch, 29, 4, 0, at, 0, -1) for each in ids]
    path.write_bytes(encode_producer_snapshot(entries))


def allocate(root: Path, next_producer_id: int) -> None:
    """Record the allocation of a block of producer ids in the metadata."""
    log = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    log.chmod(0o600)
    record = {"broker_id": 3, "broker_epoch": 1, "next_producer_id": next_producer_id}
    append_metadata(log, ("ProducerIdsRecord", 0, record))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A combined node of 4.3.0, the only one of its cluster; it has allocated the producer ids below 1000."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    allocate(root, 1000)
    return root


def logs(root: Path) -> list[Path]:
    """Live partitions with records and a producer snapshot."""
    found = [path.parent for path in sorted(root.glob("[a-z]*-[0-9]/*.snapshot"))]
    return [each for each in found if any(path.stat().st_size for path in each.glob("*.log"))]


def answer(root: Path, release: str = "4.3", **more: Any) -> NodeAnswer:
    return node_start([str(root)], release=release, **more).answers[0]


def kinds(found: NodeAnswer) -> set[ConsequenceKind]:
    return {consequence.kind for consequence in found.consequences}


def test_producer_ids_that_the_metadata_hands_out_again_are_an_error(data: Path) -> None:
    first, second, *_others = logs(data)
    producers(first, 999, 1002)
    producers(second, 1000)
    found = answer(data)
    assert found.outcome is StartOutcome.OVERWRITES_METADATA
    (reused,) = [each for each in found.consequences if each.kind is ConsequenceKind.PRODUCER_IDS_REUSED]
    assert reused.names == (first.name, second.name)
    for command in (["verify", data], ["plan", data], ["report", data, "--format", "text", "-o", "-"]):
        finished = kafkalog(*command)
        words = " ".join((finished.out + finished.err).split())
        assert "batches of new producers are dropped as duplicates though acknowledged, or refused: the" in words
        assert f"from 1000 on, and logs here have ids up to 1002 already ({first.name})" in words
        assert "above that (runbook: kraft-files)" in words
        assert "metadata is older than the logs, or these are of another cluster (its next producer id is" in words
        assert "error: start_loses" in words
        assert finished.code == 1
    finished = kafkalog("triage", data)
    words = " ".join(finished.out.split())
    assert "Apart from the elections, batches of new producers are dropped as duplicates though" in words
    assert finished.code == 1


def test_after_a_recovery_the_start_is_said_as_its_plan_says_it(data: Path) -> None:
    """The logs were not read again, and what they know of producers was left out: nothing was said to change."""
    first, *_others = logs(data)
    log = max(first.glob("*.log"))
    log.chmod(0o600)
    end = open_partition(first).log_end_offset()
    record = Record(end, now(), TimestampType.CREATE_TIME, None, b"value")
    batch = build_batch([record], producer=ProducerState(1002, 0, 0))
    log.write_bytes(log.read_bytes() + batch + batch[:30])
    (data / ".kafka_cleanshutdown").unlink()
    screen, _, details = kafkalog("plan", data, columns=2000).out.partition("\n\n")
    would = "Kafka 4.3 and later would start on it, and batches of new producers are dropped"
    (start,) = [line for line in screen.splitlines() if line.startswith(would)]
    advice = "before a start, look for a newer copy of the metadata (runbook: kraft-files); type this ("
    assert screen.splitlines()[-2].startswith(advice)
    assert "sessions-41 is compacted: of a key" in screen + details
    text = " ".join(kafkalog("report", data, "--format", "text", "-o", "-").out.split())
    assert text.index(advice) < text.index("kafkalog recover")
    page = kafkalog("report", data, "-o", "-").out
    assert page.index(advice[1:].removesuffix(" (")) < page.index(f"kafkalog recover {data}")
    done = kafkalog("recover", "--yes", data, columns=2000)
    closing = done.out.partition("\nrecovered ")[2]
    assert done.code == 2
    assert f"a broker changes nothing in these logs, but {start}" in closing
    assert "sessions-41 is compacted: of a key" in closing
    assert start in kafkalog("plan", data, columns=2000).out


def start_on_first_screen(*command: object) -> str:
    """What the first screen says about the start and its losses, in one line."""
    lines = kafkalog(*command).out.splitlines()
    return " ".join(" ".join(lines[1 : lines.index("")]).split()).partition("type this")[0]


def test_a_report_has_the_first_screen_of_a_plan(data: Path, tmp_path: Path) -> None:
    """It asked about each directory of the node apart, and told as many different starts."""
    other = tmp_path / "other"
    other.mkdir()
    meta = (data / "meta.properties").read_text()
    (line,) = (line for line in meta.splitlines() if line.startswith("directory.id="))
    (other / "meta.properties").write_text(meta.replace(line, "directory.id=QLzt-g_BuAkWCE5UuGwm5Q"))
    (other / ".kafka_cleanshutdown").write_bytes((data / ".kafka_cleanshutdown").read_bytes())
    first, second, *_others = logs(data)
    producers(first, 1002)
    producers(second, 1003)
    second.rename(other / second.name)
    for path in data.glob("*-offset-checkpoint"):
        path.unlink()
    planned = start_on_first_screen("plan", data, other)
    assert f"logs here have ids up to 1003 already ({second.name})" in planned
    assert start_on_first_screen("report", data, other, "--format", "text", "-o", "-") == planned


def test_later_leader_epochs_show_that_the_metadata_is_older(data: Path) -> None:
    """A controller records an epoch before a leader writes with it; metadata of yesterday does not have it."""
    image = MetadataLog(open_partition(data / METADATA)).state().image
    first, *_others = logs(data)
    topic, _, number = first.name.rpartition("-")
    known = image.topics[topic].partitions[int(number)].leader_epoch
    log = max(first.glob("*.log"))
    end = open_partition(first).log_end_offset()
    record = Record(end, now(), TimestampType.CREATE_TIME, None, b"value")
    log.write_bytes(log.read_bytes() + build_batch([record], partition_leader_epoch=known + 3))
    checkpoint = first / "leader-epoch-checkpoint"
    version, count, *entries = checkpoint.read_text().splitlines()
    checkpoint.unlink()
    checkpoint.write_text("\n".join([version, str(int(count) + 1), *entries, f"{known + 3} {end}", ""]))
    (data / ".kafka_cleanshutdown").unlink()
    older = f"the metadata is older than the logs ({first.name}: leader epoch {known + 3}, known {known}): look for a"
    for command in ("plan", "verify", "triage"):
        assert older in " ".join(kafkalog(command, data).out.split())
    shown = kafkalog("quorum", "show", data)
    sign = f"{first} has leader epoch {known + 3}, and this metadata knows {known}"
    assert f"warning: metadata_inconsistent ({data / METADATA}" in shown.err
    assert f"it is older than other files here: {sign}" in " ".join(shown.err.split())
    assert (kafkalog("triage", data).code, shown.code) == (1, 1)


def test_ids_of_earlier_blocks_and_of_producers_that_have_expired_do_not_count(data: Path) -> None:
    first, *_others = logs(data)
    producers(first, 999)
    assert ConsequenceKind.PRODUCER_IDS_REUSED not in kinds(answer(data))
    producers(first, 1002, timestamp=now() - 25 * HOUR)
    assert ConsequenceKind.PRODUCER_IDS_REUSED not in kinds(answer(data))
    assert "Apart from the elections" not in kafkalog("triage", data).out
    longer = {"producer.id.expiration.ms": str(26 * HOUR)}
    assert ConsequenceKind.PRODUCER_IDS_REUSED in kinds(answer(data, properties=longer))


def test_without_an_allocated_block_any_id_is_handed_out_again(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    assert MetadataLog(open_partition(root / METADATA)).state().image.next_producer_id == -1
    producers(logs(root)[0], 7)
    detail = next(each.detail for each in answer(root).consequences if each.kind.value == "producer_ids_reused")
    assert "from 0 on, and logs here have ids up to 7 already" in detail


def test_the_metadata_in_zookeeper_is_compared_too(tmp_path: Path) -> None:
    cluster = own_copy(unpacked("3.9.1-zk/zkhist"), tmp_path / "cluster")
    root = next(each for each in sorted(cluster.glob("broker-*")) if list(each.glob("[a-z]*-*/*.snapshot")))
    zookeeper = cluster / "zookeeper"
    known = [json.loads(line) for line in kafkalog("zk", zookeeper, "--json").out.splitlines()]
    assert any(each["path"].endswith("/latest_producer_id_block") for each in known)
    partition = next(path.parent for path in sorted(root.glob("[a-z]*-*/*.snapshot")))
    producers(partition, 10**9)
    finished = kafkalog("plan", root, zookeeper)
    words = " ".join(finished.out.split())
    assert "dropped as duplicates though acknowledged, or refused: the metadata hands out ids from" in words
    assert f"logs here have ids up to 1000000000 already ({partition.name})" in words
    assert "above that (runbook: zookeeper-lost)" in words
    assert "the metadata in ZooKeeper is older than the logs, or these are of another cluster (its next" in words
    assert "error: start_loses" in words
    assert "dropped as duplicates" in kafkalog("triage", *sorted(cluster.glob("broker-*")), zookeeper).out


def last_epoch(partition: Path) -> int:
    entries = (partition / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    return int(entries[-1].split()[0]) if entries else 0


def older(partition: Path) -> None:
    """Make a log forget all leader epochs but the first."""
    checkpoint = partition / "leader-epoch-checkpoint"
    checkpoint.unlink()
    checkpoint.write_text("0\n1\n0 0\n")


def test_every_log_that_is_older_than_the_metadata_is_named_and_counted(data: Path) -> None:
    names = [each.name for each in sorted(data.glob("[a-z]*-[0-9]")) if last_epoch(each) > 0][:5]
    assert len(names) == 5
    for name in names:
        older(data / name)
    checkpoint = data / "replication-offset-checkpoint"
    version, count, *lines = checkpoint.read_text().splitlines()
    at = names[0].removesuffix("-0")
    end = next(int(line.split()[2]) for line in lines if line.split()[0] == at)
    checkpoint.unlink()
    changed = [f"{at} 0 {end + 41}" if line.split()[0] == at else line for line in lines]
    checkpoint.write_text("\n".join([version, count, *changed]) + "\n")
    lacking = next(fault for fault in answer(data).faults if fault.file.endswith(names[0]))
    assert lacking.lacks == 41
    every = " ".join(kafkalog("plan", "--all", data).out.split())
    for name in names:
        assert f"warning: metadata_inconsistent ({name}): the log is older than the metadata" in every
    assert "lost beside it: an unknown number of records, perhaps none, at the end of 3 partitions (alerts-25-" in every
    found = [json.loads(line) for line in kafkalog("verify", data, "--json").out.splitlines()]
    told = {
        Path(finding["file"]).name
        for line in found
        for finding in line.get("findings", ())
        if finding["code"] == "metadata_inconsistent"
    }
    assert told == set(names)


def led_again(root: Path, topic: str) -> None:
    """Write a later leader epoch of every partition of a topic into the metadata, as after a restart of the broker."""
    image = MetadataLog(open_partition(root / METADATA)).state().image
    log = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    log.chmod(0o600)
    (node,) = image.brokers
    for number in image.topics[topic].partitions:
        name, version, fields = partition_change(image.topics[topic].id)
        append_metadata(log, (name, version, {**fields, "partition_id": number, "leader": node}))


@pytest.mark.parametrize(
    ("more", "whose"), [(1, "(tx-1: by 1)"), (5, "(tx-1: by 5)"), (0, "(ids whose newest epoch is lost with it)")]
)
def test_transactional_ids_whose_epoch_goes_back_are_named(tmp_path: Path, more: int, whose: str) -> None:
    """The coordinator has tx-1 as producer 1 in epoch 8."""
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").touch()
    for _time in range(2):
        led_again(root, "__transaction_state")
    producers(logs(root)[0], 1, epoch=8 + more)
    found = answer(root)
    (detail,) = [each.detail for each in found.consequences if "transactional ids" in each.detail]
    refused = f"transactional ids go back to used epochs {whose}: what they write next is refused or dropped, perhaps"
    assert f"{refused} forever (new ids avoid it)" in detail
    for command in ("plan", "verify", "triage"):
        finished = kafkalog(command, root)
        assert f"go back to used epochs {whose}" in " ".join(finished.out.split())
        assert (finished.code, "broker_refuses" in finished.out + finished.err) == (1, False), "it starts"


@pytest.mark.parametrize("case", ["later epoch", "same epoch", "expired", "torn coordinator"])
def test_a_producers_epoch_shows_that_the_coordinators_log_is_older_after_a_kill_too(case: str, tmp_path: Path) -> None:
    """4.1.1 refused the first transaction of such an id (OUT_OF_ORDER_SEQUENCE_NUMBER)."""
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    of_ids = read_transactions(list(open_live("__transaction_state", str(root), os.listdir(root)))).ids
    (known,) = (each for each in of_ids if each.transactional_id == "tx-1")
    log = max(path for path in logs(root)[0].glob("*.log") if path.stat().st_size)
    record = Record(open_partition(log.parent).log_end_offset(), now(), TimestampType.CREATE_TIME, None, b"value")
    producer = ProducerState(known.producer_id, known.producer_epoch + (case != "same epoch"), 0, is_transactional=True)
    if case == "expired":
        (root / ".kafka_cleanshutdown").touch()
        producers(log.parent, producer.producer_id, epoch=producer.producer_epoch, timestamp=now() - 25 * HOUR)
    else:
        log.chmod(0o600)
        log.write_bytes(log.read_bytes() + build_batch([record], producer=producer))
    if case == "torn coordinator":
        own = max((root / f"__transaction_state-{known.log_partition}").glob("*.log"))
        own.chmod(0o600)
        own.write_bytes(own.read_bytes()[:-5])
    report = ["report", root, "--format", "text", "-o", "-"]
    for command in (["verify", root], ["plan", root], report):
        finished = kafkalog(*command)
        words = " ".join(finished.out.split())
        said = "transactional ids go back to used epochs (tx-1: by 1): what they write next is refused" in words
        assert said == ("go back to used epochs" in words and "may go back" not in words) == (case == "later epoch")
        assert ("ids may go back" in words) == (case == "torn coordinator" and command != ["verify", root])
        assert finished.code == 1 or case != "later epoch"


def test_groups_whose_commits_go_back_are_named(tmp_path: Path) -> None:
    """`txgrp` has all commits of this node, in partition 1. 4.1.1 served the commits of an older copy."""
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").touch()
    for _time in range(2):
        led_again(root, "__consumer_offsets")
    again = "groups txgrp may read records again: their commits are those of an older copy (__consumer_offsets-0, __"
    report = ["report", root, "--format", "text", "-o", "-"]
    for command in (["verify", root], ["plan", root], report, ["triage", root]):
        assert again in " ".join(kafkalog(*command).out.split())


def test_a_report_does_not_call_older_logs_no_loss(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").touch()
    for _time in range(2):
        led_again(root, "__transaction_state")
    next(logs(root)[0].glob("*.index")).unlink()
    page = " ".join(kafkalog("report", root, "-o", "-").out.split())
    assert "The plan itself loses nothing:" in page
    assert "Nothing is lost either way" not in page
    assert "__transaction_state-0" in page.partition(">Affected<")[2][:300]
