"""Recovery: decide purely, act under lock and journal, destroy nothing, be stoppable anywhere and undoable."""

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.recovery.compare import compare
from kafkalog.recovery.comparison import Comparison
from kafkalog.recovery.merge import merge_directories, merge_preview, merge_replicas
from kafkalog.recovery.merge_result import MergedDirectory, MergeResult
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.plan import Plan
from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo

__all__ = [
    "Comparison",
    "MergeResult",
    "MergedDirectory",
    "Mode",
    "Plan",
    "RecoveryResult",
    "UndoResult",
    "compare",
    "merge_directories",
    "merge_preview",
    "merge_replicas",
    "plan",
    "recover",
    "undo",
]
