"""Everything a developer of kafkalog does, in one program that needs nothing but Python 3.11 or later.

``python3 dev.py help`` lists the commands. The Makefile says the same words for those who have make. What a command
needs it sets up first: the virtual environment ``.venv`` from the pinned, hash-checked files in ``requirements/``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"
REQUIREMENTS = ROOT / "requirements"
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MEMORY, MEMORY_FACTS = Path("/dev/shm"), Path("/proc/meminfo")
ROOM_BYTES = 4 << 30
ROOMS = ("codec", "recovery", "spark")  # packages at the top of the repository; src/kafkalog has a link to each

# Beside the package itself, what mypy reads: the tests, and the programs that are not part of the package.
TYPED_PROGRAMS = (
    "dev.py", "fixtures/check.py", "examples/*.py", "benchmarks/results_page.py", "tests/conftest.py",
    "tests/**/test_*.py", "tests/support/*.py",
    "tests/support/testkit/*/*.py", "tests/sweep/*.py", "tests/interop/differences.py",
    "tests/interop/nights/*.py", "tests/interop/spark_kafka/*.py", "release/*.py",
)  # fmt: skip

LINTERS = (
    "ruff", "import-linter", "grimp", "click", "rich", "typing-extensions", "markdown-it-py", "mdurl", "pygments",
)  # fmt: skip
"""What lint runs, and what that needs."""

WHEELS = ("manylinux_2_17_x86_64", "manylinux_2_17_aarch64")
"""What wheels are built for, with Zig."""

SANITIZED_TESTS = (
    "columnar/test_assembler_usual_records", "columnar/test_decompressed", "columnar/test_run_decoder",
    "columnar/test_schema", "encode/test_columns", "headers/test_message_runs", "headers/test_runs",
    "native/test_clean", "native/test_functions", "native/test_library", "plain/test_plain_vectors",
    "rules/test_execution",
)  # fmt: skip
"""Of the codec's tests, those with hostile inputs and guard pages."""

CI_MINUTES = 45
STARTED, UNTIL = "KAFKALOG_CI_STARTED", "KAFKALOG_UNTIL"

_REFRESH_SECONDS = 1.0
_PLAIN_REFRESH_SECONDS = 20.0
_NOTHING_COLLECTED = 5
_COMPARED = (".py", ".pyi", ".json", ".html", ".css", ".js")


class DevError(Exception):
    """Ends the program with this sentence and exit code 1."""


# --- the commands ---------------------------------------------------------------------------------------------------


def setup() -> None:
    """Make .venv from the pinned, hash-checked requirements; instant when nothing changed"""
    _ensure_venv()
    for sentence in missing_tools(os.environ) + missing_browser(os.environ):
        print(f"setup: {sentence}")


def demo() -> None:
    """Run examples/demo.py in .venv, which is made if it is missing"""
    program = ROOT / "examples" / "demo.py"
    if not program.is_file():
        raise DevError("there is no examples/demo.py to run")
    _ensure_venv()
    _run_all({"demo": lambda: _call([_python(), str(program)])})


def test() -> None:
    """Make .venv, then run lint, types and all tests but the long campaigns; without Java some are left out"""
    setup()
    compiling = _Compiling()
    _run_all({"lint": _lint, "types": _types, "pytest": partial(_pytest, compiling)})
    for sentence in missing_tools(os.environ) + missing_browser(os.environ):
        print(f"not checked: {sentence}")


def lint() -> None:
    """Run ruff and check the import contracts; without .venv in a small one, made in seconds"""
    tools = VENV if _is_up_to_date() else _linters()
    _run_all({"lint": partial(_lint, tools)})


def types() -> None:
    """Run mypy --strict on the package, the tests and the programs"""
    _ensure_venv()
    _run_all({"types": _types})


def sweep() -> None:
    """Run all recorded cases, long searches and new examples (KAFKALOG_SWEEP=ci: a part of the searches)"""
    _ensure_venv()
    _run_all({"recorded": _recorded, "sweep": _sweep, "new examples": _new_examples})


def interop() -> None:
    """Run the tests against real Kafka, and of pages in Chromium if it is there; needs a JDK and Maven"""
    _ensure_venv()
    _run_all({"interop": _interop})
    for sentence in missing_browser(os.environ):
        print(f"not checked: {sentence}")


def trials(*options: str) -> None:
    """Lose real KRaft quorums and recover them (--cuts 100: cut power, --starts: start damaged nodes); resumes"""
    _ensure_venv()
    if "--starts" in options:
        _run_all({"starts": partial(_campaign, "starts.py", *options)})
    elif "--cuts" in options:
        _run_all({"power cuts": partial(_campaign, "cut_power.py", *options)})
    else:
        _run_all({"quorum trials": partial(_campaign, "lost_quorums.py", *options)})


def native() -> None:
    """Compiled code: hostile inputs and random windows with sanitizers, the codec's tests without it, aarch64"""
    _ensure_venv()
    _run_all({"sanitized": partial(_sanitized, 20_000), "without": _without_library, "aarch64": _aarch64})


