"""The last part of a start: coordinators load their partitions of `__consumer_offsets` and `__transaction_state`.

Since 4.0 a group coordinator that meets a value of a version that it does not know does not load the partition at all;
before, it kept what came before that record.  The transaction coordinator keeps what came before.
"""

from __future__ import annotations

from kafkalog.recovery.broker.node.answer import Consequence, Fault
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.partitions import PartitionDirectory
from kafkalog.recovery.broker.node.releases import Release

__all__ = ["coordinators_of_start"]


def coordinators_of_start(
    files: NodeFiles, directories: list[PartitionDirectory], release: Release
) -> tuple[list[Consequence], list[Fault]]:
    """What coordinators cannot load, in the order of the directories."""
    return [], []
