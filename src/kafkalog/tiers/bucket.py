"""Remote segments derived from a listing of the tier, if `__remote_log_metadata` has no events of a partition: from
object names, indexes and leader epochs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing

from kafkalog.codec.common.errors import FormatError, StorageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS
from kafkalog.codec.files.index_files import OFFSET_ENTRY, OffsetEntry
from kafkalog.codec.files.text import LeaderEpoch, decode_leader_epochs
from kafkalog.codec.names import FileKind
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.disk.remote_file import MissingFileError
from kafkalog.tiers.lineage import leads_to
from kafkalog.tiers.parallel_requests import in_order
from kafkalog.tiers.remote_tier import ListedSegment, RemoteTier
from kafkalog.tiers.segments import RemoteSegment, RemoteSegmentEvent, RemoteSegmentState

__all__ = ["epochs_of", "last_offset_of", "newest_topic_ids", "segments_of"]

_UNKNOWN = -1


def newest_topic_ids(listed: Iterable[ListedSegment]) -> dict[tuple[str, int], str]:
    """Return a topic id for each (topic, partition) in a listing. If a partition has segments of several ids, because
    its topic was deleted and created again, this is the id with the most recently modified object; with equal times,
    the largest id.
    """
    newest: dict[tuple[str, int], tuple[int, str]] = {}
    for listed_segment in listed:
        modified = max((item.modified_ns for item in listed_segment.objects.values()), default=0)
        newest[listed_segment.key] = max(newest.get(listed_segment.key, (0, "")), (modified, listed_segment.topic_id))
    return {key: topic_id for key, (_modified, topic_id) in newest.items()}


def epochs_of(tier: RemoteTier, listed: ListedSegment) -> tuple[LeaderEpoch, ...]:
    """Return the leader epochs of a log up to the end of a segment, from the segment's own object. Empty if there is no
    such object, it cannot be read, or it is not a leader epoch checkpoint.
    """
    if listed.epochs is None:
        return ()
    try:
        with closing(tier.open(listed.epochs)) as file:
            data = file.read(0, min(file.size, DEFAULT_LIMITS.checkpoint_bytes))
        return tuple(decode_leader_epochs(data, source=listed.epochs.path))
    except (FormatError, StorageError):
        return ()


def segments_of(tier: RemoteTier, listed: Sequence[ListedSegment]) -> list[RemoteSegment]:
    """Return the segments of one partition by base offset, one for each base offset; empty if no segment has a log
    object. Of several at one base offset, the largest that matches the log's leader epochs is used, or the largest of
    all if none matches. Last segments that contradict those epochs belong to a truncated log and are left out. A
    segment without a log object is included if segments before and after it have one, because it was then neither
    deleted nor is being copied.

    Metadata comes from the segment's own objects, if the layout has it. Otherwise a segment ends before the next one
    begins, and the last one at the end of its log; timestamps are -1. Metadata that cannot be read counts as missing.
    Raises `StorageError` if the end of a log must be read and cannot be.
    """
    chosen, epochs = _chosen(tier, listed)
    if not chosen:
        return []
    remote_segments = in_order(lambda each: _described(tier, each), chosen)
    following = [listed_segment.base_offset - 1 for listed_segment in chosen[1:]] + [None]
    return [
        segment or _made(tier, listed_segment, last_offset_of(tier, listed_segment) if end is None else end, epochs)
        for segment, listed_segment, end in zip(remote_segments, chosen, following, strict=True)
    ]


def _described(tier: RemoteTier, listed: ListedSegment) -> RemoteSegment | None:
    """Metadata of a segment from its own objects. None if unreadable; opening the log reports the error."""
    try:
        return tier.described(listed)
    except StorageError:
        return None


def _chosen(tier: RemoteTier, listed: Sequence[ListedSegment]) -> tuple[list[ListedSegment], tuple[LeaderEpoch, ...]]:
    """Return one listed segment for each base offset, in ascending order, and the leader epochs of their log. Return
    two empty results if no segment has a log file.

    Of several segments at one base offset, the largest that agrees with the epochs is returned, or the largest if none
    agrees. Base offsets below the first or above the last one with a log file are left out. The last base offset is
    left out while all its segments contradict the epochs and others remain.

    The epochs are read from the newest segment and from the segments at the last two base offsets. Of these lists, the
    one with the newest latest leader is used. Raises `StorageError` if the last offset of a segment must be read and
    cannot be.
    """
    by_base: dict[int, list[ListedSegment]] = defaultdict(list)
    for listed_segment in listed:
        by_base[listed_segment.base_offset].append(listed_segment)
    with_log = [base for base, listed_segments in by_base.items() if any(each.has_log for each in listed_segments)]
    bases = sorted(base for base in by_base if with_log and min(with_log) <= base <= max(with_log))
    if not bases:
        return [], ()
    newest = max(listed, key=lambda each: max((item.modified_ns for item in each.objects.values()), default=0))
    asked = [newest, *(segment for base in bases[-2:] for segment in by_base[base])]
    last = max((epochs_of(tier, segment) for segment in asked), key=_reach)
    while len(bases) > 1 and not any(_leads(tier, segment, last) for segment in by_base[bases[-1]]):
        bases.pop()  # of a log that was truncated
    chosen = []
    for base in bases:
        found = by_base[base]
        belonging = [each for each in found if _leads(tier, each, last, to_end=True)] if len(found) > 1 else found
        chosen.append(max(belonging or found, key=lambda each: _size(tier, each)))
    return chosen, last


def _size(tier: RemoteTier, listed: ListedSegment) -> int:
    log = listed.objects.get(FileKind.LOG)
    if log is None:
        return 0
    try:
        return tier.size(log)
    except StorageError:
        return log.size


def _reach(epochs: Sequence[LeaderEpoch]) -> tuple[int, int]:
    """Return a key for comparing epochs: larger for a log with a later leader."""
    return (epochs[-1].epoch, len(epochs)) if epochs else (-1, 0)


def _leads(tier: RemoteTier, listed: ListedSegment, epochs: Sequence[LeaderEpoch], *, to_end: bool = False) -> bool:
    offsets = [listed.base_offset]
    if to_end and listed.has_log:
        offsets.append(last_offset_of(tier, listed))
    return leads_to(epochs_of(tier, listed), epochs, *offsets)


def _made(tier: RemoteTier, listed: ListedSegment, end: int, epochs: Sequence[LeaderEpoch]) -> RemoteSegment:
    own = [epoch for epoch in epochs if epoch.start_offset <= end]
    while len(own) > 1 and own[1].start_offset <= listed.base_offset:
        own.pop(0)
    return RemoteSegment(
        topic=listed.topic,
        topic_id=listed.topic_id,
        partition=listed.partition,
        id=listed.id,
        start_offset=listed.base_offset,
        end_offset=end,
        max_timestamp=_UNKNOWN,
        size=_size(tier, listed),
        leader_epochs=tuple(own) or (LeaderEpoch(0, listed.base_offset),),
        has_transaction_index=FileKind.TRANSACTION_INDEX in listed.objects,
        custom_metadata=None,
        events=(
            RemoteSegmentEvent(
                state=RemoteSegmentState.COPY_SEGMENT_FINISHED,
                timestamp=_UNKNOWN,
                broker_id=_UNKNOWN,
                metadata_partition=_UNKNOWN,
                offset=_UNKNOWN,
            ),
        ),
    )


def last_offset_of(tier: RemoteTier, listed: ListedSegment) -> int:
    """Return the last offset in a segment's log. Batch headers are read from the position in the last offset index
    entry on, up to the first damage. Without a usable index, they are read from the beginning. Return the base offset
    if no batch can be parsed there. The segment must have a log object (else `KeyError`). Raises `StorageError` if an
    object cannot be read.
    """
    log = tier.open(listed.objects[FileKind.LOG])
    try:
        last = listed.base_offset
        for batch in Scanner(log, position=_last_indexed(tier, listed, log.size), check_crc=False):
            last = max(last, batch.last_offset)
        return last
    finally:
        log.close()


def _last_indexed(tier: RemoteTier, listed: ListedSegment, log_size: int) -> int:
    item = listed.objects.get(FileKind.OFFSET_INDEX)
    if item is None:
        return 0
    try:
        index = tier.open(item)
    except MissingFileError:
        return 0
    try:
        slot = index.size // OFFSET_ENTRY.size - 1
        data = index.read(slot * OFFSET_ENTRY.size, OFFSET_ENTRY.size) if slot >= 0 else b""
    finally:
        index.close()
    if len(data) != OFFSET_ENTRY.size:
        return 0
    position = OffsetEntry(*OFFSET_ENTRY.struct.unpack(data)).position
    return position if 0 < position < log_size else 0
