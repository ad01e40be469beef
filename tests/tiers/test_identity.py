"""Of a bucket alone: an object in the place of another one is not read as if it were that."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

import kafkalog
from kafkalog.codec.files.index_files import decode_producer_snapshot, encode_producer_snapshot
from kafkalog.inspect.remote import inspect_remote
from kafkalog.jobs.restore.events import RemoteMetadataRebuild, rebuild_remote_metadata
from kafkalog.recovery.checks.remote import verify_remote
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.reading import mounted
from testkit.recorded.fixture_data import tiered_case


def logs(root: Path, topic: str) -> list[Path]:
    return sorted((root / "remote").rglob(f"{topic}-0-*/*.log"))


def partitions(root: Path) -> dict[str, kafkalog.Partition]:
    ((_, path),) = mounted([], open_tier(str(root / "remote")))
    return {f"{each.topic}-{each.partition}": each for each in kafkalog.open(path).partitions}


def test_times_of_objects_say_nothing(tmp_path: Path) -> None:
    """A copy of a bucket has them in any order."""
    tiered_case("pair").unpack(tmp_path)
    wanted = [record.offset for record in partitions(tmp_path)["epochs-0"].records()]
    for number, path in enumerate(sorted((tmp_path / "remote").rglob("epochs-*/*"), reverse=True)):
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    assert [record.offset for record in partitions(tmp_path)["epochs-0"].records()] == wanted == list(range(227))


def swap(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def test_each_log_in_the_place_of_another_one_of_the_same_offsets(tmp_path: Path) -> None:
    """Topics that were written alike: base offsets, sizes, and what the offset indexes hold are the same."""
    tiered_case("pair").unpack(tmp_path)
    found = [path for topic in ("both", "epochs", "kept", "moved") for path in logs(tmp_path, topic)]
    alike = [pair for pair in itertools.combinations(found, 2) if pair[0].name[:20] == pair[1].name[:20]]
    assert len(alike) >= 14
    for one, other in alike:
        swap(one, other)
        for path in (one, other):
            topic = path.parent.name.partition("-0-")[0]
            rows: list[int] = []
            with pytest.raises(kafkalog.StorageError, match=r"another segment: (the time index|its first)"):
                rows.extend(record.offset for record in partitions(tmp_path)[f"{topic}-0"].records())
            assert all(offset < int(path.name[:20]) for offset in rows)
        swap(one, other)
    assert len(list(partitions(tmp_path)["epochs-0"].records())) == 227


def test_segments_are_not_rebuilt_from_logs_of_others(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    swap(logs(tmp_path, "epochs")[1], logs(tmp_path, "kept")[1])
    tier = open_tier(str(tmp_path / "remote"))
    done = rebuild_remote_metadata(RemoteMetadataRebuild(partitions=2), tier, target=tmp_path / "events")
    assert sorted(each.detail.partition(" of ")[2][:8] for each in done.findings) == ["epochs-0", "kept-0 c"]
    assert all("may be the log of another segment" in each.detail for each in done.findings)


def test_a_whole_segment_of_another_log_is_told_by_its_producers(tmp_path: Path) -> None:
    """All of its objects are of another log that the same producer wrote: one batch more, here, before this segment."""
    tiered_case("pair").unpack(tmp_path)
    first, second = (path.with_suffix(".snapshot") for path in logs(tmp_path, "payments")[:2])
    entries = decode_producer_snapshot(first.read_bytes())
    kept = decode_producer_snapshot(second.read_bytes())
    older = max((each for each in kept if 0 <= each.last_offset < 48), key=lambda each: each.last_offset, default=None)
    assert older is None  # each producer wrote to the second segment: one that did not
    idle = replace(entries[0], producer_id=9, last_offset=20)
    second.write_bytes(encode_producer_snapshot([*kept, replace(idle, last_offset=10)]))
    first.write_bytes(encode_producer_snapshot([*entries, idle]))
    with pytest.raises(kafkalog.StorageError, match="the producer snapshot beside it is of another"):
        list(partitions(tmp_path)["payments-0"].records(kafkalog.RecordFilter(start_offset=48)))
    second.write_bytes(encode_producer_snapshot([*kept, idle]))
    assert next(iter(partitions(tmp_path)["payments-0"].records(kafkalog.RecordFilter(start_offset=48)))).offset == 48


def test_a_log_with_another_name_is_told_by_its_offsets(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    second, third = logs(tmp_path, "payments")[1:3]
    for path in second.parent.glob(f"{third.name[:20]}-*"):
        path.unlink()
    for path in second.parent.glob(f"{second.name[:20]}-*"):  # with all that lies beside it
        shutil.copy(path, path.with_name(third.name[:20] + path.name[20:]))
    with pytest.raises(kafkalog.StorageError, match="it begins with offset 48"):
        list(partitions(tmp_path)["payments-0"].records())


def test_what_was_copied_twice_is_read_once(tmp_path: Path) -> None:
    """A new leader copied two segments as one, which the old one's names overlap."""
    tiered_case("pair").unpack(tmp_path)
    both = logs(tmp_path, "both")
    wanted = [record.offset for record in partitions(tmp_path)["both-0"].records()]
    data = b"".join(path.read_bytes() for path in both[:2])
    both[0].write_bytes(data)
    shutil.copy(both[1].with_suffix(".timeindex"), both[0].with_suffix(".timeindex"))
    entry = bytearray(both[0].with_suffix(".timeindex").read_bytes())
    entry[-4:] = (int.from_bytes(entry[-4:], "big") + 47).to_bytes(4, "big")
    both[0].with_suffix(".timeindex").write_bytes(entry)
    assert [record.offset for record in partitions(tmp_path)["both-0"].records()] == wanted


