"""Compare and change the files of one partition in a tree: logs, index entries, and segments after a cut."""

from __future__ import annotations

from collections.abc import Iterator, Set

from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.files.index_files import (
    ABORTED_TRANSACTION,
    ABORTED_TRANSACTION_VERSION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    each_slot,
)
from kafkalog.codec.names import INDEX_KINDS, FileKind, parse_segment_file, segment_file
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.storage.content import Content, join
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.soundness import Cut, SoundLog, end_of_last_sound

__all__ = [
    "can_go_on", "entries_of", "has_unknown_versions", "hiding", "holds_the_same", "last_start", "logs",
    "parse_base", "remove_segments", "reset_indexes", "sound_logs",
]  # fmt: skip


def holds_the_same(tree: Tree, other: Tree, directory: str) -> bool:
    """Whether a directory has the same files with equal contents in both trees. Logs are not read: equal bytes from
    different parts of original files count as different. Other files are compared by their bytes. Subdirectories, and
    names that a JVM cannot open, do not count. Raises `StorageError` if a file cannot be read.
    """
    names = tree.names(directory)
    if names != other.names(directory):
        return False
    for path in (f"{directory}/{name}" for name in names):
        if path.endswith(FileKind.LOG.value):
            if tree.files[path] != other.files[path]:
                return False
        elif not tree.is_same(path, other, path):
            return False
    return True


def logs(tree: Tree, directory: str) -> Content:
    """Contents of all logs of a partition, joined."""
    return join(part for _base, path in tree.logs(directory) for part in tree.files[path].parts)


def sound_logs(before: Tree, sound: SoundLog) -> Content:
    """The first `sound.sizes` bytes of each log in `before`, joined in the order of the logs; logs without a size are
    left out.
    """
    return join(part for path, size in sorted(sound.sizes.items()) for part in before.files[path].slice(0, size).parts)


def hiding(tree: Tree, directory: str) -> Iterator[Cut]:
    """Yield the batches that make the offset index hide earlier batches, as places to cut, in the order of the log.
    Such a batch ends below an earlier batch of its segment, and the index has an entry for it: a reader that seeks by
    the index skips the earlier batches. Checksums are not verified; each segment is read up to its first other damage.
    Segments with an empty or missing index are not read. Raises `StorageError` if a file cannot be read.
    """
    for base, path in tree.logs(directory):
        index = f"{directory}/{segment_file(base, FileKind.OFFSET_INDEX)}"
        indexed = {position for _relative, position in entries_of(tree, index, OFFSET_ENTRY)}
        highest = -1
        for batch in Scanner(tree.source(path), check_crc=False) if indexed else ():
            if batch.last_offset < highest and batch.position in indexed:
                detail = f"offset {batch.last_offset} after {highest}, to which a Kafka index would lead"
                yield Cut(path=path, position=batch.position, code=FindingCode.OFFSET_NOT_INCREASING, detail=detail)
            highest = max(highest, batch.last_offset)


def entries_of(tree: Tree, path: str, layout: FixedLayout) -> Iterator[tuple[int, ...]]:
    """Yield the fields of each entry of an index file, in file order; nothing if the file is missing. Of the entries in
    a hole of the file, which are all zeros, only the first is yielded.
    """
    if path in tree.files:
        for _number, fields in each_slot(tree.source(path), layout, pass_holes=True):
            yield fields


def has_unknown_versions(tree: Tree, directory: str) -> bool:
    """Whether a transaction index of the directory has an entry whose version is unknown.

    Kafka up to 4.3 considers only the first byte of the version, and so starts with some unknown versions; 4.4 starts
    with none. Raises `StorageError` if an index cannot be read.
    """
    listed = (name for name in tree.names(directory) if name.endswith(FileKind.TRANSACTION_INDEX.value))
    return any(
        fields[0] != ABORTED_TRANSACTION_VERSION
        for name in listed
        if parse_segment_file(name) is not None
        for fields in entries_of(tree, f"{directory}/{name}", ABORTED_TRANSACTION)
    )


def can_go_on(tree: Tree, directory: str, end_offset: int) -> bool:
    """Whether all entries of the active segment's offset index and time index have offsets below `end_offset`, the log
    end offset; a missing index counts as empty. If not, every append that adds an index entry fails. The partition must
    have a log. Raises `StorageError` if an index cannot be read.
    """
    base, _path = tree.logs(directory)[-1]
    for kind, layout in ((FileKind.OFFSET_INDEX, OFFSET_ENTRY), (FileKind.TIME_INDEX, TIME_ENTRY)):
        path = f"{directory}/{segment_file(base, kind)}"
        relative = 0 if kind is FileKind.OFFSET_INDEX else 1
        if any(base + entry[relative] >= end_offset for entry in entries_of(tree, path, layout)):
            return False
    return True


def parse_base(path: str) -> int:
    """Return the base offset in the name of a segment's file. Raises `AssertionError` for other names."""
    parsed = parse_segment_file(path.rpartition("/")[2])
    if parsed is None:
        raise AssertionError(path)
    return parsed.base_offset


def remove_segments(tree: Tree, directory: str, bases: Set[int]) -> None:
    """Remove the files of the segments with these base offsets from the tree, producer snapshots included. Files with a
    pending suffix, such as `.swap`, stay.
    """
    for name in tree.names(directory) if bases else ():
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.base_offset in bases and not parsed.pending:
            tree.delete(f"{directory}/{name}")


def reset_indexes(tree: Tree, directory: str, bases: Set[int]) -> None:
    """Empty the offset, time and transaction indexes of the segments with these base offsets in the tree. A broker then
    rebuilds them when it recovers the segment, and not while opening it. Missing offset and time indexes are created
    empty; missing transaction indexes are not. Files with a pending suffix, such as `.swap`, stay.
    """
    for base in sorted(bases):
        for kind in INDEX_KINDS:
            path = f"{directory}/{segment_file(base, kind)}"
            if kind is not FileKind.TRANSACTION_INDEX or path in tree.files:
                tree.write(path, b"")


def last_start(tree: Tree, directory: str, log_start: int) -> int:
    """Return a log start offset with which a broker keeps the end of the log: the highest offset of the sound batches
    there (`end_of_last_sound`), or the first segment's base offset if it is higher. If no segment begins with a sound
    batch, return the last segment's base offset; if there is no segment, `log_start`. Raises `StorageError` if a log
    cannot be read.

    The log end offset would be possible too, but leader epochs would then appear and disappear with every start.
    """
    segments = tree.logs(directory)
    if not segments:
        return log_start
    end = end_of_last_sound(tree, directory)
    return segments[-1][0] if end is None else max(end - 1, segments[0][0])
