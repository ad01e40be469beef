"""Completion in three shells, and man pages: both from the commands themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog.cli.main import COMMANDS
from man_pages import MAN, pages
from testkit.running.command import kafkalog as command

PROGRAM = Path(sys.executable).parent / "kafkalog"
SHELLS = ("bash", "zsh", "fish")


def asked(shell: str, words: str, place: int) -> list[str]:
    """What a shell is told when it asks what may stand at a place."""
    finished = subprocess.run(
        [PROGRAM], capture_output=True, text=True, check=False,
        env={**os.environ, "_KAFKALOG_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)},
    )  # fmt: skip
    assert finished.stderr == ""
    return finished.stdout.split("\n")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell: str) -> None:
    printed = command("completion", shell)
    assert (printed.code, printed.err) == (0, "")
    assert f"{shell}_complete" in printed.out
    assert "kafkalog" in printed.out


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_are_completed(shell: str) -> None:
    found = "\n".join(asked(shell, "kafkalog re", 1) if shell != "fish" else asked(shell, "kafkalog re", "re"))  # type: ignore[arg-type]
    assert "recover" in found
    assert "verify" not in found


@pytest.mark.parametrize(("words", "wanted"), [
    ("kafkalog recover --accept", "--accept-loss"),
    ("kafkalog index re", "rebuild"),
    ("kafkalog completion f", "fish"),
])  # fmt: skip
def test_options_and_choices_are_completed(words: str, wanted: str) -> None:
    assert f"plain,{wanted}" in asked("bash", words, len(words.split()) - 1)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is what is tried")
def test_bash_takes_the_script(tmp_path: Path) -> None:
    script = tmp_path / "kafkalog.bash"
    script.write_text(command("completion", "bash").out)
    program = f"""
        export PATH={PROGRAM.parent}:$PATH
        source {script}
        COMP_WORDS=(kafkalog undel); COMP_CWORD=1
        _kafkalog_completion kafkalog
        echo "${{COMPREPLY[@]}}"
    """
    finished = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert (finished.stdout.split(), finished.stderr) == (["undelete"], "")


def test_without_a_shell_asking_help_comes() -> None:
    finished = subprocess.run([PROGRAM], capture_output=True, text=True, check=False)
    assert finished.returncode == 64
    assert "Look and check:" in finished.stderr


def test_man_pages_say_what_help_says() -> None:
    """``python tests/support/man_pages.py --write`` brings them up to date."""
    assert {path.name: path.read_text() for path in MAN.glob("*.1")} == pages()
    assert {name.removeprefix("kafkalog-").removesuffix(".1") for name in pages()} >= COMMANDS.keys()


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is what checks them")
def test_man_pages_are_sound() -> None:
    for path in sorted(MAN.glob("*.1")):
        finished = subprocess.run(
            ["groff", "-Kutf8", "-man", "-Tutf8", "-ww", str(path)], capture_output=True, text=True, check=False
        )
        assert (finished.returncode, finished.stderr) == (0, ""), path.name
        assert "N\bNA\bAM\bME\bE" in finished.stdout  # in bold, as for a printer
