"""A docstring names its subject: who reads it alone, in an editor or in a list, knows what it is about."""

from __future__ import annotations

import re
from pathlib import Path

from testkit.judging.modules import module
from testkit.running.programs import dev

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_SUBJECT = re.compile(
    r"(That (of|which)\b|Those\b|Of \w|It \w|They \w|Its \w+[.,;]?$|As `\w+`[,;]? (of|where|with)\b|All of them\b"
    r"|There (is|are|was)\b|So (many|much)\b|From (now|a|an|the|all|one|what|which|both) |Another\b.* (is|of)\b|Both\.)"
)


def test_a_docstring_names_its_subject() -> None:
    seen, bad = 0, []
    for room in (*dev.ROOMS, "src"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for line, text in module(path).docstrings:
                seen += 1
                if WITHOUT_SUBJECT.match(text):
                    bad.append(f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}")
    assert bad == []
    assert seen > 4000
