"""An empty log file gives a log its start and its end, with every release: so it keeps them if it was deleted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.recorded.broker_dirs import brokers

pytestmark = pytest.mark.interop
EMPTIED = "alerts-2-0"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.1.0", "4.4.0"])
def test_an_empty_file_keeps_the_end_of_a_log(version: str, is_clean: bool, tmp_path: Path) -> None:
    recorded = brokers("4.1.1/metadata")[0]
    ends = {}
    with KafkaOracle(version) as kafka:
        for kept in (True, False):
            root = tmp_path / str(kept)
            root.mkdir()
            shutil.copytree(recorded / EMPTIED, root / EMPTIED)
            for path in recorded.glob("*"):
                if path.is_file() and (is_clean or path.name != ".kafka_cleanshutdown"):
                    shutil.copy(path, root)
            for path in (root / EMPTIED).iterdir():
                if not path.stat().st_size and not (kept and path.suffix == ".log"):
                    path.unlink()
            kafka.recover(root)
            ends[kept] = [int(log.stem) for log in (root / EMPTIED).glob("*.log")]
    assert ends == {True: [5], False: [0]}
