"""Replay of an internal topic's partition up to its end, or up to an earlier moment.

The state at an earlier moment is rebuilt from the records that exist now. The cleaner may have removed a record since,
because a later one has the same key; then it is missing from the earlier state. Segments that the cleaner replaced
remain as `.deleted` for a minute, or until the broker is started again, and are read too. A finding names what is still
missing (`Cleaner.cleanInto`, `LogCleanerManager`).
"""

from __future__ import annotations

import heapq
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkalog.cluster.records.checkpoints import checkpoint_in
from kafkalog.cluster.records.coordinator_records import CoordinatorRecord
from kafkalog.cluster.records.entries import Entry, Marker, entries
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import CLEANER_OFFSET_CHECKPOINT
from kafkalog.log.directories.deleted import deleted_segments
from kafkalog.log.directories.partition import Partition

__all__ = ["Entry", "Marker", "Until", "partitions_of", "replay"]

_NAMED = 5
"""most partitions of a group that a finding names"""


class Until(Struct, frozen=True):
    """The moment to stop at: before the first record at or above this offset, or with a later timestamp (ms since
    1970).
    """

    offset: int | None = None
    timestamp: int | None = None

    @property
    def is_now(self) -> bool:
        """Whether this is the end of the log."""
        return self.offset is None and self.timestamp is None

    def excludes(self, offset: int, timestamp: int) -> bool:
        """Whether a record with this offset and timestamp comes after the requested moment."""
        return (self.offset is not None and offset >= self.offset) or (
            self.timestamp is not None and timestamp > self.timestamp
        )


def partitions_of(partitions: Iterable[Partition], topic: str) -> list[Partition]:
    """Return the partitions of a topic, ascending by number."""
    return sorted((each for each in partitions if each.topic == topic), key=lambda each: each.partition or 0)


def replay(
    partition: Partition, findings: list[Finding], *, until: Until | None = None, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Entry | Marker]:
    """Yield records and markers in offset order, up to `until` or up to the end of the log. The log is read to its end
    in any case, and damage in all of it is appended to `findings`. Raises `StorageError` if files cannot be read.

    If `until` is in the past, records in `.deleted` segments are included if their leader epochs fit the records around
    them; damage in these segments is not reported. The cleaner may have removed records since then. At the end, a
    finding is appended for each group or transactional id whose state at that time may therefore be unknown. One more
    is appended if later records were removed.
    """
    if until is None or until.is_now:
        yield from entries(partition, findings, limits)
        return
    forgotten = _Forgotten(partition)
    is_past = False
    for each in _with_deleted(partition, findings, limits):
        is_past = is_past or until.excludes(each.offset, each.timestamp)
        if is_past:
            forgotten.after(each)
        else:
            forgotten.before(each)
            yield each
    findings += forgotten.findings()


def _with_deleted(partition: Partition, findings: list[Finding], limits: Limits) -> Iterator[Entry | Marker]:
    """Yield records and markers in offset order, including records that are now only in `.deleted` segments. A follower
    also deletes segments whose records were never committed. Therefore a deleted record is only used if its epoch lies
    between the epochs of the live entries before and after it. One after the last live entry is never used, nor is
    one whose offset was already yielded.

    Damage in `.deleted` segments is ignored; other damage is appended to `findings`. Raises `StorageError` if files
    cannot be read.
    """
    old = heapq.merge(
        *(
            entries(Partition(partition.path, partition.name, (segment,)), [], limits)
            for segment in deleted_segments(partition)
        ),
        key=lambda each: each.offset,
    )
    waiting = next(old, None)
    last_offset, last_epoch = -1, -1
    for entry in entries(partition, findings, limits):
        while waiting is not None and waiting.offset < entry.offset:
            if waiting.offset > last_offset and last_epoch <= waiting.leader_epoch <= entry.leader_epoch:
                yield waiting
                last_offset = waiting.offset
            waiting = next(old, None)
        yield entry
        last_offset, last_epoch = entry.offset, entry.leader_epoch


class _Forgotten:
    """Counts missing records, to find out what is unknown about an earlier moment. `before` takes the records before
    the moment, `after` the later ones.

    Below its checkpoint the cleaner keeps the last record of each key. So a record from before the moment can be
    missing only if offsets are missing, and a later record of its key exists, or existed (a tombstone) and is missing
    too.
    """

    def __init__(self, partition: Partition) -> None:
        self._path = partition.path
        self._cleaned_to = _cleaned_to(partition)
        self._expected = 0
        self._missing = 0
        self._missing_after = 0
        self._moment: int | None = None
        self._keys: set[bytes] = set()
        self._later: dict[bytes, Entry] = {}

    def before(self, entry: Entry | Marker) -> None:
        self._missing += max(0, entry.offset - self._expected)
        self._expected = entry.offset + 1
        if isinstance(entry, Entry) and entry.record.raw_key is not None:
            self._keys.add(entry.record.raw_key)

    def after(self, entry: Entry | Marker) -> None:
        if self._moment is None:
            self._moment = entry.offset
            self._missing += max(
                0, entry.offset - self._expected
            )  # on which side of the moment they were, nothing says
        if entry.offset < self._cleaned_to:
            self._missing_after += max(0, entry.offset - self._expected)
            if isinstance(entry, Entry) and entry.record.raw_key is not None and entry.record.raw_key not in self._keys:
                self._later.setdefault(entry.record.raw_key, entry)
        self._expected = entry.offset + 1

    def findings(self) -> Iterator[Finding]:
        if not self._missing or self._moment is None:
            return
        of: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self._later.values():
            if entry.record.key is not None:
                of[_owner(entry.record)].append(entry)
        for owner, later in sorted(of.items()):
            yield self._finding(min(each.offset for each in later), f"{owner}: {_words(later)}")
        if self._missing_after:
            count = counted(self._missing_after, "record")
            yield self._finding(
                self._moment,
                f"the cleaner has removed {count} written after that moment: what was deleted since, and has left no "
                "later record, is not shown",
            )

    def _finding(self, offset: int, detail: str) -> Finding:
        return Finding.of(FindingCode.PAST_REMOVED, None, offset, detail, self._path)


def _owner(record: CoordinatorRecord) -> str:
    for field, word in (("group", "group"), ("group_id", "group"), ("transactional_id", "transactional id")):
        if record.key is not None and field in record.key.fields:
            return f"{word} {record.key.fields[field]}"
    return record.name


def _words(later: list[Entry]) -> str:
    """Return a clause that names the unknown facts about a group at an earlier moment: committed offsets, the group's
    state, or both. At most `_NAMED` partitions are named, and the others are counted. `later`, not empty, are newer
    records of the group.
    """
    places = []
    for entry in later:
        fields = entry.record.key.fields if entry.record.key is not None else {}
        if "topic" in fields and "partition" in fields:
            places.append(f"{fields['topic']}-{fields['partition']}")
    what = []
    if places:
        what.append(f"the offset committed for {first_of(sorted(places), _NAMED)}")
    if len(places) < len(later):
        what.append("its state")
    return f"{' and '.join(what)} at that moment may have been removed by the cleaner since, and is not known"


def _cleaned_to(partition: Partition) -> int:
    """Return the offset below which the cleaner may have removed records, from the cleaner's checkpoint. If the file
    does not have the partition, or cannot be read, return the base offset of the active segment, or 0 without segments.
    """
    if partition.name is not None:
        known = checkpoint_in(os.path.dirname(partition.path), CLEANER_OFFSET_CHECKPOINT) or {}
        offset = known.get((partition.name.topic, partition.name.partition))
        if offset is not None:
            return offset
    return partition.segments[-1].base_offset if partition.segments else 0
