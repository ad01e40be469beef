"""Damages to the files that a node reads before it serves, by name: functions of log directories and a random source.

Places within files vary with the random source.  What a damage needs and does not find is `NotHereError`: that trial is
drawn again.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from testkit.kafka.start_stages import SETTINGS_OF_DAMAGE

__all__ = ["DAMAGES", "NotHereError"]

METADATA = "__cluster_metadata-0"
Damage = Callable[[list[Path], Random], None]
"""of the log directories of one node; the metadata log is in the first"""
DAMAGES: dict[str, Damage] = {}
Fields = dict[str, object]


class NotHereError(Exception):
    """What is to be damaged is not there."""


def _uuid(random: Random) -> str:
    return base64.urlsafe_b64encode(b"\x40" + random.randbytes(15)).decode().rstrip("=")


def _damage(function: Damage) -> Damage:
    DAMAGES[function.__name__.replace("_", "-")] = function
    return function


def _newest_snapshot(root: Path) -> Path:
    def position(path: Path) -> tuple[int, int]:
        end, epoch = path.stem.split("-")
        return int(epoch), int(end)

    found = sorted((root / METADATA).glob("*-*.checkpoint"), key=position)
    if not found or position(found[-1])[1] == 0:
        raise NotHereError("no snapshot")
    found[-1].chmod(0o600)
    return found[-1]


def _last_log(folder: Path) -> Path:
    logs = [each for each in sorted(folder.glob("*.log")) if each.stat().st_size]
    if not logs:
        raise NotHereError("no log")
    return logs[-1]


def _cut(path: Path, random: Random, least: int = 1) -> None:
    size = path.stat().st_size
    if size <= least:
        raise NotHereError(f"{path.name} is too short")
    path.chmod(0o600)
    os.truncate(path, random.randrange(least, size))


def _flip(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    if not data:
        raise NotHereError(f"{path.name} is empty")
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.chmod(0o600)
    path.write_bytes(data)


def _zeros(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(bytes(path.stat().st_size))


def _there(path: Path) -> Path:
    if not path.exists():
        raise NotHereError(path.name)
    path.chmod(0o700 if path.is_dir() else 0o600)
    return path


def _batches(path: Path) -> list[int]:
    """Ends of the whole batches of a file."""
    data, ends, place = path.read_bytes(), [], 0
    while place + 12 <= len(data):
        place += 12 + int.from_bytes(data[place + 8 : place + 12])
        if place > len(data):
            break
        ends.append(place)
    return ends


# ---- meta.properties


def _meta(root: Path, pattern: str, replacement: str) -> None:
    path = _there(root / "meta.properties")
    text = path.read_text()
    changed = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    if changed == text:
        raise NotHereError(pattern)
    path.write_text(changed)


@_damage
def undamaged(roots: list[Path], random: Random) -> None:
    pass


@_damage
def meta_missing(roots: list[Path], random: Random) -> None:
    _there(random.choice(roots) / "meta.properties").unlink()


@_damage
def meta_empty(roots: list[Path], random: Random) -> None:
    _there(random.choice(roots) / "meta.properties").write_bytes(b"")


@_damage
def meta_cut(roots: list[Path], random: Random) -> None:
    _cut(random.choice(roots) / "meta.properties", random)


@_damage
def meta_zeros(roots: list[Path], random: Random) -> None:
    _zeros(random.choice(roots) / "meta.properties")


@_damage
def meta_other_node(roots: list[Path], random: Random) -> None:
    _meta(random.choice(roots), r"^node\.id=.*$", "node.id=77")


@_damage
def meta_other_cluster(roots: list[Path], random: Random) -> None:
    _meta(random.choice(roots), r"^cluster\.id=.*$", f"cluster.id={_uuid(random)}")


@_damage
def meta_no_directory_id(roots: list[Path], random: Random) -> None:
    _meta(roots[0], r"^directory\.id=.*\n", "")


@_damage
def meta_other_directory_id(roots: list[Path], random: Random) -> None:
    _meta(roots[0], r"^directory\.id=.*$", f"directory.id={_uuid(random)}")


@_damage
def meta_reserved_directory_id(roots: list[Path], random: Random) -> None:
    _meta(random.choice(roots), r"^directory\.id=.*$", "directory.id=AAAAAAAAAAAAAAAAAAAAAQ")


@_damage
def meta_duplicate_directory_id(roots: list[Path], random: Random) -> None:
    if len(roots) < 2:
        raise NotHereError("one directory")
    found = re.search(r"^directory\.id=(.*)$", (roots[0] / "meta.properties").read_text(), flags=re.MULTILINE)
    assert found
    _meta(roots[1], r"^directory\.id=.*$", f"directory.id={found[1]}")


@_damage
def meta_version_0(roots: list[Path], random: Random) -> None:
    _meta(roots[0], r"^version=1$", "version=0")


# ---- bootstrap.checkpoint


def _bootstrap(roots: list[Path]) -> Path:
    return _there(roots[0] / "bootstrap.checkpoint")


@_damage
def bootstrap_missing(roots: list[Path], random: Random) -> None:
    _bootstrap(roots).unlink()


@_damage
def bootstrap_empty(roots: list[Path], random: Random) -> None:
    _bootstrap(roots).write_bytes(b"")


@_damage
def bootstrap_cut(roots: list[Path], random: Random) -> None:
    _cut(_bootstrap(roots), random)


@_damage
def bootstrap_flipped(roots: list[Path], random: Random) -> None:
    _flip(_bootstrap(roots), random)


@_damage
def bootstrap_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_bootstrap(roots))


# ---- quorum-state


def _quorum_state(roots: list[Path]) -> Path:
    return _there(roots[0] / METADATA / "quorum-state")


@_damage
def quorum_state_missing(roots: list[Path], random: Random) -> None:
    _quorum_state(roots).unlink()


@_damage
def quorum_state_empty(roots: list[Path], random: Random) -> None:
    _quorum_state(roots).write_bytes(b"")


@_damage
def quorum_state_cut(roots: list[Path], random: Random) -> None:
    _cut(_quorum_state(roots), random)


@_damage
def quorum_state_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_quorum_state(roots))


def _state(roots: list[Path], **changes: object) -> None:
    path = _quorum_state(roots)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}, separators=(",", ":")))


@_damage
def quorum_state_version_2(roots: list[Path], random: Random) -> None:
    _state(roots, data_version=2)


@_damage
def quorum_state_later_epoch(roots: list[Path], random: Random) -> None:
    _state(roots, leaderEpoch=random.randrange(50, 5000))


@_damage
def quorum_state_negative_epoch(roots: list[Path], random: Random) -> None:
    _state(roots, leaderEpoch=-5)


@_damage
def quorum_state_without_epoch(roots: list[Path], random: Random) -> None:
    path = _quorum_state(roots)
    state = json.loads(path.read_text())
    del state["leaderEpoch"]
    path.write_text(json.dumps(state))


# ---- the newest snapshot of the metadata


@_damage
def snapshot_missing(roots: list[Path], random: Random) -> None:
    _newest_snapshot(roots[0]).unlink()


@_damage
def all_snapshots_missing(roots: list[Path], random: Random) -> None:
    _newest_snapshot(roots[0])
    for path in (roots[0] / METADATA).glob("*.checkpoint"):
        path.unlink()


@_damage
def snapshot_empty(roots: list[Path], random: Random) -> None:
    _newest_snapshot(roots[0]).write_bytes(b"")


@_damage
def snapshot_cut(roots: list[Path], random: Random) -> None:
    _cut(_newest_snapshot(roots[0]), random)


@_damage
def snapshot_cut_early(roots: list[Path], random: Random) -> None:
    path = _newest_snapshot(roots[0])
    os.truncate(path, random.randrange(1, _batches(path)[0]))


@_damage
def snapshot_cut_at_batch(roots: list[Path], random: Random) -> None:
    path = _newest_snapshot(roots[0])
    os.truncate(path, random.choice(_batches(path)[:-1]))


@_damage
def snapshot_zero_tail(roots: list[Path], random: Random) -> None:
    path = _newest_snapshot(roots[0])
    size = path.stat().st_size
    place = random.randrange(1, size)
    path.write_bytes(path.read_bytes()[:place] + bytes(size - place))


@_damage
def snapshot_flipped(roots: list[Path], random: Random) -> None:
    _flip(_newest_snapshot(roots[0]), random)


# ---- the metadata log


@_damage
def metadata_log_cut(roots: list[Path], random: Random) -> None:
    _cut(_last_log(roots[0] / METADATA), random)


@_damage
def metadata_log_torn(roots: list[Path], random: Random) -> None:
    path = _last_log(roots[0] / METADATA)
    size = path.stat().st_size
    os.truncate(path, size - random.randrange(1, min(60, size)))


@_damage
def metadata_log_zero_tail(roots: list[Path], random: Random) -> None:
    with _last_log(roots[0] / METADATA).open("ab") as file:
        file.write(bytes(random.choice((17, 100, 4096))))


@_damage
def metadata_log_flipped(roots: list[Path], random: Random) -> None:
    logs = [each for each in sorted((roots[0] / METADATA).glob("*.log")) if each.stat().st_size]
    _flip(random.choice(logs), random)


@_damage
def metadata_log_empty(roots: list[Path], random: Random) -> None:
    for path in (roots[0] / METADATA).glob("*.log"):
        path.write_bytes(b"")


@_damage
def metadata_log_gone(roots: list[Path], random: Random) -> None:
    for path in (roots[0] / METADATA).glob("0*.log"):
        path.unlink()


@_damage
def metadata_first_segment_gone(roots: list[Path], random: Random) -> None:
    logs = sorted((roots[0] / METADATA).glob("*.log"))
    if len(logs) < 2:
        raise NotHereError("one segment")
    logs[0].unlink()


@_damage
def metadata_directory_gone(roots: list[Path], random: Random) -> None:
    shutil.rmtree(roots[0] / METADATA)


@_damage
def metadata_partition_metadata_missing(roots: list[Path], random: Random) -> None:
    _there(roots[0] / METADATA / "partition.metadata").unlink()


@_damage
def metadata_partition_metadata_empty(roots: list[Path], random: Random) -> None:
    _there(roots[0] / METADATA / "partition.metadata").write_bytes(b"")


@_damage
def metadata_partition_metadata_other(roots: list[Path], random: Random) -> None:
    _there(roots[0] / METADATA / "partition.metadata").write_text(f"version: 0\ntopic_id: {_uuid(random)}")


@_damage
def metadata_epochs_missing(roots: list[Path], random: Random) -> None:
    _there(roots[0] / METADATA / "leader-epoch-checkpoint").unlink()


@_damage
def metadata_epochs_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_there(roots[0] / METADATA / "leader-epoch-checkpoint"))


# ---- partitions


def _partition(roots: list[Path], random: Random, pattern: str = "[a-z]*-[0-9]") -> Path:
    found = sorted(path for root in roots for path in root.glob(pattern) if path.is_dir())
    if not found:
        raise NotHereError(pattern)
    return random.choice(found)


@_damage
def partition_metadata_missing(roots: list[Path], random: Random) -> None:
    _there(_partition(roots, random) / "partition.metadata").unlink()


@_damage
def partition_metadata_empty(roots: list[Path], random: Random) -> None:
    _there(_partition(roots, random) / "partition.metadata").write_bytes(b"")


@_damage
def partition_metadata_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_there(_partition(roots, random) / "partition.metadata"))


@_damage
def partition_metadata_other_id(roots: list[Path], random: Random) -> None:
    _there(_partition(roots, random) / "partition.metadata").write_text(f"version: 0\ntopic_id: {_uuid(random)}")


@_damage
def every_partition_metadata_missing(roots: list[Path], random: Random) -> None:
    for root in roots:
        for path in root.glob("[a-z_]*-[0-9]/partition.metadata"):
            if path.parent.name != METADATA:
                path.unlink()


@_damage
def partition_missing(roots: list[Path], random: Random) -> None:
    shutil.rmtree(_partition(roots, random))


@_damage
def unknown_partition(roots: list[Path], random: Random) -> None:
    source = _partition(roots, random)
    made = source.parent / f"stranger-{random.randrange(9)}"
    shutil.copytree(source, made)
    (made / "partition.metadata").write_text(f"version: 0\ntopic_id: {_uuid(random)}")


@_damage
def foreign_directory(roots: list[Path], random: Random) -> None:
    (roots[0] / random.choice(("backup", "lost+found", "orders-x"))).mkdir()


@_damage
def log_torn(roots: list[Path], random: Random) -> None:
    partition = _partition(roots, random)
    path = _last_log(partition)
    os.truncate(path, path.stat().st_size - random.randrange(1, 40))
    for root in roots:
        (root / ".kafka_cleanshutdown").unlink(missing_ok=True)


@_damage
def partition_epochs_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_there(_partition(roots, random) / "leader-epoch-checkpoint"))


# ---- Kafka's own topics


@_damage
def offsets_partition_metadata_missing(roots: list[Path], random: Random) -> None:
    _there(_partition(roots, random, "__consumer_offsets-0") / "partition.metadata").unlink()


@_damage
def offsets_flipped(roots: list[Path], random: Random) -> None:
    path = _last_log(_partition(roots, random, "__consumer_offsets-0"))
    ends = _batches(path)
    data = bytearray(path.read_bytes())
    data[random.randrange(61, ends[0])] ^= 4
    path.write_bytes(data)


@_damage
def transactions_flipped(roots: list[Path], random: Random) -> None:
    path = _last_log(_partition(roots, random, "__transaction_state-0"))
    ends = _batches(path)
    data = bytearray(path.read_bytes())
    data[random.randrange(61, ends[0])] ^= 4
    path.write_bytes(data)


def _value_of_first(path: Path, version: int) -> None:
    """Give the first record's value a version that no release knows, under a right checksum."""
    from testkit.kafka.start_records import with_first_value

    path.write_bytes(with_first_value(path.read_bytes(), version))


