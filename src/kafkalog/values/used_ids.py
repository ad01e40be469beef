"""The schema ids that keys and values of topics use, and their comparison with a registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.log.directories.partition import Partition
from kafkalog.log.walk.on_damage import STOP
from kafkalog.values.registry import SchemaRegistry

__all__ = ["UsedId", "find_unknown_ids", "used_ids"]

MOST_IDS = 100_000
"""most ids of one partition; random bytes look like as many ids as there are records"""
_FRAME = 5


class UsedId(Struct, kw_only=True):
    """A schema id in the keys or values of one partition."""

    id: int
    part: str
    """`key` or `value`"""
    records: int
    first_offset: int


def used_ids(partition: Partition, findings: list[Finding]) -> Iterator[UsedId]:
    """Read a partition up to the first damage. Then yield each id in Confluent's wire format with its number of
    records, in the order of first use. An id that both keys and values use is yielded twice, once for each. At most
    `MOST_IDS` results are yielded; further ids are ignored.

    The reader's findings are appended to `findings` before the first id is yielded. Raises `StorageError` if a file
    cannot be read.
    """
    by_part: dict[tuple[str, int], UsedId] = {}
    records = partition.records(on_damage=STOP)
    for record in records:
        for part, data in (("key", record.key), ("value", record.value)):
            if data is None or len(data) < _FRAME or data[0]:
                continue
            id = int.from_bytes(data[1:_FRAME], "big")
            used_id = by_part.get((part, id))
            if used_id is not None:
                used_id.records += 1
            elif len(by_part) < MOST_IDS:
                by_part[part, id] = UsedId(id=id, part=part, records=1, first_offset=record.offset)
    findings += records.findings
    yield from by_part.values()


def find_unknown_ids(registry: SchemaRegistry, partitions: Iterable[Partition]) -> Iterator[Finding]:
    """Yield a finding for each schema id that records of a partition use and the registry does not have. It has the
    number of records that use the id. Keys and values have separate findings. Each partition is read up to its first
    damage, and at most `MOST_IDS` ids are counted in it. After each partition, the reader's findings about it are
    yielded too. Raises `StorageError` if a file cannot be read.
    """
    for partition in partitions:
        findings: list[Finding] = []
        for each in used_ids(partition, findings):
            if each.id not in registry.ids:
                where = "keys" if each.part == "key" else "values"
                detail = f"{counted(each.records, 'record')} of {partition.topic}-{partition.partition}: their {where} "
                detail += f"begin with schema id {each.id}, which is in no record of the registry"
                yield Finding.of(FindingCode.SCHEMA_ID_UNKNOWN, None, each.first_offset, detail, partition.path)
        yield from findings
