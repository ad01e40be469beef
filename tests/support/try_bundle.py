"""Try the command that was packed into one file: an empty home, a directory that has nothing of ours.

A program: `try_bundle.py FILE`, which a bare Python runs, or which brings its own.  ls, verify, plan, recover and undo
run on a fixture; the end is the beginning.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from testkit.judging.trees import stamps
from testkit.recorded.fixture_data import recovery_cases


class Bundle:
    """The file, run as a stranger would."""

    def __init__(self, file: Path, folder: Path) -> None:
        python = Path(sys.executable).resolve()  # the one that the virtual environment was made of
        needs_python = file.suffix == ".pyz"
        self._command = [str(python), "-I", "-S", str(file)] if needs_python else [str(file)]
        self.variable, self.kept = ("SHIV_ROOT", ".shiv") if needs_python else ("KAFKALOG_HOME", ".cache")
        self._folder = folder
        self.home = folder / "home"
        self.home.mkdir()

    def run(self, *arguments: object, code: int, **more: str) -> str:
        """Run a command line that must end with `code`, with `more` in its environment; what it printed."""
        return self._finished(arguments, code, more).stdout

    def complaint(self, *arguments: object, code: int, **more: str) -> str:
        """The same; what it said on standard error."""
        return self._finished(arguments, code, more).stderr

    def _finished(
        self, arguments: Sequence[object], code: int, more: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        variables = {"HOME": str(self.home), "PATH": os.defpath, "LANG": "C.UTF-8", **more}
        answer = subprocess.run(
            [*self._command, *map(str, arguments)],
            cwd=self._folder, env=variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if answer.returncode != code or "Traceback" in answer.stderr:
            raise SystemExit(f"{arguments} ended with {answer.returncode}, not {code}: {answer.stderr}")
        return answer


def main(file: Path) -> None:
    """Raise SystemExit with what is wrong; say nothing if nothing is."""
    with tempfile.TemporaryDirectory(prefix="kafkalog-bundle-") as temporary:
        folder = Path(temporary)
        data = recovery_cases(["torn_tail"])[0].unpack_before(folder / "data")
        before = stamps(data)
        bundle = Bundle(file, folder)
        if not bundle.run("--version", code=0).startswith("kafkalog "):
            raise SystemExit("the version is not told")
        bundle.run("ls", data, code=1)
        bundle.run("verify", data, code=1)
        bundle.run("plan", data, code=1)
        bundle.run("report", data, "-o", folder / "report.html", code=1)
        if stamps(data) != before:
            raise SystemExit("reading has changed something")
        run_id = json.loads(bundle.run("recover", "--yes", "--json", data, code=2))["run_id"]
        left = json.loads(bundle.run("verify", "--json", data, code=1))["findings"]
        if {each["code"] for each in left if each["severity"] != "info"} != {"log_end_below_high_watermark"}:
            raise SystemExit(f"recovery has left {left}")
        bundle.run("undo", "--yes", data, "--run", run_id, code=2)
        if stamps(data) != before:
            raise SystemExit("undo has not put everything back")
        kept = {path.name for path in bundle.home.iterdir()}
        if kept != {bundle.kept}:
            raise SystemExit(f"the home holds {kept}, and not only what was unpacked")
        bundle.run("build", "--help", code=0)
        for place in (file, file / "below", Path("/proc/none")):  # not even root may write there
            said = bundle.complaint("--version", code=4, **{bundle.variable: str(place)})
            if len(said.splitlines()) != 1 or f"set {bundle.variable}" not in said:
                raise SystemExit(f"where it cannot unpack itself it says {said}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
