"""Predict the data that brokers delete at their first start after a long time, because it has become too old or too
large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from kafkalog.cluster.coordinator_logs import CoordinatorLogs
from kafkalog.cluster.groups.group_types import DEFAULT_OFFSETS_RETENTION, OFFSETS_RETENTION
from kafkalog.cluster.groups.groups import is_expired, read_groups
from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.cluster.rules.configuration import (
    TOPIC_SYNONYMS,
    ConfigSource,
    Setting,
    effective_of_broker,
    effective_of_topic,
)
from kafkalog.cluster.transactions.transactions import TransactionState, read_transactions
from kafkalog.codec.common.advice import Ask, Sentence
from kafkalog.codec.common.errors import FormatError, UsageError
from kafkalog.codec.common.wording import counted, moment_text
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, COORDINATOR_TOPICS, DirectoryState, parse_java_long
from kafkalog.codec.plain.records import iter_records
from kafkalog.log.directories.directory import LogDir, open_log_dir
from kafkalog.log.directories.partition import Partition
from kafkalog.log.storage.retention import beyond_size

__all__ = ["PREVENTION", "Expiry", "expiry_of", "refuse_settings"]

PREVENTION = (
    "log.initial.task.delay.ms=86400000",
    "log.cleaner.enable=false",
    "offsets.retention.minutes=2147483647",
    "transaction.remove.expired.transaction.cleanup.interval.ms=2147483647",
)
"""Lines for a broker's properties that prevent these deletions for a day, whatever the topics' settings are."""

_MOST_BYTES = 256 << 20
"""most bytes of one compacted partition that are read to see whether the cleaner removes anything"""
_DAY_MS = 86_400_000
_WEEK_MS = 7 * _DAY_MS
_MINUTE_MS = 60_000
_UNLIMITED = -1
_DELETE, _COMPACT = "delete", "compact"
_TOMBSTONES, _BY_TIME, _BY_SIZE = "delete.retention.ms", "retention.ms", "retention.bytes"
_NOT_BY_AGE = {*COORDINATOR_TOPICS, CLUSTER_METADATA_TOPIC}
"""topics that no such setting empties"""
_BY_TOPIC = ("cleanup.policy", _TOMBSTONES, _BY_TIME, _BY_SIZE)
_OF_BROKER = (OFFSETS_RETENTION, "transactional.id.expiration.ms")
_INTS = ("transactional.id.expiration.ms",)
_POLICY = "log.cleanup.policy"
_KNOWN = tuple(sorted([*_OF_BROKER, *(name for setting in _BY_TOPIC for name, _factor in TOPIC_SYNONYMS[setting])]))
"""names in a broker's properties that decide about deletion"""
_SUPERSEDED = "superseded records go, and tombstones older than this: who reads from the start no longer sees deletions"
_ENDED = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
_SOURCES = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.BROKER: "broker",
    ConfigSource.CLUSTER: "broker",
    ConfigSource.STATIC: "given",
}


class Expiry(Struct, frozen=True, kw_only=True):
    """Something that brokers delete at their first start, because it has become too old or too much."""

    kind: str
    """`topic`, `group` or `transactional_id`"""
    name: str
    """name of the topic, or the group id, or the transactional id"""
    partition: int | None
    """partition number of the topic; null: all partitions"""
    path: str | None
    """the partition directory; null where no broker's directory was given"""
    setting: str
    """Kafka's name of the setting that decides"""
    value: str
    """value of the setting"""
    origin: str = msgspec.field(name="from")
    """where that value is from: `topic`, `broker`, `given` or `default`"""
    count: int | None
    """segments or offsets that go; null if not known"""
    bytes: int | None
    """bytes of logs that go; null if not known"""
    detail: str
    """one sentence"""


class _Value(NamedTuple):
    """A setting's name and value, and where the value comes from."""

    name: str
    value: int
    origin: str

    def expiry(
        self,
        kind: str,
        name: str,
        detail: str,
        partition: Partition | None = None,
        *,
        count: int | None = None,
        size: int | None = None,
    ) -> Expiry:
        """Return the `Expiry` that this setting causes. `kind` and `name` say what expires, and `detail` is the
        sentence about it. `count` and `size` (bytes) say how much expires, None if unknown. Without `partition`, the
        partition number and path in the result are None.
        """
        return Expiry(
            kind=kind,
            name=name,
            partition=None if partition is None else partition.partition,
            path=None if partition is None else partition.path,
            setting=self.name,
            value=str(self.value),
            origin=self.origin,
            count=count,
            bytes=size,
            detail=detail,
        )


class _Facts(NamedTuple):
    """Facts of a segment that retention by size needs."""

    base_offset: int
    size: int
    largest_timestamp: int = 0


