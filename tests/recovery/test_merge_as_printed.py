"""The way `merge`: the commands that are printed, run to their end, leave what is promised, and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import kafkalog
from command import kafkalog as command
from fixture_data import replica_roles, unpack_replicas
from kafkalog.codec.model import BATCH
from kafkalog.codec.scan import scan
from kafkalog.recovery import plan
from trees import stamps

ROLES = replica_roles()


def damage(log: Path) -> None:
    """Its first batch cannot be read any more."""
    data = bytearray(log.read_bytes())
    size = scan(bytes(data)).batches[0].size
    data[BATCH.size + 2 : size - 2] = bytes(size - 4 - BATCH.size)
    log.write_bytes(data)


@pytest.mark.parametrize("topics", [("equal",), ("equal", "tale")])
def test_what_is_printed_merges_the_damaged_partitions_alone(topics: tuple[str, ...], tmp_path: Path) -> None:
    """Two whole volumes merged would hold partitions of both brokers, and each of them is then in two places."""
    volumes = unpack_replicas(tmp_path)
    damaged, copy = (volumes / f"broker-{ROLES[each]}" for each in ("behind", "new_leader"))
    for topic in topics:
        damage(min((damaged / f"{topic}-0").glob("*.log")))
    before = stamps(damaged)
    choice = plan(damaged, copies=[copy]).choice
    ways = {name: way for name, found in choice.by_partition.items() for way in found if way.way == "merge"}
    assert ways.keys() >= {f"{topic}-0" for topic in topics}
    printed = [line.strip() for line in command("plan", damaged, "--copy", copy).lines]
    lines = [line for line in printed if line.startswith("kafkalog merge ")]
    new = tmp_path / "new"
    for line in lines:
        words = [str(new) if word == "NEW-DIRECTORY" else word for word in shlex.split(line)]
        assert command(*words[1:]).code == 2
    merged = kafkalog.open(new)
    assert {each.name for each in new.iterdir() if each.is_dir()} == set(ways)
    for name, way in ways.items():
        assert sum(1 for _ in merged[name.removesuffix("-0"), 0].records()) == way.measured.records_kept
    assert stamps(damaged) == before
