"""Filter the findings in a log directory that a running broker has open: only findings that persist when the directory
is examined again are kept.

A broker appends, rolls, deletes and compacts while its files are read. So a single pass finds indexes that are ahead of
their log, missing files, and checkpoints that are a few seconds old. Damage persists.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import FileKind, parse_segment_file
from kafkalog.log.directories.partition import Partition, read_partition
from kafkalog.log.disk.holders import told_held_by_others

__all__ = ["is_in_use", "look_again", "read_again", "settled_findings"]

_T = TypeVar("_T")

_LOOKS = 4
"""Number of passes before a doubtful finding is reported."""
_PAUSE_SECONDS = 0.3
_READS = 40
"""Number of times that a log is read whose files a broker replaces or deletes meanwhile."""
_PAUSE_OF_READS_SECONDS = 0.05
_REPLACED = (errno.ESTALE, errno.ENOENT)
"""Errors of a file that was truncated or removed since it was listed: the cleaner replaces files."""
_OF_A_MOMENT = codes_with(Trait.OF_A_MOMENT)
"""Findings that compare files which a running broker writes at different times, or are about its pending work."""
_BESIDE_THE_LOG = frozenset({FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX,
                             FileKind.PRODUCER_SNAPSHOT})  # fmt: skip


def is_in_use(root: str) -> bool:
    """Whether another process holds the lock of a log directory; False if unknown."""
    return told_held_by_others(root) is True


def read_again(read: Callable[[Partition], _T], partition: Partition) -> _T:
    """Return `read(partition)`. If a running broker replaced or deleted a file meanwhile, wait 50 ms, list the
    partition again and retry, at most 40 attempts in all.

    It is tried again only after a `StorageError` with ENOENT or ESTALE. The partition must have a name, and another
    process must hold the lock of its log directory. Otherwise, and at the last attempt, the error of `read` is raised.
    An error of the listing is raised too.
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
    """Return the findings that can be damage although a broker is running, in order. Two kinds are dropped: findings
    that compare files of different moments, and with `partition` those about indexes and snapshots of its active
    segment, which a broker flushes only when it closes the segment.
    """
    active = partition.segments[-1].base_offset if partition is not None and partition.segments else None
    return [finding for finding in findings if finding.code not in _OF_A_MOMENT and not _is_active(finding, active)]


def _is_active(finding: Finding, active: int | None) -> bool:
    """Whether a finding is about a file beside the active segment's log."""
    parsed = parse_segment_file(os.path.basename(finding.file or ""))
    is_beside = parsed is not None and not parsed.pending and parsed.kind in _BESIDE_THE_LOG
    return is_beside and parsed is not None and active is not None and parsed.base_offset >= active


def _lasting(before: Sequence[Finding], after: Iterable[Finding]) -> list[Finding]:
    """Return the findings of an earlier pass that a later pass has too, with the same code, file and place. Infos are
    always kept.
    """
    still = {_key(finding) for finding in after}
    return [finding for finding in before if finding.severity is Severity.INFO or _key(finding) in still]


def _key(finding: Finding) -> tuple[FindingCode, str | None, int | None, int | None]:
    return finding.code, finding.file, finding.position, finding.offset


def _is_doubtful(findings: Iterable[Finding]) -> bool:
    """Whether there is a warning or an error."""
    return any(finding.severity is not Severity.INFO for finding in findings)


Look = Callable[[frozenset[str]], dict[str, Sequence[Finding]]]
"""Function that examines partition and log directories again; returns the findings of each that still exists."""


def look_again(found: dict[str, list[Finding]], look: Look) -> dict[str, list[Finding] | None]:
    """Examine directories with a warning or an error again, at most three times, with a pause of 0.3 s before each.
    Return the findings that persist, by directory. `found` has the findings of the first pass by directory and is not
    changed. `look` is called with the paths of the directories to examine, and returns their findings by path.

    A warning or error persists if each pass has one with the same code, file, position and offset; the first pass's is
    returned. Infos of the first pass are kept. A directory without a warning or error is not examined again. If
    `look` does not return a directory, it was deleted, and its value is None.
    """
    left: dict[str, list[Finding] | None] = dict(found)
    for _ in range(_LOOKS - 1):
        doubtful = frozenset(
            path
            for path, directory_findings in left.items()
            if directory_findings is not None and _is_doubtful(directory_findings)
        )
        if not doubtful:
            break
        time.sleep(_PAUSE_SECONDS)
        again = look(doubtful)
        for path in doubtful:
            earlier = left[path]
            left[path] = None if path not in again or earlier is None else _lasting(earlier, again[path])
    return left
