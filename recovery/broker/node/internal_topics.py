"""Predict the last part of a start: coordinators load their partitions of `__consumer_offsets`,
`__transaction_state` and `__share_group_state`.

Since 4.0 a group or share coordinator does not load a partition at all if it meets a record that it cannot read. This
holds too if a group coordinator cannot apply a record because the group is of another kind (`GroupTypes`). Before, it
kept what came before that record, as the transaction coordinator of every release does. Checksums are not verified.
A transactional id is only found in the partition that its hash gives, and since 4.0 so is a group; before, in every
partition that is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from kafkalog.cluster.groups.group_types import GroupTypes
from kafkalog.cluster.records.coordinator_records import TOPICS, CoordinatorRecord, decode_record
from kafkalog.cluster.rules.java import coordinator_partition
from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import StopReason
from kafkalog.codec.common.wording import counted, first_of
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

__all__ = [
    "InternalTopics", "KeptNames", "Unserved", "consequences_of_misplaced", "consequences_of_unserved",
    "internal_topics",
]  # fmt: skip

_MOST_BYTES = 16 << 20
"""most bytes of one directory's logs that are read for this"""
_NAMED = 3
_NAMES = ("group", "transactional_id")
_KINDS = {
    CONSUMER_OFFSETS_TOPIC: ("group", "finds no commit of {}"),
    TRANSACTION_STATE_TOPIC: ("transactional id", "does not know {}: producers get a new producer id"),
}
"""what a partition keeps, and what a coordinator does that looks for it in another one"""
_UNREADABLE = codes_with(Trait.UNREAD_STATE)


class Unserved(Struct, frozen=True, kw_only=True):
    """A record or batch that a coordinator cannot read, or a batch that it reads although its checksum is wrong."""

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


class KeptNames(Struct, frozen=True, kw_only=True):
    """The groups or transactional ids that one partition of `__consumer_offsets` or `__transaction_state` keeps."""

    topic: str
    name: str
    """the partition directory"""
    number: int
    path: str
    """its absolute path"""
    names: tuple[str, ...]
    """in the order of their first records"""


class InternalTopics(Struct, frozen=True):
    """What the coordinators meet in the internal topics of a log directory."""

    unserved: tuple[Unserved, ...]
    kept: tuple[KeptNames, ...]


class _Names:
    """The groups or transactional ids with a record that no tombstone has removed."""

    def __init__(self) -> None:
        self._alive: dict[bytes, str] = {}

    def take(self, key: bytes | None, record: CoordinatorRecord) -> None:
        field = "" if record.key is None else next((each for each in _NAMES if each in record.key.fields), "")
        if key is None or not field:
            return
        if record.value is None:
            self._alive.pop(key, None)
        else:
            self._alive[key] = str(record.key_field(field))

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._alive.values()))


def internal_topics(root: str, result: BrokerResult) -> InternalTopics:
    """Return what the coordinators meet in the partitions of internal topics (`TOPICS`) in the loaded log directory
    `root`. `unserved` has the first problem of each partition that has one: a record or batch that its coordinator
    cannot read or apply, or a batch that it reads with a wrong checksum. `kept` has the groups or transactional ids of
    each partition of `__consumer_offsets` and `__transaction_state`, with or without a problem: those of the records
    that the coordinator reads before the problem, or, with a wrong checksum, up to the end of that segment. `-future`,
    `-delete` and `-stray` directories are ignored.

    Segments are read in order, up to 16 MiB in total. The search ends before the first segment that would exceed this;
    the partition of this segment and those after it are then left out of `kept`. Raises `StorageError` if a segment
    cannot be read.
    """
    unserveds: list[Unserved] = []
    kept: list[KeptNames] = []
    left = _MOST_BYTES
    for name in result.tree.subdirectories():
        types, names = GroupTypes(), _Names()
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.topic not in TOPICS or parsed.state is not DirectoryState.LIVE:
            continue
        for _base, log in result.tree.logs(name):
            size = result.tree.files[log].size
            if size > left:
                return InternalTopics(tuple(unserveds), tuple(kept))
            left -= size
            problem = next(_problems(parsed.topic, result.tree, log, types, names), None)
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
        if parsed.topic in _KINDS:
            path = os.path.join(root, name)
            kept.append(
                KeptNames(topic=parsed.topic, name=name, number=parsed.partition, path=path, names=names.names())
            )
    return InternalTopics(tuple(unserveds), tuple(kept))


