"""What brokers would delete at their first start: counted from recorded disks, at times before and after it is due."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.jobs.quorum.expiry import Expiry, expiry_of
from kafkalog.log import Log, LogConfig, NewRecord, open_log_dir, open_partition
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.recorded.quorums import BROKER, METADATA, copied, node
from testkit.running.command import kafkalog

HOUR, DAY = 3_600_000, 86_400_000
WEEK = 7 * DAY


def found(now: int, static: dict[str, str] | None = None, roots: bool = True) -> dict[tuple[str, str, str], Expiry]:
    directory = node("dynamic", BROKER)
    image = MetadataLog(open_partition(directory / METADATA)).state().image
    told = expiry_of(image, [(str(directory), BROKER)] if roots else [], static or {}, now)
    return {(each.kind, each.name, each.setting): each for each in told}


def newest(topic: str) -> int:
    directory = node("dynamic", BROKER)
    return max(record.timestamp for record in open_partition(directory / f"{topic}-0").records())


def test_a_topic_keeps_its_records_for_exactly_its_retention() -> None:
    last = newest("orders")
    key = ("topic", "orders", "retention.ms")
    assert key not in found(last + HOUR)
    each = found(last + HOUR + 1)[key]
    assert (each.partition, each.count, each.value, each.origin) == (0, 1, str(HOUR), "topic")
    assert each.bytes == sum(path.stat().st_size for path in (node("dynamic", BROKER) / "orders-0").glob("*.log"))
    assert each.path == str(node("dynamic", BROKER) / "orders-0")


def test_without_a_setting_of_its_own_the_brokers_counts_and_else_kafkas_default() -> None:
    last = newest("later")
    key = ("topic", "later", "retention.ms")
    assert key not in found(last + WEEK)
    assert found(last + WEEK + 1)[key].origin == "default"
    assert found(last + HOUR + 1, {"log.retention.hours": "1"})[key].origin == "given"
    assert key not in found(last + WEEK + 1, {"log.retention.ms": "-1"})
    assert ("topic", "orders", "retention.ms") in found(last + WEEK + 1, {"log.retention.ms": "-1"})


def test_a_segment_without_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    """`LogSegment.largestTimestamp`: the time of the last modification if no record has a timestamp."""
    root = copied("dynamic", tmp_path, BROKER)[BROKER]
    image = MetadataLog(open_partition(root / METADATA)).state().image
    shutil.rmtree(root / "later-0")
    with Log.open(root / "later-0", LogConfig(message_format_version="0.9.0")) as log:
        log.append([NewRecord(b"without a timestamp")])
    os.utime(root / "later-0" / "00000000000000000000.log", (DAY, DAY))

    def count(now: int, static: dict[str, str] | None = None) -> list[int | None]:
        told = expiry_of(image, [(str(root), BROKER)], static or {}, now)
        return [each.count for each in told if (each.name, each.setting) == ("later", "retention.ms")]

    modified = DAY * 1000
    assert count(modified + WEEK) == []
    assert count(modified + WEEK + 1) == [1]
    assert count(modified + 2 * WEEK, {"log.retention.ms": str(2**63 - 1)}) == []


def test_size_counts_too() -> None:
    assert ("topic", "later", "retention.bytes") not in found(newest("later"), {"log.retention.bytes": "1000000"})
    assert found(newest("later"), {"log.retention.bytes": "0"})["topic", "later", "retention.bytes"].count == 1


def test_offsets_of_a_group_without_members() -> None:
    key = ("group", "billing", "offsets.retention.minutes")
    now = newest("later")
    assert key not in found(now)
    each = found(now + WEEK + HOUR)[key]
    assert (each.count, each.origin) == (1, "default")
    assert key not in found(now + WEEK + HOUR, {"offsets.retention.minutes": "2147483647"})


@pytest.mark.parametrize("case", ["4.1.1/txn", "4.3.0/txn"])
def test_transactional_ids(case: str) -> None:
    directory = brokers(case)[0]
    image = MetadataLog(open_partition(directory / METADATA)).state().image
    lines = kafkalog("transactions", "--json", directory).objects
    ended = ("CompleteCommit", "CompleteAbort", "Empty")
    ids = {line["transactionalId"] for line in lines if line.get("state") in ended}
    assert ids

    def gone(now: int) -> set[str]:
        told = expiry_of(image, [(str(directory), None)], {}, now)
        return {each.name for each in told if each.kind == "transactional_id"}

    assert gone(0) == set()
    assert gone(4_000_000_000_000) == ids


def test_without_a_brokers_directory_the_settings_are_told() -> None:
    now = newest("orders")
    told = found(now, roots=False)
    assert told["topic", "orders", "retention.ms"].count is None
    assert told["topic", "orders", "retention.ms"].value == str(HOUR)
    assert told["topic", "later", "retention.ms"].origin == "default"
    assert ("topic", "later", "retention.ms") not in found(now, {"log.retention.ms": "-1"}, roots=False)
    assert ("group", "*", "offsets.retention.minutes") in told


def test_the_plan_says_so_and_how_to_prevent_it(tmp_path: Path) -> None:
    late = newest("orders") + WEEK + DAY
    words = ("--others-are-gone", "--from-broker", node("dynamic", BROKER), "--node", 9, "--endpoint", "h:1")
    finished = kafkalog("quorum", "recover", "--dry-run", *words, "--into", tmp_path / "new", "--at", late)
    assert finished.code == 0
    assert "topic orders-0: 1 segment of 1" in finished.out
    assert "log.initial.task.delay.ms=" in finished.out
    early = kafkalog(
        "quorum", "recover", "--dry-run", *words, "--into", tmp_path / "new", "--at", newest("orders"),
        "--config", "offsets.retention.minutes=100000",
    )  # fmt: skip
    assert "brokers delete" not in early.out
    assert not (tmp_path / "new").exists()


def test_further_log_directories_of_a_broker_are_counted_too(tmp_path: Path) -> None:
    late = newest("orders") + WEEK + DAY
    other = copied("dynamic", tmp_path, BROKER)[BROKER]
    shutil.rmtree(other / METADATA)
    words = ("--others-are-gone", "--standalone", node("dynamic", 1), "--broker", other, "--at", late)
    finished = kafkalog("quorum", "recover", "--dry-run", "--json", *words)
    assert finished.code == 0, finished.err
    told = {(each["name"], each["path"]) for each in finished.objects[0]["expiry"] if each["kind"] == "topic"}
    assert ("orders", str(other / "orders-0")) in told


def test_of_a_compacted_topic_only_what_the_cleaner_removes_is_listed(tmp_path: Path) -> None:
    """It never cleans the active segment, and removes a record only for a later one of its key."""
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    image = MetadataLog(open_partition(root / METADATA)).state().image
    told = expiry_of(image, [(str(root), None)], {"log.cleanup.policy": "compact"}, 0)
    listed = {f"{each.name}-{each.partition}" for each in told if each.setting == "delete.retention.ms"}
    expected = set()
    for topic, number in open_log_dir(root):
        partition = open_partition(root / f"{topic}-{number}")
        closed = [each for each in partition.records() if each.offset < partition.segments[-1].base_offset]
        keys = {each.key for each in closed if each.value is not None}
        if f"{topic}-{number}" != METADATA and len(keys) < len(closed):
            expected.add(f"{topic}-{number}")
    assert listed == expected
    assert 0 < len(listed) < len([*root.glob("*-*/*.snapshot")])


def test_lines_that_the_properties_have_are_not_asked_for(tmp_path: Path) -> None:
    """A node that is the only controller and the only broker; its file is the only one."""
    directory = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    (directory / METADATA / "quorum-state").write_text("garbage")
    words = ("quorum", "recover", "--dry-run", "--standalone", directory)
    (line,) = (each.strip() for each in kafkalog(*words).lines if each.startswith("  controller.quorum."))
    file = tmp_path / "server.properties"
    for has in (True, False):
        file.write_text(f"node.id=12\nprocess.roles=broker,controller\n{line if has else ''}\n")
        printed = kafkalog(*words, "--properties", file)
        assert printed.code == 0, printed.err
        assert (line in printed.out) is not has
