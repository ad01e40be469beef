"""Describe the answers about a node's start: as sentences for people, and as findings for `verify` and plans."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted
from kafkalog.log.storage.java import as_printed
from kafkalog.recovery.broker.manager import StartResult
from kafkalog.recovery.broker.node.answer import (
    DISPLACED,
    ConsequenceKind,
    EmptyVoters,
    LostDirectoryConsequence,
    NodeAnswer,
    NodeStart,
    ServedConsequence,
    StartConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.releases import MODELED

__all__ = [
    "empty_voters_text", "if_not_elected", "is_lost_and_emptied", "listed", "node_findings", "node_sentences",
    "sentence_of_answer", "sentence_of_consequence", "start_fails", "start_sentences", "voters_named",
]  # fmt: skip

_DOUBTFUL = (ConsequenceKind.METADATA_MAY_GO_BACK, ConsequenceKind.OLDER_LOGS, ConsequenceKind.UNFORESEEN)
"""consequences that may lose something without another outcome"""
_NAMED = 6
"""most partition directories that a sentence names"""
_GRAVE = (
    ConsequenceKind.METADATA_OVERWRITTEN,
    ConsequenceKind.STRAY,
    ConsequenceKind.DELETED,
    ConsequenceKind.DIRECTORY_OFFLINE,
    ConsequenceKind.NOT_SERVING,
    ConsequenceKind.EMPTY_AGAIN,
    ConsequenceKind.PRODUCER_IDS_REUSED,
    ConsequenceKind.METADATA_GOES_BACK,
    ConsequenceKind.METADATA_LOG_DROPPED,
    ConsequenceKind.METADATA_MAY_GO_BACK,
    ConsequenceKind.OLDER_LOGS,
    ConsequenceKind.METADATA_LOG_CUT,
    ConsequenceKind.EXPECTED_STRAY,
    ConsequenceKind.FUTURE_TRUNCATED,
    ConsequenceKind.FUTURE_PROMOTED,
    ConsequenceKind.FUTURE_RESUMED,
    ConsequenceKind.OTHER,
)
"""consequences that a sentence mentions, in this order"""
_BEFORE_IT_FAILS = (
    ConsequenceKind.METADATA_OVERWRITTEN,
    ConsequenceKind.STRAY,
    ConsequenceKind.METADATA_LOG_DROPPED,
    ConsequenceKind.METADATA_LOG_CUT,
)
"""changes on disk that a start makes even if it fails later"""
_NAMING = (
    ConsequenceKind.STRAY, ConsequenceKind.STRAY_ONCE_STARTED, ConsequenceKind.DELETED, ConsequenceKind.EXPECTED_STRAY,
    ConsequenceKind.EMPTY_AGAIN,
)  # fmt: skip
"""those whose sentence ends with the names of the partition directories, unless these are served"""


def node_sentences(start: NodeStart, how: str = "") -> list[str]:
    """Return sentences for each group of releases with equal answers, oldest first. The gravest consequence of a start
    is in the first sentence of its group. Each other grave one (`_GRAVE`) is in a sentence that begins with `and`.
    `how` is text that follows `would start on it` in an answer without consequences.
    """
    groups = start.grouped
    sentences = []
    for releases, answer in groups:
        first, *more = _statements(answer, "" if answer.consequences else how)
        others = f"and with {releases}, " if len(groups) > 1 else "and "
        sentences += [f"Kafka {releases} {first}", *(f"{others}{statement}" for statement in more)]
    return sentences


def start_sentences(
    node: NodeStart | None, outcome: str | None, exception: str | None, message: str | None, how: str = ""
) -> list[str]:
    """Return sentences about the next start on a log directory. If `outcome` is None, one sentence says why it is
    unknown. Else they are those of `node_sentences` if `node` is given, or else one about loading the logs.

    * `outcome`: a `StartResult`, or None
    * `exception`, `message`: the broker's, if loading fails; without `outcome`, `message` is the reason
    * `how`: text added after `would start on it` if the start has no consequences
    """
    if outcome is None:
        return [f"what Kafka would do is unknown: {message}"]
    if node is not None:
        return node_sentences(node, how)
    match outcome:
        case StartResult.LOADED:
            return [f"Kafka {MODELED} would start on it{how}"]
        case StartResult.START_FAILS:
            return [f"Kafka {MODELED} would NOT START on it: {as_printed(exception, message)}"]
        case _:
            return [f"Kafka {MODELED} would take it OFFLINE: {as_printed(exception, message)}"]


def start_fails(node: NodeStart | None, outcome: str | None) -> bool:
    """Whether a sentence of `start_sentences` with these arguments says that the start fails with some release."""
    if outcome is None or node is None:
        return outcome == StartResult.START_FAILS
    return any(answer.outcome is StartOutcome.FAILS for answer in node.answers)


def sentence_of_answer(answer: NodeAnswer, how: str = "") -> str:
    """Return the text after `Kafka RELEASES` about one answer. It says whether the node starts, and names the
    consequences that matter in order of gravity. If there are none, it is `would start on it` and `how`. If the start
    fails, it names the exception, the file, the cure, the changes before the failure, and the directories that become
    stray once the node starts. The condition of the answer, if any, follows in parentheses.

    If the outcome is unknown, the text is `would start on it, but` or `may or may not start on it:`, and the reason,
    without a condition.
    """
    return "; and ".join(_statements(answer, how))


def _statements(answer: NodeAnswer, how: str) -> list[str]:
    """Return the parts of `sentence_of_answer`: one for each grave consequence (`_GRAVE`) of a start, the gravest
    first. There is only one part if there are none (`would start on it` and `how`), or if the start fails or is
    unknown. The condition of the answer, if any, ends the last part, except if the start is unknown.
    """
    condition = "" if answer.condition is None else f" ({answer.condition})"
    if answer.outcome is StartOutcome.FAILS:
        return [f"{_failure(answer)}{condition}"]
    if answer.outcome is StartOutcome.UNKNOWN:
        starts = any(consequence.kind is ConsequenceKind.UNFORESEEN for consequence in answer.consequences)
        return [f"{'would start on it, but' if starts else 'may or may not start on it:'} {answer.message}"]
    first, *more = _sentences(answer, _GRAVE) or [""]
    statements = [f"would start on it, and {first}" if first else f"would start on it{how}", *more]
    return [*statements[:-1], f"{statements[-1]}{condition}"]


def _failure(answer: NodeAnswer) -> str:
    words = as_printed(answer.exception, answer.message)
    file = "" if answer.file is None or answer.file in words else f" [{answer.file}]"
    before = _sentences(answer, _BEFORE_IT_FAILS)
    already = f"; but before it fails, {'; and '.join(before)}" if before else ""
    later = "".join(f"; {text}" for text in _sentences(answer, (ConsequenceKind.STRAY_ONCE_STARTED,)))
    displaced = next((fault for fault in answer.faults if fault.kind == DISPLACED), None)
    if displaced is not None:
        return f"would NOT get ready: {displaced.detail} ({words}){already}{later}"
    cures = "".join(f"; {fault.cure}" for fault in answer.faults if fault.cure)
    return f"would NOT START on it: {words}{file}{cures}{already}{later}"


def _sentences(answer: NodeAnswer, kinds: Sequence[ConsequenceKind]) -> list[str]:
    """Return sentences about the consequences of these kinds, in the order of the kinds; equal sentences once."""
    sentences = (
        sentence_of_consequence(consequence)
        for kind in kinds
        for consequence in answer.consequences
        if consequence.kind is kind
    )
    return list(dict.fromkeys(sentences))


def sentence_of_consequence(consequence: StartConsequence) -> str:
    """Return the detail of a consequence, followed by its partition directories if these belong to the sentence."""
    names = consequence.names
    if consequence.kind in _NAMING and not isinstance(consequence, ServedConsequence):
        return f"{consequence.detail}: {listed(names)}"
    return consequence.detail


def listed(names: Sequence[str]) -> str:
    """Names of partition directories, at most `_NAMED` of them; of more, their number comes first."""
    shown = ", ".join(names[:_NAMED])
    if len(names) <= _NAMED:
        return shown
    return f"{counted(len(names), 'partition')}, among them {shown}"


def empty_voters_text(empty: EmptyVoters) -> str:
    """Return what voters without metadata are, and that they elect an empty cluster, to follow `nodes 1 and 2`."""
    if empty.voters == 1:
        return "without metadata, as if reformatted: as the only voter it would begin an empty cluster"
    of = f"{len(empty.nodes)} of the {counted(empty.voters, 'voter')}"
    them = "it" if len(empty.nodes) == 1 else "they"
    return f"without metadata, as if reformatted: {them} would elect an empty cluster, as {of}"


def voters_named(empty: EmptyVoters) -> str:
    """Return the voters without metadata by their ids: `node 1`, `nodes 1 and 2`, `nodes 1, 2 and 3`."""
    *first, last = map(str, empty.nodes)
    return f"nodes {', '.join(first)} and {last}" if first else f"node {last}"


def if_not_elected(empty: EmptyVoters) -> str:
    """Return the condition that voters without metadata elect no empty cluster."""
    hold, do = ("holds", "does") if len(empty.nodes) == 1 else ("hold", "do")
    return f"if {voters_named(empty)}, which {hold} no metadata, {do} not elect an empty cluster"


def is_lost_and_emptied(consequence: StartConsequence) -> bool:
    """Whether the start makes partitions of a lost log directory again, empty."""
    return consequence.kind is ConsequenceKind.EMPTY_AGAIN and isinstance(consequence, LostDirectoryConsequence)


def node_findings(start: NodeStart) -> list[Finding]:
    """Return one finding for each group of releases whose start fails, loses something, or leaves something in doubt or
    out of service; oldest first. An UNKNOWN answer counts only if a consequence may lose something. A
    METADATA_INCONSISTENT warning for each log that is older than the metadata follows.

    The code is START_LOSES if partitions become strays or are lost, or metadata is lost or goes back. It is
    METADATA_INCONSISTENT if the node starts, but on metadata or logs that are older than others; else BROKER_REFUSES.
    The severity is INFO if only a later release would refuse a setting. It is WARNING if the node starts or may start,
    but something is in doubt or not served. Otherwise it is ERROR. The file is the first one that the answer names,
    else the first log directory.
    """
    findings = []
    for releases, answer in start.grouped:
        is_open = answer.outcome in (StartOutcome.STARTS, StartOutcome.UNKNOWN)
        emptied = any(is_lost_and_emptied(consequence) for consequence in answer.consequences)
        if is_open and not emptied and not any(each.kind in _DOUBTFUL for each in answer.consequences):
            continue
        is_warning = (is_open and not emptied) or answer.outcome is StartOutcome.NOT_SERVING
        severity = Severity.WARNING if is_warning else Severity.ERROR
        if answer.is_of_upgrade and answer not in start.judged:
            severity = Severity.INFO
        loses = emptied or answer.outcome in (
            StartOutcome.OVERWRITES_METADATA, StartOutcome.DELETES, StartOutcome.STRAYS
        )  # fmt: skip
        is_started = answer.outcome is StartOutcome.STARTS
        code = FindingCode.METADATA_INCONSISTENT if is_started else FindingCode.BROKER_REFUSES
        code = FindingCode.START_LOSES if answer.strays or loses else code
        detail = f"Kafka {releases} {sentence_of_answer(answer)}"
        places = [*(fault.file for fault in answer.faults), *(consequence.file for consequence in answer.consequences)]
        file = answer.file or next((place for place in places if place is not None), start.roots[0])
        findings.append(Finding(code, severity, None, None, detail, file))
    findings += [Finding.of(FindingCode.METADATA_INCONSISTENT, None, None, fault.detail, fault.file)
                 for fault in start.older_logs]  # fmt: skip
    return findings
