"""Build the JSON structure of a way of recovering: `WayJson`, with the mode and options of the recovery that carries it
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from kafkalog.recovery.decide.ways import LostRange, RecoveryRequest, RecoveryWay
from kafkalog.recovery.modes.table import WAYS, Mode

if TYPE_CHECKING:
    WayText = str
else:
    WayText = Literal[tuple(WAYS)]

__all__ = ["RequestJson", "RestJson", "WayFields", "WayJson", "way_json"]


class RequestJson(Struct, frozen=True, kw_only=True):
    """Mode and options of the recovery that takes a way, under the names that `recover` has for them."""

    mode: Mode
    """the mode"""
    repair_bits: str | None
    """least proof for turning a flipped bit back; null: never"""
    full: bool
    """segments below the recovery point too, if that was not asked for"""
    copies: tuple[str, ...]
    """directories that hold other copies, if the way takes from them"""


class RestJson(RequestJson, frozen=True, kw_only=True):
    """The recovery of all other partitions, after a way that is applied to one partition at a time."""

    needs_consent: bool
    """records go by it that could still be read"""


class WayFields(Struct, frozen=True, kw_only=True):
    """One way to recover a directory or partition, and what it keeps and loses."""

    way: WayText
    """which way"""
    records_kept: int | None
    """records that a consumer reads afterwards; null if unknown"""
    records_kept_is_exact: bool
    """false if other brokers have some of these records, and how many is only known from offsets"""
    records_hidden: int
    """of those kept, records that a consumer passes over: after ones with higher offsets, above the log's end, or at
    offsets where an empty segment begins
    """
    records_lost: int | None
    """records that are lost; null if unknown"""
    records_lost_is_exact: bool
    """false if damage hides how many there were, or if this is the most that can be lost, because another replica may
    have some of them
    """
    sound_records_lost: int
    """of those lost, records that can still be read now"""
    sound_markers_lost: int
    """sound transaction markers that go"""
    damaged_markers: int
    """transaction markers that were lost to damage"""
    records_from_copies: int
    """of those kept, records at offsets that this log lacks although nothing of it is damaged, and that other copies
    have
    """
    epoch_falls: int
    """places where the leader epoch falls"""
    bytes_cut: int | None
    """bytes of logs that are removed; null if unknown"""
    damage_left: int
    """places in the logs that stay unreadable"""
    offsets_lost: list[LostRange] | None
    """which offsets; null if unknown"""
    below_high_watermark: bool | None
    """committed records are lost: true if something is lost below the high watermark in the checkpoint, false if no
    record is lost, null if it is unknown, because the checkpoint is older than the log or is missing
    """
    how: object
    partitions: tuple[str, ...]
    """partition directories that `how` is for, each by itself; empty if it is for all"""
    rest: object
    needs_consent: object
    leaders: object
    consequence: str
    """what follows from it, in plain words"""
    refusal: str | None
    """why `recover` declines this way; null if it does not"""


class WayJson(WayFields, frozen=True, kw_only=True):
    """One way to recover a directory or partition, for programs."""

    how: RequestJson | None
    """the recovery that takes it; null if none does"""
    rest: RestJson | None
    """the recovery of all other partitions, which comes after that; null if `how` is for all"""
    needs_consent: bool
    """records go by `how` that could still be read"""
    leaders: tuple[int, ...]
    """brokers of which one has to lead before this one starts"""


def way_json(way: RecoveryWay) -> WayJson:
    """Return the JSON structure of one way of recovering. `offsets_lost` is None if the number of lost records is
    unknown; `how` is None if no recovery carries the way out. `rest` is None if the way has none, or if no recovery
    carries it out.
    """
    measured = way.measured
    return WayJson(
        way=way.way,
        records_kept=measured.records_kept,
        records_kept_is_exact=measured.records_kept is not None and not measured.is_kept_estimate,
        records_hidden=measured.records_hidden,
        records_lost=measured.records_lost,
        records_lost_is_exact=measured.is_exact and measured.records_lost is not None,
        sound_records_lost=measured.sound_lost,
        sound_markers_lost=measured.markers_lost,
        damaged_markers=measured.markers_damaged,
        records_from_copies=measured.from_copies,
        epoch_falls=measured.epoch_falls,
        bytes_cut=measured.bytes_cut,
        damage_left=measured.damage_left,
        offsets_lost=None if measured.records_lost is None else measured.lost,
        below_high_watermark=measured.below_high_watermark,
        how=None if way.how is None else RequestJson(**_options(way.how)),
        partitions=way.partitions,
        rest=None if way.rest is None or way.rest.how is None
        else RestJson(**_options(way.rest.how), needs_consent=way.rest.needs_consent),
        needs_consent=way.needs_consent,
        leaders=way.leaders,
        consequence=way.consequence,
        refusal=way.refusal,
    )


def _options(request: RecoveryRequest) -> dict[str, Any]:
    proof = None if request.proof is None else request.proof.name.lower()
    return {"mode": request.mode, "repair_bits": proof, "full": request.full, "copies": request.copies}
