"""What names a broker's log directories: a PATH for each, their parent, server.properties; every command takes all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_dirs import brokers, join_cluster, own_copy
from command import kafkalog
from kafkalog.recovery.act.fs import FileSystem
from kafkalog.recovery.act.lock import BrokerLock
from trees import stamps

COMMANDS = {
    "ls": ("ls --json", 0, 1),
    "verify": ("verify --json", 0, 1),
    "plan": ("plan --json", 0, 1),
    "recover": ("recover --json --yes", 0, 2),
    "recover, asked": ("recover --json", 0, 3),
    "recover --dry-run": ("recover --json --dry-run", 0, 1),
    "undelete": ("undelete --json", 0, 0),
    "compact": ("compact --json --yes --topic compacted", 2, 1),
    "compact --dry-run": ("compact --json --dry-run --topic compacted", 0, 1),
    "runs": ("runs --json", 0, 0),
    "undo": ("undo --yes", 3, 3),
    "index verify": ("index verify --json", 0, 0),
    "index rebuild": ("index rebuild --json --yes", 2, 3),
    "top": ("top --json", 0, 1),
    "retention": ("retention --json", 0, 1),
}
"""The command line; its exit code where all is well, and where one of the directories is damaged."""
WAYS = ("each", "parent", "server.properties")


@pytest.fixture
def volumes(tmp_path: Path) -> list[Path]:
    """Two directories of one broker; the metadata log is in the first, and partitions are in both."""
    source = brokers("4.3.0/compact")[0]
    first = own_copy(source, tmp_path / "disks" / "one")
    second = own_copy(source, tmp_path / "disks" / "two")
    moved = sorted(each.name for each in first.iterdir() if each.is_dir() and not each.name.startswith("__"))[0]
    for each in list(second.iterdir()):
        if each.is_dir() and each.name != moved:
            shutil.rmtree(each)
    shutil.rmtree(first / moved)
    return [first, second]
