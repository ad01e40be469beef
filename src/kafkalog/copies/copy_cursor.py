"""Walk one copy of a log batch by batch, so that several copies can be walked in parallel."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kafkalog.copies.stretches import Row, Stretch

__all__ = ["BatchPlace", "Cursor"]


class BatchPlace(Struct, frozen=True):
    """Place of a batch."""

    offset: int
    path: str
    position: int
    """in bytes"""


class Cursor:
    """Cursor on the next batch of a copy: batch `number` in `stretch`, a sequence of sound batches of one file.
    `stretch` is None at the end. Batches that end below the offset `start` are skipped at the beginning.
    """

    def __init__(self, stretches: Iterable[Stretch], start: int) -> None:
        self._stretches = iter(stretches)
        self._start = start
        self.stretch: Stretch | None = None
        self.number = 0
        self.next_stretch()

    def next_stretch(self) -> None:
        """Move to the first batch of the next stretch that does not end below `start`. At the end of the copy,
        `stretch` becomes None. Raises `StorageError` if the copy cannot be read.
        """
        for stretch in self._stretches:
            number = stretch.ending_below(self._start)
            if number < len(stretch):
                self.stretch, self.number = stretch, number
                return
        self.stretch = None

    @property
    def here(self) -> Stretch:
        """The stretch with the next batch. Raises `AssertionError` at the end of the copy."""
        if self.stretch is None:
            raise AssertionError(self.number)
        return self.stretch

    def row(self) -> Row:
        """Key of the next batch (`Row`): offsets, size, checksum, epoch."""
        return self.here.row(self.number)

    def place(self) -> BatchPlace:
        """Place of the next batch: first offset, file, and position."""
        return BatchPlace(self.row().first, self.here.path, self.here.position(self.number))

    def is_behind_damage(self) -> bool:
        """Whether the next batch is the first sound one after damage."""
        return self.number == 0 and self.here.behind_damage

    def advance(self, count: int) -> None:
        """Skip `count` batches of the stretch. Raises `StorageError` if the copy can no longer be read."""
        self.number += count
        if self.number >= len(self.here):
            self.next_stretch()
