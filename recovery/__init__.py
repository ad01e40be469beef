"""Find the damage of a log directory, predict what the broker would do, recover the directory, and undo the recovery.

Names are imported when they are first used, so that a reader imports nothing that writes. `tests/support/lazy_names.py`
writes their table from the stub beside this file.
"""

if __name__ != "kafkalog.recovery":
    raise ImportError("this folder is kafkalog.recovery; import that name")

from kafkalog.codec.common.lazily import lazily

_NAMES = {
    ".act.history": ["RunInfo", "RunState", "runs"],
    ".act.purging": ["PurgeResult", "purge"],
    ".decide.plan": ["Plan"],
    ".facts.recovery_request": ["Recovery"],
    ".facts.run_requests": ["Purge", "Undo"],
    ".modes.table": ["Mode"],
    ".results": ["RecoveryResult"],
    ".run": ["plan", "recover"],
    ".undoing": ["UndoResult", "undo"],
}

__all__, __getattr__ = lazily(__name__, _NAMES)
