"""Leader epochs and the text checkpoints of the broker (`LeaderEpochFileCache`, `CheckpointFile`).

Reading is as forgiving, and as unforgiving, as the broker's: an I/O kind of error takes the directory offline, a number
that is none ends the start.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT, TEMPORARY
from kafkalog.codec.text import LeaderEpoch, encode_leader_epochs
from kafkalog.recovery.broker.java import (
    IllegalArgumentError,
    JavaIOError,
    KafkaStorageError,
    NumberFormatError,
    parse_int,
    parse_long,
    split_on,
)
from kafkalog.recovery.broker.tree import Tree

__all__ = ["LeaderEpochCache", "java_lines", "read_checkpoint", "read_offset_checkpoint"]

_SPACES = re.compile(r"[ \t\n\x0b\f\r]+")
_NEWLINE = re.compile(r"\r\n|\r|\n")

Row = TypeVar("Row")


def java_lines(data: bytes) -> list[str]:
    """`BufferedReader.readLine` over UTF-8; bytes that are not UTF-8 are an I/O error."""
    try:
        lines = _NEWLINE.split(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise JavaIOError("Input length = 1") from None
    if lines[-1] == "":
        lines.pop()
    return lines


def _header_number(line: str) -> int:
    try:
        return parse_int(line)
    except NumberFormatError:
        raise JavaIOError(f"Malformed line in checkpoint file: {line[:60]}") from None


def read_checkpoint(data: bytes, parse: Callable[[list[str]], Row], width: int) -> list[Row]:
    """`CheckpointReadBuffer.read`: version, count, lines of `width` words."""
    lines = java_lines(data)
    if not lines:
        return []
    version = _header_number(lines[0])
    if version != 0:
        raise JavaIOError(f"Unrecognised version:{version}, expected version: 0")
    if len(lines) == 1:
        return []
    expected = _header_number(lines[1])
    if expected < 0:
        raise IllegalArgumentError(f"Illegal Capacity: {expected}")
    rows: list[Row] = []
    for line in lines[2:]:
        words = split_on(_SPACES, line)
        if len(words) != width:
            raise JavaIOError(f"Malformed line in checkpoint file: {line[:60]}")
        rows.append(parse(words))
    if len(rows) != expected:
        raise JavaIOError(f"Expected [{expected}] entries in checkpoint file, but found only [{len(rows)}]")
    return rows


def read_offset_checkpoint(data: bytes) -> dict[tuple[str, int], int]:
    """`OffsetCheckpointFile.read`: offsets by topic and partition; the last line of a partition counts."""
    rows = read_checkpoint(data, lambda words: (words[0], parse_int(words[1]), parse_long(words[2])), 3)
    return {(topic, partition): offset for topic, partition, offset in rows}


class LeaderEpochCache:
    """Epochs with their start offsets, written through to the file.

    What is assigned is written no later than anybody can ask for it: with the next change of another kind, or flush.
    """

    def __init__(self, tree: Tree, directory: str) -> None:
        self._tree = tree
        self._directory = directory
        self.epochs: dict[int, LeaderEpoch] = {}
        """in the order of epochs, in which their start offsets increase too"""
        self._pending = self._assigned = False
        path = self._path
        if path in tree.directories or path in tree.links:
            raise KafkaStorageError(f"Error while reading checkpoint file {path}")
        if path not in tree.files:
            tree.write(path, b"")
        try:
            rows = read_checkpoint(
                tree.read(path), lambda words: LeaderEpoch(parse_int(words[0]), parse_long(words[1])), 2
            )
        except JavaIOError as error:
            raise KafkaStorageError(f"Error while reading checkpoint file {path}: {error}") from error
        for row in rows:
            self._assign(row)

    @property
    def _path(self) -> str:
        return f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"

    @property
    def latest_epoch(self) -> int | None:
        """The highest epoch."""
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
        """A batch of a new epoch was seen."""
        if self._assign(LeaderEpoch(epoch, start_offset)):
            self._assigned = True
            if self._path + TEMPORARY in self._tree.directories:  # fails at once, and not when it is written
                self._write()

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that begin at or behind the log's end; written with the next flush."""
        self._write_assigned()
        latest = self.latest_epoch
        if end_offset < 0 or latest is None or self.epochs[latest].start_offset < end_offset:
            return
        while latest is not None and self.epochs[latest].start_offset >= end_offset:
            del self.epochs[latest]
            latest = self.latest_epoch
        self._pending = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that begin at or before the log's start, but for the last, which then begins there."""
        self._write_assigned()
        entries = list(self.epochs.values())
        number = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if number:
            kept = [LeaderEpoch(entries[number - 1].epoch, start_offset), *entries[number:]]
            self.epochs = {entry.epoch: entry for entry in kept}
            self._pending = True

    def clear(self) -> None:
        """Forget all epochs; written at once."""
        self.epochs.clear()
        self._write()

    def flush(self) -> None:
        """Write what is new and what truncation changed; a directory in the way of the latter is put up with.

        Source: `CheckpointFile.writeIfDirExists`.
        """
        self._write_assigned()
        if self._pending and self._path + TEMPORARY not in self._tree.directories:
            self._write()

    def _write_assigned(self) -> None:
        if self._assigned:
            self._write()

    def _write(self) -> None:
        """Written beside and renamed: what an earlier write left there is gone then."""
        self._pending = self._assigned = False
        temporary = self._path + TEMPORARY
        if temporary in self._tree.directories:
            raise KafkaStorageError(f"Error while writing to checkpoint file {self._path}: {temporary} is a directory")
        self._tree.write(self._path, encode_leader_epochs(self.epochs.values()))
        if temporary in self._tree.links:  # the link is what is renamed
            self._tree.write(temporary, b"")
        else:
            self._tree.delete(temporary)
