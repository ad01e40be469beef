"""Facts of a report before it becomes a page: plain values, bounded in number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from kafkalog.codec.common.errors import KafkaLogError, RecoveryRefused
from kafkalog.codec.common.findings import Finding, Severity, Unread
from kafkalog.copies.comparison import Comparison
from kafkalog.inspect.annotated import AnnotatedBytes
from kafkalog.inspect.stretches import SegmentMap
from kafkalog.inspect.timeline import Series
from kafkalog.recovery.act.history import RunInfo
from kafkalog.recovery.act.unfinished_business import Standing
from kafkalog.recovery.broker.node.answer import NodeStart
from kafkalog.recovery.checks.deleted_beyond_end import DeletedBeyondEnd
from kafkalog.recovery.decide.aftermath import LossConsequence
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.deleted_data import DeletedPartitions
from kafkalog.recovery.decide.plan import BrokerForecast
from kafkalog.recovery.modes.table import Mode

__all__ = ["Damage", "Directory", "Examined", "PartitionFacts", "Planned", "ReportFacts", "TopicFacts"]


class PartitionFacts(Struct, frozen=True, kw_only=True):
    """One partition directory. Offsets, and timestamps in ms since 1970, are None if no batch has them."""

    path: str
    directory: str
    """path of its log directory; its own path if the partition directory was given itself"""
    topic: str
    number: int | None
    state: str
    segments: int
    size: int
    log_start_offset: int
    log_end_offset: int
    first_offset: int | None
    last_offset: int | None
    first_timestamp: int | None
    last_timestamp: int | None
    batches: int
    records: int
    codecs: tuple[tuple[str, int], ...]
    """name of each codec and its number of batches"""
    words: tuple[str, ...]
    """codes of its findings, the most severe first; empty if there are none"""
    unread: tuple[Unread, ...] = ()
    """first ranges of offsets between sound batches that no sound batch has, with the times around them"""

    @property
    def name(self) -> str:
        """Topic and partition number; the topic alone if there is no number."""
        return self.topic if self.number is None else f"{self.topic}-{self.number}"


class TopicFacts(Struct, frozen=True, kw_only=True):
    """Totals of a topic's partitions, copies included."""

    name: str
    partitions: int
    size: int
    records: int
    first_timestamp: int | None
    last_timestamp: int | None


class Directory(Struct, frozen=True, kw_only=True):
    """One log directory, according to its own files."""

    path: str
    cluster_id: str | None
    node_id: int | None
    clean_shutdown: bool
    partitions: int
    size: int
    broker: str | None
    """outcome of a broker's start in a word; None if it was not requested"""
    standing: Standing
    """what an operator should know first"""


class Damage(Struct, frozen=True):
    """A finding with the bytes around its position."""

    finding: Finding
    around: AnnotatedBytes | None
    count: int = 1
    """number of findings with this code in this file that this one represents"""


