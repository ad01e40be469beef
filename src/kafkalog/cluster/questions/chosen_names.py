"""Selection of names that are not topics, such as groups, by names or patterns, each of which must match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kafkalog.codec.common.errors import UnknownName
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.unknown import not_known, quoted, unknown
from kafkalog.log.directories.selection import is_glob, matcher

__all__ = ["WhyUnknown", "chosen_names"]

WhyUnknown = Callable[[str | None], str | None]
"""Reason why a name that was not found, or with None any name, may exist all the same; None if it does not."""


def _is_complete(name: str | None) -> str | None:
    return None


def chosen_names(
    kind: str,
    patterns: Sequence[str],
    known: Iterable[str],
    why_unknown: WhyUnknown = _is_complete,
    findings: Iterable[Finding] = (),
) -> Callable[[str], bool]:
    """Return a predicate that is True for the selected names; it accepts every name if there are no patterns.

    `kind` is the word for such a name in messages, for example `group`. A pattern is a name or a glob. Raises
    `UnknownName` for the first pattern without a match in `known`. `why_unknown` is called with the missing name, or
    with None for a glob. If it returns a reason why `known` may be incomplete, the error has this reason and
    `findings`.
    """
    if not patterns:
        return lambda name: True
    names = set(known)
    for pattern in dict.fromkeys(patterns):
        if pattern in names or (is_glob(pattern) and any(map(matcher(frozenset({pattern})), names))):
            continue
        why = why_unknown(None if is_glob(pattern) else pattern)
        if why is not None:
            kinds = f"{kind}s that match" if is_glob(pattern) else kind
            error = not_known(kinds, pattern, why, () if is_glob(pattern) else names)
            error.findings = tuple(dict.fromkeys(findings))
            raise error
        if is_glob(pattern):
            raise UnknownName(f"no {kind} matches {quoted(pattern)}")
        raise unknown(kind, pattern, names)
    return matcher(frozenset(patterns))
