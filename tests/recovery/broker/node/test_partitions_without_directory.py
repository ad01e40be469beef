"""What a start leaves of partitions that no log directory has, and of log directories in a wrong place; how it is told.

Expected is what real brokers did: 4.3.0 made partitions again, empty, whose only directory was gone; 3.9.1 and 4.3.0
elected no leader for those assigned to a directory id that a disk formatted anew did not have, and 4.3.0 renamed a log
directory inside another one -stray.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log import open_partition
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery.broker.node.answer import ConsequenceKind, NodeAnswer, StartConsequence, StartOutcome
from kafkalog.recovery.broker.node.node_files import node_files
from kafkalog.recovery.broker.node.partitions import Explained, list_partitions, partition_consequences
from kafkalog.recovery.broker.node.releases import release_of
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.words.outlook import out_of_service_sentence
from testkit.judging.trees import stamps
from testkit.kafka.start_records import append_metadata, partition_change
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import Finished, kafkalog

METADATA = "__cluster_metadata-0"
OTHER_ID = "QLzt-g_BuAkWCE5UuGwm5Q"
NEW_ID = "R0zt-g_BuAkWCE5UuGwm5Q"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A combined node of 4.3.0, the only one of its cluster."""
    return own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")


def live(root: Path) -> Path:
    return next(each for each in sorted(root.iterdir()) if each.name.endswith("-0") and each.name[0] != "_")


def answer(*roots: Path, release: str = "4.3") -> NodeAnswer:
    return node_start([str(each) for each in roots], release=release).answers[0]


def lost_line(finished: Finished) -> str:
    """The sentence about what is lost, in one line."""
    text = " ".join(finished.out.split())
    return text[text.index("lost beside this plan") :][:200]


def with_identity(root: Path, source: Path, identifier: str) -> Path:
    """A log directory of the same node under another directory id."""
    root.mkdir(exist_ok=True)
    lines = (source / "meta.properties").read_text().splitlines()
    kept = [f"directory.id={identifier}" if line.startswith("directory.id=") else line for line in lines]
    (root / "meta.properties").write_text("\n".join(kept) + "\n")
    return root


def node_of(root: Path) -> int:
    """Id of the broker, the only one of its cluster."""
    ((number, _broker),) = MetadataLog(open_partition(root / METADATA)).state().image.brokers.items()
    return number


def assigned_elsewhere(root: Path) -> str:
    """Register a second log directory, and assign a partition to it; the name of the partition."""
    name = live(root).name.rpartition("-")[0]
    image = MetadataLog(open_partition(root / METADATA)).state().image
    ((number, broker),) = image.brokers.items()
    change: dict[str, Any] = {
        "broker_id": number, "broker_epoch": broker.epoch, "fenced": 0, "in_controlled_shutdown": 0,
        "log_dirs": [*broker.directories, OTHER_ID],
    }  # fmt: skip
    _name, _version, moved = partition_change(image.topics[name].id)
    log = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    log.chmod(0o600)
    append_metadata(
        log,
        ("BrokerRegistrationChangeRecord", 2, change),
        ("PartitionChangeRecord", 1, {**moved, "leader": -2, "directories": [OTHER_ID]}),
    )
    return f"{name}-0"


def without_directory_ids(root: Path) -> Path:
    """Register the broker, and write its partitions, as controllers before `metadata.version` 3.7 do."""
    image = MetadataLog(open_partition(root / METADATA)).state().image
    ((number, broker),) = image.brokers.items()
    registered: dict[str, Any] = {
        "broker_id": number, "incarnation_id": broker.incarnation_id, "broker_epoch": broker.epoch, "end_points": [],
        "features": [], "rack": None, "fenced": False, "in_controlled_shutdown": False,
    }  # fmt: skip
    partitions: list[tuple[str, int, dict[str, Any]]] = [
        ("PartitionRecord", 0, {
            "partition_id": index, "topic_id": topic.id, "replicas": list(known.replicas), "isr": list(known.isr),
            "removing_replicas": [], "adding_replicas": [], "leader": known.leader, "leader_epoch": known.leader_epoch,
            "partition_epoch": known.partition_epoch, "leader_recovery_state": 0,
        })
        for topic in image.topics.values()
        for index, known in topic.partitions.items()
    ]  # fmt: skip
    log = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    log.chmod(0o600)
    append_metadata(log, ("RegisterBrokerRecord", 1, registered), *partitions)
    return root


