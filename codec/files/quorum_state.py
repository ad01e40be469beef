"""`quorum-state`: one JSON line with a KRaft node's election state (`FileQuorumStateStore`)."""

from __future__ import annotations

import json
from typing import Any

from construct import Construct
from msgspec import Struct

from kafkalog.codec.common.errors import FormatError, LimitExceeded, UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.derive import fields_of, names_of
from kafkalog.codec.files.text import decode_uuid
from kafkalog.codec.layout.text_files import QUORUM_STATE_V0, QUORUM_STATE_V1
from kafkalog.codec.layout.text_values import Decimal, UuidText, VoterIds
from kafkalog.codec.parsing.json_line import json_of_first_line, short_of

__all__ = ["QuorumState", "UnreadQuorumStateError", "decode_quorum_state", "encode_quorum_state"]

NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
NO_NODE = -1
_LAYOUTS = {0: QUORUM_STATE_V0, 1: QUORUM_STATE_V1}
_VOTER = "voterId"
_VERSION = "data_version"


class QuorumState(Struct, frozen=True, kw_only=True):
    """Content of `quorum-state`: a node's election state. `current_voters`, `cluster_id` and `applied_offset` exist in
    version 0 only, `voted_directory_id` in version 1 only.
    """

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: str = NO_DIRECTORY
    current_voters: tuple[int, ...] = ()
    cluster_id: str = ""
    applied_offset: int = 0


def _value(leaf: Construct, value: Any) -> Any:
    """Convert the JSON value of a declared field to its Python value: voter ids become a tuple of int, other values
    stay unchanged. Raises `ValueError`, `TypeError`, `KeyError` or `FormatError` if the value is not of the declared
    type.
    """
    if isinstance(leaf, Decimal):
        leaf.text_for(value)
        return value
    if isinstance(leaf, VoterIds):
        if not isinstance(value, list):
            raise TypeError
        return tuple(_value(Decimal(32), voter[_VOTER]) for voter in value)
    if not isinstance(value, str):
        raise TypeError
    if isinstance(leaf, UuidText):
        decode_uuid(value)
    return value


class UnreadQuorumStateError(FormatError):
    """A `quorum-state` that no node can read. `kind` is `empty`, `corrupt` (no JSON object with a version),
    `unknown_version`, `incomplete` (a field is missing) or `mistyped` (a field has another type). `field` is the name
    of the first such field, otherwise None.
    """

    def __init__(self, kind: str, field: str | None = None, *, source: str | None = None) -> None:
        super().__init__("a quorum-state cannot be read", source=source, code="checkpoint_invalid", field=field)
        self.kind = kind


def decode_quorum_state(data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS) -> QuorumState:
    """Decode a `quorum-state` of version 0 or 1. Fields that the version does not have get a default: no directory, no
    voters, an empty cluster id, applied offset 0. `source` is a file name for messages only. Raises
    `UnreadQuorumStateError` for a file that a node could not read, `LimitExceeded` if the file is larger than
    `limits.checkpoint_bytes`.
    """
    if len(data) > limits.checkpoint_bytes:
        raise LimitExceeded("a quorum-state is too large", limit="checkpoint_bytes", source=source)
    try:
        members = json_of_first_line(data)
    except (ValueError, RecursionError):
        raise UnreadQuorumStateError("corrupt" if data else "empty", source=source) from None
    if not isinstance(members, dict) or _VERSION not in members:
        raise UnreadQuorumStateError("corrupt", source=source)
    members[_VERSION] = version = short_of(members[_VERSION])
    if version not in _LAYOUTS:
        raise UnreadQuorumStateError("unknown_version", source=source)
    values = {}
    for name, _doc, leaf in fields_of(_LAYOUTS[version]):
        if name not in members:
            raise UnreadQuorumStateError("incomplete", name, source=source)
        try:
            values[name] = _value(leaf, members[name])
        except (ValueError, KeyError, TypeError, FormatError):
            raise UnreadQuorumStateError("mistyped", name, source=source) from None
    return QuorumState(
        data_version=version,
        leader_id=values["leaderId"],
        leader_epoch=values["leaderEpoch"],
        voted_id=values["votedId"],
        voted_directory_id=values.get("votedDirectoryId", NO_DIRECTORY),
        current_voters=values.get("currentVoters", ()),
        cluster_id=values.get("clusterId", ""),
        applied_offset=values.get("appliedOffset", 0),
    )


def encode_quorum_state(state: QuorumState) -> bytes:
    """Encode a `quorum-state` as one line of JSON (UTF-8) without a final newline. Fields that its version does not
    have are omitted, and a lone surrogate is written as `?`, as Java does. Raises `UsageError` for a version other than
    0 and 1.
    """
    if state.data_version not in _LAYOUTS:
        raise UsageError(f"quorum-state version {state.data_version}")
    values = {
        "clusterId": state.cluster_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": state.voted_directory_id,
        "appliedOffset": state.applied_offset,
        "currentVoters": [{_VOTER: voter} for voter in state.current_voters],
        "data_version": state.data_version,
    }
    chosen = {name: values[name] for name in names_of(_LAYOUTS[state.data_version])}
    return json.dumps(chosen, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
