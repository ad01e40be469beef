"""Recovery: what is wrong with a log directory, what the broker would do, what kafkalog does, and how to undo it."""

from typing import TYPE_CHECKING

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.codec.lazily import lazily
from kafkalog.recovery.decide.plan import Plan
from kafkalog.recovery.facts.modes import Mode
from kafkalog.recovery.run import RecoveryResult, UndoResult, plan, recover, undo

if TYPE_CHECKING:
    from kafkalog.recovery.act.history import RunInfo, RunState, runs
    from kafkalog.recovery.act.purging import PurgeResult, purge
    from kafkalog.recovery.compaction.cleaning import CompactedPartition, Compaction
    from kafkalog.recovery.compaction.run import CompactionResult, compact, plan_compaction
    from kafkalog.recovery.copies.comparison import Comparison
    from kafkalog.recovery.copies.merge_result import MergedDirectory, MergeResult
    from kafkalog.recovery.copies.preview import merge_preview
    from kafkalog.recovery.merging.merge import merge_directories, merge_replicas
    from kafkalog.recovery.undeleting.remains import Remains, RemainsKind, deleted
    from kafkalog.recovery.undeleting.taking_out import TakenOut, undelete_into
    from kafkalog.recovery.undeleting.undeletion import UndeleteResult, Undeletion, plan_undelete, undelete

_HOMES = {
    "compaction.cleaning": ("CompactedPartition", "Compaction"),
    "compaction.run": ("CompactionResult", "compact", "plan_compaction"),
    "copies.comparison": ("Comparison",),
    "act.history": ("RunInfo", "RunState", "runs"),
    "merging.merge": ("merge_directories", "merge_replicas"),
    "copies.preview": ("merge_preview",),
    "copies.merge_result": ("MergeResult", "MergedDirectory"),
    "act.purging": ("PurgeResult", "purge"),
    "undeleting.remains": ("Remains", "RemainsKind", "deleted"),
    "undeleting.taking_out": ("TakenOut", "undelete_into"),
    "undeleting.undeletion": ("UndeleteResult", "Undeletion", "plan_undelete", "undelete"),
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
