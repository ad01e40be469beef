"""Combine the plans for the log directories of a broker into one verdict, which is shown as the first screen."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import (
    CLUSTER_METADATA_DIRECTORY,
    DirectoryState,
    FileKind,
    compressed_log,
    parse_partition_directory,
    segment_file,
)
from kafkalog.inspect.lost_batches import LostBatch, is_of_batch, lost_batch_at, when_written
from kafkalog.recovery.broker.node.answer import (
    ID_OF_ANOTHER_TOPIC,
    READ_ONLY,
    ConsequenceKind,
    EmptiedConsequence,
    LedShortConsequence,
    LostDirectoryConsequence,
    NodeStart,
    Part,
    PerhapsEmptiedConsequence,
    ServedConsequence,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.releases import MODELED
from kafkalog.recovery.broker.node.sentences import is_lost_and_emptied, node_sentences, start_fails, start_sentences
from kafkalog.recovery.checks.deleted_beyond_end import DeletedBeyondEnd
from kafkalog.recovery.decide.aftermath import BY_AGE, GETS_ITS_NAME, LossConsequence
from kafkalog.recovery.decide.choice import RecoveryChoice, ranges_text
from kafkalog.recovery.decide.deleted_data import DeletedPartitions, different_records
from kafkalog.recovery.decide.losses import (
    UNLESS_ELSEWHERE,
    first_names,
    lost_beside,
    readable_text,
    records_text,
    repeats_text,
    sentence_of_lost,
)
from kafkalog.recovery.decide.plan import BrokerForecast
from kafkalog.recovery.decide.ways import Measured, RecoveryWay, total
from kafkalog.words.commands import extracting
from kafkalog.words.first_screen import FirstScreen, Loss, StartForecast, start_lines
from kafkalog.words.next_step import DONE_NEXT, NOTHING_TO_DO, NextStep, StepKind, note_of_copied, note_of_ways
from kafkalog.words.node import before_any_start
from kafkalog.words.order import natural_order
from kafkalog.words.quarantine import place_in_quarantine

__all__ = [
    "NEEDS_ROOM", "Outlook", "beyond_end_text", "consequence_sentences", "copies_to_keep", "first_screen",
    "forecast_sentences", "how_logs_load", "looks_in_quarantine", "losses_of", "out_of_service_sentence",
    "partitions_that_lose", "removed_sentence", "renaming_text", "topics_of", "wrong_log_starts",
]  # fmt: skip

_SHOWN = 24
"""Most partitions whose lost batches are read again for their times."""
_NAMED = 3
_STOPS = ("marker_lost", "transaction_stays_open")
"""kinds of loss consequences of transactions at which readers of committed data stop"""
_STOP_AT = "read_committed consumers stop at "
_REFUSING = "first writes may be lost though acknowledged, later ones refused"
_OUT = (ConsequenceKind.STRAY, ConsequenceKind.DELETED)

NEEDS_ROOM: Final = "but a start writes files, for which its file system has no space"


class Outlook(Struct, frozen=True, kw_only=True):
    """Forecast and plan for one log directory."""

    root: str
    forecast: BrokerForecast | None
    """None if no plan could be made"""
    choice: RecoveryChoice
    consequences: Sequence[LossConsequence] = ()
    names: Sequence[str] = ()
    """partition directories in the plan, also those that are out of service by their names"""
    made_stray: Sequence[str] = ()
    """partition directories that the plan takes out of service"""
    others: str = ""
    """text after each forecast, if the plan is not for the whole directory"""
    step: NextStep = NextStep()
    findings: Sequence[Finding] = msgspec.field(default=())
    """findings of the plan; their files are relative to the directory"""
    deleted: DeletedPartitions | None = None
    """deleted partitions that a start removes; None if there are none"""
    beyond_end: Sequence[DeletedBeyondEnd] = ()
    """deleted segments that a start removes, with records beyond the end of their log"""


def forecast_sentences(forecast: BrokerForecast, by_kafka: Iterable[Measured] = ()) -> list[str]:
    """Return sentences about Kafka's next start, one for each group of releases with the same outcome. If the node's
    start is unknown and the directory would be loaded, sentences about replicas that would become -stray follow. Last
    come sentences about a start after the plan, if one of them is new. `by_kafka` are the losses of the start, by
    partition.
    """
    renamed = [f"Kafka {MODELED} would rename {name} -stray: the metadata has no such replica here"
               for name in (forecast.strays if forecast.node is None else ())]  # fmt: skip
    how = how_logs_load(by_kafka, is_clean=forecast.clean_shutdown)
    told = start_sentences(forecast.node, forecast.outcome, forecast.exception, forecast.message, how)
    return [*told, *(renamed if forecast.outcome == "loaded" else ()), *_sentences_after(forecast)]


def _sentences_after(forecast: BrokerForecast) -> list[str]:
    """Return sentences about what the node's start fails at or loses even after the plans, the first with the words
    `after this plan`. Sentences that also hold for a start before the plans are left out; names in parentheses may
    differ. Empty if nothing is lost or there is no forecast.
    """
    if forecast.node is None or forecast.after is None or forecast.after.loses_nothing:
        return []
    known = set(map(_without_names, node_sentences(forecast.node)))
    new = [sentence for sentence in node_sentences(forecast.after) if _without_names(sentence) not in known]
    return [f"after this plan, {new[0].removeprefix('and ')}", *new[1:]] if new else []


def _without_names(sentence: str) -> str:
    """Return a sentence without what is in parentheses, such as the names of the first partitions and their epochs."""
    return re.sub(r" \([^()]*\)", "", sentence)


def copies_to_keep(forecast: BrokerForecast) -> list[str]:
    """Return the paths of `-future` directories (unfinished moves between log directories) from which a start removes
    records, each once.
    """
    answers = () if forecast.node is None else forecast.node.answers
    consequences = (consequence for answer in answers for consequence in answer.consequences)
    kind = ConsequenceKind.FUTURE_TRUNCATED
    return list(
        dict.fromkeys(
            consequence.file
            for consequence in consequences
            if consequence.kind is kind and consequence.file is not None
        )
    )


def how_logs_load(by_kafka: Iterable[Measured] = (), *, is_clean: bool) -> str:
    """Return text to follow "would start on it": whether the broker trusts the clean-shutdown marker (`is_clean`) or
    recovers the logs first. `by_kafka` has the losses of the partitions. If some of the lost records can still be read,
    the text has their number and the number of all lost records. With the marker, the number of records that readers
    skip follows, if it is not 0.
    """
    how = ", trusting the clean-shutdown marker" if is_clean else ", after its own recovery"
    lost = total(by_kafka)
    of_them = f"of which {lost.sound_lost} can still be read"
    how += f", which would lose {records_text(lost)}, {of_them}" if lost.sound_lost else ""
    hidden = counted(lost.records_hidden, "record") if is_clean and lost.records_hidden else ""
    return f"{how}, and readers would skip {hidden} on disk" if hidden else how


def first_screen(
    title: str, outlooks: Sequence[Outlook], problems: Sequence[str] = (), ask_again: str = ""
) -> FirstScreen:
    """Return the first screen for the directories of one broker, or of several that are examined together. `problems`
    are sentences about directories without a plan. `ask_again` is the command that plans again once these are mended;
    it is shown if there are problems and no other command. Reads some damaged batches again, as `losses_of` does.
    """
    several = len(outlooks) > 1
    moving = [each for each in outlooks if each.choice.renamed or each.choice.copied]
    urgent = sorted(moving or outlooks, key=lambda each: each.forecast is None or not _is_down(each.forecast))
    commands = list(dict.fromkeys(command for outlook in urgent for command in outlook.step.commands))
    losses = [loss for outlook in outlooks for loss in losses_of(outlook, where=outlook.root if several else None)]
    note, is_next, notes = _note(urgent), _is_next(outlooks), dict[int, str]()
    if note is None:
        notes = _notes(urgent, commands)
        note = notes.pop(0)
    beyond_end = _consequences_by_broker(outlooks)
    if beyond_end and note.startswith(NOTHING_TO_DO.text):
        note = note.replace(NOTHING_TO_DO.text, f"{NOTHING_TO_DO.text} in the files", 1)
    outside, then = _outside(outlooks, loses=bool(losses))
    if any(outlook.step.kind is StepKind.MEND for outlook in urgent):
        then = "and then: "  # both are needed
    if is_next:
        losses = [replace(loss, look="") for loss in losses]  # the result has the command that is right then
    if outside:
        outside = f"{outside}; {'' if is_next else 'then ' if moving else then}"
    if problems:
        then = note if commands else "ask again:" if ask_again else "ask again"
        note = f"first see to what is said at the top (runbook: lost-directory); then {then}"
        commands = commands or ([ask_again] if ask_again else [])
    deleted = {each.root: each.deleted for each in outlooks if each.deleted is not None}
    return FirstScreen(
        title=title,
        start=list(_starts(outlooks, are_alone=bool(problems))),
        out_of_service=_out_of_service(outlooks, are_alone=bool(problems)),
        not_given=not_given_sentence(_nodes(outlooks), is_unread=bool(problems)),
        removed=list(_removed_beyond_end(outlooks, commands)),
        deleted=_removed_briefly(deleted),
        deleted_in_full=removed_sentence(deleted),
        lost=_lost(outlooks, are_alone=bool(problems)),
        losses=losses,
        beyond_end=beyond_end,
        note=outside + note,
        commands=commands,
        notes=notes,
        problems=problems,
        before_any_start=before_any_start(_nodes(outlooks)),
    )


def _note(outlooks: Sequence[Outlook]) -> str | None:
    """Return the text before the commands of the first screen; empty if there is no note. Return None if each directory
    needs its own note (`_notes`), because several have commands of different kinds.

    It is a single note in these cases:

    * the directories with commands all have the same ones, or all put in copies
    * they all have the command of a plan or way, with the same sentences before it
    * only one directory has commands, and these name all directories
    * no directory has a command, and all notes are equal
    * the plans are about to be carried out

    Otherwise it is the note of the only directory with commands. If none has any, it is the first note that says more
    than that nothing is to be done, or else the first note. If there are several directories, such a note begins with
    the directory's name and counts the other notes.
    """
    typed = [outlook for outlook in outlooks if outlook.step.commands]
    if len(typed) > 1 and len({tuple(outlook.step.commands) for outlook in typed}) == 1:  # one command, for all of them
        lossy = [each for each in typed if any(way.measured.may_lose for way in each.choice.ways)]
        return (lossy or typed)[0].step.note if len(lossy) < 2 else _note_of_all(lossy)
    if not typed and len({outlook.step.note for outlook in outlooks}) == 1:
        return outlooks[0].step.note
    noted = [outlook for outlook in outlooks if outlook.step.note]
    if len(outlooks) == 1 or not noted:
        return noted[0].step.note if noted else ""
    if _is_next(outlooks):
        return DONE_NEXT.note
    urgent = [outlook for outlook in noted if outlook.step.kind is not StepKind.NONE]
    shown = [outlook for outlook in noted if outlook.step.commands] or (urgent or noted)[:1]
    roots = {outlook.root for outlook in outlooks}
    if len(typed) == 1 and all(roots.issubset(shlex.split(command)) for command in typed[0].step.commands):
        return typed[0].step.note
    if typed and all(each.choice.copied and each.step.note == note_of_copied(each.choice.copied) for each in typed):
        return note_of_copied([paths for outlook in typed for paths in outlook.choice.copied])
    is_alike = all(outlook.step.kind in (StepKind.PLAN, StepKind.WAY) for outlook in typed)
    if len(typed) > 1 and is_alike and len({outlook.step.before for outlook in typed}) == 1:
        return _note_of_each(typed)
    if len(typed) > 1:
        return None
    (outlook,) = shown
    note = f"{outlook.root}: {outlook.step.note.removesuffix(':')}"
    return f"{note}{_more(len(noted) - 1)}{':' if typed else ''}"


def _notes(outlooks: Sequence[Outlook], commands: Sequence[str]) -> dict[int, str]:
    """Return the notes of the directories that have commands, each after the directory's name; at least one must have
    some. The key is the position of the directory's first command in `commands`, which has all commands. If directories
    have the same first command, only the note of the first is returned. The last note also counts the directories that
    have a note and no command.
    """
    typed = [outlook for outlook in outlooks if outlook.step.commands]
    notes: dict[int, str] = {}
    for outlook in typed:
        notes.setdefault(commands.index(outlook.step.commands[0]), f"{outlook.root}: {outlook.step.note}")
    more = _more(sum(bool(outlook.step.note) for outlook in outlooks) - len(typed))
    last = max(notes)
    return {**notes, last: f"{notes[last].removesuffix(':')}{more}:"}


def _more(directories: int) -> str:
    are = "is" if directories == 1 else "are"
    return f" ({counted(directories, 'more directory')} {are} below)" if directories else ""


def _is_next(outlooks: Sequence[Outlook]) -> bool:
    """Whether the plan of one of several directories, or of the only one, is about to be carried out."""
    return any(outlook.step.kind is StepKind.NEXT for outlook in outlooks)


def _note_of_all(outlooks: Sequence[Outlook]) -> str:
    """Return the note before a command that all directories have. If the step of one says more than a recommended way,
    the note has the text of each directory, once if they are equal. An example is that no recovery carries it out.
    Else, if each recommends a way, the note names these ways and says what they lose in all directories. Otherwise it
    only says to type the command, and that losses are below.
    """
    before, ways = "".join(dict.fromkeys(outlook.step.before for outlook in outlooks)), _ways(outlooks)
    if any(outlook.step.kind in (StepKind.OTHER, StepKind.MEND) for outlook in outlooks):
        if len({outlook.step.text for outlook in outlooks}) == 1:
            return before + outlooks[0].step.text
        texts = (f"{outlook.root}: {outlook.step.text.removesuffix(':')}" for outlook in outlooks)
        return f"{before}{'; '.join(texts)}:"
    if len(ways) < len(outlooks):
        return f"{before}type this (what it loses in each directory is below):"
    return f"{before}{note_of_ways(ways, loses_beside=bool(_beside(outlooks)))}"


def _note_of_each(outlooks: Sequence[Outlook]) -> str:
    """Return the note before the commands of several directories with the same advice before them, each of which
    carries out a recommended way or the plan itself. The note names the ways and says what they lose together.
    """
    before, ways = outlooks[0].step.before, _ways(outlooks)
    each_of = f"{'one' if all(len(each.step.commands) == 1 for each in outlooks) else 'some'} for each directory"
    beside = bool(_beside(outlooks))
    return before + (note_of_ways(ways, each_of, loses_beside=beside) if ways else f"type these, {each_of}:")


def _ways(outlooks: Sequence[Outlook]) -> list[tuple[RecoveryWay, Measured]]:
    """Return the recommended ways that the commands carry out, each with the loss of its directory's own plan."""
    return [(way, outlook.choice.own) for outlook in outlooks
            if outlook.step.kind is StepKind.WAY and (way := outlook.choice.recommended) is not None]  # fmt: skip


