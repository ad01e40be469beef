"""Define the plan for a quorum: the change of each directory, and the steps that are left to an operator."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from kafkalog.cluster.kraft.quorum import KnownVoter, Quorum
from kafkalog.cluster.kraft.quorum_log import QuorumLog
from kafkalog.codec.files.kraft import VoterNode
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
    """Change of one controller's directory."""

    root: str
    node: int
    survey: Survey = field(repr=False)
    actions: list[RecoveryAction]
    end_before: int
    mode: str = MODE


@dataclass(slots=True)
class QuorumPlan:
    """The changes for a quorum, and the facts that an operator must know before they are made."""

    wanted: QuorumRecovery
    quorum: Quorum
    donor: QuorumLog
    """the log that all members of the new quorum get"""
    members: tuple[QuorumMember, ...]
    voters: tuple[VoterNode, ...]
    """entries of the new voters record; empty with static voters"""
    others: tuple[KnownVoter, ...]
    """old voters that must never start again with their disks"""
    epoch: int
    metadata: NewMetadata
    changes: list[DirectoryChange]
    donor_survey: Survey = field(repr=False)
    configuration: list[tuple[str, list[str]]] = field(default_factory=list)
    """description of nodes, and the lines to set in their server.properties"""
    warnings: list[str] = field(default_factory=list)
    expiry: list[Expiry] = field(default_factory=list)
    """data that brokers would delete at their first start"""
    identity: tuple[int, str] | None = None
    """node id and directory id of the controller that is made from a broker's copy; None if there is none"""
    needless: str | None = None
    """why nothing has to be done; None if something has"""
    request: QuorumRecovery | None = None
    """what it was made for, before its times were set"""

    @property
    def stay_dead(self) -> list[str]:
        """Node ids of the nodes that must never start again, as texts. If the node is in the new quorum too, only its
        old disk must never start, and the text also names this disk's directory id.
        """
        kept = {member.node for member in self.members}
        return [
            f"{node.node} on the disk with directory.id {node.directory_id}" if node.node in kept else str(node.node)
            for node in self.others
        ]

    @property
    def is_static(self) -> bool:
        """Whether the voters will be those in the configuration."""
        return not self.voters

    @property
    def changes_anything(self) -> bool:
        """Whether anything is to be done."""
        return self.identity is not None or any(change.actions for change in self.changes)

    def close(self) -> None:
        """Close the surveys' open files."""
        self.donor_survey.close()
        for change in self.changes:
            change.survey.close()

    def first_change(self, other: QuorumPlan) -> str | None:
        """Return the first path that differs between this plan's surveys and those of the later plan `other`, as an
        absolute path; None if nothing has changed. If only one of the plans has a directory, such a directory is
        returned.
        """
        mine, its = (
            {plan.donor.root: plan.donor_survey, **{change.root: change.survey for change in plan.changes}}
            for plan in (self, other)
        )
        if mine.keys() != its.keys():
            return next(iter(mine.keys() ^ its.keys()))
        for root, survey in mine.items():
            changed = survey.first_change(its[root])
            if changed is not None:
                return os.path.join(root, changed)
        return None
