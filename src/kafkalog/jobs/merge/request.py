"""The request to merge log directories of several brokers into one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Struct

from kafkalog.codec.common.arguments import TIMES, Bounds, check_fields
from kafkalog.codec.common.options import Option
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["Merge"]


class Merge(Struct, frozen=True, kw_only=True):
    """Request to `merge_directories`, `merge_replicas` and `merge_preview`."""

    prefer: Annotated[
        PathLike | None,
        Option("--prefer", "The copy to prefer if several have different batches of the same leader epoch.", "DIR"),
    ] = None
    """directory whose batches are taken if several have the same leader epoch; None: those of the best copy"""
    select: Selection = ALL
    """topic-partitions to merge; `merge_replicas` and `merge_preview` accept no selection"""
    config: Annotated[
        Mapping[str, str],
        Option("--config", "A topic or broker setting under Kafka's own name; may be repeated.", "NAME=VALUE"),
    ] = {}
    """settings under Kafka's names; a topic's settings in a volume's metadata take precedence"""
    at: Annotated[int | None, Bounds(TIMES)] = None
    """time to treat as now, ms since 1970; None: the current time"""

    def __post_init__(self) -> None:
        check_fields(self)