def _consequences_by_broker(outlooks: Sequence[Outlook]) -> list[str]:
    """Return the sentences of `consequence_sentences`. If the directories are of several brokers, each sentence names
    its broker, and the first sentences of all brokers come before their second ones.
    """
    by_node: dict[int | None, list[LossConsequence]] = {}
    for outlook in outlooks:
        node = None if outlook.forecast is None or outlook.forecast.node is None else outlook.forecast.node.node_id
        by_node.setdefault(node, []).extend(outlook.consequences)
    if len(by_node) == 1:
        return [sentence for several in by_node.values() for sentence in consequence_sentences(several)]
    named = [
        [sentence if node is None else f"broker {node}: {sentence}" for sentence in consequence_sentences(several)]
        for node, several in by_node.items()
    ]
    return [sentence for row in zip_longest(*named) for sentence in row if sentence is not None]


def consequence_sentences(consequences: Iterable[LossConsequence]) -> list[str]:
    """Return the details of consequences so that each kind is shown early, because a screen has room for few. First
    comes one of each kind, then the second of each, and so on. The first kinds are log start offsets beyond the end of
    a log, copies that have more, transactions, and consumer groups. Details about consumer groups that differ only in
    the partition of a topic are one sentence. So are details about transactions that differ only in the partition and
    the offset. Such a sentence names the first few of them.
    """
    first_kinds = (
        "wrong_log_start", "copy_has_more", "later_marker", "transaction_stays_open", "groups_beyond_end",
        "marker_lost", "from_copies",
    )  # fmt: skip
    by_kind: dict[str, list[str]] = {kind: [] for kind in first_kinds}
    alike: dict[tuple[str, str, str], list[str]] = {}
    stops: dict[str, list[str]] = {}
    for consequence in consequences:
        place = f" of {consequence.partition} ("  # a group's name may have the partition's in it, but later
        before, _, after = consequence.detail.partition(place)
        if consequence.kind == "groups_beyond_end" and after:
            topic = consequence.partition.rpartition("-")[0]
            alike.setdefault((topic, before, after), []).append(consequence.partition)
        elif consequence.kind == "transaction_stays_open" and consequence.detail.startswith(_STOP_AT):
            stop, _, after = consequence.detail.removeprefix(_STOP_AT).partition(": ")
            stops.setdefault(after, []).append(stop)
        else:
            by_kind.setdefault(consequence.kind, []).append(consequence.detail)
    by_kind["groups_beyond_end"] += [
        f"{before} of {first_of(sorted(set(names), key=natural_order), _NAMED)} ({after}"
        for (_topic, before, after), names in alike.items()
    ]
    by_kind["transaction_stays_open"] += [
        f"{_STOP_AT}{first_of(sorted(set(places), key=natural_order), _NAMED)}: {after}"
        for after, places in stops.items()
    ]
    return [detail for details in zip_longest(*by_kind.values()) for detail in details if detail is not None]


