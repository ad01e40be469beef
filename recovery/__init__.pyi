"""The names of this room, one line for each; `tests/support/lazy_names.py` makes the table in `__init__.py` of them."""

from kafkalog.recovery.act.history import RunInfo as RunInfo
from kafkalog.recovery.act.history import RunState as RunState
from kafkalog.recovery.act.history import runs as runs
from kafkalog.recovery.act.purging import PurgeResult as PurgeResult
from kafkalog.recovery.act.purging import purge as purge
from kafkalog.recovery.decide.plan import Plan as Plan
from kafkalog.recovery.facts.recovery_request import Recovery as Recovery
from kafkalog.recovery.facts.run_requests import Purge as Purge
from kafkalog.recovery.facts.run_requests import Undo as Undo
from kafkalog.recovery.modes.table import Mode as Mode
from kafkalog.recovery.results import RecoveryResult as RecoveryResult
from kafkalog.recovery.run import plan as plan
from kafkalog.recovery.run import recover as recover
from kafkalog.recovery.undoing import UndoResult as UndoResult
from kafkalog.recovery.undoing import undo as undo
