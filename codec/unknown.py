"""Names that do not exist: what is said of one, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.codec.errors import UnknownName

__all__ = ["nearest", "not_known", "quoted", "unknown", "unknown_number"]

_LONGEST_COMPARED = 300
"""characters; Kafka's topics have at most 249"""
_MOST_COMPARED = 20_000
_LONGEST_SHOWN = 120
_MOST_LISTED = 20


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, else most like it but for its case; None if there is none like it."""
    if len(name) > _LONGEST_COMPARED:
        return None
    from difflib import get_close_matches

    names = [each for each in sorted(set(known))[:_MOST_COMPARED] if len(each) <= _LONGEST_COMPARED]
    found = get_close_matches(name, names, n=1)
    if found:
        return found[0]
    folded = {each.casefold(): each for each in names}
    found = get_close_matches(name.casefold(), folded, n=1)
    return folded[found[0]] if found else None


def quoted(name: str) -> str:
    """A name for a sentence, in quotes and cut where it is very long."""
    return f"'{name}'" if len(name) <= _LONGEST_SHOWN else f"'{name[:_LONGEST_SHOWN]}…'"


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not among the known ones: `there is no topic 'ordes'; did you mean 'orders'?`."""
    return UnknownName(f"there is no {kind} {quoted(name)}{_hint(name, known)}")


def _hint(name: str, known: Iterable[str]) -> str:
    like = nearest(name, known)
    return "" if like is None else f"; did you mean {quoted(like)}?"


def not_known(kind: str, name: str, why: str, known: Iterable[str] = ()) -> UnknownName:
    """The error for a name that was not found where it may have been: `nothing is known of group 'g': …`."""
    return UnknownName(f"nothing is known of {kind} {quoted(name)}: {why}{_hint(name, known)}")


def unknown_number(kind: str, number: int, known: Iterable[int]) -> UnknownName:
    """The error for a number that is not among the known ones: `there is no broker 9; there are 1, 2, 3`."""
    there = sorted(set(known))
    if not there:
        return UnknownName(f"there is no {kind} {number}")
    listed = ", ".join(map(str, there[:_MOST_LISTED])) + (", …" if len(there) > _MOST_LISTED else "")
    return UnknownName(f"there is no {kind} {number}; there {'is' if len(there) == 1 else 'are'} {listed}")
