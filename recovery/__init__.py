"""Recovery: decide purely, act under lock and journal, destroy nothing, be stoppable anywhere and undoable."""

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.recovery.history import RunInfo, RunState, runs
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.plan import Plan
from kafkalog.recovery.purging import PurgeResult, purge
from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo

__all__ = [
    "Mode",
    "Plan",
    "PurgeResult",
    "RecoveryResult",
    "RunInfo",
    "RunState",
    "UndoResult",
    "plan",
    "purge",
    "recover",
    "runs",
    "undo",
]
