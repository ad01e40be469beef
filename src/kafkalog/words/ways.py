"""Ways of recovering in terms of the command line: the options that carry them out."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.codec.common.shell import shell_line
from kafkalog.recovery.decide.ways import RecoveryWay
from kafkalog.recovery.decide.ways_json import RequestJson, WayJson, way_json
from kafkalog.recovery.modes.spec import Help
from kafkalog.recovery.modes.table import REPAIR_BITS, Mode

__all__ = ["label_of", "mode_words", "needs_copies", "needs_in", "needs_line", "needs_of", "needs_text", "rest_in"]


def label_of(way: RecoveryWay) -> str:
    """Name of a way, with the option that distinguishes it from another one with its name."""
    both = way.how is not None and way.how.is_both
    name = f"{way.way} with {REPAIR_BITS.name}" if both else way.way
    return name if way.then is None else f"{name}, then {label_of(way.then)}"


def needs_of(way: RecoveryWay) -> list[str]:
    """Return the arguments of `recover` for this way, one by one. If no recovery carries it out, its precondition as
    one text; empty if there is none.
    """
    return needs_in(way_json(way))


def needs_text(way: RecoveryWay) -> str:
    """Needs of a way as one line for a shell; empty if there are none."""
    return needs_line(way_json(way))


def needs_line(way: WayJson) -> str:
    """Needs of a way in the shape of a report as one line for a shell, with those of the recovery of all other
    partitions if it has any; empty if there are none.
    """
    needs, rest = needs_in(way), rest_in(way)
    line = " ".join(needs) if way.how is None else shell_line(needs)
    return f"{line}; then {shell_line(rest)}" if rest else line


def rest_in(way: WayJson) -> list[str]:
    """Return the arguments of `recover` for all other partitions; empty if it needs none or there is no such
    recovery.
    """
    if way.rest is None:
        return []
    return [*_options(way.rest), *(["--accept-loss"] if way.rest.needs_consent else [])]


def needs_in(way: WayJson) -> list[str]:
    """Needs of a way in the shape of a report, as `needs_of` returns them."""
    if way.how is None:
        leaders = " or ".join(map(str, way.leaders))
        return [f"broker {leaders}, alive and leading before this one starts"] if leaders else []
    return [*_options(way.how), *(["--accept-loss"] if way.needs_consent else [])]


def mode_words(mode: Mode) -> list[str]:
    """Option that selects a mode; empty for mode safe, the default."""
    return [] if mode is Mode.SAFE else ["--mode", str(mode)]


def needs_copies(mode: Mode) -> bool:
    """Whether a mode reads records from other copies."""
    way = mode.spec.way
    return way is not None and way.help is Help.COPIES


def _options(request: RequestJson) -> Sequence[str]:
    words = ["--full"] if request.full else []
    words += mode_words(request.mode)
    words += ["--repair-bits", request.repair_bits] if request.repair_bits is not None else []
    return [*words, *(word for copy in request.copies for word in ("--copy", copy))]
