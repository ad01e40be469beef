"""Describe deleted data that is still in a log directory, that nothing else there holds, and that `undelete` can
restore.

Deleted data disappears soon: `.deleted` files at the broker's next start, `-delete` directories a minute later. Only
names, sizes, ids and the first batch of each log are examined here. Three kinds do not count, because their records are
held elsewhere or were replaced: a `.deleted` file above the first segment of the log, as a start leaves it, was
compacted or truncated away, unless it holds offsets that a plan reports as lost or that are beyond the log's end; a
`-delete` directory beside a live one with its topic id, which begins no later, was moved; the segments of a tiered log
are remote.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from kafkalog.codec.common.shell import shell_word
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
from kafkalog.recovery.facts.survey import Survey
from kafkalog.tiers.tiering import Tiering

__all__ = ["DeletedPartitions", "deleted_beyond_end", "deleted_partitions", "lost_in_deleted", "note_of_deleted"]

_SHOWN = 3


class DeletedPartitions(Struct, frozen=True, kw_only=True):
    """The `-delete` directories of one log directory that have records which no other directory there has. A broker
    removes such directories `file.delete.delay.ms` (a minute) after its start.
    """

    directories: tuple[str, ...]
    """sorted names"""
    records: int
    """number of records in them, by the headers of their batches"""

    @property
    def topics(self) -> frozenset[str]:
        """Topics of the directories."""
        return frozenset(name.topic for name in map(parse_partition_directory, self.directories) if name is not None)


def deleted_partitions(survey: Survey) -> DeletedPartitions | None:
    """Return the deleted partitions of a surveyed log directory whose records nothing else there has (`_is_alone`);
    None if there are none. The metadata log is left out. Reads the batch headers of their logs; raises `StorageError`
    if it cannot.
    """
    tree = survey.tree()
    live, gone = _live_and_deleted(tree)
    alone = sorted(directory for name, directory in gone if _is_alone(tree, directory, live.get(name)))
    logs = (path for directory in alone for _base, path in logs_with_suffix(tree, directory, ""))
    records = sum(records_in(batch) for path in logs for batch in Scanner(tree.source(path), check_crc=False))
    return DeletedPartitions(directories=tuple(alone), records=records) if alone else None


def deleted_beyond_end(survey: Survey, planned_ends: Mapping[str, int]) -> tuple[DeletedBeyondEnd, ...]:
    """Return the `.deleted` segments with records at or beyond the ends of the live logs of a surveyed log directory,
    one item for each partition, sorted by directory. The metadata log is left out. `planned_ends` are the log end
    offsets that a plan leaves, by partition directory; records below them do not count. Reads the logs that may hold
    such records; raises `StorageError` if it cannot.
    """
    tree = survey.tree()
    directories = sorted(_live_and_deleted(tree)[0].values())
    found = (beyond_end_in(tree, directory, planned_ends.get(directory, 0)) for directory in directories)
    return tuple(each for each in found if each is not None)


def lost_in_deleted(survey: Survey, lost: Iterable[LostRange]) -> dict[str, list[str]]:
    """Return the paths of `.deleted` logs that hold offsets in `lost`, by partition directory, in offset order; empty
    if there are none. Logs below the first live segment are left out, and so is the metadata log. Compaction and
    truncation leave such files, until the next start removes them. Reads batch headers of the logs that may hold such
    offsets; raises `StorageError` if it cannot.
    """
    tree = survey.tree()
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
    survey: Survey, tiering: Tiering, lost: Mapping[str, Sequence[str]], gone: DeletedPartitions | None
) -> str | None:
    """Return a sentence about deleted partitions and deleted segments that are still on disk, if no other file there
    holds their records. Return None if there are none; the metadata log is ignored. The sentence names at most three
    directories. `lost` is the result of `lost_in_deleted`, `gone` that of `deleted_partitions`. Raises `StorageError`
    if a file cannot be read.
    """
    tree = survey.tree()
    places = [] if gone is None else [*gone.directories]
    for name, directory in _live_and_deleted(tree)[0].items():
        remote = held_remotely(tree, directory, (name.topic, name.partition), tiering)
        count = len({*_deleted_below(tree, directory, remote), *lost.get(directory, ())})
        if count:
            places.append(f"{counted(count, '.deleted segment')} in {directory}")
    if not places:
        return None
    return (
        f"deleted, but still on disk, and held by nothing else here: {first_of(places, _SHOWN)}; "
        f"`kafkalog undelete {shell_word(survey.root)}` lists it, and can restore it before a recovery or a broker's "
        "start removes it"
    )


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


def _is_alone(tree: Tree, directory: str, live: str | None) -> bool:
    """Whether the deleted partition in `directory` has records that the live partition in `live` does not have. This is
    so if there is no live partition (None), or if it has another topic id, no bytes, or a higher first base offset.
    Deleted logs that do not begin with a sound batch do not count; False if there are no others. Raises `StorageError`
    if a log cannot be read.
    """
    logs = [(base, path) for base, path in logs_with_suffix(tree, directory, "") if _holds_records(tree, path)]
    if not logs:
        return False
    if live is None or topic_id_or_none(tree, live) != topic_id_or_none(tree, directory):
        return True
    theirs = [base for base, path in logs_with_suffix(tree, live, "") if tree.files[path].size]
    return not theirs or min(theirs) > logs[0][0]


def _deleted_below(tree: Tree, directory: str, remote: OffsetRanges) -> list[str]:
    """Return the paths of `.deleted` logs below the first live segment, by base offset; all `.deleted` logs if there is
    no live segment. Logs that do not begin with a sound batch are left out, and so are logs whose offsets are known to
    be all in the remote tier. Raises `StorageError` if a log cannot be read.
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