def _outside(outlooks: Sequence[Outlook], *, loses: bool) -> tuple[str, str]:
    """Return advice to look first at a place that may have the lost records, and the word that joins it to the rest of
    the note. Both are empty if there is no such place. If the plan loses nothing (`loses` is False), only segments with
    wrong names are considered. The first kind that exists is named:

    * segments with wrong names
    * a wrong entry in the checkpoint of log start offsets
    * a `-future` copy
    * a compressed segment
    * a file outside the logs with sound batches
    """
    misnamed = [each for outlook in outlooks for each in outlook.findings if each.code is FindingCode.SEGMENT_MISNAMED]
    if misnamed:
        return f"first {renaming_text(misnamed)}", "else "
    if not loses:
        return "", ""
    advice = wrong_log_starts(each for outlook in outlooks for each in outlook.consequences)
    if advice:
        return f"first {advice}, and ask again", "else "
    futures = dict.fromkeys(path for outlook in outlooks if outlook.forecast is not None
                            for path in copies_to_keep(outlook.forecast))  # fmt: skip
    if futures:
        name = parse_partition_directory(os.path.basename(next(iter(futures))))
        live = "" if name is None else f" as COPY/{name.topic}-{name.partition}"
        aside = f"first set a copy of {', '.join(futures)} aside{live}, which has more"
        return f"{aside}, and ask again with --copy COPY", "else "
    packed = [file for outlook in outlooks for file in _compressed(outlook)]
    if packed:
        return f"first decompress {first_of(packed, 1)}, a segment, and ask again", "else "
    found = [each for outlook in outlooks for each in outlook.findings if each.code is FindingCode.BATCHES_OUTSIDE]
    if not found:
        return "", ""
    places = {
        os.path.normpath(os.path.join(outlook.root, each.file or ""))
        for outlook in outlooks
        for each in outlook.findings
        if each.code is FindingCode.BATCHES_OUTSIDE
    }
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return (
        f"look at {found[0].file}{more} first: sound batches from offset {found[0].offset} on, perhaps what is lost "
        "here (batches_outside, below)"
    ), "else "


