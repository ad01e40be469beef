"""What becomes of each directory of a quorum, and what an operator has to do besides."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kafkalog.cluster.kraft.quorum import KnownVoter, Quorum
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.kraft import VoterNode
from kafkalog.jobs.quorum.expiry import Expiry
from kafkalog.jobs.quorum.metadata_tree import NewMetadata
from kafkalog.jobs.quorum.request import QuorumRecovery
from kafkalog.jobs.quorum.voters import QuorumMember
from kafkalog.recovery.decide.actions import RecoveryAction
from kafkalog.recovery.facts.survey import Survey

__all__ = ["MODE", "DirectoryChange", "QuorumPlan"]

MODE = "quorum"


@dataclass(slots=True)
class DirectoryChange:
    """What is done to one controller's directory."""

    root: str
    node: int
    survey: Survey = field(repr=False)
    actions: list[RecoveryAction]
    end_before: int
    mode: str = MODE


@dataclass(slots=True)
class QuorumPlan:
    """Everything that would be done, and what an operator must know before it is."""

    wanted: QuorumRecovery
    quorum: Quorum
    donor: QuorumLog
    """whose log all of the new quorum get"""
    members: tuple[QuorumMember, ...]
    voters: tuple[VoterNode, ...]
    """those of the new voters record; none with static voters"""
    others: tuple[KnownVoter, ...]
    """old voters who must never start again with their disks"""
    epoch: int
    metadata: NewMetadata
    changes: list[DirectoryChange]
    donor_survey: Survey = field(repr=False)
    configuration: list[tuple[str, list[str]]] = field(default_factory=list)
    """for whom, and the lines of their properties"""
    warnings: list[str] = field(default_factory=list)
    expiry: list[Expiry] = field(default_factory=list)
    """what brokers would delete at their first start"""
    identity: tuple[int, str] | None = None
    """node and directory id of the controller that is made of a broker's copy"""
    needless: str | None = None
    """why nothing has to be done"""

    @property
    def stay_dead(self) -> list[str]:
        """The nodes that must never start again, in words.

        Of a node that goes on the disk with another directory id.
        """
        kept = {each.node for each in self.members}
        return [
            f"{each.node} on the disk with directory.id {each.directory_id}" if each.node in kept else str(each.node)
            for each in self.others
        ]

    @property
    def is_static(self) -> bool:
        """The voters will be those in the configuration."""
        return not self.voters

    @property
    def changes_anything(self) -> bool:
        """Whether anything is to be done."""
        return self.identity is not None or any(each.actions for each in self.changes)

    def close(self) -> None:
        """Close the files that the surveys have open."""
        self.donor_survey.close()
        for each in self.changes:
            each.survey.close()

    def first_change(self, other: QuorumPlan) -> str | None:
        """The first path that a later plan sees otherwise."""
        mine, its = (
            {plan.donor.root: plan.donor_survey, **{each.root: each.survey for each in plan.changes}}
            for plan in (self, other)
        )
        if mine.keys() != its.keys():
            return next(iter(mine.keys() ^ its.keys()))
        for root, found in mine.items():
            changed = found.first_change(its[root])
            if changed is not None:
                return os.path.join(root, changed)
        return None
