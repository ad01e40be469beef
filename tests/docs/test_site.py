"""The site that is built from the documents: no dead link, every page reachable, every public name in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from testkit.running.pages import DOCS

ROOT = DOCS.parent
LINK = re.compile(r"(?<!`)\[[^\]\n]+\]\(([^)\s]+)\)")


@pytest.mark.sweep
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (finished.returncode, finished.stderr) == (0, "")
    page = (tmp_path / "site" / "api" / "index.html").read_text()
    names = [name for name in vars(kafkalog)["__all__"] if name != "__version__"]
    assert len(names) > 60
    for name in names:
        shown = "open_log_dir" if name == "open" else name
        assert re.search(rf'id="kafkalog\.[a-z_.]*{re.escape(shown)}"', page), f"{name} is not on the page"


def test_every_page_is_reached_from_the_index() -> None:
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in LINK.findall(page.read_text()):
            if "://" not in target and target.partition("#")[0].endswith(".md"):
                waiting.append((page.parent / target.partition("#")[0]).resolve())
    pages = {path for path in DOCS.rglob("*.md") if "adr" not in path.parts}
    assert {str(path.relative_to(DOCS)) for path in pages - reached} == set()


def test_links_of_the_readme_lead_somewhere() -> None:
    targets = [each for each in LINK.findall((ROOT / "README.md").read_text()) if "://" not in each]
    assert targets
    assert [each for each in targets if not (ROOT / each.partition("#")[0]).exists()] == []