def _compressed(outlook: Outlook) -> Iterator[str]:
    """Yield the paths of compressed segments whose uncompressed log is missing, relative to the log directory."""
    for finding in outlook.findings:
        folder, name = os.path.split(finding.file or "")
        log = compressed_log(name) if finding.code is FindingCode.FOREIGN_FILE else None
        if log is not None and not os.path.exists(os.path.join(outlook.root, folder, log)):
            yield finding.file or ""


def wrong_log_starts(consequences: Iterable[LossConsequence]) -> str:
    """Return the advice to remove entries of the checkpoint of log start offsets that are beyond the end of their logs,
    to follow "first"; empty if there are none.
    """
    wrong = [each.partition for each in consequences if each.kind == "wrong_log_start"]
    return f"mend the log start of {first_of(wrong, _NAMED)} as said above, which keeps all of it" if wrong else ""


def renaming_text(misnamed: Sequence[Finding]) -> str:
    """Return the instruction to rename segments with a wrong name, at least one. It names the first and counts the
    others, without the new names. If there is one, the instruction has its new name.
    """
    if len(misnamed) == 1:
        name = segment_file(misnamed[0].offset or 0, FileKind.LOG)
        return (
            f"give {misnamed[0].file} (the .log file alone) the name {name}, which brings all its records back "
            "(segment_misnamed), and recover with --full"
        )
    files = f"{misnamed[0].file} and {len(misnamed) - 1} more"
    return (
        f"give {files} (.log files alone) the names that segment_misnamed says, which brings their records back, and "
        "recover with --full"
    )


def _starts(outlooks: Sequence[Outlook], *, are_alone: bool) -> Iterator[str]:
    """Yield the sentences of each different forecast once, as `start_lines` words them. `are_alone` says that other
    directories of the broker could not be planned. Forecasts of starts that fail come first, then of those that lose
    readable records.
    """
    by_forecast: dict[StartForecast, list[str]] = {}
    for outlook in sorted(outlooks, key=_urgency):
        if outlook.forecast is not None:
            told_of_start = forecast_sentences(outlook.forecast, outlook.choice.kafka_by_partition.values())
            sentences = tuple(sentence + outlook.others for sentence in told_of_start)
            sentences += _deleted_logs(outlook, outlook.forecast.valid_records_lost or {})
            told = StartForecast(sentences, start_fails(outlook.forecast.node, outlook.forecast.outcome))
            by_forecast.setdefault(told, []).append(outlook.root)
    yield from start_lines(by_forecast, are_alone=are_alone)


def _urgency(outlook: Outlook) -> int:
    """Sort key of a forecast: 0 if the start fails with some release, 1 if it loses readable records, else 2."""
    forecast = outlook.forecast
    if forecast is not None and start_fails(forecast.node, forecast.outcome):
        return 0
    return 1 if outlook.choice.lost_by_kafka() else 2


def _deleted_logs(outlook: Outlook, lost: Mapping[str, int]) -> tuple[str, ...]:
    """Return one sentence about the logs that a start deletes because they end below their log start offset; empty if
    there are none. `lost` has the number of readable records that a start removes, by partition directory.
    """
    ends_below = FindingCode.LOG_END_BELOW_LOG_START
    names = [each.file for each in outlook.findings if each.code is ends_below and each.file and lost.get(each.file)]
    return (f"the start deletes all of {first_names(names)}: the log start is beyond the end",) if names else ()


