"""What undeleting would do, and what it did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.errors import RecoveryRefused
from kafkalog.codec.names import DELETED, FileKind
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.decide.actions import RecoveryAction
from kafkalog.recovery.facts.survey import Survey

__all__ = ["PutBack", "UndeletePlan", "UndeleteResult", "holds_data", "in_the_way"]

MODE = "undelete"


class PutBack(Struct, frozen=True):
    """One partition as it is afterwards."""

    directory: str
    """its name in the log directory"""
    source: str
    """the directory that it was, or its own if segments come back"""
    log_start_offset: int
    """first offset"""
    log_end_offset: int
    """where the log ends"""
    records: int
    """records that come back"""
    topic_id: str | None
    """null before 2.8"""


@dataclass(frozen=True, slots=True)
class UndeletePlan:
    """What would be done; made from a survey, and valid only for that survey."""

    root: str
    survey: Survey = field(repr=False)
    actions: list[RecoveryAction]
    put_back: tuple[PutBack, ...]
    left: tuple[str, ...] = ()
    """what stays deleted, and why: sentences"""
    notes: tuple[str, ...] = ()
    """what an operator should know before a broker starts: sentences"""
    mode: str = MODE


class UndeleteResult(Struct, frozen=True):
    """What was restored, and the run that `undo` can reverse."""

    done: UndeletePlan
    run_id: str
    quarantine: str


def in_the_way(planned: Sequence[UndeletePlan], siblings: Sequence[str]) -> dict[str, dict[str, str]]:
    """Directories that hold nothing and have to go, by log directory: name, and where its log comes back.

    A topic that is created again may get its partitions in other directories of a broker than it had, and a broker does
    not start on a partition that is in two (`LogManager`).  Raises `RecoveryRefused` where the other one holds data.
    """
    found: dict[str, dict[str, str]] = {}
    taken: dict[str, str] = {}
    for made in planned:
        for name in (each.directory for each in made.put_back):
            for other in siblings:
                if other == made.root:
                    continue
                place = os.path.join(other, name)
                if taken.get(name) == other or (os.path.isdir(place) and holds_data(place)):
                    raise RecoveryRefused(
                        Sentence(
                            f"{name} would be in {made.root} and in {other}, where it holds its own data, and a broker "
                            "does not start on that: restore the data into a directory of its own with ",
                            Ask.INTO,
                            ", or name another topic with ",
                            Ask.AS_TOPIC,
                        ),
                        reason="taken",
                    )
                if os.path.isdir(place):
                    found.setdefault(other, {})[name] = made.root
            taken[name] = made.root
    return found


def holds_data(directory: str) -> bool:
    """Whether a partition directory has a log that is not empty, or one that is deleted."""
    logs = [entry for entry in scan_directory(directory) if FileKind.LOG.value in entry.name]
    return any(DELETED in entry.name or entry.stat().st_size for entry in logs)
