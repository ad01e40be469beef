"""Foresee that a file system has too little space for a plan, or for the start of a node."""

from __future__ import annotations

import os

from kafkalog.codec.common.errors import RecoveryRefused, StorageError
from kafkalog.recovery.act.quarantine import Runs
from kafkalog.recovery.act.runner import refuse_full_place
from kafkalog.recovery.act.space import refuse_if_full, written_bytes
from kafkalog.recovery.decide.plan import Plan

__all__ = ["has_no_room_to_start", "why_no_room"]


def why_no_room(plan: Plan) -> RecoveryRefused | None:
    """Return the error with which a recovery would refuse `plan` for lack of space, or for a damaged pointer file or
    document in a quarantine. None if there is enough space, if a file system cannot be examined, or if the plan changes
    nothing.
    """
    if not plan.changes:
        return None
    quarantine = None if plan.request is None else plan.request.quarantine
    try:
        refuse_full_place(Runs(plan.root, None if quarantine is None else os.fspath(quarantine)), plan)
    except StorageError:
        return None
    except RecoveryRefused as error:
        return error
    return None


def has_no_room_to_start(plan: Plan) -> bool:
    """Whether the file system of the log directory is full, or has no space for the files that the plan writes. A start
    writes them too. False if it cannot be examined.
    """
    try:
        refuse_if_full(plan.root, [*written_bytes(plan), 1], "a start")
    except StorageError:
        return False
    except RecoveryRefused:
        return True
    return False