def forgotten(root: Path, name: str) -> None:
    """Remove a partition's directory, and its lines in the checkpoints, as after a restart without it."""
    shutil.rmtree(root / name)
    for path in root.glob("*-offset-checkpoint"):
        version, _count, *lines = path.read_text().splitlines()
        kept = [line for line in lines if line.split()[:2] != name.rsplit("-", 1)]
        path.write_text("".join(f"{line}\n" for line in (version, len(kept), *kept)))


def test_without_directory_ids_a_partition_that_is_gone_is_made_again_too(data: Path) -> None:
    """As brokers of 3.9.1 and 4.4.0 did with `metadata.version` 3.6 (tests/interop/test_two_directories.py)."""
    without_directory_ids(data)
    assert [kafkalog(command, data).code for command in ("verify", "plan")] == [0, 0]
    name = live(data).name
    forgotten(data, name)
    found = answer(data)
    (consequence,) = [each for each in found.consequences if each.kind is ConsequenceKind.EMPTY_AGAIN]
    assert (consequence.names, consequence.lost) == ((name,), (name,))
    for command in (["verify", data], ["plan", data], ["report", data, "--format", "text", "-o", "-"]):
        told = kafkalog(*command)
        assert (told.code, "made again, empty (unless a log directory" in " ".join(told.out.split())) == (1, True)
        assert f"that was not given has them): {name}" in " ".join(told.out.split())
    certain = node_start([str(data)], properties={"log.dirs": str(data)}, release="4.3").answers[0]
    assert "unless" not in "".join(each.detail for each in certain.consequences)
    two = node_start([str(data)], properties={"log.dirs": f"{data},{data.with_name('gone')}"}, release="4.3").answers[0]
    assert not any(each.kind is ConsequenceKind.EMPTY_AGAIN for each in two.consequences)


def test_without_directory_ids_a_partition_in_the_other_directory_is_not_missing(data: Path, tmp_path: Path) -> None:
    without_directory_ids(data)
    other = with_identity(tmp_path / "other", data, OTHER_ID)
    name = live(data).name
    (data / name).rename(other / name)
    for path in data.glob("*-offset-checkpoint"):
        path.unlink()
    assert kafkalog("verify", data, other).code == 0
    planned = kafkalog("plan", data, other).out
    assert ("made again" in planned, "partition_missing" in planned) == (False, False)
    assert kafkalog("verify", data).code == 1


def test_a_partition_that_is_gone_is_lost_with_every_plan(data: Path) -> None:
    name = live(data).name
    shutil.rmtree(data / name)
    found = answer(data)
    (consequence,) = [each for each in found.consequences if each.kind is ConsequenceKind.EMPTY_AGAIN]
    assert (consequence.names, consequence.lost) == ((name,), (name,))
    assert f"all or part of 1 partition ({name})" in lost_line(kafkalog("plan", data))
    triage = kafkalog("triage", data)
    assert (triage.code, "Nothing is lost" in triage.out) == (1, False)
    assert f"What was in 1 partition ({name}) is lost" in " ".join(triage.out.split())


