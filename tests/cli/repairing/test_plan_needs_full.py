"""A lost transaction index after an orderly stop: the command that plan names mends it, and no plan says all is well.

Kafka 4.3.0, started on such a directory, gave consumers with `read_committed` the records of the aborted transaction:
after an orderly stop a start builds no index that is below the recovery point.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path

import pytest

from kafkalog.codec.files.index_files import TIME_ENTRY, decode_producer_snapshot
from kafkalog.codec.names import FileKind
from testkit.made.scenes import metadata_elsewhere
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import Finished, kafkalog

_PRODUCER = attrgetter("producer_id")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's directory, stopped in order, without the transaction index of a log."""
    root = own_copy(brokers("4.3.0/txn")[0], tmp_path / "data")
    assert (root / ".kafka_cleanshutdown").is_file()
    listed = [path for path in root.glob("[a-z]*/*.txnindex") if path.stat().st_size]
    assert listed
    for path in listed:
        path.unlink()
    return root


def named(finished: Finished) -> list[str]:
    """The arguments of the first command that a plan names."""
    text = finished.out.replace("\\\n", " ")
    line = next(line for line in text.splitlines() if line.strip().startswith("kafkalog recover"))
    return shlex.split(line)[1:]


@pytest.mark.parametrize("before", [[], ["recover", "--yes"]])
def test_the_command_that_a_plan_names_mends_it(before: list[str], data: Path) -> None:
    if before:
        kafkalog(*before, data)
    assert kafkalog("verify", data).code == 1
    words = named(kafkalog("plan", data))
    assert "--full" in words
    assert kafkalog(*words).code == 2
    assert (kafkalog("verify", data).code, kafkalog("plan", data).code) == (0, 0)


@pytest.mark.parametrize("kind", ["text", "md", "html"])
def test_the_command_that_a_report_names_mends_it(kind: str, data: Path) -> None:
    written = kafkalog("report", "--format", kind, "--output", "-", data)
    words = named(kafkalog("plan", data))
    plain = re.sub("</?code>", "\n", written.out)
    assert named(Finished(written.code, plain, written.err)) == words
    assert kafkalog(*words).code == 2
    assert kafkalog("verify", data).code == 0


def test_the_first_screens_say_what_a_wrong_transaction_index_means_for_consumers(data: Path) -> None:
    """Kafka 4.1.0 gave read_committed consumers 1200 aborted records, and not 420 committed ones."""
    said = {command: " ".join(kafkalog(command, data).out.split()) for command in ("plan", "verify")}
    meaning = "consumers of committed data get records of aborted transactions, or skip committed ones, until 0"
    assert f": {meaning}" in said["plan"].partition("no log is cut")[0]
    assert "until it is rebuilt, consumers of committed data get aborted records, or skip" in said["verify"]
    assert "consumers of committed data" not in kafkalog("plan", "--full", data).out


def test_a_full_plan_that_mends_it_is_needed(data: Path) -> None:
    planned = kafkalog("plan", "--full", data)
    assert "txn_index_mismatch" in planned.out
    assert "a recovery is not needed" not in planned.out
    assert named(planned)[-2:] == ["--full", "--yes"]


