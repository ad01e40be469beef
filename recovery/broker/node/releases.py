"""Define the groups of Kafka releases whose starts differ, and the names of groups for people.

A group is named by its first release and ends before the next group begins. Differences are coded where they matter
(`Release.at_least`); this list only has to contain each release at which an answer changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from kafkalog.codec.common.errors import UsageError

__all__ = ["GROUPS", "MODELED", "NEWEST", "Release", "asked_release", "groups_from", "named", "release_of"]

NEWEST = "4.4"
"""the newest release whose start is modeled; later ones get its answers"""

MODELED = "4.1"
"""the release whose loading of logs is modeled"""

_OLDEST = "0.8"
_NUMBERS = re.compile(r"\d+(\.\d+)*")


class Release(Struct, frozen=True, order=True):
    """A release of Kafka as comparable numbers."""

    numbers: tuple[int, ...]

    def at_least(self, text: str) -> bool:
        """Whether this release is `text` or later; missing numbers count as 0."""
        return self.padded >= release_of(text).padded

    @property
    def padded(self) -> tuple[int, int, int]:
        """Three numbers; missing ones are 0."""
        first, second, third = (*self.numbers, 0, 0, 0)[:3]
        return first, second, third

    def __str__(self) -> str:
        return ".".join(map(str, self.numbers))


def release_of(text: str) -> Release:
    """Parse a release such as `4.1` or `3.7.1`. Raises `UsageError` for other text."""
    if _NUMBERS.fullmatch(text.strip()) is None or len(text) > 20:
        raise UsageError(f"{text[:40]!r} is not a release of Kafka; give one such as 4.1 or 3.7.1")
    return Release(tuple(int(part) for part in text.strip().split(".")))


def asked_release(text: str) -> Release:
    """Parse the release that a caller asks about. Raises `UsageError` if the text is not a release, or if the release
    is not known: older than the oldest known one, or newer than `NEWEST`. Later patches of `NEWEST` are accepted.
    """
    release = release_of(text)
    if release.padded[:2] > release_of(NEWEST).padded[:2]:
        raise UsageError(f"Kafka {release} is not known: the newest release that is known is {NEWEST}; ask for that")
    if not release.at_least(_OLDEST):
        raise UsageError(f"Kafka {release} is not known: the oldest release that is known is {_OLDEST}")
    return release


GROUPS: tuple[Release, ...] = tuple(
    release_of(text) for text in ("3.3", "3.4", "3.7.0", "3.7.1", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3", "4.4")
)
"""the first release of each group, oldest first"""


def groups_from(floor: Release) -> Sequence[Release]:
    """The release `floor` and the first release of each later group, oldest first."""
    return (floor, *(group for group in GROUPS if not floor.at_least(str(group))))


def named(releases: Iterable[Release], known: Sequence[Release]) -> str:
    """Name a set of releases for people, such as `3.7.1 to 4.0` or `4.3 and later`; separate spans are joined by `and`.
    `known` are the first releases of all groups, oldest first; releases not in it are ignored. Empty if none is left.
    """
    chosen = set(releases)
    parts = []
    number = 0
    while number < len(known):
        if known[number] not in chosen:
            number += 1
            continue
        first = number
        while number + 1 < len(known) and known[number + 1] in chosen:
            number += 1
        parts.append(_span(known, first, number))
        number += 1
    return " and ".join(parts)


def _span(known: Sequence[Release], first: int, last: int) -> str:
    if last == len(known) - 1:
        return f"{known[first]}" + (" and later" if str(known[last]) == NEWEST or first < last else "")
    return f"{known[first]}" if first == last else f"{known[first]} to {known[last]}"
