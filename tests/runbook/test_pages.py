"""Each page of the runbook, followed literally, ends in the state that it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalog import plan, verify
from pages import DOCS, commands_of, follow, scene_of
from scenes import SCENES
from trees import first_difference, stamps

RUNBOOK = DOCS / "runbook"
PAGES = sorted(path for path in RUNBOOK.glob("*.md") if path.name != "README.md")
RESULTS = {"failing-disk": "recovered", "dead-cluster": "merged", "backup": "restored", "deleted-topic": "rescued"}
"""New directories; the other pages put the directory itself right, and take it back at their end."""


def test_there_is_a_page_for_each_scene_and_the_index_names_them_all() -> None:
    assert [scene_of(page) for page in PAGES] == [page.stem for page in PAGES]
    assert {page.stem for page in PAGES} <= SCENES.keys()
    assert sorted(re.findall(r"\]\(([a-z-]+\.md)\) \|$", (RUNBOOK / "README.md").read_text(), re.MULTILINE)) == [
        page.name for page in PAGES
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_followed_literally(page: Path, tmp_path: Path) -> None:
    SCENES[scene_of(page)](tmp_path)
    before = {path.name: dict(stamps(path)) for path in tmp_path.iterdir()}
    changing = [command.text.split()[1] for command in commands_of(page) if command.code == 2]
    followed = follow(page, tmp_path)
    assert [each.complaint for each in followed if each.complaint] == []
    assert len(followed) == len(commands_of(page)) > 3
    assert changing, "a page that changes nothing helps nobody"
    for name, was in before.items():
        if name != "other-disk":
            assert first_difference(dict(stamps(tmp_path / name)), was) == "", f"{name} is not as it was"
    result = RESULTS.get(page.stem)
    if result is not None:
        assert verify(tmp_path / result).is_clean
        assert plan(tmp_path / result).broker.outcome == "loaded"


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in RESULTS], ids=lambda path: path.stem)
def test_what_a_page_leaves_before_it_is_taken_back_is_sound(page: Path, tmp_path: Path) -> None:
    SCENES[scene_of(page)](tmp_path)
    text = page.read_text()
    kept, _, _ = text.partition("## To take it back")
    assert kept != text
    shorter = tmp_path / "page.md"
    shorter.write_text(kept)
    assert [each.complaint for each in follow(shorter, tmp_path) if each.complaint] == []
    assert verify(tmp_path / "data").is_clean
    assert plan(tmp_path / "data").broker.outcome == "loaded"
