"""The order in which a recovery makes things durable, read off its system calls.

Nothing in the log directory is changed before the saved bytes and the journal are on disk, but that a small file
there names the run; nothing is said to be done before it is; at the end nothing waits for a flush.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.codec.names import LOCK_FILE
from kafkalog.log.disk.pointer import POINTER
from kafkalog.recovery import Recovery, recover, undo
from kafkalog.recovery.act.journal import JOURNAL, MANIFEST, UNDOING, UNDONE
from kafkalog.recovery.act.quarantine import DOCUMENTS
from testkit.judging.trees import first_difference, stamps
from testkit.recorded.fixture_data import RecoveryCase, recovery_cases, recovery_families
from testkit.recorded.recovery_settings import given
from testkit.running.durability import Call, Watch, watching

CASES = [
    next(case for case in recovery_cases([family]) if case.outcome == "loaded" and case.case["result"]["changed"])
    for family in recovery_families()
    if any(case.outcome == "loaded" and case.case["result"]["changed"] for case in recovery_cases([family]))
]


class Order:
    """The rules, checked ahead of every change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.quarantine = root.with_name(root.name + ".recovery")
        self.changes = 0

    def __call__(self, watch: Watch, call: Call) -> None:
        if call.name == "fsync":
            return
        if call.other is not None and call.other.name in (MANIFEST, UNDONE):
            assert watch.pending(self.root) == [], f"{call}: the journal is closed too early"
        changed = [path for path in (call.path, call.other) if path is not None and path.is_relative_to(self.root)]
        if not changed:
            return
        self.changes += 1
        known = DOCUMENTS if all(path.name.startswith(POINTER) for path in changed) else (JOURNAL, UNDOING)
        journals = [path for name in known for path in self.quarantine.glob(f"*/{name}")]
        assert journals, f"{call}: there is no journal yet"
        # what an earlier step moved out is flushed on both sides before the next step begins
        assert [path for path in watch.files if path.is_relative_to(self.quarantine)] == [], f"{call}: not yet flushed"
        if call.name in ("ftruncate", "unlink"):
            assert watch.pending(self.quarantine) == [], f"{call}: saved bytes are not durable"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id.replace("/", ":"))
def test_bytes_are_durable_before_what_needs_them(
    case: RecoveryCase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: Callable[[str, int], None]
) -> None:
    root = case.unpack_before(tmp_path / "logs")
    before = stamps(root)
    order = Order(root)
    with watching(monkeypatch, order, frozenset({LOCK_FILE})) as watch:
        result = recover(Recovery(mode="kafka", accept_loss=True, **given(case)), root)[0]
    assert (order.changes > 0) is result.changed
    assert watch.pending(tmp_path) == []
    measured("changes of a recovery, each after what it needs on disk", order.changes)
    if not result.changed:
        return
    order = Order(root)
    with watching(monkeypatch, order, frozenset({LOCK_FILE})) as watch:
        undo(root)
    assert order.changes > 0
    assert watch.pending(tmp_path) == []
    assert first_difference(dict(stamps(root)), dict(before)) == ""
