"""Tiered logs brought back from the remote tier, and its events from its objects."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cluster.records.framed_records import decode_remote_log_metadata
from kafkalog.codec.files.text import decode_offset_checkpoint, encode_offset_checkpoint
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import scan
from kafkalog.jobs.restore.events import RemoteMetadataRebuild, metadata_partition, rebuild_remote_metadata
from kafkalog.recovery.checks.verify import verify
from kafkalog.tiers.metadata import RemoteMetadata, read_remote_metadata
from kafkalog.tiers.segments import RemoteSegmentState
from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import TIERED_CASES, tiered_case
from testkit.running.command import kafkalog as command


def as_read(name: str, directory: str) -> list[tuple[int, bytes | None]]:
    rows = tiered_case(name).expected("read_uncommitted")[directory]
    return [(row["offset"], None if row["value"] is None else base64.b64decode(row["value"])) for row in rows]


def local(root: Path, directory: str) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in kafkalog.open_partition(root / directory).records()]


def brought_back(tmp_path: Path, broker: Path, name: str = "stopped") -> Path:
    into = tmp_path / "into"
    before = stamps(broker)
    done = command("recover", broker, *tiered_case(name).options(tmp_path), "--into", into, "--yes")
    assert done.code == 0, done.err
    assert stamps(broker) == before
    return into


@pytest.mark.parametrize(("name", "volume"), [("stopped", "broker"), ("returned", "broker-2"), ("aiven", "broker")])
def test_logs_are_whole_without_the_remote_tier(name: str, volume: str, tmp_path: Path) -> None:
    case = tiered_case(name)
    case.unpack(tmp_path)
    into = brought_back(tmp_path, tmp_path / volume, name)
    for directory in case.bounds:
        assert local(into, directory) == as_read(name, directory)
        assert kafkalog.open_partition(into / directory).log_start_offset == case.bounds[directory][0]
    assert [each for each in verify(into).findings if each.severity != "info"] == []
    assert not kafkalog.plan(into)[0].changes


@pytest.mark.parametrize("gone", [(1501,), (1501, 1875), (1875,)])
def test_segments_that_are_missing_at_the_end_or_before_others_come_back(gone: tuple[int, ...], tmp_path: Path) -> None:
    case = tiered_case("stopped")
    case.unpack(tmp_path)
    broker = tmp_path / "broker"
    for base in gone:
        for path in (broker / "tiered-0").glob(f"{base:020}.*"):
            path.unlink()
    if gone == (1875,):  # a log that ends too early, between two batches
        log = broker / "tiered-0" / f"{1501:020}.log"
        batches = scan(log.read_bytes()).batches
        with log.open("r+b") as file:
            file.truncate(batches[len(batches) // 2].position)
    expected = as_read("stopped", "tiered-0")
    own = [each for each in expected if 1875 not in gone or each[0] < 1875]
    assert local(brought_back(tmp_path, broker), "tiered-0") == own


def test_damage_and_whole_logs_that_are_lost(tmp_path: Path) -> None:
    """What was never copied is lost with the disk; everything else is there again."""
    case = tiered_case("stopped")
    case.unpack(tmp_path)
    broker = tmp_path / "broker"
    shutil.rmtree(broker / "tiered-1")
    shutil.rmtree(broker / "cut-0")
    hurt = broker / "tiered-0" / f"{1119:020}.log"
    data = bytearray(hurt.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 60] = bytes(60)
    hurt.write_bytes(data)
    into = brought_back(tmp_path, broker)
    assert local(into, "tiered-0") == as_read("stopped", "tiered-0")
    assert local(into, "tiered-1") == as_read("stopped", "tiered-1")[:1892]
    assert local(into, "cut-0") == [row for row in as_read("stopped", "cut-0") if row[0] < 2592]
    ids = {each: kafkalog.open_partition(into / each).metadata for each in ("tiered-0", "tiered-1")}
    assert len({found.topic_id for found in ids.values() if found is not None}) == 1
    assert [each for each in verify(into).findings if each.severity != "info" and each.code != "partition_missing"
            and "log_end_below" not in str(each.code)] == []  # fmt: skip


def test_the_time_of_a_log_is_that_of_its_object(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    into = brought_back(tmp_path, tmp_path / "broker")
    item = next((tmp_path / "remote").rglob("tiered-0-*/00000000000000000361-*.log"))
    assert (into / "tiered-0" / f"{361:020}.log").stat().st_mtime_ns == item.stat().st_mtime_ns


def test_logs_that_are_gone_begin_after_their_remote_part(tmp_path: Path) -> None:
    """As a follower begins that had lost its disk, and with it nothing that a broker needs to serve the remote part."""
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    snapshot = (broker / "pays-0" / f"{1710:020}.snapshot").read_bytes()
    for name in ("pays-0", "tiered-1", "cut-0"):
        shutil.rmtree(broker / name)
    words = ("--remote", tmp_path / "remote", "--keep-remote", "--into", tmp_path / "into", "--yes")
    done = command("recover", broker, *words)
    assert done.code == 0
    again = [line for line in done.out.splitlines() if line.startswith("  kafkalog recover ")]
    assert again
    assert all(f"--remote {tmp_path / 'remote'} --keep-remote" in line for line in again)
    into = tmp_path / "into"
    assert {name: sorted(path.name for path in (into / name).glob("*.log")) for name in ("pays-0", "tiered-1")} == {
        "pays-0": [f"{1710:020}.log"], "tiered-1": [f"{1892:020}.log"]
    }  # fmt: skip
    assert (into / "pays-0" / f"{1710:020}.snapshot").read_bytes() == snapshot
    starts = (into / "log-start-offset-checkpoint").read_text().splitlines()
    assert {"pays 0 0", "tiered 1 0"} <= set(starts)
    for name, end in (("pays-0", 1710), ("tiered-1", 1892)):
        partition = kafkalog.open_partition(into / name, remote=str(tmp_path / "remote"))
        assert [record.offset for record in partition.records()] == [
            row[0] for row in as_read("stopped", name) if row[0] < end
        ]
        assert partition.log_end_offset() == end
    found = [each for each in verify(into).findings if each.severity == "error" and each.code != "partition_missing"]
    assert [each for each in found if "log_end_below" not in str(each.code)] == []
    refused = command("recover", broker, "--keep-remote", "--into", tmp_path / "other", "--yes")
    assert refused.code == 64


def test_a_tier_that_is_not_whole_brings_nothing_back(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    next((tmp_path / "remote").rglob("tiered-0-*/00000000000000000361-*.log")).unlink()
    remote = ("--remote", tmp_path / "remote")
    done = command("recover", tmp_path / "broker", *remote, "--into", tmp_path / "into", "--yes")
    assert done.code == 4
    assert "the remote segment has no log object" in done.err
    assert not (tmp_path / "into").exists()


def begun_in_place(tmp_path: Path, *more: str, code: int = 2) -> str:
    words = tiered_case("stopped").options(tmp_path)
    done = command("recover", tmp_path / "broker", *words, *more)
    assert done.code == code, (done.out, done.err)
    return done.out + done.err


def test_logs_that_are_gone_begin_in_place(tmp_path: Path) -> None:
    """With consent, a journal, and undo: the directory is then what it was, to the byte and the time."""
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    for name in ("pays-0", "cut-0"):
        shutil.rmtree(broker / name)
    before = stamps(broker)
    assert "pays-0 begins, empty, at 1710, after its remote part" in begun_in_place(tmp_path, "--dry-run", code=1)
    begun_in_place(tmp_path, code=3)
    assert stamps(broker) == before
    begun_in_place(tmp_path, "--yes")
    for name, end in (("pays-0", 1710), ("cut-0", 2592)):
        assert [path.name for path in (broker / name).glob("*.log")] == [f"{end:020}.log"]
        both = kafkalog.open_partition(broker / name, remote=str(tmp_path / "remote"))
        assert [record.offset for record in both.records()] == [
            row[0] for row in as_read("stopped", name) if row[0] < end
        ]
        assert both.log_end_offset() == end
    lines = (broker / "log-start-offset-checkpoint").read_text().splitlines()
    assert {"pays 0 0", "cut 0 900"} <= set(lines)
    errors = [each for each in verify(broker).findings if each.severity == "error"]
    assert [str(each) for each in errors if "log_end_below" not in str(each.code)] == []
    assert not kafkalog.plan(broker)[0].changes
    begun_in_place(tmp_path, "--yes", code=0)
    assert command("undo", broker, "--yes").code == 2
    assert stamps(broker) == before


def test_a_log_of_another_log_directory_does_not_begin_here(tmp_path: Path) -> None:
    """A broker does not start that has a log twice."""
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    shutil.rmtree(broker / "pays-0")
    (tmp_path / "kept").mkdir()
    shutil.copy(broker / "meta.properties", tmp_path / "kept")
    text = (broker / "meta.properties").read_text()
    line = next(each for each in text.splitlines() if each.startswith("directory.id="))
    (broker / "meta.properties").write_text(text.replace(line, "directory.id=AAAAAAAAAAAAAAAAAAAAAQ"))
    assert "pays-0 begins" not in begun_in_place(tmp_path, "--dry-run", code=1)
    shutil.copy(tmp_path / "kept" / "meta.properties", broker)
    assert "pays-0 begins" in begun_in_place(tmp_path, "--dry-run", code=1)
    for path in broker.glob("*-offset-checkpoint"):
        entries = [each for each in decode_offset_checkpoint(path.read_bytes()) if each.topic != "pays"]
        path.write_bytes(encode_offset_checkpoint(entries))
    shutil.rmtree(broker / "__cluster_metadata-0")
    assert "pays-0 begins" not in begun_in_place(tmp_path, "--dry-run", code=0)


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def cut_to_nothing(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [zeroed, cut_to_nothing])
def test_a_log_that_is_damaged_up_to_its_end_begins_in_place(damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Nothing of it reaches behind what is remote: a broker would give offsets again that the tier has."""
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    for path in (broker / "pays-0").glob("*.log"):
        damage(path)
    before = stamps(broker)
    begun_in_place(tmp_path, "--yes")
    assert [path.name for path in (broker / "pays-0").glob("*.log")] == [f"{1710:020}.log"]
    both = kafkalog.open_partition(broker / "pays-0", remote=str(tmp_path / "remote"))
    assert [record.offset for record in both.records()] == [
        row[0] for row in as_read("stopped", "pays-0") if row[0] < 1710
    ]
    assert not kafkalog.plan(broker)[0].changes
    assert command("undo", broker, "--yes").code == 2
    assert stamps(broker) == before


