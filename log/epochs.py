"""Leader epochs of a log that is written: when each began, in `leader-epoch-checkpoint` (`LeaderEpochFileCache`)."""

from __future__ import annotations

import os

from kafkalog.codec.errors import UsageError
from kafkalog.codec.names import LEADER_EPOCH_CHECKPOINT
from kafkalog.codec.text import LeaderEpoch, encode_leader_epochs
from kafkalog.log import fs

__all__ = ["LeaderEpochs"]


class LeaderEpochs:
    """Epochs with their first offsets, both strictly increasing; every change is written before it is relied upon."""

    def __init__(self, directory: str, entries: tuple[LeaderEpoch, ...]) -> None:
        self._path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
        self.entries: list[LeaderEpoch] = []
        for entry in entries:
            self._assign(entry)

    @property
    def latest(self) -> int | None:
        """The epoch that goes on."""
        return self.entries[-1].epoch if self.entries else None

    def _assign(self, entry: LeaderEpoch) -> bool:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise UsageError(f"leader epoch {entry.epoch} from offset {entry.start_offset}")
        last = self.entries[-1] if self.entries else None
        if last is not None and entry.epoch == last.epoch and entry.start_offset >= last.start_offset:
            return False
        while self.entries and not (
            self.entries[-1].epoch < entry.epoch and self.entries[-1].start_offset < entry.start_offset
        ):
            self.entries.pop()
        self.entries.append(entry)
        return True

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of `epoch` begins at `start_offset`."""
        if self._assign(LeaderEpoch(epoch, start_offset)):
            self._write()

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that begin at or behind the log's end."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        self._keep(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that begin at or before the log's start, but for the last of them, which then begins there."""
        below = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if below:
            self._keep([LeaderEpoch(below[-1].epoch, start_offset), *self.entries[len(below) :]])

    def clear(self) -> None:
        """Forget all epochs."""
        self._keep([])

    def _keep(self, entries: list[LeaderEpoch]) -> None:
        if entries != self.entries:
            self.entries = entries
            self._write()

    def create(self) -> None:
        """Make the file, empty as a broker's first one."""
        fs.write_new(self._path, b"")

    def _write(self) -> None:
        fs.replace(self._path, encode_leader_epochs(self.entries))
