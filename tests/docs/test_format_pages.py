"""docs/format/ and docs/findings.md say what the code does: their generated blocks are current and complete."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from construct import Struct

from format_pages import DOCS, PAGES, blocks, current, declaration
from kafkalog.codec import FindingCode, layout

# Layouts of which no recorded broker has an example.
WITHOUT_EXAMPLE = {"README.md", "segment.md", "fetch-result.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert current(text) == text, "run: python tests/support/format_pages.py --write"


def test_every_declaration_has_its_table() -> None:
    shown = {
        argument for page in PAGES for kind, argument in blocks(page.read_text(encoding="utf-8")) if kind == "table"
    }
    declared = set()
    inner = {"record_batch.RECORD_HEADER"}  # is in the table of the record
    for found in pkgutil.iter_modules(layout.__path__):
        module = importlib.import_module(f"{layout.__name__}.{found.name}")
        for name in module.__all__:
            if isinstance(getattr(module, name), Struct | tuple):
                declared.add(f"{found.name}.{name}")
    assert shown == declared - inner
    assert all(declaration(name) is not None for name in shown)


@pytest.mark.parametrize("page", sorted((DOCS / "format").glob("*.md")), ids=lambda page: page.name)
def test_a_page_has_a_picture_and_an_example(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    kinds = {kind for kind, _ in blocks(text)}
    assert page.name in WITHOUT_EXAMPLE or kinds - {"table"}
    assert page.name == "README.md" or "```" in re.sub(r"<!-- begin.*?<!-- end -->", "", text, flags=re.DOTALL)


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\(([a-z-]+\.md)\)", (DOCS / "format" / "README.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in (DOCS / "format").glob("*.md")} - {"README.md"}


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([a-z-]+\.md)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


def test_every_finding_code_is_on_its_page() -> None:
    text = (DOCS / "findings.md").read_text(encoding="utf-8")
    assert [code for code in FindingCode if f"| `{code}` |" not in text] == []


def test_a_change_of_a_declaration_is_noticed() -> None:
    text = (DOCS / "format" / "time-index.md").read_text(encoding="utf-8")
    assert current(text.replace("| 8 | `relative_offset`", "| 9 | `relative_offset`")) == text
