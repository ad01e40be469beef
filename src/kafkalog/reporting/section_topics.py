"""Section with size and rate by topic."""

from __future__ import annotations

from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import ReportFacts
from kafkalog.reporting.markup import Content, code, element, table
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import percent_text, rate_text, size_text, span_text

__all__ = ["MOST", "topics_section"]

MOST = 100


def topics_section(facts: ReportFacts) -> Section | None:
    """Return the section about sizes and rates of topics; None if there are none. It shows the `MOST` largest topics
    and says how many others are left out.
    """
    topics = facts.examined.topics
    if not topics:
        return None
    rows: list[list[Content]] = [
        [
            code(topic.name),
            topic.partitions,
            size_text(topic.size),
            percent_text(topic.size, facts.examined.size),
            topic.records,
            rate_text(topic.records, topic.first_timestamp, topic.last_timestamp),
            rate_text(topic.size, topic.first_timestamp, topic.last_timestamp, of_bytes=True),
            span_text(topic.first_timestamp, topic.last_timestamp),
        ]
        for topic in topics[:MOST]
    ]
    columns = ["topic", "partitions", "size", "share", "records", "records per time", "bytes per time", "time"]
    notes = ["Bytes as stored in the log, compressed; rates over the time span of the records; each copy counts."]
    if len(topics) > MOST:
        rest = topics[MOST:]
        notes.append(
            f"{len(rest):,} smaller topics, {size_text(sum(each.size for each in rest))} together, are left out."
        )
    return section(
        "topics",
        "Topics: size and rate",
        counted(len(topics), "topic"),
        table("Topics by size", columns, rows, numeric=range(1, 7)),
        element("p", " ".join(notes), class_="note"),
        is_open=len(topics) <= MOST // 5,
    )
