"""What the documents show in Python passes `mypy --strict`, page by page, as a user's own program would."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^( *)```(?:python|pycon)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GIVEN = {
    "spark": "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n",
    "kafkalog": "import kafkalog\n",
    **{
        name: f"import os\n{name} = os.environ[{name!r}]\n"
        for name in ("access_key", "checkpoint", "copy", "damaged", "data", "endpoint", "incoming", "out", "secret_key")
    },
    "records": 'from kafkalog import Record, open_partition\nrecords = open_partition("data/t-0").records()\n',
}
"""What a page takes for granted, as the text beside its examples or the page that leads there says."""


def program(page: Path) -> str:
    """All of a page's examples as one program; of a session at the prompt what was typed."""
    parts = []
    for indent, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        source = textwrap.dedent(indent + block)
        if source.lstrip().startswith(">>>"):
            source = "".join(each.source for each in doctest.DocTestParser().get_examples(source))
        parts.append(source)
    text = "\n".join(parts)
    used = {name for name in GIVEN if re.search(rf"\b{name}\b", text)}
    made = {
        name
        for name in used
        if re.search(rf"^ *(import .*\b{name}\b|{name} = |for .*\b{name}\b.* in )", text, re.MULTILINE)
    }
    return "".join(GIVEN[name] for name in sorted(used - made)) + text if text.strip() else ""


def test_every_page_passes_mypy(tmp_path: Path) -> None:
    pages = {}
    for page in PAGES:
        text = program(page)
        if text:
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
            pages[name] = page
    assert len(pages) > 15
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, "--explicit-package-bases", *(f"{tmp_path}/{name}.py" for name in pages)],
        capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"MYPYPATH": "src"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.replace(f"{tmp_path}/", "") + done.stderr
