"""Set whole partitions aside: recovery moves their directories to quarantine (mode set-aside).

A broker that finds no directory begins the log again (`LogManager.getOrCreateLog`). As a follower it then fetches all
of it from the leader (`ReplicaFetcherThread`); it never fetches again what its own start leaves damaged in a log.
"""

from __future__ import annotations

from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.safe.normalize import partitions_of
from kafkalog.recovery.safe.result import SafeResult

__all__ = ["set_aside"]


def set_aside(tree: Tree) -> SafeResult:
    """Return the result of removing all live partitions except the metadata log from a copy of the tree. Everything
    else stays, the clean-shutdown marker too.
    """
    after = tree.copy()
    for directory, name in partitions_of(tree):
        if name.state is DirectoryState.LIVE and name.topic != CLUSTER_METADATA_TOPIC:
            after.remove_directory(directory)
    return SafeResult(tree=after)
