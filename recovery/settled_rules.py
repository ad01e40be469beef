"""Complete a recovery request to rules for each of several log directories, with the time and facts about topics."""

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


def rules_for_each(request: Recovery, roots: Sequence[str], lost: Sequence[str] = ()) -> Mapping[str, Rules]:
    """Return the rules for each log directory in `roots` (real paths). All get the same time: the request's own, else
    the current time. The facts about topics are the request's, else those from the metadata log of the directory's own
    broker. `lost` are missing or empty directories. Facts from a metadata log have them too if one broker owns `roots`
    and all log directories in the request's `beside`. Lost `meta.properties` are reconstructed in memory if requested.
    Writes nothing.

    Raises `UsageError` if the request contradicts itself or has settings that Kafka would refuse. Raises
    `RecoveryRefused` if lost `meta.properties` cannot be reconstructed, and `StorageError` if one of `roots` cannot be
    listed. A directory in `beside` that cannot be listed is ignored.
    """
    known = [*roots, *filter(_can_be_listed, request.beside)]
    facts = dict.fromkeys(roots, request.topics) if request.topics is not None else facts_of_each(known, lost)
    rules = settled(replace(request, topics=NO_FACTS), ())
    if request.meta_properties and (request.select != ALL or rules.mode.spec.is_as_broker):
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
    """Raise `UsageError` if one of the request's copies is neither a log directory nor a partition directory, or if
    mode merge has no copies. Raises `StorageError` if one cannot be listed.
    """
    if request.mode is Mode.MERGE and not request.copies:
        raise UsageError("mode merge takes what other copies hold: say where they are")
    if request.copies:
        from kafkalog.recovery.decide.merge_in_place import refuse_no_copies  # merges: most plans know no other copy

        refuse_no_copies([os.fspath(copy) for copy in request.copies])