@pytest.mark.parametrize("what", ["file", "link"])
def test_a_file_in_place_of_a_partition_ends_the_only_directory(what: str, data: Path) -> None:
    """As 3.9.1, 4.1.0 and 4.3.0 did: `Files.createDirectories` fails, and the log directory with it."""
    path = data / live(data).name
    shutil.rmtree(path)
    path.symlink_to("nothing") if what == "link" else path.write_bytes(b"")
    found = answer(data)
    assert (found.outcome, found.exception) == (StartOutcome.FAILS, "java.nio.file.FileAlreadyExistsException")
    assert (found.message, found.consequences) == (str(path), ())
    for words in (["verify"], ["plan"], ["report", "-o", "-", "--format", "text"]):
        said = " ".join(kafkalog(*words, data).out.split())
        assert f"would NOT START on it: java.nio.file.FileAlreadyExistsException: {path}" in said
        if words != ["verify"]:
            assert f"lost beside this plan: what was in 1 partition ({path.name})" in said
    assert "is taken to stay down" in kafkalog("triage", data).out


def test_a_file_in_place_of_a_partition_takes_one_of_two_directories_offline(data: Path, tmp_path: Path) -> None:
    """As 4.1.0 did: the partitions of that directory had no leader, and the others were served."""
    name = assigned_elsewhere(data)
    other = with_identity(tmp_path / "other", data, OTHER_ID)
    shutil.rmtree(data / name)
    (other / name).write_bytes(b"")
    found = answer(data, other)
    (offline,) = [each for each in found.consequences if each.kind is ConsequenceKind.DIRECTORY_OFFLINE]
    assert (found.outcome, offline.file) == (StartOutcome.DIRECTORY_OFFLINE, str(other / name))
    foreseen = kafkalog("triage", data, other)
    assert foreseen.code == 1
    assert "1 may have no leader" in " ".join(foreseen.out.split())


def test_what_a_start_deletes_is_lost_with_the_plan_before_it(data: Path) -> None:
    name = live(data).name
    (data / name).rename(data / f"{name}.{'0' * 32}-delete")
    assert f"all or part of 1 partition ({name})" in lost_line(kafkalog("plan", data))


def test_where_nobody_knows_the_metadata_a_missing_directory_is_told_beside_the_sum(tmp_path: Path) -> None:
    root = own_copy(brokers("2.8.2/segments")[0], tmp_path / "data")
    name = live(root).name
    shutil.rmtree(root / name)
    assert f"what was in 1 partition ({name}), of which there is no directory here" in lost_line(
        kafkalog("plan", root)
    )


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_a_new_disk_in_place_of_one_with_partitions_leaves_them_without_leader(
    release: str, data: Path, tmp_path: Path
) -> None:
    name = assigned_elsewhere(data)
    other = with_identity(tmp_path / "other", data, OTHER_ID)
    (data / name).rename(other / name)
    assert answer(data, other, release="4.3").outcome is StartOutcome.STARTS
    shutil.rmtree(other / name)
    with_identity(other, data, NEW_ID)
    found = answer(data, other, release=release)
    (consequence,) = [each for each in found.consequences if each.kind is ConsequenceKind.NOT_SERVING]
    assert (found.outcome, consequence.lost) == (StartOutcome.NOT_SERVING, (name,))
    verified, planned = kafkalog("verify", data, other), kafkalog("plan", data, other)
    assert (verified.code, planned.code) == (1, 1)
    assert "clean:" not in verified.out.replace("not clean:", "")
    assert f"all of 1 partition ({name}), unless the lost log directory comes back" in lost_line(planned)


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_properties_of_another_node_do_not_count(command: str, data: Path, tmp_path: Path) -> None:
    """They were taken for this node's, which 4.1.1 started with its own; where they name the directory they count."""
    properties = tmp_path / "server.properties"
    text = "process.roles=broker\nnode.id=77\ncontroller.quorum.voters=3@localhost:9093\nlog.dirs="
    properties.write_text(f"{text}{tmp_path / 'elsewhere'}\n")
    said = " ".join(kafkalog(command, data, "--server-properties", properties).out.split())
    assert "(with its own properties: those that were given are of node 77)" in said
    assert "NOT START" not in said
    properties.write_text(f"{text}{data}\n")
    said = " ".join(kafkalog(command, data, "--server-properties", properties).out.split())
    assert "would NOT START on it: " in said


