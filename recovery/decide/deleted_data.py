"""Describe deleted data that is still in a log directory, that nothing else there holds, and that `undelete` can
restore.

Deleted data disappears soon: `.deleted` files at the broker's next start, `-delete` directories a minute later. Only
names, sizes, ids and the first batch of each log are examined here, but all batches of what may have been moved. Three
kinds do not count, because their records are held elsewhere or were replaced: a `.deleted` file above the first segment
of the log, as a start leaves it, was compacted or truncated away, unless it holds offsets that a plan reports as lost
or that are beyond the log's end; a `-delete` directory was left by a move between log directories if the live log, in
any log directory of the broker, has all its batches, or if the metadata places the log in a log directory that was not
given; the segments of a tiered log are remote.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate

from msgspec import Struct

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.model import NO_END
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    DELETED,
    DirectoryState,
    PartitionName,
    parse_partition_directory,
)
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.deleted import first_base_after_swaps
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import topic_id_or_none
from kafkalog.recovery.checks.deleted_beyond_end import DeletedBeyondEnd, beyond_end_in, logs_with_suffix, records_in
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.decide.remote_part import held_remotely
from kafkalog.recovery.decide.ways import LostRange
from kafkalog.recovery.facts.survey import Survey, survey
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = [
    "DeletedPartitions",
    "deleted_beyond_end",
    "deleted_partitions",
    "log_of_finished_move",
    "lost_in_deleted",
    "note_of_deleted",
    "old_copies_elsewhere",
]

_SHOWN = 3


class DeletedPartitions(Struct, frozen=True, kw_only=True):
    """The `-delete` directories of one log directory that have records, and of which no live log of the broker has all
    batches. A broker removes such directories `file.delete.delay.ms` (a minute) after its start.
    """

    directories: tuple[str, ...]
    """sorted names"""
    records_by_directory: Mapping[str, int]
    """number of records in each, by the headers of its batches"""
    roots: tuple[str, ...]
    """log directories of the broker, for a command that keeps the directories"""

    @property
    def records(self) -> int:
        """Number of records in all of them."""
        return sum(self.records_by_directory.values())

    @property
    def topics(self) -> frozenset[str]:
        """Topics of the directories."""
        return frozenset(name.topic for name in map(parse_partition_directory, self.directories) if name is not None)


def deleted_partitions(surveyed: Survey, facts: TopicFacts, moved: Collection[str]) -> DeletedPartitions | None:
    """Return the deleted partitions of a surveyed log directory that have records, and of which no live log of the
    broker has all batches; None if there are none. The metadata log is left out, and so are the directories `moved`
    (`old_copies_elsewhere`). Reads the deleted logs and live logs of the same partitions. Raises `StorageError` if a
    deleted log cannot be read. A live log counts as missing if it or one of the topic ids cannot be read.
    """
    tree = surveyed.tree()
    roots = _roots_of(surveyed, facts)
    alone = sorted(
        directory
        for _name, directory in _live_and_deleted(tree)[1]
        if directory not in moved
        and any(_holds_records(tree, path) for _base, path in logs_with_suffix(tree, directory, ""))
        and log_of_finished_move(surveyed, directory, roots) is None
    )
    records = {
        directory: sum(
            records_in(batch)
            for _base, path in logs_with_suffix(tree, directory, "")
            for batch in Scanner(tree.source(path), check_crc=False)
        )
        for directory in alone
    }
    return DeletedPartitions(directories=tuple(alone), records_by_directory=records, roots=roots) if alone else None


def different_records(several: Iterable[DeletedPartitions]) -> tuple[int, int]:
    """Return how many different records are in deleted partitions, and of how many brokers the log directories are.
    Copies that several brokers have of a partition count once, as many records as the largest has.
    """
    by_broker: dict[tuple[str, ...], dict[tuple[str, int] | str, int]] = {}
    for each in several:
        counts = by_broker.setdefault(each.roots, {})
        for directory, records in each.records_by_directory.items():
            name = parse_partition_directory(directory)
            key = directory if name is None else (name.topic, name.partition)
            counts[key] = counts.get(key, 0) + records
    largest: dict[tuple[str, int] | str, int] = {}
    for counts in by_broker.values():
        for key, records in counts.items():
            largest[key] = max(largest.get(key, 0), records)
    return sum(largest.values()), len(by_broker)


def _roots_of(surveyed: Survey, facts: TopicFacts) -> tuple[str, ...]:
    return facts.roots if surveyed.root in facts.roots else (surveyed.root,)


def log_of_finished_move(surveyed: Survey, directory: str, roots: Iterable[str]) -> str | None:
    """Return the path of the live log that a move between log directories has made of the `-delete` directory
    `directory`: the first in `roots`, log directories of the broker, that has its topic id and all its batches, with
    right checksums. None if there is none; a log or topic id that cannot be read proves nothing.
    """
    parsed = parse_partition_directory(directory)
    if parsed is None:
        return None
    tree, live = surveyed.tree(), f"{parsed.topic}-{parsed.partition}"
    for root in roots:
        if os.path.isdir(os.path.join(root, live)):
            with suppress(StorageError), survey(root, only=frozenset({live})) as other:
                if _has_all(other.tree(), live, tree, directory):
                    return os.path.join(root, live)
    return None


def _has_all(other: Tree, live: str, tree: Tree, directory: str) -> bool:
    """Whether the live log has the topic id and all readable batches of the deleted one, each with its checksum."""
    if topic_id_or_none(other, live) != topic_id_or_none(tree, directory):
        return False
    theirs = _batches(other, live, check_crc=True)
    return all(batch in theirs for batch in _batches(tree, directory, check_crc=False))  # both are in order


def _batches(tree: Tree, directory: str, *, check_crc: bool) -> Iterator[tuple[int, int, int]]:
    """Yield last offset, size in bytes and stored checksum of each batch, in order. A segment's batches end before its
    first damage. Raises `StorageError` while iterating if a log cannot be read.
    """
    for _base, path in logs_with_suffix(tree, directory, ""):
        for batch in Scanner(tree.source(path), check_crc=check_crc):
            yield batch.last_offset, batch.size, batch.header.crc


def old_copies_elsewhere(surveyed: Survey, facts: TopicFacts) -> list[str]:
    """Return the sorted `-delete` directories whose logs the metadata places, under their topic ids, in a log directory
    of this broker that was not given. Raises `StorageError` if a topic id cannot be read.
    """
    tree = surveyed.tree()
    return sorted(
        directory
        for name, directory in _live_and_deleted(tree)[1]
        if facts.directory_not_given(name) is not None
        and topic_id_or_none(tree, directory) == facts.topic_ids.get(name.topic)
    )


def deleted_beyond_end(surveyed: Survey, planned_ends: Mapping[str, int]) -> tuple[DeletedBeyondEnd, ...]:
    """Return the `.deleted` segments with records at or beyond the ends of the live logs of a surveyed log directory,
    one item for each partition, sorted by directory. The metadata log is left out. `planned_ends` are the log end
    offsets that a plan leaves, by partition directory; records below them do not count. Reads the logs that may hold
    such records; raises `StorageError` if it cannot.
    """
    tree = surveyed.tree()
    directories = sorted(_live_and_deleted(tree)[0].values())
    found = (beyond_end_in(tree, directory, planned_ends.get(directory, 0)) for directory in directories)
    return tuple(each for each in found if each is not None)


def lost_in_deleted(surveyed: Survey, lost: Iterable[LostRange]) -> dict[str, list[str]]:
    """Return the paths of `.deleted` logs that hold offsets in `lost`, by partition directory, in offset order; empty
    if there are none. Logs below the first live segment are left out, and so is the metadata log. Compaction and
    truncation leave such files, until the next start removes them. Reads batch headers of the logs that may hold such
    offsets; raises `StorageError` if it cannot.
    """
    tree = surveyed.tree()
    ranges: dict[str, list[LostRange]] = {}
    for lost_range in lost:
        ranges.setdefault(lost_range.partition, []).append(lost_range)
    places = {}
    for directory, its_ranges in ranges.items():
        name = parse_partition_directory(directory)
        first = first_base_after_swaps(tree.names(directory))
        deleted = logs_with_suffix(tree, directory, DELETED)
        if not deleted or name is None or name.topic == CLUSTER_METADATA_TOPIC:
            continue
        offsets = _LostOffsets(its_ranges)
        ends = [*(base for base, _path in deleted[1:]), NO_END]
        holding = [
            path
            for (base, path), end in zip(deleted, ends, strict=True)
            if (first is None or base >= first) and offsets.meet(base, end - 1) and _holds(tree, path, offsets)
        ]
        if holding:
            places[directory] = holding
    return places


class _LostOffsets:
    """Lost offsets of one partition, which may overlap."""

    def __init__(self, ranges: Iterable[LostRange]) -> None:
        in_order = sorted((lost.first, NO_END if lost.last is None else lost.last) for lost in ranges)
        self._firsts = [first for first, _last in in_order]
        self._reached = [*accumulate((last for _first, last in in_order), max)]
        """highest lost offset of the ranges up to each"""

    def meet(self, first: int, last: int) -> bool:
        """Whether one of the offsets from `first` to `last` (inclusive) is lost."""
        number = bisect_right(self._firsts, last) - 1
        return number >= 0 and self._reached[number] >= first


def _holds(tree: Tree, path: str, lost: _LostOffsets) -> bool:
    batches = Scanner(tree.source(path), check_crc=False)
    return any(lost.meet(batch.first_offset, batch.last_offset) for batch in batches)


def note_of_deleted(
    surveyed: Survey,
    facts: TopicFacts,
    lost: Mapping[str, Sequence[str]],
    gone: DeletedPartitions | None,
    moved: Sequence[str],
) -> str | None:
    """Return text about deleted data that is still on disk, None if there is none. It has one or two parts. One is
    about the deleted partitions `gone` and about deleted segments that nothing else holds. The other is about `-delete`
    directories whose logs are in log directories that were not given. The metadata log is ignored. Each part names at
    most three directories. `lost` is the result of `lost_in_deleted`, `gone` that of `deleted_partitions`,
    `moved` that of `old_copies_elsewhere`. Raises `StorageError` if a file cannot be read.
    """
    tree = surveyed.tree()
    places = [] if gone is None else [*gone.directories]
    for name, directory in _live_and_deleted(tree)[0].items():
        remote = held_remotely(tree, directory, (name.topic, name.partition), facts.tiering)
        count = len({*_deleted_below(tree, directory, remote), *lost.get(directory, ())})
        if count:
            places.append(f"{counted(count, '.deleted segment')} in {directory}")
    sentences = []
    if places:
        sentences.append(
            f"deleted, but still on disk, and held by nothing else here: {first_of(places, _SHOWN)}; "
            f"`kafkalog undelete {shell_line(_roots_of(surveyed, facts))}` lists it, and can restore it before a "
            "recovery or a broker's start removes it"
        )
    if moved:
        sentences.append(
            f"probably old copies left by finished moves: {first_of(moved, _SHOWN)}; the metadata places the logs in a "
            "log directory of this broker that was not given: plan for all of its log directories"
        )
    return "; ".join(sentences) or None


def _live_and_deleted(tree: Tree) -> tuple[dict[PartitionName, str], list[tuple[PartitionName, str]]]:
    """Return the live directories of a log directory by partition, and (partition, directory) of each `-delete`
    directory; without the metadata log.
    """
    live: dict[PartitionName, str] = {}
    gone: list[tuple[PartitionName, str]] = []
    for directory in tree.subdirectories():
        name = parse_partition_directory(directory)
        if name is None or name.topic == CLUSTER_METADATA_TOPIC:
            continue
        if name.state is DirectoryState.LIVE:
            live[name] = directory
        elif name.state is DirectoryState.DELETE:
            gone.append((PartitionName(name.topic, name.partition), directory))
    return live, gone


def _holds_records(tree: Tree, path: str) -> bool:
    return tree.files[path].size > 0 and next(iter(Scanner(tree.source(path))), None) is not None


def _deleted_below(tree: Tree, directory: str, remote: OffsetRanges) -> list[str]:
    """Return the paths of `.deleted` logs below the first live segment, by base offset; all `.deleted` logs if there is
    no live segment. Logs that do not begin with a sound batch are left out. So are logs whose offsets are known to be
    all in the remote tier. Raises `StorageError` if a log cannot be read.
    """
    deleted = logs_with_suffix(tree, directory, DELETED)
    if not deleted:
        return []
    first = first_base_after_swaps(tree.names(directory))
    following = [base for base, _path in deleted[1:]]
    return [
        path
        for (base, path), end in zip(deleted, [*following, first], strict=True)
        if (first is None or base < first)
        and not (end is not None and remote.covers(base, max(end - 1, base)))
        and _holds_records(tree, path)
    ]
