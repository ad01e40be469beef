"""Plan a read: turn paths and options into partitions, offsets and spans.

This runs on the driver. The rules for offsets and timestamps are those of `KafkaOffsetReader`, applied to the log.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from urllib.parse import unquote

from msgspec.structs import replace

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.findings import Finding, StopReason
from kafkalog.codec.model import NO_END
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.directory import Wants, every
from kafkalog.log.directories.follow import Follower
from kafkalog.log.directories.inventory import Inventory, open_all
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.looked_at import in_threads, looking_once
from kafkalog.log.disk.object_store import uri_parts
from kafkalog.log.disk.remote_file import is_uri
from kafkalog.log.reading.consumer_view import READ_COMMITTED, ConsumerView, consumer_view, hiding, nothing_to_read
from kafkalog.log.reading.readable import OffsetAndTimestamp
from kafkalog.log.reading.transactions import Undecided
from kafkalog.log.walk.cursor import ENDING, Cursor
from kafkalog.log.walk.header_walk import Span, spans_from
from kafkalog.log.walk.on_damage import raised
from kafkalog.log.walk.segment import Segment, index_of
from kafkalog.log.walk.spans import spans
from kafkalog.spark.bounds import EARLIEST, LATEST, Bound, TopicPartition
from kafkalog.spark.options import Mode, ReadOptions
from kafkalog.spark.planning import PartitionFacts, Piece, SegmentFacts, plan, target_bytes
from kafkalog.spark.query_warnings import LOGGER, tell
from kafkalog.spark.unreadable_entries import check_left_out

__all__ = [
    "Range",
    "check_named",
    "expand_paths",
    "key_of",
    "plan_read",
    "segments_between",
    "selected",
]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def _remote(path: str) -> list[str]:
    from kafkalog.log.disk.uri_patterns import matching

    matches = matching(path)
    if not matches:
        raise UsageError(f"nothing matches {path}" if glob.has_magic(path) else f"{path} does not exist")
    return matches


def expand_paths(paths: Sequence[str]) -> list[str]:
    """Return the paths in the given order; `file:` URIs become decoded paths. A glob is replaced by its sorted matches,
    unless a file or directory has that name. A URI of an object store is expanded by `uri_patterns.matching`. Raises
    `UsageError` if a path does not exist, a pattern has no match, or a URI is malformed. Raises it also if a `file:`
    URI names another host, or another URI has credentials or an unknown scheme. Raises `StorageError` if a request to
    an object store fails.
    """
    expanded: list[str] = []
    for path in paths:
        local = path
        if _SCHEME.match(path) and not os.path.lexists(path):
            parts = uri_parts(path)
            if parts.scheme.lower() != "file":
                expanded.extend(_remote(path))
                continue
            if parts.netloc not in ("", "localhost"):
                raise UsageError(f"{path} is on another machine; kafkalog reads what is mounted here")
            local = unquote(parts.path)
        if os.path.lexists(local) or not glob.has_magic(local):
            if not os.path.lexists(local):
                raise UsageError(f"{path} does not exist")
            expanded.append(local)
            continue
        matching = sorted(glob.glob(local))
        if not matching:
            raise UsageError(f"nothing matches {path}")
        expanded.extend(matching)
    return expanded


def key_of(partition: Partition) -> TopicPartition | None:
    """Return the topic and the partition number of a partition; None if it is a single segment file, which has no
    name.
    """
    return (partition.name.topic, partition.name.partition) if partition.name is not None else None


def selected(partitions: Sequence[Partition], options: ReadOptions, *, all_there: bool = True) -> list[Partition]:
    """Return the partitions that the options `subscribe`, `subscribePattern` or `assign` select, in the order of
    `partitions`; all of them if none of these options is set.

    With `all_there`, raises `UsageError` if a topic of `subscribe` or a partition of `assign` is not among
    `partitions`. A pattern may match nothing.
    """
    keys = {key for partition in partitions if (key := key_of(partition)) is not None}
    topics = {topic for topic, _ in keys}
    if options.assign is not None:
        wanted = set(options.assign)
        missing = [f"{topic}-{number}" for topic, number in sorted(wanted - keys)]
    elif options.subscribe is not None:
        wanted = {key for key in keys if key[0] in options.subscribe}
        missing = sorted(set(options.subscribe) - topics)
    elif options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        wanted, missing = {key for key in keys if pattern.fullmatch(key[0])}, []
    else:
        return list(partitions)
    if missing and all_there:
        raise UsageError(f"{', '.join(missing)} is not below {', '.join(options.paths)}")
    return [partition for partition in partitions if key_of(partition) in wanted]


def partitions_to_read(inventory: Inventory, options: ReadOptions, *, all_there: bool = True) -> list[Partition]:
    """Return the partitions that the options select, each with one log, as a consumer would read it: see
    `Inventory.readable` and `selected`, whose errors are raised. With `all_there`, each topic or partition that the
    options name must exist.
    """
    return selected(inventory.readable(options.replica, wants=wanted_names(options)), options, all_there=all_there)


def check_named(bound: Bound, partitions: Sequence[Partition]) -> None:
    """Check a bound that names partitions. Raises `UsageError` unless it names exactly `partitions`, which are the
    partitions to read. Raises `UsageError` also if one of them is a single segment file, which has no name. A bound
    that is the same for all partitions is accepted.
    """
    if bound.named is None:
        return
    there = {key for partition in partitions if (key := key_of(partition)) is not None}
    missing = ", ".join(f"{topic}-{number}" for topic, number in sorted(there - bound.named))
    extra = ", ".join(f"{topic}-{number}" for topic, number in sorted(bound.named - there))
    if missing or extra:
        what = "; ".join(
            [*([f"it does not name {missing}"] if missing else []), *([f"{extra} is not read"] if extra else [])]
        )
        raise UsageError(f"option {bound.option} must name all partitions that are read, and no other: {what}")
    if any(partition.name is None for partition in partitions):
        raise UsageError(f"option {bound.option} names partitions, but a single segment file has no name")


class Range:
    """The offsets of a partition that the options request: from `start` (inclusive) to `end` (exclusive)."""

    def __init__(self, partition: Partition, options: ReadOptions) -> None:
        self._partition = partition
        self._options = options
        self._key = key_of(partition) or ("", -1)
        self._name = str(partition.name or partition.path)

    def check_start(self) -> None:
        """Report a log that has bytes, but whose log start offset is above its log end offset, so that no record is
        read. With FAILFAST it raises `FormatError`; with other modes it is a warning. Raises `StorageError` if the end
        of the log cannot be read.
        """
        partition = self._partition
        start, segments = partition.log_start_offset, partition.segments
        if not segments or start <= segments[-1].base_offset or self._last_end >= start:
            return
        finding = nothing_to_read(partition, partition.limits)
        if finding is None:
            return
        if self._options.mode is Mode.FAILFAST:
            raise raised(finding)
        tell(str(finding))

    def start(self) -> int:
        """Return the first requested offset: by default the log start offset, for "latest" the log end. For a timestamp
        it is the offset of the first record at or after this time. If there is no such record, the log end is returned
        with startingOffsetsByTimestampStrategy=latest; otherwise `UsageError` is raised.

        An offset outside the log raises `UsageError`. With failOnDataLoss=false it is replaced by the nearer bound of
        the log. Damage that may hide a record for a timestamp raises `FormatError` with mode FAILFAST, otherwise it is
        a warning. Raises `StorageError` if a file cannot be read.
        """
        first, bound = self._partition.log_start_offset, self._options.start
        timestamp = bound.timestamp_of(self._key)
        if timestamp is not None:
            offset_and_timestamp = self._since(timestamp)
            if offset_and_timestamp is not None:
                return offset_and_timestamp.offset
            if self._options.latest_if_no_start:
                return self._log_end
            raise UsageError(
                f"option {bound.option}: {self._name} has no record at or after {timestamp}; "
                "startingOffsetsByTimestampStrategy=latest would read none of it"
            )
        offset = bound.offset_of(self._key)
        if offset in (None, EARLIEST):
            return first
        if offset == LATEST:
            return self._log_end
        return self._there(bound, int(offset or 0), first)

    def end(self) -> int:
        """Return the end (exclusive) of the requested offsets. For a timestamp it is the offset of the first record at
        or after it. Return `NO_END` if there is no such record, and for the latest offset, which is the default.

        An offset outside the log raises `UsageError`. With failOnDataLoss=false an offset below the log start becomes
        the log start, and an offset above the log end is returned unchanged. Raises `StorageError` if a file cannot be
        read.
        """
        bound = self._options.end
        timestamp = bound.timestamp_of(self._key)
        if timestamp is not None:  # damage before the record is reported when the rows are read
            offset_and_timestamp = self._partition.offset_for_timestamp(timestamp, through_damage=True)
            return NO_END if offset_and_timestamp is None else offset_and_timestamp.offset
        offset = bound.offset_of(self._key)
        if offset in (None, LATEST):
            return NO_END
        requested = int(offset or 0)
        # not less than requested, even if the log ends before: if it ends in damage, the reader must reach it
        return max(requested, self._there(bound, requested, self._partition.log_start_offset))

    def _since(self, timestamp: int) -> OffsetAndTimestamp | None:
        """Return offset and timestamp of the first record with this timestamp (ms) or a later one; None if there is
        none. Damage that may hide it raises `FormatError` with FAILFAST, and is a warning in the other modes. Raises
        `StorageError` if a file cannot be read.
        """
        if self._options.mode is Mode.FAILFAST:
            return self._partition.offset_for_timestamp(timestamp)
        findings: list[Finding] = []
        offset_and_timestamp = self._partition.offset_for_timestamp(timestamp, findings=findings, through_damage=True)
        for finding in hiding(findings):
            tell(f"{finding}; records from that time on may be missing")
        return offset_and_timestamp

    @cached_property
    def _log_end(self) -> int:
        """The log end offset. At least the log start offset."""
        return max(self._last_end, self._partition.log_start_offset)

    @cached_property
    def _last_end(self) -> int:
        """The log end offset, found from the last index entry on; it may be below the log start offset."""
        return Follower().look(self._partition).end_offset

    def _there(self, bound: Bound, offset: int, first: int) -> int:
        """Return `offset` if it is from `first` to the log end, both included. Otherwise raise `UsageError`, or return
        the nearer of the two with failOnDataLoss=false. Raises `StorageError` if the end of the log cannot be read.
        """
        last = self._log_end
        if first <= offset <= last:
            return offset
        if self._options.fail_on_data_loss:
            raise UsageError(
                f"option {bound.option} names offset {offset} of {self._name}, which holds offsets {first} to {last}; "
                "failOnDataLoss=false would read what there is"
            )
        return min(max(offset, first), last)


_Wanted = tuple[Partition, int, int]
"""a partition, the first requested offset, and the one after the last"""


def _wanted(partition: Partition, options: ReadOptions) -> _Wanted:
    requested = Range(partition, options)
    requested.check_start()
    start, end = requested.start(), requested.end()
    if start > end:
        raise UsageError(
            f"{partition.name or partition.path} would start at offset {start} ({options.start.option}), "
            f"after its end at {end} ({options.end.option})"
        )
    return partition, start, end


def _bytes_of(wanted: _Wanted) -> int:
    """Estimate from the offset indexes how many log bytes the requested offsets have. Return 0 if no offset is
    requested; each segment with requested offsets counts at least 1. Raises `StorageError` if an index cannot be read.
    """
    partition, start, end = wanted
    total = 0
    segments = partition.segments
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else NO_END
        if start >= end or next_base <= start or segment.base_offset >= end:
            continue
        low = segment.likely_position_of(start)
        high = segment.likely_position_of(end) if end < next_base else segment.size
        total += max(high - low, 1)
    return total


def _facts(wanted: _Wanted, options: ReadOptions, target: int) -> PartitionFacts | None:
    partition, start, end = wanted
    view = ConsumerView(start_offset=start, end_offset=end)
    if options.isolation_level == READ_COMMITTED and options.mode is not Mode.FAILFAST:
        view = consumer_view(partition, start, end, isolation_level=READ_COMMITTED, through_damage=True)
        if view.open_transaction is not None:
            LOGGER.warning("%s: %s", partition.name or partition.path, view.open_transaction)
    elif options.isolation_level == READ_COMMITTED:
        # This goes on after damage, which the reader reports. A transaction that begins after it does not matter.
        followed = Follower(transactions=True).look(partition)
        first_open, damaged_from = followed.first_open_offset, followed.damaged_from
        if damaged_from is not None and start <= damaged_from:
            # the query ends at the damage, not at an open transaction after it
            first_open = first_open if first_open is not None and first_open < damaged_from else None
        if any(isinstance(txn, Undecided) and txn.first_offset < start for txn in followed.aborted):
            # no task meets its first batch, at which other readers end
            why = consumer_view(partition, start, end, isolation_level=READ_COMMITTED).undecided
            if why is not None and why.offset is not None and why.offset < start:
                raise raised(why)
        view = view.committed(followed.aborted, () if first_open is None else (first_open,))
        if view.end_offset < end:
            LOGGER.warning("%s: %s", partition.name or partition.path, followed.open_transaction)
    if view.start_offset >= view.end_offset:
        return None
    exact = options.max_records_per_partition is not None
    segments = segments_between(partition, view.start_offset, view.end_offset, target, exact=exact)
    low, high = view.start_offset, view.end_offset
    # like `Partition.to_arrow`, which fails at damage after the position that the index has for the start
    fails = options.mode is Mode.FAILFAST
    return PartitionFacts(
        topic=partition.topic,
        partition=partition.partition,
        segments=segments,
        start_offset=low,
        end_offset=high,
        aborted=view.aborted,
        checks_below=fails,
    )


def segments_between(
    partition: Partition, start: int, end: int, target: int, *, exact: bool
) -> tuple[SegmentFacts, ...]:
    """Return the segments that may have offsets from `start` to `end` (exclusive), in order, each with its spans: byte
    ranges of whole batches, in order. The offset index gives spans of about `target` bytes; with `exact` all batch
    headers are read, and each batch is a span (`spans_from` has exceptions). Spans may begin before `start` and go on
    after `end`. Segments without a span are omitted. Raises `StorageError` if a file cannot be read.
    """
    found: list[tuple[Segment, int | None, list[Span]]] = []
    there = partition.segments[index_of(partition.segments, start) :]
    for segment, following in zip_longest(there, there[1:]):
        if segment.base_offset >= end:
            break
        next_base = None if following is None else following.base_offset
        if exact:
            found_spans = list(_up_to(end, segment, spans_from(segment, start, next_base)))
        else:
            found_spans = spans(segment, target, next_base, start=start, end=end)
        if segment.base_offset < start and not exact:
            found_spans = _from_offset(segment, found_spans, start)
        found.append((segment, next_base, found_spans))
    segments: list[SegmentFacts] = []
    lowest = NO_END
    for segment, next_base, found_spans in reversed(found):
        believed, lowest = _believed(segment, found_spans, next_base, lowest)
        if believed:
            segments.append(
                SegmentFacts(
                    path=segment.path,
                    base_offset=segment.base_offset,
                    spans=believed,
                    is_last=next_base is None,
                    next_base=next_base,
                    size=segment.size,
                )
            )
    return tuple(reversed(segments))


def _believed(
    segment: Segment, found: Sequence[Span], next_base: int | None, lowest: int
) -> tuple[tuple[Span, ...], int]:
    """Return the spans of a segment, and the lowest offset at which one of them, the next segment or a span of a later
    segment begins. `next_base` is the base offset of the next segment, None for the last; `lowest` is the lowest offset
    at which a span or base offset of later segments begins.

    The headers of a span may claim offsets that a later span or segment also has, and would hide these. The span's
    `next_offset` is then lowered to the end of what readers get from it (`_reached`). Raises `StorageError` if the log
    cannot be read.
    """
    believed: list[Span] = []
    lowest = lowest if next_base is None else min(lowest, next_base)
    for span in reversed(found):
        reached = span.next_offset
        if reached > lowest:
            expected = span.expected if span.start > found[0].start else None
            reached = min(reached, _reached(segment, span, expected, next_base))
        believed.append(replace(span, next_offset=reached))
        lowest = min(lowest, span.first_offset)
    return tuple(reversed(believed)), lowest


def _reached(segment: Segment, span: Span, expected: int | None, next_base: int | None) -> int:
    """Return the offset after the highest one that a reader gets from the batches of a span if it continues after
    damage; 0 if it gets none. `expected` is the offset that should come at the start of the span, None if any is
    accepted. `next_base` is the base offset of the next segment, None for the last. Raises `StorageError` if the log
    cannot be read.
    """
    reached, position = 0, span.start
    with segment.open() as source:
        cursor = Cursor(source, segment.base_offset, next_base, position=position, expected=expected)
        while True:
            scanner = Scanner(source, position=position, end=span.end)
            for batch in scanner:
                if cursor.judge(batch) not in ENDING:
                    reached = max(reached, batch.header.next_offset)
            if scanner.stop is None or scanner.stop is StopReason.END:
                return reached
            resumed = cursor.ended(scanner, through_damage=True, end=span.end).resumed
            if resumed is None:
                return reached
            cursor.resume(resumed)
            position = resumed


def _up_to(end: int, segment: Segment, all_spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans up to the first one that begins at or above the offset `end`. That span is yielded too, extended
    to the end of the segment, and all later ones are dropped. If no span begins there, all are yielded unchanged.
    """
    for span in all_spans:
        if span.first_offset >= end:
            yield replace(span, end=max(span.end, segment.size))
            return
        yield span


