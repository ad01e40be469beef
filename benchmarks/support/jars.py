"""Kafka's jars and the Java programs of `benchmarks/java`, compiled once."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from testkit.kafka import kafka_jars  # noqa: E402

KAFKA = "4.1.0"


def why_not() -> str | None:
    """Why Java is not measured; None if it can be."""
    return kafka_jars.available(KAFKA)


def java(main: str, *arguments: str, heap: str = "1g", flags: tuple[str, ...] = ()) -> list[str]:
    """The command that runs one of the programs."""
    sources = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "benchmarks" / "java").iterdir())}
    classes = kafka_jars.compiled(KAFKA, "bench", sources)
    path = ":".join([str(classes), *map(str, kafka_jars.jars(KAFKA))])
    return ["java", f"-Xmx{heap}", *flags, "-cp", path, main, *arguments]
