"""Sentences that users and colleagues read are plain English: phrases that native readers stumble over stay out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.judging.modules import module
from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (*dev.ROOMS, "src")

# Phrase -> what to write instead.
DIALECT = {
    r"(?<![Tt]here )(?<!where )\bis no "
    r"(?!longer\b|more\b|other\b|less\b|way\b|need\b|point\b|room\b)[A-Za-z`]": "is not a",
    r"\banew\b": "again, or a word with re-",
    r"\bfor ever\b": "forever",
    r"\bin the place of\b": "in place of",
    r"\binto order\b": "repair",
    r"\bexpression finds\b": "matches this regular expression",
    r"\bstands? in (?!for\b)": "is in",
    r"\bcan(?:not)? be meant\b": "makes no sense, or is impossible",
    r"\b(?:what|that) lives\b": "live data",
    r"\bis to be had\b|\bto be had for\b": "is available",
    r"\bcomes? to it\b": "reaches it",
    r"\bfor want of\b": "because there is no",
    r"\bhow they are\b": "their health",
    r"\bbesides, ": "also",
    r"\bgoes? away from\b": "leaves",
    r"\bhas to do with nothing\b": "is unrelated",
    r"\bfor good\b": "permanently, or forever",
    r"\bput(?:s)? (?:it |the run )?aside\b": "set aside",
    r"\btaken back\b": "undone, or rolled back",
    r"\bas far as they are(?! known)\b": "if present, or optional",
    r"\b(?:directory|nodes?|transaction) of ZooKeeper's(?! (?:log|transaction))\b": "ZooKeeper directory",
    r"\bcannot both be meant\b": "cannot be used together",
    r"\bone (?:page|report) to hand on\b": "to share",
    r"\bcounts as now\b": "the time to treat as now",
    r"\bis held against\b": "is compared with",
    r"\bstands? nowhere\b": "exists nowhere",
    r"\bturned back\b": "corrected",
    r"\bpartition at least\b": "at least one partition",
    r"\b(?:it|them) to its end\b": "completes it",
    r"\bthe cluster's own memory\b": "the cluster's metadata",
    r", says (?:the|ZooKeeper)\b": "according to",
    r"\btells the ISRs\b": "supplies the ISRs",
    r"\bof this number\b": "with this number",
    r"\bcomes? to rest\b": "reaches a stable state",
    r"\bgives? out\b": "cannot read, or returns",
    r"\bstumbles? over\b": "cannot read, or fails at",
    r"\blinks? to nothing\b": "dangling link",
    r"\bhas no meaning\b": "has no effect",
    r"\bwhere that cannot be told\b": "if unknown",
    r"\bput side by side\b": "compared",
    r"\bgave way to\b": "was replaced by",
    r"\bother bytes (?:than|at)\b": "different bytes",
    r"\bby the square\b": "quadratic",
    r"\b(?:do|does) not go with it\b": "cannot be used with it",
    r"\bas (?:long|good) as any\b": "no copy is longer, or better",
    r"\bfits? no more\b": "no longer fits",
    r"\bbe foreseen\b": "be predicted",
    r"\bexists already\b": "already exists",
    r"\bof no known kind\b": "of an unknown kind",
}


ANY = re.compile("|".join(f"(?:{phrase})" for phrase in DIALECT))


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a document; of a program those of its strings and comments."""
    if path.suffix == ".md":
        yield from enumerate(path.read_text().splitlines(), 1)
        return
    for text in module(path).texts:
        for number, line in enumerate(text.value.splitlines()):
            yield text.line + number, line
    for number, line in enumerate(module(path).source.splitlines(), 1):
        if "  # " in line or line.lstrip().startswith("# "):
            yield number, line.partition("# ")[2]


def read_by_people() -> list[Path]:
    """Documents, help texts, messages, docstrings and comments."""
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return [*documents, *(path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))]


def test_no_phrase_of_the_list_is_used() -> None:
    paths = read_by_people()
    assert len(paths) > 300
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()!r}: write {better!r}"
        for path in paths
        for number, line in sentences(path)
        if ANY.search(line)
        for phrase, better in DIALECT.items()
        for match in [re.search(phrase, line)]
        if match
    ]
    assert found == []


@pytest.mark.parametrize(("line", "is_dialect"), [
    ("data is no Kafka log directory", True), ("there is no topic here", False), ("it is no longer there", False),
    ("indexes are made anew", True), ("it stands in two directories", True), ("it stands in for another", False),
    ("what it keeps is gone for good", True), ("the run was put aside", True), ("the run was set aside", False),
])  # fmt: skip
def test_what_is_looked_for(line: str, *, is_dialect: bool) -> None:
    assert any(re.search(phrase, line) for phrase in DIALECT) == is_dialect
