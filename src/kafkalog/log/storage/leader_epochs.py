"""Leader epochs of a log with their start offsets, in `leader-epoch-checkpoint` (`LeaderEpochFileCache`). A broker
writes a newly assigned epoch at once, and a truncation with its next flush. With `at_once` every change is written
immediately.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kafkalog.codec.files.text import LeaderEpoch, encode_leader_epochs
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT, TEMPORARY
from kafkalog.log.storage.checkpoint_file import by_content, read_checkpoint
from kafkalog.log.storage.disk import Disk
from kafkalog.log.storage.java import IllegalArgumentError, JavaIOError, KafkaStorageError, parse_int, parse_long

__all__ = ["LeaderEpochCheckpointFile", "LeaderEpochFileCache", "doubtful_epochs"]

_SMALL_BYTES = 1024
"""Largest file whose parsed entries are cached."""


class LeaderEpochCheckpointFile:
    """The checkpoint file of one partition directory. Methods raise `StorageError` if a real disk fails."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"

    def read(self) -> list[LeaderEpoch]:
        """Return the entries in file order. An empty file is created if it does not exist. Results for small files are
        cached by content.

        Raises `KafkaStorageError` for a malformed file. Raises `NumberFormatError` for an epoch or offset that is not a
        number. Raises `IllegalArgumentError` for a negative number of entries. Raises `TooLargeError` on a virtual disk
        for a file that exceeds a broker's memory. If the file cannot be created or read, raises `StorageError` on a
        real disk, `KafkaStorageError` on a virtual one.
        """
        try:
            if not self._disk.is_file(self.path):
                self._disk.create(self.path)
            data = self._disk.read(self.path)
            return list(_parsed_before(self.path, data)) if len(data) <= _SMALL_BYTES else _parse(self.path, data)
        except JavaIOError as error:
            message = f"Error while reading checkpoint file {self.path}: {error}"
            raise KafkaStorageError(message, file=self.path) from error

    @property
    def is_blocked(self) -> bool:
        """Whether the file cannot be written because a directory has the name of its temporary file."""
        return self._disk.is_directory(self.path + TEMPORARY)

    def write(self, entries: Iterable[LeaderEpoch]) -> None:
        """Replace the content of the file by these entries, through a temporary file. Raises `KafkaStorageError` if a
        directory has the name of the temporary file.
        """
        if self.is_blocked:
            raise KafkaStorageError(
                f"Error while writing to checkpoint file {self.path}: {self.path}{TEMPORARY} is a directory"
            )
        self._disk.replace(self.path, encode_leader_epochs(entries))


def _parse(path: str, data: bytes) -> list[LeaderEpoch]:
    return read_checkpoint(path, data, lambda words: LeaderEpoch(parse_int(words[0]), parse_long(words[1])), 2)


@by_content(maxsize=64)
def _parsed_before(path: str, data: bytes) -> tuple[LeaderEpoch, ...]:
    """Parse with a cache: every start of a broker, and every forecast of one, reads the file again."""
    return tuple(_parse(path, data))


def doubtful_epochs(entries: Sequence[LeaderEpoch], known_epoch: int | None) -> dict[LeaderEpoch, str]:
    """Return the entries of a checkpoint that do not prove where its log ended, last entry first, each with the reason:
    a clause to follow the entry. There are two reasons. A later line contradicts the entry, so that a broker drops it.
    Or its epoch is above `known_epoch`, the partition's leader epoch in the metadata: a controller records an epoch
    before a broker leads in it. If `known_epoch` is None, only the first reason counts.
    """
    doubtful: dict[LeaderEpoch, str] = {}
    epoch, start = math.inf, math.inf  # the least of the later lines
    for entry in reversed(entries):
        is_dropped = entry.epoch > epoch or entry.start_offset >= start
        epoch, start = min(epoch, entry.epoch), min(start, entry.start_offset)
        if is_dropped:
            doubtful[entry] = "which a later line contradicts: the file is wrong"
        elif known_epoch is not None and entry.epoch > known_epoch:
            doubtful[entry] = (
                f"which the metadata does not know (leader epoch {known_epoch}): the file is wrong, or the metadata is "
                "older than the log"
            )
    return doubtful


