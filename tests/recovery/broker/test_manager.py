"""Entries that a log directory should not have: what `tests/interop/test_entries.py` saw Kafka do, without Kafka."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kafkalog
from kafkalog import RecoveryRefused
from kafkalog.recovery.broker.manager import StartResult
from testkit.judging.trees import first_difference, stamps
from testkit.made import damage
from testkit.made.offset_sequences import Sequence

EPOCHS = "t-0/leader-epoch-checkpoint"
INDEX = f"t-0/{0:020d}.index"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory as a crash leaves it; its batches have a leader epoch that the file does not."""
    root = Sequence.of(0, 0, 1, 2).write(tmp_path / "logs")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    return root


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def link(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("nowhere")


@pytest.mark.parametrize("mode", ["kafka", "safe"])
@pytest.mark.parametrize("name", [EPOCHS, "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_what_a_write_left_beside_its_file_goes_with_the_next_write(logs: Path, name: str, mode: str) -> None:
    (logs / f"{name}.tmp").write_text("left")
    kafkalog.recover(kafkalog.Recovery(mode=mode), logs)
    assert not (logs / f"{name}.tmp").exists()


@pytest.mark.parametrize("mode", ["kafka", "safe"])
@pytest.mark.parametrize("name", ["t-0/partition.metadata", f"t-0/{3:020d}.snapshot", "replication-offset-checkpoint"])
def test_what_lies_beside_a_file_that_is_not_written_stays(logs: Path, name: str, mode: str) -> None:
    (logs / f"{name}.tmp").write_text("left")
    kafkalog.recover(kafkalog.Recovery(mode=mode), logs)
    assert (logs / f"{name}.tmp").read_text() == "left"


@pytest.mark.parametrize("name", [EPOCHS, "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_link_to_nothing_takes_the_directory_offline(logs: Path, name: str) -> None:
    link(logs / name)
    assert kafkalog.plan(kafkalog.Recovery(mode="kafka"), logs)[0].broker.outcome == StartResult.DIR_OFFLINE
    assert kafkalog.plan(kafkalog.Recovery(mode="safe"), logs)[0].refusal == (
        f"{name} is a dangling symbolic link, which takes the log directory offline: remove it"
    )


@pytest.mark.parametrize("name", [f"t-0/{7:020d}.log", f"t-0/{99:020d}.index", "t-0/x.snapshot", "t-0/notes.txt"])
def test_a_link_to_nothing_that_a_broker_does_not_see_is_left_alone(logs: Path, name: str) -> None:
    link(logs / name)
    kafkalog.recover(kafkalog.Recovery(mode="kafka"), logs)
    assert os.readlink(logs / name) == "nowhere"


@pytest.mark.parametrize("mode", ["kafka", "safe"])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        (INDEX, link),
        (f"{EPOCHS}.tmp", link),
        ("recovery-point-offset-checkpoint", pipe),
    ],
)
def test_recovery_does_not_write_through_a_link_or_wait_at_a_pipe(
    logs: Path, name: str, make: Callable[[Path], object], mode: str
) -> None:
    make(logs / name)
    before = stamps(logs)
    with pytest.raises(RecoveryRefused, match=f"^{name} is a "):
        kafkalog.recover(kafkalog.Recovery(mode=mode), logs)
    assert not first_difference(dict(stamps(logs)), dict(before))


def test_mode_kafka_does_not_write_through_a_link_as_a_stop_of_a_broker_does(logs: Path) -> None:
    link(logs / "recovery-point-offset-checkpoint.tmp")
    with pytest.raises(RecoveryRefused, match=r"^recovery-point-offset-checkpoint\.tmp is a dangling symbolic link"):
        kafkalog.recover(kafkalog.Recovery(mode="kafka"), logs)


def test_a_partition_that_becomes_stray_at_its_end_comes_to_rest(logs: Path) -> None:
    """Its log start is at the log's end, where Kafka 4.1 adds and removes a leader epoch at every start."""
    (logs / "t-0" / "partition.metadata").unlink()
    (logs / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    kafkalog.recover(kafkalog.Recovery(mode="safe", accept_loss=True), logs)
    assert not kafkalog.plan(kafkalog.Recovery(mode="safe"), logs)[0].changes
    assert not kafkalog.plan(kafkalog.Recovery(mode="kafka"), logs)[0].changes
    assert (logs / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"


def test_a_segment_below_zero_has_files_with_twenty_digits(logs: Path) -> None:
    (logs / "t-0" / "-5.log").touch()
    kafkalog.recover(kafkalog.Recovery(mode="kafka"), logs)
    assert (logs / "t-0" / f"-{5:020d}.index").exists()


def test_a_log_under_two_names_is_opened_twice(logs: Path) -> None:
    """Kafka makes the files with twenty digits beside `-5.log`, and the second time finds an empty time index."""
    (logs / "t-0" / "-5.log.swap").touch()
    kafkalog.recover(kafkalog.Recovery(mode="kafka"), logs)
    assert (logs / "t-0" / f"-{5:020d}.timeindex").stat().st_size == 0


def test_a_name_that_is_no_text_stops_a_broker_only_as_a_snapshot(logs: Path) -> None:
    """`File` does not find it again; `Path`, which lists the snapshots, does."""
    for name in ("\udcff.log", "\udcff.index"):
        (logs / "t-0" / name).touch()
    assert kafkalog.plan(kafkalog.Recovery(mode="kafka"), logs)[0].broker.outcome == StartResult.LOADED
    (logs / "t-0" / "\udcff.snapshot").touch()
    assert kafkalog.plan(kafkalog.Recovery(mode="kafka"), logs)[0].broker.outcome == StartResult.START_FAILS
    kafkalog.recover(kafkalog.Recovery(mode="safe"), logs)
    assert sorted(path.name for path in (logs / "t-0").glob("\udcff*")) == ["\udcff.index", "\udcff.log"]


def test_a_directory_at_which_kafka_starts_and_stops_later_does_not_stay(logs: Path) -> None:
    """The index of a segment that is not examined at start."""
    sequence = Sequence(((0, ((0, 1, 20),)), (1, ((1, 1, 20), (2, 1, 20)))))
    root = sequence.write(logs.with_name("two"))
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    (root / "t-0" / f"{1:020d}.snapshot").write_bytes(damage.snapshot([]))
    (root / INDEX).unlink()
    (root / INDEX).mkdir()
    assert kafkalog.plan(kafkalog.Recovery(mode="kafka"), root)[0].broker.outcome == StartResult.LOADED
    kafkalog.recover(kafkalog.Recovery(mode="safe"), root)
    assert (root / INDEX).is_file()


@pytest.mark.parametrize("name", [f"{EPOCHS}.tmp", f"t-0/{0:020d}.snapshot", f"t-0/{3:020d}.snapshot", INDEX])
def test_a_directory_where_a_broker_writes_does_not_stay(logs: Path, name: str) -> None:
    (logs / name).unlink(missing_ok=True)
    (logs / name).mkdir()
    kafkalog.recover(kafkalog.Recovery(mode="safe"), logs)
    assert not (logs / name).is_dir()
    assert not kafkalog.plan(kafkalog.Recovery(mode="safe"), logs)[0].changes


@pytest.mark.parametrize("name", ["partition.metadata.cleaned", "x"])
def test_directories_inside_a_partition_that_becomes_stray_go_with_it(logs: Path, name: str) -> None:
    """Also empty ones, which are in no list of files; and `undo` has them back."""
    (logs / "t-0" / "partition.metadata").unlink()
    (logs / "t-0" / name / "deep").mkdir(parents=True)
    before = stamps(logs)
    kafkalog.recover(kafkalog.Recovery(mode="kafka"), logs)
    (stray,) = logs.glob("t-0.*-stray")
    assert (stray / name / "deep").is_dir()
    kafkalog.undo(logs)
    assert stamps(logs) == before
