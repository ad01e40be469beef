"""Write a merged partition under a temporary name, load it as a broker would, and then give it its own name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.common.source import Source
from kafkalog.codec.files.text import (
    encode_leader_epochs,
    encode_offset_checkpoint,
    encode_partition_metadata,
)
from kafkalog.codec.headers.header_tables import HeaderTables
from kafkalog.codec.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    FileKind,
    segment_file,
)
from kafkalog.copies.merge_copies import MergeCopies, MergedLog
from kafkalog.copies.merge_segments import Piece
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.disk.files import status_of
from kafkalog.log.disk.one_file import OneFile
from kafkalog.log.storage.content import ContentSource, Slice
from kafkalog.log.storage.java import as_printed
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.act.fs import PIECE, FileSystem, own_file
from kafkalog.recovery.broker.manager import StartResult, load_log_directory

__all__ = ["write_partition"]


def write_partition(copies: MergeCopies, log: MergedLog, fs: FileSystem, settings: LogSettings, now_ms: int) -> None:
    """Write the merged log below the root of `fs` as `<topic>-<partition>`, which must not exist. It is written under a
    temporary name first; files of an interrupted earlier merge under that name are removed. `settings` are the topic's,
    `now_ms` is the time to treat as now; both are for the model of the broker that loads the log.

    Raises `RecoveryRefused` if a broker would not load the log or would change a byte of it, or if another merge is
    writing it. Raises `StorageError` if reading or writing fails. After an error, what this call wrote under the
    temporary name is removed.
    """
    directory = str(log.name)
    unfinished = f".{directory}.kafkalog-tmp"
    if fs.status(unfinished) is not None:
        with _claimed(fs, unfinished):  # what a merge left that was killed
            fs.remove_tree(unfinished)
    fs.make_directory(unfinished, 0o755)
    with _claimed(fs, unfinished):
        try:
            _write_logs(copies, log, fs, unfinished)
            _write_others(log, fs, unfinished, settings, now_ms)
            fs.sync_directory(unfinished)
            fs.rename(unfinished, directory)
        except BaseException:
            fs.remove_tree(unfinished)
            raise
    fs.sync_directory("")


@contextmanager
def _claimed(fs: FileSystem, unfinished: str) -> Iterator[None]:
    """Lock the directory `unfinished` within this context. Raises `RecoveryRefused` if another merge has locked it,
    `StorageError` if it cannot be locked.
    """
    with fs.locked_directory(unfinished) as is_ours:
        if not is_ours:
            raise RecoveryRefused(f"another merge is writing {fs.root}/{unfinished}: wait until it has ended")
        yield


def _write_logs(copies: MergeCopies, log: MergedLog, fs: FileSystem, unfinished: str) -> None:
    pieces = _Pieces(copies.pieces())
    for segment in log.segments:
        name = segment_file(segment.base_offset, FileKind.LOG)
        fs.write_new(f"{unfinished}/{name}", pieces.of(segment.base_offset), segment.size, own_file())
        if pieces.modified_ns:
            fs.set_mtime(f"{unfinished}/{name}", pieces.modified_ns)


class _Pieces:
    """Reader of the bytes of a merged log from the copies, one segment after another."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._next = next(pieces, None)
        self._files = OneFile()
        self.modified_ns = 0
        """modification time (ns) of the newest file that the last segment's bytes are from"""

    def of(self, base_offset: int) -> Iterator[tuple[int, bytes]]:
        """Yield (position in the segment, bytes) for the segment at `base_offset`; segments must be read in order.

        Yields nothing if the next piece belongs to another segment. Sets `self.modified_ns` to the newest modification
        time of this segment's files (ns, 0 without any). Closes the files at the end. Raises `StorageError` while
        iterating if a file cannot be read.
        """
        position = self.modified_ns = 0
        try:
            while self._next is not None and self._next.base_offset == base_offset:
                piece = self._next
                source = self._files(piece.path)
                status = status_of(piece.path)
                self.modified_ns = max(self.modified_ns, status.st_mtime_ns if status is not None else 0)
                for start in range(piece.start, piece.start + piece.size, PIECE):
                    data = bytes(source.read(start, min(PIECE, piece.start + piece.size - start)))
                    yield position, data
                    position += len(data)
                self._next = next(self._pieces, None)
        finally:
            self._files.close()


def _write_others(log: MergedLog, fs: FileSystem, unfinished: str, settings: LogSettings, now_ms: int) -> None:
    """Write indexes, snapshots, epochs and `partition.metadata` (if its content is known) as a broker makes them when
    it loads the merged log. The segments must already be in the directory `unfinished`. Raises `RecoveryRefused` if a
    broker would not load the log or would change it, `StorageError` if reading or writing fails.
    """
    directory = str(log.name)
    files = OneFile()

    def origin(path: str) -> Source:
        return files(os.path.join(fs.root, unfinished, path.rpartition("/")[2]))

    written = {
        f"{directory}/{segment_file(segment.base_offset, FileKind.LOG)}": segment.size for segment in log.segments
    }
    tree = Tree(written, [directory], origin, HeaderTables().of)
    for segment in log.segments:
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            tree.write(f"{directory}/{segment_file(segment.base_offset, kind)}", b"")
    tree.write(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", encode_leader_epochs(log.epochs))
    if log.metadata is not None:
        tree.write(f"{directory}/{PARTITION_METADATA}", encode_partition_metadata(log.metadata))
    if log.start_entry is not None:
        tree.write(LOG_START_OFFSET_CHECKPOINT, encode_offset_checkpoint([log.start_entry]))
    try:
        loaded = load_log_directory(tree, settings=lambda topic: settings, now_ms=now_ms)
        if loaded.outcome != StartResult.LOADED:
            words = as_printed(loaded.exception, loaded.message)
            raise RecoveryRefused(f"a broker would not load the merged log: {words}")
        _refuse_changed(tree, written)
        for name in tree.names(directory):
            path = f"{directory}/{name}"
            if path not in written:
                source = ContentSource(tree.files[path], origin)
                pieces = ((start, bytes(source.read(start, PIECE))) for start in range(0, source.size, PIECE))
                fs.write_new(f"{unfinished}/{name}", pieces, source.size, own_file())
    finally:
        files.close()


def _refuse_changed(tree: Tree, written: dict[str, int]) -> None:
    """Raise `RecoveryRefused` if a log in the tree differs from `written` (path -> size in bytes): the simulated start
    has truncated it.
    """
    for path, size in written.items():
        if path not in tree.files or tree.files[path].parts != ((Slice(path, 0, size),) if size else ()):
            raise RecoveryRefused(f"a broker would truncate the merged log at {path.rpartition('/')[2]}")
