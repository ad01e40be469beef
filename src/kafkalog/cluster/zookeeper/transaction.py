"""Transactions of a ZooKeeper log, parsed from their payload (`SerializeUtils.deserializeTxn`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.cluster.layout import zookeeper as layout
from kafkalog.cluster.records.messages import decode
from kafkalog.codec.common.errors import FormatError

__all__ = ["Operation", "Transaction", "TransactionType", "parse_transaction"]


class TransactionType(enum.IntEnum):
    """Types of transactions that are logged (`ZooDefs.OpCode`)."""

    ERROR = -1
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21


_CREATES = (TransactionType.CREATE, TransactionType.CREATE2)
_DIGEST_BYTES = 12
_DIGEST_VERSION = 2


class Operation(Struct, frozen=True):
    """A single change: the transaction itself, or a part of a multi."""

    type: TransactionType
    fields: Mapping[str, Any]

    @property
    def path(self) -> str | None:
        """Path of the changed node; None if the operation has none."""
        return self.fields.get("path")


class Transaction(Struct, frozen=True, kw_only=True):
    """A logged transaction; `operations` has one change, or the parts of a multi."""

    session: int
    cxid: int
    zxid: int
    time: int
    """time by the leader's clock, ms"""
    type: TransactionType
    operations: tuple[Operation, ...]
    digest: int | None = None
    """digest of the whole tree after the transaction, as ZooKeeper computed it"""

    @property
    def failed(self) -> bool:
        """Whether the transaction changed nothing, because it or a part of a multi is an error."""
        return any(operation.type is TransactionType.ERROR for operation in self.operations)


def _body(kind: int, data: bytes, position: int) -> tuple[Operation, int]:
    """Parse the body of a transaction at `position`; return its operation and the position after it. `kind` is the
    type's number.

    The body of a create is first read in the old layout. If bytes follow it that are not a digest, it is read in the
    current layout. Raises `FormatError` for an unknown type or invalid bytes.
    """
    try:
        known = TransactionType(kind)
    except ValueError:
        raise FormatError(f"transaction type {kind} is unknown", position=position) from None
    if known in _CREATES:
        short = decode(layout.CREATE_V0, 0, data, position=position)
        if len(data) - position - short.size in (0, _DIGEST_BYTES):
            return Operation(known, {**short.fields, "parent_c_version": -1}), position + short.size
    if known is TransactionType.CLOSE_SESSION:
        return _close_session(data, position)
    decoded = decode(layout.BODIES[kind], 0, data, position=position)
    return Operation(known, decoded.fields), position + decoded.size


def _close_session(data: bytes, position: int) -> tuple[Operation, int]:
    """Parse the body of a closed session; return its operation and the position after it.

    Since 3.6 the body lists the nodes that are removed with the session (`paths_to_delete`). In older logs, or if the
    bytes are not such a body, the list is empty and the position unchanged.
    """
    left = len(data) - position
    if left:
        try:
            decoded = decode(layout.BODIES[TransactionType.CLOSE_SESSION], 0, data, position=position)
        except FormatError:
            decoded = None
        if decoded is not None and left - decoded.size in (0, _DIGEST_BYTES):
            fields = {"paths_to_delete": decoded.fields["paths_to_delete"] or []}
            return Operation(TransactionType.CLOSE_SESSION, fields), position + decoded.size
    return Operation(TransactionType.CLOSE_SESSION, {"paths_to_delete": []}), position


def parse_transaction(payload: bytes) -> Transaction:
    """Parse a transaction from the bytes that its checksum covers. `digest` is None if there is no digest of the
    current version.

    A multi transaction has one operation per part. Raises `FormatError` for invalid or surplus bytes, or an unknown
    type.
    """
    header = decode(layout.TXN_HEADER, 0, payload)
    fields = header.fields
    operation, end = _body(fields["type"], payload, header.size)
    digest = None
    if len(payload) - end == _DIGEST_BYTES:
        digest_fields = decode(layout.DIGEST, 0, payload, position=end).fields
        digest = digest_fields["tree_digest"] if digest_fields["version"] == _DIGEST_VERSION else None
    elif end != len(payload):
        raise FormatError(f"{len(payload) - end} bytes after the transaction", position=end)
    operations: tuple[Operation, ...] = (operation,)
    if operation.type is TransactionType.MULTI:
        operations = tuple(_part(field) for field in operation.fields["txns"] or ())
    return Transaction(
        session=fields["client_id"],
        cxid=fields["cxid"],
        zxid=fields["zxid"],
        time=fields["time"],
        type=operation.type,
        operations=operations,
        digest=digest,
    )


def _part(part: Mapping[str, Any]) -> Operation:
    data = part["data"] or b""
    if part["type"] == TransactionType.MULTI:
        raise FormatError("a multi inside a multi")
    operation, end = _body(part["type"], data, 0)
    if end != len(data):
        raise FormatError(f"{len(data) - end} bytes after a part of a multi", position=end)
    return operation
