"""A real Spark cluster on loopback, from the installed pyspark: a standalone master and workers, each a process.

    with StandaloneCluster(folder, workers=2) as cluster:
        run_job(cluster.master, ...)      # spark://127.0.0.1:...
        cluster.kill(0)                   # SIGKILL for a worker and its executors

Everything ends with the context.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyspark

from testkit.running.free_ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = ROOT / "tests" / "support"
JOB = PROGRAMS / "spark_job.py"
WRITE_JOB = PROGRAMS / "spark_write_job.py"
STREAM_JOB = PROGRAMS / "spark_stream_job.py"
START_SECONDS = 120
JOB_SECONDS = 300


class SparkClusterError(Exception):
    """A cluster or a job that does not do what it should; the message ends with its last lines."""


def zipped_package(folder: Path) -> Path:
    """The package as one file for `--py-files`."""
    path = folder / "kafkalog.zip"
    sources = runpy.run_path(str(ROOT / "dev.py"))["package_sources"](ROOT)
    with zipfile.ZipFile(path, "w") as archive:
        for name, source in sources.items():
            archive.write(source, name)
    return path


def environment(python_path: str | None) -> dict[str, str]:
    """The environment of a driver or a worker, whose Pythons are this one."""
    values = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    values |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    values.pop("PYTHONPATH", None)
    return values if python_path is None else {**values, "PYTHONPATH": python_path}


class StandaloneCluster:
    """A master and its workers, of one core each."""

    def __init__(self, folder: Path, *, workers: int = 2) -> None:
        self.folder = folder
        self.master = f"spark://127.0.0.1:{free_port()}"
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        port = self.master.rpartition(":")[2]
        try:
            address = ["--host", "127.0.0.1", "--port", port]
            self._spawn("master", "org.apache.spark.deploy.master.Master", *address, "--webui-port", "0")
            for number in range(self._count):
                more = ["-c", "1", "-m", "1g", "-d", str(self.folder / f"worker-{number}"), "--webui-port", "0"]
                main = "org.apache.spark.deploy.worker.Worker"
                # each on a host of its own: Spark never runs a second attempt of a task where the first one runs
                address = ["--host", f"127.0.0.{number + 1}", "--port", "0"]
                self._spawn(f"worker-{number}", main, *address, *more, self.master)
            self._await_workers()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self._processes:
            self._kill(process)

    def kill(self, worker: int) -> None:
        """End a worker and its executors without a word."""
        self._kill(self._processes[1 + worker])

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _spawn(self, name: str, main: str, *arguments: str) -> None:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), main, *arguments]
        values = environment(None) | {"SPARK_DAEMON_MEMORY": "200m"}
        with (self.folder / f"{name}.out").open("ab") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, cwd=self.folder, env=values, start_new_session=True
            )
        self._processes.append(process)

    def _await_workers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        outputs = [self.folder / f"worker-{number}.out" for number in range(self._count)]
        while not all("Successfully registered with master" in path.read_text(errors="replace") for path in outputs):
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                shown = " | ".join(path.read_text(errors="replace")[-500:] for path in self.folder.glob("*.out"))
                raise SparkClusterError(f"the standalone cluster does not come up: {shown}")
            time.sleep(0.2)


def start_job(
    master: str, path: Path, *, options: Mapping[str, str], python_path: str | None = None, **more: Any
) -> subprocess.Popen[str]:
    """`spark_job.py` in a process of its own; `finish_job` gives its answer."""
    job = {"master": master, "path": str(path), "options": dict(options), **more}
    return start_program(JOB, job, python_path=python_path)


def start_program(program: Path, job: Mapping[str, Any], *, python_path: str | None = None) -> subprocess.Popen[str]:
    """A program that takes a job as JSON, in a session of its own; `finish_job` gives its answer."""
    return subprocess.Popen(
        [sys.executable, str(program), json.dumps(job)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(python_path),
    )


def finish_job(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What a job printed."""
    try:
        out, err = process.communicate(timeout=JOB_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise SparkClusterError(f"the job did not end within {JOB_SECONDS} s") from None
    if process.returncode:
        raise SparkClusterError(f"the job ended with {process.returncode}: {err[-3000:]}")
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer
