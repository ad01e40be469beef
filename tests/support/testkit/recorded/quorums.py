"""Recorded quorums, unpacked once for a whole run, and what may be done to copies of them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.codec.model import BatchHeader
from kafkalog.log import open_segment
from kafkalog.log.directories.partition import open_partition
from testkit.judging.trees import copy_tree
from testkit.kafka.start_records import append_metadata
from testkit.recorded.fixture_data import unpack_quorum

CONTROLLERS = (1, 2, 3)
BROKER = 11
NAMES = ("dynamic", "static", "snapshots", "4.4.0/dynamic", "4.4.0/static", "4.4.0/snapshots")
METADATA = "__cluster_metadata-0"


@cache
def recorded(name: str) -> Path:
    """The unpacked recording; not to be changed."""
    place = Path(tempfile.mkdtemp(prefix="kafkalog-quorums-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return unpack_quorum(name, place / name)


def node(name: str, number: int) -> Path:
    """One node's recorded log directory."""
    return recorded(name) / f"node-{number}"


def copied(name: str, target: Path, *numbers: int) -> dict[int, Path]:
    """Copies of some nodes' directories, times included."""
    target.mkdir(parents=True, exist_ok=True)
    return {each: copy_tree(node(name, each), target / f"node-{each}") for each in numbers}


def lean(directory: Path) -> Path:
    """The same without the 10 MiB that a killed node has reserved for each index: copied and hashed many times."""
    for path in directory.rglob("*index"):
        with path.open("r+b") as file:
            file.truncate(0)
    return directory


def last_log(directory: Path) -> Path:
    """The active segment of a node's metadata log."""
    return max((directory / METADATA).glob("*.log"))


def tear(directory: Path, length: int = 20) -> None:
    """Cut the end of the last batch off."""
    log = last_log(directory)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - length)


def take_out(directory: Path) -> BatchHeader:
    """A batch in the middle of the active segment; gives its header."""
    log = last_log(directory)
    batches = [*open_segment(log).batches()]
    gone, data = batches[len(batches) // 2], log.read_bytes()
    log.write_bytes(data[: gone.position] + data[gone.position + gone.size :])
    assert isinstance(gone.header, BatchHeader)
    return gone.header


def register(number: int, *roots: Path, fenced: bool = False) -> int:
    """Append to the metadata logs of `roots`, which have one end, the registration of a broker with this node id; its
    epoch, the offset of its record.
    """
    (offset,) = {[*open_segment(last_log(root)).batches()][-1].next_offset for root in roots}
    assert isinstance(offset, int)
    events = MetadataLog(open_partition(roots[0] / METADATA)).events([])
    records = [each.record for each in events if each.record.name == "RegisterBrokerRecord"]
    fields = next(each.decoded.fields for each in records if each.decoded is not None)
    fields = {**fields, "broker_id": number, "broker_epoch": offset, "fenced": fenced}
    for root in roots:
        append_metadata(last_log(root), ("RegisterBrokerRecord", records[0].version or 0, fields))
    return offset


def flip(path: Path, position: int) -> None:
    """One bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(bytes(data))
    path.chmod(mode)
