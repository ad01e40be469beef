"""Translation of the committed offsets of the source's groups to offsets in the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from kafkalog.cluster.groups.offsets import CommittedOffset
from kafkalog.replay.offset_map import OffsetMap

__all__ = ["Moved", "moved_offsets"]


class Moved(Struct, frozen=True, kw_only=True):
    """A group's offset in the target; `source_offset` is the committed offset in the source."""

    group: str
    source_topic: str
    topic: str
    partition: int
    source_offset: int
    offset: int
    metadata: str
    """cut at its first zero byte, because confluent-kafka treats it as the end and rejects the rest"""


def moved_offsets(
    commits: Iterable[CommittedOffset], maps: Mapping[tuple[str, int], OffsetMap], renamed: Mapping[str, str]
) -> list[Moved]:
    """Translate committed offsets of the source into offsets of the target. Return them ordered by group, target topic
    and partition. `maps` has the offset map of each replayed (source topic, partition); commits of other partitions are
    left out. `renamed` maps source topics to their names in the target, if they differ.

    A commit becomes the target offset of the first record at or after it. Without such a record it becomes the end of
    the map, or 0 if the map is empty. Metadata is cut at its first NUL.
    """
    return sorted(
        (
            Moved(
                group=each.key.group, source_topic=each.key.topic, topic=renamed.get(each.key.topic, each.key.topic),
                partition=each.key.partition, source_offset=each.offset, metadata=each.metadata.partition("\0")[0],
                offset=maps[each.key.topic, each.key.partition].moved(each.offset),
            )
            for each in commits if (each.key.topic, each.key.partition) in maps
        ),
        key=lambda each: (each.group, each.topic, each.partition),
    )  # fmt: skip
