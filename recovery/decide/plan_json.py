"""Define the JSON of a plan and of the result of a recovery: `PlanJson` and `ResultJson` for programs, and the classes
that commands print as lines.

The classes that both have in common keep the order of the fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType, field

from kafkalog.codec.common.findings import FindingJson
from kafkalog.codec.plain.insides import Insides
from kafkalog.recovery.broker.node.answer import NodeStartJson
from kafkalog.recovery.decide.actions import ActionJson
from kafkalog.recovery.decide.aftermath import LossConsequence
from kafkalog.recovery.decide.ways_json import WayJson
from kafkalog.recovery.facts.topic_facts import SettingsJson
from kafkalog.recovery.modes.table import Mode

__all__ = [
    "BrokerForecastJson", "PartitionPlanFields", "PartitionPlanJson", "PlanFields", "PlanJson", "ResultFields",
    "ResultJson",
]  # fmt: skip


class BrokerForecastJson(Struct, frozen=True, kw_only=True):
    """What the broker's own start would do to the directory."""

    outcome: str | None
    """`loaded`, `start_fails` or `dir_offline`; null if it could not be predicted"""
    exception: str | None
    """the Java exception that it would log; null if there is none"""
    message: str | None
    """the message of that exception; null if there is none"""
    clean_shutdown: bool
    """it finds the clean-shutdown marker, and checks less"""
    log_end_offsets: Mapping[str, int]
    """by partition directory, the offset at which its log would end"""
    strays: tuple[str, ...]
    """partition directories that it would rename to -stray"""
    valid_records_lost: Mapping[str, int] | None
    """by partition directory, the number of sound records that the start would remove; null if unknown"""
    node: NodeStartJson | None
    """what the whole node does when it is started; null if that was not asked"""


class PartitionPlanFields(Struct, frozen=True, kw_only=True):
    """What would be, or was, done to one partition."""

    name: str
    """partition directory"""
    log_start_offset: int | None
    """the first offset afterwards"""
    log_end_offset: int | None
    """the offset at which the log ends afterwards; null for a partition that is being deleted"""
    kept_bytes: int
    """bytes of logs that stay"""
    cut_bytes: int
    """bytes of logs that are removed"""
    cut_files: list[str]
    """logs that are truncated"""
    quarantined: list[str]
    """files and directories in it that are removed completely"""
    rebuilt: list[str]
    """files that are rebuilt"""
    renamed_to: str | None
    """the new name of the directory; null if it keeps its own"""
    gaps: list[tuple[int, int]]
    """pairs of the first and last offset of ranges that are missing afterwards"""
    high_watermark: int | None
    """from the checkpoint; null if it has none"""
    is_cut_below_high_watermark: bool = field(name="below_high_watermark")
    """the log ends below it afterwards"""
    offsets_lost: tuple[int, int] | None
    """first and last offset that are lost; null if none are"""
    ways: object = ()
    recommended: str | None = None
    """the way that loses least; null if unknown"""


class PartitionPlanJson(PartitionPlanFields, frozen=True, kw_only=True):
    """What would be, or was, done to one partition, for programs."""

    ways: list[WayJson] = []
    """every possible way for this partition"""


class PlanFields(Struct, frozen=True, kw_only=True):
    """What would be done to one log directory."""

    path: str
    """the log directory"""
    mode: Mode | None = None
    """what the recovery is to keep and to remove; null if no plan could be made"""
    changes: bool = False
    """anything would be done"""
    refusal: str | None
    """why nothing would be done in this mode; null otherwise"""
    needs_consent: bool = False
    """records would be lost that can still be read: `recover` refuses without --accept-loss"""
    insides: Insides = Insides.NOT_EXAMINED
    """whether the records in the batches that are kept can be read: `not_examined`, except in mode salvage, which takes
    out what cannot"""
    deleted: str | None = None
    """a sentence, if deleted data is still on disk and nothing else holds it"""
    identity_in: object = ()
    begins: Mapping[str, int] = {}
    """partition directories of tiered logs that begin, empty, after their remote part, and the offset at which"""
    declined: Mapping[str, str] = {}
    """partition directory, and why it is left as it is"""
    consequences: tuple[LossConsequence, ...] = ()
    """what follows for others from what is lost"""
    ways: object = ()
    recommended: str | None = None
    """the way that loses least; null if unknown"""
    recommended_way: object = None
    broker: BrokerForecastJson | None = None
    """what the broker's own start would do; null if no plan could be made"""
    settings: SettingsJson | None = None
    """where settings came from; null if no plan could be made"""
    findings: list[FindingJson]
    """why logs are truncated and files are set aside"""
    partitions: object = ()
    actions: list[ActionJson] = []
    """every change of a file, in order"""


class PlanJson(PlanFields, frozen=True, kw_only=True):
    """What would be done to one log directory, for programs."""

    identity_in: tuple[str, ...] = ()
    """all log directories of the broker, if this one has lost its `meta.properties` and another says whose it is"""
    ways: list[WayJson] = []
    """every possible way for the directory"""
    recommended_way: WayJson | None = None
    """the way that loses least; null if unknown"""
    partitions: list[PartitionPlanJson] = []
    """the partitions, in order"""


class ResultFields(PlanFields, frozen=True, kw_only=True):
    """What a recovery did to one log directory."""

    changed: bool = False
    """the directory was changed"""
    run_id: str | None = None
    """the run that can be undone; null if nothing was changed"""
    quarantine: str | None = None
    """where removed bytes are kept; null if nothing was changed"""
    completed_runs: tuple[str, ...] = ()
    """earlier interrupted runs that were completed first"""
    superseded_runs: Mapping[str, str] = {}
    """run that was interrupted and set aside, and why"""
    marker_withheld: str | None = None
    """why no clean-shutdown marker was written although one was asked for; null otherwise"""
    node: NodeStartJson | UnsetType | None = UNSET
    """what the node does when it is started on the directory as it is now; null if that was not asked; absent if no
    plan could be made"""


class ResultJson(ResultFields, PlanJson, frozen=True, kw_only=True):
    """What a recovery did to one log directory, for programs."""
