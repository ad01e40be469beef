"""Text of `kafkalog quorum`: the copies of a metadata log, the plan of a recovery, and its result."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkalog.cli.output import LineWriter, print_json
from kafkalog.cli.sentences import SentenceWriter
from kafkalog.cli.shapes.quorum_lines import LeftOutLine
from kafkalog.cli.tables import Column, Kind, print_table
from kafkalog.cluster.kraft.quorum import KnownVoter, LeftOut, Quorum, QuorumSurvivor, kinds_text
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.common.shell import shell_line, shell_word
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import DELETED
from kafkalog.jobs.quorum.planned import DirectoryChange, QuorumPlan
from kafkalog.jobs.quorum.run import QuorumResult
from kafkalog.recovery.broker.node.sentences import node_sentences
from kafkalog.recovery.broker.node_start import node_start
from kafkalog.words.advice import told
from kafkalog.words.escapes import escape_controls

__all__ = ["print_left_out", "print_quorum", "print_quorum_plan", "print_quorum_result", "voter_text"]


_SHOWN = 20
_FEW = 3


def voter_text(voter: KnownVoter) -> str:
    """Return a voter as text, `2 (controller-2:9093)`; only the node id if it has no endpoint."""
    places = ", ".join(f"{host}:{port}" for _name, host, port in voter.endpoints)
    return f"{voter.node} ({places})" if places else str(voter.node)


_COLUMNS: list[str | Column] = [
    "node",
    "epoch",
    "end",
    Column("as", drop=1),
    Column("start", drop=6),
    Column("last record", Kind.TIME, drop=3),
    Column("votes for", drop=5),
    Column("snapshots", drop=4),
    Column("lacks", drop=2, wraps=True),
    Column("state", alarms=True),
    "path",
]


def _row(survivor: QuorumSurvivor, is_best: bool) -> list[object]:
    log = survivor.log
    state = "ok"
    if log.started_over is not None:
        state = "started over"
    elif log.refusal is not None and log.hole is None:
        state = "does not start" if _does_not_start(log) else "loses metadata"
    elif log.is_damaged:
        state = "damaged"
    elif survivor.contradicts is not None:
        state = "contradicts"
    elif survivor.is_diverged:
        state = "differs"
    elif log.is_torn:
        state = "torn end"
    role = "voter" if log.is_voter else "observer"
    voted = "" if log.state is None or log.state.voted_id < 0 else log.state.voted_id
    snapshots = f"{len(log.snapshots)}, to {log.snapshots[-1].end}" if log.snapshots else "none"
    node = "?" if log.node is None else log.node
    last = None if log.last_time < 0 else log.last_time
    path = min(os.path.relpath(log.root), log.root, key=len)
    return [node, log.epoch, log.end, role, log.start, last, voted, snapshots,
            "" if is_best else _lacks(survivor), state, escape_controls(path)]  # fmt: skip


def _start_sentences(log: QuorumLog) -> list[str]:
    """Return sentences about the node's start on this copy of the metadata log: why it does not start, what it would
    lose, or that this is unknown. If none of this is the case, return `log.refusal` alone, or an empty list if that is
    None. The start on the log directory is simulated, which reads files and changes nothing. It is not simulated if the
    log has a hole and a refusal; the refusal is then returned alone. Raises `StorageError` if the metadata log cannot
    be read.
    """
    if log.hole is not None and log.refusal is not None:
        return [log.refusal]
    start = node_start([log.root], loads_others=False)
    if start.loses_nothing:
        return [] if log.refusal is None else [log.refusal]
    return node_sentences(start)


def _does_not_start(log: QuorumLog) -> bool:
    return log.hole is None and log.refusal is not None and node_start([log.root], loads_others=False).never_starts


def _lacks(survivor: QuorumSurvivor) -> str:
    if survivor.lacks is None:
        return "not known"
    if not survivor.lacks:
        return "nothing"
    total = sum(survivor.lacks.values())
    if survivor.only_no_ops:
        return f"{total}, no-ops only"
    return f"{total}: {kinds_text(survivor.lacks)}"


def print_quorum(quorum: Quorum) -> None:
    """Print a table of the copies of the metadata log on standard output, best first, and then sentences. They are
    about the voters in force, missing voters, the simulated start of a node on each copy, and further log directories
    of these nodes. The last ones are about the offset below which a snapshot proves everything committed, and about
    possible losses. Raises `StorageError` if a metadata log cannot be read.
    """
    best = quorum.best
    kind = "static voters" if best.is_static else "dynamic voters"
    title = f"cluster {escape_controls(quorum.cluster_id or 'without an id')}, {kind}; best first"
    print_table(title, _COLUMNS, [_row(each, each.log is best) for each in quorum.survivors])
    with SentenceWriter() as writer:
        if quorum.in_force:
            writer.write("voters: " + ", ".join(map(voter_text, quorum.in_force)))
        for subject, is_in_force in (("", True), ("former voters ", False)):
            missing = [known_voter for known_voter in quorum.missing if known_voter.is_in_force is is_in_force]
            if missing:
                writer.write(f"{subject}without a metadata log here: {', '.join(map(voter_text, missing))}")
        for survivor in quorum.survivors:
            for sentence in _start_sentences(survivor.log):
                writer.write(f"{escape_controls(survivor.log.root)}: {escape_controls(sentence)}")
        if quorum.beside:
            what = "a further log directory of these nodes" if len(quorum.beside) == 1 else (
                "further log directories of these nodes"
            )  # fmt: skip
            others = first_of(quorum.beside, 1)
            writer.write(escape_controls(f"{others}: {what}, compared with the metadata by partitions and epochs"))
        if quorum.committed_at_least:
            writer.write(f"committed for certain, by a snapshot: everything below offset {quorum.committed_at_least}")
        writer.write(escape_controls(quorum.loss()))


def print_left_out(left_out: Sequence[LeftOut], as_json: bool) -> None:
    """Print a JSON line for each path that was not compared. Without `as_json`, print nothing, because these paths are
    among the findings.
    """
    for out in left_out if as_json else ():
        print_json(out, LeftOutLine)


def print_quorum_plan(plan: QuorumPlan) -> None:
    """Print a plan to recover a KRaft quorum on standard output: the copies, the changes to each directory, what is
    lost, and configuration lines to paste into properties files. Raises `StorageError` if a metadata log cannot be
    read.
    """
    print_quorum(plan.quorum)
    with SentenceWriter() as writer:
        for line in _plan_lines(plan):
            writer.write(escape_controls(line))
    with LineWriter() as writer:  # to be pasted
        for line in _configuration_lines(plan):
            writer.write(escape_controls(line))


def _plan_lines(plan: QuorumPlan) -> Iterator[str]:
    if plan.needless is not None:
        yield plan.needless
        return
    names = ", ".join(f"{member.node} ({member.place})" for member in plan.members)
    yield f"the quorum will be {names}, with the log of {plan.donor.root}"
    if plan.metadata.batch:
        yield (
            f"a batch of {len(plan.metadata.batch)} bytes at offset {plan.metadata.end_before}, epoch {plan.epoch}, "
            "makes them the voters"
        )
    for change in plan.changes:
        what = counted(len(change.actions), "change") if change.actions else "nothing to do"
        yield f"{change.root}: {what}"
        yield from _action_lines(change)
    if plan.identity is not None:
        yield f"{plan.wanted.into}: new, controller {plan.identity[0]} with directory id {plan.identity[1]}"
    yield from (f"warning: {told(warning)}" for warning in plan.warnings)
    yield from _expiry_lines(plan)


def _configuration_lines(plan: QuorumPlan) -> Iterator[str]:
    for who, lines in plan.configuration:
        yield f"in the properties of {who}, unless there already:"
        yield from (f"  {line}" for line in lines)


def _action_lines(change: DirectoryChange) -> Iterator[str]:
    """Yield one line for each file operation on a directory, with its kind, path and size (omitted if unknown). Of the
    files that are already marked for deletion (suffix `.deleted`), only the first `_FEW` get a line; a last line counts
    the others.
    """
    leftovers = [each for each in change.actions if each.path.endswith(DELETED)]
    kept = {id(leftover) for leftover in leftovers[_FEW:]}
    for action in change.actions:
        if id(action) not in kept:
            size = "" if action.size is None else f" ({counted(action.size, 'byte')})"
            yield f"  {action.kind} {action.path}{size}"
    if kept:
        yield f"  and {counted(len(kept), 'more file')} whose deletion was under way (--json lists all)"


def _expiry_lines(plan: QuorumPlan) -> Iterator[str]:
    """Yield lines about the topics or segments that brokers would delete at their first start: a heading, then one line
    for each reason with the first names. At most `_SHOWN` reasons with `_FEW` names each are shown, and the others are
    counted. Yields nothing if the plan has no such deletions.
    """
    if not plan.expiry:
        return
    yield "brokers delete at their first start, unless they are told not to:"
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    for expiry in plan.expiry:
        number = "" if expiry.partition is None else f"-{expiry.partition}"
        reason = f"{expiry.detail} ({expiry.setting}={expiry.value}, {expiry.origin})"
        names_by_reason.setdefault((expiry.kind.replace("_", " "), reason), []).append(f"{expiry.name}{number}")
    for (kind, reason), names in list(names_by_reason.items())[:_SHOWN]:
        yield f"  {kind} {first_of(names, _FEW)}: {reason}"
    if len(names_by_reason) > _SHOWN:
        yield f"  and {len(names_by_reason) - _SHOWN} more reasons (--json lists all)"


def print_quorum_result(result: QuorumResult) -> None:
    """Print the result of a quorum recovery on standard output. If it made a new directory, print its path. For each
    changed directory, print where its old files are and the command that reverses the change. For each unchanged
    directory, print "nothing to do", unless no recovery was necessary at all. For each node that still does not start,
    print why, and a command that plans the rest.
    """
    with SentenceWriter() as writer:
        if result.into is not None:
            writer.write(f"written: {escape_controls(result.into)}")
        for run in result.runs:
            root = escape_controls(run.root)
            if run.run_id is not None:
                writer.write(f"{root}: done; what was there is in {escape_controls(run.quarantine or '')}")
                writer.write("to undo this:")
                writer.write(f"  kafkalog undo {shell_word(run.root)} --run {run.run_id}")
            elif result.plan.needless is None:
                writer.write(f"{root}: nothing to do")
            if run.start is not None and run.never_starts:
                for sentence in node_sentences(run.start):
                    writer.write(f"{root}, as it is now: {escape_controls(sentence)}")
                every = ", with all log directories of the node" if run.start.not_given != 0 else ""
                writer.write(f"this command mends the quorum's files only; for the rest type this{every}:")
                writer.write(f"  {shell_line(['kafkalog', 'plan', run.root])}")
