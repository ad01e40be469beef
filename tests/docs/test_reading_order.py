"""The pages that a new user reads first, followed in their order, each as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.made.scenes import SCENES
from testkit.running.pages import DOCS, blocks_of, follow, scene_of

PAGES = [DOCS.parent / "README.md", DOCS / "quick-start.md", DOCS / "analysts-guide.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_without_spark(page: Path, tmp_path: Path) -> None:
    SCENES[scene_of(page)](tmp_path)
    followed = follow(page, tmp_path, with_spark=False)
    assert [each.complaint for each in followed if each.complaint] == []
    assert len(followed) >= 4


@pytest.mark.interop
@pytest.mark.java
@pytest.mark.parametrize("page", [page for page in PAGES if "pyspark" in page.read_text()], ids=lambda path: path.stem)
def test_a_page_with_spark(page: Path, tmp_path: Path) -> None:
    SCENES[scene_of(page)](tmp_path)
    followed = follow(page, tmp_path)
    assert [each.complaint for each in followed if each.complaint] == []
    assert any("pyspark" in each.command.text for each in followed)


def test_the_readme_comes_first_and_says_how_to_set_up_before_anything_else() -> None:
    first, *_ = [text for kind, text in blocks_of(PAGES[0]) if kind in ("console", "python", "sh")]
    assert [line.split()[:2] for line in first.splitlines() if line] == [["make", "demo"], ["make", "test"]]
