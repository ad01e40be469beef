"""Select topic-partitions by topic, partition number and exclusion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from kafkalog.codec.common.arguments import check_fields, checked
from kafkalog.codec.common.errors import UnknownName, UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.unknown import quoted, unknown
from kafkalog.codec.names import parse_partition_directory

__all__ = ["ALL", "Selection", "is_glob", "matcher", "unreadable_names"]

_GLOB_CHARACTERS = frozenset("*?[")
_MOST_LISTED = 20


def is_glob(text: str) -> bool:
    """Whether a text is a wildcard pattern: it contains `*`, `?` or `[`, which no legal topic name contains."""
    return not _GLOB_CHARACTERS.isdisjoint(text)


@lru_cache(maxsize=16)
def matcher(patterns: frozenset[str]) -> Callable[[str], bool]:
    """Return a function that tells whether a name is in `patterns` or matches one of them as a wildcard pattern
    (`fnmatch`, case-sensitive). Without patterns it returns False for every name.
    """
    globs = sorted(filter(is_glob, patterns))
    if not globs:
        return patterns.__contains__
    expression = re.compile("|".join(map(translate, globs)))
    return lambda name: name in patterns or expression.match(name) is not None


@checked("takes_topic", "takes", "check", "of_unreadable", "directories")
class Selection(Struct, frozen=True):
    """Selection of partitions: those of the topics that match `topics` (empty: all topics), with the numbers in
    `partitions` (empty: all), except `excluded`, which are topics or partitions such as `topic-0`. Topics and
    exclusions may be names or patterns with `*`, `?` and `[…]`, and are case-sensitive. `ALL` selects everything.
    """

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    excluded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_fields(self)

    @classmethod
    def of(cls, topics: Iterable[str] = (), partitions: Iterable[int] = (), excluded: Iterable[str] = ()) -> Selection:
        """Return a selection of the given topics, partition numbers and exclusions; order and repetitions do not
        matter.
        """
        return cls(frozenset(topics), frozenset(partitions), frozenset(excluded))

    def takes_topic(self, topic: str) -> bool:
        """Whether a topic is selected and not excluded as a whole. Partition numbers are not considered."""
        if self.topics and not matcher(self.topics)(topic):
            return False
        return not (self.excluded and matcher(self.excluded)(topic))

    def takes(self, topic: str | None, partition: int | None) -> bool:
        """Return whether a partition is selected. Its topic and number must match, and neither its topic nor
        `topic-number` may be excluded. A partition whose topic or number is unknown (None) is selected only by `ALL`.
        """
        if topic is None or partition is None:
            return self == ALL
        if self.partitions and partition not in self.partitions:
            return False
        if not self.takes_topic(topic):
            return False
        return not (self.excluded and matcher(self.excluded)(f"{topic}-{partition}"))

    def check(self, at_hand: Iterable[tuple[str, int]]) -> None:
        """Check that the topics and partitions named in the selection exist. `at_hand` are the pairs of topic and
        number of the existing partitions. `ALL` is not checked.

        Raises `UnknownName` if a topic, a partition number or an excluded name does not exist, or if a pattern in
        `topics` has no match. A pattern in `excluded` need not have a match. Raises `UsageError` if everything that was
        selected is excluded.
        """
        if self == ALL:
            return
        keys = set(at_hand)
        names = {topic for topic, _ in keys}
        for pattern in sorted(self.topics):
            if pattern in names or (is_glob(pattern) and any(map(matcher(frozenset({pattern})), names))):
                continue
            if is_glob(pattern):
                raise UnknownName(f"no topic matches {quoted(pattern)}")
            raise unknown("topic", pattern, names)
        self._check_numbers(keys)
        partitions = {f"{topic}-{number}" for topic, number in keys}
        for pattern in sorted(self.excluded):
            if not is_glob(pattern) and pattern not in names and pattern not in partitions:
                raise unknown("topic or partition", pattern, names | partitions)
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
        """Return the findings that belong to selected partitions, in order. `findings` are about paths that cannot be
        read. A finding whose file belongs to no partition is included.
        """
        selected = []
        for finding in findings:
            names = unreadable_names([finding])
            if not names or any(self.takes(*name) for name in names):
                selected.append(finding)
        return selected

    def directories(self, root: str, names: Iterable[str]) -> frozenset[str] | None:
        """Return the selected names among `names`, which are directories in the log directory `root`. Return None for
        `ALL`. If none of them is selected, raise `UsageError` if exclusions are the reason, and `UnknownName`
        otherwise.
        """
        if self == ALL:
            return None
        parsed = {directory: name for directory in names if (name := parse_partition_directory(directory)) is not None}
        selected = frozenset(path for path, name in parsed.items() if self.takes(name.topic, name.partition))
        if not selected:
            try:
                self.check((name.topic, name.partition) for name in parsed.values())
            except UnknownName as error:
                raise UnknownName(f"{root}: {error}") from None
            raise UnknownName(f"{root} holds none of the requested partitions")
        return selected


ALL = Selection()


def unreadable_names(findings: Iterable[Finding]) -> list[tuple[str, int]]:
    """Return topic and number of each partition whose directory, or a file directly in it, is named by a finding.
    `findings` are about paths that could not be read. The result is in the order of the findings; a partition may occur
    several times. Findings about other paths, or without a path, are ignored.
    """
    names = []
    for finding in findings:
        if finding.file is not None:
            for part in (finding.file, os.path.dirname(finding.file)):
                parsed = parse_partition_directory(os.path.basename(part))
                if parsed is not None:
                    names.append((parsed.topic, parsed.partition))
    return names
