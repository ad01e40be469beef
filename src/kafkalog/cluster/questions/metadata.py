"""A KRaft cluster's metadata at a moment, and the changes of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from msgspec import Struct
from msgspec.structs import replace

from kafkalog.cluster.cross_check import known_from_image
from kafkalog.cluster.kraft.metadata_history import PartitionChange, partition_changes
from kafkalog.cluster.kraft.metadata_image import BrokerImage, TopicImage
from kafkalog.cluster.kraft.metadata_log import MetadataLog, MetadataState
from kafkalog.cluster.kraft.registrations import unregistered_brokers
from kafkalog.cluster.questions.against import compared
from kafkalog.cluster.questions.moment import NOW, Moment, metadata_offset, refuse_beyond_end
from kafkalog.cluster.questions.opening import metadata_log, partition_names
from kafkalog.codec.common.findings import Finding
from kafkalog.log.directories.selection import ALL, Selection
from kafkalog.log.disk.files import PathLike

__all__ = ["ClusterMetadata", "MetadataHistory", "chosen_changes", "metadata", "metadata_history", "state_at"]


class ClusterMetadata(Struct, frozen=True, kw_only=True):
    """The state of a KRaft cluster's metadata at a moment."""

    state: MetadataState
    """the metadata, with only the chosen partitions and the settings of their topics"""
    log: MetadataLog
    """where it was read"""
    findings: tuple[Finding, ...]

    @property
    def next_offset(self) -> int:
        """Offset before which the state is complete: the first one of the metadata log that is not in it."""
        return self.state.next_offset

    @property
    def topics(self) -> Mapping[str, TopicImage]:
        """Topics by name, with their partitions."""
        return self.state.image.topics

    @property
    def brokers(self) -> Mapping[int, BrokerImage]:
        """Registered brokers by id."""
        return self.state.image.brokers

    @property
    def configs(self) -> Mapping[str, Mapping[str, str]]:
        """Settings by resource, such as `topic:orders` or `broker:1`; `broker:` is the cluster's default."""
        return self.state.image.configs


class MetadataHistory(Struct, frozen=True, kw_only=True):
    """Changes of the chosen partitions that the metadata log still has, in order."""

    changes: tuple[PartitionChange, ...]
    findings: tuple[Finding, ...]


def metadata(
    *paths: PathLike,
    as_of: Moment = NOW,
    select: Selection = ALL,
    against: Sequence[PathLike] = (),
    replica: PathLike | None = None,
) -> ClusterMetadata:
    """Return the state of a KRaft cluster's metadata, from the newest complete snapshot of `__cluster_metadata` and the
    log after it. Reads only; damage becomes findings.

    Raises `UsageError` if the paths do not hold exactly one metadata log, or if `as_of` is a ZooKeeper transaction.
    Raises it also if `as_of` is an offset beyond the log's end, or an offset or a time before what is left of the log.
    It is raised too if a path in `against` has no Kafka data, or if everything selected is excluded. Raises
    `UnknownName` for a topic or partition that does not exist, `StorageError` for I/O errors.

    * `paths`: log directories
    * `as_of`: a past moment
    * `select`: the partitions to return; without a selection everything is returned
    * `against`: log directories of brokers; a contradiction to the metadata is a finding
    * `replica`: which directory counts if the metadata log is in several: `"longest"`, or its path, which must exist
    """
    findings: list[Finding] = []
    log = metadata_log(paths, replica, findings)
    state = state_at(log, as_of, findings)
    chosen = _only(state, select)
    if against:
        findings += compared(against, known_from_image(state.image), state.image.next_producer_id)
    return ClusterMetadata(state=chosen, log=log, findings=tuple(findings))


def state_at(log: MetadataLog, as_of: Moment, findings: list[Finding]) -> MetadataState:
    """Read the metadata state at a moment; append its findings, and findings about unregistered brokers, to `findings`.

    A time after the last record is the end of the log. Raises `UsageError` if the moment's offset is above the end of
    the log, behind damage, or below what the log and its snapshots still have. It is raised too for a time before the
    first record of a log that does not begin at offset 0, and for a ZooKeeper transaction. Raises `StorageError` if a
    file cannot be read.
    """
    offset = metadata_offset(log, as_of)
    state = log.state(offset)
    refuse_beyond_end(offset, state)
    findings += state.findings
    findings += unregistered_brokers(state.image, log.partition.path)
    return state


def _only(state: MetadataState, select: Selection) -> MetadataState:
    """Return a copy of the state with only the selected partitions; topics without one, and their configs, are left
    out.

    Everything else is unchanged. Without a selection, the state itself is returned. Raises `UnknownName` for a selected
    topic or partition that does not exist, `UsageError` if everything selected is excluded.
    """
    select.check(partition_names(known_from_image(state.image)))
    if select == ALL:
        return state
    topics = {
        name: replace(topic, partitions=kept)
        for name, topic in state.image.topics.items()
        if (kept := {number: each for number, each in topic.partitions.items() if select.takes(name, number)})
    }
    configs = {
        resource: values
        for resource, values in state.image.configs.items()
        if not resource.startswith("topic:") or resource.removeprefix("topic:") in topics
    }
    image = copy(state.image)
    image.topics, image.configs = topics, configs
    return replace(state, image=image)


def metadata_history(
    *paths: PathLike, select: Selection = ALL, replica: PathLike | None = None
) -> MetadataHistory:
    """Return every change of a partition that the metadata log of a KRaft cluster still has. Reads only; damage becomes
    findings.

    Raises `UsageError` if the paths do not hold exactly one metadata log, or if everything selected is excluded. Raises
    `UnknownName` for a topic or partition that neither has changes nor exists, `StorageError` for I/O errors.

    * `paths`: log directories
    * `select`: the partitions to return
    * `replica`: which directory counts if the metadata log is in several: `"longest"`, or its path, which must exist
    """
    findings: list[Finding] = []
    changes = chosen_changes(metadata_log(paths, replica, findings), select, findings)
    return MetadataHistory(changes=tuple(changes), findings=tuple(findings))


def chosen_changes(log: MetadataLog, select: Selection, findings: list[Finding]) -> list[PartitionChange]:
    """Return the changes of the selected partitions in offset order.

    Findings about the log and its final state are appended to `findings`, without duplicates. Raises `UnknownName` for
    a selected topic or partition that neither has changes nor exists. Raises `UsageError` if everything selected is
    excluded. Raises `StorageError` for I/O errors.
    """
    of_log: list[Finding] = []
    changes = list(partition_changes(log, of_log))
    known = partition_names(known_from_image(state_at(log, NOW, of_log).image))
    known_findings = set(findings)
    findings += [finding for finding in dict.fromkeys(of_log) if finding not in known_findings]
    select.check([*known, *((change.topic, change.partition) for change in changes)])
    return [change for change in changes if select.takes(change.topic, change.partition)]
