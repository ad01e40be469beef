"""What a replay would do, from the files alone; and with which settings topics are made."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafkalog.codec.common.errors import RecoveryRefused, UnknownName, UsageError
from kafkalog.log import open_all
from kafkalog.recovery.checks.verify import verify
from kafkalog.replay import Replay, plan_replay, target
from kafkalog.replay.retention import settings_for
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog as command

NOW = 1_900_000_000_000
(TXN,) = brokers("4.1.1/txn")
(COMPACT,) = brokers("4.1.1/compact")


def test_old_records_are_told_and_kept() -> None:
    plan = plan_replay(Replay(now=NOW), TXN)
    assert plan.topics
    assert not plan.damaged
    for topic in plan.topics:
        ends = {number: partition.log_end_offset() for number, partition in topic.partitions.items()}
        assert topic.settings.expired == sum(ends.values())
        assert topic.settings.written["retention.ms"] == topic.settings.written["retention.bytes"] == "-1"
        assert topic.settings.put_back["retention.ms"] == "604800000"
    before = plan_replay(Replay(now=0), TXN)
    assert all(topic.settings.expired == 0 for topic in before.topics)


def test_a_compacted_topic_is_not_compacted_at_once() -> None:
    plan = plan_replay(Replay(now=NOW), COMPACT)
    compacted = [topic for topic in plan.topics if topic.settings.is_compacted]
    assert compacted
    for topic in compacted:
        assert topic.settings.written["min.compaction.lag.ms"] == str(2**63 - 1)
        assert "compact" in topic.settings.written["cleanup.policy"]


def test_old_settings_need_consent() -> None:
    options = Replay(now=NOW, keep_settings=True)
    plan = plan_replay(options, TXN)
    assert all(topic.settings.written.get("retention.ms") != "-1" for topic in plan.topics)
    with pytest.raises(RecoveryRefused, match="would at once delete or compact"):
        plan.refuse(options)
    plan.refuse(Replay(now=NOW, keep_settings=True, accept_loss=True))


def test_damage_needs_consent(tmp_path: Path) -> None:
    copy = own_copy(TXN, tmp_path / "copy")
    partition = next(each for each in open_all(copy).readable() if not (each.topic or "__").startswith("__"))
    log = Path(partition.segments[0].path)
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 0xFF
    log.write_bytes(content)
    plan = plan_replay(copy)
    with pytest.raises(RecoveryRefused, match=r"1 partition.*are damaged.*kafkalog recover"):
        plan.refuse(Replay())
    finished = command("replay", "--bootstrap-server", "127.0.0.1:1", copy, "--yes")
    assert finished.code == 3
    assert "Recover them first" in finished.err


def test_names_in_the_target() -> None:
    names = [topic.name for topic in plan_replay(TXN).topics]
    options = Replay(renamed={names[0]: "other"}, prefix="old.")
    assert [topic.target for topic in plan_replay(options, TXN).topics] == [
        "other", *(f"old.{name}" for name in names[1:]),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=f"two topics would become {names[1]}"):
        plan_replay(Replay(renamed={names[0]: names[1]}), TXN)


def test_a_directory_without_topics_of_users(tmp_path: Path) -> None:
    for name in ("__consumer_offsets-0", "meta.properties"):
        source, target = TXN / name, tmp_path / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    with pytest.raises(UsageError, match="no topic of a user"):
        plan_replay(tmp_path)


def test_settings_that_no_cluster_takes_over_are_left_out() -> None:
    old = {"message.format.version": "2.8", "segment.bytes": "1000", "message.timestamp.type": "LogAppendTime"}
    found = settings_for(old, (), NOW, further={"segment.bytes": "2000"})
    assert found.left_out == {"message.format.version": "2.8"}
    assert found.written["segment.bytes"] == "2000"
    assert found.written["message.timestamp.type"] == "CreateTime", "the time of the replay is nobody's"
    assert found.put_back["message.timestamp.type"] == "LogAppendTime"


def test_without_an_answer_nothing_is_done() -> None:
    finished = command("replay", "--json", "--bootstrap-server", "127.0.0.1:1", TXN)
    assert finished.code == 3
    assert {each["kind"] for each in finished.objects} == {"topic", "progress", "waiting"}
    assert "--yes" in finished.err


def test_a_cluster_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_TIMEOUT", 2.0)
    finished = command(
        "replay", "--bootstrap-server", "127.0.0.1:1", TXN, "--yes", "--map", tmp_path / "m.parquet",
    )  # fmt: skip
    assert finished.code == 4
    assert "cannot reach the cluster" in finished.err
    assert "Traceback" not in finished.err
    assert list(tmp_path.iterdir()) == []


def test_files_that_no_consumer_reads_are_no_damage(tmp_path: Path) -> None:
    """A wrong index is reported by `verify`, and hides no record."""
    copy = own_copy(TXN, tmp_path / "copy")
    indexes = [each for each in copy.glob("*/*.txnindex") if not each.parent.name.startswith("__")]
    assert indexes
    for each in indexes:
        each.write_bytes(b"\xff" * 34)
    assert verify(copy).findings
    plan = plan_replay(copy)
    assert not plan.damaged
    plan.refuse(Replay())


def test_a_new_name_for_a_topic_that_is_not_there() -> None:
    with pytest.raises(UnknownName, match="there is no topic 'nobodys'"):
        plan_replay(Replay(renamed={"nobodys": "other"}), TXN)


def test_what_is_the_same_of_several_topics_is_said_once() -> None:
    done = command("replay", "--bootstrap-server", "x:1", "--at", NOW, TXN)
    names = sorted(topic.name for topic in plan_replay(TXN).topics)
    assert len(names) > 1
    lines = done.out.splitlines()
    (said,) = [line for line in lines if "to put back later" in line]
    words = "all topics: if it is made, it is so that nothing expires; to put back later: retention.ms=604800000 ("
    assert said.startswith(words)
    assert "there" not in lines[1]
    assert all(line.split().count(name) == 1 for line, name in zip(lines[2:], names, strict=False))


def test_a_default_is_told_from_an_own_value() -> None:
    own = settings_for({"retention.ms": "1000"}, (), NOW)
    assert (own.put_back, "retention.ms" in own.assumed) == ({"retention.ms": "1000"}, False)
    assert "retention.ms" in settings_for({}, (), NOW).assumed


@pytest.mark.parametrize("policy", ["compact, delete", "delete , compact", " compact"])
def test_policies_with_spaces_count(policy: str) -> None:
    """A real 4.1.1 accepted these, and its metadata log had them with their spaces."""
    logs = [each.listed for topic in plan_replay(Replay(now=NOW), TXN).topics for each in topic.partitions.values()]
    found = settings_for({"cleanup.policy": policy}, logs, NOW)
    assert found.is_compacted
    assert found.written["min.compaction.lag.ms"] == str(2**63 - 1)
    assert (found.expired > 0) is ("delete" in policy)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"x", b"1"), (b"[]", b"{}"), (b'{"topic":"t","partition":Infinity}', b'{"next_offset":1}'),
        (b"[" * 100_000, b"{}"),
    ],
)  # fmt: skip
def test_a_record_of_others_among_the_progress_is_refused(key: bytes, value: bytes) -> None:
    message = SimpleNamespace(key=lambda: key, value=lambda: value, offset=lambda: 5)
    with pytest.raises(RecoveryRefused, match="has a record at offset 5 that this replay did not write"):
        target._read_progress("progress", message)
