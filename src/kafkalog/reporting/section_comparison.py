"""Section that compares the copies of partitions on several brokers, as `kafkalog compare` finds them."""

from __future__ import annotations

from kafkalog.codec.common.wording import counted
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.inspect.facts import ReportFacts
from kafkalog.reporting.markup import Content, code, element, prose, table
from kafkalog.reporting.section import Section, section
from kafkalog.words.exit_codes import sentence_of

__all__ = ["comparison_section", "standing_of"]

_MOST = 100


def comparison_section(facts: ReportFacts) -> Section | None:
    """Return the section about partitions with several or missing copies. The first `_MOST` partitions whose copies
    differ are described in full. If the comparison failed, the section has only the reason. None if nothing was
    compared.
    """
    if facts.comparison_problem is not None:
        why = sentence_of(facts.comparison_problem)
        return section("copies", "Copies compared", "not compared", element("p", f"{why}."))
    comparison = facts.comparison
    if comparison is None:
        return None
    several = [partition for partition in comparison.partitions if len(partition.copies) > 1 or partition.missing]
    differing = [partition_comparison for partition_comparison in several if not partition_comparison.is_clean]
    content: list[Content] = [_sum(comparison, several, differing)]
    columns = ["partition", "copy", "log start", "log end", "high watermark", "epoch", "records", "damage", "standing"]
    rows = [
        [
            code(f"{partition_comparison.topic}-{partition_comparison.partition}"),
            partition_comparison.label(copy),
            *_numbers(copy),
            "" if copy.damage is None else f"{copy.damage.code}, {copy.records_behind_damage} after it",
            standing_of(partition_comparison, copy),
        ]
        for partition_comparison in differing[:_MOST]
        for copy in partition_comparison.copies
    ]
    if rows:
        content.append(table("Partitions whose copies are not equal and complete", columns, rows, numeric=range(2, 7)))
    content += [
        element("p", element("strong", code(f"{each.topic}-{each.partition}")), f": {_why(each)}")
        for each in differing[:_MOST]
    ]
    if len(differing) > _MOST:
        words = f"{len(differing) - _MOST:,} more are left out; `kafkalog compare` shows all."
        content.append(element("p", prose(words)))
    return section("copies", "Copies compared", f"{len(differing):,} differ" if differing else "all equal", *content)


def _sum(comparison: Comparison, several: list[PartitionComparison], differing: list[PartitionComparison]) -> Content:
    words = (
        f"{len(several) - len(differing):,} of {counted(len(several), 'partition')} with several copies are equal and "
        f"complete in all of them."
    )
    if comparison.memory is not None:
        words += f" ISRs: from {comparison.memory}."
    if comparison.memory_problem is not None:
        words += f" ISRs {'may be older' if comparison.memory else 'are unknown'}: {comparison.memory_problem}."
    if differing:
        words += " `kafkalog compare` shows more, `kafkalog merge` makes one log of what all copies hold."
    return element("p", prose(words))


def _numbers(copy: CopyReport) -> list[Content]:
    if copy.error is not None:
        return [None] * 5
    numbers = (copy.log_start_offset, copy.log_end_offset, copy.high_watermark, copy.last_epoch)
    return [*(None if number is None else str(number) for number in numbers), copy.records]


def standing_of(partition: PartitionComparison, copy: CopyReport) -> str:
    """Return how a copy compares with the best one, in a few words: `unreadable: …`, `best`, `the only copy`, `same`,
    or its differences in records, separated by commas. If the records are equal and only the start or end of the log
    differs, it is `other start or end`.
    """
    if copy.error is not None:
        return f"unreadable: {copy.error}"
    if copy is partition.best:
        return "best" if len(partition.copies) > 1 else "the only copy"
    words, difference = [], copy.difference
    if copy.diverges and copy.past is not None:
        words.append(f"diverges at {copy.past.offset}, {counted(copy.records_cut, 'record')} of its own")
    elif difference is not None and difference.other_bytes is not None:
        words.append(f"different bytes at {difference.other_bytes[0].offset}")
    if difference is not None and not copy.diverges:
        if difference.lacks is not None:
            words.append(f"lacks {counted(difference.lacks_records, 'record')} from {difference.lacks.offset} on")
        if difference.has_alone is not None:
            words.append(f"has {difference.has_alone_records} more")
    return ", ".join(words) or ("other start or end" if partition.differs(copy) else "same")


def _why(partition: PartitionComparison) -> str:
    if partition.best is None:
        return "no copy can be read."
    text = f"the best copy is that of {partition.label(partition.best)}: {partition.why}."
    if partition.is_elected is not None:
        text += " Kafka may elect it." if partition.is_elected else " Kafka would not elect it: it is not in the ISR."
    for node in partition.missing:
        text += f" Broker {node} should hold a copy, and none is in its volumes."
    return text
