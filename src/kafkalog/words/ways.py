"""A way to recover in the words of the command line: the options that take it, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkalog.codec.common.shell import shell_line
from kafkalog.recovery.decide.ways import RecoveryWay, WayName
from kafkalog.recovery.facts.modes import Mode

__all__ = ["label_of", "needs_in", "needs_of", "needs_text", "with_needs"]


def label_of(way: RecoveryWay) -> str:
    """The name of a way; of two that are the same, what one has more."""
    both = way.how is not None and way.how.is_both
    return f"{way.way} with {WayName.REPAIR_BITS}" if both else str(way.way)


def needs_of(way: RecoveryWay) -> list[str]:
    """Arguments of `recover`, each by itself; where no recovery takes the way, what has to be there, in words."""
    return needs_in(way.as_dict())


def needs_text(way: RecoveryWay) -> str:
    """What a way needs in one line, as a shell takes it; empty where nothing is needed."""
    needs = needs_of(way)
    return " ".join(needs) if way.how is None else shell_line(needs)


def with_needs(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan reports, with `needs` in place of the values from which they follow."""
    best = report.get("recommended_way")
    needs = [] if best is None else needs_in(best)
    if report.get("identity_in") and (best is None or best["way"] != "kafka"):
        needs.append("--meta-properties")
    told = {name: value for name, value in report.items() if name not in ("recommended_way", "identity_in")}
    told["ways"] = [_worded(way) for way in report["ways"]]
    told["partitions"] = [
        {**each, "ways": [_worded(way) for way in each["ways"]]} for each in report["partitions"]
    ]
    return {**told, "recommended_needs": needs}


def _worded(way: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "needs" if name == "how" else name: needs_in(way) if name == "how" else value
        for name, value in way.items()
        if name not in ("needs_consent", "leaders")
    }


def needs_in(way: Mapping[str, Any]) -> list[str]:
    """What a way needs, as a report has it."""
    how = way["how"]
    if how is None:
        leaders = " or ".join(map(str, way["leaders"]))
        return [f"broker {leaders}, alive and leading before this one starts"] if leaders else []
    return [*_options(how), *(["--accept-loss"] if way["needs_consent"] else [])]


def _options(how: Mapping[str, Any]) -> Sequence[str]:
    words = ["--full"] if how["full"] else []
    words += ["--mode", how["mode"]] if how["mode"] != Mode.SAFE else []
    words += ["--repair-bits", how["repair_bits"]] if how["repair_bits"] is not None else []
    return [*words, *(word for copy in how["copies"] for word in ("--copy", copy))]
