"""Kafka itself as a function: one JVM per version that answers many requests.

    with KafkaOracle("4.1.0") as kafka:
        kafka.recover(directory, {"segment.index.bytes": 1536})  # changes it, as a broker's start and stop do
        kafka.check(directory)["accepted"]                       # on a copy: would Kafka leave it exactly as it is?
        kafka.read(directory)                                    # on a copy: batches, records, look-ups

``params`` are those of the harness's ``LogDirectory`` and ``Recover``: log settings by Kafka's names, ``now_ms`` (the
clock stands still), ``close=0`` (stop after loading), ``load_copy`` (a directory for the state between load and close),
``force_unclean=1`` (check: drop the marker first).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from testkit.kafka import kafka_jars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

Json: TypeAlias = dict[str, Any]

# Beyond what the harness itself allows a request, for the answer to arrive.
GRACE_SECONDS = 20.0
LOGGING = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showThreadName=false")


class OracleError(Exception):
    """Kafka, or the harness around it, threw while answering; ``failure`` is the exception as JSON."""

    def __init__(self, op: str, failure: Json) -> None:
        super().__init__(
            f"{op}: {failure.get('class')}: {failure.get('message')} at {', '.join(failure.get('at', []))}"
        )
        self.failure = failure


class OracleTimeoutError(OracleError):
    """No answer in time. The JVM is gone; the next request starts another."""


class OracleDiedError(OracleError):
    """The JVM ended in the middle of a request. The next request starts another."""


class KafkaOracle:
    """A JVM with one version of Kafka; started by the first request, restarted when it has died."""

    def __init__(self, version: str = "4.1.0", *, heap: str = "700m", timeout: float = 30.0) -> None:
        self.version = version
        self.timeout = timeout
        self.starts = 0
        self._heap = heap
        self._process: subprocess.Popen[bytes] | None = None
        self._id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._reap()
        command = kafka_jars.java(self.version, "interop.Main", heap=self._heap, flags=LOGGING)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}  # a JVM cannot open a file whose name its locale cannot say
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
        )
        self.starts += 1
        return self._process

    def _last_words(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 2000))
        return self._errors.read().decode(errors="replace").strip()

    def ask(self, op: str, *, timeout: float | None = None, **fields: Any) -> Json:
        """One request. OracleError: Kafka threw. OracleTimeoutError, OracleDiedError: there is no answer."""
        seconds = timeout or self.timeout
        self._id += 1
        request = {"id": self._id, "op": op, "timeout_s": max(1, round(seconds)), **fields}
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds + GRACE_SECONDS, expire)
        timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if not line:
            process.wait()
            if expired.is_set():
                raise OracleTimeoutError(op, {"class": "hang", "message": f"no answer within {seconds} s"})
            message = f"exit code {process.returncode}; {self._last_words()}"
            raise OracleDiedError(op, {"class": "JVM died", "message": message})
        answer: Json = json.loads(line)
        if answer["id"] != self._id:
            process.kill()
            message = f"answer {answer['id']} to request {self._id}"
            raise OracleDiedError(op, {"class": "out of step", "message": message})
        if "error" in answer:
            if answer["error"]["class"] == "hang":
                process.wait()
                raise OracleTimeoutError(op, answer["error"])
            raise OracleError(op, answer["error"])
        result: Json = answer["result"]
        return result

    def kafka_version(self) -> str:
        """What the jars themselves say."""
        return str(self.ask("version")["kafka"])

    def recover(self, directory: str | Path, params: Mapping[str, Any] | None = None) -> Json:
        """Load and close a log directory in place. A refused start is a result (``outcome``), not an exception."""
        return self.ask("recover", dir=str(directory), params=dict(params or {}))

    def clean(self, directory: str | Path, params: Mapping[str, Any] | None = None) -> Json:
        """Load a log directory, clean each compacted partition once, close it; in place (Kafka 4.1 and later)."""
        return self.ask("clean", dir=str(directory), params=dict(params or {}))

    def check(self, directory: str | Path, params: Mapping[str, Any] | None = None) -> Json:
        """Whether Kafka leaves a log directory exactly as it is (``accepted``), and if not, what it touches."""
        return self.ask("check", dir=str(directory), params=dict(params or {}))

    def read(self, directory: str | Path, params: Mapping[str, Any] | None = None) -> list[Json]:
        """Every log, batch with records, segment, list of aborted transactions and look-up of a log directory."""
        answer = self.ask("read", timeout=max(self.timeout, 120), dir=str(directory), params=dict(params or {}))
        if "error" in answer:
            raise OracleError("read", answer["error"])
        entries: list[Json] = answer["entries"]
        return entries

    def generate(self, script: Mapping[str, Any]) -> Json:
        """Write one partition directory through Kafka's append path; the script is described in ``Generate.java``."""
        return self.ask("generate", **script)

    def batches(self, buffers: Sequence[bytes]) -> list[Json]:
        """What Kafka's classes read in each buffer; the answer is described in ``DecodeBatches.java``."""
        found: Any = self.ask(
            "batches", timeout=max(self.timeout, 300), buffers=[base64.b64encode(data).decode() for data in buffers]
        )
        return list(found)

    def convert(self, items: Sequence[Mapping[str, Any]]) -> list[Json]:
        """Batches in another message format (Kafka 3.9 only); items and answers as in ``ConvertBatches.java``."""
        coded = [{**item, "data": base64.b64encode(item["data"]).decode()} for item in items]
        found: Any = self.ask("convert", timeout=max(self.timeout, 300), items=coded)
        return [{**each, "data": base64.b64decode(each["data"])} if "data" in each else each for each in found]

    def dump(self, *arguments: str) -> Json:
        """DumpLogSegments: ``stdout``, ``stderr``, ``exit_code``, ``exception`` (where the tool gave up)."""
        return self.ask("dump", args=list(arguments))

    def assign(self, assignor: str, rounds: Sequence[Mapping[str, Any]]) -> list[Json]:
        """One or several rebalances with range, roundrobin, sticky or cooperative-sticky.

        A round is ``{"partitions": {topic: count}, "members": [member, ...]}`` with members
        ``{"id", "topics", "instance", "rack", "owned", "user_data"}``; all but the first two may be left out.
        """
        rounds_made: list[Json] = self.ask("assign", assignor=assignor, rounds=[dict(r) for r in rounds])["rounds"]
        return rounds_made

    def image(self, directory: str | Path, until: int | None = None) -> Json:
        """Kafka's own MetadataImage of a ``__cluster_metadata-0`` directory."""
        return self.ask("image", dir=str(directory), **({} if until is None else {"until": until}))

    def identity(self, directory: str | Path, metadata: str | Path, node: int) -> Json:
        """What a KRaft broker of this node id makes of the `meta.properties` of its log directory (Kafka 4).

        ``outcome``, and where it does not start ``exception`` and ``message``; ``metadata`` is the directory of its
        metadata log.  Both are changed as a broker changes them.
        """
        return self.ask("identity", dir=str(directory), metadata=str(metadata), node=str(node))

    def client(self, verb: str, bootstrap: str, *, timeout: float = 60.0, **fields: Any) -> Json:
        """Kafka's clients of this version against a live broker; the verbs are described in ``Client.java``."""
        return self.ask("client", timeout=timeout, verb=verb, bootstrap=bootstrap, **fields)

    def close(self) -> None:
        """End the JVM."""
        process = self._process
        if process is not None and process.poll() is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self._reap()

    def _reap(self) -> None:
        if self._process is None:
            return
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # what was still to be sent to a dead process
                    stream.close()
        self._errors.close()
        self._process = None
