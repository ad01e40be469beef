"""What a command did before it ended: the execution that it names for a log directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.cli.interrupt import Happened, Interrupted, interruptible
from kafkalog.recovery.act.journal import UNDONE
from testkit.recorded.broker_dirs import brokers, own_copy


def test_the_newest_run_counts_in_whichever_quarantine_it_is(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    beside, other = Path(f"{root}.recovery"), tmp_path / "other"
    happened = Happened([str(root)], str(other))
    assert happened.run_in(str(root)) is None
    older, newer = "20260101T000000.000000Z-00000000", "20260102T000000.000000Z-00000000"
    for place, run in ((beside, older), (other, newer)):
        (place / run).mkdir(parents=True)
        (place / run / UNDONE).write_text("{}")
    assert happened.run_in(str(root)) == (newer, str(other / newer))
    assert happened.run_in(str(tmp_path)) is None


def test_after_an_interrupt_nothing_is_claimed_of_runs_that_cannot_be_read(tmp_path: Path) -> None:
    root = own_copy(brokers("4.1.1/segments")[0], tmp_path / "data")
    with pytest.raises(Interrupted, match=r"^interrupted; nothing was changed$"), interruptible([str(root)], None):
        raise KeyboardInterrupt
    (root / ".kafkalog-quarantine").write_text("\0 no path")
    with pytest.raises(Interrupted) as caught, interruptible([str(root)], None):
        raise KeyboardInterrupt
    assert "nothing was changed" not in str(caught.value)
    assert f"what was changed on {root} is not known" in str(caught.value)
