"""What docs/space.md shows works."""

from __future__ import annotations

from pathlib import Path

from testkit.made.scenes import SCENES
from testkit.running.pages import DOCS, follow, scene_of


def test_the_page(tmp_path: Path) -> None:
    page = DOCS / "space.md"
    SCENES[scene_of(page)](tmp_path)
    followed = follow(page, tmp_path)
    assert [each.complaint for each in followed if each.complaint] == []
    assert len(followed) == 7
