"""Predict the fourth part of a start: voters, `quorum-state`, and whether the node can lead or find a leader by itself.

Since 3.8 a start first reads the newest snapshot and the whole log for voters (`KRaftControlRecordStateMachine`). A
`quorum-state` that cannot be read is discarded before 3.8, and ends the start since (`QuorumState.initialize`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from kafkalog.codec.model import ControlType
from kafkalog.codec.names import QUORUM_STATE
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery.broker.node.answer import ConsequenceKind, Fault, Part, Role, StartConsequence
from kafkalog.recovery.broker.node.ending import RUNTIME, ends
from kafkalog.recovery.broker.node.metadata_log import LoadedMetadata
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.reading import PARSE, MetaBatch, ReaderError
from kafkalog.recovery.broker.node.releases import Release

__all__ = ["StateFile", "Voters", "read_control_records", "refuse_voters", "state_of_start", "static_voters"]

_UNCHECKED = "java.io.UncheckedIOException"
_MOST = 1 << 20
_FIELDS = {
    0: ("leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "clusterId"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
_FIRST_READ_BY = {("RegisterBrokerRecord", 4): "4.3", ("BrokerRegistrationChangeRecord", 3): "4.3"}
"""record and version, with cordoned directories -> the first release that reads it"""
_VOTER = re.compile(r"\s*(\d+)@")


class Voters(Struct, frozen=True):
    """Voters according to the node's own files."""

    kraft_version: int
    dynamic: tuple[tuple[int, str], ...]
    """(node id, directory id) of the voters in the newest snapshot or the log; empty with static voters"""
    stuck_at: int | None = None
    """offset at which the search for voters hangs, because no batch is there although the log ends later; None if it
    ends
    """


class StateFile(Struct, frozen=True, kw_only=True):
    """Content of `quorum-state`; `voters` are those of version 0."""

    path: str
    is_there: bool
    epoch: int = 0
    leader: int = -1
    voted: int = -1
    voters: tuple[int, ...] = ()
    consequences: tuple[StartConsequence, ...] = ()
    faults: tuple[Fault, ...] = ()


def static_voters(properties: Mapping[str, str]) -> tuple[int, ...]:
    """Sorted ids in `controller.quorum.voters`; empty if it is not set."""
    text = properties.get("controller.quorum.voters", "")
    return tuple(sorted(int(match[1]) for part in text.split(",") if (match := _VOTER.match(part)) is not None))


def refuse_voters(files: NodeFiles, role: Role) -> None:
    """Raise `StartEndsError` if `controller.quorum.voters` contradicts the node's role: a controller is not in it, or a
    broker is (`KafkaConfig.validateValues`). Not checked if the properties lack it or the role.
    """
    voters = static_voters(files.properties)
    if not voters or files.stated_role is None:
        return
    start = f"requirement failed: If process.roles contains {{}} role, the node id {files.node_id}"
    if role is not Role.BROKER and files.node_id not in voters:
        message = start.format("the 'controller'") + " must be included in the set of voters controller.quorum.voters"
    elif role is Role.BROKER and files.node_id in voters:
        message = start.format("just the 'broker'") + " must not be included in the set of voters"
    else:
        return
    raise ends(Part.VOTERS, "mismatch", files.roots[0], "java.lang.IllegalArgumentException", message)


def read_control_records(loaded: LoadedMetadata, release: Release) -> Voters:
    """Read the KRaft version and the dynamic voters from the snapshot and the log as a start does; before 3.8 a start
    reads none, and the result is version 0 without voters. Raises `StartEndsError` if the snapshot or the log cannot be
    read.

    A start reads up to the end of the log and does not notice when no more batches come
    (`KRaftControlRecordStateMachine.maybeLoadLog`): if the last segments are empty, it reads forever, and `stuck_at` is
    the offset at which it does.
    """
    voters = Voters(0, ())
    if not release.at_least("3.8"):
        return voters
    start = 0
    if loaded.snapshot is not None:
        start, path = loaded.snapshot.end, loaded.snapshot.path
        try:
            for batch in loaded.snapshot.batches():
                _refuse_newer_records(batch, release)
                voters = _updated(batch, voters)
        except ReaderError as error:
            detail = f"the newest snapshot {os.path.basename(path)} cannot be read: {error.message}"
            raise ends(
                Part.METADATA_SNAPSHOT, "corrupt", path, error.exception, error.message, detail=detail
            ) from error
    reached = start
    try:
        for batch in loaded.batches(start):
            _refuse_newer_records(batch, release)
            voters = _updated(batch, voters)
            reached = batch.next_offset
    except ReaderError as error:
        raise ends(Part.METADATA_LOG, "corrupt", loaded.directory, error.exception, error.message) from error
    return structs.replace(voters, stuck_at=reached) if reached < loaded.end else voters


