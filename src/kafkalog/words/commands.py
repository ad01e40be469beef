"""Command lines that carry out a way to recover, as a user would type them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.shell import shell_line, shell_option
from kafkalog.codec.names import parse_partition_directory
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.ways import RecoveryWay
from kafkalog.words.order import natural_order
from kafkalog.words.ways import needs_of

__all__ = ["NOTHING_GIVEN", "Given", "PlannedFor", "commands_for", "paths_of", "plan_again", "with_identity"]


class PlannedFor(Protocol):
    """What a recommended command needs to know of a plan: its directories and its ways. Fulfilled by `Plan` and by the
    report's summary of one.
    """

    @property
    def root(self) -> str:
        """The log directory."""

    @property
    def asked_for(self) -> tuple[str, ...]:
        """Names of chosen partition directories; empty if the plan is for the whole log directory."""

    @property
    def changing(self) -> tuple[str, ...]:
        """Names of the partition directories in which the plan itself would change something."""

    @property
    def identity_in(self) -> tuple[str, ...]:
        """The broker's log directories, if this one has lost its `meta.properties`; else empty."""

    @property
    def metadata_beside(self) -> str | None:
        """Path of the metadata log that the plan relies on, if it is in another log directory of the
        broker; else None.
        """

    @property
    def choice(self) -> RecoveryChoice:
        """Compared ways."""

    @property
    def needs_full(self) -> bool:
        """Whether an error is left that a recovery with `full` repairs."""


class Given(Struct, frozen=True, kw_only=True):
    """Arguments of the present command that a recommended command repeats."""

    words: Sequence[str] = ()
    """its options other than the mode and bit repair"""
    of_acting: Sequence[str] = ()
    """those of its options that say how to act, not on what"""
    original: str | None = None
    """the original directory, if a copy of it is worked on; else None"""
    locked: frozenset[str] = frozenset()
    """log directories that a broker or a job is using"""
    without_room: Mapping[str, str] = {}
    """log directory -> why a recovery declines: a file system has too little space"""
    full: frozenset[str] = frozenset()
    """log directories whose file system has no space for the files that a start writes"""
    together: Sequence[str] = ()
    """log directories of one broker that one command is for; alone, one lacks another's metadata"""


NOTHING_GIVEN: Given = Given()
_META_PROPERTIES = "--meta-properties"
_SELECTING = ("--topic", "--partition", "--exclude")
_ABOUT_EVERY_PATH = (*_SELECTING, "--cluster-metadata", "--mark-clean", _META_PROPERTIES)
"""Options that select partitions of all paths, need whole log directories, or concern the metadata log itself."""


def plan_again(paths: Sequence[str], given: Given) -> str:
    """Return the command that plans for these paths, with the options in `given`."""
    return shell_line(["kafkalog", "plan", *paths, *given.words])


def commands_for(way: RecoveryWay, plan: PlannedFor, given: Given = NOTHING_GIVEN) -> list[str]:
    """Return the command lines that carry out a way of recovery, in order; empty if no kafkalog command does. The line
    repeats `given.words`.

    A way that is applied to one partition at a time has a line for each of its partitions, which repeats only
    `given.of_acting`. The lines for all other partitions (`way.rest`) follow if the plan changes one of these. They
    also follow if the recovery of these does more than mode safe does without consent.
    """
    if way.rest is not None:
        of_partition = [
            shell_line(["kafkalog", "recover", *_of_partition(plan, given, name), *needs_of(each), "--yes"])
            for name in way.partitions
            for each in plan.choice.by_partition[name]
            if each.way == way.way
        ]
        more = way.then is not None or any(name not in way.partitions for name in plan.changing)
        return [*of_partition, *(commands_for(way.rest, plan, given) if more else [])]
    if way.how is None:
        return []
    paths, words = paths_of(plan, given), list(given.words)
    if plan.root in paths and not way.spec.is_start:
        paths, words = with_identity(plan, words, paths)
    if plan.needs_full and not (way.how.full or way.spec.is_start or way.measured.damage_left or "--full" in words):
        words.append("--full")  # below the recovery point too there is nothing for it to cut
    return [shell_line(["kafkalog", "recover", *paths, *words, *needs_of(way), "--yes"])]


def with_identity(
    plan: PlannedFor, words: Sequence[str], paths: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return the paths and options of a recovery command. If `meta.properties` is lost, they are all of the broker's
    directories, and an option that restores it is added. Otherwise the options are unchanged, and the paths are
    `paths`, or without them the log directory and the metadata log that the plan relies on.
    """
    if not plan.identity_in:
        return list(paths or [plan.root, *_metadata_beside(plan, words)]), list(words)
    return list(plan.identity_in), list(dict.fromkeys([*words, _META_PROPERTIES]))


def identity_command(plan: PlannedFor, words: Sequence[str]) -> str | None:
    """Return the command that restores a lost `meta.properties`; None if it is not lost, or no other directory of the
    broker can restore it.
    """
    if not plan.identity_in:
        return None
    paths, options = with_identity(plan, words)
    return shell_line(["kafkalog", "recover", *paths, *options, "--yes"])


def _of_partition(plan: PlannedFor, given: Given, name: str) -> list[str]:
    """Return the arguments of `kafkalog recover` that select the partition directory `name`: its path. If a copy of the
    original directory is worked on (`given.original`), these are the path of the original with --topic and --partition
    instead. The options in `given.of_acting` come after the path.
    """
    parsed = parse_partition_directory(name)
    if given.original is None or parsed is None:
        return [os.path.join(plan.root, name), *given.of_acting]
    chosen = [*shell_option("--topic", parsed.topic), "--partition", str(parsed.partition)]
    return [given.original, *given.of_acting, *chosen]


def paths_of(plan: PlannedFor, given: Given) -> list[str]:
    """Return the paths for a command that carries out a plan. If a copy is worked on, this is only the original path
    `given.original`. If the plan is limited to partitions, and no option in `given.words` selects them, these are their
    directories. Otherwise it is the log directory, or all of `given.together` if that contains it. The metadata log on
    which the plan relies may follow, see `_metadata_beside`; not after an original path or `given.together`.
    """
    if given.original is not None:
        return [given.original]
    chosen = any(word.partition("=")[0] in _SELECTING for word in given.words)
    if chosen or not plan.asked_for:
        if plan.root in given.together:
            return list(given.together)
        return [plan.root, *_metadata_beside(plan, given.words)]
    partitions = [os.path.join(plan.root, name) for name in sorted(plan.asked_for, key=natural_order)]
    return [*partitions, *_metadata_beside(plan, given.words)]


def _metadata_beside(plan: PlannedFor, words: Sequence[str]) -> list[str]:
    """Return the path of the metadata log, as a list of one, if the plan relies on one in another directory; recovery
    only reads it. Empty if there is none, or if an option in `words` would apply to that path too.
    """
    is_about_it = any(word.partition("=")[0] in _ABOUT_EVERY_PATH for word in words)
    return [] if plan.metadata_beside is None or is_about_it else [plan.metadata_beside]


def extracting(root: str, topic: str, *options: str) -> str:
    """Return the `undelete` command that writes what was deleted of a topic in the log directory `root` into a new
    directory beside it. `options` are further arguments.
    """
    words = [root, "--topic", topic, *options, "--into", extracted_to(root, topic)]
    return f"kafkalog undelete {shell_line(words)}"


def extracted_to(root: str, topic: str) -> str:
    """Return the path of the directory that the command of `extracting` writes."""
    return f"{root}.undeleted-{topic}"