def _sanitized(windows: int) -> None:
    """Run the tests of compiled code, and then `windows` random windows, with a build that ends the process at the
    first access outside its memory. The build is kept in `.cache`, and made again only if it is not current. Raises
    `DevError` if there is no compiler, the build fails or a test fails.
    """
    spec = importlib.util.spec_from_file_location("native", ROOT / "release" / "native.py")
    if spec is None or spec.loader is None:
        raise DevError("release/native.py is missing")
    building = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(building)
    compiler = next((name for name in ("cc", "gcc") if shutil.which(name)), None)
    if compiler is None:
        raise DevError("there is no cc, whose sanitizers these are")
    library = CACHE / "sanitized" / building.LIBRARY
    library.parent.mkdir(parents=True, exist_ok=True)
    if not building.is_current(library, building.SANITIZED):
        try:
            building.build(library, [compiler], building.SANITIZED)
        except building.BuildError as error:
            raise DevError(str(error)) from error
    variables = {
        "KAFKALOG_NATIVE": str(library), "LD_PRELOAD": _output([compiler, "-print-file-name=libasan.so"]).strip(),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(ROOT / "tests" / "support"),
    }  # fmt: skip
    tests = [f"tests/codec/{name}.py" for name in SANITIZED_TESTS]
    _call([_python(), "-m", "pytest", "-q", "-n", "2", *tests, "-m", "not sweep"], **variables)
    _call([_python(), "tests/campaigns/windows.py", "--count", str(windows)], **variables)


def _without_library() -> None:
    """Run the tests of reading, writing and merging logs as on a machine without compiled code, and print how long they
    take. Raises `DevError` if one fails.
    """
    started = time.monotonic()
    left_out = "not sweep and not recorded and not compiled"
    rooms = ["tests/codec", "tests/log", "tests/copies", "tests/recovery/damage", "tests/jobs/merge"]
    command = [_python(), "-m", "pytest", "-q", "-n", "2", *rooms, "-m", left_out]
    _call(command, KAFKALOG_NATIVE="none")
    print(f"without compiled code: {time.monotonic() - started:.0f} s")


def _aarch64() -> None:
    """Compare what compiled code makes of recorded logs on aarch64 with this machine; not without its emulator."""
    code = _code([_python(), "tests/campaigns/aarch64.py"], PYTHONPATH=str(ROOT / "tests" / "support"))
    if code == 1:
        raise DevError("aarch64 gives other digests")


def same(*options: str) -> None:
    """Compare this tree with another commit on every fixture and recorded case: same BASE [--every N]"""
    if not options or options[0].startswith("-"):
        raise DevError("same needs the commit to compare with: python3 dev.py same BASE")
    _ensure_venv()
    _run_all({"same": partial(_compare_with, options[0], _frozen_commits()["crossings"], *options[1:])})


def _compare_with(base: str, older: str, *options: str) -> None:
    """Run the comparison of `same` with a commit; runs of an older one are crossed. Raises `DevError` if results differ
    or there is no such commit.
    """
    program = ROOT / "tests" / "campaigns" / "same.py"
    support = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests" / "support")])
    trees = ["--base", str(_installed_commit(base)), "--older", str(_installed_commit(older))]
    _call([_python(), str(program), *trees, *options], PYTHONPATH=support)


def _frozen_commits() -> dict[str, str]:
    """Return the commits named in tests/campaigns/base_commit.txt by purpose (`base`, `crossings`)."""
    lines = (ROOT / "tests" / "campaigns" / "base_commit.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


def _same() -> None:
    """Compare results for a part of the fixtures and recorded cases with those of the commits named in
    tests/campaigns/base_commit.txt, which are set up below `.cache`. Raises `DevError` if results differ or a setup
    fails. If this checkout does not have a commit, nothing is compared, and a line says so.
    """
    commits = _frozen_commits()
    for commit in commits.values():
        command = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
        if subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode:
            print(f"not compared with commit {commit}: this checkout does not have it")
            return
    options = "--every", "40", "--random", "20", "--crossings", "6", "--changes", "4"
    _compare_with(commits["base"], commits["crossings"], *options)


def _installed_commit(name: str) -> Path:
    """Return the folder below `.cache` with the tree of a commit (any name that git knows), set up with an environment
    of its own. The tree is extracted once; its `dev.py setup` runs each time. Raises `DevError` if there is no such
    commit or the setup fails.
    """
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{name}^{{commit}}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode:
        raise DevError(f"there is no commit {name}")
    tree = CACHE / "same" / found.stdout.strip()
    if not tree.is_dir():
        archive = subprocess.run(["git", "archive", found.stdout.strip()], cwd=ROOT, capture_output=True, check=True)
        part = tree.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(part)], input=archive.stdout, check=True)
        part.rename(tree)
    _call([sys.executable, str(tree / "dev.py"), "setup"])
    return tree


