"""How many records a directory holds that somebody could read, whatever became of its partitions' names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import kafkalog
from kafkalog.codec.common.findings import FindingCode
from kafkalog.codec.model import CONTROL_FLAG, NO_END, BatchHeader
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.codec.rules.batches import MAGICS
from kafkalog.log.reading.records import RecordReader
from testkit.recorded.fixture_data import recovery_families

__all__ = ["FAMILIES", "readable_records", "strays"]

FAMILIES = [name for name in recovery_families() if name not in ("bases", "crc_fixed")]
"""Those of `crc_fixed` claim counts that their bytes do not hold, under a right checksum; headers are believed."""
_UNOPENED = (FindingCode.DECOMPRESSION_FAILED, FindingCode.MESSAGE_INVALID)


def readable_records(
    root: Path, strays_before: frozenset[str], ends: Mapping[str, int] = MappingProxyType({})
) -> tuple[int, int]:
    """Records that can be read anywhere in the live partitions, in those that recovery made strays, and in those that
    were being moved here and have no other copy; copies once.

    And how many of them a consumer passes over who reads in order, because higher ones come first, or because the
    broker goes on below them: where `ends` says, else behind the last batch of the last segment.

    A message of format 0 or 1 that cannot be decompressed, or holds a wrong checksum inside, counts by its
    offsets: it cannot be read as it is, but dropping it drops that many records.
    """
    count = hidden = 0
    found = kafkalog.open(root).partitions
    live = {(each.topic, each.partition) for each in found if each.state is DirectoryState.LIVE}
    for partition in found:
        is_new_stray = partition.state is DirectoryState.STRAY and Path(partition.path).name not in strays_before
        is_only_copy = partition.state is DirectoryState.FUTURE and (partition.topic, partition.partition) not in live
        counts = partition.state is DirectoryState.LIVE or is_new_stray or is_only_copy
        if partition.topic == CLUSTER_METADATA_TOPIC or not counts:
            continue
        seen: set[tuple[int, int, int, int]] = set()
        reached, end = partition.log_start_offset, NO_END
        if partition.state is DirectoryState.LIVE:
            end = ends[name] if (name := Path(partition.path).name) in ends else partition.log_end_offset()
        reader = RecordReader(partition, all_records=True)
        for batch, records in reader.by_batch():
            header = batch.header
            control = isinstance(header, BatchHeader) and header.attributes & CONTROL_FLAG
            misplaced = header.magic not in MAGICS or batch.last_offset < getattr(header, "base_offset", 0)
            if misplaced:
                continue
            offsets = [each.offset for each in records if each.offset >= partition.log_start_offset]
            copy = (min(offsets, default=-1), batch.last_offset, header.crc, batch.size)
            if not control and copy not in seen:
                count += len(offsets)
                hidden += sum(offset < reached or offset >= end for offset in offsets)
            seen.add(copy)
            reached = max(reached, batch.last_offset + 1)
        unopened = {
            outline.last_offset: outline.last_offset - outline.first_offset + 1
            for finding in reader.findings
            if finding.code in _UNOPENED and (outline := finding.batch) is not None and outline.records is None
        }
        count += sum(unopened.values())
    return count, hidden


def strays(root: Path) -> frozenset[str]:
    return frozenset(path.name for path in root.iterdir() if path.name.endswith("-stray"))
