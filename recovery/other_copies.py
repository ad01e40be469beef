"""What merging with other copies would keep: the way `merge` of a plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from kafkalog.codec.errors import RecoveryRefused, UsageError
from kafkalog.log.directory import is_log_dir, is_partition_dir
from kafkalog.recovery.preview import merge_preview
from kafkalog.recovery.ways import LostRange, Measured, Unit

__all__ = ["directories_of", "other_copies"]


def other_copies(root: str, copies: Sequence[str]) -> Callable[[Unit], Measured | None]:
    """For a partition of the log directory `root`: what it and the copies hold together, if one of them has it.

    `copies` are log directories, or directories of the partition itself; `UsageError` for what is neither.
    """
    for copy in copies:
        if not is_log_dir(copy) and not is_partition_dir(copy):
            raise UsageError(
                f"{copy} cannot be a copy: it holds no partition; give a log directory or a partition directory"
            )

    def merged(unit: Unit) -> Measured | None:
        there = directories_of(unit.topic, unit.partition, copies)
        if not there:
            return None
        try:
            found = merge_preview([os.path.join(root, unit.name), *there])
        except (UsageError, RecoveryRefused):
            return None  # no copies of one another: `merge` says why
        lost = [LostRange(unit.name, first, last) for first, last in found.gaps]
        return Measured(
            records_kept=found.records_kept,
            records_lost=found.offsets_missing,
            is_exact=not lost,
            is_estimate=bool(lost),
            bytes_cut=0,
            lost=lost,
            below_high_watermark=None if unit.high_watermark is None else found.log_end_offset < unit.high_watermark,
        )

    return merged


def directories_of(topic: str, partition: int, copies: Sequence[str]) -> list[str]:
    """The directories of one partition that the copies are, or hold."""
    name = f"{topic}-{partition}"
    real = [os.path.realpath(copy) for copy in copies]
    found = [path if os.path.basename(path) == name else os.path.join(path, name) for path in real]
    return [path for path in found if os.path.isdir(path)]
