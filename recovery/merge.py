"""Several copies of one partition made into one healthy log, and where each range came from.

At every offset the batch of the highest leader epoch wins, and behind a batch of one epoch nothing of an older epoch
follows: so the tail that a deposed leader wrote and nobody else has does not come back.  Each copy is read past its
damage; what no copy has is a gap, and is reported.  Indexes, snapshots and epochs are rebuilt as a broker would.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.names import PARTITION_METADATA, DirectoryState, FileKind, parse_partition_directory, segment_file
from kafkalog.codec.scan import Scanner
from kafkalog.codec.source import Source
from kafkalog.recovery.broker.epochs import LeaderEpochCache
from kafkalog.recovery.broker.java import JavaError
from kafkalog.recovery.broker.manager import Outcome, load_log_directory
from kafkalog.recovery.broker.settings import LogSettings
from kafkalog.recovery.broker.tree import Content, ContentSource, Slice, Tree, join
from kafkalog.recovery.fs import PIECE, FileSystem
from kafkalog.recovery.salvage import salvage
from kafkalog.recovery.soundness import log_segments
from kafkalog.recovery.survey import Survey, survey

__all__ = ["MergeResult", "MergedRange", "merge_replicas"]

PathLike = str | os.PathLike[str]
_MAX_RELATIVE = 2**31 - 1


@dataclass(frozen=True, slots=True, order=True)
class _Batch:
    first: int
    order: tuple[int, int]
    """higher epochs first, then copies in the order in which they were given"""
    last: int
    epoch: int
    copy: int
    origin: str
    position: int
    size: int


@dataclass(slots=True)
class MergedRange:
    """Offsets that one copy gave."""

    first_offset: int
    last_offset: int
    source: str


@dataclass(slots=True)
class MergeResult:
    """The merged partition directory, where its ranges come from, and what nobody had."""

    target: str
    ranges: list[MergedRange] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """offsets that no copy has (in a compacted topic they need not be lost)"""
    dropped: dict[str, int] = field(default_factory=dict)
    """copy -> batches that an older epoch wrote and a newer one replaced"""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "target": self.target,
            "ranges": [
                {"first_offset": each.first_offset, "last_offset": each.last_offset, "source": each.source}
                for each in self.ranges
            ],
            "gaps": [list(gap) for gap in self.gaps],
            "dropped_batches": self.dropped,
        }


def _key(copy: int, path: str) -> str:
    return f"{copy}:{path}"


def _known_epochs(surveys: Sequence[Survey], inside: Sequence[str]) -> frozenset[int]:
    """Epochs that any copy's leader-epoch-checkpoint knows; empty if there is none that can be read."""
    known: set[int] = set()
    for found, directory in zip(surveys, inside, strict=True):
        with contextlib.suppress(JavaError):
            known.update(LeaderEpochCache(found.tree().part(directory), directory).epochs)
    return frozenset(known)


def _batches(copy: int, found: Survey, directory: str, known: frozenset[int]) -> Iterator[_Batch]:
    """The sound batches of one copy in order of offset, damage passed by."""
    tree = found.tree()
    kept = salvage(tree, directory)
    for _base, path in log_segments(tree, directory):
        if path not in kept.sizes:
            continue
        content = kept.contents.get(path, tree.files[path].slice(0, kept.sizes[path]))
        scanner = Scanner(ContentSource(content, found.source), check_crc=False)
        for batch in scanner:
            (piece,) = content.slice(batch.position, batch.position + batch.size).parts
            if not isinstance(piece, Slice):
                raise TypeError(piece)
            header = batch.header
            first = header.base_offset if isinstance(header, BatchHeader) else header.last_offset
            epoch = header.partition_leader_epoch
            if known and epoch not in known:  # the epoch lies outside the checksum
                epoch = -1
            yield _Batch(
                first, (-epoch, copy), header.last_offset, epoch, copy, _key(copy, path), piece.start, batch.size
            )


class _Lineage:
    """Chooses batch after batch; fed in order of first offset, higher epochs first."""

    def __init__(self, names: Sequence[str], newest_from: dict[int, int]) -> None:
        self._names = names
        self._newest_from = sorted(newest_from.items())
        self._end: int | None = None
        self.gaps: list[tuple[int, int]] = []
        self.ranges: list[MergedRange] = []
        self.dropped: dict[str, int] = {}

    def _is_replaced(self, batch: _Batch) -> bool:
        """A newer epoch began at or before the end of this batch: its leader never had it, or had another one."""
        return any(epoch > batch.epoch >= 0 and start <= batch.last for epoch, start in self._newest_from)

    def takes(self, batch: _Batch) -> bool:
        """The batch belongs to the merged log."""
        if self._is_replaced(batch):
            name = self._names[batch.copy]
            self.dropped[name] = self.dropped.get(name, 0) + 1
            return False
        if self._end is not None and batch.first < self._end:
            return False
        if self._end is not None and batch.first > self._end:
            self.gaps.append((self._end, batch.first - 1))
        self._end = batch.last + 1
        source = self._names[batch.copy]
        if self.ranges and self.ranges[-1].source == source:
            self.ranges[-1].last_offset = batch.last
        else:
            self.ranges.append(MergedRange(batch.first, batch.last, source))
        return True


