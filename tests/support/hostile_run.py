"""Reads every hostile vector in a process of its own with little memory: prints a JSON line for each.

Run as a program; the address space is limited before the first vector is made.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kafkalog.codec import ControlType, FindingCode, FormatError, decode_batch, scan
from kafkalog.codec.files.fetch_result import decode_message_set_send, decode_multi_message_set_send
from kafkalog.codec.files.index_files import decode_producer_snapshot
from kafkalog.codec.files.kraft import parse_kraft_value
from kafkalog.codec.files.quorum_state import decode_quorum_state
from kafkalog.codec.files.text import (
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_meta_properties,
    decode_offset_checkpoint,
    decode_partition_metadata,
)
from testkit.made.hostile_vectors import FINE, MIB, vectors

ADDRESS_SPACE = 1 << 30
HANGS = 10
"""Seconds of processor time for each MiB after which a reader is stopped: ten times what it may take when nobody
slows the machine down, so that only what does not end is found here; what it does take is printed."""


def segment(data: bytes) -> str:
    """Codes of everything that scanning and decoding find, but gaps."""
    result = scan(data)
    codes = {finding.code for finding in result.findings}
    for batch in result.batches:
        finding = decode_batch(batch).finding
        if finding is not None:
            codes.add(finding.code)
    return ",".join(sorted(codes - {FindingCode.OFFSET_GAP})) or FINE


def parser(parse: Callable[[bytes], object]) -> Callable[[bytes], str]:
    """The code of the error that a parser ends in."""

    def run(data: bytes) -> str:
        try:
            parse(data)
        except FormatError as error:
            return error.code or "error"
        return FINE

    return run


READERS: dict[str, Callable[[bytes], str]] = {
    "segment": segment,
    "snapshot": parser(decode_producer_snapshot),
    "offset checkpoint": parser(decode_offset_checkpoint),
    "leader epochs": parser(decode_leader_epochs),
    "partition.metadata": parser(decode_partition_metadata),
    "meta.properties": parser(decode_meta_properties),
    "clean shutdown": parser(decode_clean_shutdown),
    "quorum-state": parser(decode_quorum_state),
    "fetch result": parser(decode_message_set_send),
    "multi fetch result": parser(decode_multi_message_set_send),
    "voters": parser(lambda data: parse_kraft_value(ControlType.KRAFT_VOTERS, data)),
}


def peak_kib() -> int:
    """The most memory that this program has held: getrusage would count what its parent held before the fork."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def reader_stopped(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"still reading after {HANGS} s of processor time a MiB")


def main() -> None:
    """Read them all, in order."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.signal(signal.SIGPROF, reader_stopped)
    for vector in vectors():
        data = vector.make()
        mib = max(len(data), vector.unpacked, MIB) / MIB
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, HANGS * mib)
        try:
            verdict = READERS[vector.reader](data)
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            verdict = f"{type(error).__name__}: {error}"[:200]
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = (time.process_time() - started) / mib
        line = {"name": vector.name, "verdict": verdict, "seconds_a_mib": seconds, "peak_kib": peak_kib()}
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