def expiry_of(
    image: MetadataImage, roots: Sequence[tuple[str, int | None]], static: Mapping[str, str], now_ms: int
) -> list[Expiry]:
    """List what brokers would delete at `now_ms` (ms since 1970), by log directory in the order of `roots`: first of
    partitions, then groups and transactional ids. A compacted partition has an entry if the cleaner may remove
    something from it (`_has_superseded`). If a coordinator's log cannot be read completely, an entry named `*` says so.
    If `roots` is empty, the settings by which data would be deleted are listed instead: by topic, then for groups and
    transactional ids.

    `roots` are pairs of a broker's log directory, which is read, and its node id (None if unknown). `static` are the
    settings in the properties files. Partitions that cannot be listed are left out. Raises `UsageError` if a root is
    missing or not a log directory. Raises `StorageError` if a root cannot be listed or a log cannot be read.
    """
    expiries: list[Expiry] = []
    for root, node in roots:
        directory = open_log_dir(root, tolerant=True)
        expiries += _in_directory(directory, _Rules(image, node, static, now_ms))
    return expiries if roots else list(_by_settings(_Rules(image, None, static, now_ms)))


def refuse_settings(given: Mapping[str, str]) -> None:
    """Raise `UsageError` if a setting does not decide about deletion, or if its value is not of its type: cleanup
    policies, or a whole number of 32 or 64 bits.
    """
    for name, value in given.items():
        if name not in _KNOWN:
            raise UsageError(
                Sentence(
                    Ask.CONFIG,
                    f" {name[:60]!r} is not a setting of brokers by which data is deleted; those are "
                    f"{', '.join(_KNOWN)}",
                )
            )
        if name == _POLICY:
            is_valid = all(policy.strip() in (_DELETE, _COMPACT) for policy in value.split(","))
            wanted = "delete, compact or both"
        else:
            bits = 32 if name in _INTS or name.endswith((".minutes", ".hours")) else 64
            is_valid, wanted = parse_java_long(value.strip(), bits) is not None, f"a whole number of {bits} bits"
        if not is_valid:
            raise UsageError(Sentence(Ask.CONFIG, f" {name}={value[:60]} is not {wanted}"))


class _Rules:
    """Effective settings about deletion on one broker, and the time to compare with."""

    def __init__(self, image: MetadataImage, node: int | None, static: Mapping[str, str], now_ms: int) -> None:
        self.image = image
        self.node = node
        self.static = static
        self.now_ms = now_ms
        self.topics: dict[str, dict[str, Setting]] = {}

    def _of_topic(self, topic: str) -> dict[str, Setting]:
        if topic not in self.topics:
            resources = self.image.configs
            self.topics[topic] = effective_of_topic(resources, topic, broker=self.node, static=self.static)
        return self.topics[topic]

    def of_topic(self, topic: str) -> Iterator[_Value]:
        """Yield the settings that decide when a topic's records are deleted; one that is not set or not a number has
        Kafka's default. If the policy contains `compact`, the retention of tombstones comes first. If it contains
        `delete`, retention by time and then by size follow, without those that are unlimited. Yields nothing for the
        coordinators' topics and the metadata log.
        """
        if topic in _NOT_BY_AGE:
            return
        settings = self._of_topic(topic)
        policy = settings["cleanup.policy"].value if "cleanup.policy" in settings else _DELETE
        if _COMPACT in policy:
            yield _value(_TOMBSTONES, settings.get(_TOMBSTONES), _DAY_MS)
        if _DELETE in policy:
            limits = (_value(_BY_TIME, settings.get(_BY_TIME), _WEEK_MS),
                      _value(_BY_SIZE, settings.get(_BY_SIZE), _UNLIMITED))  # fmt: skip
            yield from (limit for limit in limits if limit.value != _UNLIMITED)

    def of_broker(self, name: str, otherwise: int) -> _Value:
        """Return a numeric setting of the broker; `otherwise` is its value if it is not set or not a number."""
        settings = effective_of_broker(self.image.configs, -1 if self.node is None else self.node, self.static)
        return _value(name, settings.get(name), otherwise)


def _value(name: str, setting: Setting | None, otherwise: int) -> _Value:
    number = None if setting is None else parse_java_long(setting.value.strip(), 64)
    if setting is None or number is None:
        return _Value(name, otherwise, "default")
    return _Value(name, number, _SOURCES[setting.source])


# --- with a broker's directory


def _in_directory(directory: LogDir, rules: _Rules) -> Iterator[Expiry]:
    partitions = [partition for key in directory for partition in directory.live(*key)]
    for partition in partitions:
        yield from _of_log(partition, rules)
    yield from _of_groups(partitions, rules)
    yield from _of_transactions(partitions, rules)


def _of_log(partition: Partition, rules: _Rules) -> Iterator[Expiry]:
    if partition.state is not DirectoryState.LIVE:
        return
    topic, segments, first = partition.topic or "", list(partition.segments), 0
    for limit in rules.of_topic(topic):
        if limit.name == _TOMBSTONES:
            if _has_superseded(partition):
                yield limit.expiry("topic", topic, _SUPERSEDED, partition)
            continue
        left = segments[first:]
        if limit.name == _BY_TIME:
            count = _older(partition, rules.now_ms - limit.value)
            why = f"{_verb(count, 'have')} nothing newer than {moment_text(rules.now_ms - limit.value)}"
        else:
            count = beyond_size([_Facts(segment.base_offset, segment.size) for segment in left], limit.value)
            why = f"{_verb(count, 'are')} beyond {limit.value} bytes"
        if count:
            detail = f"{counted(count, 'segment')} of {len(segments)} {why}"
            size = sum(segment.size for segment in left[:count])
            yield limit.expiry("topic", topic, detail, partition, count=count, size=size)
        first += count


