"""Power cuts of real clusters: the elections that follow, and where the logs then end, are those that triage foresees.

``KAFKALOG_TRIAGE_CUTS`` sets how many cuts there are, ``KAFKALOG_INTEROP_SEED`` which.  ``dev.py trials --cuts 100``
makes more of them, with new seeds.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.power_cuts import Counts, run_cuts, run_lost_disk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.interop
@pytest.mark.parametrize(
    ("version", "elr"), [("4.4.0", 1), ("4.3.0", 0), ("4.1.0", 1), ("3.9.1", None), ("2.8.2", None)]
)
def test_elections_after_a_power_cut_are_those_foreseen(
    version: str, elr: int | None, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    found = Counts()
    with kafka_needed():
        seed = os.environ.get("KAFKALOG_INTEROP_SEED", "triage")
        run_cuts(version, elr, seed, int(os.environ.get("KAFKALOG_TRIAGE_CUTS", "2")), tmp_path, found)
    print(found)
    compared(f"cuts of clusters of Kafka {version}", found.cuts)
    compared("partitions whose leader after a power cut was foreseen", found.elections)
    compared("log ends after following, as foreseen", found.ends)
    assert found.shortened


@pytest.mark.interop
@pytest.mark.parametrize(("version", "elr"), [("4.4.0", 1), ("4.3.0", 0), ("2.8.2", None)])
def test_where_a_disk_is_gone_the_election_that_is_advised_gives_a_leader(
    version: str, elr: int | None, tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    found = Counts()
    with kafka_needed():
        run_lost_disk(version, elr, tmp_path, found)
    compared(f"unclean elections as advised by triage, of Kafka {version}", found.elections)