def _out_of_service(outlooks: Sequence[Outlook], *, are_alone: bool) -> str:
    """Return a sentence about the partitions that no client reaches after a start or after the plan, or that are served
    empty. If there are none, return a sentence that says so, or that names the partitions in which consumers stop
    before the end. This second sentence is empty if the start is unknown, or if no directory has a forecast. It is
    empty also with `are_alone`: other directories of the broker could not be planned.
    """
    nodes = _nodes(outlooks)
    down = len({(outlook.forecast.node or outlook.root, name) for outlook in outlooks
                if outlook.forecast is not None and _is_down(outlook.forecast)
                for name in outlook.names if _is_live(name)})  # fmt: skip
    elsewhere = len({name for node in nodes if node.never_starts for name in node.unserved})
    down += elsewhere
    if not down and any(node.never_starts for node in nodes):
        return "out of service until that is mended: the node (no partition is here)"
    if down:
        too = ", and after this plan too, because it leaves a damaged metadata log"
        until = too if any(_begins_anew(outlook) for outlook in outlooks) else " until that is mended"
        more = f", {elsewhere} of them in what is missing" if elsewhere else ""
        emptied = _emptied(_after(outlooks))
        more += f"; served after this plan, but empty: {emptied}" if emptied else ""
        return f"out of service{until}: {counted(down, 'partition')}{more}"
    said = out_of_service_sentence(nodes)
    if said:
        return said
    stray = [name for outlook in outlooks for name in outlook.made_stray]
    if stray:
        return f"out of service after this plan: {first_names(stray)}"
    if any(node.worst.outcome is StartOutcome.UNKNOWN for node in nodes) or _is_unknown(outlooks):
        return ""
    if are_alone or all(outlook.forecast is None for outlook in outlooks):
        return ""
    on = ", on the condition above" if any(answer.condition for node in nodes for answer in node.answers) else ""
    stopped = _where_consumers_stop(outlooks)
    if stopped:
        return f"served after a start, but {stopped}{on}"
    return f"out of service after a start: nothing here{on}"


def _nodes(outlooks: Iterable[Outlook]) -> list[NodeStart]:
    """Return the forecast of each different node once, in the order of `outlooks`; those without a node are omitted."""
    forecasts = [outlook.forecast for outlook in outlooks if outlook.forecast is not None]
    return list(dict.fromkeys(forecast.node for forecast in forecasts if forecast.node is not None))


def not_given_sentence(nodes: Iterable[NodeStart], *, is_unread: bool = False) -> str:
    """Return a sentence about the log directories that brokers have registered and that were not given. It counts the
    partitions assigned to them, and names those of which no other broker has all records. Brokers whose start is said
    to miss a log directory are left out. Return an empty text if nothing remains. `is_unread` says that some were
    given and could not be used.
    """
    parts = []
    for node in nodes:
        if not node.not_given or any(isinstance(each, LostDirectoryConsequence) for each in _consequences([node])):
            continue
        part = f"{counted(node.not_given, 'log directory')} of broker {node.node_id}"
        if node.in_not_given:
            part += f" with {counted(len(node.in_not_given), 'partition')}"
        if node.only_in_not_given:
            part += f"; only it has all of {first_names(node.only_in_not_given)}"
        parts.append(part)
    state = "not given, or named above" if is_unread else "not given"
    return f"{state}: {'; '.join(parts)} (if lost, runbook: lost-directory)" if parts else ""


def removed_sentence(deleted: Mapping[str, DeletedPartitions], subject: str = "a start") -> str:
    """Return a sentence about the deleted partitions that a start removes, which ends with the command that keeps them;
    empty if there are none. `deleted` has them by log directory, `subject` is the subject of the sentence.
    """
    if not deleted:
        return ""
    number, brokers = different_records(deleted.values())
    records = counted(number, "record") + (f", of which {brokers} brokers have copies," if brokers > 1 else "")
    directories = counted(sum(len(each.directories) for each in deleted.values()), "-delete directory")
    topics = _deleted_topics(deleted)
    roots = dict.fromkeys(root for each in deleted.values() for root in each.roots)
    words = [*roots, *(word for topic in topics for word in ("--topic", topic)), "--hold", "--yes"]
    return (
        f"{subject} removes {records} in {directories}, of partitions that were deleted; to keep them, first: "
        f"kafkalog undelete {shell_line(words)}"
    )


def _deleted_topics(deleted: Mapping[str, DeletedPartitions]) -> list[str]:
    return sorted({topic for each in deleted.values() for topic in each.topics})


def _removed_briefly(deleted: Mapping[str, DeletedPartitions]) -> str:
    """Return `removed_sentence` for one line, without its command; empty if there are no deleted partitions."""
    if not deleted:
        return ""
    number, brokers = different_records(deleted.values())
    where = f" on {brokers} brokers" if brokers > 1 else ""
    records = counted(number, "deleted record")
    return f"a start removes {records} of {first_of(_deleted_topics(deleted), 1)}{where}; to keep them: below"


def _removed_beyond_end(outlooks: Sequence[Outlook], commands: Sequence[str]) -> Iterator[str]:
    """Yield one sentence about deleted segments that a start removes although they have records beyond the ends of
    logs. It ends with the first `_NAMED` commands that keep the records, and counts the others. The commands are left
    out if the first is among `commands`, which follow on the screen. Yields nothing if there are no such segments.
    """
    by_root = {outlook.root: outlook.beyond_end for outlook in outlooks if outlook.beyond_end}
    if not by_root:
        return
    keeping = [extracting(root, topic) for root, several in by_root.items() for topic in topics_of(several)]
    left = len(keeping) - _NAMED
    and_more = f", and for {counted(left, 'more topic')} likewise" if left > 0 else ""
    first = f"; to keep them, first{and_more}: {' && '.join(keeping[:_NAMED])}" if keeping[0] not in commands else ""
    segments = [each for several in by_root.values() for each in several]
    yield f"a start removes {beyond_end_text(segments)}, which a truncation removed{first}"