def of_partitions(name: str, *roots: Path, release: str) -> list[StartConsequence]:
    """Consequences for one partition, of the start of a node that is not the only controller."""
    files = node_files([str(each) for each in roots], None, None)
    image = MetadataLog(open_partition(roots[0] / METADATA)).state().image
    ids = {str(each): (each / "meta.properties").read_text().split("directory.id=")[1].split()[0] for each in roots}
    there = list_partitions(files, ids)
    found, _faults = partition_consequences(
        files, there, image, node_of(roots[0]), release_of(release), Explained(), ids, all_online=True
    )
    return [each for each in found if name in each.names]


def led_on_a_lost_disk(root: Path) -> tuple[str, Path]:
    """A partition that the node led, by its metadata, on a disk that was formatted anew; and the new disk."""
    name = assigned_elsewhere(root)
    other = with_identity(root.parent / "other", root, NEW_ID)
    log = max(path for path in (root / METADATA).glob("*.log") if path.stat().st_size)
    log.chmod(0o600)
    image = MetadataLog(open_partition(root / METADATA)).state().image
    kind, version, fields = partition_change(image.topics[name.rpartition("-")[0]].id)
    fields = {**fields, "partition_id": int(name.rpartition("-")[2]), "leader": next(iter(image.brokers))}
    append_metadata(log, (kind, version, fields))
    return name, other


@pytest.mark.parametrize("release", ["3.9.0", "4.1.0"])
def test_a_node_among_other_controllers_stays_leader_on_a_lost_disk_if_it_is_back_in_time(
    release: str, data: Path
) -> None:
    """Three nodes of 3.9.1 and of 4.1.1, killed: the first was back at once, and led what was on its lost disk, empty,
    or with its records if only the id of the disk was another one. 4.1.1 that came last had no leader for it. Of two
    that came after they had been fenced, one led it, empty: it had assigned its new directory before it was unfenced.
    """
    name, other = led_on_a_lost_disk(data)
    (data / name).rename(other / name)
    (there,) = of_partitions(name, data, other, release=release)
    assert (there.kind, there.lost) == (ConsequenceKind.UNFORESEEN, ())
    assert "may have no leader" in there.detail
    shutil.rmtree(other / name)
    (gone,) = of_partitions(name, data, other, release=release)
    assert (gone.kind, gone.lost) == (ConsequenceKind.NOT_SERVING, (name,))
    late = "have no leader" if release == "3.9.0" else "have no leader or are served empty"
    assert f"are served empty if this node is back before the controllers fence it, else {late}: {name}" in gone.detail
    answers = (NodeAnswer(outcome=StartOutcome.NOT_SERVING, consequences=(gone,)),)
    start = structs.replace(node_start([str(data), str(other)], release=release), answers=answers)
    said = f"out of service after a start as it is, or served empty: 1 partition ({name})"
    assert out_of_service_sentence([start]) == said


def test_a_node_that_was_killed_leads_what_was_on_a_lost_disk_empty(data: Path) -> None:
    """3.9.1, 4.1.1 and 4.3.0, as only controller and broker, led all partitions at the first start after a kill, and
    after a stop in order those of the lost disk from the second on: only a stop in order takes the leader away.
    """
    name, other = led_on_a_lost_disk(data)
    shutil.rmtree(data / name)
    found = answer(data, other)
    (consequence,) = found.consequences
    assert (found.outcome, consequence.kind) == (StartOutcome.STARTS, ConsequenceKind.EMPTY_AGAIN)
    assert consequence.lost == (name,)
    planned, verified, triaged = (kafkalog(command, data, other) for command in ("plan", "verify", "triage"))
    assert f"all of 1 partition ({name}), unless the lost log directory comes back" in lost_line(planned)
    assert f"served after a start as it is, but empty: 1 partition ({name})" in planned.out
    assert "out of service" not in planned.out + verified.out
    assert "before a start, look for the old disk (runbook: lost-directory)" in " ".join(planned.out.split())
    for finished in (planned, verified, triaged):
        assert finished.code == 1
        assert f"are served empty from this start on: {name}" in " ".join(finished.out.split())
    assert "error: start_loses" in verified.err


