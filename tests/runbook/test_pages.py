"""Each page of the runbook, followed literally, ends in the state that it promises."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from kafkalog import commit_offsets, plan, verify
from kafkalog.codec.common.findings import FindingCode, Severity
from testkit.judging.trees import first_difference, stamps
from testkit.made.scenes import SCENES
from testkit.running.command import kafkalog
from testkit.running.pages import DOCS, blocks_of, commands_of, follow, scene_of

RUNBOOK = DOCS / "runbook"
PAGES = sorted(path for path in RUNBOOK.glob("*.md") if path.name != "README.md")
RESULTS = {
    "failing-disk": "recovered", "tiered": "whole",
    "dead-cluster": "merged", "backup": "restored", "deleted-topic": "rescued",
    "lost-controllers": "node-1", "moved-controllers": "node-2", "no-controller": "controller",
    "one-broker-left": "controller", "power-cut": "merged", "diverged": "broker-1", "lost-and-found": "repaired",
    "staging-cluster": "staging", "zookeeper-lost": "broker-3", "log-into-cluster": "target",
}  # fmt: skip
"""New directories, and controllers'; the other pages put `data` itself right, and take it back at their end."""
BY_OTHER_MEANS = {
    "lost-directory": "data", "wrong-owner": "data", "offsets-before": "", "diverged": "", "zookeeper-lost": "",
    "log-into-cluster": "target",
}  # fmt: skip
"""Pages that bring back what is elsewhere, or do not do it with kafkalog; and the directory that changes, if any."""


def test_there_is_a_page_for_each_scene_and_the_index_names_them_all() -> None:
    assert [scene_of(page) for page in PAGES] == [page.stem for page in PAGES]
    assert {page.stem for page in PAGES} <= SCENES.keys()
    assert sorted(re.findall(r"\]\(([a-z-]+\.md)\) \|$", (RUNBOOK / "README.md").read_text(), re.MULTILINE)) == [
        page.name for page in PAGES
    ]


def part(page: Path, directory: Path, number: int) -> Path:
    """A page up to where what it did is taken back, or from there on; written beside the directory that it is about."""
    made = directory.with_name(f"{page.stem}-{number}.md")
    made.write_text((*page.read_text().split("## To take it back"), "")[number])
    return made


def without_quarantine(path: Path) -> dict[str, Any]:
    """What is in a directory, but for what runs have kept beside the log directories in it, and its own time then."""
    kept = r"(\.|data[^/]*\.recovery(/.*)?)$" if (path / "data").is_dir() else "$"
    return {name: each for name, each in stamps(path).items() if not re.match(kept, name)}


@pytest.mark.sweep
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_followed_literally(page: Path, tmp_path: Path) -> None:
    if page.stem == "wrong-owner" and os.geteuid() != 0:
        pytest.skip("only root can give files away")
    place = tmp_path / "place"
    place.mkdir()
    SCENES[scene_of(page)](place)
    before = {path.name: without_quarantine(path) for path in place.iterdir()}
    followed = follow(part(page, place, 0), place)
    assert [each.complaint for each in followed if each.complaint] == []
    result = place / RESULTS.get(page.stem, "data")
    found = [each for each in verify(result).findings if each.severity is not Severity.INFO]
    if page.stem == "diverged":  # the offsets of its scene were made after its cluster: its metadata does not name them
        found = [each for each in found if each.code is not FindingCode.START_LOSES]
    if page.stem == "lost-marker":  # only the broker, once it is started, gets a marker
        found = [each for each in found if each.code is not FindingCode.TRANSACTION_HANGING]
    assert found == []
    assert plan(result)[0].broker.outcome == "loaded"
    back = follow(part(page, place, 1), place)
    assert [each.complaint for each in back if each.complaint] == []
    programs = [text for kind, text in blocks_of(page) if kind == "python"]
    assert len(followed) + len(back) == len(commands_of(page)) + len(programs) > 3
    acted = [each for each in (*followed, *back) if each.code == 2 or "--into" in each.command.text]
    assert acted or page.stem in BY_OTHER_MEANS, "a page that changes nothing helps nobody"
    assert back or page.stem in RESULTS or page.stem in BY_OTHER_MEANS
    for name, was in before.items():
        if name not in ("other-disk", BY_OTHER_MEANS.get(page.stem)):
            assert first_difference(without_quarantine(place / name), was) == "", f"{name} is not as it was"


def test_the_page_of_a_lost_directory_names_the_groups_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without all log directories of the broker nobody knows whether another one has the partitions."""
    monkeypatch.chdir(tmp_path)
    SCENES["lost-directory"](tmp_path)
    commit_offsets("metadata", "mail", {("stock-41", 0): 1500})
    page = RUNBOOK / "lost-directory.md"
    typed = [each.text for each in commands_of(page) if each.text.startswith("kafkalog plan ")]
    assert typed
    for text in typed:
        assert "1 group stands beyond the end 0 of stock-41-0 (mail at 1500)" in " ".join(
            kafkalog(*text.split()[1:], columns=1000).out.split()
        )
    said = page.read_text()
    assert said.index("$ cp -a disk/. data") < said.index("start the broker now") < said.index("How to know")
