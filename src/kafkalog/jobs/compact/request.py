"""The request to compact log directories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from kafkalog.codec.common.arguments import TIMES, check_fields
from kafkalog.codec.common.options import Option
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.facts.recovery_request import QUARANTINE, selection_words

__all__ = ["Compaction"]


class Compaction(Struct, frozen=True, kw_only=True):
    """A request to `compact`: what one pass of the broker's log cleaner works on, and by which settings."""

    config: Annotated[
        Mapping[str, str],
        Option("--config", "A topic or broker setting under Kafka's own name; may be repeated.", "NAME=VALUE"),
    ] = {}
    """settings of topics or brokers under Kafka's names; the topic's own in the metadata log take precedence"""
    at: Annotated[int | None, Option("--at", within=TIMES)] = None
    """the time to treat as now, ms since 1970; None: the clock's"""
    select: Annotated[Selection, Option("--topic", words=selection_words)] = ALL
    """the topic-partitions to compact"""
    quarantine: Annotated[PathLike | None, QUARANTINE] = None
    """where the old files are kept, for `undo`; None: beside each directory"""

    def __post_init__(self) -> None:
        check_fields(self)
