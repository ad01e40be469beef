"""Find `.deleted` segments with records at or beyond the end of their log. Only a truncation leaves such segments:
retention deletes from the start of a log, and compaction never touches the active segment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.source import Source
from kafkalog.codec.common.wording import counted
from kafkalog.codec.model import NO_END, BatchHeader, Codec, RecordBatch
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DELETED, DirectoryState, FileKind, parse_segment_file
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.directories.deleted import deleted_segments
from kafkalog.log.directories.partition import Partition
from kafkalog.log.disk.files import FileSource
from kafkalog.log.storage.tree import Tree

__all__ = ["DeletedBeyondEnd", "beyond_end_in", "beyond_end_of", "log_end_in", "logs_with_suffix", "records_in"]


class DeletedBeyondEnd(Struct, frozen=True, kw_only=True):
    """The `.deleted` segments of one live partition that have records at or beyond the end of its log. A start of a
    broker removes them.
    """

    directory: str
    """name of the partition directory"""
    end: int
    """log end offset of the live log"""
    paths: tuple[str, ...]
    """paths of the `.deleted` logs, sorted by base offset"""
    first_offset: int
    """first offset at or beyond the end"""
    last_offset: int
    """last offset in them"""
    records: int
    """number of sound records with these offsets, up to the first damage of each segment"""

    @property
    def offsets_text(self) -> str:
        """The offsets as text, such as `offsets 5501 to 11999`."""
        return f"offsets {self.first_offset} to {self.last_offset}"

    def finding(self) -> Finding:
        """Return the DELETED_BEYOND_END finding, with the first of the paths."""
        holds = f"{counted(len(self.paths), 'deleted segment')} {'holds' if len(self.paths) == 1 else 'hold'}"
        detail = (
            f"{holds} {counted(self.records, 'record')} with {self.offsets_text}, and the log ends at {self.end}: a "
            "truncation removed them, and a start removes the files"
        )
        return Finding.of(FindingCode.DELETED_BEYOND_END, None, self.first_offset, detail, self.paths[0])


def beyond_end_of(partition: Partition, end: int) -> Iterator[Finding]:
    """Yield a DELETED_BEYOND_END finding if `.deleted` segments of a live partition have records at or beyond `end`,
    its log end offset. Records count as in `beyond_end_in`. Yields nothing for the metadata log and for a partition
    without a live segment. Raises `StorageError` while iterating if a segment cannot be read.
    """
    name, segments = partition.name, partition.segments
    if name is None or partition.state is not DirectoryState.LIVE or name.topic == CLUSTER_METADATA_TOPIC:
        return
    deleted = [(segment.base_offset, segment.path) for segment in deleted_segments(partition)] if segments else []
    if deleted:
        directory = os.path.basename(partition.path)
        found = _beyond(directory, deleted, segments[-1].base_offset, end, FileSource)
        if found is not None:
            yield found.finding()


def beyond_end_in(tree: Tree, directory: str, planned_end: int = 0) -> DeletedBeyondEnd | None:
    """Return the `.deleted` segments in a live partition directory of `tree` that have records beyond its log: at or
    above its end, and at or above `planned_end`, the end that a plan leaves. Return None if there are none, or no live
    segment. Only batches count that begin there, and that no damage precedes. Raises `StorageError` if a segment cannot
    be read.
    """
    deleted, live = logs_with_suffix(tree, directory, DELETED), logs_with_suffix(tree, directory, "")
    if not deleted or not live:
        return None
    end = max(log_end_in(tree, directory) or 0, planned_end)
    return _beyond(directory, deleted, live[-1][0], end, lambda path: nullcontext(tree.source(path)))


def log_end_in(tree: Tree, directory: str) -> int | None:
    """Return the offset after the highest one in the last live segment of a partition directory of `tree`, up to the
    first damage; checksums are not verified. It is the segment's base offset if no batch is there, and None without a
    live segment. Raises `StorageError` if the segment cannot be read.
    """
    live = logs_with_suffix(tree, directory, "")
    if not live:
        return None
    base, path = live[-1]
    batches = Scanner(tree.source(path), check_crc=False)
    return max((batch.last_offset + 1 for batch in batches), default=base)


def logs_with_suffix(tree: Tree, directory: str, suffix: str) -> list[tuple[int, str]]:
    """Return base offset and path of the logs in a directory that have `suffix` after `.log` (empty: no suffix), sorted
    by base offset.
    """
    logs = []
    for name in tree.names(directory):
        parsed = parse_segment_file(name) if name.endswith(FileKind.LOG.value + suffix) else None
        if parsed is not None and parsed.kind is FileKind.LOG and parsed.pending == suffix:
            logs.append((parsed.base_offset, f"{directory}/{name}"))
    return sorted(logs)


def records_in(batch: RecordBatch) -> int:
    """Return the number of records in a batch; 0 for a control batch. For magic 2 the count is from the header, 0 if it
    is negative. A message of magic 0 or 1 counts as 1; a compressed one is decoded, up to its first fault.
    """
    header = batch.header
    if isinstance(header, BatchHeader):
        return 0 if header.is_control else max(header.records_count, 0)
    if header.codec == Codec.NONE:
        return 1
    return len(decode_batch(batch).records)


def _beyond(
    directory: str,
    deleted: Sequence[tuple[int, str]],
    last_base: int,
    end: int,
    source_of: Callable[[str], AbstractContextManager[Source]],
) -> DeletedBeyondEnd | None:
    """Return what `beyond_end_in` returns. `deleted` are base offsets and paths of the `.deleted` logs, sorted;
    `last_base` is the base offset of the last live segment. A `.deleted` log is not read if the next one begins at or
    below it. Raises `StorageError` if a log cannot be read.
    """
    end = max(last_base, end)
    paths, records, offsets = [], 0, []
    for (_base, path), following in zip(deleted, [*(base for base, _path in deleted[1:]), NO_END], strict=True):
        if following <= last_base:
            continue
        before = records
        with source_of(path) as source:
            for batch in Scanner(source):
                if batch.header.first_offset >= end and (count := records_in(batch)):
                    records += count
                    offsets += [batch.header.first_offset, batch.last_offset]
        if records > before:
            paths.append(path)
    if not paths:
        return None
    return DeletedBeyondEnd(
        directory=directory, end=end, paths=tuple(paths), records=records,
        first_offset=min(offsets), last_offset=max(offsets),
    )  # fmt: skip
