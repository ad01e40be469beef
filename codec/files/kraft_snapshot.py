"""Read and build KRaft snapshots (`<end offset>-<epoch>.checkpoint` or `bootstrap.checkpoint`): batches between a
header and a footer. The rules are those of `RecordsSnapshotReader` and `RecordsSnapshotWriter`. The framing is that of
a segment. Offsets inside count from 0, and the leader epoch of every batch is the snapshot's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from kafkalog.codec.common.errors import FormatError
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.encode.batch import build_batch, build_control_batch
from kafkalog.codec.files.kraft import (
    KRaftRecord,
    KRaftVersion,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
    encode_kraft_value,
    kraft_record,
)
from kafkalog.codec.model import Codec, Record, TimestampType
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import scan

__all__ = ["KRaftSnapshot", "build_kraft_snapshot", "read_kraft_snapshot"]

Part = TypeVar("Part")


class KRaftSnapshot(Struct, frozen=True, kw_only=True):
    """Content of a snapshot. Without a footer it is incomplete, and a node would not use it."""

    header: SnapshotHeader | None
    kraft_version: KRaftVersion | None
    voters: KRaftVoters | None
    records: tuple[Record, ...]
    footer: SnapshotFooter | None
    findings: tuple[Finding, ...]


def _part(control: Mapping[type, object], kind: type[Part]) -> Part | None:
    value = control.get(kind)
    return value if isinstance(value, kind) else None


def read_kraft_snapshot(buffer: bytes | memoryview, *, limits: Limits = DEFAULT_LIMITS) -> KRaftSnapshot:
    """Read a whole KRaft snapshot. Header, footer, kraft.version and voters are None if their record is missing; if
    there are several records of a type, the last counts. `records` has the records of all batches that are not control
    batches, in order. Reading ends at the first damaged batch, with a finding. If a sound batch has records that cannot
    be decoded, or an invalid control record, there is a finding, and reading continues. A missing header or footer is a
    finding too. No exception is raised for any of them.
    """
    result = scan(buffer, base_offset=0, limits=limits)
    findings = list(result.findings)
    records: list[Record] = []
    control: dict[type, object] = {}
    for batch in result.batches:
        decoded = decode_batch(batch, limits=limits)
        if decoded.finding is not None:
            findings.append(decoded.finding)
        if not batch.header.is_control:
            records += decoded.records
            continue
        for record in decoded.records:
            try:
                value = kraft_record(record)
            except FormatError as error:
                code = FindingCode.CONTROL_RECORD_INVALID
                findings.append(Finding(code, Severity.ERROR, batch.position, record.offset, error.message))
            else:
                control[type(value)] = value

    header, footer = _part(control, SnapshotHeader), _part(control, SnapshotFooter)
    for part, name in ((header, "header"), (footer, "footer")):
        if part is None:
            detail = f"a snapshot without a {name}"
            code = FindingCode.CONTROL_RECORD_INVALID
            findings.append(Finding(code, Severity.ERROR, result.valid_bytes, None, detail))
    return KRaftSnapshot(
        header=header,
        kraft_version=_part(control, KRaftVersion),
        voters=_part(control, KRaftVoters),
        records=tuple(records),
        footer=footer,
        findings=tuple(findings),
    )


def build_kraft_snapshot(
    records: Sequence[Record],
    *,
    epoch: int,
    timestamp: int,
    last_contained_log_timestamp: int,
    kraft_version: int | None = None,
    voters: KRaftVoters | None = None,
) -> bytes:
    """Build a KRaft snapshot as bytes: a header batch, one batch of `records` if there are any, and a footer batch. The
    records get new offsets. All batches have the time `timestamp` (ms) and the leader epoch `epoch`.
    `last_contained_log_timestamp` (ms) is stored in the header. `kraft_version` and `voters` are written if given;
    whether they fit each other is not checked. Raises `UsageError` for an unknown version of `voters`, and for records
    or fields that `build_batch` refuses. Raises `FormatError` for a value of a control record that does not fit its
    field.
    """
    head: list[KRaftRecord] = [SnapshotHeader(0, last_contained_log_timestamp)]
    if kraft_version is not None:
        head.append(KRaftVersion(0, kraft_version))
    if voters is not None:
        head.append(voters)
    values = [encode_kraft_value(part) for part in head]
    parts = [build_control_batch(values, base_offset=0, timestamp=timestamp, partition_leader_epoch=epoch)]
    offset = len(values)
    if records:
        placed = [
            Record(offset + number, timestamp, TimestampType.CREATE_TIME, record.key, record.value, record.headers)
            for number, record in enumerate(records)
        ]
        parts.append(build_batch(placed, codec=Codec.NONE, partition_leader_epoch=epoch))
        offset += len(placed)
    footer = [encode_kraft_value(SnapshotFooter(0))]
    parts.append(build_control_batch(footer, base_offset=offset, timestamp=timestamp, partition_leader_epoch=epoch))
    return b"".join(parts)