def _problems(
    topic: str, tree: Tree, log: str, types: GroupTypes, names: _Names
) -> Iterator[tuple[int, str, bool, bool]]:
    """Yield the problems in one segment of a coordinator's partition as (offset, description, `is_read`, `is_refused`).
    They come in this order:

    * by position in the segment: batches and records that cannot be read (both flags False), and records that
      coordinators from 4.0 on cannot apply (`is_refused` True)
    * an impossible size field or zero bytes at the end, at which the coordinator stops (both flags False). If there is
      none, the first batch with a wrong checksum, if any, which the coordinator reads (`is_read` True). The offset is
      the one after the batch before (0 if there is none)

    `types` and `names` have the group types and the names of earlier segments. Those of this segment are added while
    iterating: if the caller stops at a problem, later ones are missing.

    Raises `StorageError` if the segment cannot be read.
    """
    sound = Scanner(tree.source(log))
    last = 0
    for whole in sound:
        last = whole.header.next_offset
    as_read, last_read = Scanner(tree.source(log), check_crc=False), 0
    for batch in as_read:
        last_read = batch.header.next_offset
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
            names.take(record.key, coordinator_record)
            if topic != CONSUMER_OFFSETS_TOPIC:
                continue
            why = types.conflict(coordinator_record)
            if why is not None:
                yield record.offset, why, False, True
    if as_read.stop in (StopReason.CORRUPT, StopReason.ZERO_TAIL):
        yield last_read, as_read.findings[-1].detail, False, False
    elif sound.stop is StopReason.CORRUPT:
        yield last, "its checksum is wrong", True, False


def consequences_of_misplaced(
    kept: Iterable[KeptNames], counts: Mapping[str, int], release: Release
) -> list[StartConsequence]:
    """Return one consequence for each partition with groups or transactional ids whose coordinator looks for them in
    another one, in the order of `kept`. Groups are checked only for a release from 4.0 on. `counts` has the number of
    partitions of the topics; those that it lacks are ignored.
    """
    consequences = []
    for each in kept:
        if each.topic not in counts or (each.topic == CONSUMER_OFFSETS_TOPIC and not release.at_least("4.0")):
            continue
        places = {name: coordinator_partition(name, counts[each.topic]) for name in each.names}
        names = [name for name, number in places.items() if number != each.number]
        if not names:
            continue
        others = sorted({places[name] for name in names})
        where = first_of([f"{each.topic}-{number}" for number in others], _NAMED)
        noun, result = _KINDS[each.topic]
        detail = (
            f"the coordinator looks in {where} for {counted(len(names), noun)} that {each.name} has "
            f"({first_of(names, _NAMED)}), and {result.format('it' if len(names) == 1 else 'them')} (were the files or "
            "directories of these partitions exchanged? then exchange them back)"
        )
        kind = ConsequenceKind.NOT_SERVING
        consequences.append(StartConsequence(kind=kind, detail=detail, file=each.path, names=(each.name,)))
    return consequences


def consequences_of_unserved(
    unserved: Iterable[Unserved], release: Release
) -> tuple[list[StartConsequence], list[Fault]]:
    """Return consequences and faults of a start of `release`, in the order of `unserved`. Each entry gives one of each,
    except that records that coordinators from 4.0 on cannot apply give nothing before 4.0. Batches that the coordinator
    reads despite a wrong checksum give UNFORESEEN.
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
