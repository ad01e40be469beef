"""The remote tier, segment by segment, and everything that can be wrong with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.cluster.records.framed_records import FramedRecord, decode_remote_log_metadata, encode_framed
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.inspect.remote import RemoteView, inspect_remote
from kafkalog.inspect.retention import retention
from kafkalog.log.disk.pointer import JOURNAL, POINTER, Pointer
from testkit.recorded.fixture_data import TIERED_CASES, tiered_case
from testkit.running.command import kafkalog as command

AT = 1_795_545_000_000
"""A moment soon after the recordings."""


def unpacked(name: str, tmp_path: Path) -> tuple[list[Path], Path]:
    case = tiered_case(name)
    case.unpack(tmp_path)
    return [tmp_path / volume for volume in case.volumes], tmp_path / "remote"


def worse_than_info(found: list[Finding]) -> list[str]:
    return [str(each.code) for each in found if each.severity != "info"]


def codes(found: RemoteView) -> list[str]:
    return [str(each.code) for each in found.findings]


@pytest.mark.parametrize("name", TIERED_CASES)
def test_what_brokers_left(name: str, tmp_path: Path) -> None:
    volumes, remote = unpacked(name, tmp_path)
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    assert worse_than_info(found.findings) == (["remote_copy_stuck"] if name == "cut-short" else [])
    logs = list(remote.rglob("*.log"))
    assert sum(row.is_listed is True for row in found.rows) == len(logs)
    case = tiered_case(name)
    for each in found.partitions:
        start, end = case.bounds.get(f"{each.topic}-{each.partition}", (None, None))
        if start is not None and each.copied_to is not None:
            assert each.log_start == start
            assert end is None or name == "cut-short" or each.copied_to <= end
            assert each.stretches[0].first == start


def test_a_partition_directory_is_refused_beside_log_directories_too(tmp_path: Path) -> None:
    volumes, remote = unpacked("returned", tmp_path)
    partition = next(each for each in sorted(volumes[1].iterdir()) if any(each.glob("*.log")))
    for paths in ([partition], [volumes[0], partition]):
        with pytest.raises(UsageError, match="is not a log directory"):
            inspect_remote(*paths, remote=str(remote), at=AT)
        with pytest.raises(UsageError, match="looks at log directories"):
            retention(*paths, at=AT)


def test_a_directory_that_a_run_has_left_half_done_is_a_finding(tmp_path: Path) -> None:
    volumes, remote = unpacked("returned", tmp_path)
    run = "20260101T000000.000000Z-00000000"
    (volumes[0] / POINTER).write_bytes(Pointer("0" * 32, at_work=(run,)).encode())
    kept = Path(f"{volumes[0]}.recovery") / run
    kept.mkdir(parents=True)
    (kept / JOURNAL).write_text('{"version": 3}')
    assert worse_than_info(inspect_remote(*volumes, remote=str(remote), at=AT).findings) == ["run_unfinished"]


def test_copies_of_several_brokers_are_one_view(tmp_path: Path) -> None:
    volumes, remote = unpacked("returned", tmp_path)
    both = inspect_remote(*volumes, remote=str(remote), at=AT)
    one = inspect_remote(volumes[0], remote=str(remote), at=AT)
    assert [row.id for row in both.rows] == [row.id for row in one.rows]
    moved = next(each for each in both.partitions if each.topic == "moved")
    assert sorted(part.begins for part in moved.local.values()) == [47, 50]


def test_a_log_that_is_left_out_is_told(tmp_path: Path) -> None:
    volumes, remote = unpacked("returned", tmp_path)
    log = volumes[0] / "unlisted-0" / "00000000000000000000.log"
    log.mkdir(parents=True)
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    assert [each.file for each in found.findings if each.severity != "info"] == [str(log)]


def test_rows_and_lines(tmp_path: Path) -> None:
    volumes, remote = unpacked("pair", tmp_path)
    shown = command("remote", *volumes, "--remote", remote, "--at", str(AT))
    assert shown.code == 0
    assert "epochs-0: offsets 0 to 226 are remote, 19.0 KiB; local from 137, 137; the log starts at 0" in shown.out
    *lines, summary = command("remote", "--json", *volumes, "--remote", remote, "--at", str(AT)).objects
    assert [each["kind"] for each in lines] == ["segment"] * summary["segments"]
    first = next(each for each in lines if each["topic"] == "epochs")
    assert (first["base_offset"], first["end_offset"], first["state"]) == (0, 46, "COPY_SEGMENT_FINISHED")
    assert [each["state"] for each in first["events"]] == ["COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"]
    assert (first["present"], first["local"], first["belongs"]) == (True, False, True)
    gone = [each for each in lines if each["state"] == "DELETE_SEGMENT_FINISHED"]
    assert {each["topic"] for each in gone} == {"moved", "given-up"}
    assert not any(each["present"] for each in gone)
    assert command("remote", *volumes).code == 0
    assert command("remote", "--remote", remote).code == 0
    assert command("remote").code == 64


def unlink_log(remote: Path) -> str:
    path = min(remote.rglob("epochs-0-*/*.log"))
    path.unlink()
    return path.name[21:43]


def unlink_index(remote: Path) -> str:
    path = min(remote.rglob("payments-0-*/*.txnindex"))
    path.unlink()
    return path.name[21:43]


def add_object(remote: Path) -> str:
    path = min(remote.rglob("epochs-0-*/*.log"))
    other = path.with_name(path.name[:21] + "AAAAAAAAAAAAAAAAAAAAAA.log")
    shutil.copy(path, other)
    return "A" * 22


def cut_log(remote: Path) -> str:
    path = min(remote.rglob("epochs-0-*/*.log"))
    path.write_bytes(path.read_bytes()[:-1])
    return path.name[21:43]


def cut_index(remote: Path) -> str:
    path = min(remote.rglob("epochs-0-*/*.timeindex"))
    path.write_bytes(path.read_bytes()[:-1])
    return path.name[21:43]


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (unlink_log, "remote_object_missing", "lacks .log: offsets 0 to 46 are lost"),
        (unlink_index, "remote_object_missing", "lacks .txnindex"),
        (add_object, "remote_object_leaked", "the events in __remote_log_metadata do not name it"),
        (cut_log, "remote_object_damaged", "and 4010 were copied"),
        (cut_index, "remote_index_damaged", "and each of its entries has 12"),
    ],
)
def test_what_is_wrong_with_objects(
    damage: Callable[[Path], str], code: str, said: str, tmp_path: Path
) -> None:
    volumes, remote = unpacked("pair", tmp_path)
    segment_id = damage(remote)
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    (finding,) = [each for each in found.findings if each.severity != "info"]
    assert finding.code == code
    assert said in finding.detail
    assert segment_id in finding.detail + str(finding.file)


def test_a_cached_index_that_differs(tmp_path: Path) -> None:
    volumes, remote = unpacked("stopped", tmp_path)
    path = next((volumes[0] / "remote-log-index-cache").glob("361_*.index"))
    path.write_bytes(path.read_bytes()[:-3])
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    assert worse_than_info(found.findings) == ["remote_index_damaged"]
    assert next(each.file for each in found.findings if each.code == "remote_index_damaged") == str(path)


Change = Callable[[list[tuple[FramedRecord, dict[str, Any]]]], list[FramedRecord]]


def with_events(volume: Path, number: int, change: Change) -> None:
    """Write a partition of the events again, changed."""
    directory = volume / f"__remote_log_metadata-{number}"
    read = [decode_remote_log_metadata(each.value) for each in kafkalog.open_partition(directory).records()]
    kept = change([(each, {} if each.decoded is None else each.decoded.fields) for each in read])
    shutil.rmtree(directory)
    with kafkalog.Log.open(volume.parent / "scratch" / directory.name) as log:
        log.append([(None, encode_framed(each)) for each in kept])
    shutil.copytree(volume.parent / "scratch" / directory.name, directory)


def number_of(volume: Path, topic: str) -> int:
    """Which partition of the events tells of a topic."""
    for path in volume.glob("__remote_log_metadata-*"):
        for each in kafkalog.open_partition(path).records():
            decoded = decode_remote_log_metadata(each.value).decoded
            assert decoded is not None
            if decoded.fields["remote_log_segment_id"]["topic_id_partition"]["name"] == topic:
                return int(path.name[-1])
    raise AssertionError(topic)


def without_last(topic: str, state: int) -> Change:
    def change(events: list[tuple[FramedRecord, dict[str, Any]]]) -> list[FramedRecord]:
        matching = [
            number for number, (_, fields) in enumerate(events)
            if fields["remote_log_segment_id"]["topic_id_partition"]["name"] == topic
            and fields["remote_log_segment_state"] == state
        ]  # fmt: skip
        return [each for number, (each, _) in enumerate(events) if number != matching[-1]]

    return change


def test_a_deletion_that_did_not_end(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    volumes, remote = unpacked("stopped", tmp_path)
    with_events(volumes[0], number_of(volumes[0], "cut"), without_last("cut", 3))
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    assert worse_than_info(found.findings) == ["remote_delete_stuck"]


def test_a_copy_that_did_not_end_and_is_local_is_no_gap(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    volumes, remote = unpacked("pair", tmp_path)
    with_events(volumes[0], number_of(volumes[0], "both"), without_last("both", 1))
    found = inspect_remote(volumes[0], remote=str(remote), at=AT)
    assert worse_than_info(found.findings) == ["remote_copy_stuck"]
    behind = next(each for each in found.findings if each.code == "remote_copy_behind" and "both-0" in each.detail)
    assert "is copied up to offset 89; 1 closed local segments after that" in behind.detail
    assert "a copy was begun and did not end" in behind.detail


def test_offsets_in_neither_tier(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    volumes, remote = unpacked("stopped", tmp_path)

    def forget(events: list[tuple[FramedRecord, dict[str, Any]]]) -> list[FramedRecord]:
        lost = next(fields["remote_log_segment_id"]["id"] for _, fields in events
                    if fields.get("start_offset") == 361)  # fmt: skip
        return [each for each, fields in events if fields["remote_log_segment_id"]["id"] != lost]

    with_events(volumes[0], number_of(volumes[0], "tiered"), forget)
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    assert set(worse_than_info(found.findings)) == {"remote_object_leaked", "tier_gap"}
    gap = next(each for each in found.findings if each.code == "tier_gap")
    assert "offsets 361 to 745 of tiered-0 are in neither tier" in gap.detail


def test_why_nothing_more_is_copied(tmp_path: Path) -> None:
    volumes, remote = unpacked("pair", tmp_path)
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    told = {each.detail.split()[0]: each.detail for each in found.findings if each.code == "remote_copy_behind"}
    assert "remote.log.copy.disable is true" in told["kept-0"]


def test_local_segments_whose_retention_has_passed(tmp_path: Path) -> None:
    """As `local.retention.bytes` is 9000, and less would be enough without the first local segment."""
    volumes, remote = unpacked("pair", tmp_path)
    assert "local_retention_passed" not in codes(inspect_remote(*volumes, remote=str(remote), at=AT))
    payments = volumes[0] / "payments-0"
    for path in sorted((remote).rglob("payments-0-*/*")):
        base, suffix = path.name[:20], path.name[43:]
        if base == f"{146:020}" and suffix in (".log", ".index", ".timeindex"):
            shutil.copy(path, payments / f"{base}{suffix}")
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    told = [each for each in found.findings if each.code == "local_retention_passed"]
    assert [each.file for each in told] == [str(payments)]
    assert told[0].offset == 146


def test_a_segment_of_another_lineage(tmp_path: Path) -> None:
    """An epoch that the log has elsewhere, as after an unclean election."""
    (tmp_path / "scratch").mkdir()
    volumes, remote = unpacked("pair", tmp_path)

    def fork(events: list[tuple[FramedRecord, dict[str, Any]]]) -> list[FramedRecord]:
        for _, fields in events:
            if fields.get("start_offset") == 180:
                fields["segment_leader_epochs"] = [{"leader_epoch": 7, "offset": 180}]
        return [each for each, _ in events]

    number = number_of(volumes[0], "epochs")
    for volume in volumes:
        shutil.rmtree(tmp_path / "scratch")
        (tmp_path / "scratch").mkdir()
        with_events(volume, number, fork)
    found = inspect_remote(*volumes, remote=str(remote), at=AT)
    assert worse_than_info(found.findings) == ["remote_lineages_overlap"]
    (finding,) = [each for each in found.findings if each.code == "remote_lineages_overlap"]
    assert "offsets 180 to 226 of leader epoch 7, where the log has another" in finding.detail
