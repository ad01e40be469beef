"""Session-wide checks: no test runs on fixtures that are missing or changed; comparisons are counted at the end.

Kafka itself runs in one JVM for a version and session.  Where it cannot be had, the tests that need it are skipped with
one line that says why; `KAFKALOG_INTEROP=required` makes that a failure.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from testkit.kafka import kafka_jars
from testkit.kafka.kafka_needed import kafka_needed
from testkit.kafka.kafka_oracle import KafkaOracle
from testkit.running import time_limit
from testkit.running.examples import examples
from testkit.running.progress import ProgressLine
from testkit.running.shares import leave_to_recorded

# Everybody's `make test` examines the same examples, and few; `dev.py sweep` examines new ones too.  How long one takes
# is no matter: the first may have to compile.
settings.register_profile("same examples", examples(100), derandomize=True, database=None, deadline=None)
settings.register_profile("new examples", deadline=None)
settings.load_profile("new examples" if os.environ.get("KAFKALOG_EXAMPLES") == "new" else "same examples")

# Short programs: a JVM that compiles once, and not twice with two threads of its own, leaves them a third of the time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
_SPARK_TESTS, _INTEROP_TESTS = (Path(__file__).resolve().parent / name for name in ("spark", "interop"))
_SPARK_FOR_EVERYBODY = "test_source.py"
_SHOWN = 5
_OBJECTS = 250_000
_COMPARED = "compared with Kafka: "
_MEASURED = "measured: "


def fixture_problems(root: Path) -> list[str]:
    """Return what is wrong below ``root``, as its own check.py sees it."""
    program = root / "check.py"
    if not program.is_file():
        return ["fixtures/check.py is missing"]
    problems: list[str] = runpy.run_path(str(program))["check"](root)
    return problems


def pytest_configure(config: pytest.Config) -> None:
    """Add what a campaign with a limited time asks for, and a line of progress where dev.py shows the run."""
    limit = time_limit.from_environment()
    if limit is not None:
        config.pluginmanager.register(limit)
    if os.environ.get("KAFKALOG_PROGRESS") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ProgressLine(workers=config.getoption("numprocesses", None) or 1))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Fail the whole session with one sentence when a fixture is not what the manifest says."""
    if hasattr(session.config, "workerinput"):  # xdist: the controller has looked already
        return
    problems = fixture_problems(_FIXTURES)
    if problems:
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise pytest.UsageError(
            "the fixtures are not what fixtures/MANIFEST.sha256 lists, so no test result would mean anything: "
            + "; ".join(problems[:_SHOWN])
            + more
        )


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark what needs Java, or Kafka itself, before ``-m`` selects: a machine without deselects by ``-m "not java"``.

    Those come first, in whatever order, so that one of several workers has them all, and starts each JVM once; of the
    tests of Spark a file stays in `dev.py test`.
    """
    leave_to_recorded(items)
    for item in items:
        if _SPARK_TESTS in item.path.parents:
            item.add_marker(pytest.mark.java)
            if item.path.name != _SPARK_FOR_EVERYBODY:
                item.add_marker(pytest.mark.interop)
        elif _INTEROP_TESTS in item.path.parents or "kafka_of" in _fixtures(item):
            item.add_marker(pytest.mark.interop)
    yield
    items.sort(key=lambda item: item.get_closest_marker("java") is None and "kafka_of" not in _fixtures(item))


def pytest_collection_finish() -> None:
    """Spare the garbage collector ten thousand tests and what they were made of, which stay until the end.

    What tests make is searched as seldom as what the `kafkalog` command makes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS)


def _flushed(descriptor: int) -> None:
    """Refuse what `os.fsync` refuses: a descriptor that is closed, or that is good for a name alone."""
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_PATH:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


@pytest.fixture(scope="session", autouse=True)
def flushing_takes_no_time() -> Iterator[None]:
    """Spare the disk the flushes of this process: nothing here loses power, so no test can see whether they were done.

    What a test can see stays: that a flush is asked for, of which file, in which order, and what follows when it fails;
    such tests put themselves in front of `os.fsync`.  Processes that tests start flush.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _flushed)
        yield


def oracle_of(version: str) -> KafkaOracle:
    with kafka_needed():
        kafka_jars.setup(version)
    return KafkaOracle(version)


@pytest.fixture(scope="session")
def kafka_of() -> Iterator[Callable[[str], KafkaOracle]]:
    """The oracle of a version, started at the first request and shared by all tests."""
    oracles: dict[str, KafkaOracle] = {}

    def of(version: str) -> KafkaOracle:
        if version not in oracles:
            oracles[version] = oracle_of(version)
        return oracles[version]

    yield of
    for oracle in oracles.values():
        oracle.close()


@pytest.fixture(scope="session")
def kafka(kafka_of: Callable[[str], KafkaOracle]) -> KafkaOracle:
    """Kafka 4.1.0, the version the recovery cases were recorded with."""
    return kafka_of("4.1.0")


@pytest.fixture
def compared(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Return a function to note that so many of something were compared with what Kafka itself read or printed."""

    def note(what: str, count: int) -> None:
        record_property(_COMPARED + what, count)

    return note


@pytest.fixture
def measured(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Return a function to note a figure that Kafka has no part in."""

    def note(what: str, figure: int) -> None:
        record_property(_MEASURED + what, figure)

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each kind of comparison; what failed does not count."""
    total: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, count in report.user_properties:
            if name.startswith((_COMPARED, _MEASURED)):
                total[name] += count
    for name, count in sorted(total.items()):
        terminalreporter.write_line(f"{name}: {count}")
    sentence = time_limit.left_out(terminalreporter.stats.get("skipped", []))
    if sentence is not None:
        terminalreporter.write_line(sentence)
