"""What a report holds before it becomes a page: plain values, bounded in number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from kafkalog.codec.errors import KafkaLogError
from kafkalog.codec.findings import Finding, Severity, Unread
from kafkalog.copies.comparison import Comparison
from kafkalog.inspect.annotated import AnnotatedBytes
from kafkalog.inspect.stretches import SegmentMap
from kafkalog.inspect.timeline import Series
from kafkalog.recovery.act.history import RunInfo
from kafkalog.recovery.act.unfinished_business import Standing
from kafkalog.recovery.decide.aftermath import LossConsequence
from kafkalog.recovery.decide.choice import RecoveryChoice
from kafkalog.recovery.decide.plan import BrokerForecast

__all__ = ["Damage", "Directory", "Examined", "PartitionFacts", "Planned", "ReportFacts", "TopicFacts"]


class PartitionFacts(Struct, frozen=True):
    """One partition directory; offsets, and timestamps in ms, are None where no batch tells them."""

    path: str
    directory: str
    """the log directory that it is in; its own path where it was pointed at itself"""
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
    """name and batches"""
    words: tuple[str, ...]
    """codes of what was found, the worse first; none where all is well"""
    unread: tuple[Unread, ...] = ()
    """offsets between sound batches that no sound batch has, with the times around them; the first of them"""

    @property
    def name(self) -> str:
        """Topic and number."""
        return self.topic if self.number is None else f"{self.topic}-{self.number}"


class TopicFacts(Struct, frozen=True):
    """What the partitions of a topic hold together, copies included."""

    name: str
    partitions: int
    size: int
    records: int
    first_timestamp: int | None
    last_timestamp: int | None


class Directory(Struct, frozen=True):
    """One log directory, as its own files tell."""

    path: str
    cluster_id: str | None
    node_id: int | None
    clean_shutdown: bool
    partitions: int
    size: int
    broker: str | None
    """what a broker would make of it, in a word; None where that was not asked"""
    standing: Standing
    """what an operator should know first"""


class Damage(Struct, frozen=True):
    """A finding with what stands at its place."""

    finding: Finding
    around: AnnotatedBytes | None
    count: int = 1
    """findings of this code in this file that it stands for"""


class Planned(Struct, frozen=True):
    """What `plan` says of one log directory."""

    path: str
    """as it was given"""
    root: str
    """the log directory"""
    forecast: BrokerForecast | None = None
    """None where there is no plan"""
    problem: KafkaLogError | None = None
    """why there is none"""
    refusal: str | None = None
    files: int = 0
    """that would change"""
    partitions: int = 0
    """that the plan is about"""
    is_worth_a_look: bool = True
    choice: RecoveryChoice = msgspec.field(default_factory=RecoveryChoice)
    declined: Mapping[str, str] = {}
    deleted: str | None = None
    asked_for: tuple[str, ...] = ()
    """partition directories, where the plan is for some alone"""
    changing: tuple[str, ...] = ()
    """partition directories in which the plan would change something"""
    damages: Sequence[Finding] = ()
    """places in logs that are damaged; their files are relative to `root`"""
    consequences: Sequence[LossConsequence] = ()
    """what follows for others from where the plan leaves the ends of logs"""
    waits_for_a_run: bool = False
    """a run that was cut short comes first"""
    identity_in: tuple[str, ...] = ()
    """all log directories of the broker, where this one has lost its `meta.properties` and another says whose it is"""

    metadata_beside: str | None = None
    """the metadata log that the plan relies on, if it is in another log directory of the broker"""

    @property
    def is_choice(self) -> bool:
        """Something is lost, or may be, with one of the ways."""
        return any(each.measured.may_lose for each in self.choice.ways)


class Examined(Struct, frozen=True):
    """All that was counted while segments were walked over."""

    partitions: tuple[PartitionFacts, ...]
    topics: tuple[TopicFacts, ...]
    maps: tuple[tuple[PartitionFacts, SegmentMap], ...]
    """segments that are drawn: those with damage first"""
    clean_not_drawn: int
    damaged_not_drawn: int
    damaged_segments: int
    """in which something is not sound; what comes after damage alone does not count"""
    damaged_partitions: int
    segments: int
    size: int
    records: int
    series: Series | None

    @property
    def clean_partitions(self) -> int:
        """In which nothing was found."""
        return sum(not each.words for each in self.partitions)


class ReportFacts(Struct, frozen=True):
    """Everything that a report says."""

    paths: tuple[str, ...]
    version: str
    made_at: int
    """ms since 1970"""
    arguments: tuple[str, ...]
    """what was asked for besides the paths"""
    directories: tuple[Directory, ...]
    examined: Examined
    findings: Sequence[Finding]
    """more than information"""
    damages: tuple[Damage, ...]
    informations: int
    """findings that are information only"""
    behind_damage: int
    """records that no consumer gets to, of those that were counted"""
    planned: tuple[Planned, ...]
    comparison: Comparison | None
    comparison_problem: KafkaLogError | None
    runs: tuple[tuple[str, tuple[RunInfo, ...]], ...]
    """by log directory"""
    deep: bool
    unread: tuple[str, ...] = msgspec.field(default=())
    """what could not be examined, and why"""

    @property
    def errors(self) -> list[Finding]:
        """Findings that are errors."""
        return [each for each in self.findings if each.severity is Severity.ERROR]

    @property
    def copies_differ(self) -> bool:
        """Copies of a partition are not equal and complete."""
        return self.comparison is not None and not self.comparison.is_clean

    @property
    def unfinished_runs(self) -> int:
        """Recoveries that were cut short."""
        return sum(run.is_unfinished for _root, runs in self.runs for run in runs)
