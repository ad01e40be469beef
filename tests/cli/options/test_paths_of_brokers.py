"""A broker's log directories, named one by one, by their parent or by server.properties: every command takes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import BrokerLock
from testkit.judging.trees import stamps
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import Finished, kafkalog

DELETED = "audit-23"
"""A topic that the broker had deleted and not yet removed; the cluster does not know it any more."""
DAMAGED = "visits-7-0"
STATES = [
    ("sound", "parent"),
    ("damaged", "server.properties"),
    *(
        pytest.param(state, named, marks=pytest.mark.sweep)
        for state, named in [
            ("sound", "each"), ("sound", "server.properties"), ("damaged", "each"), ("damaged", "parent")
        ]
    ),
]  # fmt: skip
CODES = {
    "ls --json": (0, 1),
    "verify --json": (0, 1),
    "plan --json": (0, 1),
    "recover --json": (0, 3),
    "recover --json --dry-run": (0, 1),
    "recover --json --yes": (0, 2),
    "undelete --json": (0, 0),
    f"undelete --json --topic {DELETED} --yes": (3, 3),
    f"undelete --json --topic {DELETED} --hold --yes": (2, 2),
    "compact --json --dry-run --config cleanup.policy=compact": (0, 1),
    "compact --json --yes --config cleanup.policy=compact": (2, 2),
    "runs --json": (0, 0),
    "undo --json --yes": (3, 3),
    "index verify --json": (0, 1),
    "index rebuild --json --yes": (2, 3),
    "top --json": (0, 1),
    "retention --json": (0, 1),
}  # fmt: skip
"""Command -> its exit code on sound directories, and where the last batch of a log in one of them is damaged."""


@pytest.fixture
def volumes(tmp_path: Path) -> list[Path]:
    """Two directories of one broker: partitions in the first, the cluster's metadata log in the second."""
    (source,) = brokers("4.3.0/metadata")
    first, second = own_copy(source, tmp_path / "disks" / "a"), own_copy(source, tmp_path / "disks" / "b")
    keep(first, lambda name: name != "__cluster_metadata-0")
    keep(second, lambda name: name == "__cluster_metadata-0")
    meta = first / "meta.properties"  # the voter set has the id of the other one
    own = next(line for line in meta.read_text().splitlines() if line.startswith("directory.id="))
    meta.write_text(meta.read_text().replace(own, "directory.id=AAAAAAAAAAAAAAAAAAAAZg"))
    return [first, second]


def keep(volume: Path, is_kept: Callable[[str], bool]) -> None:
    """Take out the other partitions, also from the checkpoints."""
    for each in volume.iterdir():
        if each.is_dir() and not is_kept(each.name):
            shutil.rmtree(each)
        elif each.name.endswith("-checkpoint"):
            version, _count, *lines = each.read_text().splitlines()
            kept = [line for line in lines if is_kept("-".join(line.split()[:2]))]
            each.write_text("".join(f"{line}\n" for line in [version, len(kept), *kept]))


def damage(volume: Path) -> None:
    """As a disk and a crash leave it: the last batch is not as it was, and the broker did not stop in order."""
    log = max((volume / DAMAGED).glob("*.log"))
    data = bytearray(log.read_bytes())
    data[-3] ^= 0x10
    log.write_bytes(data)
    (volume / ".kafka_cleanshutdown").unlink()


def run(words: str, volumes: list[Path], named: str) -> Finished:
    command = words.split()
    if named == "each":
        return kafkalog(*command, *volumes)
    if named == "parent":
        return kafkalog(*command, volumes[0].parent)
    file = volumes[0].parent.parent / "server.properties"
    # the metadata log is in the first of them unless `metadata.log.dir` says otherwise (`KafkaConfig.metadataLogDir`)
    ordered = sorted(volumes, key=lambda volume: not (volume / "__cluster_metadata-0").is_dir())
    file.write_text(f"log.dirs={','.join(map(str, ordered))}\n")
    return kafkalog(*command, "--server-properties", file)


@pytest.mark.parametrize(("state", "named"), STATES)
@pytest.mark.parametrize("words", CODES)
def test_every_command_takes_all_directories_of_a_broker(
    words: str, state: str, named: str, volumes: list[Path]
) -> None:
    if state == "damaged":
        damage(volumes[0])
    before = [stamps(volume) for volume in volumes]
    finished = run(words, volumes, named)
    assert finished.code == CODES[words][state == "damaged"]
    if finished.code != 2:
        assert [stamps(volume) for volume in volumes] == before


def test_what_the_metadata_log_says_counts_for_every_directory(volumes: list[Path]) -> None:
    """The deleted topic's directory is in one, and that the cluster does not know it any more is in the other."""
    finished = run(f"undelete --topic {DELETED} --yes", volumes, "parent")
    assert finished.code == 3
    assert f"{volumes[0]}: the cluster does not know {DELETED}" in finished.err
    listed = run("undelete --json", volumes, "parent").objects
    assert [line["path"] for line in listed] == list(map(str, volumes))
    assert [each["topic"] for line in listed for each in line["remains"] if "it does not now" in each["outcome"]] == [
        DELETED, *(["trades-46"] * 5)
    ]  # fmt: skip


