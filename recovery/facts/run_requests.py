"""Define requests about earlier executions: to undo them, and to delete the bytes that they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields
from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.options import Option
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.facts.recovery_request import MOVED, QUARANTINE, quarantine_words

__all__ = ["Purge", "Undo"]


class Undo(Struct, frozen=True, kw_only=True):
    """A request to `undo`: which executions are reversed."""

    run_ids: Annotated[
        Sequence[str], Option("--run", "Id of the run to reverse; may be repeated [the latest].", "RUN")
    ] = ()
    """ids of the executions; empty: the latest one"""
    quarantine: Annotated[PathLike | None, QUARANTINE] = None
    """where executions keep what they removed; None: beside each directory"""
    moved: Annotated[bool, MOVED] = False
    """assert that the kept executions are of this directory, although it was moved"""

    def __post_init__(self) -> None:
        check_fields(self)


class Purge(Struct, frozen=True, kw_only=True):
    """A request to `purge`: which executions lose what they have kept. Without ids and age there are none."""

    run_ids: Annotated[
        Sequence[str],
        Option("--purge", "Permanently delete the files kept by this run; may be repeated.", "RUN"),
    ] = ()
    """ids of executions"""
    older_than_days: Annotated[
        float | None,
        Option("--purge-older-than", "Permanently delete the files kept by runs older than this: days, or a span such "
            "as 36h or 2w.", "AGE"),
    ] = None  # fmt: skip
    """also those that began longer ago than this many days"""
    quarantine: Annotated[
        PathLike | None,
        Option("--quarantine", "Additional directory to search for runs [PATH.recovery, and the directory named in "
            "PATH].", "DIR", True, True, quarantine_words),
    ] = None  # fmt: skip
    """where executions keep what they removed; None: beside each directory"""
    moved: Annotated[bool, MOVED] = False
    """assert that the kept executions are of this directory, although it was moved"""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.older_than_days is not None and self.older_than_days < 0:
            raise UsageError(f"{self.older_than_days} days is not an age: give a number that is not negative")
