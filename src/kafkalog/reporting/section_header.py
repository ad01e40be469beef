"""Top of the page: the verdict, facts about the examination, and the index."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.common.wording import counted, plural
from kafkalog.inspect.facts import ReportFacts
from kafkalog.reporting.losses import loss_rows
from kafkalog.reporting.markup import Content, Markup, code, element, table
from kafkalog.reporting.section import Section
from kafkalog.reporting.summary import summary_of
from kafkalog.reporting.verdict import ReportVerdict
from kafkalog.reporting.wording import records_counted, seconds_text, size_text, span_text

__all__ = ["header_section", "index_of_sections"]

_SIGNS = {"clean": "✓", "findings": "!", "damaged": "✕", "unreadable": "?"}
_MOST_PATHS = 20


def header_section(facts: ReportFacts, verdict: ReportVerdict) -> Markup:
    """Return the top of the page as HTML, in this order:

    * the verdict with its exit code, and the summary
    * the table of losses, if there are any
    * the counts of examined directories, topics, partitions, segments, bytes and records
    * facts such as times and the first `_MOST_PATHS` paths
    """
    examined = facts.examined
    times = [partition for partition in examined.partitions if partition.first_timestamp is not None]
    first = min((time.first_timestamp for time in times if time.first_timestamp is not None), default=None)
    last = max((time.last_timestamp for time in times if time.last_timestamp is not None), default=None)
    banner = element(
        "div",
        element("span", _SIGNS[verdict.word], class_="sign", aria_hidden="true"),
        element(
            "div",
            element("p", verdict.sentence, class_="sentence"),
            element("p", f"Exit code {int(verdict.code)}: {verdict.meaning}.", class_="note"),
        ),
        class_=f"verdict v-{verdict.word}",
        role="status",
    )
    more = len(facts.paths) - _MOST_PATHS
    paths: list[Content] = [element("div", code(path)) for path in facts.paths[:_MOST_PATHS]]
    if more > 0:
        paths.append(element("div", f"and {more} more"))
    rows: list[tuple[str, Content]] = [
        ("Examined", paths),
        ("When", seconds_text(facts.made_at)),
        ("By", f"kafkalog {facts.version}, which changed nothing"),
        ("Records from", span_text(first, last) or "no time is known"),
    ]
    if facts.arguments:
        rows.insert(1, ("Options", code(" ".join(facts.arguments))))
    numbers = [
        (counted(len(facts.directories), "log directory"), None),
        (f"{len(examined.topics):,} {plural(len(examined.topics), 'topic')}", None),
        (f"{len(examined.partitions):,} {plural(len(examined.partitions), 'partition')}", None),
        (f"{examined.segments:,} {plural(examined.segments, 'segment')}", None),
        (size_text(examined.size), None),
        (records_counted(facts), None),
    ]
    asked = [[element("dt", name), element("dd", sentence)] for name, sentence in summary_of(facts)]
    return element(
        "div",
        banner,
        element("dl", asked, class_="asked"),
        _losses(facts),
        element("ul", [_number(text) for text, _ in numbers], class_="numbers"),
        element("dl", [[element("dt", name), element("dd", value)] for name, value in rows], class_="facts"),
    )


def _losses(facts: ReportFacts) -> Markup | None:
    """Return the table of losses; None if there are none. Its cells wrap, so that all columns fit the page. The column
    for records that can be decoded although nothing proves them is included only if a row has some.
    """
    found = loss_rows(facts)
    has_eye = any(loss_row.by_eye for loss_row in found)
    columns = ["topic-partition", "lost permanently", "lost by a simple start", "written",
               *(["can be shown by explain --records"] if has_eye else [])]  # fmt: skip
    rows: list[list[Content]] = [
        [code(row.partition), *(element("span", cell) for cell in (row.permanently, row.by_start, row.written)),
         *([element("span", row.by_eye)] if has_eye else [])]
        for row in found
    ]  # fmt: skip
    return table("Lost records", columns, rows) if rows else None


def _number(text: str) -> Markup:
    amount, _, noun = text.partition(" ")
    return element("li", element("strong", amount), " ", noun)


def index_of_sections(sections: Sequence[Section]) -> Markup:
    """Return the HTML of the links to the sections, with their notes."""
    links = [
        element("li", element("a", each.title, href=f"#{each.anchor}"), " ", element("span", each.note, class_="note"))
        for each in sections
    ]
    return element("nav", element("ul", links), class_="index", aria_label="Sections")
