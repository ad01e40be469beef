"""The public calls to rebuild what belongs to sound logs: indexes, producer snapshots, leader epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog.log.directories.workers import OnProgress
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.facts.rules import Rules
from kafkalog.recovery.options import RecoveryOptions
from kafkalog.recovery.results import RecoveryResult
from kafkalog.recovery.run import recover_all

__all__ = ["rebuild_all_indexes", "rebuild_indexes"]


def rebuild_indexes(
    path: PathLike,
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    cluster_metadata: bool = False,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> RecoveryResult:
    """Rebuild every index, snapshot and leader epoch of sound logs; `RecoveryRefused` if a log is damaged.

    KRaft's metadata log is left out unless `cluster_metadata` is given.

    * `path`: the log directory
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    return rebuild_all_indexes(
        [path], config=config, at=at, cluster_metadata=cluster_metadata, jobs=jobs, on_progress=on_progress
    )[0]


def rebuild_all_indexes(
    paths: Sequence[PathLike],
    *,
    config: Mapping[str, str] | None = None,
    at: int | None = None,
    cluster_metadata: bool = False,
    jobs: int = 1,
    on_progress: OnProgress | None = None,
) -> list[RecoveryResult]:
    """Rebuild the indexes of several log directories, as `rebuild_indexes` does; if one is refused, none is changed.

    * `paths`: log directories or their parents
    * `config`: settings under Kafka's names
    * `at`: the time in ms to treat as now
    * `cluster_metadata`: includes the metadata log of KRaft
    * `jobs`: how many partitions are examined at a time, each in its own process
    * `on_progress`: called with a `ProgressState` now and then
    """
    rules = Rules(config=config or {}, at=at, cluster_metadata=cluster_metadata, rebuild_indexes=True)
    return recover_all(paths, RecoveryOptions(rules=rules), jobs=jobs, on_progress=on_progress)
