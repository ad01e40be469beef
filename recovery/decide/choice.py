"""What there is to choose from: the ways of a log directory, the one that loses least, and the consent it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from kafkalog.classes import dataclass
from kafkalog.codec.common.advice import Advice, Ask
from kafkalog.codec.common.shapes import plain
from kafkalog.codec.findings import Finding
from kafkalog.codec.wording import counted
from kafkalog.recovery.decide.losses import sentence_of_lost
from kafkalog.recovery.decide.ways import LostRange, Measured, RecoveryWay, recommended
from kafkalog.recovery.decide.ways_json import way_json
from kafkalog.recovery.facts.metadata_copies import OTHER_COPIES

__all__ = ["RecoveryChoice", "advice_on_loss", "ranges_text", "sentence_of_loss"]


@dataclass(frozen=True, slots=True)
class RecoveryChoice:
    """The ways of a log directory in all, and of each partition in which they differ."""

    ways: list[RecoveryWay] = field(default_factory=list)
    by_partition: dict[str, list[RecoveryWay]] = field(default_factory=dict)
    own: Measured = field(default_factory=Measured)
    """what the plan loses that this was made for"""
    own_by_partition: dict[str, Measured] = field(default_factory=dict)
    kafka_by_partition: dict[str, Measured] = field(default_factory=dict)
    missing: list[Finding] = field(default_factory=list)
    """where segments are gone that no way brings back"""
    damaged: list[Finding] = field(default_factory=list)
    """places in the logs that cannot be read, whether a way touches them or not"""
    loses_metadata: bool = False
    """no way keeps all of a metadata log, of which other nodes have copies"""

    def lost_by_kafka(self) -> dict[str, int]:
        """Partition directory -> sound records that the broker's own start would take, where it would any."""
        return {name: found.sound_lost for name, found in self.kafka_by_partition.items() if found.sound_lost}

    @property
    def recommended(self) -> RecoveryWay | None:
        """The way that loses least; None where it would take metadata that other nodes have."""
        return None if self.loses_metadata else recommended(self.ways)


def sentence_of_loss(choice: RecoveryChoice) -> str:
    """Why recovery asks for consent."""
    own = choice.own
    hurt = {name: each for name, each in choice.own_by_partition.items() if each.drops_sound}
    name, worst = max(hurt.items(), key=lambda item: (item[1].sound_lost, item[1].markers_lost))
    ranges = ranges_text(worst.lost)
    others = f", and {counted(len(hurt) - 1, 'more partition')}" if len(hurt) > 1 else ""
    where = f"{name}: {ranges}{others}" if ranges else name + others
    what = []
    if own.sound_lost:
        what.append(f"{counted(own.sound_lost, 'record')} that can still be read")
    if own.markers_lost:
        what.append(f"{counted(own.markers_lost, 'sound marker')} of the end of a transaction")
    text = f"this would drop {' and '.join(what)} ({where})"
    return f"{text}; {OTHER_COPIES}" if choice.loses_metadata else text


def advice_on_loss(choice: RecoveryChoice) -> Iterator[Advice]:
    """What would lose less, and the consent."""
    best = choice.recommended
    if best is not None and _lost(best.measured) < _lost(choice.own):
        text = f"{best.way} loses least, {sentence_of_lost(best.measured)}"
        yield Advice(f"{text}, and needs {{}}", Ask.WAY, plain(way_json(best)))
    yield Advice("to drop them anyway, add {}", Ask.ACCEPT_LOSS)


def _lost(found: Measured) -> tuple[int, int]:
    return found.out_of_reach or 0, found.markers_out_of_reach


def ranges_text(lost: Sequence[LostRange], most: int = 3, *, named: bool = False) -> str:
    """Ranges of offsets for a sentence; with their partitions where those are several, or are `named` anyway."""
    several = len({each.partition for each in lost}) > 1
    words = [(f"{each.partition}: " if several else "") + _range(each) for each in lost[:most]]
    more = len(lost) - most
    name = f"{lost[0].partition}: " if named and lost and not several else ""
    return name + ", ".join(words) + (f" and {counted(more, 'more range')}" if more > 0 else "")


def _range(lost: LostRange) -> str:
    if lost.last is None:
        return f"an unknown number from offset {lost.first} on"
    return f"offset {lost.first}" if lost.first == lost.last else f"offsets {lost.first} to {lost.last}"