def _epoch_starts(copies: Sequence[list[_Batch]]) -> dict[int, int]:
    """Epoch -> first offset that any copy has of it."""
    starts: dict[int, int] = {}
    for batches in copies:
        for batch in batches:
            if batch.epoch >= 0:
                starts[batch.epoch] = min(batch.first, starts.get(batch.epoch, batch.first))
    return starts


def _segments(batches: Sequence[_Batch], segment_bytes: int) -> dict[int, Content]:
    """Base offset -> content, rolled by size and by what an index can hold."""
    found: dict[int, Content] = {}
    base: int | None = None
    parts: list[Slice] = []
    size = 0
    for batch in batches:
        if base is not None and (size + batch.size > segment_bytes or batch.last - base > _MAX_RELATIVE):
            found[base] = join(parts)
            base, parts, size = None, [], 0
        base = batch.first if base is None else base
        parts.append(Slice(batch.origin, batch.position, batch.size))
        size += batch.size
    if base is not None:
        found[base] = join(parts)
    return found


def merge_replicas(
    copies: Sequence[PathLike], target: PathLike, *, settings: LogSettings | None = None, at: int | None = None
) -> MergeResult:
    """Merge directories of the same topic-partition into `<target>/<topic>-<partition>`, which must not exist.

    The copies are only read.  Raises `UsageError` if they are not copies of one partition, `RecoveryRefused` if a
    broker would not load the result.
    """
    paths = [os.path.realpath(copy) for copy in copies]
    parsed = {parse_partition_directory(os.path.basename(path)) for path in paths}
    name = next(iter(parsed), None)
    if len(paths) < 2 or len(parsed) != 1 or name is None or name.state is not DirectoryState.LIVE:
        raise UsageError("give two or more directories of the same topic-partition")
    directory = str(name)
    place = os.path.join(os.path.realpath(target), directory)
    if os.path.lexists(place):
        raise UsageError(f"{place} is there already")
    with ExitStack() as stack:
        surveys = [
            stack.enter_context(survey(os.path.dirname(path), only=frozenset({os.path.basename(path)})))
            for path in paths
        ]
        inside = [os.path.basename(path) for path in paths]
        known = _known_epochs(surveys, inside)
        read = [list(_batches(number, found, inside[number], known)) for number, found in enumerate(surveys)]
        lineage = _Lineage(paths, _epoch_starts(read))
        chosen = [batch for batch in heapq.merge(*read) if lineage.takes(batch)]
        given = settings or LogSettings()

        def origin(key: str) -> Source:
            number, _, path = key.partition(":")
            return surveys[int(number)].source(path)

        tree = _virtual(chosen, surveys, inside, directory, given, origin)
        now_ms = time.time_ns() // 1_000_000 if at is None else at
        loaded = load_log_directory(tree, settings=lambda topic: given, now_ms=now_ms)
        if loaded.outcome != Outcome.LOADED:
            raise RecoveryRefused(f"a broker would not load the merged log: {loaded.exception}: {loaded.message}")
        _write(tree, directory, target, origin)
    return MergeResult(place, lineage.ranges, lineage.gaps, lineage.dropped)


def _virtual(
    chosen: Sequence[_Batch],
    surveys: Sequence[Survey],
    inside: Sequence[str],
    directory: str,
    settings: LogSettings,
    origin: Any,
) -> Tree:
    """The merged partition before a broker has loaded it: logs, empty indexes, the topic id of the first copy."""
    tree = Tree({}, [directory], origin)
    for base, content in _segments(chosen, settings.segment_bytes).items():
        tree.files[f"{directory}/{segment_file(base, FileKind.LOG)}"] = content
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            tree.write(f"{directory}/{segment_file(base, kind)}", b"")
    for number, found in enumerate(surveys):
        path = f"{inside[number]}/{PARTITION_METADATA}"
        if path in found.files:
            content = join([Slice(_key(number, path), 0, found.files[path].size)])
            tree.files[f"{directory}/{PARTITION_METADATA}"] = content
            break
    return tree


def _write(tree: Tree, directory: str, target: PathLike, origin: Any) -> None:
    """Write the merged partition, under a name that no broker reads until it is whole."""
    fs = FileSystem.create(os.path.realpath(target))
    try:
        unfinished = f".{directory}.kafkalog-tmp"
        fs.make_directory(unfinished, 0o755)
        for name in tree.names(directory):
            source = ContentSource(tree.files[f"{directory}/{name}"], origin)
            pieces = ((start, bytes(source.read(start, PIECE))) for start in range(0, source.size, PIECE))
            fs.write_new(f"{unfinished}/{name}", pieces, source.size, (0o644, os.geteuid(), os.getegid()))
        fs.sync_directory(unfinished)
        fs.rename(unfinished, directory)
        fs.sync_directory("")
    finally:
        fs.close()
