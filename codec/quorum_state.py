"""`quorum-state`: one JSON line in which a KRaft node keeps its election state (`FileQuorumStateStore`)."""

from __future__ import annotations

import json
from typing import Any

from kafkalog.classes import dataclass
from kafkalog.codec.errors import FormatError, LimitExceeded, UsageError
from kafkalog.codec.layout.text_files import QUORUM_STATE_V0, QUORUM_STATE_V1, TextField
from kafkalog.codec.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.text import decode_uuid

__all__ = ["QuorumState", "decode_quorum_state", "encode_quorum_state"]

NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
NO_NODE = -1
_LAYOUTS = {0: QUORUM_STATE_V0, 1: QUORUM_STATE_V1}
_BITS = {"int32": 32, "int64": 64}
_VOTER = "voterId"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """Election state; `current_voters`, `cluster_id` and `applied_offset` in version 0 only, the directory in 1."""

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: str = NO_DIRECTORY
    current_voters: tuple[int, ...] = ()
    cluster_id: str = ""
    applied_offset: int = 0


def _value(field: TextField, value: Any) -> Any:
    """What a field of the declaration holds, or ValueError or TypeError."""
    match field.kind:
        case "int32" | "int64":
            bits = _BITS[field.kind]
            if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
                raise ValueError
            return value
        case "voters":
            if not isinstance(value, list):
                raise TypeError
            return tuple(_value(TextField(_VOTER, "int32", ""), voter[_VOTER]) for voter in value)
        case _:
            if not isinstance(value, str):
                raise TypeError
            if field.kind == "uuid":
                decode_uuid(value)
            return value


def decode_quorum_state(data: bytes, *, source: str | None = None, limits: Limits = DEFAULT_LIMITS) -> QuorumState:
    """The state of either version; anything else is `FormatError`."""
    if len(data) > limits.checkpoint_bytes:
        raise LimitExceeded("a quorum-state is too large", limit="checkpoint_bytes", source=source)
    try:
        found = json.loads(data)
        version = found["data_version"]
        layout = _LAYOUTS[version]
        values = {field.name: _value(field, found[field.name]) for field in layout}
    except (ValueError, KeyError, TypeError, RecursionError, FormatError):
        raise FormatError("a quorum-state cannot be read", source=source, code="checkpoint_invalid") from None
    return QuorumState(
        data_version=values["data_version"],
        leader_id=values["leaderId"],
        leader_epoch=values["leaderEpoch"],
        voted_id=values["votedId"],
        voted_directory_id=values.get("votedDirectoryId", NO_DIRECTORY),
        current_voters=values.get("currentVoters", ()),
        cluster_id=values.get("clusterId", ""),
        applied_offset=values.get("appliedOffset", 0),
    )


def encode_quorum_state(state: QuorumState) -> bytes:
    """The bytes of a `quorum-state`; there is no final newline."""
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
    chosen = {field.name: values[field.name] for field in _LAYOUTS[state.data_version]}
    return json.dumps(chosen, separators=(",", ":"), ensure_ascii=False).encode()