@_damage
def offsets_unknown_version(roots: list[Path], random: Random) -> None:
    _value_of_first(_last_log(_partition(roots, random, "__consumer_offsets-0")), 77)


@_damage
def transactions_unknown_version(roots: list[Path], random: Random) -> None:
    _value_of_first(_last_log(_partition(roots, random, "__transaction_state-0")), 77)


# ---- files of the log directory


@_damage
def recovery_point_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_there(random.choice(roots) / "recovery-point-offset-checkpoint"))


@_damage
def log_start_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_there(random.choice(roots) / "log-start-offset-checkpoint"))


@_damage
def high_watermarks_zeros(roots: list[Path], random: Random) -> None:
    _zeros(_there(random.choice(roots) / "replication-offset-checkpoint"))


@_damage
def clean_marker_missing(roots: list[Path], random: Random) -> None:
    for root in roots:
        _there(root / ".kafka_cleanshutdown").unlink()


@_damage
def clean_marker_empty(roots: list[Path], random: Random) -> None:
    for root in roots:
        _there(root / ".kafka_cleanshutdown").write_bytes(b"")


@_damage
def clean_marker_other_epoch(roots: list[Path], random: Random) -> None:
    for root in roots:
        _there(root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":99999}')


@_damage
def cleaner_checkpoint_garbage(roots: list[Path], random: Random) -> None:
    (random.choice(roots) / "cleaner-offset-checkpoint").write_text("nothing of the kind\n")


@_damage
def high_watermarks_missing(roots: list[Path], random: Random) -> None:
    _there(random.choice(roots) / "replication-offset-checkpoint").unlink()


# ---- records of the metadata that contradict


def _append(roots: list[Path], *records: tuple[str, int, Fields]) -> None:
    from testkit.kafka.start_records import append_metadata

    append_metadata(_last_log(roots[0] / METADATA), *records)


@_damage
def duplicate_topic(roots: list[Path], random: Random) -> None:
    _append(roots, ("TopicRecord", 0, {"name": "orders", "topic_id": _uuid(random)}))


@_damage
def unknown_topic(roots: list[Path], random: Random) -> None:
    _append(roots, ("RemoveTopicRecord", 0, {"topic_id": _uuid(random)}))


@_damage
def partition_of_unknown_topic(roots: list[Path], random: Random) -> None:
    from testkit.kafka.start_records import partition_change

    _append(roots, partition_change(_uuid(random)))


@_damage
def metadata_version_too_high(roots: list[Path], random: Random) -> None:
    _append(roots, ("FeatureLevelRecord", 0, {"name": "metadata.version", "feature_level": random.choice((60, 300))}))


@_damage
def unknown_feature(roots: list[Path], random: Random) -> None:
    _append(roots, ("FeatureLevelRecord", 0, {"name": "surprise.version", "feature_level": 1}))


@_damage
def kraft_version_record(roots: list[Path], random: Random) -> None:
    _append(roots, ("FeatureLevelRecord", 0, {"name": "kraft.version", "feature_level": 7}))


@_damage
def removed_acl_again(roots: list[Path], random: Random) -> None:
    _append(roots, ("RemoveAccessControlEntryRecord", 0, {"id": _uuid(random)}))


@_damage
def topic_deleted_in_log(roots: list[Path], random: Random) -> None:
    """The metadata shows that a topic was deleted; its directories are still there."""
    found = (_partition(roots, random, "orders-0") / "partition.metadata").read_text()
    _append(roots, ("RemoveTopicRecord", 0, {"topic_id": found.split("topic_id: ")[1].strip()}))


@_damage
def migration_unfinished(roots: list[Path], random: Random) -> None:
    """The metadata says that the migration from ZooKeeper goes on, has not begun, or is in a state that is none."""
    _append(roots, ("ZkMigrationStateRecord", 0, {"zk_migration_state": random.choice((1, 2, 2, 9))}))


@_damage
def migration_finished(roots: list[Path], random: Random) -> None:
    _append(roots, ("ZkMigrationStateRecord", 0, {"zk_migration_state": 3}))


@_damage
def tiered_without_plugin(roots: list[Path], random: Random) -> None:
    """A topic has a remote tier, and the broker none."""
    fields: Fields = {
        "resource_type": 2, "resource_name": "orders", "name": "remote.storage.enable", "value": "true",
    }  # fmt: skip
    _append(roots, ("ConfigRecord", 0, fields))


# ---- what the properties say of the voters


def _settings(roots: list[Path], **changes: str | None) -> None:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    (roots[0].parent / SETTINGS_OF_DAMAGE).write_text(json.dumps(named))


def _address(roots: list[Path]) -> str:
    """Where the first voter listens, by the properties with which the stage was made."""
    text = (roots[0].parents[1] / f"{roots[0].parent.name}.properties").read_text()
    found = re.search(r"^controller\.quorum\.(?:voters=\d+@|bootstrap\.servers=)([^,\n]+)", text, flags=re.MULTILINE)
    if found is None:
        raise NotHereError("controller.quorum")
    return found[1]


@_damage
def id_not_among_voters(roots: list[Path], random: Random) -> None:
    if "controller.quorum.voters" not in (roots[0].parents[1] / f"{roots[0].parent.name}.properties").read_text():
        raise NotHereError("static voters")
    _settings(roots, controller_quorum_voters=f"{random.randrange(50, 99)}@{_address(roots)}")


@_damage
def id_of_a_voter(roots: list[Path], random: Random) -> None:
    """A broker alone whose id is among the voters."""
    number = int(roots[0].parent.name.rpartition("-")[2])
    _settings(roots, controller_quorum_voters=f"{number}@{_address(roots)}", controller_quorum_bootstrap_servers=None)


@_damage
def static_voters_over_dynamic(roots: list[Path], random: Random) -> None:
    """`controller.quorum.voters` over metadata whose `kraft.version` is 1."""
    number = int(roots[0].parent.name.rpartition("-")[2])
    if "controller.quorum.bootstrap" not in (roots[0].parents[1] / f"{roots[0].parent.name}.properties").read_text():
        raise NotHereError("dynamic voters")
    _settings(roots, controller_quorum_voters=f"{number}@{_address(roots)}", controller_quorum_bootstrap_servers=None)


@_damage
def first_checkpoint_missing(roots: list[Path], random: Random) -> None:
    _there(roots[0] / METADATA / f"{0:020}-{0:010}.checkpoint").unlink()


@_damage
def first_checkpoint_alone(roots: list[Path], random: Random) -> None:
    """Only the snapshot of the voters is left of the metadata."""
    _there(roots[0] / METADATA / f"{0:020}-{0:010}.checkpoint")
    for path in [*(roots[0] / METADATA).glob("*.log"), *(roots[0] / METADATA).glob("*.checkpoint")]:
        if int(path.stem.split("-")[0]) or path.suffix == ".log":
            path.unlink()


# ---- nodes with ZooKeeper


@_damage
def meta_of_kraft(roots: list[Path], random: Random) -> None:
    """A broker with ZooKeeper finds the `meta.properties` of a KRaft node."""
    path = random.choice(roots) / "meta.properties"
    text = _there(path).read_text()
    if "broker.id" not in text:
        raise NotHereError("broker.id")
    path.write_text(text.replace("version=0", "version=1").replace("broker.id", "node.id"))


@_damage
def meta_other_broker(roots: list[Path], random: Random) -> None:
    _meta(random.choice(roots), r"^broker\.id=.*$", "broker.id=77")


# ---- several log directories


def _second(roots: list[Path]) -> Path:
    if len(roots) < 2:
        raise NotHereError("one directory")
    return roots[1]


@_damage
def second_directory_empty(roots: list[Path], random: Random) -> None:
    shutil.rmtree(_second(roots))
    roots[1].mkdir()


@_damage
def second_directory_missing(roots: list[Path], random: Random) -> None:
    shutil.rmtree(_second(roots))


@_damage
def second_directory_is_a_file(roots: list[Path], random: Random) -> None:
    shutil.rmtree(_second(roots))
    roots[1].write_bytes(b"")


@_damage
def metadata_in_both(roots: list[Path], random: Random) -> None:
    shutil.copytree(roots[0] / METADATA, _second(roots) / METADATA)


@_damage
def metadata_moved_to_second(roots: list[Path], random: Random) -> None:
    shutil.move(roots[0] / METADATA, _second(roots) / METADATA)


@_damage
def partition_in_both(roots: list[Path], random: Random) -> None:
    _second(roots)
    source = _partition(roots, random)
    other = roots[1] if source.parent == roots[0] else roots[0]
    shutil.copytree(source, other / source.name)


@_damage
def future_elsewhere(roots: list[Path], random: Random) -> None:
    _second(roots)
    source = _partition(roots, random, "orders-[0-9]")
    other = roots[1] if source.parent == roots[0] else roots[0]
    shutil.copytree(source, other / f"{source.name}.{'a' * 32}-future")


@_damage
def future_where_assigned(roots: list[Path], random: Random) -> None:
    """The current log stands in the wrong directory, a shorter future copy where the metadata has it."""
    _second(roots)
    source = _partition(roots, random, "orders-[0-9]")
    other = roots[1] if source.parent == roots[0] else roots[0]
    shutil.copytree(source, other / source.name)
    future = source.parent / f"{source.name}.{'b' * 32}-future"
    source.rename(future)
    log = _last_log(future)
    os.truncate(log, _batches(log)[0])


@_damage
def partition_moved(roots: list[Path], random: Random) -> None:
    """A partition lies in another directory than the one that the metadata names."""
    _second(roots)
    source = _partition(roots, random)
    other = roots[1] if source.parent == roots[0] else roots[0]
    shutil.move(source, other / source.name)


@_damage
def directories_swapped(roots: list[Path], random: Random) -> None:
    """Two volumes are mounted in each other's place."""
    _second(roots)
    aside = roots[0].with_name("aside")
    roots[0].rename(aside)
    roots[1].rename(roots[0])
    aside.rename(roots[1])
