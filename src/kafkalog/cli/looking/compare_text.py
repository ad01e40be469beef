"""Print a comparison of volumes: a table of all copies, and a paragraph for each partition whose copies are not
equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from kafkalog.cli.output import LineWriter
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.tables import Column, print_table
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted
from kafkalog.copies.comparison import Comparison, CopyReport, PartitionComparison
from kafkalog.inspect.group_losses import GroupLoss
from kafkalog.words.escapes import escape_controls
from kafkalog.words.wrapping import before_command

__all__ = ["print_comparison", "print_losses"]


def print_comparison(comparison: Comparison) -> None:
    """Print a comparison of copies on standard output, without its findings. A table has one row per copy, and each
    partition that is not clean gets a paragraph. At the end come the source of the ISRs, the paths that were skipped or
    are unreadable, and the number of equal and complete partitions.
    """
    print_table(
        "copies",
        [
            "partition",
            Column("copy", wraps=True),
            Column("start", drop=3),
            "end",
            Column("high watermark", drop=4),
            Column("epoch", drop=5),
            Column("records", drop=2),
            Column("damage", wraps=True, if_any=True, alarms=True),
            Column("standing", wraps=True),
        ],
        [
            [
                f"{partition.topic}-{partition.partition}",
                partition.label(copy),
                *_numbers(copy),
                "" if copy.damage is None else f"{copy.damage.code}, {copy.records_behind_damage} after",
                _standing(partition, copy),
            ]
            for partition in comparison.partitions
            for copy in partition.copies
        ],
    )
    with SentenceWriter() as writer:
        for each in comparison.partitions:
            if not each.is_clean:
                writer.write("")
                for paragraph in _paragraphs(f"{each.topic}-{each.partition}:", _sentences(each)):
                    writer.write(escape_controls(paragraph))
        writer.write("")
        for line in _end(comparison):
            writer.write(escape_controls(line))


def print_losses(losses: Sequence[GroupLoss]) -> None:
    """Print a table of the offsets that groups have read but the best copies lack, and of the offsets that groups will
    skip; one row per group and partition. If `losses` is empty, print a sentence that says so.
    """
    if not losses:
        with LineWriter() as writer:
            writer.write("groups: none has read anything that the best copies lack")
        return
    print_table(
        "groups",
        [
            "group",
            "partition",
            Column("committed", drop=2),
            Column("epoch", drop=3),
            "read and gone",
            "never seen",
            Column("still in", drop=1, wraps=True),
        ],
        [
            [
                loss.group,
                f"{loss.topic}-{loss.partition}",
                loss.committed_offset,
                loss.leader_epoch,
                ("" if loss.is_certain else "perhaps ") + f"{loss.gone_first} to {loss.committed_offset - 1}",
                "" if loss.unseen_last is None else f"{loss.gone_first} to {loss.unseen_last}",
                loss.held_by,
            ]
            for loss in losses
        ],
    )


def _numbers(copy: CopyReport) -> list[object]:
    if copy.error is not None:
        return [None] * 5
    return [copy.log_start_offset, copy.log_end_offset, copy.high_watermark, copy.last_epoch, copy.records]


def _standing(partition: PartitionComparison, copy: CopyReport) -> str:
    """Return how a copy compares with the best one, in a few words: `unreadable`, `best`, `the only copy`, `same`, or
    differences separated by commas, such as `lacks 3 records, starts at 20`. `other end` means that only the log ends
    differ. A copy that was not compared is `same`, unless it starts at another offset.
    """
    if copy.error is not None:
        return "unreadable"
    if copy is partition.best:
        return "best" if len(partition.copies) > 1 else "the only copy"
    difference = copy.difference
    words = []
    if copy.diverges and copy.past is not None:
        words.append(f"diverges at {copy.past.offset}")
    elif difference is not None and difference.other_bytes is not None:
        words.append(f"different bytes at {difference.other_bytes[0].offset}")
    if difference is not None and difference.lacks is not None and not copy.diverges:
        words.append(f"lacks {counted(difference.lacks_records, 'record')}")
    if difference is not None and difference.has_alone is not None and not copy.diverges:
        words.append(f"has {difference.has_alone_records} more")
    if partition.best is not None and copy.log_start_offset != partition.best.log_start_offset:
        words.append(f"starts at {copy.log_start_offset}")
    return ", ".join(words) or ("other end" if partition.differs(copy) else "same")


def _paragraphs(label: str, sentences: Iterable[str]) -> Iterator[str]:
    """Yield the text `label` and the sentences after it, in paragraphs. A sentence that ends in a command ends its
    paragraph, and loses its final period.
    """
    text = label
    for sentence in sentences:
        is_command = before_command(sentence) is not None
        text = f"{text} {sentence.removesuffix('.') if is_command else sentence}".lstrip()
        if is_command:
            yield text
            text = ""
    if text:
        yield text


def _sentences(partition: PartitionComparison) -> Iterator[str]:
    best = partition.best
    if best is None:
        yield "No copy can be read."
    else:
        yield f"The best copy is {_named(partition, best)}: {partition.why}.{_election(partition)}"
    for copy in partition.copies:
        if copy.error is not None:
            yield f"{copy.path} cannot be read: {copy.error}."
            continue
        yield from _damage(partition, copy)
        if best is not None and copy is not best:
            yield from _against(partition, copy, best)
    for node in partition.missing:
        yield f"Broker {node} should hold a copy according to the cluster's metadata; none is in its given volumes."
    if best is not None and (best.damage is not None or _some_have_more(partition)):
        yield "`kafkalog merge` makes one log from all of them."


def _named(partition: PartitionComparison, copy: CopyReport) -> str:
    label = partition.label(copy)
    return label if label == copy.path else f"that of {label} ({copy.path})"


def _some_have_more(partition: PartitionComparison) -> bool:
    return any(
        copy.difference is not None and copy.difference.has_alone is not None and not copy.diverges
        for copy in partition.copies
    )


def _election(partition: PartitionComparison) -> str:
    state, best = partition.replica_state, partition.best
    if state is None or best is None:
        return ""
    if not state.may_lead:
        return " The cluster's metadata names no replica that may lead."
    nodes = ", ".join(map(str, state.may_lead))
    who = f"the ISR {nodes}" if state.isr else f"no ISR, and {nodes} as eligible to lead"
    if best.in_sync is None:
        return f" The cluster's metadata has {who}."
    if best.in_sync:
        return f" The cluster's metadata has {who}: Kafka may elect it."
    return f" But the cluster's metadata has {who}: Kafka would elect none but these."


def _damage(partition: PartitionComparison, copy: CopyReport) -> Iterator[str]:
    damage = copy.damage
    if damage is None:
        return
    behind = f"{copy.records_behind_damage} sound records come" if copy.records_behind_damage else "nothing sound comes"
    more = f", and {copy.damaged_places - 1} more damaged places" if copy.damaged_places > 1 else ""
    yield (
        f"{_subject(partition, copy)} is damaged: {damage.code} in {damage.file} at byte {damage.position} "
        f"({damage.detail}); {behind} after it{more}."
    )


def _subject(partition: PartitionComparison, copy: CopyReport) -> str:
    label = partition.label(copy)
    return label if label == copy.path else label.capitalize()


def _against(partition: PartitionComparison, copy: CopyReport, best: CopyReport) -> Iterator[str]:
    difference, past = copy.difference, copy.past
    subject, other = _subject(partition, copy), partition.label(best)
    if difference is None:
        return
    if copy.diverges and past is not None:
        until = f"leader epoch {past.epoch} up to offset {past.offset}" if past.epoch is not None else "no leader epoch"
        seen = copy.high_watermark is not None and copy.high_watermark > past.offset
        read = f" Consumers may have read them: its high watermark was {copy.high_watermark}." if seen else ""
        own = f"{counted(copy.records_cut, 'record')} {'is' if copy.records_cut == 1 else 'are'} its own"
        yield (
            f"{subject} diverges: both have {until} in common, and after it {own}, "
            f"up to offset {copy.log_end_offset - 1}; Kafka would remove them to follow {other}.{read}"
        )
        if copy.records_cut and not partition.topic.startswith("__"):  # what is internal goes with its own cluster
            yield f"They can be written under another name: {_replay_of(partition, copy, past.offset)}."
    elif copy.high_watermark is not None and copy.high_watermark > best.log_end_offset:
        yield (
            f"The high watermark of {partition.label(copy)} was {copy.high_watermark}: consumers may have read more "
            f"than {other} has."
        )
    if difference.other_bytes is not None:
        here, there = difference.other_bytes
        yield (
            f"{subject} has different bytes than {other} from offset {max(here.offset, there.offset)} on, in "
            f"{counted(difference.other_batches, 'batch')}: {here.path} at byte {here.position}, {there.path} at byte "
            f"{there.position}."
        )
        if difference.only_epoch_differs:
            yield "They differ only in the leader epoch, which no checksum covers."
        unreadable = {subject: difference.unreadable_batches, other: difference.unreadable_there_batches}
        for whose, batches in unreadable.items():
            if batches:
                yield f"Of these, the records of {counted(batches, 'batch')} cannot be read in {whose}."
    if difference.lacks is not None:
        cause = ", where it is damaged" if difference.lacks_for_damage else ""
        yield (
            f"{subject} lacks {counted(difference.lacks_records, 'record')} that {other} has, the first at offset "
            f"{difference.lacks.offset}{cause}; its log ends at {copy.log_end_offset}."
        )
    if difference.has_alone is not None and not copy.diverges:
        cause = ", where that is damaged" if difference.has_alone_for_damage else ""
        place = difference.has_alone
        yield (
            f"{subject} has {counted(difference.has_alone_records, 'record')} that {other} lacks, the first at offset "
            f"{place.offset} ({place.path}, byte {place.position}){cause}."
        )
    if copy.log_start_offset != best.log_start_offset:
        yield f"{subject} begins at offset {copy.log_start_offset}, {other} at {best.log_start_offset}."
    if difference.cleaned:
        yield f"{difference.cleaned} batches differ only by compaction, which is not a difference between the logs."


def _replay_of(partition: PartitionComparison, copy: CopyReport, start: int) -> str:
    """Return a `kafkalog replay` command that writes the records from offset `start` on of this copy into a topic with
    the suffix `-lost`. It is quoted for a shell; the user must replace its placeholder HOST:PORT. It has the number of
    replicas of the partition if the cluster's metadata is known, else the cluster's default applies.
    """
    topic, state = partition.topic, partition.replica_state
    factor = ["--replication-factor", str(len(state.replicas))] if state is not None and state.replicas else []
    return shell_line([
        "kafkalog", "replay", "--topic", topic, "--partition", str(partition.partition), "--start-offset", str(start),
        "--rename", f"{topic}={topic}-lost", *factor,
        "--bootstrap-server", "HOST:PORT", os.path.dirname(copy.path) or ".",
    ])  # fmt: skip


def _not(count: int) -> str:
    return "" if not count else "; 1 is not" if count == 1 else f"; {count} are not"


def _end(comparison: Comparison) -> Iterator[str]:
    """Yield the last lines of a comparison: the source of the ISRs, or why they are unknown or may be outdated; paths
    that were skipped; paths that cannot be read; and the number of equal and complete partitions.
    """
    if comparison.memory is not None:
        yield f"ISRs: from {comparison.memory}"
    if comparison.memory_problem is not None:
        yield f"ISRs {'may be older' if comparison.memory else 'are unknown'}: {comparison.memory_problem}"
    for path in comparison.left_out:
        yield f"left out: {path}"
    for path, reason in comparison.unreadable:
        yield f"cannot be read: {path}: {reason}"
    wrong = sum(not partition.is_clean for partition in comparison.partitions)
    count = len(comparison.partitions)
    yield f"{count - wrong} of {count} partitions are equal and complete" + _not(wrong)