def bench() -> None:
    """Run every program of benchmarks/"""
    _ensure_venv()
    programs = sorted((ROOT / "benchmarks").glob("*.py"))
    _run_all({path.stem: partial(_call, [_python(), str(path)]) for path in programs})


def wheel() -> None:
    """Build sdist and wheel, check what they hold, and run the wheel alone outside the checkout"""
    _ensure_venv()
    _run_all({"wheel": _wheel})


def bundle() -> None:
    """Pack the command into one file for this platform and Python, and run that alone"""
    _ensure_venv()
    _run_all({"bundle": _bundle})


def release() -> None:
    """Pack the command with a Python of its own into one file for Linux on x86-64, and run that"""
    _ensure_venv()
    _run_all({"release": _release})


def ci() -> None:
    """Run recorded cases, comparisons, builds; then interop, sweep, new examples until 45 minutes after the start"""
    started = float(os.environ.get(STARTED) or time.time())
    setup()
    os.environ["KAFKALOG_SWEEP"] = "ci"
    os.environ["KAFKALOG_BROWSER"] = "required"  # a browser that is missing is a failure here, not a reason to skip
    os.environ.setdefault("KAFKALOG_INTEROP_CASES", "200")
    os.environ.setdefault("KAFKALOG_TRIAGE_CUTS", "1")
    minutes = float(os.environ.get("KAFKALOG_CI_MINUTES", CI_MINUTES))
    within = partial(_within, started + minutes * 60)
    _run_all({
        "recorded": _recorded,
        "same": _same,
        "sanitized": partial(_sanitized, 1_500),
        "without": _without_library,
        "aarch64": _aarch64,
        "wheel": _wheel,
        "bundle": _bundle,
        "interop": partial(within, 0.6, _interop),
        "sweep": partial(within, 0.7, _sweep),
        "new examples": partial(within, 1.0, _new_examples),
    })  # fmt: skip


COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__: command
    for command in (
        setup, demo, test, lint, types, sweep, interop, trials, native, same, bench, wheel, bundle, release, ci,
    )
}


