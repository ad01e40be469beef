"""Section about the limits of the page."""

from __future__ import annotations

from kafkalog.inspect.facts import ReportFacts
from kafkalog.reporting.markup import element, prose
from kafkalog.reporting.section import Section, section

__all__ = ["left_out_section"]


def left_out_section(facts: ReportFacts) -> Section:
    """Return the collapsed section "How to read this" about the limits of the page and of checksums. It has a line if
    records were not decoded, and one line for each path that could not be examined.
    """
    lines = [
        "Everything was read and nothing was changed. What a running broker writes meanwhile may look torn.",
        "Checksums prove that bytes are as they were written; they do not prove who wrote them.",
        "Base offsets, lengths and leader epochs lie outside of checksums: they are compared with each other.",
        "Bytes around damage may show parts of records; `--no-bytes` leaves them out.",
    ]
    if not facts.deep:
        lines.append("Records were not decoded (`--shallow`): problems inside batches are not known.")
    lines += [f"Could not be examined: {each}." for each in facts.unread]
    return section(
        "limits", "How to read this", "", element("ul", [element("li", prose(line)) for line in lines]), is_open=False
    )
