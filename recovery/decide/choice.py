"""Represent the ways of recovering a log directory: which one loses least, and which consent it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.shapes import plain
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted
from kafkalog.recovery.decide.aftermath import LossConsequence
from kafkalog.recovery.decide.better_copies import BetterCopy
from kafkalog.recovery.decide.losses import sentence_of_lost
from kafkalog.recovery.decide.ways import LostRange, Measured, RecoveryWay, recommended
from kafkalog.recovery.decide.ways_json import way_json
from kafkalog.recovery.facts.metadata_copies import OTHER_COPIES

__all__ = ["RecoveryChoice", "advice_on_loss", "ranges_text", "sentence_of_loss"]


class RecoveryChoice(Struct, frozen=True, kw_only=True):
    """Ways of a log directory as a whole, and of each partition in which they differ."""

    ways: list[RecoveryWay] = field(default_factory=list)
    by_partition: dict[str, list[RecoveryWay]] = field(default_factory=dict)
    own: Measured = field(default_factory=Measured)
    """loss of the plan that this was made for"""
    own_by_partition: dict[str, Measured] = field(default_factory=dict)
    kafka_by_partition: dict[str, Measured] = field(default_factory=dict)
    missing: list[Finding] = field(default_factory=list)
    """findings about missing segments that no way restores"""
    damaged: list[Finding] = field(default_factory=list)
    """findings about damage in logs, whether a way changes it or not"""
    overlapping: Sequence[str] = ()
    """partition directories in which a segment has a transactional batch with offsets that belong to the next segment
    """
    consequences: tuple[LossConsequence, ...] = ()
    """consequences of the recommended way for readers of committed data; empty if it is the plan's own way"""
    loses_metadata: bool = False
    """whether no way keeps all of a metadata log, of which other nodes have copies"""
    better_copies: tuple[BetterCopy, ...] = ()
    """directories that hold more of a partition than the one that the ways are for"""
    renamed: tuple[tuple[str, str], ...] = ()
    """directories that a recovery moves away, although each looks like a missing partition under another name; each
    with the path of the missing one
    """
    copied: tuple[tuple[str, str], ...] = ()
    """directories of missing partitions in the other copies, each with the path of the missing one"""
    mergeable: tuple[str, ...] = ()
    """partition directories into which a merge puts records of the copies, and that no other broker has in sync"""

    def lost_by_kafka(self) -> dict[str, int]:
        """Number of sound records that the broker's own start would lose, by partition directory; those without loss
        are omitted.
        """
        return {name: measured.sound_lost for name, measured in self.kafka_by_partition.items() if measured.sound_lost}

    @property
    def is_offered(self) -> bool:
        """Whether a way may lose something or leave damage (`Measured.may_lose`), or puts in records from other
        copies.
        """
        return any(way.measured.may_lose or way.measured.from_copies for way in self.ways)

    @property
    def sentences_of_renamed(self) -> list[str]:
        """One sentence for each renamed partition: which directory looks like it, and the command that puts it back."""
        return [f"{path} looks like {os.path.basename(to)}, which is missing; it is put back by: mv "
                f"{shell_line([path, to])}" for path, to in self.renamed]  # fmt: skip

    @property
    def recommended(self) -> RecoveryWay | None:
        """The way that loses least; None if it would lose metadata that other nodes have or records that another
        directory has, if it would move away a renamed partition, or if no way has a known loss and is not declined.
        """
        return None if self.loses_metadata or self.better_copies or self.renamed else recommended(self.ways)

    @property
    def second(self) -> RecoveryWay | None:
        """The recovery that loses least, for the case that the recommended way, which is none, is not possible; None if
        a recovery is recommended, or nothing, or if that recovery loses as much as the plan.
        """
        best = self.recommended
        if best is None or best.how is not None:
            return None
        second = recommended([way for way in self.ways if way.how is not None])
        return second if second is not None and second.measured.sort_key < self.own.sort_key else None


def sentence_of_loss(choice: RecoveryChoice) -> str:
    """Return a sentence about the records and transaction markers of batches with a right checksum that the plan drops,
    for which recovery asks for consent. It names the partition that loses most, with its lost offsets if they are
    known, and the number of others. If other nodes may have copies of a metadata log, or another directory holds more,
    it says so. At least one partition must drop something, else `ValueError` is raised.
    """
    own = choice.own
    hurt = {name: measured for name, measured in choice.own_by_partition.items() if measured.drops_sound}
    name, worst = max(hurt.items(), key=lambda item: (item[1].sound_lost, item[1].unopened_lost, item[1].markers_lost))
    ranges = ranges_text(worst.lost)
    more = f", and {counted(len(hurt) - 1, 'more partition')}" if len(hurt) > 1 else ""
    where = f"{name}: {ranges}{more}" if ranges else name + more
    what = []
    if own.sound_lost:
        what.append(f"{counted(own.sound_lost, 'record')} that can still be read")
    if own.unopened_lost:
        what.append(f"{counted(own.unopened_lost, 'record')} of batches that cannot be decompressed")
    if own.markers_lost:
        what.append(f"{counted(own.markers_lost, 'sound marker')} of the end of a transaction")
    text = f"this would drop {' and '.join(what)} ({where})"
    others = OTHER_COPIES if choice.loses_metadata else "; ".join(copy.sentence for copy in choice.better_copies)
    return f"{text}; {others}" if others else text


def advice_on_loss(choice: RecoveryChoice) -> Iterator[Advice]:
    """Yield advice about the recommended way, and about the second one if there is one. A way is left out unless it
    loses fewer records than the plan, or as many records and fewer transaction markers. The records are
    `Measured.out_of_reach`; an unknown number counts as 0. Last, always yield advice about how to consent to the loss.
    """
    for way, words in ((choice.recommended, "loses least,"), (choice.second, "is the best recovery here and loses")):
        if way is None or _lost(way.measured) >= _lost(choice.own):
            continue
        then = "" if way.then is None else f", then {way.then.way} for the rest,"
        text = f"{way.way}{then} {words} {sentence_of_lost(way.measured)}"
        yield Advice(f"{text}, and needs {{}}", Ask.WAY, plain(way_json(way)))
    yield Advice("to drop them anyway, add {}", Ask.ACCEPT_LOSS)


def _lost(measured: Measured) -> tuple[int, int]:
    return measured.out_of_reach or 0, measured.markers_out_of_reach


def ranges_text(lost: Sequence[LostRange], most: int = 3, *, named: bool = False) -> str:
    """Return the first `most` offset ranges as text for a sentence, followed by the number of the remaining ranges;
    empty if there are none. If the ranges are of several partitions, the partition comes before each range. If they are
    of one partition, its name comes first only with `named`.
    """
    several = len({lost_range.partition for lost_range in lost}) > 1
    words = [(f"{lost_range.partition}: " if several else "") + _range(lost_range) for lost_range in lost[:most]]
    more = len(lost) - most
    name = f"{lost[0].partition}: " if named and lost and not several else ""
    return name + ", ".join(words) + (f" and {counted(more, 'more range')}" if more > 0 else "")


def _range(lost: LostRange) -> str:
    if lost.last is None:
        return f"an unknown number from offset {lost.first} on"
    return f"offset {lost.first}" if lost.first == lost.last else f"offsets {lost.first} to {lost.last}"