def test_a_directory_that_the_properties_leave_out_leaves_its_partitions_without_leader(
    data: Path, tmp_path: Path
) -> None:
    """As 4.1.0 did: no leader after the first start, whatever the time; after the second they were led, empty."""
    name = assigned_elsewhere(data)
    shutil.rmtree(data / name)
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    found = node_start([str(data)], properties={"log.dirs": str(data)}, release="4.3").answers[0]
    (consequence,) = [each for each in found.consequences if each.kind is ConsequenceKind.NOT_SERVING]
    assert (found.outcome, consequence.lost) == (StartOutcome.NOT_SERVING, (name,))
    planned = kafkalog("plan", "--server-properties", properties)
    assert planned.code == 1
    assert f"all of 1 partition ({name}), unless the lost log directory comes back" in lost_line(planned)
    assert "nothing here" not in planned.out
    assert kafkalog("verify", "--server-properties", properties).code == 1
    assert answer(data).outcome is StartOutcome.STARTS, "perhaps the other directory was only not given"


@pytest.mark.parametrize("is_formatted", [False, True])
def test_a_new_disk_with_the_old_id_has_its_partitions_served_empty(
    is_formatted: bool, data: Path, tmp_path: Path
) -> None:
    """As 4.1.0 did after the three lines of the page, and the command."""
    name = assigned_elsewhere(data)
    shutil.rmtree(data / name)
    other = with_identity(tmp_path / "other", data, NEW_ID)
    written = (other / "meta.properties").read_text().splitlines()
    if is_formatted:
        planned = " ".join(kafkalog("plan", data, other).out.split())
        assert "mount the old disk; if it is lost, an empty directory with its old directory.id" in planned
        assert "fetches what other brokers have" not in planned
    kept = [line for line in written if line.startswith(("version", "cluster.id", "node.id"))]
    (other / "meta.properties").write_text("\n".join([*kept, ""]))
    recovered = kafkalog("recover", "--meta-properties", "--yes", data, other)
    assert (recovered.code, "1 file changes in 0 of 0 partitions" in recovered.out) == (2, True)
    assert f"directory.id={OTHER_ID}" in (other / "meta.properties").read_text().splitlines()
    found = answer(data, other)
    (consequence,) = [each for each in found.consequences if each.kind is ConsequenceKind.EMPTY_AGAIN]
    assert (found.outcome, consequence.lost) == (StartOutcome.STARTS, (name,))


def test_a_new_disk_does_not_leave_what_others_have_in_sync_without_leader(data: Path, tmp_path: Path) -> None:
    """Three brokers of 4.3.0, one with an empty new disk: all had all partitions in sync after its start."""
    name = assigned_elsewhere(data)
    topic_id = (data / name / "partition.metadata").read_text().split()[-1]
    shutil.rmtree(data / name)
    other = with_identity(tmp_path / "other", data, NEW_ID)
    log = max((data / METADATA).glob("*.log"))
    schema, version, fields = partition_change(topic_id)
    append_metadata(log, (schema, version, fields | {"isr": [11], "leader": 11}))
    found = answer(data, other)
    (consequence,) = [each for each in found.consequences if name in each.names]
    assert (found.outcome, consequence.kind, consequence.lost) == (StartOutcome.STARTS, ConsequenceKind.OTHER, ())
    held = f"other brokers (11) have them in sync by the metadata: {name}; if this node is started before those"
    assert f"{held} brokers, it can lead such a partition empty" in consequence.detail


