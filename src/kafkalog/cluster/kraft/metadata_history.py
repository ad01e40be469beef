"""Changes of a topic or partition of a KRaft cluster, with their causes if they can be derived.

Causes are derived from the partition before and after a record, as in `PartitionChangeBuilder` and
`ReplicationControlManager`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from kafkalog.cluster.kraft.metadata_image import MetadataImage, PartitionImage, TopicImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog
from kafkalog.codec.common.findings import Finding

__all__ = ["PartitionChange", "partition_changes"]


class PartitionChange(Struct, frozen=True, kw_only=True):
    """A change of a partition; `before` is None at its creation, `after` is None if the topic was deleted."""

    offset: int
    timestamp: int
    topic: str
    topic_id: str
    partition: int
    before: PartitionImage | None
    after: PartitionImage | None

    @property
    def is_election(self) -> bool:
        """Whether the change created the partition or changed its leader epoch."""
        return self.after is not None and (self.before is None or self.after.leader_epoch != self.before.leader_epoch)

    @property
    def cause(self) -> str:
        """Return the cause of the change in a few words, such as `created`, `topic removed`, `ISR shrinks`,
        `reassignment begins`, or the kind of an election. It is derived from the states before and after. If nothing
        but the partition epoch differs, it is `partition epoch only`.
        """
        before, after = self.before, self.after
        if before is None:
            return "created"
        if after is None:
            return "topic removed"
        if self.is_election:
            return _election(before, after)
        if after.adding_replicas or after.removing_replicas:
            if (before.adding_replicas, before.removing_replicas) == ((), ()):
                return "reassignment begins"
        elif before.adding_replicas or before.removing_replicas:
            return "reassignment ends" if after.replicas != before.replicas else "reassignment canceled"
        if after.replicas != before.replicas:
            return "replicas change"
        if set(after.isr) - set(before.isr):
            return "ISR grows"
        if set(before.isr) - set(after.isr):
            return "ISR shrinks"
        if after.recovering != before.recovering:
            return "leader has recovered"
        if (after.elr, after.last_known_elr) != (before.elr, before.last_known_elr):
            return "ELR changes"
        return "directories change" if after.directories != before.directories else "partition epoch only"


def _election(before: PartitionImage, after: PartitionImage) -> str:
    if after.leader < 0:
        return "leader lost: no replica may lead"
    if after.recovering and not before.recovering:
        return "unclean election"
    if after.leader == before.leader:
        return "new epoch of the same leader: the ISR shrinks" if set(before.isr) - set(after.isr) else (
            "new epoch of the same leader"
        )  # fmt: skip
    if before.leader < 0:
        return "elected from the ELR" if after.leader in before.elr and after.leader not in before.isr else (
            "elected: there was no leader"
        )  # fmt: skip
    if after.replicas and after.leader == after.replicas[0] and before.leader in after.isr:
        return "preferred leader elected"
    return "elected: the old leader left the ISR" if before.leader not in after.isr else "elected"


def partition_changes(
    log: MetadataLog, findings: list[Finding], *, topic: str | None = None, partition: int | None = None
) -> Iterator[PartitionChange]:
    """Yield every change of partitions that is still in the metadata log, in offset order. `topic` and `partition`
    restrict them; None means all. If the log does not begin at offset 0, the initial state comes from a snapshot. It is
    the oldest one that ends at or above the log's start, if there is one. The snapshot's state is not yielded, and
    neither are changes below its end.

    Reading stops at damage, and findings about it are appended to `findings`. Raises `StorageError` if files cannot be
    read.
    """
    image = MetadataImage()
    start = log.partition.log_start_offset
    base = next((snapshot for snapshot in log.snapshots if snapshot[0] >= start), None) if start > 0 else None
    first = start
    if base is not None:
        for event in log.snapshot_events(base[2], findings):
            if not event.is_control:
                image.apply(event.record)
        first = base[0]
    partition_changes: list[PartitionChange] = []
    at = (0, 0)

    def note(place: TopicImage, number: int, before: PartitionImage | None, after: PartitionImage | None) -> None:
        if topic in (None, place.name) and partition in (None, number):
            offset, timestamp = at
            partition_changes.append(
                PartitionChange(
                    offset=offset,
                    timestamp=timestamp,
                    topic=place.name,
                    topic_id=place.id,
                    partition=number,
                    before=before,
                    after=after,
                )
            )

    image.on_change = note
    for event in log.events(findings, first):
        if event.is_control or event.offset < first:
            continue
        at = (event.offset, event.timestamp)
        image.apply(event.record)
        yield from partition_changes
        partition_changes.clear()
