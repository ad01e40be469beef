"""Session-wide checks: no test runs on fixtures that are missing or changed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

_FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
_SPARK_TESTS = Path(__file__).resolve().parent / "spark"
_SHOWN = 5


def fixture_problems(root: Path) -> list[str]:
    """Return what is wrong below ``root``, as its own check.py sees it."""
    program = root / "check.py"
    if not program.is_file():
        return ["fixtures/check.py is missing"]
    problems: list[str] = runpy.run_path(str(program))["check"](root)
    return problems


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fail the whole session with one sentence when a fixture is not what the manifest says."""
    if hasattr(session.config, "workerinput"):  # xdist: the controller has looked already
        return
    problems = fixture_problems(_FIXTURES)
    if problems:
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise pytest.UsageError(
            "the fixtures are not what fixtures/MANIFEST.sha256 lists, so no test result would mean anything: "
            + "; ".join(problems[:_SHOWN])
            + more
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Java before ``-m`` selects: a machine without it deselects by ``-m "not java"``."""
    for item in items:
        if _SPARK_TESTS in item.path.parents:
            item.add_marker(pytest.mark.java)