class LeaderEpochFileCache:
    """Leader epochs with their start offsets, in memory; both increase strictly. `entries` are the content of the file
    if the caller has read it; None: it is read here. With `at_once` each change is written immediately. Otherwise an
    assigned epoch is written before the next truncation or by `flush`, and a truncation with the next write. Methods
    that write the file raise `KafkaStorageError` if a directory has the name of its temporary file, and `StorageError`
    if a real disk fails.
    """

    def __init__(
        self,
        checkpoint: LeaderEpochCheckpointFile,
        entries: Iterable[LeaderEpoch] | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        self._checkpoint = checkpoint
        self._at_once = at_once
        self.epochs: dict[int, LeaderEpoch] = {}
        """by epoch, in the order of epochs; start offsets increase too"""
        self._pending = self._assigned = False
        for entry in checkpoint.read() if entries is None else entries:
            self._assign(entry)

    @property
    def latest_epoch(self) -> int | None:
        """Highest epoch; None if there is none."""
        return next(reversed(self.epochs), None)

    def _assign(self, entry: LeaderEpoch) -> bool:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise IllegalArgumentError(f"Received invalid partition leader epoch entry {entry}")
        latest = self.latest_epoch
        if latest is not None and entry.epoch == latest and entry.start_offset >= self.epochs[latest].start_offset:
            return False
        while self.epochs:
            old = self.epochs[next(reversed(self.epochs))]
            if old.epoch < entry.epoch and old.start_offset < entry.start_offset:
                break
            del self.epochs[old.epoch]
        self.epochs[entry.epoch] = entry
        return True

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that the batches of `epoch` begin at `start_offset`. Other epochs that contradict this are dropped:
        those not below `epoch`, and those that begin at or after `start_offset`. Nothing changes if the latest epoch is
        the same and begins at or before that offset. Raises `IllegalArgumentError` for a negative number. If a
        directory has the name of the temporary file, raises `KafkaStorageError` even without `at_once`.
        """
        if self._assign(LeaderEpoch(epoch, start_offset)):
            self._assigned = True
            if self._at_once or self._checkpoint.is_blocked:  # if blocked, fail now, not at the next write
                self._write()

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after `end_offset`. A negative `end_offset` drops none. Pending assigned
        epochs are always written first. The result is written at once only with `at_once`.
        """
        self._write_assigned()
        latest = self.latest_epoch
        if end_offset < 0 or latest is None or self.epochs[latest].start_offset < end_offset:
            return
        while latest is not None and self.epochs[latest].start_offset >= end_offset:
            del self.epochs[latest]
            latest = self.latest_epoch
        self._truncated()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that begin at or before `start_offset`, except the latest of them, which now begins at
        `start_offset`. Pending assigned epochs are always written first. The result is written at once only with
        `at_once`.
        """
        self._write_assigned()
        entries = list(self.epochs.values())
        number = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if number:
            kept = [LeaderEpoch(entries[number - 1].epoch, start_offset), *entries[number:]]
            if kept != entries or not self._at_once:
                self.epochs = {entry.epoch: entry for entry in kept}
                self._truncated()

    def _truncated(self) -> None:
        self._pending = True
        if self._at_once:
            self._write()

    def clear(self) -> None:
        """Drop all epochs and write the empty file at once. With `at_once`, an empty cache is not written again."""
        if self.epochs or not self._at_once:
            self.epochs.clear()
            self._write()

    def flush(self) -> None:
        """Write pending changes. If only truncations are pending, `KafkaStorageError` is not raised
        (`CheckpointFile.writeIfDirExists`).
        """
        self._write_assigned()
        if self._pending:
            with contextlib.suppress(KafkaStorageError):
                self._write()

    def _write_assigned(self) -> None:
        if self._assigned:
            self._write()

    def _write(self) -> None:
        self._pending = self._assigned = False
        self._checkpoint.write(self.epochs.values())
