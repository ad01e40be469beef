"""Commits that a start removes by their age. Kafka 4.1.1 removed those of a group without members at its next check;
which groups have members is what Kafka's administrator said when the broker was recorded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.recovery import Recovery, plan
from testkit.recorded.broker_dirs import brokers
from testkit.recorded.fixture_data import broker_case
from testkit.running.command import kafkalog

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def root() -> Path:
    return brokers("4.1.1/groups")[0]


@pytest.fixture(scope="module")
def newest(root: Path) -> int:
    """Time of the newest commit, ms since 1970."""
    lines = kafkalog("offsets", "--json", root).objects
    return max(int(line["commitTimestamp"]) for line in lines)


def sentences(root: Path, at: int, **server: str) -> list[str]:
    (planned,) = plan(Recovery(at=at, server={name.replace("_", "."): value for name, value in server.items()}), root)
    return [each.detail for each in planned.consequences if each.kind == "commits_expire"]


def test_groups_without_members_lose_their_commits(root: Path, newest: int) -> None:
    groups = broker_case("4.1.1", "groups").expected("groups")
    alone = sorted(each["group"] for each in groups if each["offsets"] and not each["members"])
    assert len(alone) > 3
    assert len(alone) < len(groups)
    (said,) = sentences(root, newest + 8 * DAY_MS, node_id="1")
    names = ", ".join(alone[:3])
    assert said.startswith(f"a start removes commits of {len(alone)} groups without members ({names}")
    assert "offsets.retention.minutes=10080; to keep them, raise it before the start" in said
    assert not sentences(root, newest + 6 * DAY_MS, node_id="1")
    assert not sentences(root, newest + 8 * DAY_MS, offsets_retention_minutes="20000")
    assert not sentences(root, newest + 8 * DAY_MS), "its settings are not known"


def test_plan_and_report_name_them(root: Path, newest: int, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\noffsets.retention.minutes=60\nlog.retention.ms=-1\n")
    given = ("--server-properties", properties, "--at", newest + DAY_MS)
    report = tmp_path / "report.txt"
    kafkalog("report", *given, "-o", report)
    for text in (kafkalog("plan", *given).out, report.read_text()):
        words = " ".join(text.split())
        assert words.count("a start removes commits of") >= 1
        assert "offsets.retention.minutes=60; to keep them, raise it before the start" in words
        assert "nothing but what retention deletes" in words
