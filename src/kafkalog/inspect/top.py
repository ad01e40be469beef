"""Group records by topic, partition, key, producer or time, to show what fills a disk and what was written twice."""

from __future__ import annotations

from msgspec.structs import replace

from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.extras import needed
from kafkalog.inspect.top_groups import TopGroups, TopQuestion
from kafkalog.log import open_all
from kafkalog.log.directories.selection import ALL, Selection, unreadable_names
from kafkalog.log.disk.files import PathLike

__all__ = ["top"]


def top(
    question: TopQuestion | PathLike,
    *paths: PathLike,
    select: Selection = ALL,
    replica: PathLike | None = None,
    threads: Count = 1,
) -> TopGroups:
    """Group the records of partitions, and return the largest groups. Reads only. Reading of a partition ends at
    damage, with a finding. With `read_committed` it also ends at an open transaction, which the result names. A
    directory that cannot be read is left out, with a finding.

    Raises `UsageError` for a path without Kafka data, if a package is missing, or if everything selected is excluded.
    Raises it also if a chosen partition is in several directories and `replica` does not choose one. Raises
    `UnknownName` for a topic or partition that does not exist. Raises `StorageError` for I/O.

    * `question`: how to group; may be left out for the bytes of each topic
    * `paths`: log directories, partition directories or segments
    * `select`: the topic-partitions to read
    * `replica`: which directory counts if a partition is in several: `"longest"`, or its path, which must exist
    * `threads`: how many threads decode records
    """
    with needed("top", "fast"):
        from kafkalog.inspect.top_counting import count_groups
    asked, places = (question, paths) if isinstance(question, TopQuestion) else (TopQuestion(), (question, *paths))
    inventory = open_all(*places, tolerant=True)
    at_hand = inventory.all_readable(replica, select)
    names = [(each.topic, each.partition) for each in at_hand if each.topic is not None and each.partition is not None]
    select.check([*names, *unreadable_names(inventory.all_unreadable)])
    chosen = [partition for partition in at_hand if select.takes(partition.topic, partition.partition)]
    top_groups = count_groups(asked, chosen, threads)
    left_out = [*inventory.half_done, *select.of_unreadable(inventory.all_unreadable)]
    return replace(top_groups, findings=tuple(dict.fromkeys((*left_out, *top_groups.findings))))