def test_a_partition_that_is_gone_and_that_others_have_is_asked_about_before_a_start(data: Path) -> None:
    """Killed brokers of 4.3.0: the one without the directories led some of the partitions, and the others cut theirs to
    nothing.
    """
    name, node = live(data).name, node_of(data)
    topic_id = (data / name / "partition.metadata").read_text().split()[-1]
    shutil.rmtree(data / name)
    log = max((data / METADATA).glob("*.log"))
    schema, version, fields = partition_change(topic_id)
    led = "it can lead such a partition empty, and they cut their logs to nothing"
    append_metadata(log, (schema, version, fields | {"isr": [11, node], "leader": 11}))
    again, led_short = [each for each in answer(data).consequences if name in each.names]
    assert (again.kind, again.lost) == (ConsequenceKind.EMPTY_AGAIN, ())
    assert (led_short.kind, led_short.lost, led in led_short.detail) == (ConsequenceKind.OTHER, (), True)
    asked = "before a start, ask `kafkalog triage` with the directories of all brokers"
    had = f"before it what 1 partition ({name}) had here, which other brokers have"
    for words in (("plan",), ("recover", "--yes"), ("plan",), ("report", "--format", "text", "--output", "-")):
        told = " ".join(kafkalog(*words, data).out.split())
        assert [each in told for each in (led, had, asked)] == [True, True, True], words
    assert f"{asked}; recover has nothing to do here" in " ".join(kafkalog("plan", data).out.split())
    assert led in " ".join(kafkalog("verify", data).out.split())


@pytest.mark.parametrize("name", ["disk-2", "disk2"])
def test_a_log_directory_inside_another_is_neither_renamed_nor_moved(name: str, data: Path) -> None:
    inside = with_identity(data / name, data, OTHER_ID)
    found = answer(data, inside)
    wanted = StartOutcome.DIRECTORY_OFFLINE if name == "disk-2" else StartOutcome.FAILS
    assert found.outcome is wanted
    before = stamps(data)
    done = kafkalog("recover", "--yes", data, inside)
    assert done.code == 3
    assert "is a log directory of the same broker" in " ".join(done.err.split())
    assert stamps(data) == before


@pytest.mark.parametrize("command", ["plan", "verify"])
def test_metadata_that_is_older_than_the_logs_is_told(command: str, data: Path) -> None:
    """Kafka 4.3.0 on an older copy of the metadata log: "New epoch entry caused truncation of conflicting entries"."""
    log = next(path for path in sorted(data.glob("[a-z]*-0/*.log")) if path.stat().st_size)
    checkpoint = log.parent / "leader-epoch-checkpoint"
    version, count, *entries = checkpoint.read_text().splitlines()
    assert kafkalog(command, data).code == 0
    checkpoint.unlink()
    epoch = int(entries[-1].split()[0])
    end = [batch.next_offset for path in sorted(log.parent.glob("*.log")) for batch in Scanner(FileSource(path))][-1]
    later = [*entries, f"{epoch + 7} {end}"]
    checkpoint.write_text("".join(f"{line}\n" for line in [version, int(count) + 1, *later]))
    told = kafkalog(command, data)
    assert f"the metadata is older than the logs ({log.parent.name}:" in " ".join(told.out.split())
    assert told.code == 1
    beyond = [*entries, f"{epoch + 7} 1000000"]
    checkpoint.write_text("".join(f"{line}\n" for line in [version, int(count) + 1, *beyond]))
    assert "older than the logs" not in " ".join(kafkalog(command, data).out.split()), "no record has that epoch"


@pytest.mark.parametrize("command", [("plan",), ("verify",), ("report", "--format", "text", "-o", "-")])
def test_metadata_that_ends_before_its_producer_snapshot_is_told(command: tuple[str, ...], data: Path) -> None:
    """A copy of an hour before: it is cut where a batch begins, and the broker's own file says how far it went."""
    log = max((data / METADATA).glob("*.log"))
    with FileSource(str(log)) as source:
        batch = list(Scanner(source))[-3]
    written, end = int(max((data / METADATA).glob("*.snapshot")).stem), batch.header.first_offset
    for name in ("*.index", "*.timeindex"):
        max((data / METADATA).glob(name)).write_bytes(b"")
    for path in (data / METADATA).glob("*.checkpoint"):
        if int(path.name.partition("-")[0]) > end:
            path.unlink()
    log.chmod(0o600)
    log.write_bytes(log.read_bytes()[: batch.position])
    told = kafkalog(*command, data)
    words = " ".join(told.out.split())
    assert (told.code, f"goes back to offset {end}; it went to {written}: look for a newer copy" in words) == (1, True)
    assert "snapshot_mismatch" in words
    if command[0] != "verify":
        assert "lost beside this plan: the end of the metadata log, by the broker's start" in words


