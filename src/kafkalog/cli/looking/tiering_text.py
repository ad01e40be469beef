"""Sentences about tiered logs: their number, the source of that knowledge, and where the remote tier may be
incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkalog.codec.common.wording import counted
from kafkalog.tiers.tiering import LocalStart
from kafkalog.words.escapes import escape_controls

__all__ = ["tiering_text"]

_SHOWN = 3


def tiering_text(found: Sequence[tuple[str, LocalStart | None]]) -> Iterator[str]:
    """Yield sentences about tiered partitions; none if no partition is tiered. `found` has pairs of a name and a local
    start (None: unknown). The first sentence has the number of tiered partitions, how many of them begin in the remote
    tier, and the sources of this knowledge. Each of the next ones names a partition whose remote tier may be
    incomplete, up to `_SHOWN` of them; if there are more, a last one counts them.
    """
    tiered = [(name, local_start) for name, local_start in found if local_start is not None and local_start.is_tiered]
    begin_remote = [(name, start) for name, start in tiered if start.log_start < start.local_log_start]
    if not tiered:
        return
    known_from = dict.fromkeys(source for _name, local_start in tiered for source in local_start.known_from)
    yield (
        f"{counted(len(tiered), 'log')} of {len(found)} tiered, {len(begin_remote)} of which begin in the remote tier, "
        f"by {', and by '.join(known_from)}"
    )
    unknown = [(name, local_start) for name, local_start in begin_remote if not local_start.is_certain]
    for name, each in unknown[:_SHOWN]:
        yield escape_controls(
            f"{name}: nothing here tells whether all of offsets {each.log_start} to {each.local_log_start - 1} are in "
            "the remote tier"
        )
    if len(unknown) > _SHOWN:
        yield f"the same of {len(unknown) - _SHOWN} more"
