"""The command lines that carry a way out, as somebody would type them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from kafkalog.codec.common.shell import shell_line, shell_option
from kafkalog.codec.names import parse_partition_directory
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.ways import RecoveryWay
from kafkalog.words.order import natural_order
from kafkalog.words.ways import needs_of

__all__ = ["NOTHING_GIVEN", "Given", "PlannedFor", "commands_for", "paths_of", "with_identity"]


class PlannedFor(Protocol):
    """What a plan is for, and its ways: a `Plan`, or what is kept of one."""

    @property
    def root(self) -> str:
        """The log directory."""

    @property
    def asked_for(self) -> tuple[str, ...]:
        """Names of partition directories; none where the plan is for the whole log directory."""

    @property
    def changing(self) -> tuple[str, ...]:
        """Names of the partition directories in which the plan itself would change something."""

    @property
    def identity_in(self) -> tuple[str, ...]:
        """The broker's log directories, where this one has lost its `meta.properties`."""

    @property
    def metadata_beside(self) -> str | None:
        """The metadata log that the plan relies on, if it is in another log directory of the broker."""

    @property
    def choice(self) -> RecoveryChoice:
        """The ways of what was planned."""


class Given(Struct, frozen=True):
    """What a command that is recommended in place of this one repeats."""

    words: Sequence[str] = ()
    """its options but for the mode and bit repair"""
    of_acting: Sequence[str] = ()
    """those of them that say how to act, and not on what"""
    original: str | None = None
    """the directory of which a copy is worked on"""
    locked: frozenset[str] = frozenset()
    """log directories that a broker, or a recovery, is using"""
    together: Sequence[str] = ()
    """the log directories of one broker that one command is for: alone, one does not have the metadata of another"""


NOTHING_GIVEN: Given = Given()
_META_PROPERTIES = "--meta-properties"
_SELECTING = ("--topic", "--partition", "--exclude")
_ABOUT_EVERY_PATH = (*_SELECTING, "--cluster-metadata", "--mark-clean", _META_PROPERTIES)
"""Options that select partitions of all paths, or that need whole log directories, or the metadata log itself."""


def commands_for(way: RecoveryWay, plan: PlannedFor, given: Given = NOTHING_GIVEN) -> list[str]:
    """The command lines that carry a way out, in their order; none if no command of ours does.

    A way of single partitions has one line for each, and one more if the plan changes others, which a start may need.
    """
    if way.spec.is_for_each_partition:
        of_partition = {
            name: shell_line(["kafkalog", "recover", *_of_partition(plan, given, name), *needs_of(each), "--yes"])
            for name, ways in plan.choice.by_partition.items()
            for each in ways
            if each.way is way.way
        }
        rest = [name for name in plan.changing if name not in of_partition]
        return [*of_partition.values(), *(_of_all(plan, given) if rest else [])]
    if way.how is None:
        return []
    paths, words = paths_of(plan, given), list(given.words)
    if plan.root in paths and not way.spec.is_start:
        paths, words = with_identity(plan, words, paths)
    return [shell_line(["kafkalog", "recover", *paths, *words, *needs_of(way), "--yes"])]


def _of_all(plan: PlannedFor, given: Given) -> list[str]:
    """The command line that recovers, in mode safe, everything that was asked about."""
    paths, words = paths_of(plan, given), list(given.words)
    if plan.root in paths:
        paths, words = with_identity(plan, words, paths)
    return [shell_line(["kafkalog", "recover", *paths, *words, "--yes"])]


def with_identity(
    plan: PlannedFor, words: Sequence[str], paths: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """The paths and the options of a recovery of a log directory: a lost `meta.properties` comes from all of them.

    Where none is lost, the paths are `paths`, or else the directory with the metadata log on which the plan relies.
    """
    if not plan.identity_in:
        return list(paths or [plan.root, *_metadata_beside(plan, words)]), list(words)
    return list(plan.identity_in), list(dict.fromkeys([*words, _META_PROPERTIES]))


def _of_partition(plan: PlannedFor, given: Given, name: str) -> list[str]:
    """The arguments that mean one partition."""
    parsed = parse_partition_directory(name)
    if given.original is None or parsed is None:
        return [os.path.join(plan.root, name), *given.of_acting]
    chosen = [*shell_option("--topic", parsed.topic), "--partition", str(parsed.partition)]
    return [given.original, *given.of_acting, *chosen]


def paths_of(plan: PlannedFor, given: Given) -> list[str]:
    """What was asked about: the log directory, or those partition directories of it; and a metadata log beside it."""
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
    """The metadata log in another directory on which the plan relies: with it, the command does what was planned.

    Recovery reads it and leaves it alone.  It is left out if an option of the command would be about it too.
    """
    is_about_it = any(word.partition("=")[0] in _ABOUT_EVERY_PATH for word in words)
    return [] if plan.metadata_beside is None or is_about_it else [plan.metadata_beside]
