"""Two neighboring fields of a declaration change places: whoever unpacks by position refuses to be imported."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from construct import Struct

import kafkalog.codec.layout

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = textwrap.dedent(
    """
    import os, sys
    from importlib import import_module

    def swapped(module, name, first):
        struct = getattr(import_module(f"kafkalog.codec.layout.{module}"), name)
        subcons = struct.subcons
        subcons[first], subcons[first + 1] = subcons[first + 1], subcons[first]

    for line in sys.stdin:
        module, name, first = line.split()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        swapped(module, name, int(first))
        try:
            for user in USERS:
                import_module(user)
        except TypeError as error:
            print(module, name, first, type(error).__name__, flush=True)
            os._exit(0)
        print(module, name, first, "imported", flush=True)
        os._exit(0)
    """
)
USERS = [
    f"kafkalog.codec.{name}"
    for name in (
        "model", "rules.framing", "rules.record_shape", "files.index_files", "plain.control", "files.fetch_result",
        "compression.gzip", "compression.lz4", "compression.snappy", "compression.zstd", "plain.decoding",
        "parsing.whole", "parsing.compressed",
        "encode.batch", "encode.message", "files.text", "files.quorum_state", "parsing.text_layouts",
    )
]  # fmt: skip
TAKEN_BY_NAME = {"META_PROPERTIES_V0", "META_PROPERTIES_V1", "QUORUM_STATE_V0", "QUORUM_STATE_V1"}
"""Properties and members of JSON, whose order has no meaning."""


def declarations() -> Iterator[tuple[str, str, Struct]]:
    for each in iter_modules(kafkalog.codec.layout.__path__):
        module = import_module(f"kafkalog.codec.layout.{each.name}")
        for name, value in vars(module).items():
            if isinstance(value, Struct) and name.isupper() and len(value.subcons) > 1 and name in module.__all__:
                yield each.name, name, value


def test_no_module_keeps_the_order_that_fields_had_before() -> None:
    swaps = [(module, name, first) for module, name, tree in declarations() for first in range(len(tree.subcons) - 1)]
    assert len(swaps) > 50
    answer = subprocess.run(
        [sys.executable, "-c", f"USERS = {USERS!r}\n{PROGRAM}"],
        input="".join(f"{module} {name} {first}\n" for module, name, first in swaps),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.stderr == ""
    told = {tuple(line.split()[:3]): line.split()[3] for line in answer.stdout.splitlines()}
    assert len(told) == len(swaps)
    imported = {swap[:2] for swap, word in told.items() if word != "DerivationError"}
    assert imported == {("text_files", name) for name in TAKEN_BY_NAME}

