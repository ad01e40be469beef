"""What docs/tables.md shows works, and says what the page says."""

from __future__ import annotations

from pathlib import Path

from testkit.made.scenes import SCENES
from testkit.running.pages import DOCS, follow, scene_of


def test_the_page_is_true(tmp_path: Path) -> None:
    page = DOCS / "tables.md"
    SCENES[scene_of(page)](tmp_path)
    followed = follow(page, tmp_path, with_spark=False)
    assert [each.complaint for each in followed if each.complaint] == []
    assert len(followed) >= 8