def beyond_end_text(several: Sequence[DeletedBeyondEnd]) -> str:
    """Return a phrase with the number of records and of deleted segments beyond the ends of logs, and the offsets in
    each of the first `_NAMED` partitions, to follow a verb. `several` has at least one item.
    """
    records = counted(sum(each.records for each in several), "record")
    segments = counted(sum(len(each.paths) for each in several), "deleted segment")
    places = first_of([f"{each.directory}: {each.offsets_text}" for each in several], _NAMED)
    return f"{records} in {segments} beyond the end of {counted(len(several), 'log')} ({places})"


def topics_of(several: Sequence[DeletedBeyondEnd]) -> list[str]:
    """Return the topics of deleted segments, each once, in order."""
    return list(dict.fromkeys(each.directory.rpartition("-")[0] for each in several))


def _where_consumers_stop(outlooks: Sequence[Outlook]) -> str:
    """Return a clause about what consumers and producers meet after a start of the broker, with the names of the
    partitions. It names partitions in which the first writes may be lost and later ones are refused. It also names
    partitions in which records are or may be skipped, and partitions in which consumers stop at damage or at a
    transaction without end. Empty if there are no such partitions.
    """
    at_damage = [name for outlook in outlooks for name, measured in outlook.choice.kafka_by_partition.items()
                 if measured.damage_left > measured.damage_passed]  # fmt: skip
    open_ones = [consequence.partition for outlook in outlooks for consequence in outlook.consequences
                 if consequence.kind in _STOPS]  # fmt: skip
    refusing = {name for outlook in outlooks if outlook.forecast is not None for name in outlook.forecast.refusing}
    skipped = {name for outlook in outlooks if outlook.forecast is not None and outlook.forecast.clean_shutdown
               for name, measured in outlook.choice.kafka_by_partition.items() if measured.records_hidden}  # fmt: skip
    perhaps = {each.partition for outlook in outlooks for each in _skipping(outlook)} - skipped
    places = (
        (f"{_REFUSING}, and records skipped in", refusing & skipped),
        (f"{_REFUSING} in", refusing - skipped),
        ("records are skipped in", skipped - refusing),
        ("records may be skipped in", perhaps),
        ("consumers stop at damage in", at_damage),
        ("read_committed consumers stop in", open_ones),
    )
    return ", and ".join(f"{what} {_sorted_names(names)}" for what, names in places if names)


def _skipping(outlook: Outlook) -> list[LossConsequence]:
    """Return the consequences of offset indexes and names of segments by which consumers skip records after the
    plan.
    """
    return [each for each in outlook.consequences if each.kind == "records_skipped"]


def _is_live(name: str) -> bool:
    parsed = parse_partition_directory(name)
    return parsed is not None and parsed.state is DirectoryState.LIVE


def _is_unknown(outlooks: Sequence[Outlook]) -> bool:
    """Return whether the start on a directory is unknown, because something in it cannot be read."""
    return any(outlook.forecast is not None and outlook.forecast.outcome is None for outlook in outlooks)


def _begins_anew(outlook: Outlook) -> bool:
    """Return whether the node would start with empty metadata, and the plan does not include the metadata log. Return
    False without a forecast of the node's start.
    """
    node = None if outlook.forecast is None else outlook.forecast.node
    if node is None or CLUSTER_METADATA_DIRECTORY in outlook.choice.own_by_partition:
        return False
    consequences = (consequence for answer in node.answers for consequence in answer.consequences)
    return any(consequence.kind is ConsequenceKind.METADATA_OVERWRITTEN for consequence in consequences)


def _is_down(forecast: BrokerForecast) -> bool:
    if forecast.node is not None and forecast.node.never_starts:
        return True
    return forecast.outcome not in (None, "loaded")


def out_of_service_sentence(nodes: Sequence[NodeStart]) -> str:
    """Return a sentence that names the partitions that are out of service after a start with any release; if there are
    none, the log directory or the node that is. Partitions that are served empty because only this broker had their
    records are added, unless only a log directory or the node is named. Empty if nothing is out of service or served
    empty. If voters without metadata are a majority, it says that every partition is.
    """
    if any(node.empty_voters is not None for node in nodes):
        return "out of service once an empty cluster is elected: every partition"
    moved, emptied = _moved(nodes), _emptied(nodes)
    out = _sorted_names(moved) if moved else _unserved(nodes)
    are_perhaps_led = not moved and any(isinstance(each, PerhapsEmptiedConsequence) for each in _consequences(nodes))
    led = ", or served empty" if are_perhaps_led else ""
    told = [f"out of service after a start as it is{led}: {out}"] if out else []
    if emptied and (moved or not out):
        told.append(f"served after a start as it is, but empty: {emptied}")
    return "; ".join(told)


def _consequences(nodes: Sequence[NodeStart]) -> list[StartConsequence]:
    return [each for node in nodes for answer in node.answers for each in answer.consequences]


def _moved(nodes: Sequence[NodeStart]) -> set[str]:
    """Return the partition directories that a start renames -stray or deletes, except those that it makes again."""
    kept = {name for each in _consequences(nodes) if each.kind is ConsequenceKind.EMPTY_AGAIN for name in each.names}
    return {name for each in _consequences(nodes) if each.kind in _OUT and not isinstance(each, ServedConsequence)
            for name in each.names} - kept  # fmt: skip


def _unserved(nodes: Sequence[NodeStart]) -> str:
    """Return what is not served after a start: the names of partitions, or a phrase for a log directory or for the
    node; empty if everything is served. The names follow "at least" if a broker does not serve other partitions either.
    """
    if any(each.kind is ConsequenceKind.DIRECTORY_OFFLINE for each in _consequences(nodes)):
        return "a log directory, with all its partitions"
    unserved = [each for node in nodes for answer in node.answers if answer.outcome is not StartOutcome.FAILS
                for each in answer.consequences if each.kind is ConsequenceKind.NOT_SERVING]  # fmt: skip
    if not all(each.names for each in unserved):
        return "the node, or a part of it, as said above"
    are_some = any(fault.kind == ID_OF_ANOTHER_TOPIC for node in nodes for fault in node.faults)
    names = _sorted_names(name for each in unserved for name in each.names) if unserved else ""
    return f"at least {names}" if are_some and names else names


