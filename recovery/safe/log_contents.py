"""What a tree holds of one partition: logs beside each other, index entries, and what goes where a log is cut."""

from __future__ import annotations

from collections.abc import Iterator, Set

from kafkalog.codec.derive import FixedLayout
from kafkalog.codec.findings import FindingCode
from kafkalog.codec.index_files import (
    ABORTED_TRANSACTION,
    ABORTED_TRANSACTION_VERSION,
    OFFSET_ENTRY,
    TIME_ENTRY,
    each_slot,
)
from kafkalog.codec.names import FileKind, parse_segment_file, segment_file
from kafkalog.codec.scanner import Scanner
from kafkalog.log.storage.content import Content, join
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.damage.soundness import Cut, SoundLog, end_of_last_sound

__all__ = [
    "can_go_on", "entries_of", "has_unknown_versions", "hiding", "holds_the_same", "last_start", "logs",
    "parse_base", "remove_segments", "reset_indexes", "sound_logs",
]  # fmt: skip


def holds_the_same(tree: Tree, other: Tree, directory: str) -> bool:
    """A directory holds the same in both trees: logs by what they are made of, other files by their bytes."""
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
    """All logs of a partition after each other."""
    return join(part for _base, path in tree.logs(directory) for part in tree.files[path].parts)


def sound_logs(before: Tree, sound: SoundLog) -> Content:
    """What is sound of them."""
    return join(part for path, size in sorted(sound.sizes.items()) for part in before.files[path].slice(0, size).parts)


def hiding(tree: Tree, directory: str) -> Iterator[Cut]:
    """Batches with an index entry that lie below offsets before them: who asks for those is led past them."""
    for base, path in tree.logs(directory):
        index = f"{directory}/{segment_file(base, FileKind.OFFSET_INDEX)}"
        indexed = {position for _relative, position in entries_of(tree, index, OFFSET_ENTRY)}
        highest = -1
        for batch in Scanner(tree.source(path), check_crc=False) if indexed else ():
            if batch.last_offset < highest and batch.position in indexed:
                detail = f"offset {batch.last_offset} after {highest}, to which a Kafka index would lead"
                yield Cut(path, batch.position, FindingCode.OFFSET_NOT_INCREASING, detail)
            highest = max(highest, batch.last_offset)


def entries_of(tree: Tree, path: str, layout: FixedLayout) -> Iterator[tuple[int, ...]]:
    """The slots of an index, if it is there; of those in a hole, which are all zeros, only the first."""
    if path in tree.files:
        for _number, fields in each_slot(tree.source(path), layout, pass_holes=True):
            yield fields


def has_unknown_versions(tree: Tree, directory: str) -> bool:
    """Whether an aborted transaction is listed in a version that does not exist.

    Up to 4.3 Kafka looks at the first byte of the version, and starts on some of them; 4.4 starts on none.
    """
    listed = (name for name in tree.names(directory) if name.endswith(FileKind.TRANSACTION_INDEX.value))
    return any(
        fields[0] != ABORTED_TRANSACTION_VERSION
        for name in listed
        if parse_segment_file(name) is not None
        for fields in entries_of(tree, f"{directory}/{name}", ABORTED_TRANSACTION)
    )


def can_go_on(tree: Tree, directory: str, end_offset: int) -> bool:
    """The active segment's indexes hold nothing from the log's end on: else no append that is indexed succeeds."""
    base, _path = tree.logs(directory)[-1]
    for kind, layout in ((FileKind.OFFSET_INDEX, OFFSET_ENTRY), (FileKind.TIME_INDEX, TIME_ENTRY)):
        path = f"{directory}/{segment_file(base, kind)}"
        relative = 0 if kind is FileKind.OFFSET_INDEX else 1
        if any(base + entry[relative] >= end_offset for entry in entries_of(tree, path, layout)):
            return False
    return True


def parse_base(path: str) -> int:
    """Base offset from a log's path."""
    parsed = parse_segment_file(path.rpartition("/")[2])
    if parsed is None:
        raise AssertionError(path)
    return parsed.base_offset


def remove_segments(tree: Tree, directory: str, bases: Set[int]) -> None:
    """Remove the files of segments, their snapshots too."""
    for name in tree.names(directory) if bases else ():
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.base_offset in bases and not parsed.pending:
            tree.delete(f"{directory}/{name}")


def reset_indexes(tree: Tree, directory: str, bases: Set[int]) -> None:
    """Empty the indexes of segments: the broker then rebuilds them when their turn comes, and not while opening."""
    for name in tree.names(directory) if bases else ():
        parsed = parse_segment_file(name)
        if parsed is not None and parsed.base_offset in bases and parsed.kind is FileKind.TRANSACTION_INDEX:
            tree.write(f"{directory}/{name}", b"")
    for base in sorted(bases):
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            tree.write(f"{directory}/{segment_file(base, kind)}", b"")


def last_start(tree: Tree, directory: str, log_start: int) -> int:
    """The largest log start offset with which a broker keeps the log: the offset of its last record.

    One at the log's end would do too, but makes the leader epochs come and go with every start.
    """
    segments = tree.logs(directory)
    if not segments:
        return log_start
    end = end_of_last_sound(tree, directory)
    return segments[-1][0] if end is None else max(end - 1, segments[0][0])
