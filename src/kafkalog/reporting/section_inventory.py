"""Section with the inventory: log directories, and the partitions in them."""

from __future__ import annotations

from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import Directory, PartitionFacts, ReportFacts
from kafkalog.reporting.markup import Content, Markup, code, element, prose, table
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import offsets_text, size_text, span_text
from kafkalog.words.advice import in_options

__all__ = ["MOST", "inventory_section"]

MOST = 200
_MOST_WORDS = 4
_BROKER = {
    None: "not asked",
    "loaded": "starts on it",
    "start_fails": "would not start",
    "dir_offline": "would take it offline",
}


def inventory_section(facts: ReportFacts) -> Section:
    """Return the section with all log directories and a table of at most `MOST` partitions. Partitions with findings
    are chosen first, then the largest ones; the table is sorted by directory, topic and number. The section is open at
    first if there are at most 60 partitions.
    """
    partitions = facts.examined.partitions
    content: list[Content] = []
    if facts.directories:
        columns = ["log directory", "cluster", "node", "stopped", "partitions", "size", "Kafka"]
        content.append(
            table("Log directories", columns, [_directory(each) for each in facts.directories], numeric=[4, 5])
        )
        content += [
            element("p", code(directory.path), ": ", prose(note), ".")
            for directory in facts.directories
            for note in directory.standing.sentences(in_options)
        ]
    shown = sorted(partitions, key=lambda each: (not each.words, -each.size, each.path))[:MOST]
    shown.sort(key=lambda each: (each.directory, each.topic, each.number if each.number is not None else -1, each.path))
    columns = [
        "partition",
        "state",
        "health",
        "segments",
        "size",
        "log start",
        "offsets",
        "log end",
        "records",
        "time",
        "codecs",
        "directory",
    ]
    content.append(table("Partitions", columns, [_partition(each) for each in shown], numeric=[3, 4, 5, 6, 7, 8]))
    clean = facts.examined.clean_partitions
    words = f"In {clean:,} of {len(partitions):,} partitions nothing was found."
    if len(partitions) > len(shown):
        words += (
            f" {len(partitions) - len(shown):,} partitions are left out of the table: those with findings and the "
            "largest are in it. `kafkalog ls` lists all."
        )
    content.append(element("p", prose(words)))
    return section(
        "inventory", "Inventory", counted(len(partitions), "partition"), *content, is_open=len(partitions) <= 60
    )


def _directory(directory: Directory) -> list[Content]:
    return [
        code(directory.path),
        directory.cluster_id,
        None if directory.node_id is None else str(directory.node_id),
        "cleanly" if directory.clean_shutdown else "not cleanly",
        directory.partitions,
        size_text(directory.size),
        _BROKER.get(directory.broker, directory.broker),
    ]


def _partition(partition: PartitionFacts) -> list[Content]:
    return [
        code(partition.name),
        partition.state,
        _health(partition),
        partition.segments,
        size_text(partition.size),
        str(partition.log_start_offset),
        offsets_text(partition.first_offset, partition.last_offset),
        str(partition.log_end_offset),
        partition.records,
        span_text(partition.first_timestamp, partition.last_timestamp),
        ", ".join(f"{name} {count:,}" for name, count in partition.codecs),
        element("span", partition.directory, class_="path"),
    ]


def _health(each: PartitionFacts) -> Markup:
    if not each.words:
        return element("span", "ok", class_="chip s-ok")
    chips: list[Content] = [[element("span", word, class_="chip s-error"), " "] for word in each.words[:_MOST_WORDS]]
    more = len(each.words) - _MOST_WORDS
    return element("span", chips, f"and {more} more" if more > 0 else "", class_="chips")