def test_a_log_that_reaches_further_goes_on_where_it_is(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    hurt = min((broker / "tiered-0").glob("*.log"))
    zeroed(hurt)
    logs = {path.name for path in (broker / "tiered-0").glob("*.log")}
    begun_in_place(tmp_path, "--yes")
    assert {path.name for path in (broker / "tiered-0").glob("*.log")} == logs - {hurt.name}


def test_without_events_nothing_begins(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    shutil.rmtree(broker / "pays-0")
    for path in broker.glob("__remote_log_metadata-*"):
        shutil.rmtree(path)
    before = stamps(broker)
    assert "so a broker would not find its remote part: have the events rebuilt first" in begun_in_place(
        tmp_path, "--yes", code=3
    )
    assert stamps(broker) == before


def test_a_log_with_records_that_the_remote_part_lacks_is_not_begun_anew(tmp_path: Path) -> None:
    """The last events are lost with the end of `__remote_log_metadata`, and the local log begins after the others."""
    tiered_case("killed").unpack(tmp_path)
    broker = tmp_path / "broker"
    (events,) = (broker / "__remote_log_metadata-0").glob("*.log")
    copied = next(
        batch.position
        for batch in kafkalog.open_partition(events.parent).batches()
        for record in kafkalog.decode_batch(batch).records
        if "'start_offset': 1119" in str(decode_remote_log_metadata(record.value))
    )
    with events.open("r+b") as file:
        file.truncate(copied)
    own = local(broker, "tiered-0")
    assert own[0][0] == 1501
    done = command("recover", broker, "--remote", tmp_path / "remote", "--mode", "remote", "--yes")
    assert "tiered-0 begins, empty" not in done.out
    assert local(broker, "tiered-0") == own


def test_a_tier_that_is_not_whole_begins_nothing(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    shutil.rmtree(broker / "pays-0")
    max((tmp_path / "remote").rglob("pays-0-*/*.log")).unlink()
    before = stamps(broker)
    assert "the remote segment has no log object" in begun_in_place(tmp_path, "--yes", code=4)
    assert stamps(broker) == before
    assert "recovered in mode remote, not kafka" in begun_in_place(tmp_path, "--mode", "kafka", code=64)


def test_in_place_with_the_other_layout(tmp_path: Path) -> None:
    case = tiered_case("aiven")
    case.unpack(tmp_path)
    broker = tmp_path / "broker"
    shutil.rmtree(broker / "orders-0")
    done = command("recover", broker, *case.options(tmp_path), "--yes")
    assert done.code == 2, done.err
    both = kafkalog.open_partition(
        broker / "orders-0", remote=str(tmp_path / "remote"), keys=case.key_files(tmp_path)
    )
    assert [record.offset for record in both.records()] == list(range(270))
    assert command("undo", broker, "--yes").code == 2


def facts(found: RemoteMetadata) -> set[tuple[object, ...]]:
    return {
        (each.key, each.topic_id, each.id, each.start_offset, each.end_offset, each.max_timestamp, each.size,
         each.leader_epochs, each.has_transaction_index, each.events[0].metadata_partition)
        for each in found.all if each.is_readable
    }  # fmt: skip


@pytest.mark.parametrize("name", TIERED_CASES)
def test_the_events_are_those_that_brokers_wrote(name: str, tmp_path: Path) -> None:
    """Every segment in the same partition of the topic, with the same offsets, epochs, times and sizes."""
    case = tiered_case(name)
    case.unpack(tmp_path)
    root = tmp_path / case.volumes[0]
    done = rebuild_remote_metadata(RemoteMetadataRebuild(partitions=2), case.tier(tmp_path), target=tmp_path / "events")
    assert done.findings == []
    made = read_remote_metadata(kafkalog.open(tmp_path / "events").partitions)
    written = read_remote_metadata(kafkalog.open(root).partitions)
    assert made.findings == ()
    begun = {each.id for each in written.all if each.state is RemoteSegmentState.COPY_SEGMENT_STARTED}
    assert {each for each in facts(made) if each[2] not in begun} == facts(written)


def test_events_are_not_written_with_an_id_that_no_topic_has(tmp_path: Path) -> None:
    case = tiered_case("pair")
    case.unpack(tmp_path)
    request = RemoteMetadataRebuild(partitions=2, topic_id="garbage")
    with pytest.raises(kafkalog.UsageError, match="'garbage' is not a topic id"):
        rebuild_remote_metadata(request, case.tier(tmp_path), target=tmp_path / "events")
    assert not (tmp_path / "events").exists()


@pytest.mark.parametrize("name", ["pair", "aiven"])
def test_names_without_a_uuid_are_not_of_segments(name: str, tmp_path: Path) -> None:
    """A directory without a topic id, and an object without a segment id, that somebody has put into the tier."""
    case = tiered_case(name)
    case.unpack(tmp_path)
    tier = case.tier(tmp_path)
    before = tier.segments()
    log = Path(before[0].objects[FileKind.LOG].path)
    topic = log.relative_to(tier.place).parts[0]
    directory = Path(tier.place) / topic
    shutil.copytree(directory, directory.with_name(f"{topic[:-22]}not.an.id.of.any.topic"))
    odd = log.with_name(f"{log.name[:21]}not.an.id.of.a.segment{log.name[43:]}")
    shutil.copy(log, odd)
    tier = case.tier(tmp_path)
    assert tier.segments() == before
    assert str(odd) in [str(path) for path in tier.others()]
    done = rebuild_remote_metadata(RemoteMetadataRebuild(partitions=2), tier, target=tmp_path / "events")
    assert done.segments


def test_the_partition_of_the_events_is_a_brokers(tmp_path: Path) -> None:
    case = tiered_case("pair")
    case.unpack(tmp_path)
    for each in read_remote_metadata(kafkalog.open(tmp_path / "broker-1").partitions).all:
        assert metadata_partition(each.topic_id, each.partition, 2) == each.events[0].metadata_partition


def test_a_segment_that_is_not_whole_gets_no_events(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    gone = min((tmp_path / "remote").rglob("epochs-0-*/*.timeindex"))
    gone.unlink()
    done = command("remote", "rebuild-metadata", tmp_path / "broker-1", "--remote", tmp_path / "remote", "--into",
                   tmp_path / "events")  # fmt: skip
    assert done.code == 1
    assert f"segment {gone.name[21:43]} of epochs-0 lacks .timeindex: it gets no events" in done.err
    assert "the events of 22 segments in 2 partitions of __remote_log_metadata" in done.out
    ids = {kafkalog.open_partition(tmp_path / where / "__remote_log_metadata-0").metadata
           for where in ("broker-1", "events")}  # fmt: skip
    assert len(ids) == 1


def test_what_has_to_be_said_about_events(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    remote = ["--remote", tmp_path / "remote"]
    for arguments, said in (
        ([*remote, "--into", tmp_path / "events"], "give --partitions"),
        ([tmp_path / "broker-1", *remote, "--into", tmp_path / "events", "--partitions", "3"], "the topic has 2"),
        (["--into", tmp_path / "events", "--partitions", "3"], "give the remote tier with --remote"),
    ):
        done = command("remote", "rebuild-metadata", *map(str, arguments))
        assert done.code == 64
        assert said in done.err
    assert not (tmp_path / "events").exists()


def test_python_begins_lost_logs_in_place_as_the_command_does(tmp_path: Path) -> None:
    tiered_case("stopped").unpack(tmp_path)
    broker = tmp_path / "broker"
    shutil.rmtree(broker / "pays-0")
    before = stamps(broker)
    remote_logs = kafkalog.RemoteLogs(kafkalog.open_tier(str(tmp_path / "remote")))
    request = kafkalog.Recovery(remote_logs=remote_logs)
    with pytest.raises(kafkalog.UsageError, match="recovered in mode remote, not salvage"):
        kafkalog.recover(kafkalog.Recovery(mode="salvage", remote_logs=remote_logs), broker)
    (plan,) = kafkalog.plan(request, broker)
    assert (plan.mode, dict(plan.begins)) == ("remote", {"pays-0": 1710})
    (result,) = kafkalog.recover(request, broker, expected=[plan])
    assert result.changed
    assert [path.name for path in (broker / "pays-0").glob("*.log")] == [f"{1710:020}.log"]
    kafkalog.undo(broker)
    assert stamps(broker) == before
