"""Print the result of a recovery."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog.cli.repairing.ways_text import sentence_of_damage_left, sentences_of_log_starts
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.common.shell import shell_word
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.recovery import RecoveryResult
from kafkalog.recovery.broker.node.answer import NodeStart
from kafkalog.recovery.broker.node.sentences import node_sentences
from kafkalog.recovery.decide.aftermath import BY_AGE
from kafkalog.recovery.decide.choice import ranges_text
from kafkalog.recovery.decide.losses import first_names, lost_beside, lost_text, repeats_text, skipped_text
from kafkalog.recovery.decide.moved_to_quarantine import put_away
from kafkalog.recovery.decide.plan import other_brokers_in_sync
from kafkalog.words.advice import told
from kafkalog.words.commands import extracting
from kafkalog.words.escapes import escape_controls
from kafkalog.words.insides import NOT_EXAMINED
from kafkalog.words.node import mends
from kafkalog.words.outlook import (
    Outlook,
    beyond_end_text,
    consequence_sentences,
    looks_in_quarantine,
    removed_sentence,
    topics_of,
)
from kafkalog.words.quarantine import quarantine_sentence

__all__ = ["print_result"]

_CONSEQUENCES = 8
"""Most consequences of a recovery that are said again after it."""
_NAMED = 3
_EXTRACTS = 3
"""Most topics whose commands to extract deleted records are printed."""


def print_result(result: RecoveryResult, said: set[str] | None = None) -> None:
    """Print the result of a recovery: notes, earlier executions that were completed or set aside, and partitions that
    were left unchanged. If nothing was changed, the state of the directory follows; otherwise kept and lost records,
    consequences, the next start of a broker, and the command that reverses the recovery.

    `said` has the sentences about starts that were printed for other directories, which are not repeated; those of this
    one are added. May read the metadata log; raises `StorageError` if that fails.
    """
    root, told_before = escape_controls(result.plan.root), set() if said is None else said
    with SentenceWriter() as writer:
        for note in result.notes:
            writer.write(escape_controls(note))
        for run, left in result.earlier.steps.items():
            steps = counted(left, "step")
            writer.write(f"run {run}, which had been cut short, was completed: {steps} of it had been left to do")
        for run, why in result.earlier.superseded.items():
            writer.write(f"run {run}, which had been cut short, was set aside: {escape_controls(why)}")
        withheld = result.marker_withheld or result.earlier.marker_withheld
        if withheld is not None:
            writer.write(f"no clean-shutdown marker was written: {escape_controls(withheld)}")
        for name, why in result.declined.items():
            writer.write(f"{escape_controls(name)} was left as it is: {escape_controls(told(why))}")
        if result.run_id is None:
            writer.write(f"{root}: {_what_is_left(result, told_before)}")
            return
        writer.write(f"recovered {root}: run {result.run_id}")
        writer.write(_kept(result))
        for sentence in (*_fetched_again(result), *sentences_of_log_starts(result.plan)):
            writer.write(escape_controls(sentence))
        damage = sentence_of_damage_left(result.plan.choice.own)
        if damage is not None:
            writer.write(damage)
        writer.write(quarantine_sentence(result.plan.root, result.quarantine))
        plan = result.plan
        outlook = Outlook(root=plan.root, forecast=None, choice=plan.choice, findings=plan.findings)
        for sentence in looks_in_quarantine(outlook, result.quarantine or ""):
            writer.write(escape_controls(sentence))
        for sentence in _in_deleted_files(result):
            writer.write(escape_controls(sentence))
        consequences = consequence_sentences(each for each in plan.consequences if each.way is None)
        for sentence in consequences[:_CONSEQUENCES]:
            writer.write(escape_controls(sentence))
        left = len(consequences) - _CONSEQUENCES
        if left > 0:
            writer.write(f"and {counted(left, 'more consequence')}, in the plan above")
        writer.write(_broker(result, told_before))
        for mend in mends(result.node, (partition.name for partition in result.plan.partitions)):
            writer.write(escape_controls(mend.sentence))
        writer.write(f"to undo this: kafkalog undo {shell_word(result.plan.root)} --run {result.run_id}")


def _in_deleted_files(result: RecoveryResult) -> Iterator[str]:
    """Yield at most two sentences about `.deleted` files that the recovery moved to quarantine: one about files with
    lost offsets, with a command that lists them; one about files with offsets beyond the end of their log, with
    commands that extract these (of the first `_EXTRACTS` topics).
    """
    plan, beyond = result.plan, result.plan.deleted_beyond_end
    if plan.lost_in_deleted:
        listing = f"kafkalog undelete {shell_word(plan.root)}"
        yield f"`.deleted` files there have lost offsets of {first_names(plan.lost_in_deleted)}: {listing}"
    if beyond:
        extracts = [extracting(plan.root, topic, "--source", result.run_id or "") for topic in topics_of(beyond)]
        more = f", and {counted(len(extracts) - _EXTRACTS, 'more topic')} likewise" * (len(extracts) > _EXTRACTS)
        commands = " && ".join(extracts[:_EXTRACTS])
        yield f"`.deleted` files there hold {beyond_end_text(beyond)}, to be extracted by this{more}: {commands}"


def _what_is_left(result: RecoveryResult, said: set[str]) -> str:
    if result.leaves_a_fault and result.node is not None:
        return f"nothing was changed, and {_of_node(result.node, said)}"
    if result.plan.needs_full:
        return "nothing was changed; what the findings above say of indexes stays, until it is recovered with --full"
    if not result.completed:
        return "nothing was changed; what is said above stays" if result.leaves_a_problem else "nothing to do"
    if not result.plan.changes and result.plan.refusal is None:
        return "nothing else to do"
    return f"more is to be done: `kafkalog recover {shell_word(result.plan.root)}` plans for what is left"


def _kept(result: RecoveryResult) -> str:
    measured = result.plan.choice.own
    if measured.records_kept is None:
        kept = "every record that could be read is kept"
    else:
        kept = f"{counted(measured.records_kept, 'record')} {'is' if measured.records_kept == 1 else 'are'} kept"
    if measured.records_hidden:
        kept += f", {measured.records_hidden} of them skipped: {skipped_text([measured])}"
    if not measured.records_lost:
        if measured.markers_damaged:
            return f"{kept}; none is lost but {counted(measured.markers_damaged, 'marker')} of the end of a transaction"
        beside = lost_beside(() if result.node is None else (result.node,), result.plan.findings)
        none = f"none of these is lost; lost beside them: {'; '.join(beside)}" if beside else "none is lost"
        if not result.plan.mode.spec.resumes:
            none = f"{none}; {NOT_EXAMINED}"
        return f"{kept}; {none}" if measured.is_exact else f"{kept}; what the damage hid is unknown"
    verb = "is" if measured.records_lost == 1 and measured.is_exact else "are"
    ranges = escape_controls(ranges_text(measured.lost, named=True) + repeats_text(measured))
    return f"{kept}; {lost_text(measured)} {verb} lost ({ranges or 'others have their offsets'})"


def _fetched_again(result: RecoveryResult) -> Iterator[str]:
    """Yield a sentence for each group of other brokers that have partitions in sync which were set aside here: this
    broker fetches these again. It names the first `_NAMED`. Yield nothing if the mode does not set aside whole
    partitions.
    """
    by_brokers: dict[tuple[int, ...], list[str]] = {}
    if result.plan.mode.spec.takes_whole_partitions:
        for directory in put_away(result.plan):
            others = other_brokers_in_sync(directory.path, result.plan.topics)
            by_brokers.setdefault(others, []).append(directory.path)
    for others, names in by_brokers.items():
        if others:
            are = "broker {} is" if len(others) == 1 else "brokers {} are"
            yield (
                f"by the metadata, {are.format(', '.join(map(str, others)))} in sync: this broker fetches "
                f"{first_of(names, _NAMED)} again from the leader, which must be alive first"
            )


def _broker(result: RecoveryResult, said: set[str]) -> str:
    node, but, note = result.node, "", result.plan.note_of_identity
    also, gone = "", result.plan.deleted_partitions
    is_old = any(consequence.kind in BY_AGE for consequence in result.plan.consequences)
    changed = ["what retention deletes"] * is_old + ["what was deleted"] * (gone is not None)
    nothing = f"changes only {' and '.join(changed)}" if changed else "changes nothing"
    if gone is not None:
        also = f"; {escape_controls(removed_sentence({result.plan.root: gone}))}"
    if note is not None:
        but = f", but {escape_controls(note)}"
    elif node is not None and (any(answer.is_of_upgrade for answer in node.answers) or not node.changes_nothing):
        but = f", but {_of_node(node, said)}"
    if result.plan.survey.is_partial:
        return (
            "a broker that starts on the directory changes nothing in the partitions that were recovered; whether it "
            f"starts was not examined: `kafkalog plan` of the whole log directory tells{but}{also}"
        )
    if result.plan.mode.spec.is_as_broker:
        return f"this is what the broker would have left: at its next start it continues from here{but}{also}"
    if result.declined:
        stay = "those left as they are may stop its start"
        return f"a broker opens the recovered partitions and changes nothing; {stay}{but}{also}"
    if but:
        return f"a broker changes nothing in these logs{but}{also}"
    if result.plan.needs_full:
        also = f"; what the findings above say of indexes stays, until it is recovered with --full{also}"
    if result.plan.topics.source is None and result.plan.partitions:
        return (
            f"a broker that starts on it now opens it, and {nothing} unless topics have settings for segments or "
            f"indexes that were not given: the metadata with the settings of topics is not in this directory{also}"
        )
    if result.plan.needs_full:
        return f"a broker that starts on it now opens it and {nothing} in it{also}"
    if any(finding.code is FindingCode.PARTITION_MISSING for finding in result.plan.findings):
        return f"a broker that starts on it now opens it and {nothing} in it; what is missing stays missing{also}"
    return f"a broker that starts on it now opens it and {nothing}{also}"


def _of_node(node: NodeStart, said: set[str]) -> str:
    """Return the sentences about the node's start, and add them to `said`. If `said` has them already, return a phrase
    that says so.
    """
    text = escape_controls("; ".join(node_sentences(node)))
    if text in said:
        return "its start does what is said above"
    said.add(text)
    return text
