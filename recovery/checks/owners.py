"""Find files with wrong ownership in a log directory: files that the broker's user may not open, and files that two
partitions share as hard links, so that a broker writes into both logs.

Only names within the log directory count, so a backup elsewhere whose files are hard links is not reported.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import parse_partition_directory
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.facts.owners import closed_files
from kafkalog.recovery.facts.survey import FileFacts
from kafkalog.recovery.facts.topic_facts import TopicFacts

__all__ = ["other_owners", "shared_files", "shared_files_of"]

_NAMED = 3


def other_owners(root: str, facts: TopicFacts) -> list[Finding]:
    """Return a list with one OWNER_MISMATCH finding if the broker's user may not open or change something in the log
    directory `root`, else an empty list. The finding's file is `root`; its text names at most three paths.

    The broker's user is not known. It is assumed to be the most frequent owner of the log directories (`root` and
    `facts.roots`), their partition directories and `meta.properties`; the root user is not counted. The list is also
    empty if all of these belong to root, a directory cannot be listed or an entry cannot be examined.
    """
    found = closed_files(root, facts.roots)
    if found is None:
        return []
    user, closed = found.user, found.paths
    named = first_of([os.path.relpath(path, root) for path in closed], _NAMED)
    detail = (
        f"{counted(len(closed), 'path')} may not be opened or changed by user "
        f"{user[0]}, to whom the broker's other directories belong: {named}; a broker that runs as this user "
        f"takes the log directory offline: give all of it to user {user[0]} and group {user[1]}{found.warning}"
    )
    return [Finding.of(FindingCode.OWNER_MISMATCH, None, None, detail, root)]


def shared_files(root: str) -> list[Finding]:
    """Return a FOREIGN_FILE warning for each file of a partition directory in `root` that is a hard link to a file of
    another partition directory, with absolute paths. Partition directories that cannot be listed are omitted. Raises
    `StorageError` if `root` cannot be listed.
    """
    return [_finding(path, other) for path, other in _pairs(_linked(root))]


def shared_files_of(files: Mapping[str, FileFacts]) -> list[Finding]:
    """Return the findings of `shared_files` from the files of a survey, with relative paths; reads nothing."""
    linked = ((path, (facts.device, facts.inode)) for path, facts in files.items() if facts.links > 1 and "/" in path)
    return [_finding(path, other) for path, other in _pairs(linked)]


def _linked(root: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield path and identity (device, inode) of each regular file in the partition directories of `root` that has
    several hard links. Symbolic links to partition directories are not followed. A partition directory is skipped from
    the first error on; an error for `root` is raised as `StorageError`.
    """
    for entry in scan_directory(root):
        try:
            is_listed = parse_partition_directory(entry.name) is not None and entry.is_dir(follow_symlinks=False)
            for inside in scan_directory(entry.path) if is_listed else ():
                status = inside.stat(follow_symlinks=False)
                if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                    yield inside.path, (status.st_dev, status.st_ino)
        except OSError:  # said by those who read what is in it; or a broker is running
            continue


def _pairs(linked: Iterable[tuple[str, tuple[int, int]]]) -> Iterator[tuple[str, str]]:
    """Yield (path, other path), sorted by path, for each path whose file also has a path in another directory. The
    other path is the first of these by name.
    """
    names: dict[tuple[int, int], list[str]] = {}
    for path, identity in linked:
        names.setdefault(identity, []).append(path)
    pairs = (
        (path, next((other for other in paths if os.path.dirname(other) != os.path.dirname(path)), None))
        for paths in map(sorted, names.values())
        for path in paths
    )
    yield from sorted((path, other) for path, other in pairs if other is not None)


def _finding(path: str, other: str) -> Finding:
    there = os.path.join(os.path.basename(os.path.dirname(other)), os.path.basename(other))
    detail = f"the same file as {there} (hard link): a broker that starts here writes into both"
    return Finding(FindingCode.FOREIGN_FILE, Severity.WARNING, None, None, detail, path)
