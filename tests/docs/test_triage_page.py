"""What docs/triage.md shows works, on the disks of recorded brokers and their controller."""

from __future__ import annotations

from pathlib import Path

from testkit.made.scenes import SCENES
from testkit.running.pages import DOCS, follow, scene_of

PAGE = DOCS / "triage.md"


def test_the_page_followed_literally(tmp_path: Path) -> None:
    SCENES[scene_of(PAGE)](tmp_path)
    followed = follow(PAGE, tmp_path)
    assert [each.complaint for each in followed if each.complaint] == []
    assert followed