def test_a_lock_on_one_directory_keeps_the_others_as_they_are(volumes: list[Path]) -> None:
    damage(volumes[0])
    before = stamps(volumes[0])
    with FileSystem(str(volumes[1])) as held, BrokerLock(held):
        for words in ("recover --yes", f"undelete --topic {DELETED} --hold --yes", "index rebuild --yes",
                      "compact --yes --config cleanup.policy=compact"):  # fmt: skip
            finished = run(words, volumes, "parent")
            assert (finished.code, str(volumes[1]) in finished.err) == (3, True), words
    assert stamps(volumes[0]) == before


def test_runs_of_one_recovery_are_undone_by_name(volumes: list[Path]) -> None:
    """Two directories are changed at once; undo does not guess which runs belong together."""
    before = [stamps(volume) for volume in volumes]
    rebuilt = run("index rebuild --yes --json --cluster-metadata", volumes, "parent").objects
    named = [line["run_id"] for line in rebuilt]
    refused = run("undo --yes", volumes, "parent")
    assert refused.code == 3
    assert all(f"{run_id} on {volume}" in refused.err for run_id, volume in zip(named, volumes, strict=True))
    words = " ".join(f"--run {run_id}" for run_id in named)
    undone = run(f"undo --yes --json {words}", volumes, "server.properties")
    assert undone.code == 2
    assert sorted(line["run_id"] for line in undone.objects) == sorted(named)
    assert [stamps(volume) for volume in volumes] == before
    assert run(f"runs --json --yes --purge {named[1]}", volumes, "each").code == 2
    left = [each["run_id"] for line in run("runs --json", volumes, "each").objects for each in line["runs"]]
    assert left == [named[0]]


def fill(partition: Path) -> None:
    """Give an empty partition, as recorded, records of another topic."""
    log = partition / f"{0:020}.log"
    source = next(path for path in partition.parents[1].glob(f"*/*-[0-9]/{log.name}") if path.stat().st_size)
    log.write_bytes(source.read_bytes())


def test_a_partition_does_not_come_back_into_a_second_directory_of_its_broker(volumes: list[Path]) -> None:
    """A topic that is created again may get other directories, and a broker does not start on two of a partition."""
    (deleted,) = (each.name for each in volumes[0].iterdir() if each.name.startswith(DELETED))
    shutil.rmtree(volumes[1] / "__cluster_metadata-0")
    fill(own_copy(volumes[0] / deleted, volumes[1] / f"{DELETED}-0"))
    before = [stamps(volume) for volume in volumes]
    refused = run(f"undelete --topic {DELETED} --yes", volumes, "parent")
    assert refused.code == 3
    assert f"{DELETED}-0 would be in {volumes[0]} and in {volumes[1]}" in refused.err
    assert [stamps(volume) for volume in volumes] == before


def test_an_empty_partition_in_another_directory_gives_way(volumes: list[Path]) -> None:
    """The broker made it when the topic was created again; it would not start on both."""
    (deleted,) = (each.name for each in volumes[0].iterdir() if each.name.startswith(DELETED))
    shutil.rmtree(volumes[1] / "__cluster_metadata-0")
    empty = own_copy(volumes[0] / deleted, volumes[1] / f"{DELETED}-0")
    fill(volumes[0] / deleted)
    before = [stamps(volume) for volume in volumes]
    told = run(f"undelete --topic {DELETED} --yes", volumes, "parent")
    assert told.code == 2
    assert f"note: {DELETED}-0 in {volumes[1]} is empty and goes to quarantine" in told.out
    assert not empty.exists()
    assert sum(path.stat().st_size for path in (volumes[0] / f"{DELETED}-0").glob("*.log"))
    runs = run("runs --json", volumes, "each").objects
    words = " ".join(f"--run {each['run_id']}" for line in runs for each in line["runs"])
    assert run(f"undo --yes {words}", volumes, "each").code == 2
    assert [stamps(volume) for volume in volumes] == before


def test_directories_of_several_brokers_are_not_taken_for_one(tmp_path: Path) -> None:
    """Each broker's own metadata log places its partitions; that of another would call them stray."""
    roots = []
    for number, case in enumerate(("4.3.0/metadata", "4.4.0/metadata")):
        (source,) = brokers(case)
        roots.append(own_copy(source, tmp_path / "brokers" / str(number)))
        keep(roots[-1], lambda name: not name.endswith("-delete"))
    alone = [kafkalog("plan", "--json", root).objects[0] for root in roots]
    together = kafkalog("plan", "--json", tmp_path / "brokers")
    assert [line["actions"] for line in together.objects] == [line["actions"] for line in alone]
    assert [line["broker"]["outcome"] for line in together.objects] == ["loaded", "loaded"]
    assert not any("-stray" in str(line["actions"]) for line in together.objects)
