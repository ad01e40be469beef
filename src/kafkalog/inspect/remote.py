"""Inspect the remote tier segment by segment: what the events and the listing say about each segment, and whether it is
local too.

Log directories of several brokers give one view, because a remote segment belongs to the cluster. Problems are found by
the rules of `remote_findings`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct

from kafkalog.codec.common.arguments import TIMES, Bounds
from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.limits import DEFAULT_LIMITS, Limits
from kafkalog.codec.files.text import LeaderEpoch
from kafkalog.codec.names import DirectoryState, FileKind
from kafkalog.inspect.remote_findings import findings_of
from kafkalog.inspect.remote_rows import LocalPart, RemotePartition, RemoteRow
from kafkalog.log.directories.directory import LogDir
from kafkalog.log.directories.inventory import open_all
from kafkalog.log.disk.files import PathLike
from kafkalog.recovery.facts.topic_facts import read_topic_facts
from kafkalog.tiers.bucket import epochs_of, segments_of
from kafkalog.tiers.layouts import open_tier
from kafkalog.tiers.lineage import RemoteStretch, lineage
from kafkalog.tiers.metadata import RemoteMetadata, read_remote_metadata
from kafkalog.tiers.parallel_requests import in_order
from kafkalog.tiers.remote_tier import ListedSegment, RemoteTier
from kafkalog.tiers.segments import RemoteSegment

__all__ = ["RemoteView", "inspect_remote"]

Key = tuple[str, str, int]


class RemoteView(Struct, frozen=True, kw_only=True):
    """All tiered logs, with findings."""

    partitions: list[RemotePartition]
    sources: tuple[str, ...]
    """directories of `__remote_log_metadata` that were read"""
    place: str | None
    """place of the listed tier; None if none was listed"""
    others: list[str]
    """objects in its listing that belong to no segment"""
    own_findings: list[Finding]
    """findings about interrupted executions, unreadable directories and files, events and listing"""

    @property
    def rows(self) -> list[RemoteRow]:
        """Rows of all partitions."""
        return [row for partition in self.partitions for row in partition.rows]

    @property
    def findings(self) -> list[Finding]:
        """All findings: those in `own_findings`, then those of each partition."""
        return [*self.own_findings, *(finding for partition in self.partitions for finding in partition.findings)]


def inspect_remote(
    *paths: PathLike,
    remote: str | RemoteTier | None = None,
    layout: str | None = None,
    storage: Mapping[str, str] | None = None,
    keys: Mapping[str, str] | None = None,
    at: Annotated[int | None, Bounds(TIMES)] = None,
    limits: Limits = DEFAULT_LIMITS,
) -> RemoteView:
    """Inspect the remote tier, and return its logs segment by segment with all problems. Reads events, listings, small
    files and the ends of local logs, but no logs of remote segments.

    A directory or log that cannot be listed is left out, with a finding. Raises `UsageError` if there is neither a path
    nor a tier, or a path without a log directory. Raises it also if the tier cannot be opened with these options.
    Raises `StorageError` if the tier, or another file that is needed, cannot be read. A remote object without a
    readable size is a finding.

    * `paths`: log directories, of one broker or of several; without any, only the listing is used
    * `remote`: the URI or path of the tier, or the tier; without it nothing is listed
    * `layout`: layout of the tier, detected by default
    * `storage`, `keys`: as for `open_tier`
    * `at`: the time to treat as now, ms since 1970
    * `limits`: what a batch or file may hold at most (`Limits`)
    """
    if not paths and remote is None:
        raise UsageError("neither a log directory nor a remote tier was given")
    tier = open_tier(remote, layout=layout, storage=storage, keys=keys) if isinstance(remote, str) else remote
    inventory = open_all(*paths, tolerant=True, limits=limits) if paths else None
    for partition in () if inventory is None else inventory.standalone:
        raise UsageError(f"{partition.path} is not a log directory: give the log directory that holds it")
    log_dirs = () if inventory is None else inventory.log_dirs
    metadata = read_remote_metadata((partition for log_dir in log_dirs for partition in log_dir.partitions), limits)
    listed = None if tier is None else tier.segments()
    now = time.time_ns() // 1_000_000 if at is None else at
    looking = _Looking(log_dirs, metadata, tier, listed)
    partitions = [looking.partition(key, now) for key in looking.known()]
    others = [] if tier is None else tier.others()
    return RemoteView(
        partitions=partitions,
        sources=metadata.sources,
        place=tier.place if tier else None,
        others=others,
        own_findings=[
            *(() if inventory is None else (*inventory.half_done, *inventory.all_unreadable)), *metadata.findings,
        ],
    )


class _Looking:
    """Everything that was read: local logs, events and listing, by topic, topic id and partition."""

    def __init__(
        self,
        log_dirs: Sequence[LogDir],
        metadata: RemoteMetadata,
        tier: RemoteTier | None,
        listed: Sequence[ListedSegment] | None,
    ) -> None:
        self._tier = tier
        self._has_listing = listed is not None
        self._events: dict[Key, list[RemoteSegment]] = {}
        for segment in metadata.all:
            self._events.setdefault((segment.topic, segment.topic_id, segment.partition), []).append(segment)
        self._listed: dict[Key, list[ListedSegment]] = {}
        for each in listed or ():
            self._listed.setdefault((each.topic, each.topic_id, each.partition), []).append(each)
        self._local: dict[Key, dict[str, LocalPart]] = {}
        self._settings: dict[str, Mapping[str, str]] = {}
        for log_dir in log_dirs:
            self._take(log_dir)

    def _take(self, log_dir: LogDir) -> None:
        tiering = read_topic_facts([log_dir.path]).tiering
        self._settings.update(tiering.settings)
        for partition in log_dir.partitions:
            name = partition.name
            if name is None or name.state is not DirectoryState.LIVE or partition.metadata is None:
                continue
            key = (name.topic, partition.metadata.topic_id, name.partition)
            is_tiered = key in self._events or key in self._listed or tiering.has_remote_log(name.topic)
            if is_tiered or partition.begins_remotely:
                start = log_dir.log_start_offsets.get((name.topic, name.partition))
                part = LocalPart(partition, start, partition.log_end_offset())
                self._local.setdefault(key, {})[log_dir.path] = part

    def known(self) -> list[Key]:
        """Keys of all tiered logs, sorted by topic and partition."""
        return sorted({**self._events, **self._listed, **self._local}, key=lambda key: (key[0], key[2], key[1]))

    def partition(self, key: Key, now: int) -> RemotePartition:
        """Return one tiered log with its findings. `key` is topic, topic id and partition; `now` is in ms since
        1970. Remote objects whose size cannot be read are in the `doubts` of their row.

        Raises `StorageError` if the end of a remote log or a local file cannot be read.
        """
        local = self._local.get(key, {})
        events = self._events.get(key, [])
        stretches = lineage(events or self._by_listing(key), self._epochs(key, local))
        remote_partition = RemotePartition(
            topic=key[0],
            topic_id=key[1],
            partition=key[2],
            rows=list(self._rows(key, events, stretches, local.values())),
            stretches=stretches,
            local=local,
            settings=self._settings.get(key[0]),
            has_events=bool(events),
        )
        remote_partition.findings += findings_of(remote_partition, now)
        return remote_partition

    def _by_listing(self, key: Key) -> list[RemoteSegment]:
        """Segments of a log according to the listing, if no event names it; else empty. Raises `StorageError` if an
        object cannot be read.
        """
        listed = self._listed.get(key)
        return segments_of(self._tier, listed) if listed and self._tier is not None else []

    def _epochs(self, key: Key, local: Mapping[str, LocalPart]) -> Sequence[LeaderEpoch]:
        """Return the leader epochs of the local copy with the largest end offset. If there is no copy or it has none,
        and the log has events, return the epochs stored with the last segment in the tier's listing. This reads an
        object of the tier. Return an empty result if neither is known, or if the object cannot be read.
        """
        known = max(local.values(), key=lambda each: each.end, default=None)
        if known is not None and known.partition.leader_epochs:
            return known.partition.leader_epochs
        listed = self._listed.get(key) if key in self._events else None
        return epochs_of(self._tier, listed[-1]) if listed and self._tier is not None else ()

    def _rows(
        self, key: Key, events: Sequence[RemoteSegment], stretches: Sequence[RemoteStretch], local: Iterable[LocalPart]
    ) -> Iterable[RemoteRow]:
        listed = {listed_segment.id: listed_segment for listed_segment in self._listed.get(key, ())}
        belonging = {stretch.segment.id for stretch in stretches}
        parts = list(local)
        known = {event.id: event for event in events}
        sizes = self._sizes([there for there in listed.values() if not _is_deleted(known.get(there.id))])
        bases = {listed_segment.id: listed_segment.base_offset for listed_segment in listed.values()} | {
            event.id: event.start_offset for event in events
        }
        for segment_id in sorted(bases, key=lambda each: (bases[each], each)):
            segment, there = known.get(segment_id), listed.get(segment_id)
            yield RemoteRow(
                topic=key[0], topic_id=key[1], partition=key[2], id=segment_id, base_offset=bases[segment_id],
                segment=segment, listed=there, is_listed=there is not None if self._has_listing else None,
                is_local=segment is not None
                and any(local_part.holds(segment.start_offset, segment.end_offset) for local_part in parts),
                belongs=segment_id in belonging, **sizes.get(segment_id, {}),
            )  # fmt: skip

    def _sizes(self, listed: Sequence[ListedSegment]) -> dict[str, dict[str, Any]]:
        """The fields `sizes` and `doubts` of `RemoteRow` by segment id."""
        return dict(zip((segment.id for segment in listed), in_order(self._sizes_of, listed), strict=True))

    def _sizes_of(self, listed: ListedSegment) -> dict[str, Any]:
        sizes: dict[FileKind, int] = {}
        doubts: dict[str, StorageError] = {}
        tier = self._tier
        if tier is None or listed.lacking:
            return {}
        for kind, item in listed.objects.items():
            try:
                sizes[kind] = tier.size(item)
            except StorageError as error:
                doubts[str(error)] = error
        return {"sizes": sizes, "doubts": tuple(doubts.values())}


def _is_deleted(segment: RemoteSegment | None) -> bool:
    """Whether events say that no broker serves a segment, so that its objects need not be complete: it is deleted, or
    its copy is not finished. False for None.
    """
    return segment is not None and not segment.is_readable
