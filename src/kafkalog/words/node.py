"""Advice on repairing the files of a KRaft node other than its logs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.shell import shell_line, shell_word
from kafkalog.codec.names import CLUSTER_METADATA_DIRECTORY, PARTITION_METADATA, QUORUM_STATE
from kafkalog.recovery.broker.node.answer import (
    CANDIDATE,
    DISPLACED,
    ID_OF_ANOTHER_TOPIC,
    LAST_EPOCH,
    NEWER_FILES,
    OTHER_TOPIC_ID,
    READ_ONLY,
    ConsequenceKind,
    EmptyVoters,
    Fault,
    NodeStart,
    Part,
    ReplacedConsequence,
    StartOutcome,
)
from kafkalog.recovery.broker.node.sentences import empty_voters_text, voters_named
from kafkalog.recovery.decide.losses import first_names

__all__ = ["Mend", "before_any_start", "mends", "sentence_of_empty_voters"]

_LOSING_METADATA = {
    ConsequenceKind.METADATA_OVERWRITTEN, ConsequenceKind.METADATA_GOES_BACK, ConsequenceKind.METADATA_MAY_GO_BACK,
    ConsequenceKind.STRAY, ConsequenceKind.DELETED,
}  # fmt: skip
_OF_QUORUM = (Part.QUORUM_STATE, Part.METADATA_SNAPSHOT)


class Mend(NamedTuple):
    """Advice on a fault of a node's start that `recover` does not repair."""

    words: str
    commands: tuple[str, ...]
    """at least one; several for several files with this fault"""
    is_first: bool = False
    """whether it comes before a recovery of the logs: every start ends, or loses metadata, because of the fault"""

    @property
    def sentence(self) -> str:
        """Advice with the commands at the end, so that they can be pasted."""
        return f"{self.words}: {' && '.join(self.commands)}"


def before_any_start(nodes: Iterable[NodeStart]) -> list[str]:
    """Return sentences about what is to be done before any node is started, each with a command at its end. There is
    one for voters without metadata that would elect an empty cluster; empty if there are none.
    """
    empty = max((node.empty_voters for node in nodes if node.empty_voters is not None), default=None,
                key=lambda each: (len(each.nodes), len(each.copies)))  # fmt: skip
    return [] if empty is None else [sentence_of_empty_voters(empty)]


def sentence_of_empty_voters(empty: EmptyVoters) -> str:
    """Return the advice not to start voters without metadata before the quorum has been brought back. The command is
    `quorum recover` for the voter whose metadata reaches furthest. If no voter has metadata, it shows the copies.
    """
    said = f"do not start {voters_named(empty)}, {empty_voters_text(empty)}; first"
    if empty.best is None:
        shown = shell_line(["kafkalog", "quorum", "show", *empty.copies])
        return f"{said} bring the quorum back from a broker's copy (runbook: no-controller): {shown}"
    words = ["kafkalog", "quorum", "recover", "--standalone", empty.best, *empty.copies]
    return f"{said} bring the quorum back: {shell_line(words)}"


