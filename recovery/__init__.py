"""Recovery: decide purely, act under lock and journal, destroy nothing, be stoppable anywhere and undoable."""

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.recovery.history import RunInfo, RunState, runs
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.plan import Plan
from kafkalog.recovery.purging import PurgeResult, purge
from kafkalog.recovery.remains import Remains, RemainsKind, deleted
from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo
from kafkalog.recovery.taking_out import TakenOut, undelete_into
from kafkalog.recovery.undeletion import UndeleteResult, Undeletion, plan_undelete, undelete

__all__ = [
    "Mode",
    "Plan",
    "PurgeResult",
    "RecoveryResult",
    "Remains",
    "RemainsKind",
    "RunInfo",
    "RunState",
    "TakenOut",
    "UndeleteResult",
    "Undeletion",
    "UndoResult",
    "deleted",
    "plan",
    "plan_undelete",
    "purge",
    "recover",
    "runs",
    "undelete",
    "undelete_into",
    "undo",
]