def _refuse_newer_records(batch: MetaBatch, release: Release) -> None:
    """Raise `ReaderError` at the first record that the release cannot read, as it reads all of them in search of
    voters.
    """
    for record in batch.records if not batch.is_control else ():
        since = _FIRST_READ_BY.get((record.name, record.version or 0))
        if since is not None and not release.at_least(since):
            raise ReaderError(PARSE, f"Failed to deserialize record with type {record.type}")


def _updated(batch: MetaBatch, known: Voters) -> Voters:
    version, voters = known.kraft_version, known.dynamic
    for fields in batch.control(ControlType.KRAFT_VERSION):
        version = fields["k_raft_version"]
    for fields in batch.control(ControlType.KRAFT_VOTERS):
        voters = tuple((field["voter_id"], field["voter_directory_id"]) for field in fields["voters"])
    return Voters(version, voters)


def state_of_start(loaded: LoadedMetadata, release: Release) -> StateFile:
    """Read `quorum-state` as a start does. If it is missing, or before 3.8 is empty, no JSON or without `data_version`,
    the node continues without its vote: the result has `is_there` False, a consequence and a fault. Raises
    `StartEndsError` for other damage, such as a missing field or an unknown version, and from 3.8 on for any damage;
    `StorageError` if the file cannot be opened.
    """
    path = os.path.join(loaded.directory, QUORUM_STATE)
    if not os.path.exists(path):
        forgotten = StartConsequence(
            kind=ConsequenceKind.EPOCH_FORGOTTEN,
            detail="quorum-state is missing: the node has forgotten whom it voted for and in which epoch",
            file=path,
        )
        fault = Fault(part=Part.QUORUM_STATE, kind="missing", file=path, detail=forgotten.detail)
        return StateFile(path=path, is_there=False, consequences=(forgotten,), faults=(fault,))
    with FileSource(path) as source:
        data = source.read(0, min(source.size, _MOST))
    fields, problem = _parsed(data, path)
    if problem is None:
        voters = tuple(sorted(each["voterId"] for each in fields.get("currentVoters") or ()))
        return StateFile(
            path=path,
            is_there=True,
            epoch=fields["leaderEpoch"],
            leader=fields["leaderId"],
            voted=fields["votedId"],
            voters=voters,
        )
    exception, message, kind = problem
    if release.at_least("3.8") or exception != _UNCHECKED:
        raise ends(Part.QUORUM_STATE, kind, path, exception, message)
    forgotten = StartConsequence(
        kind=ConsequenceKind.EPOCH_FORGOTTEN,
        detail="quorum-state cannot be read and is thrown away: the vote is forgotten",
        file=path,
    )
    return StateFile(
        path=path, is_there=False, consequences=(forgotten,),
        faults=(Fault(part=Part.QUORUM_STATE, kind=kind, file=path, detail=forgotten.detail),),
    )  # fmt: skip


def _parsed(data: bytes, path: str) -> tuple[dict[str, Any], tuple[str, str, str] | None]:
    """Parse `quorum-state`: return (fields by name, None), or ({}, problem) with a problem of exception class, the
    broker's message, and a word for the damage (`empty`, `corrupt`, `unknown_version`, `incomplete`). Only the first
    line counts. `path` is for the message.
    """
    unread = f"Error while reading the Quorum status from the file {path}"
    line = data.split(b"\n", 1)[0].rstrip(b"\r")
    if not data:
        return {}, (_UNCHECKED, unread, "empty")
    try:
        found = json.loads(line.decode())
    except (ValueError, RecursionError):
        return {}, (_UNCHECKED, unread, "corrupt")
    if not isinstance(found, dict) or "data_version" not in found:
        return {}, (_UNCHECKED, unread, "corrupt")
    version = found["data_version"]
    if version not in _FIELDS:
        words = f"data_version ({version}) is not within the min (0) and max (1) supported version"
        return {}, ("java.lang.IllegalStateException", words, "unknown_version")
    for name in _FIELDS[version]:
        if name not in found:
            words = f"QuorumStateData: unable to locate field '{name}', which is mandatory in version {version}"
            return {}, (RUNTIME, words, "incomplete")
        wanted = list if name == "currentVoters" else (str if name in ("clusterId", "votedDirectoryId") else int)
        if not isinstance(found[name], wanted):
            return {}, (RUNTIME, "QuorumStateData expected", "corrupt")
    return found, None
