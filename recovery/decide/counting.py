"""Count for each topic-partition of a log directory the records that can be read, and those that a way of recovering
keeps and loses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field, structs

from kafkalog.codec.common.errors import KafkaLogError
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.model import NO_END
from kafkalog.codec.names import CLUSTER_METADATA_TOPIC, DirectoryState
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.directories.log_settings import LogSettings
from kafkalog.log.directories.missing_segments import missing_segments
from kafkalog.log.directories.partition import open_partition
from kafkalog.log.storage.tree import Tree
from kafkalog.recovery.broker.manager import BrokerResult, LoadedPartition
from kafkalog.recovery.damage.census import Census, census
from kafkalog.recovery.damage.offset_ranges import OffsetRanges
from kafkalog.recovery.decide.remote_part import held_remotely
from kafkalog.recovery.decide.ways import Measured, PartitionFacts, RecoveryRequest, logs_of, measure
from kafkalog.recovery.decide.written_end import written
from kafkalog.recovery.facts.recovery_request import Rules
from kafkalog.recovery.modes.spec import WaySpec
from kafkalog.recovery.modes.table import REPLICA, WAYS, Mode
from kafkalog.recovery.safe.normalize import Checkpoints, partitions_of, read_cleaner_offsets, read_high_watermarks
from kafkalog.recovery.safe.result import SafeResult
from kafkalog.tiers.tiering import tier_gap

__all__ = ["Comparer", "CountedPartition", "TopicPartitions", "WayResult", "are_counted"]

_COUNTED_BYTES = 1 << 30
"""Most bytes of untouched logs whose records are counted."""


class CountedPartition(Struct, frozen=True, kw_only=True):
    """Counts for one topic-partition: what can be read, and what this recovery and a broker's start keep and lose."""

    facts: PartitionFacts
    census: Census | None
    """None: its logs are untouched, and there are too many such logs to read"""
    is_untouched: bool
    """whether neither this recovery nor a broker's start changes its logs"""
    by_own: Measured
    by_kafka: Measured

    @property
    def name(self) -> str:
        """Name of the partition's first directory."""
        return self.facts.name


class WayResult(Struct, kw_only=True):
    """Result of one way of recovering: the tree that it leaves, and the records that it keeps and loses of each
    partition.
    """

    request: RecoveryRequest | None
    """None: no recovery, but a broker that starts and fetches"""
    tree: Tree | None
    """None: a broker would not start"""
    partitions: Mapping[str, LoadedPartition] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    """why a partition directory is left as it is, by name"""
    measured: dict[str, Measured] = field(default_factory=dict)
    """counts by partition, filled when they are needed"""
    copies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """directories of other copies that the way reads from, by partition"""
    chosen: tuple[str, ...] = ()
    """partitions that the way is for, if it is applied to one partition at a time"""
    rest: WayResult | None = None
    """the recovery of all other partitions after that; its counts are only of these"""

    @classmethod
    def of_kafka(cls, result: BrokerResult) -> WayResult:
        """Return the result of a broker's start; its tree is None if the logs do not load."""
        tree = result.tree if result.is_loaded else None
        return cls(request=RecoveryRequest(mode=Mode.KAFKA), tree=tree, partitions=result.partitions)

    @classmethod
    def of_safe(cls, request: RecoveryRequest, result: SafeResult) -> WayResult:
        """Return the result of the recovery that `request` describes."""
        return cls(request=request, tree=result.tree, partitions=result.partitions, refusals=result.refusals)

    @property
    def way(self) -> WaySpec:
        """Kind of way."""
        return REPLICA if self.request is None else self.request.way

    @property
    def is_full(self) -> bool:
        """Whether segments below the recovery point are examined only because of this way."""
        return self.request is not None and self.request.full

    @property
    def is_both(self) -> bool:
        """Whether it is salvage, helped by bit repair."""
        return self.request is not None and self.request.is_both

    @property
    def order(self) -> tuple[int, bool, bool]:
        """Sort key for the order in which ways are listed."""
        return list(WAYS).index(self.way.name), *((True, True) if self.request is None else self.request.order)

    def refusal_of(self, partitions: Iterable[PartitionFacts]) -> str | None:
        """Return the reason why the first of these topic-partitions is refused, if all of them are; None if at least
        one is not, or if there are none. One is refused if a directory of it is.
        """
        refusals = [
            next((self.refusals[directory] for directory in partition.directories if directory in self.refusals), None)
            for partition in partitions
        ]
        return refusals[0] if refusals and None not in refusals else None

    def log_start(self, partition: PartitionFacts) -> int:
        """Log start offset of a partition after this way."""
        loaded = (self.partitions[directory] for directory in partition.directories if directory in self.partitions)
        return next((directory.log_start_offset for directory in loaded), partition.log_start)

    def log_end(self, partition: PartitionFacts) -> int:
        """Log end offset of a partition after this way: above it nothing is read, and offsets are used again. `NO_END`
        if unknown or if the partition becomes stray.
        """
        loaded = self.partitions.get(partition.name)
        return NO_END if loaded is None or loaded.stray is not None else loaded.log_end_offset

    def makes_stray(self, partition: PartitionFacts) -> bool:
        """Whether a live partition whose log ends above offset 0 is renamed to `-stray`, which no broker serves."""
        loaded = self.partitions.get(partition.name)
        return partition.is_live and loaded is not None and loaded.stray is not None and loaded.log_end_offset > 0

    def touches(self, partition: PartitionFacts, before: Tree) -> bool:
        """Whether this way changes the logs of a partition or its log start offset; `before` is the tree before it.
        True if the broker would not start. Raises `StorageError` if a file cannot be read.
        """
        if self.tree is None or self.log_start(partition) != partition.log_start:
            return True
        return logs_of(self.tree, partition.directories) != logs_of(before, partition.directories)