def _from_offset(segment: Segment, all_spans: list[Span], start: int) -> list[Span]:
    """Return the spans without the bytes before the position at which reading from the offset `start` begins
    (`spans_from`). If no batch follows there, all spans are returned unchanged. Raises `StorageError` if the segment
    cannot be read.
    """
    begin = next(spans_from(segment, start), None)
    if begin is None:
        return all_spans
    kept = [span for span in all_spans if span.end > begin.start]
    if kept and kept[0].start < begin.start:
        kept[0] = replace(kept[0], start=begin.start, first_offset=begin.first_offset, expected=begin.expected)
    return kept


def plan_read(options: ReadOptions) -> list[tuple[Piece, ...]]:
    """Return one tuple of pieces for each Spark task, in the order of partitions and offsets; empty if there is nothing
    to read. Lists the paths, and reads indexes and batch headers. Raises `UsageError` for missing paths or partitions
    and for bounds that do not fit, `StorageError` if a file cannot be read.

    With FAILFAST, raises `FormatError` if damage may hide where a timestamp begins, if with read_committed it may hide
    whether a transaction that began before the bounds has ended, or if a log start offset is above the log end offset.
    Raises `StorageError` then for a link or other entry in place of data.
    """
    with looking_once():
        return _plan_read(options)


def wanted_names(options: ReadOptions) -> Wants:
    """Return a function that takes a partition directory's name and returns whether the options select the partition
    (subscribe, subscribePattern or assign). If none of these options is set, it always returns True.
    """
    if options.assign is not None:
        named = frozenset(options.assign)
        return lambda name: (name.topic, name.partition) in named
    if options.subscribe is not None:
        topics = frozenset(options.subscribe)
        return lambda name: name.topic in topics
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        return lambda name: pattern.fullmatch(name.topic) is not None
    return every


def _plan_read(options: ReadOptions) -> list[tuple[Piece, ...]]:
    paths = options.in_both_tiers(expand_paths(options.paths))
    in_store = any(map(is_uri, paths))
    inventory = open_all(*paths, wants=wanted_names(options) if in_store else every)
    check_left_out(inventory, options)
    partitions = partitions_to_read(inventory, options)
    check_named(options.start, partitions)
    check_named(options.end, partitions)
    for_all = in_threads if in_store else lambda act, items: list(map(act, items))
    wanted = for_all(lambda partition: _wanted(partition, options), partitions)
    target = target_bytes(
        sum(for_all(_bytes_of, wanted)),
        largest=options.max_partition_bytes,
        min_partitions=options.min_partitions,
        cores=os.cpu_count() or 1,
    )
    facts = for_all(lambda bounds: _facts(bounds, options, target), wanted)
    nonempty = [partition for partition in facts if partition is not None]
    return plan(nonempty, target, max_records=options.max_records_per_partition)