class Planned(Struct, frozen=True, kw_only=True):
    """Summary of the plan for one log directory."""

    path: str
    """path as the caller gave it"""
    root: str
    """the log directory"""
    forecast: BrokerForecast | None = None
    """forecast of Kafka's start; None if there is no plan"""
    problem: KafkaLogError | None = None
    """why there is no plan; None if there is one"""
    refusal: str | None = None
    files: int = 0
    """number of files that would change"""
    names: tuple[str, ...] = ()
    """names of the partition directories in the plan"""
    mode: Mode = Mode.SAFE
    is_worth_a_look: bool = True
    is_not_needed: bool = False
    """whether only files would change that a broker rebuilds by itself"""
    needs_consent: bool = False
    """whether recovery would lose readable records, make a partition with records stray, or move away a renamed one"""
    needs_full: bool = False
    """whether an error is left that a recovery with `full` repairs"""
    lost_in_deleted: tuple[str, ...] = ()
    """names of the partition directories whose `.deleted` files hold offsets that the recommended way loses"""
    kept_by_runs: tuple[str, ...] = ()
    """names of the partition directories that lose offsets, and of which earlier recoveries keep `.deleted`
    segments
    """
    copies: tuple[str, ...] = ()
    """directories that hold other copies"""
    note_of_identity: str | None = None
    """why brokers may not start because of `meta.properties`; None if they may"""
    no_room: RecoveryRefused | None = None
    """the error with which a recovery would refuse the plan for lack of space; None if there is enough"""
    has_no_room_to_start: bool = False
    """whether the file system has no space for the files that a start writes"""
    made_stray: tuple[str, ...] = ()
    """partition directories that the plan takes out of service"""
    choice: RecoveryChoice = msgspec.field(default_factory=RecoveryChoice)
    declined: Mapping[str, str] = {}
    deleted: str | None = None
    deleted_partitions: DeletedPartitions | None = None
    """`-delete` directories, which a start removes, with records that nothing else holds; None if there are none"""
    deleted_beyond_end: tuple[DeletedBeyondEnd, ...] = ()
    """`.deleted` segments, which a start removes, with records at or beyond the end of their log, by partition"""
    asked_for: tuple[str, ...] = ()
    """partition directories that the plan is limited to; empty if it is for all"""
    changing: tuple[str, ...] = ()
    """partition directories in which the plan would change something"""
    damages: Sequence[Finding] = ()
    """findings about damage in logs and about their losses; file paths are relative to `root`"""
    consequences: Sequence[LossConsequence] = ()
    """consequences of the offsets at which logs end after the plan"""
    waits_for_a_run: bool = False
    """whether an interrupted execution has to be completed first"""
    identity_in: tuple[str, ...] = ()
    """all log directories of the broker, if this one has lost its `meta.properties` and another one names the owner"""

    metadata_beside: str | None = None
    """path of the metadata log that the plan relies on, if it is in another log directory of the broker; else None"""

    @property
    def node(self) -> NodeStart | None:
        """Forecast of the node's start; None if unknown."""
        return None if self.forecast is None else self.forecast.node

    @property
    def node_then(self) -> NodeStart | None:
        """Forecast of the node's start after the plan, as in `BrokerForecast`; None if unknown."""
        return None if self.forecast is None else self.forecast.node_then

    @property
    def changes(self) -> bool:
        """Whether anything would be changed."""
        return bool(self.files)

    @property
    def is_choice(self) -> bool:
        """Whether one of the ways loses something, or may."""
        return self.choice.is_offered


class Examined(Struct, frozen=True, kw_only=True):
    """Totals and details of one walk over all segments."""

    partitions: tuple[PartitionFacts, ...]
    topics: tuple[TopicFacts, ...]
    maps: tuple[tuple[PartitionFacts, SegmentMap], ...]
    """segments that are drawn, those with damage first"""
    clean_not_drawn: int
    damaged_not_drawn: int
    damaged_segments: int
    """number of segments with bytes that are not sound; sound batches after damage do not count"""
    damaged_partitions: int
    segments: int
    size: int
    records: int
    series: Series | None

    @property
    def clean_partitions(self) -> int:
        """Number of partitions without findings."""
        return sum(not partition.words for partition in self.partitions)


class ReportFacts(Struct, frozen=True, kw_only=True):
    """Everything that a report contains."""

    paths: tuple[str, ...]
    version: str
    made_at: int
    """ms since 1970"""
    arguments: tuple[str, ...]
    """arguments of the command other than the paths"""
    directories: tuple[Directory, ...]
    examined: Examined
    findings: Sequence[Finding]
    """warnings and errors"""
    damages: tuple[Damage, ...]
    informations: int
    """number of findings of severity info"""
    behind_damage: int
    """number of counted records after damage, which no consumer reaches"""
    planned: tuple[Planned, ...]
    comparison: Comparison | None
    comparison_problem: KafkaLogError | None
    runs: tuple[tuple[str, tuple[RunInfo, ...]], ...]
    """executions by log directory"""
    deep: bool
    unread: tuple[str, ...] = msgspec.field(default=())
    """paths that could not be examined, and why"""

    @property
    def errors(self) -> list[Finding]:
        """Findings that are errors."""
        return [finding for finding in self.findings if finding.severity is Severity.ERROR]

    @property
    def copies_differ(self) -> bool:
        """Whether copies of a partition differ, are damaged or are missing; False if no copies were compared."""
        return self.comparison is not None and not self.comparison.is_clean

    @property
    def unfinished_runs(self) -> int:
        """Number of executions that were interrupted."""
        return sum(run.is_unfinished for _root, runs in self.runs for run in runs)
