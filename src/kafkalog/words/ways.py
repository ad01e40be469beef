"""A way to recover in the words of the command line: the options that take it, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.common.shell import shell_line
from kafkalog.recovery.decide.ways import RecoveryWay
from kafkalog.recovery.decide.ways_json import RequestJson, WayJson, way_json
from kafkalog.recovery.modes.spec import Help
from kafkalog.recovery.modes.table import REPAIR_BITS, Mode

__all__ = ["label_of", "mode_words", "needs_copies", "needs_in", "needs_of", "needs_text"]


def label_of(way: RecoveryWay) -> str:
    """The name of a way; of two that are the same, what one has more."""
    both = way.how is not None and way.how.is_both
    return f"{way.way} with {REPAIR_BITS.name}" if both else way.way


def needs_of(way: RecoveryWay) -> list[str]:
    """Arguments of `recover`, each by itself; where no recovery takes the way, what has to be there, in words."""
    return needs_in(way_json(way))


def needs_text(way: RecoveryWay) -> str:
    """What a way needs in one line, as a shell takes it; empty where nothing is needed."""
    needs = needs_of(way)
    return " ".join(needs) if way.how is None else shell_line(needs)


def needs_in(way: WayJson) -> list[str]:
    """What a way needs, as a report has it."""
    if way.how is None:
        leaders = " or ".join(map(str, way.leaders))
        return [f"broker {leaders}, alive and leading before this one starts"] if leaders else []
    return [*_options(way.how), *(["--accept-loss"] if way.needs_consent else [])]


def mode_words(mode: Mode) -> list[str]:
    """The option that chooses a mode; none for mode safe, the default."""
    return [] if mode is Mode.SAFE else ["--mode", str(mode)]


def needs_copies(mode: Mode) -> bool:
    """Whether a mode takes records from other copies."""
    way = mode.spec.way
    return way is not None and way.help is Help.COPIES


def _options(request: RequestJson) -> Sequence[str]:
    words = ["--full"] if request.full else []
    words += mode_words(request.mode)
    words += ["--repair-bits", request.repair_bits] if request.repair_bits is not None else []
    return [*words, *(word for copy in request.copies for word in ("--copy", copy))]