def mends(start: NodeStart | None, recovered: Iterable[str] = (), words: Sequence[str] = ()) -> Iterator[Mend]:
    """Yield advice, each with a command, on faults of a node's start that `recover` does not repair, such as damaged
    files of a KRaft quorum. At most one is about the metadata log and the quorum. Yields nothing if the node starts, or
    if that is unknown.

    `recovered` has the names of the partition directories that the planned recovery includes, `words` the options that
    a command repeats. Reads the metadata log if it may be lost; raises `StorageError` while iterating if that fails.
    """
    if start is None or start.worst.outcome in (StartOutcome.STARTS, StartOutcome.UNKNOWN):
        return
    if start.empty_voters is not None and start.node_id in start.empty_voters.nodes:
        said, _, command = sentence_of_empty_voters(start.empty_voters).rpartition(": ")
        yield Mend(said, (command,), is_first=True)
        return
    never = start.never_starts
    closed = dict.fromkeys(_root_of(fault.file, start) for fault in start.faults if fault.kind == READ_ONLY)
    yield from map(_not_writable, closed)
    of_others = {fault.file: fault for fault in start.faults if fault.kind == OTHER_TOPIC_ID}
    yield from (_with_other_id(fault, start) for fault in of_others.values())
    exchanged = {fault.file: fault for fault in start.faults if fault.kind == ID_OF_ANOTHER_TOPIC}
    if exchanged:
        yield _with_id_of_another(list(exchanged.values()), start)
    yield from (_without_copy(fault.file, never) for fault in start.faults if fault.part is Part.FUTURE)
    consequences = list(
        dict.fromkeys(consequence for answer in start.judged for consequence in answer.consequences)
    )
    yield from (_with_older_copy(consequence) for consequence in consequences
                if isinstance(consequence, ReplacedConsequence))  # fmt: skip
    has_log = CLUSTER_METADATA_DIRECTORY in recovered or "--cluster-metadata" in words
    kinds = {consequence.kind for consequence in consequences}
    damaged = (DISPLACED, "corrupt", "unreadable", *(["cut"] if kinds & _LOSING_METADATA else []))
    faults = (
        each
        for each in start.faults
        if each.kind != NEWER_FILES
        and (each.part in _OF_QUORUM or (not has_log and each.part is Part.METADATA_LOG and each.kind in damaged))
    )
    fault = next(faults, None)
    if fault is None or not _has_metadata_log(start):
        if ConsequenceKind.METADATA_OVERWRITTEN in kinds or start.has_no_metadata:
            yield _without_metadata(start)
        return
    root = _root_of(fault.file, start)
    if start.fetches_metadata:
        away = shell_line([os.path.join(root, CLUSTER_METADATA_DIRECTORY), f"{root}.{CLUSTER_METADATA_DIRECTORY}"])
        yield Mend(
            "recover does not change the metadata log; a broker that is not a controller fetches it again from its "
            "controllers, so move it away, out of the log directory",
            (f"mv {away}",),
            never,
        )
    elif fault.kind in (CANDIDATE, LAST_EPOCH):
        yield Mend(
            "recover does not change the quorum's files (runbook: kraft-files); this controller is the only voter, so "
            "move its quorum-state away",
            (f"mv {shell_line([fault.file, f'{root}.{QUORUM_STATE}'])}",),
            never or bool(kinds & _LOSING_METADATA),
        )
    elif fault.part in _OF_QUORUM and not _is_log_lost(root):
        yield Mend(
            "recover does not change the quorum's files (runbook: kraft-files); of several voters give every "
            "directory, with --endpoint for each; if this controller is the only voter, type this",
            (f"kafkalog quorum recover --standalone {shell_word(root)}",),
            never or bool(kinds & _LOSING_METADATA),
        )
    elif has_log:
        yield Mend(
            "this log has no metadata that a controller could go on with; compare it with the copies of other nodes, "
            "brokers too, whose directories you add",
            (f"kafkalog quorum show {shell_word(root)}",),
            never,
        )
    else:
        yield Mend(
            "recover leaves the metadata log as it is, unless it is told otherwise; if there are other nodes, compare "
            "their copies first with `kafkalog quorum show`; this tells what can be mended here",
            (shell_line(["kafkalog", "plan", "--cluster-metadata", *sorted(start.roots), *words]),),
            is_first=True,
        )


def _has_metadata_log(start: NodeStart) -> bool:
    """Whether a log directory of the node has a metadata log. A node that was formatted again has none, so that nothing
    of it can be mended.
    """
    return any(os.path.isdir(os.path.join(root, CLUSTER_METADATA_DIRECTORY)) for root in start.roots)


def _is_log_lost(root: str) -> bool:
    """Return whether the metadata log in `root` cannot give any metadata without other copies. The reason is that it is
    missing, empty or damaged, or that its directory contains another partition. Raises `StorageError` if it cannot be
    read.
    """
    from kafkalog.cluster.kraft.quorum_log import read_quorum_log  # few plans need it
    from kafkalog.jobs.quorum.mending import has_lost_all, image_of

    try:
        log = read_quorum_log(root)
    except UsageError:
        return True
    return log.end == 0 or has_lost_all(log, image_of(log))


