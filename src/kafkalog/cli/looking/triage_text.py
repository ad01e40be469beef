"""Text of `kafkalog triage`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.tables import MANY, Column, print_table, size_text
from kafkalog.cluster.rules.departures import NO_LEADER
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.jobs.triage.outcome import PartitionTriage
from kafkalog.jobs.triage.run import Triage
from kafkalog.jobs.triage.unknown import UnknownPartition
from kafkalog.recovery.decide.losses import first_names
from kafkalog.words.escapes import escape_controls
from kafkalog.words.node import sentence_of_empty_voters

__all__ = ["print_triage"]


_UNKNOWN: list[str | Column] = ["topic", "partition", "broker", "offsets", Column("why", wraps=True)]
_PLACES = 3
_WHY_NONE = ", because a broker that is taken to stay down may be the last one in the ISR"


def _words(nodes: Iterable[int]) -> str:
    return " ".join(map(str, nodes))


def _leaders(nodes: Sequence[int]) -> str:
    """Return the possible leaders as text, such as `2 3 or none`; `none` if there is none."""
    led = _words(node for node in nodes if node != NO_LEADER)
    return " or ".join(filter(None, [led, "none" if NO_LEADER in nodes else ""]))


def _losses(each: PartitionTriage) -> str:
    """Return text about the offsets that other copies lose under each possible leader; empty if nothing is lost and no
    leader's log is damaged. An example is `under 2: 1 loses 40-59`, with node ids and inclusive offsets. `under N` is
    omitted if only one leader is possible. Leaders with a damaged log are named last.
    """
    told = []
    for leader, losses in each.losses.items():
        if not losses:
            continue
        nodes: dict[str, list[str]] = {}
        for node, loss in sorted(losses.items()):
            nodes.setdefault(f"{loss.start}-{loss.end - 1}", []).append(str(node))
        lost = ", ".join(
            f"{' and '.join(several)} {'loses' if len(several) == 1 else 'lose'} {offsets}"
            for offsets, several in nodes.items()
        )
        told.append(lost if len(each.leaders) == 1 else f"under {leader}: {lost}")
    told += [f"{leader} is damaged in {counted(each.flaws[leader], 'place')}" for leader in each.flawed_leaders]
    return "; ".join(told)


def _row(each: PartitionTriage) -> list[object]:
    ends = " ".join(f"{node}:{log.end}" for node, log in sorted(each.logs.items()))
    leaders = _leaders(each.leaders) if each.is_foreseen else "not foreseen"
    return [each.topic, each.partition, _words(each.known.isr), leaders, ends, _words(each.best), _losses(each)]


def _unknown_row(partition: UnknownPartition) -> list[object]:
    offsets = f"{partition.start}-{partition.end - 1}" if partition.end > partition.start else "none"
    return [partition.topic, partition.partition, partition.node, offsets, partition.why]


def print_triage(triage: Triage) -> None:
    """Print sentences about losses and the order of starts, then tables of elections and of the partitions that the
    metadata does not know. The second table is omitted if there are none. If there are more than `MANY` partitions,
    the elections are only those at risk. If voters without metadata are a majority, what is to be done about them comes
    first.
    """
    with SentenceWriter() as writer:
        if triage.empty_voters is not None:
            writer.write(escape_controls(sentence_of_empty_voters(triage.empty_voters)))
        for line in _summary(triage):
            writer.write(escape_controls(line))
        writer.write("")
    _print_elections(triage)
    if triage.unknown:
        print_table("partitions that the metadata does not know", _UNKNOWN, map(_unknown_row, triage.unknown))


def _print_elections(triage: Triage) -> None:
    """Print a table of partitions for each different advice, under the advice, then one of the partitions without any.
    Without partitions, print one line that ends in `none`.
    """
    shown = triage.partitions if len(triage.partitions) <= MANY else triage.at_risk
    by_advice: dict[str, list[PartitionTriage]] = {}
    for partition in shown:
        by_advice.setdefault(partition.advice.sentence(), []).append(partition)
    columns: list[str | Column] = [
        "topic",
        "partition",
        Column("ISR", drop=2),
        Column("leader" if triage.order is not None else "possible leaders", wraps=True),
        Column("log ends", wraps=True, drop=1),
        "best copy",
        Column("lost", wraps=True, if_any=True),
    ]
    without = by_advice.pop("", [])
    for advice, partitions in by_advice.items():
        title = f"advice for {counted(len(partitions), 'partition')}: {advice}"
        print_table(title, columns, map(_row, partitions))
    if without or not by_advice:
        print_table(f"{'other ' if by_advice else ''}elections {_if_started(triage)}", columns, map(_row, without))


def _if_started(triage: Triage) -> str:
    return "in any order of starts" if triage.order is None else f"if {', '.join(map(str, triage.order))} start"


def _of_unknown(triage: Triage) -> list[str]:
    """Return sentences about partitions that are in brokers' directories but not in the metadata, and so get no leader:
    their number, what a broker does to them, and the other copies of the metadata that know them, if any. Empty if
    there are no such partitions.
    """
    if not triage.unknown:
        return []
    partitions = len({(partition.topic, partition.partition, partition.topic_id) for partition in triage.unknown})
    each_is = "is" if partitions == 1 else "are"
    lost = (
        f"{counted(partitions, 'partition')} in the brokers' directories {each_is} lost to the cluster: nobody leads "
        "what the metadata does not know. A broker with KRaft renames such a directory to -stray when it starts (3.3 "
        "to 3.6 delete it): start none before the metadata is right."
    )
    lines = [lost]
    places = sorted({partition.known_to for partition in triage.unknown if partition.known_to is not None})
    if places:
        lines.append(f"Known to another copy of the metadata: {first_of(places, _PLACES)}.")
    return lines


def _cut_by_start(partitions: Sequence[PartitionTriage]) -> str:
    """Return a sentence about the copies in `PartitionTriage.cut_by_start`, which brokers truncate when they start,
    before any election. It names the first `_PLACES` copies and counts the others. There must be at least one.
    """
    cut = [(partition, log) for partition in partitions for log in partition.cut_by_start]
    named = [
        f"broker {log.node} cuts {size_text(log.cut_bytes)} off {triage.topic}-{triage.partition}, which then ends at "
        f"offset {log.end}"
        for triage, log in cut[:_PLACES]
    ]
    more = f"; and {len(cut) - _PLACES} more" if len(cut) > _PLACES else ""
    return (
        f"Before any election, when it starts, {'; '.join(named)}{more}. Run `kafkalog plan` on its directories first: "
        "it says what that loses, and how to keep it."
    )


def _compared(found: Triage) -> str:
    """Return a clause that says which orders of starts the named one is the best of."""
    if found.are_all_compared:
        return "no other order of starts is better"
    return f"{counted(found.orders_compared, 'order')} of starts that differ in the first broker were compared"


def _summary(found: Triage) -> list[str]:
    """Return sentences in the order in which they are needed: what is at risk, what to do and in which order of starts,
    then why.
    """
    basis = [f"broker {node} is taken to stay down: {why}" for node, why in sorted(found.not_starting.items())]
    total = counted(len(found.partitions), "partition")
    basis.append(f"{total}, foreseen {_if_started(found)} from {found.source}")
    if found.elected:
        basis.append(found.elected)
    cut = [_cut_by_start(found.cut_by_start)] if found.cut_by_start else []
    below = [f"{partition.topic}-{partition.partition}" for partition in found.below_high_watermark]
    gone = [f"{partition.topic}-{partition.partition}" for partition in found.partitions if partition.is_gone]
    if below:
        cut.append(
            f"Committed records of {first_names(below)} are in no copy here: all end below a high watermark that a "
            "broker wrote down (`kafkalog verify`)."
        )
    if found.below_min_isr:
        basis.insert(
            0,
            f"Fewer replicas of {first_names(found.below_min_isr)} come up than min.insync.replicas: from Kafka 3.7 on "
            "consumers then read no further than the last high watermark that the leader wrote down, and get "
            "OFFSET_NOT_AVAILABLE for the end. Set min.insync.replicas=1 for these topics, and restart their leaders.",
        )
    if found.is_clean:
        lost = "Nothing that is on these disks is lost" if found.without_disks or below else "Nothing is lost"
        by = "by the elections, and every partition gets a leader; `kafkalog plan` says what the logs have lost already"
        return [*cut, f"{lost} {by}.", *basis]
    lost_anyway = [f"Apart from the elections, {sentence}." for sentence in found.lost_by_start]
    if gone:
        was = f"What was in {first_names(gone)} is lost"
        lost_anyway.append(f"{was}: it has no directory here, and begins again, empty.")
    return [*_of_unknown(found), _at_risk(found), *cut, *_order_of_starts(found), *lost_anyway, *basis]


def _at_risk(found: Triage) -> str:
    worse = sum(partition.may_be_led_worse for partition in found.partitions)
    lose, none = sum(each.may_lose for each in found.partitions), sum(each.may_have_none for each in found.partitions)
    return (
        f"{counted(lose, 'partition')} may lose records, {worse} may be led by a copy that is not the best, and {none} "
        f"may have no leader{_WHY_NONE if none and found.not_starting else ''}."
    )


def _order_of_starts(found: Triage) -> list[str]:
    """Return sentences about the best order of starts, what it leaves at risk, and how an unclean election is asked
    for.
    """
    lines = []
    later = [] if found.order is None else [str(node) for node in found.best_order if node not in found.order]
    if later:
        lines.append(f"What {', '.join(later)} would lose, starting later than these, is not shown.")
    if not found.best_order:
        return [*lines, "No broker is known to start with these directories."]
    order = ", ".join(map(str, found.best_order))
    elections = [
        f"An unclean election is asked for by {found.unclean_election}. What only other brokers hold is lost by it."
    ] * any(partition.advice.elect is not None for partition in found.partitions)
    if found.unknown:
        return [*lines, f"Once the metadata is right, the order of starts that loses least is: {order}.", *elections]
    rest = found.worse_in_best_order
    needs = "needs what is advised below" if rest == 1 else "need what is advised below"
    after = f"{counted(rest, 'partition')} still {needs}" if rest else "a best copy leads each partition"
    if rest:
        after += f" ({_compared(found)})"
    held = {node for partition in found.partitions for node in partition.advice.hold_back}
    back = ""
    if held:
        names = ", ".join(str(node) for node in found.best_order if node in held)
        back = f" Start {names} only after the steps below that hold {names} back."
    lines.append(f"{found.first_step}: {order}.{back} With that, {after}{_lost_under_best(found.partitions)}.")
    return [*lines, *elections]


def _lost_under_best(partitions: Iterable[PartitionTriage]) -> str:
    """Return a clause about the offsets that other copies lose if best copies lead; empty if there are none. An offset
    that several copies lose is counted once.
    """
    lost = [_most_lost(partition) for partition in partitions]
    several = counted(sum(map(bool, lost)), "partition")
    return f", and other copies of {several} lose {counted(sum(lost), 'offset')}" if any(lost) else ""


def _most_lost(partition: PartitionTriage) -> int:
    most = 0
    for leader in partition.best:
        lost, end = 0, 0
        for loss in sorted(partition.losses.get(leader, {}).values(), key=lambda each: each.start):
            lost += max(loss.end - max(loss.start, end), 0)
            end = max(end, loss.end)
        most = max(most, lost)
    return most
