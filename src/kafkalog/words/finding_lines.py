"""Sentences about findings, one for all that say the same of many places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog.codec.common.findings import Finding
from kafkalog.words.advice import told

__all__ = ["finding_lines"]

_PLACES = 3
"""Most findings with the same words that get a sentence each, and places that the sentence about more of them names."""


def finding_lines(
    findings: Iterable[Finding], *, every: bool = False
) -> Iterator[tuple[str, list[Finding]]]:
    """Yield sentences about findings, each with the findings that it is about. More than three findings with the same
    code, severity and detail get one sentence, at the place of the first. It has their number and the first three
    places. All others get a sentence each, in their order. With `every`, each finding gets its own.
    """
    findings, alike = list(findings), dict[tuple[str, str, str], list[Finding]]()
    for finding in findings:
        alike.setdefault((finding.severity, finding.code, finding.detail), []).append(finding)
    for finding in findings:
        group = alike[finding.severity, finding.code, finding.detail]
        place = finding.place
        if every or len(group) <= _PLACES:
            group = [finding]
        elif finding is group[0]:
            place = f"{len(group)} places: {'; '.join(each.place for each in group[:_PLACES])} and so on"
        else:
            continue
        yield f"{finding.severity}: {finding.code}{f' ({place})' if place else ''}: {told(finding.detail)}", group
