"""The manifest of a segment (`SegmentManifestV1`): metadata, positions of chunks and indexes, and key.

It is the last object written by a copy, and the first one read.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.tiers.aiven.chunk_index import ChunkIndex, read_chunk_index
from kafkalog.tiers.aiven.json_fields import flag, natural, object_of, text

__all__ = ["INDEXES", "LEADER_EPOCHS", "TRANSACTIONS", "Described", "Manifest", "WrappedKey", "read_manifest"]

LEADER_EPOCHS, TRANSACTIONS = "leaderEpoch", "transaction"
INDEXES = ("offset", "timestamp", "producerSnapshot", LEADER_EPOCHS, TRANSACTIONS)
"""files in the index object, as named in the manifest; only the last may be missing"""
_VERSION = "1"
_EPOCHS_AT_MOST = 100_000


class WrappedKey(Struct, frozen=True):
    """The key of a segment, encrypted with a key pair of the broker (`EncryptedDataKey`)."""

    pair: str
    """the id of the key pair"""
    wrapped: bytes
    aad: bytes
    """data that is authenticated in addition"""


class Described(Struct, frozen=True, kw_only=True):
    """The broker's metadata of the segment (`RemoteLogSegmentMetadata`)."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp: int
    broker_id: int
    event_timestamp: int
    leader_epochs: tuple[LeaderEpoch, ...]


class Manifest(Struct, frozen=True, kw_only=True):
    """Contents of a manifest."""

    chunks: ChunkIndex
    indexes: Mapping[str, tuple[int, int]]
    """position and size in the index object, for each of `INDEXES` that exists"""
    is_compressed: bool
    """whether the log is compressed; indexes never are"""
    key: WrappedKey | None
    """None if nothing is encrypted."""
    described: Described | None
    """None if written by an older plugin."""

    @property
    def indexes_size(self) -> int:
        """Size of the index object."""
        return max((position + size for position, size in self.indexes.values()), default=0)


def read_manifest(data: bytes) -> Manifest:
    """Parse the JSON of a manifest. Raises `FormatError` if it is not JSON, its version is not "1", or a field is
    missing or wrong.
    """
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError("it is not JSON") from None
    if not isinstance(fields, dict):
        raise FormatError("it is not a JSON object")
    if text(fields, "version") != _VERSION:
        raise FormatError(f"version {fields['version']!r:.40}, and {_VERSION} is the one that is known")
    return Manifest(
        chunks=read_chunk_index(object_of(fields, "chunkIndex")),
        indexes=dict(_indexes(object_of(fields, "segmentIndexes"))),
        is_compressed=flag(fields, "compression"),
        key=None if fields.get("encryption") is None else _key(object_of(fields, "encryption")),
        described=None
        if fields.get("remoteLogSegmentMetadata") is None
        else _described(object_of(fields, "remoteLogSegmentMetadata")),
    )


def _indexes(fields: Mapping[str, Any]) -> list[tuple[str, tuple[int, int]]]:
    found = []
    for name in INDEXES:
        if name != TRANSACTIONS or fields.get(name) is not None:
            place = object_of(fields, name)
            found.append((name, (natural(place, "position"), natural(place, "size"))))
    return found


def _key(fields: Mapping[str, Any]) -> WrappedKey:
    pair, colon, wrapped = text(fields, "dataKey").partition(":")
    try:
        if not (pair and colon):
            raise ValueError
        return WrappedKey(
            pair, base64.b64decode(wrapped, validate=True), base64.b64decode(text(fields, "aad"), validate=True)
        )
    except (binascii.Error, ValueError):
        raise FormatError("its data key is not an id, a colon, and base64") from None


def _described(fields: Mapping[str, Any]) -> Described:
    named = object_of(fields, "remoteLogSegmentId")
    of = object_of(named, "topicIdPartition")
    partition = object_of(of, "topicPartition")
    start, end = natural(fields, "startOffset", long=True), natural(fields, "endOffset", long=True)
    if end < start:
        raise FormatError(f"its offsets are {start} to {end}")
    newest = fields.get("maxTimestampMs")
    return Described(
        topic=text(partition, "topic"),
        topic_id=text(of, "topicId"),
        partition=natural(partition, "partition"),
        segment_id=text(named, "id"),
        start_offset=start,
        end_offset=end,
        max_timestamp=-1 if newest == -1 else natural(fields, "maxTimestampMs", long=True),
        broker_id=natural(fields, "brokerId"),
        event_timestamp=natural(fields, "eventTimestampMs", long=True),
        leader_epochs=_epochs(object_of(fields, "segmentLeaderEpochs")),
    )


def _epochs(fields: Mapping[str, Any]) -> tuple[LeaderEpoch, ...]:
    if not fields or len(fields) > _EPOCHS_AT_MOST or not all(field.isascii() and field.isdigit() for field in fields):
        raise FormatError("segmentLeaderEpochs is not what it should be")
    epochs = [LeaderEpoch(int(epoch[:10]), natural(fields, epoch, long=True)) for epoch in fields]
    return tuple(sorted(epochs))
