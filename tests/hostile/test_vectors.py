"""Hostile bytes end in a finding or an error of ours, without hanging, in a gigabyte of address space.

All are read in one process whose memory is limited; what the slowest takes, in processor time, is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkalog.codec import decode_batch, scan
from kafkalog.codec.plain.decoding import PLAIN
from kafkalog.codec.rules.execution import Execution
from testkit.judging.reference_execution import REFERENCE
from testkit.made.hostile_vectors import vectors

SUPPORT = Path(__file__).resolve().parents[1] / "support"
SOURCES = Path(__file__).resolve().parents[2] / "src"
GIB_IN_KIB = 1 << 20
HANGS_FOR_GOOD = 1200
"""Seconds after which a loop in compiled code, which no signal reaches, ends the whole run."""
SMALL = 4096
VECTORS = vectors()


def run() -> dict[str, dict[str, Any]]:
    """The result of each vector, by name."""
    environment = dict(os.environ) | {"PYTHONPATH": f"{SOURCES}{os.pathsep}{SUPPORT}"}
    finished = subprocess.run(
        [sys.executable, str(SUPPORT / "hostile_run.py")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=HANGS_FOR_GOOD,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    return {line["name"]: line for line in lines}


@pytest.mark.sweep
def test_each_vector_ends_as_it_must_without_hanging_and_in_little_memory(measured: Callable[[str, int], None]) -> None:
    results = run()
    assert {name: result["verdict"] for name, result in results.items()} == {
        vector.name: vector.verdict for vector in VECTORS
    }
    assert len(VECTORS) >= 150
    assert max(result["peak_kib"] for result in results.values()) < GIB_IN_KIB
    slowest = max(result["seconds_a_mib"] for result in results.values())
    measured("hostile input: ms of processor time a MiB, the slowest of all vectors", round(slowest * 1000))


def seen(data: bytes, execution: Execution) -> object:
    """Everything that scanning and decoding say: batches, records, codes, positions, words."""
    result = scan(data, base_offset=0, execution=execution)
    return result, [decode_batch(batch, execution=execution) for batch in result.batches]


def test_both_executions_say_the_same_of_every_small_vector() -> None:
    small = [
        vector for vector in VECTORS if vector.reader == "segment" and not vector.unpacked and "MiB" not in vector.name
    ]
    compared = 0
    for vector in small:
        data = vector.make()
        if len(data) <= SMALL:
            assert seen(data, REFERENCE) == seen(data, PLAIN), vector.name
            compared += 1
    assert compared > 130
