"""What is found in a log directory that a running broker has open: only what is still wrong when it is looked at again.

A broker appends, rolls, deletes and compacts while its files are read, so a single look finds indexes ahead of their
log, files that are gone, and checkpoints of a few seconds ago.  Damage stays where it is.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kafkalog.codec.errors import StorageError
from kafkalog.codec.finding_codes import Trait, codes_with
from kafkalog.codec.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import FileKind, parse_segment_file
from kafkalog.log.directories.partition import Partition, read_partition
from kafkalog.log.disk.holders import told_held_by_others

__all__ = ["is_in_use", "look_again", "read_again", "settled_findings"]

_T = TypeVar("_T")

_LOOKS = 4
"""How often something doubtful is looked at before it is reported."""
_PAUSE_SECONDS = 0.3
_READS = 40
"""How often a log is read whose files a broker replaces or deletes meanwhile."""
_PAUSE_OF_READS_SECONDS = 0.05
_REPLACED = (errno.ESTALE, errno.ENOENT)
"""Errors of a file that became shorter or is gone since it was listed: the cleaner puts another in its place."""
_OF_A_MOMENT = codes_with(Trait.OF_A_MOMENT)
"""Findings that compare files which a running broker writes at different times, or are about what it has yet to do."""
_BESIDE_THE_LOG = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX,
                             FileKind.PRODUCER_SNAPSHOT})  # fmt: skip


def is_in_use(root: str) -> bool:
    """Whether another process holds the lock of a log directory; False if that cannot be told."""
    return told_held_by_others(root) is True


def read_again(read: Callable[[Partition], _T], partition: Partition) -> _T:
    """The answer of `read` for a partition; it reads again what a running broker has replaced meanwhile.

    Each time after the first it is given a new listing of the partition.  Raises the `StorageError` of `read` if no
    broker runs, if the error is another one, or if it is the same every time.
    """
    name, start, limits = partition.name, partition.checkpointed_log_start_offset, partition.limits
    for _ in range(_READS - 1):
        try:
            return read(partition)
        except StorageError as error:
            if name is None or error.errno not in _REPLACED or not is_in_use(os.path.dirname(partition.path)):
                raise
        time.sleep(_PAUSE_OF_READS_SECONDS)
        partition = read_partition(partition.path, name, start, limits=limits)
    return read(partition)


def settled_findings(findings: Iterable[Finding], partition: Partition | None = None) -> list[Finding]:
    """The findings that can be damage although a broker is running.

    Left out are those about the indexes and the snapshots of the active segment of `partition`, which are flushed when
    it is closed, and those that compare files of different moments.
    """
    active = partition.segments[-1].base_offset if partition is not None and partition.segments else None
    return [each for each in findings if each.code not in _OF_A_MOMENT and not _is_active(each, active)]


def _is_active(finding: Finding, active: int | None) -> bool:
    """Whether a finding is about a file beside the active segment's log."""
    parsed = parse_segment_file(os.path.basename(finding.file or ""))
    is_beside = parsed is not None and not parsed.pending and parsed.kind in _BESIDE_THE_LOG
    return is_beside and parsed is not None and active is not None and parsed.base_offset >= active


def _lasting(before: Sequence[Finding], after: Iterable[Finding]) -> list[Finding]:
    """The findings of an earlier look that a later one has too, by code, file and place; information is not asked."""
    still = {_key(each) for each in after}
    return [each for each in before if each.severity is Severity.INFO or _key(each) in still]


def _key(finding: Finding) -> tuple[FindingCode, str | None, int | None, int | None]:
    return finding.code, finding.file, finding.position, finding.offset


def _is_doubtful(findings: Iterable[Finding]) -> bool:
    """Whether there is something to look at again."""
    return any(each.severity is not Severity.INFO for each in findings)


Look = Callable[[frozenset[str]], dict[str, Sequence[Finding]]]
"""Looks again at partition and log directories; gives what is found in each that is still there."""


def look_again(found: dict[str, list[Finding]], look: Look) -> dict[str, list[Finding] | None]:
    """What stays of findings by partition or log directory; None for a directory that is gone."""
    left: dict[str, list[Finding] | None] = dict(found)
    for _ in range(_LOOKS - 1):
        doubtful = frozenset(path for path, each in left.items() if each is not None and _is_doubtful(each))
        if not doubtful:
            break
        time.sleep(_PAUSE_SECONDS)
        again = look(doubtful)
        for path in doubtful:
            earlier = left[path]
            left[path] = None if path not in again or earlier is None else _lasting(earlier, again[path])
    return left
