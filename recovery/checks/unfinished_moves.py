"""Find moves of replicas between log directories that were never finished: a `-future` directory is left.

A running broker copies into this directory, and renames it when the copy is complete (`ReplicaAlterLogDirsThread`). In
a directory that nobody writes to, the move was cut short.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.names import DirectoryState, parse_partition_directory

__all__ = ["unfinished_moves"]


def unfinished_moves(root: str, names: Iterable[str], roots: Iterable[str]) -> list[Finding]:
    """Return a MOVE_UNFINISHED warning for each `-future` directory among `names`, in their order. `names` are the
    entries of the log directory `root`, and `roots` the broker's known log directories. The warning says in which of
    these directories the live log is that should have been replaced, or that it is in none of them.
    """
    known = dict.fromkeys([root, *roots])
    findings = []
    for directory in names:
        name = parse_partition_directory(directory)
        if name is None or name.state is not DirectoryState.FUTURE:
            continue
        live = f"{name.topic}-{name.partition}"
        place = next((root for root in known if os.path.isdir(os.path.join(root, live))), None)
        if place is None:
            where = "the log that it was to replace is in none of the directories that are known"
        elif os.path.realpath(place) == os.path.realpath(root):
            where = "the log that it was to replace is in the same directory, so it leads nowhere"
        else:
            where = f"the log that it was to replace is {os.path.join(place, live)}"
        detail = f"a move of {live} between log directories was never finished; {where}"
        code = FindingCode.MOVE_UNFINISHED
        findings.append(Finding(code, Severity.WARNING, None, None, detail, os.path.join(root, directory)))
    return findings