def _without_metadata(start: NodeStart) -> Mend:
    """Advice on a lost metadata log. If it has no records, a controller takes it for the log of a new cluster. Or the
    node has no metadata at all (`NodeStart.has_no_metadata`).
    """
    holders = (each for each in start.roots if os.path.isdir(os.path.join(each, CLUSTER_METADATA_DIRECTORY)))
    words = (
        "put back a copy of the metadata log from before this (if there is none, not even a backup: runbook, "
        "stray-partitions); this compares those of other nodes, brokers too, whose directories you add"
    )
    if start.has_no_metadata:
        words = f"the metadata of the cluster is lost here (runbook: no-controller): {words}"
    return Mend(words, (f"kafkalog quorum show {shell_word(next(holders, start.roots[0]))}",), is_first=True)


def _root_of(path: str, start: NodeStart) -> str:
    """Return the log directory that contains `path` or is `path`; the first one of the node if none does."""
    return next((root for root in start.roots if path == root or path.startswith(root + os.sep)), start.roots[0])


def _not_writable(path: str) -> Mend:
    """Advice on a log directory on a file system that is mounted read-only."""
    words = (
        f"before a start or a recovery, mount the file system of {path} for writing, once the kernel's log shows why "
        "it is read-only (runbook: lost-directory); this shows where it is mounted"
    )
    return Mend(words, (f"findmnt -T {shell_word(path)}",), is_first=True)


def _with_other_id(fault: Fault, start: NodeStart) -> Mend:
    """Advice on a `partition.metadata` whose topic id is not the id of the topic with this name."""
    words = (
        f"{fault.detail}: unless it is the log of another topic of this name (deleted, newer than this metadata, or of "
        "another cluster), move the file away before a start; `recover` writes the right one"
    )
    return Mend(words, (_away(fault, start),), is_first=True)


def _with_id_of_another(faults: Sequence[Fault], start: NodeStart) -> Mend:
    """Advice on all `partition.metadata` files that have the topic id of another topic; there is at least one."""
    names = first_names([os.path.basename(os.path.dirname(fault.file)) for fault in faults])
    has, it, one = ("have", "these files", "ones") if faults[1:] else ("has", "this file", "one")
    words = (
        f"{names} {has} a {PARTITION_METADATA} of another topic: unless directories have each other's names, move {it} "
        f"away before a start; `recover` writes the right {one}"
    )
    return Mend(words, tuple(_away(fault, start) for fault in faults), is_first=True)


def _away(fault: Fault, start: NodeStart) -> str:
    """Return the command that moves a `partition.metadata` to a place beside its log directory."""
    name = os.path.basename(os.path.dirname(fault.file))
    away = f"{_root_of(fault.file, start)}.{name}.{PARTITION_METADATA}"
    return f"mv {shell_line([fault.file, away])}"


def _with_older_copy(consequence: ReplacedConsequence) -> Mend:
    """Advice on a `-future` directory that replaces the current log, although it ends earlier."""
    words = (
        "before a start, move the copy of an unfinished move out of its log directory: the start replaces "
        f"{first_names(consequence.lost)} by it, and loses the end (runbook: duplicated-partition)"
    )
    return Mend(words, (_out_of_log_directory(consequence.file or ""),), is_first=True)


def _without_copy(path: str, is_first: bool) -> Mend:
    """Advice on a `-future` directory beside the log that it was to replace."""
    words = "recover does not choose between two copies in one log directory; move the unfinished one out of it"
    return Mend(words, (_out_of_log_directory(path),), is_first)


def _out_of_log_directory(path: str) -> str:
    """Return the command that moves a partition directory to a place beside its log directory."""
    root, name = os.path.split(path)
    return f"mv {shell_line([path, f'{root}.{name}'])}"
