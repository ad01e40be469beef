"""Translate a cleaned tree into actions that put each new segment in place as a broker's cleaner does.

All files of a new segment are written as `.cleaned`, which a start removes. Then they become `.swap`, the log first,
which a start completes. Then the old files are removed, and the new ones get their names. So a broker that starts in
between has the old records or the new ones, and never a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, CLEANED, DELETED, SWAP, FileKind, parse_segment_file, segment_file
from kafkalog.log.storage.cleaning.cleaner import CleanedGroup
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.decide.actions import WRITTEN_AT_STOP, ActionKind, RecoveryAction, difference, marker_first
from kafkalog.recovery.facts.survey import Survey

__all__ = ["compaction_actions"]

_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX)
_UNFINISHED = (DELETED, CLEANED, SWAP)


def compaction_actions(
    found: Survey, after: Tree, groups: Mapping[str, Sequence[CleanedGroup]]
) -> list[RecoveryAction]:
    """Return the actions that change the surveyed directory into the tree `after`, in the order in which a broker
    performs them; empty if nothing changes. `groups` are the groups of segments that were each cleaned into one, by
    partition directory.

    The clean-shutdown marker is removed first. Then follow the removals of `.deleted`, `.cleaned` and `.swap` files,
    the replaced segments, the segments removed by retention (oldest first), and all other changes. May read files to
    compare them; raises `StorageError` if this fails.
    """
    replaced: list[RecoveryAction] = []
    own: set[str] = set()
    before = found.tree()
    for directory, of_directory in groups.items():
        for group in of_directory:
            paths = [path for base in group.replaced for path in _paths(directory, base)]
            own.update(paths)
            if not _is_as_before(before, after, directory, group):
                replaced += _replacement(found, after, directory, group)
    rest = difference(
        replace(found, files={path: facts for path, facts in found.files.items() if path not in own}),
        _without(after, own),
        WRITTEN_AT_STOP - {CLEAN_SHUTDOWN_FILE},
    )
    removed = [action for action in rest if action.kind is ActionKind.REMOVE]
    first = [action for action in removed if action.path.endswith(_UNFINISHED)]
    gone = sorted((action for action in removed if not action.path.endswith(_UNFINISHED)), key=_oldest_first)
    others = [action for action in rest if action.kind is not ActionKind.REMOVE]
    return marker_first(found, [*first, *replaced, *gone, *others])


def _paths(directory: str, base: int) -> Iterator[str]:
    return (f"{directory}/{segment_file(base, kind)}" for kind in _KINDS)


def _is_as_before(before: Tree, after: Tree, directory: str, group: CleanedGroup) -> bool:
    """Whether the group had one old segment and its new one is equal, in log, indexes and modification time of the log.
    Raises `StorageError` if a file cannot be read.
    """
    if group.replaced != (group.base_offset,):
        return False
    for path in _paths(directory, group.base_offset):
        if (path in before.files) is not (path in after.files):
            return False
        if path in before.files and not before.is_same(path, after, path):
            return False
    log = next(_paths(directory, group.base_offset))
    return log in before.files and before.modified_ms(log) == after.modified_ms(log)


def _replacement(surveyed: Survey, after: Tree, directory: str, group: CleanedGroup) -> Iterator[RecoveryAction]:
    new = [path for path in _paths(directory, group.base_offset) if path in after.files]
    if not any(path.endswith(FileKind.LOG.value) for path in new):
        new = []  # retention let it go at once
    for path in reversed(new):
        content = after.files[path]
        time = after.times.get(path)
        yield RecoveryAction(
            kind=ActionKind.WRITE, path=path + CLEANED, size=content.size, content=content, modified_ms=time
        )
    for path in new:
        yield RecoveryAction(
            kind=ActionKind.RENAME, path=path + CLEANED, target=path + SWAP, size=after.files[path].size
        )
    for base in group.replaced:
        for path in _paths(directory, base):
            if path in surveyed.files:
                yield RecoveryAction(kind=ActionKind.REMOVE, path=path)
    for path in new:
        yield RecoveryAction(kind=ActionKind.RENAME, path=path + SWAP, target=path, size=after.files[path].size)


def _without(after: Tree, paths: set[str]) -> Tree:
    left = after.copy()
    for path in paths:
        left.delete(path)
    return left


def _oldest_first(action: RecoveryAction) -> tuple[str, int, int]:
    """Sort key for files of segments removed by retention: by directory, then by base offset, and within a segment the
    log first. Files that do not belong to a segment come last in their directory.
    """
    directory, _, name = action.path.rpartition("/")
    parsed = parse_segment_file(name)
    if parsed is None:
        return directory, 2**63, 0
    return directory, parsed.base_offset, _KINDS.index(parsed.kind) if parsed.kind in _KINDS else len(_KINDS)