def test_metadata_is_not_called_older_for_an_epoch_that_no_batch_has(data: Path) -> None:
    """The checkpoint of leader epochs is wrong there: batches after the epoch's start have an earlier one."""
    log = next(path for path in sorted(data.glob("[a-z]*-0/*.log")) if path.stat().st_size)
    checkpoint = log.parent / "leader-epoch-checkpoint"
    version, count, *entries = checkpoint.read_text().splitlines()
    assert int(count)
    checkpoint.unlink()
    checkpoint.write_text(f"{version}\n1\n{int(entries[-1].split()[0]) + 7} 0\n")
    finished = kafkalog("plan", data)
    assert "older than the logs" not in " ".join(finished.out.split())
    assert "the end of the metadata log" not in finished.out
    assert "leader_epoch_mismatch" in finished.out


def test_logs_that_do_not_know_the_epoch_in_which_they_were_led_are_told(data: Path) -> None:
    """Kafka 4.3.0 started on a volume from yesterday's backup, and what was written since was gone."""
    partition = live(data)
    checkpoint = partition / "leader-epoch-checkpoint"
    version, _count, *entries = checkpoint.read_text().splitlines()
    assert int(entries[-1].split()[0]) > 0
    assert kafkalog("verify", data).code == 0
    checkpoint.unlink()
    checkpoint.write_text(f"{version}\n1\n0 0\n")
    for command in ("verify", "plan"):
        finished = kafkalog(command, data)
        printed = " ".join(finished.out.split())
        assert f"1 log is older than the metadata ({partition.name} knows leader epoch 0, was led in" in printed
        assert "look for newer copies before (runbook: backup)" in printed
        assert "nothing to do;" not in printed
        assert "this mode changes nothing" not in printed
        assert finished.code == 1
    advice = "before a start, look for newer copies of the logs (runbook: backup)"
    assert f"{advice}; recover has nothing to do here" in printed
    (data / ".kafka_cleanshutdown").unlink()
    assert "logs are older" not in " ".join(kafkalog("verify", data).out.split()), "a crash may lose the checkpoint"


def test_a_recovery_that_forgets_an_epoch_without_records_makes_no_log_older(tmp_path: Path) -> None:
    """Kafka's loader forgets it too (`LeaderEpochFileCache.truncateFromEnd` at the log end offset)."""
    data = own_copy(brokers("4.3.0/segments")[0], tmp_path / "data")
    (data / ".kafka_cleanshutdown").unlink()
    known = {path: path.read_bytes() for path in data.glob("*/leader-epoch-checkpoint")}
    assert kafkalog("recover", "--mark-clean", "--yes", data).code == 2
    assert any(path.read_bytes() != before for path, before in known.items())
    assert (data / ".kafka_cleanshutdown").exists()
    planned = kafkalog("plan", data)
    assert "older than the metadata" not in " ".join(planned.out.split())
    assert planned.code == 0


@pytest.mark.parametrize("command", ["verify", "plan"])
def test_the_partitions_of_a_log_directory_that_was_not_given_are_counted(command: str, data: Path) -> None:
    name = assigned_elsewhere(data)
    forgotten(data, name)
    start = node_start([str(data)], release="4.3")
    assert (start.not_given, start.in_not_given, start.only_in_not_given) == (1, (name,), (name,))
    said = " ".join(kafkalog(command, data).out.split())
    assert f"not given: 1 log directory of broker {start.node_id} with 1 partition; only it has all of 1 " in said
    both = [data, with_identity(data.parent / "other", data, OTHER_ID)]
    assert "not given" not in kafkalog(command, *both).out
