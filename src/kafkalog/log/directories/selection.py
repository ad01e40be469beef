"""Which topic-partitions somebody wants, by topic, partition number and what is left out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from kafkalog.codec.errors import UnknownName, UsageError
from kafkalog.codec.findings import Finding, FindingCode
from kafkalog.codec.names import parse_partition_directory
from kafkalog.codec.unknown import quoted, unknown

__all__ = ["ALL", "Selection", "is_glob", "matcher", "unreadable_names"]

_GLOB_CHARACTERS = frozenset("*?[")
_MOST_LISTED = 20


def is_glob(text: str) -> bool:
    """Whether it is a pattern; no legal name of a topic holds one of these characters."""
    return not _GLOB_CHARACTERS.isdisjoint(text)


@lru_cache(maxsize=16)
def matcher(patterns: frozenset[str]) -> Callable[[str], bool]:
    """Whether a name is one of the names, or matches one of the patterns, as `fnmatch` has them; case counts."""
    globs = sorted(filter(is_glob, patterns))
    if not globs:
        return patterns.__contains__
    expression = re.compile("|".join(map(translate, globs)))
    return lambda name: name in patterns or expression.match(name) is not None


class Selection(Struct, frozen=True):
    """Partitions of the topics that match `topics`, or of all; `excluded` are topics, or partitions as `topic-0`.

    Topics and what is excluded are names or patterns with `*`, `?` and `[…]`; case counts.
    """

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    excluded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topics: Iterable[str] = (), partitions: Iterable[int] = (), excluded: Iterable[str] = ()) -> Selection:
        """The selection of what was given, in any order and any number of times."""
        return cls(frozenset(topics), frozenset(partitions), frozenset(excluded))

    def takes_topic(self, topic: str) -> bool:
        """Whether a topic is wanted, as far as it is not a matter of single partitions."""
        if self.topics and not matcher(self.topics)(topic):
            return False
        return not (self.excluded and matcher(self.excluded)(topic))

    def takes(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition is wanted; one whose name is not known only where all are."""
        if topic is None or partition is None:
            return self == ALL
        if self.partitions and partition not in self.partitions:
            return False
        if not self.takes_topic(topic):
            return False
        return not (self.excluded and matcher(self.excluded)(f"{topic}-{partition}"))

    def check(self, at_hand: Iterable[tuple[str, int]]) -> None:
        """`UnknownName` for a topic or partition that is not at hand; `UsageError` where nothing is left.

        A pattern of `topics` must match something; one of `excluded` need not.
        """
        if self == ALL:
            return
        keys = set(at_hand)
        names = {topic for topic, _ in keys}
        for each in sorted(self.topics):
            if each in names or (is_glob(each) and any(map(matcher(frozenset({each})), names))):
                continue
            if is_glob(each):
                raise UnknownName(f"no topic matches {quoted(each)}")
            raise unknown("topic", each, names)
        self._check_numbers(keys)
        partitions = {f"{topic}-{number}" for topic, number in keys}
        for each in sorted(self.excluded):
            if not is_glob(each) and each not in names and each not in partitions:
                raise unknown("topic or partition", each, names | partitions)
        if keys and not any(self.takes(*key) for key in keys):
            raise UsageError("everything that was selected is excluded")

    def _check_numbers(self, keys: set[tuple[str, int]]) -> None:
        wanted = {key for key in keys if not self.topics or matcher(self.topics)(key[0])}
        there = {number for _topic, number in wanted}
        for number in sorted(self.partitions - there):
            topics = {topic for topic, _ in wanted}
            if len(topics) != 1:
                raise UnknownName(
                    f"there is no partition {number} of any topic{' that was selected' * bool(self.topics)}"
                )
            listed = sorted(there)
            shown = ", ".join(map(str, listed[:_MOST_LISTED])) + (", …" if len(listed) > _MOST_LISTED else "")
            numbers = f"partition{'s' * (len(listed) > 1)} {shown}"
            raise UnknownName(f"topic {quoted(topics.pop())} has no partition {number} here; it has {numbers}")

    def of_unreadable(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings about what is wanted among those about what cannot be read.

        All whose names tell no partition.
        """
        found = []
        for finding in findings:
            names = unreadable_names([finding])
            if not names or any(self.takes(*name) for name in names):
                found.append(finding)
        return found

    def directories(self, root: str, names: Iterable[str]) -> frozenset[str] | None:
        """The wanted ones of the directories of a log directory; None for all.

        `UnknownName` if there is none.
        """
        if self == ALL:
            return None
        parsed = {each: name for each in names if (name := parse_partition_directory(each)) is not None}
        found = frozenset(each for each, name in parsed.items() if self.takes(name.topic, name.partition))
        if not found:
            self.check((name.topic, name.partition) for name in parsed.values())
            raise UnknownName(f"{root} holds none of the requested partitions")
        return found


ALL = Selection()


def unreadable_names(findings: Iterable[Finding]) -> list[tuple[str, int]]:
    """Topic and number of the partitions of which a directory, or a file in it, could not be read."""
    names = []
    for finding in findings:
        if finding.code is FindingCode.UNREADABLE and finding.file is not None:
            for part in (finding.file, os.path.dirname(finding.file)):
                parsed = parse_partition_directory(os.path.basename(part))
                if parsed is not None:
                    names.append((parsed.topic, parsed.partition))
    return names
