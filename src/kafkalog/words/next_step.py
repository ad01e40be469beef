"""Decide what the user should type next after a plan: one answer for all commands and for the report."""

from __future__ import annotations

import enum
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.codec.common.shell import shell_line, shell_word
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import TRANSACTION_STATE_TOPIC, parse_partition_directory
from kafkalog.recovery.broker.node.answer import (
    OF_OLDER_LOGS,
    OLD_VERSION,
    ConsequenceKind,
    LedShortConsequence,
    LostDirectoryConsequence,
    NodeStart,
    OlderCopyConsequence,
    Role,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.older_copies import KRAFT_PAGE, ZOOKEEPER_PAGE
from kafkalog.recovery.broker.node.sentences import is_lost_and_emptied
from kafkalog.recovery.decide.losses import effect_of, from_copies_text, lost_beside, readable_text, sentence_of_lost
from kafkalog.recovery.decide.ways import Measured, RecoveryWay, total
from kafkalog.recovery.facts.metadata_copies import IN_PLACE_OF_A_WAY
from kafkalog.recovery.modes.table import Mode
from kafkalog.words.advice import told
from kafkalog.words.commands import (
    NOTHING_GIVEN,
    Given,
    PlannedFor,
    commands_for,
    extracted_to,
    extracting,
    identity_command,
    paths_of,
    with_identity,
)
from kafkalog.words.node import Mend, mends
from kafkalog.words.ways import label_of, mode_words, needs_copies

__all__ = [
    "DONE_NEXT", "FIRST_END_THE_RUN", "NOTHING_TO_DO", "NextStep", "Outlined", "StepKind", "done_of", "is_done",
    "mends_of", "note_of_copied", "note_of_ways", "of_all_together", "second_of", "what_to_type",
]  # fmt: skip

_NAMED = 3
_TYPE_THIS = "type this:"
FIRST_END_THE_RUN: Final = (
    "first end the run that was cut short, and then ask again: the first command completes it and does no more, the "
    "second takes it back; if a broker was started since, the first sets the run aside, and the second refuses:"
)
_NOT_NEEDED = "the broker was stopped cleanly and would start on this as it is: a recovery is not needed"
_NOTHING_TO_DO = "nothing to do"
_STOP_FIRST = "stop the broker, or wait for the recovery, that holds the lock; then look at the plan again, and "
_DONE = "nothing is left to do here: what is missing is not in these files; another copy may have it"
_KEPT = (
    "nothing is left to do here: what is missing is not in these logs, but what recoveries keep may have it, which "
    "`kafkalog undelete {}` lists, or another copy"
)
_NOT_IN_THE_LOGS = (
    "recover has nothing left to do, but do not start the node yet: see to what is said above about its start"
)
_STARTS_WITH = "recover has nothing left to do: it starts with Kafka {}; for others, "
_SEE_ABOVE = "see to what is said above"
_RAISE_VERSION = (
    "raise metadata.version there (kafka-features.sh upgrade), stop it after the next snapshot (*.checkpoint in "
    "__cluster_metadata-0), and ask again"
)
_LOST_DIRECTORY = (
    "recover has nothing left to do: mount the old disk; if it is lost, an empty directory with its old directory.id "
    "has its partitions served again, empty (runbook: lost-directory)"
)
_MERGED = (
    "type this to put in the records that only a copy has; {}without --mode merge if the log was truncated to agree "
    "with its leader (runbook: started-too-early):"
)
_ASK_TRIAGE = "ask `kafkalog triage` with the directories of all brokers"
_ONLY_SKIPPED = "nothing is left to do here: no record is missing, and no way here makes the skipped ones readable"


class StepKind(enum.Enum):
    """Kinds of next steps that are put together if there are several directories."""

    PLAN = enum.auto()
    """the command of the plan itself, without a condition"""
    WAY = enum.auto()
    """the commands of the recommended way"""
    NEXT = enum.auto()
    """no command, because the plan is about to be carried out"""
    MEND = enum.auto()
    """a command for a fault beside the logs, whose text says what to compare before"""
    NONE = enum.auto()
    """no command: nothing is to be done, or a recovery is not needed"""
    OTHER = enum.auto()
    """anything else, with or without commands"""


class NextStep(Struct, frozen=True, kw_only=True):
    """What the user should do next about one log directory."""

    text: str = ""
    """a sentence, which ends in a colon if there are commands; empty if nothing is known"""
    commands: Sequence[str] = ()
    kind: StepKind = StepKind.OTHER
    before: str = ""
    """what is to be done before the commands, to precede `text`"""

    @property
    def note(self) -> str:
        """The whole sentence."""
        return self.before + self.text


DONE_NEXT: Final = NextStep(text="this is done next, and it can be undone", kind=StepKind.NEXT)
NOTHING_TO_DO: Final = NextStep(text=_NOTHING_TO_DO, kind=StepKind.NONE)


class Outlined(PlannedFor, Protocol):
    """The properties of a plan that decide the next step. Fulfilled by `Plan` and by the report's summary of one."""

    @property
    def mode(self) -> Mode:
        """Mode of recovery."""

    @property
    def node(self) -> NodeStart | None:
        """Forecast of the node's start; None if unknown."""

    @property
    def node_then(self) -> NodeStart | None:
        """Forecast of the node's start after the plan, or as it is if that is unknown; None if neither is known."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the partition directories in the plan."""

    @property
    def copies(self) -> Sequence[str]:
        """Directories that hold other copies."""

    @property
    def refusal(self) -> str | None:
        """Why recovery in this mode declines; None if it does not."""

    @property
    def note_of_identity(self) -> str | None:
        """Why brokers may not start because of `meta.properties`; None if they may."""

    @property
    def changes(self) -> bool:
        """Whether anything would be changed."""

    @property
    def needs_consent(self) -> bool:
        """Whether recovery asks for consent."""

    @property
    def lost_in_deleted(self) -> tuple[str, ...]:
        """Names of partition directories of which `.deleted` files hold offsets that the recommended way loses."""

    @property
    def kept_by_runs(self) -> tuple[str, ...]:
        """Names of partition directories that lose offsets with the recommended way, and of which earlier recoveries
        keep `.deleted` segments.
        """

    @property
    def is_not_needed(self) -> bool:
        """Whether only files would change that a broker rebuilds by itself."""

    @property
    def is_worth_a_look(self) -> bool:
        """Whether the plan changes something or reports a problem."""

    @property
    def waits_for_a_run(self) -> bool:
        """Whether an interrupted execution has to be completed first."""


def what_to_type(plan: Outlined, given: Given) -> NextStep:
    """Return what the user should do next, with the commands to type. If an execution is unfinished, the commands are
    the two that end it, to choose from. There may be no command: something must be found first, the recovery is refused
    or not needed, or it has nothing to do here. The sentence then says why.

    If there are commands, `before` of the result has up to three sentences, in this order. The first advises to look
    for newer copies or the old disk (`_look_first`); it is left out if the step is itself a repair of the start
    (`StepKind.MEND`). The second says to stop the broker, if the directory is in use (`given.locked`). The third says
    that a file system has too little space (`given.without_room`). May read the metadata log; raises `StorageError` if
    that fails.
    """
    step = _next_step(plan, given)
    if not step.commands:
        return step
    look = "" if step.kind is StepKind.MEND else _look_first(plan.node_then)
    before = f"{look}; " if look else ""
    before += _STOP_FIRST if plan.root in given.locked else ""
    before += f"{given.without_room[plan.root]}; then " if plan.root in given.without_room else ""
    return replace(step, before=before)


def _look_first(node: NodeStart | None) -> str:
    """Return advice to look for things before a start: newer copies of the metadata or of the logs, or a lost disk
    whose partitions the start creates empty. Or it says to ask `kafkalog triage`, as the node can lead partitions that
    it has lost and other brokers have. Empty text if nothing shows that there are any.
    """
    kinds = {each.kind for each in _consequences(node) if isinstance(each, OlderCopyConsequence)}
    page = ZOOKEEPER_PAGE if node is not None and node.role is Role.ZOOKEEPER_BROKER else KRAFT_PAGE
    wanted = [f"a newer copy of the metadata (runbook: {page})"] if kinds.difference(OF_OLDER_LOGS) else []
    wanted += ["newer copies of the logs (runbook: backup)"] if ConsequenceKind.OLDER_LOGS in kinds else []
    wanted += ["the old disk (runbook: lost-directory)"] if any(map(is_lost_and_emptied, _consequences(node))) else []
    advice = [f"look for {' and '.join(wanted)}"] if wanted else []
    advice += [_ASK_TRIAGE] if any(isinstance(each, LedShortConsequence) for each in _consequences(node)) else []
    return f"before a start, {' and '.join(advice)}" if advice else ""


def _next_step(plan: Outlined, given: Given) -> NextStep:
    if plan.waits_for_a_run:
        ending = [f"kafkalog {verb} {shell_line([plan.root])}" for verb in ("recover", "undo")]
        return NextStep(text=FIRST_END_THE_RUN, commands=ending)
    if plan.choice.renamed:
        (path, to), *further = plan.choice.renamed
        alike = f", and {len(further)} more of this kind" if further else ""
        text = f"{path} looks like {os.path.basename(to)}, which is missing{alike}: type this first, and then ask again"
        puts_back = [f"mv {shell_line(paths)}" for paths in plan.choice.renamed]
        return NextStep(text=f"{text}:", commands=puts_back, kind=StepKind.MEND)
    if plan.choice.copied:
        puts_in = [f"cp -a {shell_line(paths)}" for paths in plan.choice.copied]
        return NextStep(text=note_of_copied(plan.choice.copied), commands=puts_in, kind=StepKind.MEND)
    if plan.choice.better_copies:
        first, *more = plan.choice.better_copies
        named = os.path.basename if first.is_in_one_directory else os.fspath
        others = ", ".join(f"{named(other.path)}: {other.text}" for other in first.others)
        are = "is" if len(more) == 1 else "are"
        rest = f"; {counted(len(more), 'more partition')} {are} in two places" if more else ""
        note = f"type this to keep {named(first.best.path)}, which {first.reason} ({first.best.text}; {others}{rest})"
        moves = [paths for better in plan.choice.better_copies for paths in better.moves]
        return NextStep(
            text=f"{note}, and then ask again:", commands=[f"mv {shell_line(paths)}" for paths in moves]
        )
    if plan.choice.loses_metadata:
        return NextStep(text=f"recommended: none of the ways below; {IN_PLACE_OF_A_WAY}")
    mended = list(mends_of(plan, given))
    if mended and mended[0].is_first and plan.changes:
        text = f"{mended[0].words}, and then ask again:"
        return NextStep(text=text, commands=mended[0].commands, kind=StepKind.MEND)
    if plan.lost_in_deleted and not plan.copies and given.original is None:
        return _from_deleted(plan, given)
    best = plan.choice.recommended
    is_choice = plan.choice.is_offered
    if best is not None and is_choice and not is_done(best, plan):
        commands = commands_for(best, plan, given)
        if commands:
            beside = plan.node_then is not None and bool(lost_beside([plan.node_then], ()))
            note = note_of_ways([(best, plan.choice.own)], loses_beside=beside)
            return NextStep(text=note, commands=commands, kind=StepKind.WAY)
    if plan.refusal is not None:
        return NextStep(text=f"refused: {told(plan.refusal)}")
    if plan.is_not_needed and not _is_mergeable(plan):
        return NextStep(text=_NOT_NEEDED, kind=StepKind.NONE)
    second, commands = second_of(plan, given)
    if best is not None and second is not None:
        note = note_of_ways([(second, plan.choice.own)])
        text = f"recommended is {label_of(best)}, below; if that is not possible, {note}"
        return NextStep(text=text, commands=commands)
    if plan.changes or plan.needs_full:
        return _of_the_plan(plan, given, best if is_choice else None)
    return _beside_the_logs(plan, given, mended, best if is_choice else None)


def second_of(plan: Outlined, given: Given) -> tuple[RecoveryWay | None, list[str]]:
    """Return the way to take if the recommended one, which no recovery carries out, is not possible, and its commands.
    Return None and no commands if there is none that loses less than the plan and would do something.
    """
    second = plan.choice.second if plan.choice.is_offered else None
    if second is None or is_done(second, plan):
        return None, []
    return second, commands_for(second, plan, given)


def _of_the_plan(plan: Outlined, given: Given, best: RecoveryWay | None) -> NextStep:
    """Return the step with the command of a plan that changes something. `best` is the recommended way; None without
    a choice.
    """
    own = mode_words(plan.mode)
    consent = ["--accept-loss"] if plan.needs_consent else []
    copies = [word for copy in plan.copies if needs_copies(plan.mode) for word in ("--copy", copy)]
    paths, words = paths_of(plan, given), list(given.words)
    words += ["--full"] if plan.needs_full and "--full" not in words else []
    if plan.root in paths:
        paths, words = with_identity(plan, words, paths)
    if _is_mergeable(plan) and not consent:
        return _from_copies(plan, paths, words)
    typed = f"kafkalog recover {shell_line([*paths, *words, *own, *copies, *consent])} --yes"
    return _own_step(typed, best, drops=bool(consent))


def note_of_copied(copied: Sequence[tuple[str, str]]) -> str:
    """Return the note before the commands that put in copies of missing partitions; `copied` are the path of each copy
    and the path of the missing directory, at least one.
    """
    names = [os.path.basename(to) for _path, to in copied]
    there, this = ("is a copy", "this") if len(names) == 1 else ("are copies", "these")
    states = list(filter(_is_of_transactions, names))
    but = f"; leave out an older {states[0]}, unless a transaction was open (runbook: backup)" if states else ""
    return (
        f"there {there} of {first_of(names, _NAMED)}, missing here: type {this} while the broker is stopped, and then "
        f"ask again{but}:"
    )


def note_of_ways(
    ways: Sequence[tuple[RecoveryWay, Measured]], each_of: str = "", *, loses_beside: bool = False
) -> str:
    """Return the sentence before the commands of recommended ways, of which there is at least one. The sentence names
    the ways. It says what all commands lose together, and how many records they bring back that only other copies have.
    If a way needs consent, it also says how many of the lost records can still be read.

    Each way comes with the loss of its directory's own plan; if the two differ, the sentence says that the commands
    replace the plan. `each_of` says how several commands belong to the directories; it is empty if one command is for
    all. `loses_beside` says that something is lost beside the plans.
    """
    measured_alike = (replace(way.measured, held_back=own.held_back) == own for way, own in ways)  # only ways have it
    instead = "" if all(measured_alike) else " instead of this plan"
    labels = " and ".join(dict.fromkeys(label_of(way) for way, _own in ways))
    measured = total(way.measured for way, _own in ways)
    asks = any(way.needs_consent or (way.rest is not None and way.rest.needs_consent) for way, _own in ways)
    who = "together they lose" if each_of else "it loses"
    is_all = loses_beside and sentence_of_lost(measured) == "nothing"
    loses = f"{f'{who} nothing more' if is_all else effect_of(measured, who)}{from_copies_text(measured)}"
    effect = "; ".join(filter(None, [loses, readable_text(measured) if asks else ""]))
    what = f"these{instead}, {each_of}" if each_of else f"this{instead}"
    return f"type {what} ({labels}; {effect}):"


def _from_deleted(plan: Outlined, given: Given) -> NextStep:
    """The next step if `.deleted` files hold lost offsets: to extract them as copies, and to plan with these copies."""
    names = [name for name in map(parse_partition_directory, plan.lost_in_deleted) if name is not None]
    topics = dict.fromkeys(name.topic for name in names)
    copies = [word for topic in topics for word in ("--copy", extracted_to(plan.root, topic))]
    note = (
        f".deleted files, which a recovery moves away and a start removes, hold lost offsets of "
        f"{counted(len(names), 'partition')}: type this first; `plan` then counts them as a copy:"
    )
    undeletes = [extracting(plan.root, topic) for topic in topics]
    again = f"kafkalog plan {shell_line([*paths_of(plan, given), *given.words, *copies])}"
    return NextStep(text=note, commands=[*undeletes, again])


def _beside_the_logs(
    plan: Outlined, given: Given, mended: Sequence[Mend], best: RecoveryWay | None
) -> NextStep:
    """Return the next step for a plan that changes nothing. `mended` is advice for faults of the node's start, `best`
    the recommended way (None if there is no choice).
    """
    if plan.note_of_identity is not None:
        identity = identity_command(plan, given.words)
        if identity is None:
            return NextStep(text=f"what is left: {plan.note_of_identity}")
        return NextStep(text=_TYPE_THIS, commands=[identity], kind=StepKind.PLAN)
    if mended:
        return NextStep(text=f"{mended[0].words}:", commands=mended[0].commands, kind=StepKind.MEND)
    if _is_mergeable(plan):
        return _from_copies(plan, paths_of(plan, given), given.words)
    look = _look_first(plan.node)
    if look:
        return NextStep(text=f"{look}; recover has nothing to do here")
    if best is not None:
        return NextStep(text=done_of(best, plan.node, plan.root if plan.kept_by_runs else None))
    if not plan.is_worth_a_look:
        return NOTHING_TO_DO
    return NextStep(text="this mode changes nothing" if _serves(plan.node) else _not_in_the_logs(plan.node))


def _is_mergeable(plan: Outlined) -> bool:
    """Whether to offer a merge that no way needs: copies have more of a partition. An older `__transaction_state` is
    worse than none (runbook: backup), so its partitions alone do not count.
    """
    return plan.mode is Mode.SAFE and not all(map(_is_of_transactions, plan.choice.mergeable))


def _is_of_transactions(name: str) -> bool:
    return name.rpartition("-")[0] == TRANSACTION_STATE_TOPIC


def _from_copies(plan: Outlined, paths: Sequence[str], words: Sequence[str]) -> NextStep:
    """Return the step that merges the partitions of `paths` with the copies. `words` are its other options."""
    is_without = any(map(_is_of_transactions, plan.choice.mergeable))
    excluded = ["--exclude", TRANSACTION_STATE_TOPIC] if is_without else []
    copies = [word for copy in plan.copies for word in ("--copy", copy)]
    typed = f"kafkalog recover {shell_line([*paths, *words, *excluded, *mode_words(Mode.MERGE), *copies])} --yes"
    without = f"all but those of {TRANSACTION_STATE_TOPIC} (runbook: backup); " if is_without else ""
    return NextStep(text=_MERGED.format(without), commands=[typed])


def mends_of(plan: Outlined, given: Given = NOTHING_GIVEN) -> Iterator[Mend]:
    """Yield advice for faults of the node's start that the plan does not repair. May read the metadata log; raises
    `StorageError` while iterating if that fails.
    """
    return mends(plan.node_then, plan.names, given.words)


def _own_step(command: str, best: RecoveryWay | None, *, drops: bool) -> NextStep:
    """Return the step with the command of the plan itself. `drops` says that it drops records with a right checksum.
    `best` is the recommended way, None if there is no choice.
    """
    drop = "to drop records whose checksum is right"
    if best is not None and best.how is None:
        instead = drop if drops else "if that is not possible"
        return NextStep(text=f"recommended is {label_of(best)}, below; type this only {instead}:", commands=[command])
    if drops:
        return NextStep(text=f"type this {drop} here:", commands=[command])
    return NextStep(text=_TYPE_THIS, commands=[command], kind=StepKind.PLAN)


def of_all_together(plans: Sequence[Outlined], given: Given) -> Given:
    """Return a copy of `given` with the directories of all plans (`together`), if one command can cover them all. For
    this, the plans that recommend commands must all recommend the same single command. Only its directory and the
    option --full may differ; if one has --full, the words for all have it too. Otherwise return `given` itself. Return
    it also for fewer than two plans, or if a copy is worked on. Return it also if a plan is refused, is limited to
    partitions or sets the identity of its directory. May read metadata logs; raises `StorageError` if that fails.
    """
    if len(plans) < 2 or given.original is not None or any(each.refusal or each.identity_in for each in plans):
        return given
    options, is_full = set(), False
    for plan in plans:
        start = ["kafkalog", "recover", plan.root]
        for command in what_to_type(plan, replace(given, together=(plan.root,))).commands:
            words = shlex.split(command)
            is_own = words[: len(start)] == start
            is_full |= is_own and "--full" in words
            others = tuple(word for word in words[len(start) :] if word != "--full")
            options.add(others if is_own else (command,))
    does_for_all = len(options) == 1 and not any(each.asked_for for each in plans)
    common = [*given.words, "--full"] if is_full and "--full" not in given.words else given.words
    return replace(given, words=common, together=tuple(each.root for each in plans)) if does_for_all else given


def _serves(node: NodeStart | None) -> bool:
    """Whether the node is predicted to start and to serve its partitions. True if the start is unknown."""
    return node is None or node.worst.outcome in (StartOutcome.STARTS, StartOutcome.UNKNOWN)


def _consequences(node: NodeStart | None) -> list[StartConsequence]:
    return [] if node is None else [each for answer in node.judged for each in answer.consequences]


def _not_in_the_logs(node: NodeStart | None) -> str:
    """Return the next step if `recover` changes nothing, and the node does not start or does not serve."""
    unserved = [each for each in _consequences(node) if each.kind is ConsequenceKind.NOT_SERVING]
    is_serving_the_rest = node is not None and node.worst.outcome is StartOutcome.NOT_SERVING
    if is_serving_the_rest and unserved and all(isinstance(each, LostDirectoryConsequence) for each in unserved):
        return _LOST_DIRECTORY
    starting = [] if node is None else [each for each, answer in node.grouped if answer.outcome is StartOutcome.STARTS]
    if node is None or not starting:
        return _NOT_IN_THE_LOGS
    is_old = any(fault.kind == OLD_VERSION for fault in node.faults)
    return f"{_STARTS_WITH.format(' and '.join(starting))}{_RAISE_VERSION if is_old else _SEE_ABOVE}"


def done_of(best: RecoveryWay, node: NodeStart | None, kept_from: str | None = None) -> str:
    """Return the sentence to show instead of the command of the way `best`, if that command would do nothing. `node` is
    the forecast of the node's start, None if there is none. `kept_from` is the log directory if earlier recoveries keep
    `.deleted` segments of the partitions that lose something; else None.
    """
    if not _serves(node):
        return _not_in_the_logs(node)
    measured = best.measured
    is_only_skipped = measured.records_hidden and measured.records_lost == 0 and measured.is_exact
    if is_only_skipped:
        return _ONLY_SKIPPED
    return _DONE if kept_from is None else _KEPT.format(shell_word(kept_from))


def is_done(best: RecoveryWay, plan: Outlined) -> bool:
    """Return whether the command of the recommended way `best` would do nothing: the plan is not refused and changes
    nothing, and the way cuts no bytes and leaves no damage. Return False if the plan's mode, or the way, is not among
    those that a plan compares.
    """
    if plan.changes or plan.refusal is not None or not plan.mode.spec.is_compared:
        return False
    measured = best.measured
    compared = [mode.spec.way for mode in Mode if mode.spec.is_compared]
    return best.spec in compared and not (measured.bytes_cut or measured.damage_left)
