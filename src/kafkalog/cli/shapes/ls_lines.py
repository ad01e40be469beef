"""Lines of `kafkalog ls`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.findings import FindingJson, StopReason
from kafkalog.codec.insides import Insides
from kafkalog.codec.text import LeaderEpochJson
from kafkalog.recovery.act.unfinished_business import StandingJson
from kafkalog.tiers.tiering import TieringJson

__all__ = ["DeletedSegmentLine", "LsLine", "PartitionLine", "SegmentLine"]


class SegmentLine(Struct, frozen=True, kw_only=True):
    """A segment."""

    base_offset: int
    """the offset in its name"""
    path: str
    """its log"""
    bytes: int
    """of the log"""
    valid_bytes: int
    """up to the first damage"""
    stop: StopReason
    """why reading ended"""
    batches: int
    """up to there"""
    sound_batches_behind_damage: int
    """batches after it"""
    sound_records_behind_damage: int
    """records in them"""
    first_offset: int | None
    """null if there are no batches"""
    last_offset: int | None
    """null if there are no batches"""
    first_timestamp: int | None
    """in ms since 1970; null if there are no batches"""
    last_timestamp: int | None
    """in ms since 1970; null if there are no batches"""
    codecs: dict[str, int]
    """compression, and how many batches have it"""
    magics: dict[str, int]
    """message format, and how many batches have it"""
    files: dict[str, int]
    """suffix, and bytes of each file of the segment"""


class DeletedSegmentLine(Struct, frozen=True, kw_only=True):
    """A segment whose deletion was under way."""

    base_offset: int
    """the offset in its name"""
    path: str
    """its log"""
    bytes: int
    """of the log"""


class PartitionLine(Struct, frozen=True, kw_only=True):
    """A partition directory."""

    path: str
    """the partition directory"""
    topic: str | None
    """null if the directory's name does not give it"""
    partition: int | None
    """its number; null if the directory's name does not give it"""
    state: str
    """`live`, `delete`, `future` or `stray`, from the suffix of the directory's name"""
    topic_id: str | None
    """of partition.metadata; null if there is none"""
    log_start_offset: int
    """the first offset that a consumer is given; of a tiered log in whichever tier it is"""
    tiering: TieringJson | None
    """null if the log is not tiered, as far as is known"""
    log_end_offset: int | None
    """the offset that the next record would get; null if it could not be read"""
    first_offset: int | None
    """of the first batch; null if there is none"""
    last_offset: int | None
    """of the last batch; null if there is none"""
    first_timestamp: int | None
    """the smallest, in ms since 1970; null if there are no batches"""
    last_timestamp: int | None
    """the largest, in ms since 1970; null if there are no batches"""
    high_watermark: int | None
    """of replication-offset-checkpoint; null if it has none"""
    recovery_point: int | None
    """of recovery-point-offset-checkpoint; null if it has none"""
    bytes: int
    """of its logs"""
    codecs: dict[str, int]
    """compression, and how many batches have it"""
    health: str
    """`ok`, or in words what was found"""
    insides: Insides = Insides.NOT_EXAMINED
    """whether the records in the batches can be read: `ls` does not open them, so `not_examined`"""
    sound_batches_behind_damage: int
    """batches that no consumer reaches"""
    sound_records_behind_damage: int
    """records in them"""
    leader_epochs: list[LeaderEpochJson]
    """of leader-epoch-checkpoint"""
    segments: list[SegmentLine]
    """segment by segment"""
    unfinished_files: tuple[str, ...]
    """.cleaned and .swap files"""
    deleted_segments: list[DeletedSegmentLine]
    """.deleted files of logs"""


class LsLine(Struct, frozen=True, kw_only=True):
    """One line for each log directory, or for the given path itself: a partition directory, a segment, a path that
    cannot be read.
    """

    path: str
    """the log directory, partition directory or segment"""
    clean_shutdown: bool | None
    """there is a clean-shutdown marker; null for anything but a log directory"""
    cluster_id: str | None
    """of meta.properties; null if not given"""
    node_id: int | None
    """the broker's id in meta.properties; null if not given"""
    directory_id: str | None
    """of meta.properties; null if not given"""
    standing: StandingJson | None
    """what to know before acting; null for anything but a log directory"""
    findings: list[FindingJson]
    """of the directory and its partitions"""
    partitions: list[PartitionLine]
    """partition by partition"""