def test_objects_that_are_missing_in_a_bucket_are_named(tmp_path: Path) -> None:
    tiered_case("pair").unpack(tmp_path)
    remote = str(tmp_path / "remote")
    assert inspect_remote(remote=remote).findings == []
    gone = logs(tmp_path, "epochs")
    gone[0].unlink()
    gone[2].with_suffix(".timeindex").unlink()
    told = inspect_remote(remote=remote).findings
    assert [(each.code, each.offset) for each in told] == [("remote_object_missing", 0), ("remote_object_missing", 90)]
    assert "lacks .log, and no event tells" in told[0].detail


def test_a_segment_of_a_truncated_log_is_not_read(tmp_path: Path) -> None:
    """Unclean election: the old leader had copied further, in an epoch that the log does not have there."""
    tiered_case("pair").unpack(tmp_path)
    place = logs(tmp_path, "epochs")[0].parent
    last = logs(tmp_path, "kept")[5]
    for path in last.parent.glob(f"{last.name[:20]}-*"):  # epoch 0 at 227, where the log of `epochs` has 2
        shutil.copy(path, place / path.name)
    partition = partitions(tmp_path)["epochs-0"]
    assert partition.log_end_offset() == 227
    assert [record.offset for record in partition.records()] == list(range(227))
    told = inspect_remote(remote=str(tmp_path / "remote")).findings
    assert [(each.code, each.offset) for each in told] == [("remote_lineages_overlap", 227)]


def test_with_events_verify_tells_a_log_of_the_same_size(tmp_path: Path) -> None:
    """Size and offsets are those of the segment; its timestamps are not."""
    case = tiered_case("pair")
    case.unpack(tmp_path)
    one, other = logs(tmp_path, "epochs")[0], logs(tmp_path, "kept")[0]
    assert one.stat().st_size == other.stat().st_size
    broker = str(tmp_path / "broker-1")
    assert [each for each in verify_remote(case.tier(tmp_path), broker).findings if each.severity == "error"] == []
    swap(one, other)
    findings = verify_remote(case.tier(tmp_path), broker).findings
    assert {str(each.code) for each in findings if each.severity == "error"} == {
        "remote_object_damaged", "index_entry_mismatch"
    }  # fmt: skip
    found = [each for each in findings if each.code == "remote_object_damaged"]
    assert [each.file for each in found] == [str(one), str(other)]
    assert all("the log of another segment" in each.detail for each in found)
