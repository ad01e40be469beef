"""Plan of a replay: the topics to create, what is left out, and the reasons for a refusal."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence, Set

from msgspec import Struct

from kafkalog.cluster.groups.offsets import CommittedOffset, read_offsets
from kafkalog.cluster.kraft.cluster_facts import cluster_facts, live_partitions
from kafkalog.cluster.transactions.transactions import read_transactions
from kafkalog.cluster.transactions.undecided import DecidedPartition, Waiting
from kafkalog.codec.common.arguments import Count
from kafkalog.codec.common.errors import RecoveryRefused, UsageError
from kafkalog.codec.common.findings import Finding, Severity
from kafkalog.codec.common.unknown import unknown
from kafkalog.codec.names import INDEX_KINDS, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, FileKind
from kafkalog.log.directories.follow import settled
from kafkalog.log.directories.partition import Partition
from kafkalog.log.directories.selection import Selection
from kafkalog.log.disk.files import PathLike
from kafkalog.log.writing.topics import check_topic
from kafkalog.recovery.checks.verify import verify
from kafkalog.replay.request import Replay
from kafkalog.replay.retention import Settings, settings_for
from kafkalog.replay.target import progress_topic

__all__ = ["PlannedTopic", "ReplayPlan", "plan_replay"]

_BESIDE_A_LOG = (*INDEX_KINDS, FileKind.PRODUCER_SNAPSHOT)


class PlannedTopic(Struct, frozen=True, kw_only=True):
    """A topic of the source, and how it is created and filled in the target."""

    name: str
    target: str
    partition_count: int
    partitions: Mapping[int, DecidedPartition]
    settings: Settings

    @property
    def missing(self) -> list[int]:
        """Partitions whose logs are not in the directories; they are created and stay empty."""
        return [number for number in range(self.partition_count) if number not in self.partitions]


class ReplayPlan(Struct, frozen=True, kw_only=True):
    """The records that would be replayed. `damaged` has, for each file, the first finding at which a consumer stops;
    `commits` are the committed offsets of the source's groups; `findings` are problems found while planning.
    """

    paths: tuple[str, ...]
    identity: str
    topics: tuple[PlannedTopic, ...]
    commits: tuple[CommittedOffset, ...]
    damaged: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    problem: str | None = None
    """why the topics' settings are unknown, if the cluster's metadata exists but cannot be read"""

    @property
    def progress_topic(self) -> str:
        """Topic in the target that records the progress of the replay."""
        return progress_topic(self.identity)

    @property
    def size(self) -> int:
        """Size of all logs in bytes, including parts that are not replayed."""
        return sum(partition.size for topic in self.topics for partition in topic.partitions.values())

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """The records that are left out because transactions before them are undecided; one `Waiting` per partition,
        ordered by topic and partition.
        """
        logs = (decided_partition for topic in self.topics for _, decided_partition in sorted(topic.partitions.items()))
        return tuple(log.waiting for log in logs if log.waiting is not None)

    def refuse(self, options: Replay) -> None:
        """Raise `RecoveryRefused` if records would be lost, unless `options.accept_loss` is set. Its `reason` is
        `damaged` if a partition has damage, because records after it would not be replayed. Its `reason` is `retention`
        if topics keep their old settings (`keep_settings`) and the target would therefore delete or compact replayed
        records at once.
        """
        if options.accept_loss:
            return
        if self.damaged:
            first = self.damaged[0]
            raise RecoveryRefused(
                f"{len(self.damaged)} partition(s) are damaged, and a consumer reads only up to the damage (first: "
                f"{first.file} at byte {first.position}: {first.code.value}); nothing was changed. Recover them first "
                "(kafkalog recover), or pass --accept-loss to replay what comes before it.",
                reason="damaged",
            )
        losing = [topic.name for topic in self.topics if topic.settings.would_lose]
        if options.keep_settings and losing:
            raise RecoveryRefused(
                f"with their old settings the target would at once delete or compact records of {', '.join(losing)}; "
                "nothing was changed. Leave out --keep-retention, or pass --accept-loss as well.",
                reason="retention",
            )


def plan_replay(request: Replay | PathLike, *paths: PathLike, jobs: Count = 1) -> ReplayPlan:
    """Read the source's directories and return the plan of a replay. The checksum of every batch of the selected topics
    is checked, in `jobs` processes; nothing is changed.

    If `request` is a path, it is the first of `paths` and all options have their defaults. Topics of Kafka itself
    (`__...`) are not replayed. Damage at which consumers stop is in the plan and raises nothing; damage of indexes is
    not in it. Directories that cannot be read are left out, with a finding in the plan. Raises `UsageError` for paths
    without Kafka data or topics of a user, for a selected internal topic, or if everything selected is excluded. Raises
    it also for an invalid name, and for two topics with one name in the target. Raises `UnknownName` for a topic or
    partition that does not exist. Raises `ReplicaError` if a partition is in several directories and no replica is
    chosen. Raises `StorageError` for other I/O.
    """
    options, paths = (request, paths) if isinstance(request, Replay) else (Replay(), (request, *paths))
    given = tuple(str(os.fspath(path)) for path in paths)
    inventory = settled(*given, tolerant=True)
    cluster = cluster_facts(inventory)
    partitions = live_partitions(inventory, replica=options.replica)
    by_topic: dict[str, dict[int, Partition]] = {}
    for partition in partitions:
        if partition.name is not None:
            by_topic.setdefault(partition.name.topic, {})[partition.name.partition] = partition
    topics = {name: each for name, each in by_topic.items() if not name.startswith("__")}
    _refuse_internal(options.select, by_topic.keys() - topics.keys())
    options.select.check((name, number) for name, each in topics.items() for number in each)
    now = int(time.time() * 1000) if options.now is None else options.now
    coordinator = read_transactions(partitions)
    planned = []
    for name, topic in sorted(topics.items()):
        here = {
            number: DecidedPartition(
                log,
                coordinator,
                abort_rest=options.abort_open,
                start_offset=options.start_offset,
                end_offset=options.end_offset,
            )
            for number, log in sorted(topic.items())
            if options.select.takes(name, number)
        }
        if not here:
            continue
        old = cluster.configs.get(f"topic:{name}", {})
        logs = [decided_partition.listed for decided_partition in here.values()]
        settings = settings_for(old, logs, now, keep=options.keep_settings, further=options.configs)
        target = options.renamed.get(name, f"{options.prefix}{name}")
        planned.append(
            PlannedTopic(
                name=name,
                target=target,
                partition_count=cluster.partition_count(name, topic),
                partitions=here,
                settings=settings,
            )
        )
    if not planned:
        raise UsageError(f"{', '.join(given)}: no topic of a user is here to replay")
    for name in options.renamed:
        if name not in topics:
            raise unknown("topic", name, topics)
    identity = options.identity or _identity(given, options)
    for name in (*(planned_topic.target for planned_topic in planned), progress_topic(identity)):
        check_topic(name)
    _refuse_one_name([*(topic.target for topic in planned), progress_topic(identity)])
    paths_of_logs = [each.path for topic in planned for each in topic.partitions.values()]
    checked = verify(*paths_of_logs, deep=False, jobs=jobs)
    damaged = [finding for finding in checked.findings if finding.severity is Severity.ERROR and _ends_reading(finding)]
    commits = read_offsets(partitions) if options.with_groups else None
    return ReplayPlan(
        paths=given,
        identity=identity,
        topics=tuple(planned),
        commits=commits.committed if commits is not None else (),
        damaged=tuple({finding.file: finding for finding in reversed(damaged)}.values()),
        findings=(
            *options.select.of_unreadable(inventory.all_unreadable),
            *coordinator.findings,
            *(commits.findings if commits is not None else ()),
        ),
        problem=cluster.problem,
    )


def _ends_reading(finding: Finding) -> bool:
    """Whether a consumer stops at the finding. Findings about index files, snapshots and other files that consumers do
    not read do not count.
    """
    name = os.path.basename(finding.file or "")
    return os.path.splitext(name)[1] not in _BESIDE_A_LOG and name not in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)


def _refuse_internal(select: Selection, internal: Set[str]) -> None:
    for name in sorted(internal & (select.topics | select.excluded)):
        raise UsageError(f"{name} is a topic of the brokers themselves, and never replayed")


def _refuse_one_name(targets: Sequence[str]) -> None:
    twice = sorted({name for name in targets if targets.count(name) > 1})
    if twice:
        raise UsageError(f"two topics would become {', '.join(twice)} in the target")


def _identity(paths: Sequence[str], options: Replay) -> str:
    """Return the default identity of a replay: 12 hex digits of a hash. The hash covers the real paths of the
    directories, whose order does not matter, and the requested bounds of offsets and times. Other options do not change
    it.
    """
    real = sorted(os.path.realpath(path) for path in paths)
    part = options.start_offset, options.end_offset, options.start_time, options.end_time
    if part != (None,) * len(part):
        real.append(str(part))
    return hashlib.sha256("\0".join(real).encode("utf-8", "surrogateescape")).hexdigest()[:12]
