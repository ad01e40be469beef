"""What the broker's user may not open is a finding of every command that looks, and says whom to give it to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.recovery.broker.node.answer import StartOutcome
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.recovery.facts.owners import ClosedFiles, closed_files
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
COMMANDS = ("ls", "verify", "plan")
BROKER = 1234


def given(root: Path, user: int = BROKER) -> None:
    for path in (root, *root.rglob("*")):
        os.chown(path, user, user)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's directory, in order, which belongs to its user."""
    data = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    given(data)
    return data


def told(command: str, *paths: Path) -> list[str]:
    """The details of the finding."""
    finished = kafkalog(command, "--json", *paths)
    found = [each for line in finished.objects for each in line["findings"] if each["code"] == "owner_mismatch"]
    assert finished.code == (1 if found else 0), finished.err
    assert {each["severity"] for each in found} <= {"warning"}
    return [each["detail"] for each in found]


def test_a_lock_file_of_any_size_is_a_broker_s(data: Path) -> None:
    lock = data / ".lock"
    with lock.open("wb") as file:
        file.truncate(DEFAULT_LIMITS.checkpoint_bytes + 1)
    os.chown(lock, BROKER, BROKER)
    assert closed_files(str(data), []) is None
    os.chown(lock, 0, 0)
    assert closed_files(str(data), []) == ClosedFiles(
        user=(BROKER, BROKER), paths=[str(lock)], is_root=True, emptied=None, is_late=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_what_belongs_to_somebody_else(command: str, data: Path) -> None:
    assert told(command, data) == []
    log = next((data / "stock-41-0").glob("*.log"))
    os.chown(log, 0, 0)
    (said,) = told(command, data)
    assert said.startswith(f"1 path may not be opened or changed by user {BROKER}, to whom")
    assert f": stock-41-0/{log.name}; a broker that runs as this user takes the log directory offline" in said
    os.chown(data / "meta.properties", 0, 0)  # which everybody may read, and nobody writes
    assert told(command, data) == [said]
    (data / "meta.properties").chmod(0o600)
    assert told(command, data)[0].startswith("2 paths may not")
    for path in (log, data / "meta.properties"):
        os.chown(path, 77, BROKER)
        path.chmod(0o660)
    assert told(command, data) == [], "its group may"


def test_mode_bits_of_its_own_files_keep_the_user_out_too(data: Path) -> None:
    """Kafka 4.1.0 took a directory offline whose log had mode 444 and belonged to its user."""
    log = next((data / "stock-41-0").glob("*.log"))
    log.chmod(0o444)
    assert f": stock-41-0/{log.name};" in told("verify", data)[0]


def test_files_that_a_broker_only_replaces_need_no_right_to_write(data: Path) -> None:
    """Kafka 4.1.0 started, and replaced a producer snapshot of root that it could read."""
    names = ("00000000000000000007.snapshot", "00000000000000000007.log.deleted")
    for name in names:
        (data / "stock-41-0" / name).touch(0o644)
        os.chown(data / "stock-41-0" / name, 0, 0)
    assert closed_files(str(data), []) is None
    (data / "stock-41-0" / names[0]).chmod(0o600)
    assert closed_files(str(data), []) == ClosedFiles(
        user=(BROKER, BROKER), paths=[str(data / "stock-41-0" / names[0])], is_root=False, emptied=None, is_late=False
    )


@pytest.mark.parametrize("name", ["stock-41-0", "__cluster_metadata-0"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_recovery_empties_before_the_directory_is_offline(is_clean: bool, name: str, data: Path) -> None:
    """Kafka 4.1.0 and 4.3.0 could not write a producer snapshot beside a log, and truncated the log to nothing; Kafka
    3.9.1 did not, nor did any where it might not open the files of the log. The metadata log is recovered always.
    """
    partition = data / name
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    partition.chmod(0o555)
    is_emptied = not is_clean or name == "__cluster_metadata-0"
    warning = "before any start: the recovery of Kafka 4.1 and later can empty the log of a partition beside which it "
    assert (warning in told("verify", data)[0]) is is_emptied
    printed = " ".join(kafkalog("plan", data).out.split())
    assert (f"give it all of {data} {warning}may not write, as in {partition}" in printed) is is_emptied
    os.chown(next(partition.glob("*.log")), 0, 0)
    assert "before any start" not in told("verify", data)[0]


@pytest.mark.parametrize("is_clean", [True, False])
def test_an_index_of_an_older_segment_is_opened_when_it_is_first_read(is_clean: bool, data: Path) -> None:
    """Kafka 4.1.0 started, and at the first fetch took the directory offline, and ended, for it was the last."""
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    segments = sorted(log for log in data.glob("[a-z]*-*/*.log") if len([*log.parent.glob("*.log")]) > 1)
    index = segments[0].with_suffix(".index")
    index.chmod(0o444)
    (answer, *_others) = node_start([str(data)], release="4.1").answers
    assert answer.outcome is (StartOutcome.NOT_SERVING if is_clean else StartOutcome.FAILS)
    if is_clean:
        assert f"and the node ends, at the first read of {index}" in answer.consequences[-1].detail
    segments[-1].with_suffix(".timeindex").chmod(0o444)
    assert node_start([str(data)], release="4.1").answers[0].outcome is StartOutcome.FAILS, "of the newest segment"


def test_the_lock_that_a_recovery_makes_is_no_finding(data: Path) -> None:
    (data / ".lock").unlink(missing_ok=True)
    (data / ".kafka_cleanshutdown").unlink()
    done = kafkalog("recover", "--yes", "--json", data)
    assert done.code == 2
    assert [each for line in done.objects for each in line["findings"] if each["code"] == "owner_mismatch"] == []
    (data / ".lock").touch()
    os.chown(data / ".lock", 0, 0)
    (data / ".lock").chmod(0o600)
    assert ".lock" in told("plan", data)[0], "a broker's own that root has made"


@pytest.mark.parametrize(("is_metadata", "outcome"), [(True, "fails"), (False, "directory_offline")])
def test_the_start_of_the_node_says_it_first(is_metadata: bool, outcome: str, data: Path) -> None:
    """Kafka 4.3.0 started without the directory of an index that it might not open; that of the metadata ended it."""
    other = metadata_elsewhere(data, data.with_name("other"))
    given(other)
    closed = other if is_metadata else data
    log = next(closed.glob("*-0/*.index"))
    os.chown(log, 0, 0)
    log.chmod(0o600)
    for command in ("verify", "plan"):
        answers = [each["broker"]["node"]["answers"] for each in kafkalog(command, "--json", data, other).objects]
        assert {answer["outcome"] for each in answers for answer in each} == {outcome}
        printed = " ".join(kafkalog(command, data, other).out.split())
        assert f"the broker's user, {BROKER}, may not open or change {log}" in printed
        assert "nothing here" not in printed


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("name", ["stock-41-0", "."])
def test_partitions_of_a_directory_that_goes_offline_can_be_made_again(name: str, is_clean: bool, data: Path) -> None:
    """Kafka 4.1.0 and 4.3.0, killed before, made the partitions again, empty, in their other directory, and the start
    after that ended (IllegalStateException); they did not after a clean stop, or if the directory was not locked.
    """
    other = metadata_elsewhere(data, data.with_name("other"))
    given(other)
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    os.chown(data / name, 0, 0)
    (data / name).chmod(0o700)
    printed = " ".join(kafkalog("plan", data, other).out.split())
    assert f"{data} goes offline" in printed
    assert ("can make its partitions again, empty, in another log directory" in printed) is (
        not is_clean and name != "."
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_is_wholly_of_somebody_else(command: str, data: Path) -> None:
    """The directory with the metadata log tells whose it should be."""
    other = metadata_elsewhere(data, data.with_name("other"))
    given(other)
    assert told(command, data, other) == []
    given(data, 0)
    (said,) = told(command, data, other)
    assert f"may not be opened or changed by user {BROKER}" in said
    given(other, 0)
    assert told(command, data, other) == [], "a broker that runs as root may do everything"
