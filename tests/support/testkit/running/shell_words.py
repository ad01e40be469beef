"""What bash makes of a command line."""

from __future__ import annotations

import os
import shutil
import subprocess


def as_bash_reads(line: str) -> list[str]:
    """The words of a command line, as bash hands them to a program."""
    bash = shutil.which("bash")
    assert bash is not None
    text = f"printf '%s\\0' {line}"
    answer = subprocess.run([bash, "-c", os.fsencode(text)], capture_output=True, check=True)
    return [os.fsdecode(word) for word in answer.stdout.split(b"\0")[:-1]]
