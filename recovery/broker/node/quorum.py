"""Predict the fourth part of a start: voters, `quorum-state`, and whether the node can lead or find a leader by itself.

Since 3.8 a start first reads the newest snapshot and the whole log for voters (`KRaftControlRecordStateMachine`). A
`quorum-state` that cannot be read is discarded before 3.8, and ends the start since (`QuorumState.initialize`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from msgspec import Struct, structs

from kafkalog.codec.files.quorum_state import UnreadQuorumStateError, decode_quorum_state
from kafkalog.codec.model import ControlType
from kafkalog.codec.names import QUORUM_STATE
from kafkalog.codec.parsing.json_line import json_of_first_line, short_of
from kafkalog.log.disk.files import FileSource
from kafkalog.recovery.broker.node.answer import (
    CANDIDATE,
    LAST_EPOCH,
    ConsequenceKind,
    Fault,
    Part,
    Role,
    StartConsequence,
)
from kafkalog.recovery.broker.node.ending import RUNTIME, ends
from kafkalog.recovery.broker.node.metadata_log import LoadedMetadata
from kafkalog.recovery.broker.node.node_files import NodeFiles
from kafkalog.recovery.broker.node.reading import PARSE, MetaBatch, ReaderError
from kafkalog.recovery.broker.node.releases import Release

__all__ = [
    "StateFile", "Voters", "read_control_records", "refuse_state", "refuse_voters", "state_of_start",
    "static_voters",
]  # fmt: skip

_UNCHECKED = "java.io.UncheckedIOException"
_MOST = 1 << 20
_LAST_EPOCH = 2**31 - 1
_NO_NUMBERS = ("currentVoters", "clusterId", "votedDirectoryId")
_FIRST_READ_BY = {("RegisterBrokerRecord", 4): "4.3"}
"""record and version -> the first release that reads it. An earlier one reads a later version of a record without inner
structs (BrokerRegistrationChangeRecord 3): what is new in it are tagged fields
"""
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
    broker is (`KafkaConfig.validateValues`). Not checked if the properties lack the voters or the role.
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
    is_renumbered = role is not Role.BROKER and len(voters) == 1
    cure = f"if it was node {voters[0]} before, set node.id={voters[0]} again in server.properties and meta.properties"
    raise ends(
        Part.VOTERS, "mismatch", files.roots[0], "java.lang.IllegalArgumentException", message,
        cure=cure if is_renumbered else "",
    )  # fmt: skip


def read_control_records(loaded: LoadedMetadata, release: Release) -> Voters:
    """Read the KRaft version and the dynamic voters from the snapshot and the log, as a start does. Before 3.8 a start
    reads neither, and the result is version 0 without voters. Raises `StartEndsError` if the snapshot or the log is
    damaged or has a record for which the release is too old. Raises `StorageError` if a file cannot be read.

    A start reads up to the end of the log (`KRaftControlRecordStateMachine.maybeLoadLog`). It does not notice that no
    more batches come, so it reads forever if the last segments are empty. Then `stuck_at` is the offset after the last
    batch, otherwise None.
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
    """Read `quorum-state` as a start does. If the file or the directory of the metadata log is missing, the node
    continues without its vote: the result has `is_there` False, a consequence and a fault. Before 3.8 the result is the
    same for a file that is empty, is not a JSON object, or lacks `data_version`. Raises `StartEndsError` for any other
    damage, `StorageError` if the file cannot be read.
    """
    path = os.path.join(loaded.directory, QUORUM_STATE)
    if not loaded.directory or not os.path.exists(path):  # else it is looked for in the working directory
        forgotten = StartConsequence(
            kind=ConsequenceKind.EPOCH_FORGOTTEN,
            detail="quorum-state is missing: the node has forgotten whom it voted for and in which epoch",
            file=path,
        )
        fault = Fault(part=Part.QUORUM_STATE, kind="missing", file=path, detail=forgotten.detail)
        return StateFile(path=path, is_there=False, consequences=(forgotten,), faults=(fault,))
    with FileSource(path) as source:
        data = source.read(0, min(source.size, _MOST))
    try:
        state = decode_quorum_state(data)
    except UnreadQuorumStateError as error:
        exception, message = _ending(error, data, path)
        kind = "corrupt" if error.kind == "mistyped" else error.kind
    else:
        return StateFile(
            path=path,
            is_there=True,
            epoch=state.leader_epoch,
            leader=state.leader_id,
            voted=state.voted_id,
            voters=tuple(sorted(state.current_voters)),
        )
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


def refuse_state(state: StateFile, node_id: int | None, release: Release) -> None:
    """Raise `StartEndsError` if node `node_id`, the only voter, cannot be elected with this `quorum-state`
    (`KafkaRaftClient.initialize`). If it has voted for itself and no leader is named, it cannot before 4.0; since 4.0
    it leads in the epoch of the file. Otherwise it begins an election, which fails if the file has the last possible
    epoch.
    """
    is_candidate = state.voted == node_id and state.leader < 0  # it leads in the epoch of the file
    if is_candidate and not release.at_least("4.0"):
        raise ends(
            Part.QUORUM_STATE, CANDIDATE, state.path, "java.lang.IllegalStateException",
            f"Cannot transition to Candidate since the local broker.id=OptionalInt[{node_id}]",
            detail="quorum-state says that the only voter was stopped during its own election",
            cure="move this file away: the only voter needs no earlier vote",
        )  # fmt: skip
    if is_candidate or state.epoch != _LAST_EPOCH:
        return
    raise ends(
        Part.QUORUM_STATE, LAST_EPOCH, state.path, "java.lang.IllegalArgumentException",
        "Received invalid partition leader epoch entry",  # releases write the entry in different ways
        detail=f"quorum-state names epoch {_LAST_EPOCH}, which is damage, as no cluster has had so many elections",
        cure="move this damaged file away: the epoch is then that of the log",
    )  # fmt: skip


def _ending(error: UnreadQuorumStateError, data: bytes, path: str) -> tuple[str, str]:
    """Return the class and message of the Java exception with which a node refuses a `quorum-state` file. `data` is the
    file's content, `path` its path, and `error` the reason why it cannot be decoded.
    """
    if error.field is None and error.kind != "unknown_version":
        return _UNCHECKED, f"Error while reading the Quorum status from the file {path}"
    members = json_of_first_line(data)
    version = short_of(members["data_version"])
    if error.kind == "unknown_version":
        words = f"data_version ({version}) is not within the min (0) and max (1) supported version"
        return "java.lang.IllegalStateException", words
    if error.kind == "incomplete":
        words = f"QuorumStateData: unable to locate field '{error.field}', which is mandatory in version {version}"
        return RUNTIME, words
    is_text = isinstance(members[error.field], str)
    return (RUNTIME, "QuorumStateData expected") if error.field in _NO_NUMBERS and not is_text else (
        ("java.lang.IllegalArgumentException", "Input string") if error.field == "votedDirectoryId"
        else ("java.lang.NumberFormatException", "QuorumStateData: ")
    )  # fmt: skip