def _emptied(nodes: Sequence[NodeStart]) -> str:
    """Return the names of partitions that a start serves empty although only this broker had their records; empty if
    there are none. A condition follows the names if other directories, which were not given, may have the records.
    """
    consequences = _consequences(nodes)
    again = {name for each in consequences if each.kind is ConsequenceKind.EMPTY_AGAIN for name in each.lost}
    empty = again.union(*(each.names for each in consequences if isinstance(each, EmptiedConsequence)))
    has_another_place = any(each.kind is ConsequenceKind.EMPTY_AGAIN and each.names and each.lost
                            and not is_lost_and_emptied(each) for each in consequences)  # fmt: skip
    is_unsure = has_another_place and any(node.not_given != 0 for node in nodes)
    return f"{_sorted_names(empty)}{f', {UNLESS_ELSEWHERE}' if is_unsure else ''}" if empty else ""


def _sorted_names(names: Iterable[str]) -> str:
    return first_names(sorted(set(names), key=natural_order))


def _lost(outlooks: Sequence[Outlook], *, are_alone: bool) -> str:
    """Return a sentence about what is lost with the plans and beside them (`_beside`). If nothing is lost, it says so,
    and says what is not counted because it cannot be read. Directories without a forecast are skipped; the result is
    empty if none has one. `are_alone` says that other directories of the broker could not be planned; the losses in
    these are not counted.
    """
    planned = [outlook for outlook in outlooks if outlook.forecast is not None]
    if not planned:
        return ""
    own = total(outlook.choice.own for outlook in planned)
    unread = sum(_of_metadata(outlook).records_hidden for outlook in planned)  # it has no consumers
    own = replace(own, records_hidden=own.records_hidden - unread)
    nodes = _nodes_then(planned)
    hurt = [name for outlook in planned for name in partitions_that_lose(outlook.choice)]
    beside = _beside(planned)
    ways = [outlook.choice.recommended for outlook in planned]
    brings = sum(way.measured.from_copies for way in ways if way is not None)
    if brings:
        beside.append(f"{counted(brings, 'record')} missing inside the logs, which the copies have")
    ends = " and ".join(filter(None, [_ends_by_groups(planned, nodes), _had_by_others(nodes)]))
    besides = [f"{'' if own.is_lost_before else 'before it '}{ends}"] if ends else []
    besides += [f"lost beside it: {'; '.join(beside)}"] if beside else []
    if not any(outlook.choice.own.may_lose for outlook in planned if outlook.choice.ways):
        is_old = any(consequence.kind in BY_AGE for outlook in planned for consequence in outlook.consequences)
        nothing = "nothing but what retention deletes" if is_old else "nothing"
        if skipping := [each for outlook in planned for each in _skipping(outlook)]:
            is_misnamed = any(each.detail.endswith(GETS_ITS_NAME) for each in skipping)
            until = "a segment gets its right name" if is_misnamed else "an index is rebuilt"
            nothing = f"{nothing}, but consumers may skip records until {until}"
        others = "nothing here; what the directories named at the top had is not counted"
        if not are_alone and _is_unknown(planned):
            others = f"{nothing} that is counted; what cannot be read is not"
        is_part = are_alone or _is_unknown(planned)
        if beside:
            return f"lost beside this plan: {'; '.join([*beside, *filter(None, [ends])])}{_mended(planned)}"
        stays = "; the metadata log stays damaged" if any(map(_leaves_metadata, nodes)) else ""
        stays += _mended(planned)
        stays = f"; before it {ends}{stays}" if ends else stays
        return f"lost with this plan: {others if is_part else nothing}{stays}"
    if unread and sentence_of_lost(own) == "nothing":
        return "; ".join(["lost with this plan: no record; the metadata log stays damaged", *besides])
    readable = f"; {readable_text(own)}" if own.sound_lost else ""
    where = f" in {counted(len(hurt), 'partition')}" if hurt else ""
    when, lost = "before" if own.is_lost_before else "with", sentence_of_lost(own)
    told = f" this plan{where}: {lost}" if ", " in lost else f" this plan: {lost}{where}"
    return "; ".join([f"lost {when}{told}{readable}", *besides]) + _mended(planned)


def _ends_by_groups(outlooks: Sequence[Outlook], nodes: Sequence[NodeStart]) -> str:
    """Return a phrase about the partitions that end below an offset that groups have committed; empty if there are
    none. Partitions whose loss is counted with the plans, or beside them, are left out.
    """
    known = {name for outlook in outlooks for name, own in outlook.choice.own_by_partition.items() if own.lost}
    known |= {name for each in _consequences(nodes) for name in each.lost}
    known |= {os.path.basename(fault.file) for node in nodes for fault in node.older_logs}
    known |= {os.path.basename(each.file or "") for outlook in outlooks for each in outlook.findings
              if each.code is FindingCode.PARTITION_MISSING}  # fmt: skip
    short = {each.partition for outlook in outlooks for each in outlook.consequences
             if each.kind == "groups_beyond_end"} - known  # fmt: skip
    return f"perhaps the end of {first_names(sorted(short))}, where groups have committed" if short else ""


def _had_by_others(nodes: Sequence[NodeStart]) -> str:
    """Return a phrase about the partitions whose records are gone here, while other brokers have them; empty if there
    are none.
    """
    had = {name for each in _consequences(nodes) if isinstance(each, LedShortConsequence) for name in each.names}
    return f"what {_sorted_names(had)} had here, which other brokers have" if had else ""


def _nodes_then(outlooks: Iterable[Outlook]) -> list[NodeStart]:
    return [node for outlook in outlooks
            if outlook.forecast is not None and (node := outlook.forecast.node_then) is not None]  # fmt: skip


