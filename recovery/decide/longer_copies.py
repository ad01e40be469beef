"""Name copies whose log goes on beyond the end of a log that is merely short, so that no way of recovery uses them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkalog.codec.common.errors import StorageError
from kafkalog.codec.common.shell import shell_line
from kafkalog.codec.common.wording import counted, first_of
from kafkalog.codec.names import (
    CLUSTER_METADATA_TOPIC,
    CONSUMER_OFFSETS_TOPIC,
    TRANSACTION_STATE_TOPIC,
    DirectoryState,
    parse_partition_directory,
    parse_segment_file,
)
from kafkalog.codec.plain.scanner import Scanner
from kafkalog.codec.rules.batches import MAX_RELATIVE_OFFSET
from kafkalog.log.disk.files import FileSource, scan_directory
from kafkalog.log.walk.cursor import ENDING, Cursor
from kafkalog.recovery.broker.manager import LoadedPartition
from kafkalog.recovery.checks.missing_partitions import topic_id_in
from kafkalog.recovery.decide.aftermath import LossConsequence
from kafkalog.recovery.safe.result import FromCopies

__all__ = ["longer_copies", "of_copies"]

_NAMED = 3
"""Most partitions that a sentence names."""
_INTERNAL = (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
"""Topics with sentences of their own"""
_GROUPS_BEGIN = "if merged, groups begin at these commits"


class _Longer(NamedTuple):
    """A copy of a partition, and the first and last offset that it has at or beyond the end of the log here."""

    partition: str
    first: int
    last: int


def longer_copies(
    root: str, copies: Sequence[str], results: Iterable[LoadedPartition], merged: Collection[str]
) -> Iterator[LossConsequence]:
    """Yield `copy_has_more` consequences about copies that end above the end that their partitions have after the plan.
    There is one for each log directory with such copies, and a further one for each internal topic in it. Of several
    copies of a partition only the longest counts, of equal ones the first. `copies` are log directories or partition
    directories. `results` are the partitions in the log directory `root` as the plan leaves them; those that are not
    live or become stray are skipped. Also skipped are the metadata log, and copies that do not have the same topic id
    or cannot be read. So are partitions in `merged`, which the recommended way merges with the copies. Reads the last
    segments of the copies. Raises `StorageError` if a topic id in `root` cannot be read.
    """
    if not copies:
        return
    from kafkalog.recovery.decide.merge_in_place import copies_of  # merges: most plans know no other copy

    longer: dict[tuple[str, str], list[_Longer]] = {}
    for result in results:
        name = parse_partition_directory(result.name)
        is_served = name is not None and name.state is DirectoryState.LIVE and result.stray is None
        if name is None or not is_served or name.topic == CLUSTER_METADATA_TOPIC or result.name in merged:
            continue
        own_id = topic_id_in(os.path.join(root, result.name))
        longest: tuple[_Longer, str] | None = None
        for path in copies_of(name.topic, name.partition, root, copies):
            try:
                (first, end), its_id = _offsets_of(path), topic_id_in(path)
            except StorageError:
                continue
            beyond = result.log_end_offset if longest is None else longest[0].last + 1
            if end > beyond and its_id == own_id:
                longest = _Longer(result.name, max(first, result.log_end_offset), end - 1), os.path.dirname(path)
        if longest is not None:
            had, directory = longest
            topic = name.topic if name.topic in _INTERNAL else ""
            longer.setdefault((topic, directory), []).append(had)
    for (_topic, directory), several in longer.items():
        only = several[0].partition if len(several) == 1 else ""
        paths = [os.path.join(path, only) if only else path for path in (root, directory)]
        compares = f"kafkalog compare {shell_line(paths)}"
        yield LossConsequence(
            kind="copy_has_more", partition=several[0].partition, detail=f"{_sentence(several)}: {compares}"
        )


def of_copies(partition: str, lacked: FromCopies) -> LossConsequence:
    """Return a `from_copies` consequence, which says how many records a merge takes from other copies."""
    begin = "; groups then begin at their newest commits, also those of the copies" if _is_of_groups(partition) else ""
    come = f"{counted(lacked.records, 'record')} that the log lacks, from offset {lacked.first} on, {{}} from"
    come = come.format("comes" if lacked.records == 1 else "come")
    detail = f"{partition}: {come} {first_of(lacked.sources, _NAMED) or 'the copies'}{begin}"
    return LossConsequence(kind="from_copies", partition=partition, detail=detail)


def _is_of_groups(partition: str) -> bool:
    return partition.rpartition("-")[0] == CONSUMER_OFFSETS_TOPIC


def _sentence(several: Sequence[_Longer]) -> str:
    if len(several) == 1:
        (copy,) = several
        begin = f"; {_GROUPS_BEGIN}" if _is_of_groups(copy.partition) else ""
        return f"a copy of {copy.partition} has offsets {copy.first} to {copy.last}, which this log lacks{begin}"
    places = [f"{copy.partition}: offsets {copy.first} to {copy.last}" for copy in several]
    return f"copies have offsets that the logs here lack ({first_of(places, _NAMED)})"


def _offsets_of(directory: str) -> tuple[int, int]:
    """Return the first base offset of the live segments in a partition directory, and the offset at which its log ends:
    after the highest offset of the last segment before any damage, or that segment's base offset if no sound batch is
    there. A batch whose offset the next ones contradict, or that cannot be in the segment, is damage too. Return (0, 0)
    without a segment. Raises `StorageError` if a file cannot be read.
    """
    logs = [
        (parsed.base_offset, entry.path)
        for entry in scan_directory(directory)
        if (parsed := parse_segment_file(entry.name)) is not None and parsed.is_live_log
    ]
    if not logs:
        return 0, 0
    (base, path) = max(logs)
    with FileSource(path) as source:
        cursor, end = Cursor(source, base), base
        for batch in Scanner(source):
            is_far = batch.last_offset - base > MAX_RELATIVE_OFFSET
            if cursor.judge(batch) in ENDING or is_far:
                break
            end = cursor.next_offset
        return min(logs)[0], end
