"""What a start does with `-future`, `-delete` and `-stray` directories of partitions that have no other.

Expected is what real brokers did with such directories (2.8.2 with ZooKeeper, 3.9.1, 4.3.0): they truncate a `-future`
copy to the end of the log that it was to replace (`ReplicaAlterLogDirsThread.truncate`), to offset 0 if that is gone,
and delete what is called `-delete` (`LogManager.deleteLogs`).
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from kafkalog.recovery.broker.node.answer import ConsequenceKind, NodeAnswer, StartConsequence, StartOutcome
from kafkalog.recovery.broker.node_start import node_start
from testkit.judging.trees import copy_tree
from testkit.kafka.start_records import append_metadata, partition_change
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog

UNIQUE = "0123456789abcdef0123456789abcdef"
ZOOKEEPER = "2.8.2/segments"
KRAFT = "4.3.0/metadata"


@pytest.fixture
def zookeeper(tmp_path: Path) -> list[Path]:
    """Two log directories of one broker of 2.8.2; the second is empty."""
    first, second = own_copy(brokers(ZOOKEEPER)[0], tmp_path / "a"), tmp_path / "b"
    second.mkdir()
    (second / "meta.properties").write_bytes((first / "meta.properties").read_bytes())
    return [first, second]


@pytest.fixture
def kraft(tmp_path: Path) -> Path:
    """A combined node of 4.3.0, the only one of its cluster."""
    return own_copy(brokers(KRAFT)[0], tmp_path / "data")


def answer(*roots: Path, release: str) -> NodeAnswer:
    return node_start([str(each) for each in roots], release=release).answers[0]


def told(found: NodeAnswer, kind: ConsequenceKind) -> StartConsequence:
    (consequence,) = [each for each in found.consequences if each.kind is kind]
    return consequence


def partition(root: Path) -> Path:
    return next(each for each in sorted(root.iterdir()) if each.name.endswith("-0") and each.name[0] != "_")


def exit_codes(*roots: Path) -> tuple[int, int]:
    return kafkalog("verify", *roots).code, kafkalog("plan", *roots).code


@pytest.mark.parametrize("release", ["2.8", "3.9"])
def test_the_only_copy_is_truncated_to_nothing_with_zookeeper(release: str, zookeeper: list[Path]) -> None:
    live = partition(zookeeper[0])
    live.rename(zookeeper[1] / f"{live.name}.{UNIQUE}-future")
    found = answer(*zookeeper, release=release)
    assert found.outcome is StartOutcome.DELETES
    lost = told(found, ConsequenceKind.FUTURE_TRUNCATED)
    assert lost.names == (live.name,)
    assert "to offset 0" in lost.detail
    assert exit_codes(*zookeeper) == (1, 1)
    printed = kafkalog("plan", *zookeeper).out
    assert "nothing to do" not in printed
    assert "nothing here" not in printed


def test_a_copy_that_goes_further_is_truncated_to_the_end_of_its_log(zookeeper: list[Path]) -> None:
    live = partition(zookeeper[0])
    future = copy_tree(live, zookeeper[1] / f"{live.name}.{UNIQUE}-future")
    same = answer(*zookeeper, release="2.8")
    assert (same.outcome, told(same, ConsequenceKind.FUTURE_RESUMED).file) == (StartOutcome.STARTS, str(future))
    last = max(live.glob("*.log"))
    last.chmod(0o600)
    os.truncate(last, 0)
    found = answer(*zookeeper, release="2.8")
    assert found.outcome is StartOutcome.DELETES
    assert f"is truncated to offset {int(last.stem)}" in told(found, ConsequenceKind.FUTURE_TRUNCATED).detail
    printed = kafkalog("plan", *zookeeper).out
    aside = " ".join(printed.split()).partition("first set a copy of ")[2]
    then = "which has more, and ask again with --copy COPY; else "
    assert aside.startswith(f"{future} aside as COPY/{live.name}, {then}")
    assert "no other way loses less" not in printed
    copy_tree(future, zookeeper[0].parent / "COPY" / live.name)
    again = kafkalog("plan", *zookeeper, "--copy", zookeeper[0].parent / "COPY").out
    assert f"kafkalog recover {live} --mode merge" in " ".join(again.replace("\\\n", "").split())
    os.truncate(max(future.glob("*.log")), 0)
    assert answer(*zookeeper, release="2.8").outcome is StartOutcome.STARTS


def test_beside_its_own_log_it_takes_the_directory_offline_or_ends_the_start(
    zookeeper: list[Path], kraft: Path
) -> None:
    """2.8.2: DirectoryNotEmptyException once it has caught up; 4.3.0: before the broker serves."""
    copy_tree(partition(zookeeper[0]), zookeeper[0] / f"{partition(zookeeper[0]).name}.{UNIQUE}-future")
    found = answer(*zookeeper, release="2.8")
    assert (found.outcome, len(found.consequences)) == (StartOutcome.DIRECTORY_OFFLINE, 1)
    copy_tree(partition(kraft), kraft / f"{partition(kraft).name}.{UNIQUE}-future")
    ended = answer(kraft, release="4.3")
    assert (ended.outcome, ended.exception) == (
        StartOutcome.FAILS, "org.apache.kafka.common.errors.KafkaStorageException"
    )  # fmt: skip
    assert ended.message == f"Error while renaming dir for {partition(kraft).name} in log dir {kraft}"


def test_where_the_metadata_has_it_the_only_copy_becomes_the_log(kraft: Path) -> None:
    live = partition(kraft)
    live.rename(kraft / f"{live.name}.{UNIQUE}-future")
    found = answer(kraft, release="4.3")
    assert (found.outcome, told(found, ConsequenceKind.FUTURE_PROMOTED).names) == (StartOutcome.STARTS, ())


def test_elsewhere_the_only_copy_is_truncated_to_nothing_with_kraft(kraft: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    own = (kraft / "meta.properties").read_text()
    identifier = next(line for line in own.splitlines() if line.startswith("directory.id"))
    (other / "meta.properties").write_text(own.replace(identifier, "directory.id=QLzt-g_BuAkWCE5UuGwm5Q"))
    live = partition(kraft)
    live.rename(other / f"{live.name}.{UNIQUE}-future")
    found = answer(kraft, other, release="4.3")
    assert (found.outcome, told(found, ConsequenceKind.FUTURE_TRUNCATED).names) == (StartOutcome.DELETES, (live.name,))
    said = " ".join(kafkalog("plan", kraft, other).out.split())
    assert f"served after a start as it is, but empty: 1 partition ({live.name})" in said
    assert "out of service" not in said


def test_an_older_copy_that_becomes_the_log_is_to_be_moved_away_first(kraft: Path, tmp_path: Path) -> None:
    """4.1.1 made such a copy the current log, and removed the longer one."""
    other = tmp_path / "other"
    other.mkdir()
    own = (kraft / "meta.properties").read_text()
    identifier = next(line for line in own.splitlines() if line.startswith("directory.id"))
    (other / "meta.properties").write_text(own.replace(identifier, "directory.id=QLzt-g_BuAkWCE5UuGwm5Q"))
    live = kraft / "stock-44-0"
    future = live.rename(kraft / f"{live.name}.{UNIQUE}-future")
    copy_tree(future, other / live.name)
    last = max(future.glob("*.log"))
    last.chmod(0o600)
    os.truncate(last, 0)
    found = answer(kraft, other, release="4.3")
    lost = told(found, ConsequenceKind.DELETED)
    assert (found.outcome, lost.file, lost.lost) == (StartOutcome.DELETES, str(future), (live.name,))
    assert "(it ends at 0, the current log at " in lost.detail
    screen = " ".join(kafkalog("plan", kraft, other).out.partition("\n\n")[0].replace("\\\n", " ").split())
    assert "before a start, move the copy of an unfinished move out of its log directory" in screen
    command = f"mv {future} {kraft}.{future.name}"
    assert screen.endswith(command)
    subprocess.run(shlex.split(command), check=True)
    assert not any(consequence.lost for consequence in answer(kraft, other, release="4.3").consequences)


def test_a_long_sentence_about_the_start_is_said_once_for_all_directories(kraft: Path, tmp_path: Path) -> None:
    test_elsewhere_the_only_copy_is_truncated_to_nothing_with_kraft(kraft, tmp_path)
    sentence = "is the only copy here, and the start makes"
    screen, _, details = kafkalog("plan", kraft, tmp_path / "other").out.partition("\n\n")
    assert [" ".join(text.split()).count(sentence) for text in (screen, details)] == [1, 1]
    done = " ".join(kafkalog("recover", "--yes", kraft, tmp_path / "other").out.split())
    assert done.count(sentence) == 3, "on the screen, in the details, and in the result"
    assert "a broker changes nothing in these logs, but its start does what is said above" in done


def test_what_other_brokers_have_in_sync_is_not_lost(kraft: Path, tmp_path: Path) -> None:
    """Three brokers of 4.3.0, one with an empty new disk: all had all partitions in sync after its start."""
    test_elsewhere_the_only_copy_is_truncated_to_nothing_with_kraft(kraft, tmp_path)
    (future,) = (tmp_path / "other").glob("*-future")
    identifier = next(line.split()[1] for line in (future / "partition.metadata").read_text().splitlines()[1:])
    name, version, fields = partition_change(identifier)
    log = max((kraft / "__cluster_metadata-0").glob("*.log"))
    append_metadata(log, (name, version, fields | {"isr": [11, 12], "leader": 11}))
    found = answer(kraft, tmp_path / "other", release="4.3")
    consequence = told(found, ConsequenceKind.FUTURE_RESUMED)
    assert (found.outcome, consequence.lost) == (StartOutcome.STARTS, ())
    assert f"brokers 11, 12 have {future.name.split('.')[0]} in sync" in consequence.detail
    printed = " ".join(kafkalog("plan", kraft, tmp_path / "other").out.split())
    assert "out of service after a start: nothing here" in printed
    assert "lost with this plan: nothing" in printed


@pytest.mark.parametrize(
    ("state", "kind", "outcome"),
    [
        ("delete", ConsequenceKind.DELETED, StartOutcome.DELETES),
        ("stray", ConsequenceKind.STRAY, StartOutcome.STRAYS),
    ],
)
def test_a_partition_that_is_put_away_by_name_alone(
    state: str, kind: ConsequenceKind, outcome: StartOutcome, kraft: Path
) -> None:
    """The metadata knows of no deletion: the broker makes the partition again, empty."""
    live = partition(kraft)
    live.rename(kraft / f"{live.name}.{UNIQUE}-{state}")
    found = answer(kraft, release="4.3")
    assert (found.outcome, told(found, kind).names) == (outcome, (live.name,))
    assert exit_codes(kraft) == (1, 1)
    assert f"rename {kraft}/{live.name}.{UNIQUE}-{state} to {live.name}" in found.consequences[0].detail
