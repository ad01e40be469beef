"""Find partition directories that are missing, for every command that examines a log directory. A broker lists its
partitions in the checkpoints of the log directory, which it writes every few seconds or minutes and when it stops
(`LogManager.checkpointLogRecoveryOffsets`, `ReplicaManager.checkpointHighWatermarks`); the metadata log names the
directory of each replica. Deleting a topic leaves a `-delete` directory for a while, and removes the topic from the
checkpoints; an earlier checkpoint may still list it. So a missing directory is only a WARNING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC

__all__ = ["missing_directories"]

Offsets = Mapping[tuple[str, int], int]


def missing_directories(
    there: Set[tuple[str, int]],
    others: Set[str],
    checkpoints: Mapping[str, Offsets],
    assigned: Set[tuple[str, int]],
    elsewhere: str = "",
) -> Iterator[Finding]:
    """Yield a PARTITION_MISSING warning for each topic-partition without a directory that a checkpoint or the cluster
    metadata names, sorted by topic and number. The finding's file is the directory's name. `__cluster_metadata` and
    negative numbers are skipped.

    `there` are the topic-partitions that have a directory. `others` are all names in the log directory; the explanation
    says if a file has the missing directory's name. `checkpoints` has the offsets by file name. `assigned` are the
    replicas that the cluster metadata places in this directory. If only the metadata names the partition, the text
    `elsewhere` is appended to the explanation.
    """
    named = {key for offsets in checkpoints.values() for key in offsets} - there
    assigned = assigned - there
    for topic, number in sorted(named | assigned):
        if topic == CLUSTER_METADATA_TOPIC or number < 0:
            continue
        directory = f"{topic}-{number}"
        who = [
            f"{file} (offset {offsets[topic, number]})"
            for file, offsets in checkpoints.items()
            if (topic, number) in offsets
        ]
        later = "deleted or moved after that was written"
        if (topic, number) in assigned:
            who.append("the cluster metadata")
            later = "not created yet, or deleted or moved after that was written"
            later += elsewhere if len(who) == 1 else ""
        verb = "names" if len(who) == 1 else "name"
        place = "what is there is not a directory" if directory in others else "there is no such directory"
        detail = f"{' and '.join(who)} {verb} {directory}, and {place}: it is lost, or it was {later}"
        yield Finding.of(FindingCode.PARTITION_MISSING, None, None, detail, directory)
