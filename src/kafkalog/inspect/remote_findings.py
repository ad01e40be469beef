"""Check one log in its two tiers (local and remote), by one function for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted
from kafkalog.codec.files.index_files import OFFSET_ENTRY, TIME_ENTRY
from kafkalog.codec.names import REMOTE_INDEX_CACHE, FileKind
from kafkalog.inspect.remote_rows import LocalPart, RemotePartition, RemoteRow
from kafkalog.log.disk.files import status_of
from kafkalog.tiers.segments import RemoteSegment, RemoteSegmentState
from kafkalog.tiers.tiering import EVENTS, REMOTE_STORAGE_ENABLE

__all__ = ["findings_of"]

_NEEDED = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
_ENTRY_SIZES = {FileKind.OFFSET_INDEX: OFFSET_ENTRY.size, FileKind.TIME_INDEX: TIME_ENTRY.size}
_AS_RETENTION = -2
"""value of `local.retention.*` that means: as `retention.*`"""


def findings_of(found: RemotePartition, now: int) -> Iterator[Finding]:
    """Yield all findings about one tiered log. First, for each segment: missing, incomplete, leaked, damaged and stuck
    copies. Then, for the log: overlaps, gaps, lag, indexes in a broker's cache, and local retention. `now` is in ms
    since 1970. Raises `StorageError` while iterating if a file cannot be examined.
    """
    for row in found.rows:
        yield from _missing(row)
        yield from _incomplete(row, found)
        yield from _leaked(row, found)
        yield from _damaged(row)
        yield from _stuck(row)
    yield from _overlapping(found)
    yield from _gaps(found)
    yield from _behind(found)
    yield from _cached(found)
    for part in found.local.values():
        yield from _past_retention(found, part, now)


def _told(row: RemoteRow) -> str:
    return f"segment {row.id} of {row.topic}-{row.partition}"


def _offsets(segment: RemoteSegment) -> str:
    return f"offsets {segment.start_offset} to {segment.end_offset}"


def _missing(row: RemoteRow) -> Iterator[Finding]:
    segment, listed = row.segment, row.listed
    if segment is None or not segment.is_readable or row.is_listed is None:
        return
    there = frozenset() if listed is None else frozenset(listed.objects)
    lacking = () if listed is None else listed.lacking
    wanted = [*_NEEDED, *([FileKind.TRANSACTION_INDEX] if segment.has_transaction_index else [])]
    gone = [*lacking, *(kind.value for kind in wanted if kind not in there)]
    if not gone:
        return
    names = ", ".join(gone) if there or (listed is not None and not lacking) else "all its objects"
    is_lost = listed is None or not listed.has_log
    lost = "" if not is_lost else (
        f": {_offsets(segment)} are in a log directory too" if row.is_local else f": {_offsets(segment)} are lost"
    )  # fmt: skip
    severity = Severity.ERROR if is_lost else Severity.WARNING
    code = FindingCode.REMOTE_OBJECT_MISSING
    yield Finding(code, severity, None, segment.start_offset, f"{_told(row)} lacks {names}{lost}")


def _incomplete(row: RemoteRow, partition: RemotePartition) -> Iterator[Finding]:
    """Yield at most one finding about a listed segment of a log that no events describe. If files of the segment or its
    leader epochs are missing, the finding says so. Otherwise, if another segment has its offsets or the log was
    truncated before them, the finding says that the segment is not read. Yield nothing for a complete segment that is
    read, if the log has events, or if the segment was not listed.
    """
    if partition.has_events or row.listed is None:
        return
    gone = [*row.listed.lacking, *(kind.value for kind in _NEEDED if kind not in row.listed.objects)]
    gone += ["the leader epochs"] if row.listed.epochs is None else []
    if gone:
        detail = f"{_told(row)} lacks {', '.join(gone)}, and no event tells whether it was copied as a whole"
        yield Finding.of(FindingCode.REMOTE_OBJECT_MISSING, None, row.base_offset, detail)
    elif not row.belongs:
        detail = f"{_told(row)} is not read: another segment has its offsets, or the log was truncated before them"
        yield Finding.of(FindingCode.REMOTE_LINEAGES_OVERLAP, None, row.base_offset, detail)


def _leaked(row: RemoteRow, partition: RemotePartition) -> Iterator[Finding]:
    if row.listed is None or not row.listed.objects:
        return
    stored = {remote_object.path: remote_object.size for remote_object in row.listed.objects.values()}
    path = next(iter(stored))
    if row.segment is None and partition.has_events:
        why = f"{EVENTS} do not name it"
    elif row.segment is not None and row.segment.state is RemoteSegmentState.DELETE_SEGMENT_FINISHED:
        why = f"{EVENTS} say that it was deleted"
    else:
        return
    what = f"{counted(len(stored), 'object')}, {sum(stored.values())} bytes"
    detail = f"{_told(row)} has {what}, and {why}: no broker will delete {'it' if len(stored) == 1 else 'them'}"
    yield Finding.of(FindingCode.REMOTE_OBJECT_LEAKED, None, row.base_offset, detail, path)


def _damaged(row: RemoteRow) -> Iterator[Finding]:
    if row.listed is None:
        return
    for doubt in row.doubts:
        code, what = FindingCode.REMOTE_OBJECT_DAMAGED, str(doubt.strerror)
        yield Finding(code, Severity.ERROR, None, row.base_offset, what, doubt.filename)
    if row.segment is None or not row.segment.is_readable:
        return
    size = row.sizes.get(FileKind.LOG)
    if size is not None and size != row.segment.size:
        path = row.listed.objects[FileKind.LOG].path
        detail = f"{size} bytes, and {row.segment.size} were copied ({_offsets(row.segment)})"
        yield Finding.of(FindingCode.REMOTE_OBJECT_DAMAGED, None, row.base_offset, detail, path)
    for kind, entry_size in _ENTRY_SIZES.items():
        if row.sizes.get(kind, 0) % entry_size:
            path = row.listed.objects[kind].path
            detail = f"{row.sizes[kind]} bytes, and each of its entries has {entry_size}"
            yield Finding.of(FindingCode.REMOTE_INDEX_DAMAGED, None, row.base_offset, detail, path)


def _stuck(row: RemoteRow) -> Iterator[Finding]:
    if row.segment is None:
        return
    last = row.segment.events[-1]
    if last.state is RemoteSegmentState.COPY_SEGMENT_STARTED:
        there = "" if row.is_listed is None else (
            ", and some of its objects are there" if row.is_listed else ", and none of its objects is there"
        )  # fmt: skip
        what = f"{_told(row)} ({_offsets(row.segment)})"
        detail = f"broker {last.broker_id} began to copy {what}, and no event ends it{there}"
        yield Finding.of(FindingCode.REMOTE_COPY_STUCK, None, row.base_offset, detail)
    elif last.state is RemoteSegmentState.DELETE_SEGMENT_STARTED:
        detail = f"broker {last.broker_id} began to delete {_told(row)} ({_offsets(row.segment)}), and no event ends it"
        yield Finding.of(FindingCode.REMOTE_DELETE_STUCK, None, row.base_offset, detail)


def _overlapping(partition: RemotePartition) -> Iterator[Finding]:
    """Yield a finding for each readable remote segment with other leader epochs than the log has at its offsets; no
    broker reads it. Yield nothing if no local copy has leader epochs. Segments below the log start offset, which a
    broker deletes, and segments that were copied twice are skipped.
    """
    if not any(local_part.partition.leader_epochs for local_part in partition.local.values()):
        return
    start = partition.log_start or 0
    for row in partition.rows:
        segment = row.segment
        if segment is None or not segment.is_readable or row.belongs or segment.end_offset < start:
            continue
        epochs = sorted({leader_epoch.epoch for leader_epoch in segment.leader_epochs})
        same = [stretch.segment for stretch in partition.stretches if stretch.segment.start_offset <= segment.end_offset
                and segment.start_offset <= stretch.segment.end_offset]  # fmt: skip
        if any({leader_epoch.epoch for leader_epoch in other.leader_epochs} & set(epochs) for other in same):
            continue  # copied twice, by an old leader and by a new one
        of = ", ".join(map(str, epochs))
        what = f"{_offsets(segment)} of leader epoch {of}"
        detail = f"{_told(row)} has {what}, where the log has another: no broker reads it"
        yield Finding.of(FindingCode.REMOTE_LINEAGES_OVERLAP, None, segment.start_offset, detail)


def _gaps(partition: RemotePartition) -> Iterator[Finding]:
    """Yield a finding for each range of offsets, from the log start offset up to the first local offset, that is in
    neither tier. A range is skipped if a copy that covers it was started and not finished. Yields nothing if there is
    no local copy, the log start offset is unknown, or the partition has no remote events.
    """
    if not partition.local or partition.log_start is None or not partition.has_events:
        return
    begins = min(local_part.begins for local_part in partition.local.values())
    reached = partition.log_start
    ends = [(stretch.first, stretch.last) for stretch in partition.stretches if stretch.last >= reached]
    under_way = [row.segment for row in partition.rows if row.segment is not None
                 and row.segment.state is RemoteSegmentState.COPY_SEGMENT_STARTED]  # fmt: skip
    for first, last in [*ends, (begins, begins)]:
        if reached < first and reached < begins:
            until = min(first, begins) - 1
            if not any(segment.start_offset <= reached and until <= segment.end_offset for segment in under_way):
                detail = f"offsets {reached} to {until} of {partition.topic}-{partition.partition} are in neither tier"
                yield Finding.of(FindingCode.TIER_GAP, None, reached, detail)
        reached = max(reached, last + 1)


def _behind(partition: RemotePartition) -> Iterator[Finding]:
    part = max(partition.local.values(), key=lambda each: each.end, default=None)
    if part is None or not partition.has_events:
        return
    copied = max(partition.copied_to or 0, partition.log_start or 0)
    closed = [segment for segment in part.partition.segments[:-1] if segment.base_offset >= copied]
    if not closed:
        return
    settings = partition.settings
    begun = any(row.segment is not None and row.segment.state is RemoteSegmentState.COPY_SEGMENT_STARTED
                and row.segment.end_offset >= copied for row in partition.rows)  # fmt: skip
    is_off = settings is not None and settings.get(REMOTE_STORAGE_ENABLE, "").lower() != "true"
    if is_off and partition.copied_to is None:
        return
    if is_off:
        why = "remote storage is switched off for the topic"
    elif settings is not None and settings.get("remote.log.copy.disable", "").lower() == "true":
        why = "remote.log.copy.disable is true"
    elif begun:
        why = "a copy was begun and did not end"
    else:
        why = "nothing here tells why: they may have been closed just before"
    size = sum(segment.size for segment in closed)
    upto = f"up to offset {copied - 1}" if copied else "not at all"
    detail = (
        f"{partition.topic}-{partition.partition} is copied {upto}; {len(closed)} closed local segments after that, "
        f"{size} bytes, are not: {why}"
    )
    yield Finding.of(FindingCode.REMOTE_COPY_BEHIND, None, copied, detail, part.partition.path)


def _past_retention(found: RemotePartition, part: LocalPart, now: int) -> Iterator[Finding]:
    """Yield one finding of severity INFO about the local segments that a broker will delete. These are segments past
    local retention that the remote tier has too (`UnifiedLog.deleteRetentionMsBreachedSegments` and its counterpart for
    sizes). Yield nothing if there are none, if tiering or copying is disabled, or if the settings are unknown. `now` is
    in ms since 1970.
    """
    settings = found.settings
    if settings is None or settings.get(REMOTE_STORAGE_ENABLE, "").lower() != "true":
        return
    if settings.get("remote.log.copy.disable", "").lower() == "true":
        return
    most, longest = _limit(settings, "bytes"), _limit(settings, "ms")
    copied = found.copied_to or 0
    total = sum(each.size for each in part.partition.segments)
    timestamps = {row.segment.start_offset: row.segment.max_timestamp for row in found.rows if row.segment is not None}
    going = []
    for segment, following in zip(part.partition.segments, part.partition.segments[1:], strict=False):
        newest = timestamps.get(segment.base_offset, -1)
        is_old = longest >= 0 and 0 <= newest < now - longest
        if following.base_offset > copied or not ((most >= 0 and total - segment.size >= most) or is_old):
            break
        total -= segment.size
        going.append(segment)
    if going:
        last = going[-1].base_offset
        detail = (
            f"{len(going)} local segments up to base offset {last} are in the remote tier too, and local retention has "
            "passed for them: a broker that leads or follows deletes them"
        )
        code = FindingCode.LOCAL_RETENTION_PASSED
        yield Finding(code, Severity.INFO, None, going[0].base_offset, detail, part.partition.path)


def _limit(values: Mapping[str, str], what: str) -> int:
    own, other = values.get(f"local.retention.{what}", str(_AS_RETENTION)), values.get(f"retention.{what}", "-1")
    try:
        return int(other) if int(own) == _AS_RETENTION else int(own)
    except ValueError:
        return -1


def _cached(partition: RemotePartition) -> Iterator[Finding]:
    """Yield a finding for each offset or time index in a broker's cache (`RemoteIndexCache`) that has a wrong size and
    belongs to a readable remote segment. A size is wrong if it is not a whole number of entries, or another one than in
    the remote tier. An index is skipped if its size in the tier is not a whole number of entries, because another
    finding says that. Only file sizes are examined. Raises `StorageError` if a file cannot be examined.
    """
    for directory in partition.local:
        for row in partition.rows:
            for kind in _ENTRY_SIZES if row.segment is not None and row.segment.is_readable else ():
                path = f"{directory}/{REMOTE_INDEX_CACHE}/{row.base_offset}_{row.id}{kind.value}"
                status = status_of(path)
                if status is None:
                    continue
                size = row.sizes.get(kind)
                if size is not None and size % _ENTRY_SIZES[kind]:
                    continue  # that is a finding itself
                if status.st_size % _ENTRY_SIZES[kind] or (size is not None and size != status.st_size):
                    other = "" if size is None else f", and {size} in the remote tier"
                    detail = f"the copy that the broker keeps of an index has {status.st_size} bytes{other}"
                    code = FindingCode.REMOTE_INDEX_DAMAGED
                    yield Finding(code, Severity.WARNING, None, row.base_offset, detail, path)
