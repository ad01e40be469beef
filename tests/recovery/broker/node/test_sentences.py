"""What is said of a start that does not fail, if it is not known what follows it.

Kafka 3.9.1 started on a batch of `__consumer_offsets` with a wrong checksum, and its coordinator read the batch. With
a size field of 3, or with zeros behind a former segment, the coordinators of 3.9.1 and 4.3.0 ended with
`CorruptRecordException`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalog.codec.common.source import BufferSource
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log import Log, NewRecord
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, StartResult
from kafkalog.recovery.broker.node.internal_topics import internal_topics
from testkit.recorded.broker_dirs import brokers, own_copy
from testkit.running.command import kafkalog


def test_a_node_starts_although_its_coordinator_reads_a_batch_with_a_wrong_checksum(tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/groups")[0], tmp_path / "data")
    log = next(path for path in sorted(root.glob("__consumer_offsets-*/*.log")) if path.stat().st_size)
    first = next(iter(Scanner(FileSource(log))))
    data = bytearray(log.read_bytes())
    data[first.position + 17] ^= 1  # its checksum
    log.write_bytes(data)
    for command in ("plan", "verify"):
        printed = " ".join(kafkalog(command, root).out.split())
        assert "would start on it, but the batch at offset 0 of __consumer_offsets-" in printed
        assert "may or may not start" not in printed


@pytest.mark.parametrize("is_tail", [False, True])
def test_a_coordinator_does_not_read_beyond_an_impossible_size(is_tail: bool, tmp_path: Path) -> None:
    root = own_copy(brokers("4.3.0/groups")[0], tmp_path / "data")
    log = next(path for path in sorted(root.glob("__consumer_offsets-*/*.log")) if path.stat().st_size)
    second = list(Scanner(FileSource(log)))[1]
    data = bytearray(log.read_bytes())
    if is_tail:
        data[second.position :] = bytes(len(data) - second.position)
    else:
        data[second.position + 8 : second.position + 12] = (3).to_bytes(4)
    why = f"{len(data) - second.position} zero bytes to the end" if is_tail else "a size field of 3"
    place = f"{log.parent.name}/{log.name}"
    tree = Tree({place: len(data)}, {log.parent.name}, lambda _path: BufferSource(bytes(data)))
    topics = internal_topics(str(root), BrokerResult(outcome=StartResult.LOADED, tree=tree, clean=True))
    (problem,) = topics.unserved
    assert (problem.offset, problem.detail, problem.is_read, problem.is_refused) == (1, why, False, False)


def test_a_wrong_checksum_in_a_snapshot_is_told_with_both_checksums(tmp_path: Path) -> None:
    """As Kafka's own message has them (`DefaultRecordBatch.ensureValid`)."""
    root = own_copy(brokers("4.3.0/metadata")[0], tmp_path / "data")
    snapshot = max((root / "__cluster_metadata-0").glob("*.checkpoint"))
    data = bytearray(snapshot.read_bytes())
    data[-20] ^= 4
    snapshot.chmod(0o644)
    snapshot.write_bytes(data)
    printed = " ".join(kafkalog("plan", root).out.split())
    found = re.search(r"Record is corrupt \(stored crc = (\d+), computed crc = (\d+)\)", printed)
    assert found is not None
    assert found[1] != found[2]


def test_what_is_true_of_several_directories_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(3):
        with Log.open(tmp_path / "data" / f"q-{number}") as log:
            log.append([NewRecord(key=None, value=b"v", timestamp=1)])
    (tmp_path / "data" / "q-2" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    finished = kafkalog("verify", tmp_path / "data")
    for printed in (finished.out, next(line for line in finished.err.splitlines() if "broker_refuses" in line)):
        assert " ".join(printed.split()).count("the partitions of q have different topic ids: some are not served") == 1
