"""Every file that the architecture page names is where the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([\w./-]+\.(?:py|c|h|pyi))`")
FOLDER = re.compile(r"`((?:[\w-]+/)+)")
PLACES = (
    ROOT, ROOT / "src" / "kafkalog", ROOT / "codec", ROOT / "recovery", ROOT / "src" / "kafkalog" / "cluster",
)  # fmt: skip
"""folders from which the page's sections name files"""


def unknown_files(text: str) -> list[str]:
    """Files that a page names and that do not exist. A name without a folder is looked for in the folders that the same
    paragraph or row of a table names, and below them.
    """
    missing = []
    for paragraph in re.split(r"\n\n|(?<=\|)\n(?=\|)", text):
        folders = [place / folder for folder in FOLDER.findall(paragraph) for place in PLACES]
        folders += [place / name for name in NAMED.findall(paragraph) if "/" in name for place in PLACES]
        around = [folder if folder.is_dir() else folder.parent for folder in folders]
        for name in NAMED.findall(paragraph):
            is_known = any((place / name).is_file() for place in (*PLACES, *around))
            if not is_known and not any(next(folder.rglob(name), None) for folder in around if folder.is_dir()):
                missing.append(name)
    return missing


def test_the_files_are_there() -> None:
    assert unknown_files((ROOT / "docs" / "architecture.md").read_text("utf-8")) == []


@pytest.mark.parametrize("name", ["recovery/facts/rules.py", "asking.py"])
def test_a_file_that_is_not_there_is_found(name: str) -> None:
    assert unknown_files(f"| `recovery/facts/` | `survey.py` and `{name}` |") == [name]
