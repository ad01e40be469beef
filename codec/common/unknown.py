"""Errors about names that do not exist, with the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.codec.common.errors import UnknownName

__all__ = ["nearest", "not_known", "quoted", "unknown", "unknown_number"]

_LONGEST_COMPARED = 300
"""in characters; Kafka's topics have at most 249"""
_MOST_COMPARED = 20_000
_LONGEST_SHOWN = 120
_MOST_LISTED = 20


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name` (`difflib`). If none is similar enough, compare without regard to
    case. Return None if still none is, or if `name` has more than `_LONGEST_COMPARED` characters. Only the first
    `_MOST_COMPARED` known names in alphabetical order are compared, without those of more than `_LONGEST_COMPARED`
    characters.
    """
    if len(name) > _LONGEST_COMPARED:
        return None
    from difflib import get_close_matches

    names = [candidate for candidate in sorted(set(known))[:_MOST_COMPARED] if len(candidate) <= _LONGEST_COMPARED]
    matches = get_close_matches(name, names, n=1)
    if matches:
        return matches[0]
    folded = {candidate.casefold(): candidate for candidate in names}
    matches = get_close_matches(name.casefold(), folded, n=1)
    return folded[matches[0]] if matches else None


def quoted(name: str) -> str:
    """Return a name in single quotes for a sentence. A very long name is cut and ends with `…`."""
    return f"'{name}'" if len(name) <= _LONGEST_SHOWN else f"'{name[:_LONGEST_SHOWN]}…'"


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return (not raise) the error for a name that is not among the known ones: `there is no topic 'ordes'; did you
    mean 'orders'?`. `kind` is the noun; the question is left out if no known name is similar.
    """
    return UnknownName(f"there is no {kind} {quoted(name)}{_hint(name, known)}")


def _hint(name: str, known: Iterable[str]) -> str:
    like = nearest(name, known)
    return "" if like is None else f"; did you mean {quoted(like)}?"


def not_known(kind: str, name: str, why: str, known: Iterable[str] = ()) -> UnknownName:
    """Return (not raise) the error for a name that was looked up and not found: `nothing is known of group 'g': …`.
    `why` is the text after the colon. If one of the `known` names is similar, the error asks whether it was meant.
    """
    return UnknownName(f"nothing is known of {kind} {quoted(name)}: {why}{_hint(name, known)}")


def unknown_number(kind: str, number: int, known: Iterable[int]) -> UnknownName:
    """Return (not raise) the error for a number that is not among the known ones: `there is no broker 9; there are 1,
    2, 3`. `kind` is the noun; at most `_MOST_LISTED` numbers are listed, in ascending order, none if `known` is empty.
    """
    existing = sorted(set(known))
    if not existing:
        return UnknownName(f"there is no {kind} {number}")
    listed = ", ".join(map(str, existing[:_MOST_LISTED])) + (", …" if len(existing) > _MOST_LISTED else "")
    return UnknownName(f"there is no {kind} {number}; there {'is' if len(existing) == 1 else 'are'} {listed}")
