"""Settings for topics that are created again, so that the broker does not delete restored records at once.

A broker deletes a segment as soon as its newest record is older than `retention.ms` (`UnifiedLog.deleteOldSegments`),
and its cleaner compacts records older than `min.compaction.lag.ms`. Without other settings, old records would not
survive the first start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from kafkalog.log.directories.partition import Partition

__all__ = ["Settings", "settings_for"]

_FOREVER = str(2**63 - 1)
_WEEK_MS = 7 * 24 * 3600 * 1000
_OF_OLD_BROKERS = ("message.format.version", "message.timestamp.difference.max.ms")
_OF_ONE_CLUSTER = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas",
                   "remote.storage.enable", "local.retention.ms", "local.retention.bytes",
                   "remote.log.copy.disable", "remote.log.delete.on.disable")  # fmt: skip
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
_UNCOMPACTED = {"min.compaction.lag.ms": _FOREVER, "max.compaction.lag.ms": _FOREVER}
_TIMES = {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": _FOREVER}
_WAS = {"retention.ms": str(_WEEK_MS), "retention.bytes": "-1", "min.compaction.lag.ms": "0",
        "max.compaction.lag.ms": _FOREVER, "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": _FOREVER}  # fmt: skip


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of a new topic: `written` are set when it is created, `put_back` are the old values that differ, to be
    set later.

    `expired` is the number of offsets that a broker would delete at once under the old settings. `is_compacted` tells
    whether it would also remove records whose key occurs again.
    """

    written: Mapping[str, str]
    put_back: Mapping[str, str]
    left_out: Mapping[str, str]
    expired: int
    is_compacted: bool
    assumed: frozenset[str] = frozenset()
    """settings for which Kafka's default was assumed, because the topic had no value of its own"""

    @property
    def would_lose(self) -> bool:
        """Whether the old settings would remove restored records."""
        return self.expired > 0 or self.is_compacted


def settings_for(
    old: Mapping[str, str], partitions: Iterable[Partition], now: int, *, keep: bool = False,
    further: Mapping[str, str] | None = None,
) -> Settings:  # fmt: skip
    """Return the settings with which a topic is created in the target; `old` are its settings in the source. Retention
    is switched off, and compaction of a compacted topic is delayed forever. With `keep`, both stay as in `old`. Record
    timestamps are always kept (`CreateTime` of any age). `further` overrides all of this.

    Settings of old brokers, throttling and remote storage are left out; they are in `left_out`. `put_back` has the old
    value of each changed setting (Kafka's default or '' if there was none). `expired` is the number of offsets that the
    old retention time would expire at the time `now` (ms since 1970). To count them, the logs of `partitions` are read;
    raises `StorageError` if that fails.
    """
    left_out = {name: value for name, value in old.items() if name in (*_OF_OLD_BROKERS, *_OF_ONE_CLUSTER)}
    kept = {name: value for name, value in old.items() if name not in left_out}
    is_compacted = "compact" in _policies(old)
    changed = dict(_TIMES)
    if not keep:
        changed |= _KEPT | (_UNCOMPACTED if is_compacted else {})
    changed |= further or {}
    put_back = {name: old.get(name, _WAS.get(name, "")) for name, value in changed.items()
                if old.get(name, _WAS.get(name)) != value}  # fmt: skip
    assumed = frozenset(_WAS.keys() - old.keys())
    return Settings(
        written={**kept, **changed},
        put_back=put_back,
        left_out=left_out,
        expired=_expired(old, partitions, now),
        is_compacted=is_compacted,
        assumed=assumed,
    )


def _policies(settings: Mapping[str, str]) -> set[str]:
    """Return the cleanup policies; metadata has their list as it was set, also with spaces."""
    return {policy.strip() for policy in settings.get("cleanup.policy", "delete").split(",")}


def _expired(old: Mapping[str, str], partitions: Iterable[Partition], now: int) -> int:
    """Return the number of offsets that are expired under the old settings at the time `now` (ms since 1970), over all
    partitions. Return 0 if the cleanup policy (`delete` if missing) does not contain `delete`, or the retention time is
    unlimited.

    In each partition these are the offsets before the first record that is not older than `retention.ms`. If there is
    no such record, all offsets count. A missing or invalid `retention.ms` means a week. Damaged batches are skipped.
    Raises `StorageError` if a file cannot be read.
    """
    if "delete" not in _policies(old):
        return 0
    try:
        kept_ms = int(old.get("retention.ms", _WEEK_MS))
    except ValueError:
        kept_ms = _WEEK_MS
    if kept_ms < 0:
        return 0
    gone = 0
    for partition in partitions:
        offset_and_timestamp = partition.offset_for_timestamp(max(now - kept_ms, 0), through_damage=True)
        end = partition.log_end_offset() if offset_and_timestamp is None else offset_and_timestamp.offset
        gone += max(end - partition.log_start_offset, 0)
    return gone