class TopicPartitions:
    """Topic-partitions of a tree whose records count. A `-future` copy beside its replica does not count, nor does a
    directory that waits for deletion.
    """

    def __init__(self, tree: Tree, rules: Rules) -> None:
        self._points, self._watermarks = Checkpoints.read(tree), read_high_watermarks(tree)
        self._leader_epochs = rules.facts.leader_epochs
        self._settings = rules.settings
        self._tiering = rules.facts.tiering.with_checkpoint(tree.directories, self._points.log_starts)
        self._directories: dict[tuple[str, int, str], list[str]] = {}
        self._keys: dict[str, tuple[str, int, str]] = {}
        """directory -> key of its topic-partition in `_directories`"""
        named_directories = partitions_of(tree, rules.cluster_metadata)
        live = {
            (name.topic, name.partition) for _directory, name in named_directories if name.state is DirectoryState.LIVE
        }
        if any(name.state is DirectoryState.FUTURE for _directory, name in named_directories):
            live |= rules.facts.live_partitions()  # a move to another disk: the replica is in the other directory
        for directory, name in named_directories:
            topic_partition, state = (name.topic, name.partition), name.state
            if state is DirectoryState.LIVE:
                self._directories.setdefault((*topic_partition, ""), []).append(directory)
            elif state is DirectoryState.STRAY or (state is DirectoryState.FUTURE and topic_partition not in live):
                self._directories[*topic_partition, directory] = [directory]
        for key, directories in self._directories.items():
            self._keys.update(dict.fromkeys(directories, key))

    def facts(self, tree: Tree) -> list[PartitionFacts]:
        """Facts of every topic-partition."""
        return [self._facts(tree, key) for key in self._directories]

    def facts_among(self, tree: Tree, directories: Iterable[str]) -> list[PartitionFacts]:
        """Facts of the topic-partitions in `directories`; other names are skipped. `tree` needs to hold only these."""
        keys = dict.fromkeys(self._keys[directory] for directory in directories if directory in self._keys)
        return [self._facts(tree, key) for key in keys]

    def in_order(self, counted: Iterable[CountedPartition]) -> list[CountedPartition]:
        """Return the partitions in the order of `facts`. `counted` must have all of them, else `KeyError` is raised."""
        by_key = {partition.facts.key: partition for partition in counted}
        return [by_key[key] for key in self._directories]

    def _facts(self, tree: Tree, key: tuple[str, int, str]) -> PartitionFacts:
        topic, partition, put_away = key
        directories, named = self._directories[key], (topic, partition)
        if put_away:  # the checkpoints speak of the replica, if there is one
            return PartitionFacts(
                topic=topic,
                partition=partition,
                directories=tuple(directories),
                log_start=0,
                high_watermark=None,
                is_live=False,
            )
        settings = LogSettings() if topic == CLUSTER_METADATA_TOPIC else self._settings(topic)
        return PartitionFacts(
            topic=topic,
            partition=partition,
            preallocated=settings.segment_bytes if settings.preallocate else None,
            directories=tuple(sorted(directories, key=len)),
            log_start=0 if topic == CLUSTER_METADATA_TOPIC else max(self._points.log_starts.get(named, 0), 0),
            high_watermark=self._watermarks.get(named),
            written=written(tree, directories, named, self._points, self._tiering, self._leader_epochs.get(named)),
        )