def test_what_a_recovery_without_it_has_rebuilt_does_not_need_it(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/txn")[0], tmp_path / "data")
    older, newest = sorted((root / "trades-41-0").glob("*.snapshot"))[-2:]
    recorded = decode_producer_snapshot(newest.read_bytes())
    newest.chmod(0o600)
    newest.write_bytes(older.read_bytes())
    stopped = max(producer.timestamp for producer in recorded)  # a day later these producers have expired
    planned = kafkalog("plan", root, "--at", stopped)
    assert "this plan rebuilds it" in " ".join(planned.out.split())
    words = named(planned)
    assert "--full" not in words
    recovered = kafkalog(*words)
    assert "--full" not in recovered.out
    rebuilt = decode_producer_snapshot(newest.read_bytes())
    assert sorted(rebuilt, key=_PRODUCER) == sorted(recorded, key=_PRODUCER)
    assert kafkalog("verify", root).code == 0


def test_an_index_of_another_log_is_an_error_that_the_named_command_mends(tmp_path: Path) -> None:
    """A real 4.3.0 trusted the clean-shutdown marker and such an index: a consumer that sought an offset in the segment
    got records that come 105 later.
    """
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    assert (root / ".kafka_cleanshutdown").is_file()
    one = max(root.glob("sensors-0-0/*74.index"))
    other = root / "sensors-0-1" / one.name
    recorded = one.read_bytes()
    one.chmod(0o600)
    one.write_bytes(other.read_bytes())
    verified = kafkalog("verify", root)
    assert verified.code == 1
    assert "error: index_entry_mismatch" in verified.err
    kept = kafkalog("recover", "--yes", root)
    assert "until it is recovered with --full" in " ".join(kept.out.split())
    planned = kafkalog("plan", root)
    first_screen = " ".join(planned.out.partition("no partition changes")[0].split())
    assert "records may be skipped in 1 partition (sensors-0-0)" in first_screen
    assert "consumers whose fetch begins at offset" in first_screen
    words = named(planned)
    assert "--full" in words
    assert kafkalog(*words).code == 2
    assert one.read_bytes() == recorded
    assert (kafkalog("verify", root).code, kafkalog("plan", root).code) == (0, 0)


def _exchange(root: Path, kind: FileKind) -> Path:
    """Give a segment the index of another log; return its path."""
    one = max(root.glob(f"sensors-0-0/*74{kind.value}"))
    one.chmod(0o600)
    one.write_bytes((root / "sensors-0-1" / one.name).read_bytes())
    return one


def _early(root: Path) -> Path:
    """Set the timestamps of a time index to 1000 ms; return its path."""
    one = max(root.glob(f"sensors-0-0/*74{FileKind.TIME_INDEX.value}"))
    entries = TIME_ENTRY.struct.iter_unpack(one.read_bytes())
    one.chmod(0o600)
    early = (TIME_ENTRY.struct.pack(1000 + number, second) for number, (_, second) in enumerate(entries))
    one.write_bytes(b"".join(early))
    return one


@pytest.mark.parametrize(
    ("damage", "meaning"),
    [
        (lambda root: _exchange(root, FileKind.OFFSET_INDEX), "consumers whose fetch begins at offset"),
        (_early, "look-ups by time and retention by time go wrong"),
    ],
)
def test_a_wrong_index_below_the_recovery_point_is_told_after_a_crash_too(
    damage: Callable[[Path], Path], meaning: str, tmp_path: Path
) -> None:
    """A real 4.1.1 recovered after a crash and left such an offset index below the recovery point: each seek from its
    wrong entry on gave the first record of the next segment, 1282 records later, without an error.
    """
    root = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    (root / ".kafka_cleanshutdown").unlink()
    path = next(root.glob("sensors-0-0/*74.index")).parent
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    wrong = damage(root)
    planned = kafkalog("plan", root)
    first_screen = " ".join(planned.out.partition("\nplan for")[0].split())
    assert f"sensors-0-0: {meaning}" in first_screen
    words = named(planned)
    assert "--full" in words
    plain = kafkalog("recover", "--yes", root)
    told = " ".join(plain.out.split())
    assert "changes nothing in it; what the findings above say of indexes stays, until it is recovered with" in told
    again = kafkalog("recover", "--yes", root)
    assert (plain.code, again.code, kafkalog("plan", root).code) == (2, 1, 1)
    assert "stays, until it is recovered with --full" in " ".join(again.out.split())
    assert kafkalog(*words).code == 2
    assert wrong.read_bytes() == before[wrong.name]
    assert (kafkalog("verify", root).code, kafkalog("recover", "--yes", root).code) == (0, 0)


def test_a_lost_transaction_index_below_the_recovery_point_is_told_after_a_crash_too(data: Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()
    planned = kafkalog("plan", data)
    assert "consumers of committed data get records of aborted transactions" in " ".join(planned.out.split())
    words = named(planned)
    assert "--full" in words
    assert kafkalog(*words).code == 2
    assert (kafkalog("verify", data).code, kafkalog("plan", data).code) == (0, 0)


def test_one_command_is_for_all_directories_if_one_of_them_needs_it(tmp_path: Path) -> None:
    data = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    (data / ".kafka_cleanshutdown").unlink()
    other = metadata_elsewhere(data, tmp_path / "other")
    _exchange(data, FileKind.OFFSET_INDEX)
    words = named(kafkalog("plan", data, other))
    assert words[1:3] == [str(data), str(other)]
    assert "--full" in words