def _beside(outlooks: Sequence[Outlook]) -> list[str]:
    """What is lost beside the plans, as `lost_beside` words it."""
    hurt = [name for outlook in outlooks for name in partitions_that_lose(outlook.choice)]
    return lost_beside(_nodes_then(outlooks), (finding for outlook in outlooks for finding in outlook.findings), hurt,
                       [paths for outlook in outlooks for paths in outlook.choice.renamed])  # fmt: skip


def _after(outlooks: Iterable[Outlook]) -> list[NodeStart]:
    """Return the forecasts of the nodes' starts after the plans, each once, without those that are unknown."""
    return list(dict.fromkeys(outlook.forecast.after for outlook in outlooks
                              if outlook.forecast is not None and outlook.forecast.after is not None))  # fmt: skip


def _mended(outlooks: Sequence[Outlook]) -> str:
    """Return a clause about the partitions that a start on the directories as they are would lose, and a start after
    the plans does not; empty if there are none.
    """
    forecasts = [each.forecast for each in outlooks if each.forecast is not None and each.forecast.after is not None]
    now = {name for each in forecasts if each.node is not None for name in each.node.lost}
    then = {name for each in forecasts if each.after is not None for name in each.after.lost}
    return f"; a start before it would lose all or part of {_sorted_names(now - then)}" if now - then else ""


def _of_metadata(outlook: Outlook) -> Measured:
    """Loss of the metadata log; nothing if the plan does not include it."""
    return outlook.choice.own_by_partition.get(CLUSTER_METADATA_DIRECTORY, Measured())


def _leaves_metadata(node: NodeStart) -> bool:
    """Whether the node's start suffers from damage in the metadata log."""
    damages = (fault for fault in node.faults if fault.part is Part.METADATA_LOG and fault.kind != READ_ONLY)
    return node.worst.outcome is not StartOutcome.STARTS and any(damages)


def partitions_that_lose(choice: RecoveryChoice) -> dict[str, Measured]:
    """Return the plan's loss by partition directory, most lost records first (an unknown number counts as 0), then by
    name. A partition that loses nothing is included if consumers skip records of it.
    """
    losses = {
        name: measured
        for name, measured in choice.own_by_partition.items()
        if measured.lost or measured.records_lost or measured.records_hidden
    }
    return dict(sorted(losses.items(), key=lambda item: (-(item[1].records_lost or 0), natural_order(item[0]))))


def losses_of(outlook: Outlook, where: str | None = None) -> Iterator[Loss]:
    """Yield the loss of each partition that loses something with the plan or whose records consumers skip. The largest
    number of lost records comes first. `where` is the log directory, which precedes the partition names if there are
    several directories; None for a single one. Reads up to `_NAMED` damaged batches of each of the first `_SHOWN`
    partitions again, to estimate when their records were written.
    """
    damages = _damages(outlook)
    for number, (name, lost) in enumerate(partitions_that_lose(outlook.choice).items()):
        damaged = damages.get(name, ())[:_NAMED] if number < _SHOWN else ()
        batches = [lost_batch_at(*place) for place in damaged]
        look = next((place for place, batch in zip(damaged, batches, strict=True) if batch.by_eye), None)
        place = name if where is None else os.path.join(where, name)
        is_only_skipped = lost.records_lost == 0 and lost.is_exact and not lost.markers_damaged and not lost.lost
        records = sentence_of_lost(lost if is_only_skipped else replace(lost, records_hidden=0))
        offsets = ranges_text(lost.lost) + repeats_text(lost)
        if lost.records_lost == 0 and lost.is_exact and lost.markers_damaged:
            records, offsets = f"no record; an end marker of a transaction, {offsets}", ""
        if name == CLUSTER_METADATA_DIRECTORY and is_only_skipped:
            records, offsets = "no record; it stays damaged", ""
        is_said = lost.records_lost in (None, 0) and bool(offsets)  # the range itself says that a number is unknown
        said = offsets if is_said else f"{records}, {offsets}" if offsets else records
        if lost.records_hidden and not is_only_skipped:
            said += f"; {counted(lost.records_hidden, 'more record')} that consumers may skip"
        yield Loss(
            place=place,
            offsets=said,
            written=_written(lost, batches),
            by_eye=sum(batch.by_eye for batch in batches),
            look="" if look is None else shell_line(
                ["kafkalog", "explain", look[0], "--position", str(look[1]), "--records"]
            ),
        )


def looks_in_quarantine(outlook: Outlook, kept_in: str) -> Iterator[str]:
    """Yield a sentence for each of the first `_SHOWN` partitions of `partitions_that_lose`. It has the command that
    shows the partition's first damaged batch in which records can be decoded. The command names the file that has the
    batch now: in `kept_in`, the directory of the execution, or the log if it has not changed. A partition without such
    a batch among its first `_NAMED` damaged batches is skipped. Reads these batches again.
    """
    damages = _damages(outlook)
    for name in list(partitions_that_lose(outlook.choice))[:_SHOWN]:
        for place in damages.get(name, ())[:_NAMED]:
            path, position = place_in_quarantine(outlook.root, kept_in, *place)
            if lost_batch_at(path, position).by_eye:
                command = shell_line(["kafkalog", "explain", path, "--position", str(position), "--records"])
                yield f"records of {name} that nothing proves: {command}"
                break


def _written(lost: Measured, batches: Sequence[LostBatch]) -> str:
    return next((words for lost_range in lost.lost if (words := when_written(lost_range, batches))), "")


def _damages(outlook: Outlook) -> Mapping[str, list[tuple[str, int]]]:
    """Return the damaged batches by name of the partition directory: sorted (path, position in bytes) pairs, each place
    once. Directories without a damaged batch are omitted.
    """
    places_by_directory: dict[str, dict[tuple[str, int], None]] = {}
    for finding in (*outlook.findings, *outlook.choice.damaged):
        if not is_of_batch(finding) or finding.file is None or finding.position is None:
            continue
        path = os.path.join(outlook.root, finding.file)
        places_by_directory.setdefault(os.path.basename(os.path.dirname(path)), {})[path, finding.position] = None
    return {name: sorted(places) for name, places in places_by_directory.items()}
