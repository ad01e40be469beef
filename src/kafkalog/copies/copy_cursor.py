"""How far one copy of a log has been walked, batch by batch, by those who walk several copies side by side."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kafkalog.copies.stretches import Row, Stretch

__all__ = ["BatchPlace", "Cursor"]


class BatchPlace(Struct, frozen=True):
    """Where a batch is."""

    offset: int
    path: str
    position: int
    """bytes"""


class Cursor:
    """The batch that comes next: number `number` of `stretch`, which is None at the end.

    What ends below the offset `start` is passed over at the beginning.
    """

    def __init__(self, stretches: Iterable[Stretch], start: int) -> None:
        self._stretches = iter(stretches)
        self._start = start
        self.stretch: Stretch | None = None
        self.number = 0
        self.next_stretch()

    def next_stretch(self) -> None:
        """Go to the next stretch with a batch that does not end below the start."""
        for stretch in self._stretches:
            number = stretch.ending_below(self._start)
            if number < len(stretch):
                self.stretch, self.number = stretch, number
                return
        self.stretch = None

    @property
    def here(self) -> Stretch:
        """The stretch; there is one."""
        if self.stretch is None:
            raise AssertionError(self.number)
        return self.stretch

    def row(self) -> Row:
        """The batch."""
        return self.here.row(self.number)

    def place(self) -> BatchPlace:
        """Where it is."""
        return BatchPlace(self.row().first, self.here.path, self.here.position(self.number))

    def is_behind_damage(self) -> bool:
        """Whether it is the first after damage."""
        return self.number == 0 and self.here.behind_damage

    def advance(self, count: int) -> None:
        """Pass some batches of the stretch."""
        self.number += count
        if self.number >= len(self.here):
            self.next_stretch()
