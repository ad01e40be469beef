"""`explain`: identify a file by its name, and explain its bytes."""

from __future__ import annotations

import os
import re

from kafkalog.codec.common.errors import UsageError
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.index_files import SNAPSHOT_HEADER
from kafkalog.codec.names import (
    BOOTSTRAP_CHECKPOINT,
    CLEANED,
    CLUSTER_METADATA_TOPIC,
    DELETED,
    SWAP,
    FileKind,
    parse_kraft_snapshot_file,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.codec.parsing.trace import read_spans
from kafkalog.codec.parsing.whole import PRODUCER_SNAPSHOT
from kafkalog.codec.plain.crc32c import crc32c
from kafkalog.log.disk.files import FileSource, PathLike, absolute, is_directory, read_small
from kafkalog.recovery.damage.bit_repair import flipped_bit
from kafkalog.recovery.explain.entries import explain_index
from kafkalog.recovery.explain.explanation import ExplainedPart, Explanation, PartRole
from kafkalog.recovery.explain.logs import Wanted, broken_fields, explain_log, one_bit, with_records
from kafkalog.recovery.explain.text_files import TEXT_FILES, text_spans

__all__ = ["MOST_FIELDS", "explain", "is_explained"]

MOST_FIELDS = 2000
"""Most fields in one explanation by default."""
_OF_TAIL = re.compile(r"\.tail@\d+$")
_PAGES = {
    FileKind.OFFSET_INDEX: "offset-index",
    FileKind.TIME_INDEX: "time-index",
    FileKind.TRANSACTION_INDEX: "transaction-index",
}


def explain(
    path: PathLike,
    *,
    position: int | None = None,
    offset: int | None = None,
    max_fields: int = MOST_FIELDS,
    records: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Explanation:
    """Return the fields of a file of a log directory with their bytes, values and meanings. The name of the file
    decides how it is read. In a log or an index, only the fields at one place are returned; other files are shown from
    their start. Changes nothing.

    In a log this place is the entry that contains byte `position` or the record at `offset`. If no entry contains the
    offset, the place is the next entry (compaction has removed the record), or the damage that may have contained it.
    Without a position and an offset, it is the first damage; in a sound log, it is the start. Damage is returned with
    the entries before and after it. In an index it is the entry at `position`; without a position, it begins shortly
    before the first wrong entry, or at the start.

    Without a position and an offset, the explanation of an empty log has no parts.

    Raises `UsageError` if the file is a directory or its name is not one of Kafka's. Raises it also if both `position`
    and `offset` are given, or if the place is not in the file. The same holds if an offset or `records` is given for a
    file without batches. In a text file and in a producer snapshot a position chooses nothing; in a text file it may
    lie beyond the end. Raises `StorageError` if a file with a name of Kafka's is missing or cannot be read. Raises
    `LimitExceeded` if a text file is larger than `limits.checkpoint_bytes`.

    * `path`: the file
    * `position`: byte in the file, from 0
    * `offset`: offset of a record; only for a log or a KRaft snapshot
    * `max_fields`: about how many fields are shown at most
    * `records`: give the records of a batch too, those before the damage if it is damaged
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    path = os.fspath(path)
    if position is not None and offset is not None:
        raise UsageError("position and offset are two places: give one of them")
    if position is not None and position < 0:
        raise UsageError(f"position {position} is below zero")
    if is_directory(path):
        raise UsageError(f"{path} is a directory: give one of its files")
    name = _plain_name(path)
    found, is_snapshot = parse_segment_file(name), _is_snapshot(name)
    if offset is not None and not is_snapshot and (found is None or found.kind is not FileKind.LOG):
        raise UsageError(f"{path} has no batches: give position instead of offset")
    is_log = is_snapshot or (found is not None and found.kind is FileKind.LOG)
    if records and not is_log:
        raise UsageError(f"{path} has no batches, and no records")
    if name in TEXT_FILES:
        return _text(path, name, max_fields, limits)
    if found is None and not is_snapshot:
        if not os.path.lexists(path):
            raise UsageError(f"{path} does not exist")
        raise UsageError(f"{path} is not a file of a log directory whose bytes are known by its name")
    with FileSource(path) as source:
        if position is not None and position >= source.size:
            raise UsageError(f"{path} has {source.size} bytes, and no byte {position}")
        if found is not None and found.kind is FileKind.PRODUCER_SNAPSHOT:
            return Explanation(
                path=path, page="producer-snapshot", size=source.size, parts=_snapshot(source, max_fields, limits)
            )
        if found is not None and found.kind in _PAGES:
            parts = explain_index(source, path, found.kind, found.base_offset, position, most=max_fields)
            return Explanation(path=path, page=_PAGES[found.kind], size=source.size, parts=parts)
        wanted = Wanted(position, offset)
        base, topic = (0, CLUSTER_METADATA_TOPIC) if found is None else (found.base_offset, _topic(path))
        parts = explain_log(source, base, topic, wanted, most=max_fields, limits=limits)
        if not parts and not wanted.is_open:
            raise UsageError(f"{path} ends before offset {offset}")
        if records:
            parts = tuple(with_records(source, part, limits) for part in parts)
        is_old = any(part.magic in (0, 1) for part in parts)
        return Explanation(path=path, page="message" if is_old else "record-batch", size=source.size, parts=parts)


def is_explained(path: str) -> bool:
    """Whether files with this name can be explained."""
    name = _plain_name(path)
    return name in TEXT_FILES or _is_snapshot(name) or parse_segment_file(name) is not None


def _plain_name(path: str) -> str:
    """File name without the suffix of a pending change, or of a tail that a recovery cut off."""
    return _OF_TAIL.sub("", os.path.basename(path)).removesuffix(DELETED).removesuffix(SWAP).removesuffix(CLEANED)


def _is_snapshot(name: str) -> bool:
    return name == BOOTSTRAP_CHECKPOINT or parse_kraft_snapshot_file(name) is not None


def _topic(path: str) -> str | None:
    name = parse_partition_directory(os.path.basename(os.path.dirname(absolute(path))))
    return None if name is None else name.topic


def _text(path: str, name: str, most: int, limits: Limits) -> Explanation:
    data = read_small(path, limits.checkpoint_bytes)
    span = text_spans(name, data, most, limits)
    breaks = tuple(broken_fields(span))
    part = ExplainedPart(
        role=PartRole.DAMAGED if breaks else PartRole.ASKED, what=name, span=span,
        remarks=() if data else ("the file is empty",), breaks=breaks,
    )  # fmt: skip
    return Explanation(path=path, page=TEXT_FILES[name][2], size=len(data), parts=(part,))


def _snapshot(source: FileSource, most: int, limits: Limits) -> tuple[ExplainedPart, ...]:
    data = source.read(0, min(source.size, limits.snapshot_bytes))
    span = read_spans(PRODUCER_SNAPSHOT, data, limits=limits, most=most)
    breaks: tuple[str, ...] = tuple(broken_fields(span))
    remarks: tuple[str, ...] = ()
    bit = _flipped(data) if breaks == ("crc",) else None
    if bit is not None:
        breaks, remarks = one_bit(span, *bit, data)
    role = PartRole.DAMAGED if breaks else PartRole.ASKED
    return (ExplainedPart(role=role, what="producer snapshot", span=span, remarks=remarks, breaks=breaks),)


def _flipped(data: bytes) -> tuple[int, int] | None:
    """Find the one flipped bit, in the bytes after the checksum, that explains the wrong checksum of a producer
    snapshot. Return its byte position in `data` and its number in the byte (0 is the lowest); None if no single bit
    does, or the header is incomplete.
    """
    if len(data) < SNAPSHOT_HEADER.size:
        return None
    start = SNAPSHOT_HEADER.end("crc")
    syndrome = crc32c(data[start:]) ^ SNAPSHOT_HEADER.reader("crc")(data, 0)
    behind = flipped_bit(syndrome, 8 * (len(data) - start))
    if behind is None:
        return None
    place = 8 * (len(data) - start) - 1 - behind
    return start + place // 8, place % 8
