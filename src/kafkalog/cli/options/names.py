"""Options that name groups and other things with ids of their own: names or patterns, each of which must exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

from kafkalog.cli.lines import unique
from kafkalog.cli.output import report_findings
from kafkalog.codec.errors import UnknownName
from kafkalog.codec.findings import Finding
from kafkalog.codec.unknown import not_known, quoted, unknown
from kafkalog.log.directories.selection import is_glob, matcher

__all__ = ["GROUPS", "WhyUnknown", "chosen_names"]

GROUPS = click.option(
    "--group", "groups", metavar="GROUP", multiple=True,
    help="Only this group: a name or a pattern with *, ? and [...]; may be repeated.",
)  # fmt: skip


WhyUnknown = Callable[[str | None], str | None]
"""why a name that was not found may be there all the same, or None for any name; None where it is not there"""


def _is_complete(name: str | None) -> str | None:
    return None


def chosen_names(
    kind: str,
    patterns: Sequence[str],
    known: Iterable[str],
    why_unknown: WhyUnknown = _is_complete,
    findings: Sequence[Finding] = (),
) -> Callable[[str], bool]:
    """Predicate for the known names that are chosen, all without a pattern.

    Raises `UnknownName` for a pattern without a match.  If `why_unknown` returns a reason why the names may be
    incomplete, the error contains it and `findings` are reported.
    """
    if not patterns:
        return lambda name: True
    names = set(known)
    for each in dict.fromkeys(patterns):
        if each in names or (is_glob(each) and any(map(matcher(frozenset({each})), names))):
            continue
        why = why_unknown(None if is_glob(each) else each)
        if why is not None:
            report_findings(unique(findings))
            raise not_known(f"{kind}s that match", each, why) if is_glob(each) else not_known(kind, each, why, names)
        if is_glob(each):
            raise UnknownName(f"no {kind} matches {quoted(each)}")
        raise unknown(kind, each, names)
    return matcher(frozenset(patterns))
