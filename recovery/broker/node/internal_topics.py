"""Predict the last part of a start: coordinators load their partitions of `__consumer_offsets`,
`__transaction_state` and `__share_group_state`.

Since 4.0 a group or share coordinator does not load a partition at all if it meets a record that it cannot read. This
holds too if a group coordinator cannot apply a record because the group is of another kind (`GroupTypes`). Before, it
kept what came before that record, as the transaction coordinator of every release does. Checksums are not verified.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from kafkalog.cluster.groups.group_types import GroupTypes
from kafkalog.cluster.records.coordinator_records import TOPICS, decode_record
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.model import BatchHeader
from kafkalog.codec.names import (
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    DirectoryState,
    parse_partition_directory,
)
from kafkalog.codec.plain.records import decode_batch
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult
from kafkalog.recovery.broker.node.answer import ConsequenceKind, Fault, Part, StartConsequence
from kafkalog.recovery.broker.node.releases import Release

__all__ = ["Unserved", "consequences_of_unserved", "unserved_partitions"]

_MOST_BYTES = 16 << 20
"""most bytes of one directory's logs that are read for this"""
_UNREADABLE = codes_with(Trait.UNREAD_STATE)


class Unserved(Struct, frozen=True, kw_only=True):
    """A record that a coordinator cannot read, or a batch that it reads although its checksum is wrong."""

    topic: str
    name: str
    """the partition directory"""
    path: str
    offset: int
    detail: str
    is_read: bool = False
    """whether the coordinator reads it, possibly with wrong content"""
    is_refused: bool = False
    """whether it can be read, but coordinators from 4.0 on cannot apply it"""


def unserved_partitions(root: str, result: BrokerResult) -> list[Unserved]:
    """Return the first problem of each partition of an internal topic (`TOPICS`) in the loaded log directory `root`: a
    record that its coordinator cannot read or apply, or a batch with a wrong checksum. Partitions without a problem are
    left out, and so are `-future`, `-delete` and `-stray` directories.

    Segments are read in order, up to 16 MiB in total; the search ends before the first segment that would exceed this.
    Raises `StorageError` if a segment cannot be read.
    """
    unserveds: list[Unserved] = []
    left = _MOST_BYTES
    for name in result.tree.subdirectories():
        types = GroupTypes()
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.topic not in TOPICS or parsed.state is not DirectoryState.LIVE:
            continue
        for _base, log in result.tree.logs(name):
            size = result.tree.files[log].size
            if size > left:
                return unserveds
            left -= size
            problem = next(_problems(parsed.topic, result.tree, log, types), None)
            if problem is not None:
                offset, detail, is_read, is_refused = problem
                unserveds.append(
                    Unserved(
                        topic=parsed.topic,
                        name=name,
                        path=os.path.join(root, log),
                        offset=offset,
                        detail=detail,
                        is_read=is_read,
                        is_refused=is_refused,
                    )
                )
                break
    return unserveds


def _problems(topic: str, tree: Tree, log: str, types: GroupTypes) -> Iterator[tuple[int, str, bool, bool]]:
    """Yield the problems in one segment of a coordinator's partition as (offset, description, `is_read`, `is_refused`).
    They come in this order:

    * batches and records that cannot be read (both flags False), and records that coordinators from 4.0 on cannot
      apply (`is_refused` True), by position in the segment
    * a batch with a wrong checksum, which the coordinator reads (`is_read` True): at most one, with the offset after
      the last sound batch (0 if there is none)

    `types` has the group types of earlier segments; the group types of this segment are added to it. Raises
    `StorageError` if the segment cannot be read.
    """
    sound = Scanner(tree.source(log))
    last = 0
    for whole in sound:
        last = whole.header.next_offset
    for batch in Scanner(tree.source(log), check_crc=False):
        if not isinstance(batch.header, BatchHeader) or batch.header.is_control:
            continue
        decoded = decode_batch(batch)
        if decoded.finding is not None:
            yield batch.header.base_offset, decoded.finding.detail, False, False
        for record in decoded.records:
            coordinator_record = decode_record(topic, record.key, record.value)
            for finding in coordinator_record.findings:
                if finding.code in _UNREADABLE:
                    yield record.offset, finding.detail, False, False
            why = types.conflict(coordinator_record) if topic == CONSUMER_OFFSETS_TOPIC else None
            if why is not None:
                yield record.offset, why, False, True
    if sound.stop is StopReason.CORRUPT:
        yield last, "its checksum is wrong", True, False


def consequences_of_unserved(unserved: list[Unserved], release: Release) -> tuple[list[StartConsequence], list[Fault]]:
    """Return consequences and faults of a start of `release`: one of each for every entry of `unserved` that counts, in
    their order. An entry counts if it is a record that the coordinator cannot read, or a batch that it reads despite a
    wrong checksum (UNFORESEEN). From 4.0 on, a record that the coordinator cannot apply counts too. Both lists are
    empty if none counts.
    """
    consequences, faults = [], []
    for entry in unserved:
        if entry.is_read:
            detail = (
                f"the batch at offset {entry.offset} of {entry.name} is read although its checksum is wrong: what the "
                "coordinator makes of it is not known"
            )
            consequences.append(
                StartConsequence(kind=ConsequenceKind.UNFORESEEN, detail=detail, file=entry.path, names=(entry.name,))
            )
            faults.append(Fault(part=Part.INTERNAL_TOPICS, kind="wrong_checksum", file=entry.path, detail=detail))
            continue
        if entry.is_refused:
            if release.at_least("4.0"):
                detail = (
                    f"the record at offset {entry.offset} of {entry.name} cannot be applied ({entry.detail}): the "
                    "coordinator does not load the partition: its groups are not served"
                )
                consequences.append(
                    StartConsequence(
                        kind=ConsequenceKind.NOT_SERVING, detail=detail, file=entry.path, names=(entry.name,)
                    )
                )
                faults.append(Fault(part=Part.INTERNAL_TOPICS, kind="mixed_group", file=entry.path, detail=detail))
            continue
        what = (
            "loads nothing that comes after it"
            if entry.topic == TRANSACTION_STATE_TOPIC or not release.at_least("4.0")
            else "does not load the partition: its groups are not served"
        )
        detail = (
            f"the record at offset {entry.offset} of {entry.name} cannot be read ({entry.detail}): the coordinator "
            f"{what}"
        )
        kind = ConsequenceKind.NOT_SERVING if entry.topic != TRANSACTION_STATE_TOPIC else ConsequenceKind.OTHER
        consequences.append(StartConsequence(kind=kind, detail=detail, file=entry.path, names=(entry.name,)))
        faults.append(Fault(part=Part.INTERNAL_TOPICS, kind="unreadable_record", file=entry.path, detail=detail))
    return consequences, faults
