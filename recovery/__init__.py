"""Recovery: what is wrong with a log directory, what the broker would do, what kafkalog does, and how to undo it."""

from typing import TYPE_CHECKING

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.codec.lazily import lazily
from kafkalog.recovery.modes import Mode
from kafkalog.recovery.plan import Plan
from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo

if TYPE_CHECKING:
    from kafkalog.recovery.compaction import CompactedPartition, Compaction
    from kafkalog.recovery.compaction_run import CompactionResult, compact, plan_compaction
    from kafkalog.recovery.comparison import Comparison
    from kafkalog.recovery.history import RunInfo, RunState, runs
    from kafkalog.recovery.merge import merge_directories, merge_replicas
    from kafkalog.recovery.merge_result import MergedDirectory, MergeResult
    from kafkalog.recovery.preview import merge_preview
    from kafkalog.recovery.purging import PurgeResult, purge
    from kafkalog.recovery.remains import Remains, RemainsKind, deleted
    from kafkalog.recovery.taking_out import TakenOut, undelete_into
    from kafkalog.recovery.undeletion import UndeleteResult, Undeletion, plan_undelete, undelete

_HOMES = {
    "compaction": ("CompactedPartition", "Compaction"),
    "compaction_run": ("CompactionResult", "compact", "plan_compaction"),
    "comparison": ("Comparison",),
    "history": ("RunInfo", "RunState", "runs"),
    "merge": ("merge_directories", "merge_replicas"),
    "preview": ("merge_preview",),
    "merge_result": ("MergeResult", "MergedDirectory"),
    "purging": ("PurgeResult", "purge"),
    "remains": ("Remains", "RemainsKind", "deleted"),
    "taking_out": ("TakenOut", "undelete_into"),
    "undeletion": ("UndeleteResult", "Undeletion", "plan_undelete", "undelete"),
}
"""Module -> names that are imported when somebody asks for them: most who examine a directory need none."""

__all__ = [
    "CompactedPartition",
    "Compaction",
    "CompactionResult",
    "Comparison",
    "MergeResult",
    "MergedDirectory",
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
    "compact",
    "deleted",
    "merge_directories",
    "merge_preview",
    "merge_replicas",
    "plan",
    "plan_compaction",
    "plan_undelete",
    "purge",
    "recover",
    "runs",
    "undelete",
    "undelete_into",
    "undo",
]

__getattr__ = lazily(__name__, _HOMES)
