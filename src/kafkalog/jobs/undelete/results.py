"""Define plan and result of restoring deleted data, and find empty partitions that have to be removed for it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import RecoveryRefused
from kafkalog.codec.names import DELETED, FileKind
from kafkalog.jobs.undelete.request import Undelete
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.decide.actions import RecoveryAction
from kafkalog.recovery.facts.survey import Survey

__all__ = ["PutBack", "UndeletePlan", "UndeleteResult", "holds_data", "in_the_way"]

MODE = "undelete"


class PutBack(Struct, frozen=True, kw_only=True):
    """One restored partition."""

    directory: str
    """its name in the log directory"""
    source: str
    """name of the deleted directory; its own name if deleted segments return to it"""
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
    """Plan for one log directory. It is valid only for its survey."""

    root: str
    survey: Survey = field(repr=False)
    actions: list[RecoveryAction]
    put_back: tuple[PutBack, ...]
    left: tuple[str, ...] = ()
    """sentences about what stays deleted, and why"""
    notes: tuple[str, ...] = ()
    """sentences that an operator should know before a broker starts"""
    mode: str = MODE
    request: Undelete | None = None
    """what it was made for"""


class UndeleteResult(Struct, frozen=True):
    """Result of restoring, with the execution that `undo` can reverse."""

    done: UndeletePlan
    run_id: str
    quarantine: str


def in_the_way(planned: Sequence[UndeletePlan], siblings: Sequence[str]) -> dict[str, dict[str, str]]:
    """Find empty partition directories that must be removed, because a broker does not start on a partition in two log
    directories (`LogManager`). A topic that was created again may have its partitions in other directories of the
    broker than before. Return for each log directory with such partitions: name of the empty partition -> log directory
    in which this partition is restored. `siblings` are all log directories of the broker.

    Raises `RecoveryRefused` if another directory holds data of the partition or gets it too, `StorageError` if a
    directory cannot be listed.
    """
    empty_directories: dict[str, dict[str, str]] = {}
    taken: dict[str, str] = {}
    for plan in planned:
        for name in (restored.directory for restored in plan.put_back):
            for other in siblings:
                if other == plan.root:
                    continue
                place = os.path.join(other, name)
                if taken.get(name) == other or (os.path.isdir(place) and holds_data(place)):
                    raise RecoveryRefused(
                        Sentence(
                            f"{name} would be in {plan.root} and in {other}, where it holds its own data, and a broker "
                            "does not start on that: restore the data into a directory of its own with ",
                            Ask.UNDELETE_INTO,
                            ", or name another topic with ",
                            Ask.AS_TOPIC,
                        ),
                        reason="taken",
                    )
                if os.path.isdir(place):
                    empty_directories.setdefault(other, {})[name] = plan.root
            taken[name] = plan.root
    return empty_directories


def holds_data(directory: str) -> bool:
    """Whether a partition directory has a log that is not empty, or a log with the suffix `.deleted`. Raises
    `StorageError` if it cannot be listed.
    """
    logs = [entry for entry in scan_directory(directory) if FileKind.LOG.value in entry.name]
    return any(DELETED in entry.name or entry.stat().st_size for entry in logs)
