"""What has to be done to turn the directory that is into the one that should be.

The difference between a survey and a virtual tree, as a list of few kinds of actions, in an order in which a crash
between any two leaves a directory that the broker's own recovery brings to the same end.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from kafkalog.classes import dataclass
from kafkalog.codec.names import CLEAN_SHUTDOWN_FILE, LOCK_FILE, LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kafkalog.log.storage.content import Content, Slice, join, same_bytes
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.facts.survey import Survey

__all__ = ["WRITTEN_AT_STOP", "ActionJson", "ActionKind", "Changes", "RecoveryAction", "difference", "marker_first"]

WRITTEN_AT_STOP = frozenset({RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEAN_SHUTDOWN_FILE, LOCK_FILE})
"""Files of the log directory that only an orderly stop writes; mode kafka writes none of them."""


class ActionKind(enum.StrEnum):
    """What is done to one path."""

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
    """make a partition directory that is not there"""


@dataclass(frozen=True, slots=True)
class RecoveryAction:
    """One step; paths are relative to the log directory."""

    kind: ActionKind
    path: str
    size: int | None = None
    """of the file afterwards, in bytes"""
    target: str | None = None
    """new name, of a rename"""
    content: Content | None = None
    """what is written"""
    modified_ms: int | None = None
    """the time that what is written gets; None: that of the writing"""


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
    """What is to be done to one log directory: a plan of `recover`, or of another command."""

    @property
    def root(self) -> str:
        """The log directory."""

    @property
    def mode(self) -> str:
        """What does it, in a word; the journal says so."""

    @property
    def survey(self) -> Survey:
        """What it was made from."""

    @property
    def actions(self) -> list[RecoveryAction]:
        """In order."""


class _Difference:
    def __init__(self, before: Survey, after: Mapping[str, Content]) -> None:
        self.before = before
        self.after = after
        self.renamed: dict[str, str] = {}
        self.actions: dict[ActionKind, list[RecoveryAction]] = {kind: [] for kind in ActionKind}

    def add(self, kind: ActionKind, path: str, **values: object) -> None:
        self.actions[kind].append(RecoveryAction(kind, path, **values))  # type: ignore[arg-type]

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
        """The content is what an original file begins with."""
        if content.size > size:
            return False
        return same_bytes(content, join([Slice(path, 0, content.size)]), self.before.source)

    def _takes_all_of(self, whole: Slice) -> bool:
        origin = self.before.files.get(whole.origin)
        taken = whole.origin in self.after or whole.origin in self.renamed
        return origin is not None and whole.start == 0 and whole.length == origin.size and not taken


def difference(before: Survey, after: Tree, ignore: frozenset[str] = WRITTEN_AT_STOP) -> list[RecoveryAction]:
    """The actions, in the order in which they are to be done; files of the log directory in `ignore` stay as they are.

    Directories that stop a broker go first.  Later segments go before earlier ones, and all of them before a log is
    cut, so that no crash leaves a hole.  A clean-shutdown marker goes before all of them, ignored or not, if anything
    else changes: it says that nobody has been there since the stop.
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
    found = _Difference(before, contents)
    for path in removed:
        found.add(ActionKind.REMOVE_DIRECTORY, path)
    for path, content in sorted(contents.items()):
        if path not in ignore:
            found.compare(path, content)
    for path in before.files:
        kept = path in contents or path in found.renamed or path in ignore
        if not kept and not any(above in gone for above in _above(path)):
            found.add(ActionKind.REMOVE, path)
    for old, new in after.renamed_directories:
        found.add(ActionKind.RENAME_DIRECTORY, old, target=new)
    actions = found.actions[ActionKind.REMOVE_DIRECTORY]
    actions += sorted(found.actions[ActionKind.REMOVE], key=lambda action: action.path, reverse=True)
    for kind in (ActionKind.TRUNCATE, ActionKind.RENAME, ActionKind.WRITE, ActionKind.RENAME_DIRECTORY):
        actions += found.actions[kind]
    return marker_first(before, actions)


def marker_first(before: Survey, actions: list[RecoveryAction]) -> list[RecoveryAction]:
    """The actions with the clean-shutdown marker, if there is one, going before anything else is done.

    An execution that is cut short is then never trusted by a broker; `undo` takes the removal back last.
    """
    if CLEAN_SHUTDOWN_FILE not in before.files or not actions:
        return actions
    rest = [each for each in actions if each.path != CLEAN_SHUTDOWN_FILE or each.kind is not ActionKind.REMOVE]
    return [RecoveryAction(ActionKind.REMOVE, CLEAN_SHUTDOWN_FILE), *rest]


def _above(path: str) -> Iterator[str]:
    """The directories that a file is in."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
