"""Controllers that are lost or have moved, brought back by what the pages say; brokers and clients go on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from testkit.kafka.kafka_oracle import Json
from testkit.kafka.nights import VERSION, type_page
from testkit.kafka.quorum_trials import Setting, Stage, Trial, run_trial
from testkit.kafka.real_quorum import RealQuorum

pytestmark = pytest.mark.interop
ONE, TWO = Setting(VERSION, 1), Setting(VERSION, 2)
NIGHTS = {
    "lost-controllers": Trial(ONE, "majority", damage="torn"),
    "moved-controllers": Trial(ONE, "endpoints"),
    "no-controller": Trial(ONE, "controllers"),
    "one-broker-left": Trial(TWO, "brokers", rf=2),
}
MADE = {"--into controller": "--into node-9", "controller-9:9093": "9"}
INSTEAD: Mapping[str, Mapping[str, str]] = {
    "lost-controllers": {},
    "moved-controllers": {f"controller-{node}:9093": str(node) for node in (1, 2, 3)},
    "no-controller": {**MADE, "show controller": "show node-9", "verify controller": "verify node-9"},
    "one-broker-left": {**MADE, "show controller": "show node-9", "verify controller": "verify node-9",
                        "metadata controller": "metadata node-9"},
}  # fmt: skip
"""Other words than the page's; a number stands for where that node listens."""


@pytest.mark.parametrize("page", NIGHTS)
def test_a_cluster_without_its_controllers(
    page: str, stage: Callable[[Setting], Stage], tmp_path: Path, compared: Callable[[str, int], None]
) -> None:
    def by_page(quorum: RealQuorum) -> Json:
        words = INSTEAD[page].items()
        type_page(page, quorum.directory, {
            word: quorum.endpoint(int(other)) if other.isdecimal() else other for word, other in words
        })  # fmt: skip
        return {}

    told = run_trial(NIGHTS[page], stage(NIGHTS[page].setting), tmp_path / "trial", by_page)
    assert told["records"] == 30
    compared("records that a consumer reads again after a page about lost controllers", told["records"])
