"""Compute the actions that turn a surveyed directory into a planned tree.

There are few kinds of actions. Their order is such that after a crash between any two the broker's own recovery reaches
the planned state.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, LOCK_FILE, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kafkalog.log.storage.content import Content, Slice, join, same_bytes
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.facts.survey import Survey

__all__ = ["WRITTEN_AT_STOP", "ActionJson", "ActionKind", "Changes", "RecoveryAction", "difference", "marker_first"]

WRITTEN_AT_STOP = frozenset({RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEAN_SHUTDOWN_FILE, LOCK_FILE})
"""Files of the log directory that only a clean stop writes; mode kafka writes none of them."""


class ActionKind(enum.StrEnum):
    """Kind of change of one path."""

    REMOVE = "remove"
    """move the file to quarantine"""
    TRUNCATE = "truncate"
    """save the tail in quarantine, then cut the file"""
    RENAME = "rename"
    """give the file another name"""
    WRITE = "write"
    """save the file if there is one, then put new content in its place"""
    REMOVE_DIRECTORY = "remove_directory"
    """move a directory with all that is in it to quarantine"""
    RENAME_DIRECTORY = "rename_directory"
    """give the partition directory another name"""
    MAKE_DIRECTORY = "make_directory"
    """create a missing partition directory"""


class RecoveryAction(Struct, frozen=True, kw_only=True):
    """One change; paths are relative to the log directory."""

    kind: ActionKind
    path: str
    size: int | None = None
    """size of the file afterwards in bytes; None if it is removed or renamed"""
    target: str | None = None
    """new name; only for a rename"""
    content: Content | None = None
    """new content; only for a write"""
    modified_ms: int | None = None
    """modification time of the written file, ms since 1970; None: the time of writing"""


class ActionJson(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of a file."""

    kind: ActionKind
    """`remove` moves a file to the quarantine, `truncate` shortens it, `rename` gives it another name, `write` puts new
    content in its place"""
    path: str
    """relative to the log directory"""
    size: int | None = None
    """of the file afterwards, in bytes; absent for what is removed or renamed"""
    target: str | None = None
    """the new name; only of a rename"""


class Changes(Protocol):
    """Planned changes of one log directory: a plan of `recover`, or of another job."""

    @property
    def root(self) -> str:
        """The log directory."""

    @property
    def mode(self) -> str:
        """Name of the mode or job, for the journal."""

    @property
    def survey(self) -> Survey:
        """Survey that the changes were planned from."""

    @property
    def actions(self) -> list[RecoveryAction]:
        """Actions in order."""


class _Difference:
    def __init__(self, before: Survey, after: Mapping[str, Content]) -> None:
        self.before = before
        self.after = after
        self.renamed: dict[str, str] = {}
        self.actions: dict[ActionKind, list[RecoveryAction]] = {kind: [] for kind in ActionKind}

    def add(self, kind: ActionKind, path: str, **values: object) -> None:
        self.actions[kind].append(RecoveryAction(kind=kind, path=path, **values))  # type: ignore[arg-type]

    def compare(self, path: str, content: Content) -> None:
        old = self.before.files.get(path)
        whole = content.parts[0] if len(content.parts) == 1 else None
        if old is not None and content.size == 0:
            if old.size:
                self.add(ActionKind.TRUNCATE, path, size=0)
            return
        if isinstance(whole, Slice) and whole.start == 0 and whole.origin == path:
            if old is not None and whole.length < old.size:
                self.add(ActionKind.TRUNCATE, path, size=whole.length)
            return
        if isinstance(whole, Slice) and self._takes_all_of(whole):
            self.renamed[whole.origin] = path
            if old is not None:
                self.add(ActionKind.REMOVE, path)
            self.add(ActionKind.RENAME, whole.origin, target=path, size=whole.length)
            return
        if old is not None and self._begins_like(path, old.size, content):
            if content.size < old.size:
                self.add(ActionKind.TRUNCATE, path, size=content.size)
            return
        self.add(ActionKind.WRITE, path, size=content.size, content=content)

    def _begins_like(self, path: str, size: int, content: Content) -> bool:
        """Whether the content equals the first bytes of the original file. Raises `StorageError` if a file cannot be
        read.
        """
        if content.size > size:
            return False
        return same_bytes(content, join([Slice(path, 0, content.size)]), self.before.source)

    def _takes_all_of(self, whole: Slice) -> bool:
        origin = self.before.files.get(whole.origin)
        taken = whole.origin in self.after or whole.origin in self.renamed
        return origin is not None and whole.start == 0 and whole.length == origin.size and not taken


def difference(before: Survey, after: Tree, ignore: frozenset[str] = WRITTEN_AT_STOP) -> list[RecoveryAction]:
    """Return the actions that turn the surveyed directory into the tree `after`, in the order in which they have to be
    done; empty if nothing differs. Entries of the log directory in `ignore` are neither compared nor removed.

    Directories are removed first, then files, later segments before earlier ones. All removals come before a log is
    truncated, so that no crash leaves a gap. Then follow truncations, renames and writes of files, and renames of
    directories. If anything changes, the clean-shutdown marker is removed before everything else, even if it is in
    `ignore`. It says that nothing was changed since the stop. May read files to compare them; raises `StorageError` if
    that fails.
    """
    old_name = {new: old for old, new in after.renamed_directories}

    def as_before(path: str) -> str:
        directory, separator, name = path.partition("/")
        return old_name.get(directory, directory) + separator + name

    directories = {as_before(path) for path in after.directories}
    removed = [path for path in sorted(before.directories) if path not in directories and path not in ignore]
    gone = frozenset(removed)
    removed = [path for path in removed if "/" not in path or path.partition("/")[0] not in gone]
    contents = {as_before(path): content for path, content in after.files.items()}
    difference = _Difference(before, contents)
    for path in removed:
        difference.add(ActionKind.REMOVE_DIRECTORY, path)
    for path, content in sorted(contents.items()):
        if path not in ignore:
            difference.compare(path, content)
    for path in before.files:
        kept = path in contents or path in difference.renamed or path in ignore
        if not kept and not any(above in gone for above in _above(path)):
            difference.add(ActionKind.REMOVE, path)
    for old, new in after.renamed_directories:
        difference.add(ActionKind.RENAME_DIRECTORY, old, target=new)
    actions = difference.actions[ActionKind.REMOVE_DIRECTORY]
    actions += sorted(difference.actions[ActionKind.REMOVE], key=lambda action: action.path, reverse=True)
    for kind in (ActionKind.TRUNCATE, ActionKind.RENAME, ActionKind.WRITE, ActionKind.RENAME_DIRECTORY):
        actions += difference.actions[kind]
    return marker_first(before, actions)


def marker_first(before: Survey, actions: list[RecoveryAction]) -> list[RecoveryAction]:
    """Return the actions with the removal of the clean-shutdown marker first, if there is one and there are any
    actions. So no broker ever trusts an interrupted execution; `undo` restores the marker last.
    """
    if CLEAN_SHUTDOWN_FILE not in before.files or not actions:
        return actions
    rest = [action for action in actions if action.path != CLEAN_SHUTDOWN_FILE or action.kind is not ActionKind.REMOVE]
    return [RecoveryAction(kind=ActionKind.REMOVE, path=CLEAN_SHUTDOWN_FILE), *rest]


def _above(path: str) -> Iterator[str]:
    """Yield the directories that contain a file, the innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
