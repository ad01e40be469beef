"""The file that brings its own Python: how it begins, and what is made of it."""

from __future__ import annotations

import fnmatch
import importlib
import io
import json
import os
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.running.command import kafkalog

RELEASE = Path(__file__).resolve().parents[2] / "release"
PYTHON = b'#!/bin/sh\necho "runs $*"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The script before an archive in which the interpreter only says what it was given."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        entry = tarfile.TarInfo("bin/python3.11")
        entry.size, entry.mode = len(PYTHON), 0o755
        tar.addfile(entry, io.BytesIO(PYTHON))
    script = (RELEASE / "start.sh").read_text().replace("@DIGEST@", "0.0-x").replace("@VERSION@", "0.0")
    script = script.replace("@LINES@", str(script.count("\n") + 1))
    made = tmp_path / "kafkalog"
    made.write_bytes(script.encode() + archive.getvalue())
    made.chmod(0o755)
    return made


def started(file: Path, **variables: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [file, "ls", "a b"], env={"PATH": os.defpath, **variables}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_it_unpacks_itself_once(file: Path, tmp_path: Path) -> None:
    runs = (0, "runs -I -m kafkalog ls a b\n", "")
    home = tmp_path / "home"
    assert started(file, HOME=str(home)) == runs
    (place,) = (home / ".cache" / "kafkalog").iterdir()
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    before = place.stat().st_mtime_ns, (place / "bin" / "python3.11").stat().st_mtime_ns
    assert started(file, HOME=str(home)) == runs
    assert (place.stat().st_mtime_ns, (place / "bin" / "python3.11").stat().st_mtime_ns) == before
    assert started(file, KAFKALOG_HOME=str(tmp_path / "elsewhere")) == runs
    assert started(file, HOME="/nowhere", XDG_CACHE_HOME=str(tmp_path / "cache")) == runs


def test_what_keeps_it_from_starting_is_one_sentence(file: Path, tmp_path: Path) -> None:
    code, _, said = started(file)
    assert (code, said) == (
        4, "kafkalog: there is no home directory to unpack into: set KAFKALOG_HOME to a directory\n"
    )  # fmt: skip
    code, _, said = started(file, KAFKALOG_HOME=str(file))
    assert (code, said) == (
        4, f"kafkalog: cannot write to {file}: set KAFKALOG_HOME to a directory to unpack into\n"
    )  # fmt: skip
    file.write_bytes(file.read_bytes()[:-40])
    code, _, said = started(file, HOME=str(tmp_path))
    assert (code, said.count("\n")) == (4, 1)
    assert "this file is cut short" in said
    assert list((tmp_path / ".cache" / "kafkalog").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_another_user_has_put_there_is_not_run(file: Path, tmp_path: Path) -> None:
    place = tmp_path / "home" / "0.0-x"
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python3.11").write_bytes(PYTHON)
    os.chown(place, 1234, 1234)
    code, out, said = started(file, KAFKALOG_HOME=str(tmp_path / "home"))
    assert (code, out) == (4, "")
    assert said == f"kafkalog: {place} belongs to another user: set KAFKALOG_HOME to a directory of your own\n"


def test_the_image_and_the_job_call_it_as_it_is() -> None:
    image = (RELEASE / "Dockerfile").read_text()
    script = (RELEASE / "start.sh").read_text()
    (variable,) = re.findall(r"^ENV (\w+)=", image, re.MULTILINE)
    assert f"${{{variable}:-}}" in script
    job = importlib.import_module("yaml").safe_load((RELEASE / "kubernetes" / "plan.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (data,) = (each for each in container["volumeMounts"] if each["mountPath"] == container["args"][-1])
    (claim,) = (each["persistentVolumeClaim"] for each in pod["volumes"] if each["name"] == data["name"])
    assert (data["readOnly"], claim["readOnly"], job["spec"]["backoffLimit"]) == (True, True, 0)
    assert kafkalog(*container["args"][:-1], "--help").code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_steps_of_the_image_work_as_another_user(file: Path, tmp_path: Path) -> None:
    """What a builder does, in a directory for a root: copy, set, run; and then the entry point, nothing writable."""
    steps = [line.split(None, 1) for line in (RELEASE / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
    assert [step for step, _ in steps] == ["FROM", "COPY", "ENV", "RUN", "ENTRYPOINT"]
    root = tmp_path / "root"
    told = dict(steps)
    pattern, target = told["COPY"].split()
    made = "kafkalog-{version}-linux-x86_64"
    assert fnmatch.fnmatch(made, pattern)
    assert f'f"{made}"' in (RELEASE / "one_file.py").read_text()
    installed = root / target.lstrip("/")
    installed.parent.mkdir(parents=True)
    shutil.copy(file, installed)
    name, _, home = told["ENV"].partition("=")
    variables = {"PATH": f"{installed.parent}:{os.defpath}", name: f"{root}{home}"}
    shell = ["sh", "-c", told["RUN"]]
    built = subprocess.run(shell, env=variables, capture_output=True, text=True, check=True, cwd=root)
    assert built.stdout == "runs -I -m kafkalog --version\n"
    for path in (tmp_path, *tmp_path.parents):
        if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o777 == 0o700:
            path.chmod(0o711)
    (entry,) = json.loads(told["ENTRYPOINT"])
    command = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", entry, "plan", "/var/lib/kafka/data"]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, cwd="/")
    assert (run.returncode, run.stdout) == (0, "runs -I -m kafkalog plan /var/lib/kafka/data\n"), run.stderr


def test_every_field_of_the_manifest_is_one_of_the_api() -> None:
    """By the models of Kubernetes' own client, as they were recorded."""
    recorded = Path(__file__).resolve().parents[1] / "support" / "kubernetes_fields.json"
    models = json.loads(recorded.read_text())["models"]
    manifest = importlib.import_module("yaml").safe_load((RELEASE / "kubernetes" / "plan.yaml").read_text())
    assert list(unknown_fields("V1Job", manifest, models, "Job")) == []
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["readonly"] = True
    assert list(unknown_fields("V1Job", manifest, models, "Job")) == [
        "Job.spec.template.spec.containers[0].volumeMounts[0].readonly: no field of V1VolumeMount"
    ]


def unknown_fields(kind: str, value: Any, models: dict[str, dict[str, str]], where: str) -> Iterator[str]:
    """What the API does not have, or has with another type."""
    if kind.startswith("list["):
        for number, each in enumerate(value):
            yield from unknown_fields(kind[5:-1], each, models, f"{where}[{number}]")
    elif kind in models:
        for name, each in value.items():
            if name not in models[kind]:
                yield f"{where}.{name}: no field of {kind}"
            else:
                yield from unknown_fields(models[kind][name], each, models, f"{where}.{name}")
    elif type(value).__name__ != kind:
        yield f"{where}: {value!r} is no {kind}"
