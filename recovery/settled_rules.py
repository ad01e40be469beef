"""Settle the rules of a recovery for each of several log directories."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kafkalog.codec.common.errors import StorageError, UsageError
from kafkalog.log.directories.selection import ALL
from kafkalog.log.disk.files import scan_directory
from kafkalog.recovery.facts.brokers import facts_of_each
from kafkalog.recovery.facts.own_identity import lost_identity
from kafkalog.recovery.facts.recovery_request import Recovery, Rules, settled
from kafkalog.recovery.facts.topic_facts import NO_FACTS
from kafkalog.recovery.modes.table import Mode

__all__ = ["refuse_copies", "rules_for_each"]


def rules_for_each(request: Recovery, roots: Sequence[str]) -> Mapping[str, Rules]:
    """Rules for each log directory: the same time as now for all, and what each one's own broker knew of the topics.
    Raises `UsageError` if the request contradicts itself.
    """
    known = [*roots, *filter(_can_be_listed, request.beside)]
    facts = dict.fromkeys(roots, request.topics) if request.topics is not None else facts_of_each(known)
    rules = settled(replace(request, topics=NO_FACTS), ())
    if request.meta_properties and (request.select != ALL or request.mode is Mode.KAFKA):
        raise UsageError("meta.properties is written in a whole log directory, and not in mode kafka")

    def identity_of(root: str) -> bytes | None:
        return lost_identity(root, roots, facts[root]) if request.meta_properties else None

    return {root: replace(rules, topics=facts[root], identity=identity_of(root)) for root in roots}


def _can_be_listed(path: str) -> bool:
    try:
        scan_directory(path)
    except StorageError:
        return False
    return True


def refuse_copies(request: Recovery) -> None:
    """Raise `UsageError` for copies that hold no partitions, and if mode merge has no copies."""
    if request.mode is Mode.MERGE and not request.copies:
        raise UsageError("mode merge takes what other copies hold: say where they are")
    if request.copies:
        from kafkalog.recovery.decide.merge_in_place import refuse_no_copies  # merges: most plans know no other copy

        refuse_no_copies([os.fspath(copy) for copy in request.copies])
