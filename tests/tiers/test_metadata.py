"""What `__remote_log_metadata` says of remote segments."""

from __future__ import annotations

import errno
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog.cluster.records.framed_records import FramedRecord, decode_remote_log_metadata, encode_framed
from kafkalog.codec.common.errors import StorageError
from kafkalog.tiers.metadata import RemoteMetadata, read_remote_metadata
from kafkalog.tiers.segments import RemoteSegmentState
from testkit.recorded.fixture_data import tiered_case, tiered_volumes, unpack_tiered
from testkit.running.command import kafkalog as run_command

STARTED, FINISHED = RemoteSegmentState.COPY_SEGMENT_STARTED, RemoteSegmentState.COPY_SEGMENT_FINISHED


def metadata_of(root: Path) -> RemoteMetadata:
    return read_remote_metadata(kafkalog.open(root).partitions)


@pytest.mark.parametrize(("name", "volume"), tiered_volumes())
def test_the_states_of_recorded_segments(name: str, volume: str, tmp_path: Path) -> None:
    """By their objects: a segment that is to be read has one, one that was deleted has none."""
    root = unpack_tiered(name, tmp_path, volume)
    found = metadata_of(root)
    assert found.findings == ()
    there = {path.stem[21:] for path in (tmp_path / "remote").rglob("*.log")}
    by_state = Counter(each.state for each in found.all)
    assert by_state[FINISHED] >= 15
    assert {each.id for each in found.all if each.is_readable} == there - {
        each.id for each in found.all if each.state is STARTED
    }
    assert by_state[STARTED] == (name == "cut-short")


def test_offsets_and_epochs_of_a_segment(tmp_path: Path) -> None:
    """A segment reaches to the next one; its epochs begin where the log's did."""
    root = unpack_tiered("pair", tmp_path, "broker-1")
    found = metadata_of(root)
    for directory in tiered_case("pair").bounds:
        topic, _, number = directory.rpartition("-")
        segments = [each for each in found.of(topic, int(number)) if each.is_readable]
        for one, other in pairwise(segments):
            assert one.end_offset + 1 == other.start_offset
        epochs = {each for segment in segments for each in segment.leader_epochs}
        known = kafkalog.open_partition(root / directory).leader_epochs
        assert {each.epoch for each in epochs} <= {each.epoch for each in known}


def test_copies_of_several_brokers_count_once(tmp_path: Path) -> None:
    root = tiered_case("pair").unpack(tmp_path)
    both = [each for volume in ("broker-1", "broker-2") for each in kafkalog.open(root / volume).partitions]
    assert read_remote_metadata(both).segments == metadata_of(root / "broker-1").segments


def events(root: Path, number: int) -> list[FramedRecord]:
    partition = kafkalog.open_partition(root / f"__remote_log_metadata-{number}")
    return [decode_remote_log_metadata(each.value) for each in partition.records()]


def written(root: Path, found: list[FramedRecord]) -> RemoteMetadata:
    root.mkdir()
    with kafkalog.Log.open(root / "__remote_log_metadata-0") as log:
        for each in found:
            log.append([(None, encode_framed(each))])
    return read_remote_metadata([kafkalog.open_partition(root / "__remote_log_metadata-0")])


def test_events_that_are_repeated_or_out_of_order(tmp_path: Path) -> None:
    """A broker takes an event again, and passes over one that cannot follow."""
    found = events(unpack_tiered("stopped", tmp_path), 0)
    whole = written(tmp_path / "whole", found)
    again = written(tmp_path / "again", [each for event in found for each in (event, event)])
    assert again.findings == ()
    assert [(each.id, each.state) for each in again.all] == [(each.id, each.state) for each in whole.all]
    backwards = written(tmp_path / "backwards", found[::-1])
    assert [each.id for each in backwards.all] == [each.id for each in whole.all]
    lost = written(tmp_path / "lost", [each for each in found if each.type != 0])
    assert lost.all == []
    assert {each.code for each in lost.findings} == {"remote_event_invalid"}
    assert "of which no event before says what it is" in lost.findings[0].detail


def test_a_state_that_cannot_follow_is_passed_over(tmp_path: Path) -> None:
    found = events(unpack_tiered("stopped", tmp_path), 1)
    known = [(each, each.decoded.fields) for each in found if each.decoded is not None]
    deleted = next(fields["remote_log_segment_id"] for _, fields in known if fields["remote_log_segment_state"] == 3)
    finished = [
        each for each, fields in known
        if fields["remote_log_segment_id"] == deleted and fields["remote_log_segment_state"] == 1
    ]  # fmt: skip
    read = written(tmp_path / "late", [*found, *finished])
    assert [each.code for each in read.findings] == ["remote_event_invalid"]
    assert "DELETE_SEGMENT_FINISHED, and COPY_SEGMENT_FINISHED cannot follow" in read.findings[0].detail
    segment = next(each for each in read.all if each.id == deleted["id"])
    assert segment.state is RemoteSegmentState.DELETE_SEGMENT_FINISHED


@pytest.mark.parametrize("command", ["verify", "plan"])
def test_a_log_that_cannot_be_read_ends_no_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack_tiered("pair", tmp_path, "broker-1")
    real, lost = os.open, root / "__remote_log_metadata-0" / f"{0:020}.log"
    sound = run_command(command, root, "--json")

    def refuse(path: Any, *options: Any, **named: Any) -> int:
        if os.path.realpath(path) == str(lost):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, *options, **named)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError):
        metadata_of(root)
    some = read_remote_metadata(kafkalog.open(root).partitions, tolerant=True)
    assert [(finding.code, finding.file) for finding in some.findings] == [("unreadable", str(lost))]
    finished = run_command(command, root, "--json")
    assert str(lost) in str(finished.objects)
    assert len(finished.objects[0]["partitions"]) >= len(sound.objects[0]["partitions"]) - 1  # the others
