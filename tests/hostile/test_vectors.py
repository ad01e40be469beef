"""Hostile bytes end in a finding or an error of ours, within a second for each MiB, in a gigabyte of address space.

All are read in one process whose memory is limited; time is the processor's, so that a busy machine does not matter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hostile_vectors import MIB, Vector, vectors
from kafkalog.codec import decode_batch, scan
from kafkalog.codec.execution import Execution
from kafkalog.codec.fast.plain import PLAIN
from kafkalog.codec.reference import REFERENCE

SUPPORT = Path(__file__).resolve().parents[1] / "support"
SOURCES = Path(__file__).resolve().parents[2] / "src"
SECONDS_A_MIB = 1.0
GIB_IN_KIB = 1 << 20
SMALL = 4096
VECTORS = vectors()


def run() -> dict[str, dict[str, Any]]:
    """The result of each vector, by name."""
    environment = dict(os.environ) | {"PYTHONPATH": f"{SOURCES}{os.pathsep}{SUPPORT}"}
    finished = subprocess.run(
        [sys.executable, str(SUPPORT / "hostile_run.py")], capture_output=True, text=True, env=environment, check=False
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    return {line["name"]: line for line in lines}


def problems(vector: Vector, result: dict[str, Any]) -> list[str]:
    found = []
    if result["verdict"] != vector.verdict:
        found.append(f"{vector.name}: {result['verdict']}, not {vector.verdict}")
    allowed = SECONDS_A_MIB * max(result["size"], vector.unpacked, MIB) / MIB
    if result["seconds"] >= allowed:
        found.append(f"{vector.name}: {result['seconds']:.2f} s, not below {allowed:.2f} s")
    return found


def test_each_vector_ends_as_it_must_in_time_and_in_memory() -> None:
    results = run()
    assert results.keys() == {vector.name for vector in VECTORS}
    assert [line for vector in VECTORS for line in problems(vector, results[vector.name])] == []
    assert len(VECTORS) >= 150
    assert max(result["peak_kib"] for result in results.values()) < GIB_IN_KIB


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
