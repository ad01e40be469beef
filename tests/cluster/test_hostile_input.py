"""Whatever is in the files, there is a report: no other exception than the library's own, and no hang."""

from __future__ import annotations

import random
import shutil
import zlib
from pathlib import Path

import pytest

from kafkalog.cluster.groups.old_group_lines import old_group_line
from kafkalog.cluster.kraft.metadata_history import partition_changes
from kafkalog.cluster.kraft.metadata_json import state_json
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.cluster.zookeeper import open_zookeeper, tree_at
from kafkalog.cluster.zookeeper.old_consumers import old_groups
from kafkalog.cluster.zookeeper.snapshot import parse_snapshot
from kafkalog.cluster.zookeeper.timeline import timeline
from kafkalog.cluster.zookeeper.transaction import parse_transaction
from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding
from kafkalog.log import open_partition
from testkit.recorded.broker_dirs import brokers, unpacked
from testkit.running.command import kafkalog
from testkit.running.shares import EACH


def damage(data: bytes, chance: random.Random) -> bytes:
    """One to four bytes, a cut, zeros or a stretch of noise."""
    found = bytearray(data)
    kind = chance.randrange(4)
    at = chance.randrange(len(found))
    if kind == 0:
        for _ in range(chance.randint(1, 4)):
            found[chance.randrange(len(found))] = chance.randrange(256)
    elif kind == 1:
        del found[at:]
    else:
        length = min(chance.randint(1, 40), len(found) - at)
        found[at : at + length] = bytes(length) if kind == 2 else chance.randbytes(length)
    return bytes(found)


@pytest.mark.parametrize("command", ["groups", "offsets"])
def test_damaged_directories_of_old_consumers(command: str, tmp_path: Path) -> None:
    source = unpacked("0.8.2.2/groups") / "zookeeper" / "version-2"
    chance = random.Random(command)
    for number in range(20):
        target = Path(shutil.copytree(source, tmp_path / str(number)))
        for path in sorted(target.iterdir()):
            path.write_bytes(damage(path.read_bytes().rstrip(b"\0") or b"\0", chance))
        finished = kafkalog(command, "--json", target)
        assert finished.code in (0, 1)
        assert "Traceback" not in finished.err


def test_every_byte_of_the_nodes_of_old_consumers_may_be_anything() -> None:
    chance = random.Random(4)
    tree = tree_at(open_zookeeper(unpacked("0.8.2.2/groups") / "zookeeper")).tree
    places = [path for path, node in tree.nodes.items() if node.data and path.startswith(("/consumers", "/brokers"))]
    told = 0
    for _ in range(1500):
        path = chance.choice(places)
        node = tree.nodes[path]
        kept = node.data
        assert kept
        node.data = damage(kept, chance)
        for group in old_groups(tree):
            told += bool(group.problems)
            assert old_group_line(group, without="old-alive_old-alive-c0", joining="new")
        node.data = kept
    assert told > 100


@EACH
@pytest.mark.parametrize("version", ["0.8.2.2", "2.8.2", "3.9.1-zk"])
def test_damaged_zookeeper_directories(version: str, each: int, tmp_path: Path) -> None:
    source = unpacked(f"{version}/zkhist") / "zookeeper" / "version-2"
    chance = random.Random(version)
    for number in range(0, 40, each):
        target = Path(shutil.copytree(source, tmp_path / str(number)))
        for path in chance.sample(sorted(target.iterdir()), 3):
            used = path.read_bytes().rstrip(b"\0") or b"\0"
            path.write_bytes(damage(used, chance))
        directory = open_zookeeper(target)
        found = tree_at(directory)
        assert found.tree.nodes or found.findings
        old_groups(found.tree)
        timeline(directory)
        assert kafkalog("zk", target).code in (0, 1)
        assert kafkalog("elections", "--json", target).code in (0, 1)
        shutil.rmtree(target)


def test_damaged_transactions_behind_a_good_checksum() -> None:
    source = min((unpacked("3.9.1-zk/zkhist") / "zookeeper" / "version-2").glob("log.*")).read_bytes()
    chance = random.Random(1)
    at, payloads = 16, []
    while length := int.from_bytes(source[at + 8 : at + 12], "big"):
        payloads.append(source[at + 12 : at + 12 + length])
        at += 13 + length
    assert all(zlib.adler32(each) for each in payloads)
    refused = 0
    for _ in range(3000):
        try:
            parse_transaction(damage(chance.choice(payloads), chance))
        except FormatError:
            refused += 1
    assert refused > 300


def test_damaged_snapshots_behind_no_checksum() -> None:
    source = max((unpacked("3.9.1-zk/zkhist") / "zookeeper" / "version-2").glob("snapshot.*")).read_bytes()
    chance = random.Random(2)
    for _ in range(150):
        with pytest.raises(FormatError):
            parse_snapshot(damage(source, chance) + b"x", "snapshot")


@EACH
def test_damaged_metadata_partitions(each: int, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/metadata")
    chance = random.Random(3)
    for number in range(0, 40, each):
        target = Path(shutil.copytree(broker / "__cluster_metadata-0", tmp_path / str(number) / "__cluster_metadata-0"))
        for path in chance.sample(sorted(path for path in target.iterdir() if path.stat().st_size), 4):
            path.write_bytes(damage(path.read_bytes(), chance))
        log, findings = MetadataLog(open_partition(target)), list[Finding]()
        assert state_json(log.state())
        assert state_json(log.state(100, use_snapshot=False))
        list(partition_changes(log, findings))
        log.terms(findings)
        log.quorum_state(findings)


@pytest.mark.parametrize("command", ["offsets", "groups", "transactions"])
def test_damaged_coordinator_partitions(command: str, tmp_path: Path) -> None:
    (broker,) = brokers("4.1.1/txn" if command == "transactions" else "4.1.1/groups")
    chance = random.Random(command)
    target = Path(shutil.copytree(broker, tmp_path / broker.name))
    logs = [path for path in target.glob("__*state-*/*.log") if path.stat().st_size]
    logs += [path for path in target.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    originals = {path: path.read_bytes() for path in logs}
    for _ in range(12):
        for path, data in originals.items():
            path.write_bytes(damage(data, chance))
        finished = kafkalog(command, "--json", target)
        assert finished.code in (0, 1)
        assert "Traceback" not in finished.err