def main(arguments: Sequence[str]) -> int:
    """Run one command. Without arguments, or for `help`, print the list of commands. Return the exit code. It is 0 for
    success, 1 for a failed step or a Python that is too old, and 130 after Ctrl-C. It is 64 for an unknown command, or
    for arguments of a command that takes none. Errors are printed to stderr.
    """
    if sys.version_info[:2] < OLDEST_PYTHON:
        found = ".".join(str(part) for part in sys.version_info[:3])
        print(f"kafkalog needs Python 3.11 or later; this is {found}: run dev.py with a newer one", file=sys.stderr)
        return 1
    if list(arguments) in ([], ["help"], ["-h"], ["--help"]):
        print("python3 dev.py COMMAND\n")
        for name, command in COMMANDS.items():
            print(f"  {name:<8} {command.__doc__}")
        return 0
    takes_options = arguments[0] in (trials.__name__, same.__name__)
    if (len(arguments) != 1 and not takes_options) or arguments[0] not in COMMANDS:
        print(f"dev.py: no such command: {' '.join(arguments)}; see python3 dev.py help", file=sys.stderr)
        return 64
    try:
        COMMANDS[arguments[0]](*arguments[1:])
    except DevError as stop:
        print(f"dev.py {arguments[0]}: {stop}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


# --- checks ---------------------------------------------------------------------------------------------------------


def _lint(venv: Path = VENV) -> None:
    _call([str(venv / "bin" / "ruff"), "check", "."])
    _call([str(venv / "bin" / "lint-imports"), "--no-logo"], PYTHONPATH=str(ROOT / "src"))


def _linters() -> Path:
    """Return the path of a virtual environment in `.cache` that holds only the linters; it is 1 GB smaller than
    `.venv`. If it is missing, or was made from another requirements/dev.txt, it is made anew. Raises `DevError` if the
    installation fails.
    """
    venv = CACHE / "lint"
    stamp, pinned = venv / "kafkalog-stamp", REQUIREMENTS / "dev.txt"
    wanted = hashlib.sha256(pinned.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return venv
    shutil.rmtree(venv, ignore_errors=True)
    uv = shutil.which("uv")
    _make_venv(uv, venv)
    install = _installer(uv, venv)
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(_requirements_of(pinned.read_text(encoding="utf-8"), LINTERS))
        file.flush()
        _step("installing the linters", [*install, "--require-hashes", "-r", file.name])
    stamp.write_text(wanted, encoding="utf-8")
    return venv


def _requirements_of(text: str, names: Sequence[str]) -> str:
    """The entries of a requirements file for these packages, with their hashes."""
    entries = re.split(r"\n(?=[a-z])", text)
    return "\n".join(each for each in entries if each.partition("==")[0] in names) + "\n"


def _types() -> None:
    _call([_python(), "-m", "mypy"])
    programs = {path for pattern in TYPED_PROGRAMS for path in ROOT.glob(pattern)}
    names = sorted(str(path.relative_to(ROOT)) for path in programs)
    _call([_python(), "-m", "mypy", "--explicit-package-bases", *names])  # tests of several rooms have one name


class _Compiling:
    """Compiles the tests in a process of its own; otherwise each of several workers would compile them all."""

    def __init__(self) -> None:
        collect, unseen = [_python(), "-m", "pytest", "--collect-only", "-q"], subprocess.DEVNULL
        self._process = subprocess.Popen(collect, cwd=ROOT, env=environment(), stdout=unseen, stderr=unseen)

    def wait(self) -> None:
        """Wait until it is done.  An error is left to the run of the tests, which has it again."""
        self._process.wait()


def _pytest(compiling: _Compiling) -> None:
    compiling.wait()
    expression = "not sweep and not interop and not recorded"
    if find_java(os.environ) is None:
        expression += " and not java"
    with ExitStack() as stack:
        if "TMPDIR" not in os.environ and has_room_in_memory(MEMORY, MEMORY_FACTS):
            os.environ["TMPDIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkalog-", dir=MEMORY))
            stack.callback(os.environ.pop, "TMPDIR", None)
            os.chmod(os.environ["TMPDIR"], 0o755)  # tests that become another user must reach what is below it
        # each worker has half of the files, and what a file starts or unpacks is not started twice
        _call([_python(), "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", expression])


def has_room_in_memory(place: Path, facts: Path) -> bool:
    """Whether tests may write to a file system in memory, mounted at `place`: they make and remove a million small
    files, 400 MiB at most. False if `place` cannot be written, or if it or the memory has too little room.

    `facts` is the file with Linux's memory figures (/proc/meminfo); the result is False if it cannot be read.
    """
    try:
        available = re.search(r"^MemAvailable: +(\d+) kB$", facts.read_text(encoding="ascii"), re.MULTILINE)
        free = shutil.disk_usage(place).free
    except (OSError, ValueError):
        return False
    if available is None or not os.access(place, os.W_OK):
        return False
    return free >= ROOM_BYTES and int(available[1]) << 10 >= 2 * ROOM_BYTES


def _within(end: float, share: float, campaign: Callable[[], None]) -> None:
    """Run a campaign with `share` (0 to 1) of the time left until `end` (seconds since 1970). While it runs, the
    environment variable `UNTIL` tells its tests when to stop (seconds since 1970); afterwards the variable is removed.
    If no time is left, nothing is run, and a line says so.
    """
    seconds = (end - time.time()) * share
    if seconds <= 0:
        print("left out, the time is up", flush=True)
        return
    print(f"new tests begin for {seconds / 60:.1f} minutes", flush=True)
    os.environ[UNTIL] = str(time.time() + seconds)
    try:
        campaign()
    finally:
        del os.environ[UNTIL]


def _recorded() -> None:
    _call_marked("recorded and not sweep and not interop", "-n", "2", "--dist", "worksteal")


def _sweep() -> None:
    _call_marked("sweep", "-n", "2")


def _new_examples() -> None:
    os.environ["KAFKALOG_EXAMPLES"] = "new"
    _call_marked("hypothesis and not sweep and not interop and not recorded", "-n", "2")


def _interop() -> None:
    sentences = missing_tools(os.environ)
    if sentences:
        raise DevError("; ".join(sentences))
    os.environ["KAFKALOG_INTEROP"] = "required"  # Kafka that cannot be had is a failure here, not a reason to skip
    # what one file starts is not started twice, and the order is by chance: other files are left out another time
    _call_marked("interop", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")


def _campaign(program: str, *options: str) -> None:
    sentences = missing_tools(os.environ)
    if sentences:
        raise DevError("; ".join(sentences))
    variables = {**environment(), "PYTHONPATH": str(ROOT / "tests" / "support")}
    command = [_python(), f"tests/campaigns/{program}", *options]
    code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    if code != 0:
        raise DevError(f"{program} ended with {code}")


def _call_marked(marker: str, *options: str) -> None:
    code = _code([_python(), "-m", "pytest", *options, "-m", marker])
    if code == _NOTHING_COLLECTED:
        raise DevError(f"no test is marked {marker}, so nothing was checked")
    if code != 0:
        raise DevError(f"pytest -m {marker} ended with {code}")


def _run_all(steps: Mapping[str, Callable[[], None]]) -> None:
    """Run every step in order, even after one has failed, and print the name of each. A step fails by raising
    `DevError`, which is printed to stderr. At the end, raises `DevError` with the names of the failed steps, if any.
    """
    failed = []
    for name, step in steps.items():
        print(f"--- {name}", flush=True)
        try:
            step()
        except DevError as stop:
            print(f"{name}: {stop}", file=sys.stderr, flush=True)
            failed.append(name)
    if failed:
        raise DevError(f"failed: {', '.join(failed)}")


# --- the wheel ------------------------------------------------------------------------------------------------------


def _wheel() -> None:
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as temporary:
        sdist, wheels = _built(Path(temporary))
        _try_alone(_wheel_of_here(wheels), Path(temporary))
        dist.mkdir(exist_ok=True)
        for path in (sdist, *wheels.values()):
            shutil.copy(path, dist / path.name)
            print(f"dist/{path.name}: {path.stat().st_size} bytes")


def _wheel_of_here(wheels: Mapping[str, Path]) -> Path:
    """The wheel for this machine.  Raises `DevError` if there is none."""
    for platform, archive in wheels.items():
        if platform.endswith(os.uname().machine):
            return archive
    raise DevError(f"there is no wheel for {os.uname().machine}")


def _built(temporary: Path) -> tuple[Path, dict[str, Path]]:
    """Build a source distribution, and a wheel for each platform, below `temporary`, and check their contents. Return
    the path of the source distribution, and a dict of the wheels' paths by platform. Installs Zig, a C compiler for all
    platforms, into `.venv`. Raises `DevError` if a build fails or contents are wrong.
    """
    built, sources = temporary / "dist", temporary / "sources"
    build = [_python(), "-m", "build", "--no-isolation", "--outdir", str(built)]
    _step("building sdist", [*build, "--sdist", str(ROOT)])
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(sources, filter="data")
    (tree,) = sources.iterdir()
    _install_zig()
    for platform in WHEELS:
        _step(f"building the wheel for {platform}", [*build, "--wheel", str(tree)], KAFKALOG_PLATFORM=platform)
    problems = sdist_problems(sdist, ROOT)
    for archive in built.glob("*.whl"):
        problems += wheel_problems(archive, ROOT)
        with zipfile.ZipFile(archive) as packed_wheel:
            if "kafkalog/codec/native/libkafkalog.so.1" not in packed_wheel.namelist():
                problems.append(f"{archive.name} holds no compiled code")
    if problems:
        raise DevError("; ".join(problems))
    return sdist, {platform: next(built.glob(f"*-{platform}.whl")) for platform in WHEELS}


def _pinned(archive: Path, temporary: Path) -> list[str]:
    """Return the arguments of pip that install a wheel and its own dependencies, all of them pinned and hashed."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    wanted = temporary / "alone.txt"
    wanted.write_text(f"kafkalog @ {archive.as_uri()} --hash=sha256:{digest}\n", encoding="utf-8")
    return ["--require-hashes", "--constraint", str(REQUIREMENTS / "dev.txt"), "--requirement", str(wanted)]


def package_sources(root: Path) -> dict[str, Path]:
    """Return every source file that an installation must hold, as a dict: path inside the package -> file below `root`.
    Files are found by listing the folders. `py.typed` is always included, even if it is missing.
    """
    sources = {"kafkalog/py.typed": root / "src" / "kafkalog" / "py.typed"}
    folders = [(f"kafkalog/{room}", root / room) for room in ROOMS]
    folders += [(marker.parent.name, marker.parent) for marker in sorted((root / "src").glob("*/__init__.py"))]
    for name, folder in folders:
        for path in (path for pattern in ("*.py", "*.pyi", "schemas/*", "page/*") for path in folder.rglob(pattern)):
            sources[f"{name}/{path.relative_to(folder).as_posix()}"] = path
    return sources


def wheel_problems(archive: Path, root: Path) -> list[str]:
    """Return one sentence for each fault of a wheel; empty if it is right. A source file of `root` that is missing or
    different is a fault. So are other pages of the manual than in `docs/man`, and an unexpected name at the wheel's
    top.
    """
    with zipfile.ZipFile(archive) as stored:
        names = set(stored.namelist())
        contents = {name: stored.read(name) for name in names if name.endswith(_COMPARED)}
    problems = _source_problems("the wheel", contents, names, root, prefix="")
    manual = {name for name in names if name.partition("/")[2].startswith("data/share/man/")}
    pages = {path.name for path in (root / "docs" / "man").glob("*.1")}
    if {name.rpartition("/")[2] for name in manual} != pages:
        problems.append(f"the wheel holds {len(manual)} pages of the manual, and there are {len(pages)}")
    tops = {name.partition("/")[0] for name in names - manual}
    wanted = {name.partition("/")[0] for name in package_sources(root)}
    for top in sorted(tops - wanted):
        if not top.endswith(".dist-info"):
            problems.append(f"the wheel holds {top} at its top")
    return problems


def sdist_problems(archive: Path, root: Path) -> list[str]:
    """Return one sentence for each fault of a source distribution: a source file of `root` that is missing, different,
    or only a link. Empty if it is right.
    """
    top = archive.name.removesuffix(".tar.gz")
    names = set()
    contents = {}
    with tarfile.open(archive) as stored:
        for member in stored:
            stream = stored.extractfile(member) if member.isreg() else None
            if stream is not None:
                names.add(member.name)
                contents[member.name] = stream.read()
    return _source_problems("the sdist", contents, names, root, prefix=f"{top}/src/")


def _source_problems(what: str, contents: Mapping[str, bytes], names: set[str], root: Path, prefix: str) -> list[str]:
    problems = []
    for name, path in sorted(package_sources(root).items()):
        if prefix + name not in names:
            problems.append(f"{what} lacks {name}")
        elif contents.get(prefix + name, path.read_bytes()) != path.read_bytes():
            problems.append(f"{what} holds another {name}")
    return problems


def _try_alone(archive: Path, temporary: Path) -> None:
    """Install only the wheel `archive` and its own dependencies into a new environment below `temporary`. Check that
    kafkalog is imported from there and loads its compiled library. Then run `kafkalog --version` and `kafkalog --help`
    outside the checkout. Raises `DevError` if a step fails.
    """
    environment = temporary / "alone"
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    _step("making an environment outside the checkout", [_python(), "-m", "venv", "--without-pip", str(environment)])
    pip = [_python(), "-m", "pip", "--python", str(environment / "bin" / "python")]
    _step("installing the wheel alone", [*pip, "install", *_pinned(archive, temporary)])
    where = (
        "import kafkalog, sys; from kafkalog.codec.native.library import library; library(); "
        "sys.exit(not kafkalog.__file__.startswith(sys.prefix))"
    )
    command = str(environment / "bin" / "kafkalog")
    for arguments in ([str(environment / "bin" / "python"), "-c", where], [command, "--version"], [command, "--help"]):
        _step(f"running {Path(arguments[0]).name} {arguments[1]}", arguments, folder=elsewhere)


# --- one file -------------------------------------------------------------------------------------------------------

_PREAMBLE = """import sys, sysconfig
found = (sys.implementation.name, *sys.version_info[:2], sysconfig.get_platform())
if found != {wanted!r}:
    sys.exit("kafkalog: this file is for {name}; this is {{}} {{}}.{{}} on {{}}".format(*found))
"""

_FIRST = """import os, sys
try:
    from _bootstrap import bootstrap
    bootstrap()
except (OSError, RuntimeError) as error:
    place = os.environ.get("SHIV_ROOT") or "~/.shiv"
    why = getattr(error, "strerror", None) or error
    sys.stderr.write(f"kafkalog: this file cannot unpack itself into {place}: {why}; set SHIV_ROOT to a directory "
                     "that you may write to\\n")
    sys.exit(4)
"""


def _with_first(made: Path, program: str) -> None:
    """Replace `__main__.py`, which Python runs first, in the packed file `made` by the text `program`. The file keeps
    its first line (the interpreter), its other entries and its mode. It is written under another name beside it first,
    and then renamed.
    """
    other = made.with_suffix(".other")
    with made.open("rb") as packed, other.open("wb") as file:
        file.write(packed.readline())  # the line that names the interpreter
        with zipfile.ZipFile(packed) as before, zipfile.ZipFile(file, "a") as after:
            for entry in before.infolist():
                data = program.encode() if entry.filename == "__main__.py" else before.read(entry)
                after.writestr(entry, data, entry.compress_type)
    other.chmod(made.stat().st_mode)
    other.replace(made)


def _bundle() -> None:
    """Pack the command and its dependencies into one file, run it in an environment without them, copy it to `dist`,
    and print its size. Builds all wheels first, as `_built` does. Raises `DevError` if a step fails.
    """
    show = "import sys, sysconfig; print(sys.implementation.name, *sys.version_info[:2], sysconfig.get_platform())"
    implementation, major, minor, platform = _output([_python(), "-c", show]).split()
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as temporary:
        archive = _wheel_of_here(_built(Path(temporary))[1])
        site = Path(temporary) / "site"
        install = [_python(), "-m", "pip", "install", "--target", str(site), *_pinned(archive, Path(temporary))]
        _step("installing the wheel and what it needs", install)
        preamble = Path(temporary) / "preamble.py"
        wanted = (implementation, int(major), int(minor), platform)
        name = f"{implementation} {major}.{minor} on {platform}"
        preamble.write_text(_PREAMBLE.format(wanted=wanted, name=name), encoding="utf-8")
        version = archive.name.split("-")[1]
        made = Path(temporary) / f"kafkalog-{version}-{implementation}-{major}.{minor}-{platform}.pyz"
        _step("packing one file", [
            _tool("shiv"), "--site-packages", str(site), "--entry-point", "kafkalog.__main__:main", "--reproducible",
            "--compressed", "--python", f"/usr/bin/env python{major}.{minor}", "--preamble", str(preamble),
            "--output-file", str(made),
        ])  # fmt: skip
        _with_first(made, _FIRST)
        _step("trying it alone", [_python(), str(ROOT / "tests" / "support" / "try_bundle.py"), str(made)])
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        shutil.copy(made, dist / made.name)
        print(f"dist/{made.name}: {made.stat().st_size} bytes")


def _release() -> None:
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as temporary:
        archive = _wheel_of_here(_built(Path(temporary))[1])
        pinned = _pinned(archive, Path(temporary))
        _call([_python(), str(ROOT / "release" / "one_file.py"), str(archive), *pinned])


def _output(command: Sequence[str]) -> str:
    """Run a program and return what it prints."""
    answer = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if answer.returncode != 0:
        raise DevError(f"{command[0]} ended with {answer.returncode}: {answer.stderr.strip()}")
    return answer.stdout


# --- the environment ------------------------------------------------------------------------------------------------


def _ensure_venv() -> None:
    stamp = VENV / "kafkalog-stamp"
    wanted = _stamp()
    if _is_up_to_date():
        print(f"setup: .venv is up to date (Python {sys.version.split()[0]})")
        _compile()
        return
    uv = shutil.which("uv")
    stamp.unlink(missing_ok=True)
    print(f"setup: making .venv with {'uv' if uv else 'venv and pip'}; the first time takes about a minute", flush=True)
    if not _venv_works():
        _make_venv(uv, VENV)
    install = _installer(uv, VENV)
    build, dev = str(REQUIREMENTS / "build.txt"), str(REQUIREMENTS / "dev.txt")
    _step("installing the build tools", [*install, "--require-hashes", "-r", build])
    _step("installing what kafkalog uses (1 GB unpacked, most of it pyspark)",
          [*install, "--no-build-isolation", "--require-hashes", "-r", dev])  # fmt: skip
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        _install_zig()
    _step("installing kafkalog itself", [*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    _compile()
    stamp.write_text(wanted, encoding="utf-8")


def _install_zig() -> None:
    """Install the C compiler that is a package, which also builds for other machines; 100 MB."""
    zig = [*_installer(shutil.which("uv"), VENV), "--require-hashes", "-r", str(REQUIREMENTS / "zig.txt")]
    _step("installing a C compiler (ziglang)", zig)


def _compile() -> None:
    """Build the compiled code if its sources have changed; without a compiler a sentence says so."""
    _call([_python(), str(ROOT / "release" / "native.py")])


def _is_up_to_date() -> bool:
    stamp = VENV / "kafkalog-stamp"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == _stamp() and Path(_python()).exists()


def _stamp() -> str:
    digest = hashlib.sha256(f"{VENV} {sys.version}".encode())
    for path in (REQUIREMENTS / "build.txt", REQUIREMENTS / "dev.txt", ROOT / "pyproject.toml", ROOT / "setup.py"):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest() + "\n"


def _venv_works() -> bool:
    """Whether `.venv` has a Python of the running version (all three numbers) that starts and belongs to this place: a
    copied or moved `.venv` does not. Starts that Python.
    """
    if not Path(_python()).exists():
        return False
    show = "import sys; print(sys.version_info[:3] , sys.prefix)"
    answer = subprocess.run([_python(), "-c", show], capture_output=True, text=True, env=environment(), check=False)
    return answer.returncode == 0 and answer.stdout.split() == f"{sys.version_info[:3]} {VENV}".split()


def _make_venv(uv: str | None, venv: Path) -> None:
    if uv is None:
        why_not = venv_sentence()
        if why_not is not None:
            raise DevError(why_not)
    if venv.exists():
        if not (venv / "pyvenv.cfg").is_file():
            raise DevError(f"{venv.name} is in the way and is not a virtual environment; move it aside")
        shutil.rmtree(venv)
    command = [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    _step(f"making {venv.name}", [*command, str(venv)])


def _installer(uv: str | None, venv: Path) -> list[str]:
    """The beginning of a command that installs into a virtual environment."""
    python = str(venv / "bin" / "python")
    return [uv, "pip", "install", "--quiet", "--python", python] if uv else [python, "-m", "pip", "install"]


def venv_sentence() -> str | None:
    """Return a sentence that says what to install if this Python cannot make a virtual environment; None if it can."""
    if importlib.util.find_spec("venv") is not None and importlib.util.find_spec("ensurepip") is not None:
        return None
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return (
        "this Python lacks the modules that make a virtual environment; "
        f"on Debian and Ubuntu install the package python{version}-venv (elsewhere, putting uv on PATH will do)"
    )


def environment() -> dict[str, str]:
    """Return the environment for every program started here, as a copy. `.venv` is first on PATH, and its Python is set
    for PySpark. JAVA_HOME is set if a suitable Java with a file `release` is found, otherwise left as it is;
    KAFKALOG_PROGRESS is 1. Variables that lead Python or pip elsewhere, or keep Python from storing bytecode, are
    removed. Starts the Java programs found to learn their versions.
    """
    values = dict(os.environ)
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX"):
        values.pop(name, None)
    values.pop("PYTHONDONTWRITEBYTECODE", None)  # images set it; every process of the tests would compile all sources
    values["VIRTUAL_ENV"] = str(VENV)
    values["PATH"] = os.pathsep.join([str(VENV / "bin"), values.get("PATH", os.defpath)])
    values["PYSPARK_PYTHON"] = values["PYSPARK_DRIVER_PYTHON"] = _python()
    values["KAFKALOG_PROGRESS"] = "1"
    java = find_java(os.environ)
    if java is not None and (java.parents[1] / "release").is_file():
        values["JAVA_HOME"] = str(java.parents[1])
    return values


def _python() -> str:
    return _tool("python")


def _tool(name: str) -> str:
    return str(VENV / "bin" / name)


# --- Java and Maven -------------------------------------------------------------------------------------------------


def parse_java_version(text: str) -> int | None:
    """Return the major version from what ``java -version`` prints (8 for 1.8), or None if it says none."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def find_java(variables: Mapping[str, str]) -> Path | None:
    """Return the java of JAVA_HOME, or the first one on PATH if that is missing or older than `OLDEST_JAVA`, with links
    resolved; None if this one is missing or older too. They are started to learn their versions, which are cached.
    """
    for candidate in _java_candidates(variables):
        version = _java_version(candidate)
        if version is not None and version >= OLDEST_JAVA:
            return candidate
    return None


def _java_candidates(variables: Mapping[str, str]) -> list[Path]:
    candidates = []
    if variables.get("JAVA_HOME"):
        candidates.append(Path(variables["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java", path=variables.get("PATH", ""))
    if on_path is not None:
        candidates.append(Path(on_path))
    return [candidate.resolve() for candidate in candidates if candidate.is_file()]


@lru_cache(maxsize=8)
def _java_version(java: Path) -> int | None:
    try:
        answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def missing_tools(variables: Mapping[str, str]) -> list[str]:
    """Return one sentence for each missing tool (a JDK with its compiler, Maven), with the tests that are then not run;
    empty if all are there. `variables` are environment variables. Starts the Java programs found to learn their
    versions.
    """
    sentences = []
    java = find_java(variables)
    if java is None:
        older = [version for version in map(_java_version, _java_candidates(variables)) if version is not None]
        found = f"only Java {older[0]} was found, a JDK {OLDEST_JAVA}" if older else f"a JDK {OLDEST_JAVA}"
        sentences.append(f"{found} or later is missing (JAVA_HOME, PATH): Spark and real Kafka are not run")
    elif not (java.parent / "javac").exists():
        sentences.append(f"the Java found has no compiler, a JDK {OLDEST_JAVA} is missing: real Kafka is not run")
    if shutil.which("mvn", path=variables.get("PATH", "")) is None:
        sentences.append("Maven (mvn) is missing from PATH: real Kafka is not run")
    return sentences


def missing_browser(variables: Mapping[str, str]) -> list[str]:
    """Return the sentence that says what is not run without a browser; nothing where there is one."""
    if any(shutil.which(name, path=variables.get("PATH", "")) for name in BROWSERS):
        return []
    return ["Chromium is missing from PATH: the page of `kafkalog report` is not tried in a browser"]


# --- running programs -----------------------------------------------------------------------------------------------


def _call(command: Sequence[str], **variables: str) -> None:
    """Run a program at the top of the checkout, its output shown."""
    code = _code(command, **variables)
    if code != 0:
        raise DevError(f"{Path(command[0]).name} {' '.join(command[1:3])} ended with {code}")


def _code(command: Sequence[str], **variables: str) -> int:
    sys.stdout.flush()
    try:
        return subprocess.run(command, cwd=ROOT, env={**environment(), **variables}, check=False).returncode
    except OSError as error:
        raise DevError(f"{command[0]} cannot be started: {error}") from error


def _step(label: str, command: Sequence[str], folder: Path = ROOT, **variables: str) -> None:
    """Run a program in `folder` with `variables` added to the environment, and print its label and its time. If it
    fails, its output is written to stderr and `DevError` raised; otherwise its output is dropped. The program is
    terminated if this one is interrupted. Raises `OSError` if it cannot be started.
    """
    terminal = sys.stdout.isatty()
    started = shown = time.monotonic()
    print(f"  {label} ...", end="" if terminal else "\n", flush=True)
    with tempfile.TemporaryFile() as output:
        settings = {**environment(), **variables}
        process = subprocess.Popen(command, cwd=folder, env=settings, stdout=output, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    process.wait(_REFRESH_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    pass
                now = time.monotonic()
                if terminal:
                    print(f"\r  {label} ... {now - started:.0f} s", end="", flush=True)
                elif now - shown >= _PLAIN_REFRESH_SECONDS:
                    shown = now
                    print(f"  {label} ... {now - started:.0f} s so far", flush=True)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        print(f"{chr(13) if terminal else ''}  {label}: {time.monotonic() - started:.1f} s", flush=True)
        if process.returncode != 0:
            output.seek(0)
            sys.stderr.write(output.read().decode("utf-8", "replace"))
            raise DevError(f"{label} failed with exit code {process.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
