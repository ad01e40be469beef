"""Evidence that a log is tiered, and offsets that are missing below its local part.

A log whose first segments are remote looks like one that has lost them. The difference shows in several places of a log
directory:

* the topic's settings in the cluster's metadata (`remote.storage.enable`)
* the events in `__remote_log_metadata`
* log-start-offset-checkpoint, with the start of every tiered log, even if 0, when other logs have no line
  (`LogManager.checkpointLogStartOffsetsInDir`)
* leader epochs below the first segment, which retention removes in a log that is not tiered
  (`LeaderEpochFileCache.truncateFromStart`)

The cache of remote indexes only exists if somebody has read remote records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from msgspec import Struct

from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.names import REMOTE_INDEX_CACHE, REMOTE_LOG_METADATA_TOPIC, parse_partition_directory
from kafkalog.log.directories.lost_start import lost_start
from kafkalog.tiers.metadata import RemoteMetadata

__all__ = [
    "NO_TIERING", "REMOTE_STORAGE_ENABLE", "SETTINGS_OF_TOPICS", "LocalStart", "Tiering", "TieringJson", "tier_gap",
]  # fmt: skip

REMOTE_STORAGE_ENABLE = "remote.storage.enable"
SETTINGS_OF_TOPICS = frozenset({
    REMOTE_STORAGE_ENABLE, "remote.log.copy.disable", "remote.log.delete.on.disable",
    "local.retention.ms", "local.retention.bytes", "retention.ms", "retention.bytes",
})  # fmt: skip
"""settings that affect a topic's segments in the two tiers"""
SETTINGS = "the topic's settings in the cluster's metadata"
EVENTS = "the events in __remote_log_metadata"
CHECKPOINT = "the log start offset in log-start-offset-checkpoint and the leader epochs"
CACHE = "the cache of remote indexes beside the log"

Key = tuple[str, int]


class LocalStart(Struct, frozen=True, kw_only=True):
    """Where the local part of a log begins, and which offsets below it are missing."""

    log_start: int
    """the first offset that consumers may read, in either tier"""
    local_log_start: int
    """base offset of the first local segment, or the log start if larger"""
    known_from: tuple[str, ...] = ()
    """the evidence that the log is tiered; empty if there is none"""
    lost: tuple[int, int] | None = None
    """first and last offset missing from both tiers"""
    is_certain: bool = True
    """False if the log is tiered and it is unknown whether everything below its local part is remote."""

    @property
    def is_tiered(self) -> bool:
        """Whether there is evidence that it is tiered."""
        return bool(self.known_from)


class TieringJson(msgspec.Struct, frozen=True, kw_only=True):
    """Where the local part of a tiered log begins: the JSON of a `LocalStart`."""

    log_start: int = msgspec.field(name="log_start_offset")
    """the first offset that a consumer may read, in either tier"""
    local_log_start: int = msgspec.field(name="local_log_start_offset")
    """where the local part begins"""
    known_from: tuple[str, ...]
    """the evidence that the log is tiered"""
    is_certain: bool = msgspec.field(name="certain")
    """false if it is unknown whether everything below the local part is in the remote tier"""


