"""Public call `rebuild_indexes`: rebuild the files beside sound logs: indexes, producer snapshots, leader epochs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import structs

from kafkalog.codec.common.arguments import TIMES, Bounds, Count, check_fields
from kafkalog.codec.common.options import Option
from kafkalog.log.directories.workers import OnProgress
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.results import RecoveryResult
from kafkalog.recovery.run import recover

__all__ = ["IndexRebuild", "rebuild_indexes"]


class IndexRebuild(msgspec.Struct, frozen=True, kw_only=True):
    """A request to `rebuild_indexes`."""

    config: Annotated[
        Mapping[str, str],
        Option("--config", "A topic or broker setting under Kafka's own name; may be repeated.", "NAME=VALUE"),
    ] = {}
    """settings under Kafka's names; what the cluster's metadata says of a topic takes precedence"""
    at: Annotated[int | None, Bounds(TIMES)] = None
    """the time to treat as now, ms since 1970; None: the clock's"""
    cluster_metadata: Annotated[bool, Option("--cluster-metadata", "Include KRaft's metadata log.")] = False
    """include KRaft's metadata log"""
    quarantine: PathLike | None = None
    """where the old files are kept; None: beside each directory"""

    def __post_init__(self) -> None:
        check_fields(self)



def rebuild_indexes(
    request: IndexRebuild | PathLike, *paths: PathLike, jobs: Count = 1, on_progress: OnProgress | None = None
) -> list[RecoveryResult]:
    """Rebuild every index, producer snapshot and leader epoch of sound logs; return a result for each log directory.

    Raises `RecoveryRefused`, with nothing changed, if a log of one of the directories is damaged. All other errors are
    those of `recover`.

    * `request`: may be left out for the defaults
    * `paths`: log directories or their parents
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    wanted, named = (request, paths) if isinstance(request, IndexRebuild) else (IndexRebuild(), (request, *paths))
    rules = Rules(**structs.asdict(wanted), rebuild_indexes=True)
    return recover(rules, *named, jobs=jobs, on_progress=on_progress)
