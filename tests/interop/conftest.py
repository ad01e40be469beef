"""What tests with real clusters share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.quorum_trials import Setting, Stage, set_stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Setting], Stage]:
    """A killed cluster for each setting, made when it is first asked for."""
    made: dict[Setting, Stage] = {}

    def of(setting: Setting) -> Stage:
        if setting not in made:
            with kafka_needed():
                made[setting] = set_stage(setting, tmp_path_factory.mktemp("quorum") / "base")
        return made[setting]

    return of