@dataclass(frozen=True, slots=True)
class Tiering:
    """Evidence of remote storage in a log directory and beside it."""

    directories: frozenset[str] = frozenset()
    """names in the log directory"""
    log_starts: Mapping[Key, int] = field(default_factory=dict)
    """from log-start-offset-checkpoint"""
    configured: Mapping[str, bool] | None = None
    """topics with known metadata, and whether they have remote storage; None without metadata"""
    remote: RemoteMetadata = field(default_factory=RemoteMetadata)
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """the settings of those topics, as far as in `SETTINGS_OF_TOPICS`"""
    seen: frozenset[str] = frozenset()
    """topics that are tiered judging only by the logs and the checkpoint"""
    _is_likely: bool = field(init=False, repr=False, compare=False)
    """Whether the log directory has anything that exists only with tiered logs. Computed once for all logs."""

    def __post_init__(self) -> None:
        likely = REMOTE_INDEX_CACHE in self.directories or 0 in self.log_starts.values()
        object.__setattr__(self, "_is_likely", likely or any(map(_is_remote_metadata, self.directories)))

    def with_checkpoint(self, directories: Iterable[str], log_starts: Mapping[Key, int]) -> Tiering:
        """Return a copy with the names and the checkpoint of a log directory."""
        return replace(self, directories=frozenset(directories), log_starts=log_starts)

    def of(self, key: Key, names: Iterable[str], begins: int, epochs: Sequence[int], end: int = 0) -> LocalStart:
        """Return the start of a log and of its local part (`LocalStart`), with the evidence that the log is tiered. The
        result also has the offsets below the local part that are in neither tier (`lost`; None: nothing is missing, or
        only offsets below the start of a tiered log). `begins` is the base offset of the first local segment. `names`
        are the files of the partition directory, `epochs` the start offsets of its leader epochs. `end` is the log end
        offset, or 0 if unknown.

        If there is evidence, the log begins at its checkpointed start. Without a checkpoint, it begins at its first
        leader epoch (0 without epochs), or at the larger of `begins` and `end` if that is lower. If there is no
        evidence, both starts are the larger of the checkpointed start and `begins`, and offsets missing before the
        first segment count as lost.
        """
        checkpointed = self.log_starts.get(key)
        known_from = self.known_from(key, begins, epochs)
        gone = lost_start(names, epochs, is_remote=bool(known_from))
        start = max(checkpointed or 0, 0)
        if not known_from:
            return LocalStart(log_start=max(start, begins), local_log_start=max(start, begins), lost=gone)
        if checkpointed is None and epochs:
            start = max(min(epochs), 0)
        start = min(start, max(begins, end)) if checkpointed is None else start
        # what is missing below the log start was deleted
        lost, is_certain = (None, True) if start >= begins else self._between(key, start, begins, gone)
        return LocalStart(
            log_start=start, local_log_start=max(start, begins), known_from=known_from, lost=lost, is_certain=is_certain
        )

    def has_remote_log(self, topic: str) -> bool:
        """Return whether a broker would treat the topic's logs as tiered when it starts. If the cluster's metadata has
        the topic, its setting `remote.storage.enable` decides. Otherwise return True if the topic's logs look tiered or
        an event names a readable remote segment.
        """
        if self.configured is not None and topic in self.configured:
            return self.configured[topic]
        return topic in self.seen or any(
            each.topic == topic and each.is_readable for segments in self.remote.segments.values() for each in segments
        )

    def is_tiered(self, key: Key) -> bool:
        """Whether the topic's settings or an event show that this partition is tiered, regardless of where its local
        part begins.
        """
        return bool(self._said(key))

    def _said(self, key: Key) -> tuple[str, ...]:
        found = []
        if self.configured is not None and self.configured.get(key[0]):
            found.append(SETTINGS)
        if any(remote_segment.is_readable for remote_segment in self.remote.of(*key)):
            found.append(EVENTS)
        return tuple(found)

    def known_from(self, key: Key, begins: int, epochs: Sequence[int]) -> tuple[str, ...]:
        """Return the evidence that a log is tiered, as phrases for a message; empty if there is none. `begins` is the
        base offset of the first local segment, and `epochs` are the start offsets of its leader epochs.

        The evidence comes in this order: the topic's settings; events; a checkpointed log start below the first
        segment; the cache of remote indexes. The checkpoint counts only with other signs of tiering, and only if the
        leader epochs begin at or before it. The cache counts only if there are no settings, no checkpoint file and no
        events. If the settings say that the topic is not tiered, and no event contradicts them, there is no evidence.
        """
        found = list(self._said(key))
        if self.configured is not None and self.configured.get(key[0]) is False and not found:
            return ()
        start = self.log_starts.get(key)
        has_cache = REMOTE_INDEX_CACHE in self.directories
        if start is not None and start < begins and min(epochs, default=begins) <= start and (found or self._is_likely):
            found.append(CHECKPOINT)
        if has_cache and not self.log_starts and not found and self.configured is None:
            found.append(CACHE)  # nothing tells which
        return tuple(found)

    def _between(
        self, key: Key, start: int, begins: int, gone: tuple[int, int] | None
    ) -> tuple[tuple[int, int] | None, bool]:
        """Return the first and last offset (inclusive) that are in neither tier, and whether this is certain. Only
        offsets between the log start `start` and the first local segment at `begins` count. There are three cases:

        * The readable remote segments reach from `start` to `begins`: `gone`, the offsets that the local log lost
          (None: nothing), and True.
        * The contents of the remote tier are unknown: `gone` and False. This is so if the partition has no events, if
          reading any events made findings, or if a segment with the first missing offset is being copied or deleted.
        * Otherwise: from the offset after the contiguous remote segments that begin at `start`, to `begins - 1`; True.
        """
        segments = self.remote.of(*key)
        if not segments:
            return gone, False
        from kafkalog.tiers.lineage import reaches  # few logs are tiered

        reached = reaches([segment for segment in segments if segment.is_readable], start)
        if reached >= begins or self.remote.findings:
            return gone, reached >= begins
        is_under_way = any(
            not segment.is_readable and segment.start_offset <= reached <= segment.end_offset for segment in segments
        )
        return (gone, False) if is_under_way else ((reached, begins - 1), True)


def tier_gap(directory: str, found: LocalStart) -> Finding:
    """Return the finding `TIER_GAP` for the partition directory `directory`: the offsets in `found.lost` are in neither
    tier. If `lost` is None, the finding covers all offsets between log start and local part.
    """
    first, last = found.lost or (found.log_start, found.local_log_start - 1)
    detail = (
        f"offsets {first} to {last} are in neither tier: the remote segments that {EVENTS} name end at {first}, and "
        f"the first local one begins at {last + 1}"
    )
    return Finding.of(FindingCode.TIER_GAP, None, first, detail, directory)


def _is_remote_metadata(directory: str) -> bool:
    name = parse_partition_directory(directory)
    return name is not None and name.topic == REMOTE_LOG_METADATA_TOPIC


NO_TIERING = Tiering()
