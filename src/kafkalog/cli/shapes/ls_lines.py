"""Types of the lines of `kafkalog ls --json`."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.files.text import LeaderEpochJson
from kafkalog.codec.plain.insides import Insides
from kafkalog.log.walk.summary import SegmentLine
from kafkalog.recovery.act.unfinished_business import StandingJson
from kafkalog.tiers.tiering import TieringJson

__all__ = ["DeletedSegmentLine", "LsLine", "PartitionLine"]


class DeletedSegmentLine(Struct, frozen=True, kw_only=True):
    """One segment that waits for its deletion (`.deleted`)."""

    base_offset: int
    """base offset, from the name of the log file"""
    path: str
    """path of the log file"""
    bytes: int
    """size of the log file, in bytes"""


class PartitionLine(Struct, frozen=True, kw_only=True):
    """One partition directory."""

    path: str
    """path of the partition directory"""
    topic: str | None
    """topic, from the directory's name; null if the name does not contain it"""
    partition: int | None
    """partition number, from the directory's name; null if the name does not contain it"""
    state: str
    """`live`, `delete`, `future` or `stray`, from the suffix of the directory's name"""
    topic_id: str | None
    """topic id from partition.metadata; null if unknown"""
    log_start_offset: int
    """log start offset: first offset that consumers can read, from the local or the remote tier"""
    tiering: TieringJson | None
    """start of the local part of a tiered log; null if nothing shows that the log is tiered"""
    log_end_offset: int | None
    """log end offset: offset of the next record, without batches after damage; null if the log could not be read"""
    first_offset: int | None
    """first offset of the first valid batch (inclusive); null if none"""
    last_offset: int | None
    """last offset of the last valid batch (inclusive), without batches after damage in its segment; null if none"""
    first_timestamp: int | None
    """smallest timestamp of a valid batch's first record, in ms since 1970; null if no batch has a timestamp"""
    last_timestamp: int | None
    """largest timestamp in the valid batches, in ms since 1970; null if no batch has a timestamp"""
    high_watermark: int | None
    """high watermark from replication-offset-checkpoint; null if the checkpoint has no entry"""
    recovery_point: int | None
    """recovery point from recovery-point-offset-checkpoint; null if the checkpoint has no entry"""
    bytes: int
    """total size of the partition's segments (log files only), in bytes"""
    codecs: dict[str, int]
    """number of valid batches by compression codec"""
    health: str
    """`ok`, or the kinds of damage and the codes of warnings and errors, separated by commas"""
    insides: Insides = Insides.NOT_EXAMINED
    """whether the records in the batches can be decoded; always `not_examined`, because `ls` does not decode them"""
    sound_batches_behind_damage: int
    """number of sound batches after the first damage, which consumers do not reach"""
    sound_records_behind_damage: int
    """number of records, without control records, in the sound batches after the first damage"""
    leader_epochs: list[LeaderEpochJson]
    """entries of leader-epoch-checkpoint; empty if none"""
    segments: list[SegmentLine]
    """segments, by base offset"""
    unfinished_files: tuple[str, ...]
    """paths of files of unfinished operations: `.deleted`, `.cleaned`, `.swap`, `.tmp` and unfinished snapshots"""
    deleted_segments: list[DeletedSegmentLine]
    """segments that wait for their deletion: log files with the suffix `.deleted`"""


class LsLine(Struct, frozen=True, kw_only=True):
    """One line for each log directory, and for each given path that is a partition directory, a segment or cannot be
    read.
    """

    path: str
    """path of the log directory, of the partition directory or segment, or of a file or directory that cannot be read
    """
    clean_shutdown: bool | None
    """whether the log directory has a clean-shutdown marker; null for other paths"""
    cluster_id: str | None
    """cluster id from meta.properties; null if unknown"""
    node_id: int | None
    """broker or node id from meta.properties; null if unknown"""
    directory_id: str | None
    """directory id from meta.properties; null if unknown"""
    standing: StandingJson | None
    """unfinished runs, undoable run and lock of the log directory; null for other paths"""
    findings: list[FindingJson]
    """findings about the path and all its partitions"""
    partitions: list[PartitionLine]
    """partition directories; empty if none"""