def are_counted(sizes: Iterable[int]) -> bool:
    """Whether untouched logs of these sizes in bytes are few enough to be counted."""
    return sum(sizes) <= _COUNTED_BYTES


class Comparer:
    """Counter of the records that a broker's start, the requested recovery and other ways keep and lose. Methods raise
    `StorageError` if a file cannot be read.
    """

    def __init__(self, before: Tree, kafka: BrokerResult, own: SafeResult | None, rules: Rules) -> None:
        self.before = before
        self.topics = rules.facts
        self.start = kafka
        self.kafka = WayResult.of_kafka(kafka)
        self.own = self.kafka if own is None else WayResult.of_safe(RecoveryRequest.of(rules), own)
        self._with_less: dict[str, set[int]] = {}
        """brokers whose copy of a partition was given and ends too early to replace this one, by partition"""

    def note_ends_of_copies(self, partition: CountedPartition, copies: Iterable[str]) -> None:
        """Note the brokers whose own copy of the partition, in `copies` (partition directories), ends below the high
        watermark. If the watermark is 0 or unknown, this log's end takes its place. Such a copy cannot replace what
        this log loses (`others`). Copies of unknown brokers, and copies that cannot be read, are ignored; nothing is
        raised for them.
        """
        facts, original = partition.facts, partition.census
        needed = facts.high_watermark or (0 if original is None else original.end_offset)
        for path in copies:
            meta = meta_properties_of(os.path.dirname(path))
            if meta is None or meta.node_id is None:
                continue
            try:
                end = open_partition(path).log_end_offset()
            except KafkaLogError:
                continue
            if end < needed:
                self._with_less.setdefault(facts.name, set()).add(meta.node_id)

    def count(self, partitions: Iterable[PartitionFacts]) -> list[CountedPartition]:
        """Return the counts of each partition, in order. Logs that neither a start nor the recovery changes are read
        only up to a total of 1 GiB; after that, such partitions have no census. If a partition's log start offset is
        wrong, because nothing shows that the log ever reached it, the partition is counted from offset 0. If the topic
        is compacted and there is no readable cleaner checkpoint, no offsets count as missing. Raises `StorageError` if
        a log cannot be read.
        """
        left, counted, cleaned = _COUNTED_BYTES, [], read_cleaner_offsets(self.before)
        for facts in partitions:
            is_untouched = not (self.kafka.touches(facts, self.before) or self.own.touches(facts, self.before))
            if is_untouched:
                paths = (path for directory in facts.directories for _base, path in self.before.logs(directory))
                left -= sum(self.before.files[path].size for path in paths)
            original = None
            if not is_untouched or left >= 0:
                until = max((cleaned or {}).get((facts.topic, facts.partition), 0), 0)
                never = not until and self.topics.is_never_compacted(facts.topic, facts.partition)
                facts = structs.replace(facts, is_uncleaned=never)
                original = census(
                    self.before, facts.directories, facts.log_start, cleaned_until=until, is_uncleaned=never
                )
                if facts.is_live and facts.log_start > max(original.end_offset, facts.written.end):
                    facts, original = self._with_true_start(facts, original, until, is_uncleaned=never)
                if cleaned is None and self.topics.is_compacted(facts.topic):
                    original.missing = original.overwritten = []
            counted.append(self.counted(facts, original, is_untouched=is_untouched))
        return counted

    def _with_true_start(
        self, facts: PartitionFacts, original: Census, cleaned_until: int, *, is_uncleaned: bool
    ) -> tuple[PartitionFacts, Census]:
        """Return the partition with log start offset 0 and the census of its whole log, if nothing shows that the log
        ever reached its log start offset: then that offset is wrong, and the records below it count. Otherwise return
        the partition and its census `original`. `cleaned_until` and `is_uncleaned` are those of `census`. Raises
        `StorageError` if a log cannot be read.
        """
        whole = census(self.before, facts.directories, 0, cleaned_until=cleaned_until, is_uncleaned=is_uncleaned)
        reached = max(whole.end_offset, facts.high_watermark or 0)
        is_wrong = reached < facts.log_start and not (whole.is_damaged or whole.ends_in_damage)
        return (structs.replace(facts, log_start=0), whole) if is_wrong else (facts, original)

    def counted(self, facts: PartitionFacts, original: Census | None, *, is_untouched: bool) -> CountedPartition:
        """Return the counts of one partition, for the requested recovery and for a broker's start. If the broker does
        not start, all counts for its start are unknown. Otherwise, if `original` (the census) is None because the logs
        were not read, nothing counts as lost. `is_untouched` means that neither of the two changes the partition's
        logs. Raises `StorageError` if a file cannot be read.
        """
        is_same = is_untouched and original is not None and not original.hidden and (
            min(self.kafka.log_end(facts), self.own.log_end(facts)) >= original.end_offset
        )  # fmt: skip
        by_own = self._measure(facts, original, self.own)
        by_kafka = by_own if is_same or self.own is self.kafka else self._measure(facts, original, self.kafka)
        return CountedPartition(
            facts=facts, census=original, is_untouched=is_untouched, by_own=by_own, by_kafka=by_kafka
        )

    def measured(self, partition: CountedPartition, way: WayResult) -> Measured:
        """Return the counts of one way for one partition. Those of the requested recovery and of the broker's start are
        taken from `partition`; for another way they are computed at the first call and stored in `way.measured`. Raises
        `StorageError` if a file cannot be read.
        """
        if way is self.own or way is self.kafka:
            return partition.by_own if way is self.own else partition.by_kafka
        name = partition.name
        if name not in way.measured:
            way.measured[name] = self._measure(partition.facts, partition.census, way)
        return way.measured[name]

    def _measure(self, facts: PartitionFacts, original: Census | None, way: WayResult) -> Measured:
        if way.tree is None:
            return Measured()
        if original is None:
            return Measured(records_lost=0, bytes_cut=0)
        counts = measure(facts, self.before, original, way.tree, way.log_start(facts), way.log_end(facts))
        local_start = self._served_remotely_below(facts, counts, way.tree)
        if local_start is None:
            return counts
        start = max(facts.log_start, local_start)
        local = structs.replace(facts, log_start=start)
        return counts.held_below(
            measure(local, self.before, original, way.tree, max(way.log_start(facts), start), way.log_end(facts))
        )

    def note_from_copies(self, partition: CountedPartition, way: WayResult) -> None:
        """Set `from_copies` in the counts of a way that merges: the number of records that it adds below the end of the
        log. Does nothing if the partition is hurt (`is_hurt`) or has no census, or if the way loses or hides records or
        has no tree. Raises `StorageError` if a log cannot be read.
        """
        facts, original, measured = partition.facts, partition.census, self.measured(partition, way)
        if original is None or way.tree is None or self.is_hurt(partition) or measured.out_of_reach:
            return
        end = min(original.end_offset, way.log_end(facts))
        merged = census(way.tree, facts.directories, way.log_start(facts), end)
        measured.from_copies = max(merged.records - merged.hidden - original.records, 0)  # those above `end` are hidden

    def _served_remotely_below(self, facts: PartitionFacts, measured: Measured, after: Tree) -> int | None:
        """Return the base offset of the first local segment in `after`, if records below it are lost locally and the
        remote tier has all of them. Return None in all other cases, for example if the partition is not live, not
        tiered, or has no segment.
        """
        key, tiering = (facts.topic, facts.partition), self.topics.tiering
        there = [directory for directory in facts.directories if directory in after.directories]
        bases = [base for directory in there for base, _path in after.logs(directory)]
        if not (measured.lost and facts.is_live and bases and tiering.is_tiered(key)):
            return None
        start = min(bases)
        below = [
            (lost.first, start - 1 if lost.last is None else min(lost.last, start - 1))
            for lost in measured.lost
            if lost.first < start
        ]
        held = held_remotely(self.before, facts.name, key, tiering) if below else OffsetRanges()
        return start if below and all(held.covers(*offsets) for offsets in below) else None

    def missing(self, partitions: Iterable[CountedPartition]) -> list[Finding]:
        """Return the findings about missing segments of live partitions, and about offsets that neither the log nor the
        remote tier has. Partitions without a census or with several directories are skipped. Raises `StorageError` if a
        file cannot be read.
        """
        return [
            finding
            for partition in partitions
            if partition.census is not None and len(partition.facts.directories) == 1 and partition.facts.is_live
            for finding in self._missing_of(partition.facts, partition.census)
        ]

    def _missing_of(self, facts: PartitionFacts, original: Census) -> Iterator[Finding]:
        begins = facts.written.local_start
        bases = [base for base, _ in self.before.logs(facts.name)]
        if begins is not None and begins.lost is not None and begins.is_tiered:
            yield tier_gap(facts.name, begins)
        else:
            yield from missing_segments(facts.name, facts.written.lost_start, facts.log_start, bases)
        is_compacted = self.topics.is_compacted(facts.topic)
        yield from missing_segments(facts.name, original.missing, facts.log_start, bases, is_compacted=is_compacted)

    @staticmethod
    def damaged(partitions: Sequence[CountedPartition]) -> list[Finding]:
        """Return an error for each damaged place in the logs of these partitions, and for each batch below the base
        offset of its segment. Incomplete batches and zeros at a log's end and damage below the log start offset are
        left out; partitions without a census are skipped.
        """
        below = [each for partition in partitions if partition.census is not None for each in partition.census.below]
        return below + [
            Finding(damage.code, Severity.ERROR, damage.position, damage.first_offset, damage.detail, damage.path)
            for partition in partitions
            if partition.census is not None
            for damage in partition.census.damages
            if not damage.is_tail and damage.reaches(partition.facts.log_start)
        ]

    def is_hurt(self, partition: CountedPartition) -> bool:
        """Whether the ways of recovering may differ for the partition. They may if records or transaction markers are
        lost, damaged, missing, overwritten, hidden or out of order. They also may if a transaction has offsets of the
        next segment, or if leader epochs decrease. The same holds if the partition becomes stray, or if recovery
        declines it.
        """
        original = partition.census
        if partition.name in self.own.refusals or self.own.makes_stray(partition.facts):
            return True
        if original is not None and (
            original.missing or original.overwritten or original.hidden
            or original.overlaps or original.epoch_falls or original.is_damaged
        ):
            return True
        return any(way.records_lost or way.markers_damaged for way in (partition.by_own, partition.by_kafka))

    def replica(self, partition: CountedPartition) -> Measured | None:
        """Return the counts for the case that other brokers' copies replace this one. These copies have all records up
        to the high watermark, also those that are lost here; if lost offsets have no header, the share of records among
        them is estimated. Records above it count as lost, but the other copies may have them (`perhaps_elsewhere`), as
        the high watermark in the checkpoint is seconds old. All counts are unknown if the high watermark is unknown.
        Return None if no other broker was in sync, or if there is no census. Reads the log again if it ends above the
        high watermark; raises `StorageError` if this fails.
        """
        facts, original = partition.facts, partition.census
        if original is None or not self.others(facts):
            return None
        watermark = facts.high_watermark
        if watermark is None:
            return Measured()
        above = 0
        if original.end_offset > watermark:
            above = census(self.before, facts.directories, max(watermark, facts.log_start)).records
        here = partition.by_own if partition.by_kafka.records_lost is None else partition.by_kafka
        kept = None
        if here.records_kept is not None and here.records_lost is not None:
            offsets = sum(last - max(first, facts.log_start) + 1 for first, last in original.offsets)
            share = original.records / offsets if here.of_offsets and original.records else 1
            torn_above = [
                (max(lost_range.first, watermark), lost_range.last) for lost_range in here.lost
                if lost_range.last is not None and lost_range.last >= watermark
            ]  # fmt: skip
            lost_above = sum(last - first + 1 for low, high in torn_above
                             for first, last in original.offsets.absent(low, high))  # fmt: skip
            kept = here.records_kept + round((here.records_lost - lost_above) * share) - above
            above += lost_above
        return Measured(
            records_kept=kept,
            is_kept_estimate=above > 0 or not here.is_exact,
            records_lost=above,
            is_exact=above == 0,
            perhaps_elsewhere=above,
            uncounted=int(above > 0 and here.uncounted > 0 and original.ends_in_damage),
            bytes_cut=0,
            below_high_watermark=False,
        )

    def is_fetched_again(self, partition: CountedPartition) -> bool:
        """Whether a broker's start leaves a sound partition and loses at most records from the new log end on, which a
        follower fetches again. Sound means: no damage, no records that consumers skip, no transaction with offsets of
        the next segment, and no decreasing leader epoch. False if the broker does not start or the partition becomes
        stray. Reads no file. Gaps and damage below the recovery point stay, because a start does not look there
        (`LogLoader.recoverLog`).
        """
        loaded, left = self.kafka.partitions.get(partition.name), partition.by_kafka
        if loaded is None or self.kafka.tree is None or loaded.stray is not None:
            return False
        is_whole = not (left.damage_left or left.records_hidden or left.overlaps or left.epoch_falls)
        return is_whole and all(lost_range.first >= loaded.log_end_offset for lost_range in left.lost)

    def others(self, facts: PartitionFacts) -> tuple[int, ...]:
        """Return the ids of other brokers that were in sync, according to the metadata beside the log. Brokers of
        `note_ends_of_copies` are left out, and so are brokers that were given whole and do not have the partition.
        Empty if the partition is not live.
        """
        key = facts.topic, facts.partition
        in_sync = self.topics.in_sync.get(key, ()) if facts.is_live else ()
        left_out = {self.topics.node_id, *self._with_less.get(facts.name, ())}
        left_out |= {node for node, held in self.topics.held_by_others.items() if key not in held}
        return tuple(node for node in in_sync if node not in left_out)
