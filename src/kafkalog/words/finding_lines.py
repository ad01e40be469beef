"""Sentences about findings, one for all that say the same of many places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkalog.codec.common.findings import Finding
from kafkalog.words.advice import told

__all__ = ["finding_lines"]

_PLACES = 3
"""Most findings with the same words that get a sentence each, and places that the sentence about more of them names."""


def finding_lines(findings: Iterable[Finding]) -> Iterator[tuple[str, list[Finding]]]:
    """Yield sentences about findings, each with the findings that it is about, in the order of their first ones. More
    than three findings with the same code, severity and detail get one sentence, with their number and the first three
    places. All others get a sentence each.
    """
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.severity, finding.code, finding.detail), []).append(finding)
    for (severity, code, detail), group in alike.items():
        for part in [group] if len(group) > _PLACES else [[finding] for finding in group]:
            place = "; ".join(finding.place for finding in part[:_PLACES])
            place = f"{len(part)} places: {place} and so on" if len(part) > 1 else place
            yield f"{severity}: {code}{f' ({place})' if place else ''}: {told(detail)}", part