def _has_superseded(partition: Partition) -> bool:
    """Whether the cleaner may remove something. It never cleans the active segment. True if the segments below it have
    a tombstone, a repeated key or a transaction. Also True if they are together larger than `_MOST_BYTES`, or if damage
    ends the reading. Raises `StorageError` if a segment cannot be read.
    """
    segments = partition.segments
    active = segments[-1].base_offset if segments else 0
    if sum(segment.size for segment in segments[:-1]) > _MOST_BYTES:
        return True
    keys: set[bytes | None] = set()
    try:
        for batch in partition.batches():
            if batch.header.first_offset >= active:
                break
            if batch.header.is_transactional:
                return True
            for record in iter_records(batch):
                if record.value is None or record.key in keys:
                    return True
                keys.add(record.key)
    except FormatError:
        return True  # damage may hide some
    return False


def _verb(count: int, of_several: str) -> str:
    return {"have": "has", "are": "is"}[of_several] if count == 1 else of_several


def _older(partition: Partition, timestamp: int) -> int:
    """Return the number of segments at the beginning of the log in which no record has `timestamp` (ms since 1970) or a
    later one; an empty last segment never counts. A segment without timestamps is as old as its file
    (`LogSegment.largestTimestamp`). Raises `StorageError` if the log cannot be read.
    """
    segments = partition.segments
    newer = partition.offset_for_timestamp(max(timestamp, 0), through_damage=True)
    if newer is None:
        count = len(segments) - (bool(segments) and segments[-1].size == 0)
    else:
        count = sum(1 for segment in segments[1:] if segment.base_offset <= newer.offset)
    for number, segment in enumerate(segments[:count]):
        is_recent = segment.modified_ns // 1_000_000 >= timestamp
        if is_recent and all(batch.header.max_timestamp < 0 for batch in segment.batches()):
            return number
    return count


def _of_groups(partitions: Sequence[Partition], rules: _Rules) -> Iterator[Expiry]:
    value = rules.of_broker(OFFSETS_RETENTION, DEFAULT_OFFSETS_RETENTION)
    before = rules.now_ms - value.value * _MINUTE_MS
    groups = read_groups(partitions)
    yield from _of_unread("group", groups.logs, value)
    for group in groups.groups:
        old = [offset for offset in group.offsets if is_expired(group, offset, before, rules.now_ms)]
        count = len(old)
        if count:
            total = len(group.offsets)
            detail = f"{counted(count, 'offset')} of {total} {_verb(count, 'are')} of before {moment_text(before)}"
            yield value.expiry("group", group.group_id, detail, count=count)


def _of_transactions(partitions: Sequence[Partition], rules: _Rules) -> Iterator[Expiry]:
    value = rules.of_broker("transactional.id.expiration.ms", _WEEK_MS)
    transactions = read_transactions(partitions)
    yield from _of_unread("transactional_id", transactions.logs, value)
    for transactional_id in transactions.ids:
        if transactional_id.status in _ENDED and transactional_id.last_update_timestamp + value.value <= rules.now_ms:
            detail = f"last used {moment_text(transactional_id.last_update_timestamp)}"
            yield value.expiry("transactional_id", transactional_id.transactional_id, detail, count=1)


def _of_unread(kind: str, logs: CoordinatorLogs, value: _Value) -> Iterator[Expiry]:
    """Yield one entry for all names ("*") if a coordinator's log could not be read completely: more may be deleted than
    is listed. Otherwise yield nothing.
    """
    why = logs.first_partial()
    if why is not None:
        yield value.expiry(kind, "*", f"more than is named here may go: {why}")


# --- without


def _by_settings(rules: _Rules) -> Iterator[Expiry]:
    for topic in sorted(rules.image.topics):
        for limit in rules.of_topic(topic):
            details = {
                _TOMBSTONES: _SUPERSEDED,
                _BY_TIME: f"segments that have nothing newer than {moment_text(rules.now_ms - limit.value)}",
                _BY_SIZE: f"segments beyond {limit.value} bytes",
            }
            yield limit.expiry("topic", topic, details[limit.name])
    offsets = rules.of_broker(OFFSETS_RETENTION, DEFAULT_OFFSETS_RETENTION)
    ids = rules.of_broker("transactional.id.expiration.ms", _WEEK_MS)
    detail = f"offsets of groups without members of before {moment_text(rules.now_ms - offsets.value * _MINUTE_MS)}"
    yield offsets.expiry("group", "*", detail)
    detail = f"transactional ids that were last used before {moment_text(rules.now_ms - ids.value)}"
    yield ids.expiry("transactional_id", "*", detail)
