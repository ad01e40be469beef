"""Compare two directories of one topic-partition in the log directories of one broker, one of which holds more or is
the only one of the topic that the metadata names.

No broker starts on them (`LogManager`), and a recovery keeps the log under the usual name. Only a person can decide to
keep the other one instead.
"""

from __future__ import annotations

import os

from msgspec import Struct

from kafkalog.codec.common.wording import counted

__all__ = ["BetterCopy", "Holding"]


class Holding(Struct, frozen=True, kw_only=True):
    """The part of one partition directory that a recovery of this directory alone would keep."""

    path: str
    end: int
    """log end offset"""
    records: int | None
    """number of records that can be kept; None if unknown"""
    is_of_other_topic: bool = False
    """its topic id is not the one that the metadata has for this name; so it is after a deletion and a new creation"""

    is_assigned: bool = False
    """whether the metadata assigns the partition to this log directory"""

    @property
    def rank(self) -> tuple[bool, int, int, bool]:
        """Sort key: a copy of another topic of this name is least, then the higher log end offset is greater, then the
        larger number of records, then the copy in the log directory that the metadata names.
        """
        return *self.held, self.is_assigned

    @property
    def held(self) -> tuple[bool, int, int]:
        """Sort key without the place."""
        return not self.is_of_other_topic, self.end, self.records or 0

    @property
    def text(self) -> str:
        """Number of records, if known, and log end offset, as text, and whether the topic is another one."""
        held = "" if self.records is None else f"{counted(self.records, 'record')}, "
        return f"{held}end {self.end}{', by topic id of another topic of this name' if self.is_of_other_topic else ''}"


class BetterCopy(Struct, frozen=True):
    """The directory that holds most of a topic-partition, or as much as the others, and its other directories, which
    must be moved away to keep it.
    """

    name: str
    """the topic-partition, which is also the usual name of its directory"""
    best: Holding
    others: tuple[Holding, ...]

    @property
    def directory(self) -> str:
        """Path that the best directory gets when the others are moved out."""
        return os.path.join(os.path.dirname(self.best.path), self.name)

    @property
    def is_in_one_directory(self) -> bool:
        """Whether all are in one log directory."""
        return {os.path.dirname(other.path) for other in self.others} == {os.path.dirname(self.best.path)}

    @property
    def moves(self) -> list[tuple[str, str]]:
        """Old and new path of each directory to move, in order: the others out of their log directories, then the best
        one to the usual name if it has another.
        """
        out = [(other.path, f"{os.path.dirname(other.path)}.{os.path.basename(other.path)}") for other in self.others]
        return [*out, *([(self.best.path, self.directory)] if self.best.path != self.directory else [])]

    @property
    def reason(self) -> str:
        """Verb phrase for why the best directory is to be kept."""
        is_only = not self.best.is_of_other_topic and any(other.is_of_other_topic for other in self.others)
        if is_only or not self.is_alike:
            return "is of the topic that the metadata names" if is_only else "holds more"
        place = "is where the metadata has it, and " if self.best.is_assigned else ""
        return f"{place}holds as much, as far as ends and counts tell"

    @property
    def is_alike(self) -> bool:
        """Whether no directory holds less than the best one, so that only its place, if anything, makes it the best."""
        return all(other.held == self.best.held for other in self.others)

    @property
    def sentence(self) -> str:
        """Sentence for an operator: which directory is to be kept and why, and which directories to move for that."""
        others = ", ".join(f"{other.path} ({other.text})" for other in self.others)
        return (
            f"{self.best.path} is {self.name} too and {self.reason} ({self.best.text}; {others}): to keep it, "
            f"move the rest out of the log directory{'' if self.best.path == self.directory else ' and rename it'}"
        )
