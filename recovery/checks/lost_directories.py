"""Describe the contents of a log directory that cannot be used, and the consequences of a start without it.

The cluster's metadata has the id of the log directory of each replica. So replicas assigned to an id that no readable
directory has were in a missing directory. A KRaft broker does not start if a directory lacks `meta.properties`
(`KafkaRaftServer.initializeLogDirs`). A broker with ZooKeeper creates the directory and begins its logs again, empty
(`LogManager.createAndValidateLogDirs`). A directory with I/O errors goes offline, and the others start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kafkalog.codec.common.finding_codes import Trait, codes_with
from kafkalog.codec.common.findings import Finding, FindingCode
from kafkalog.codec.common.wording import counted
from kafkalog.log.directories.identities import meta_properties_of
from kafkalog.log.disk.files import is_mounted_read_only
from kafkalog.recovery.facts.brokers import of_one_broker
from kafkalog.recovery.facts.topic_facts import TopicFacts, directory_id_of, read_topic_facts

__all__ = ["read_only_finding", "with_what_was_there"]

_NAMED = 20
_LOST = codes_with(Trait.HIDES_DIRECTORY)


def with_what_was_there(findings: Iterable[Finding], roots: Sequence[str]) -> list[Finding]:
    """Return the findings in order, with added text in the findings about unusable log directories. The text says what
    a broker's start does. It counts the partitions that the metadata log of the other directories places in all of
    these together, and names the first 20. If it finds none, and the metadata log is missing or damaged or one of
    `roots` has no directory id, it says that they are unknown. `roots` are the readable log directories. If they do not
    belong to exactly one broker, all findings are returned unchanged. Reads `meta.properties` files and the metadata
    log.
    """
    found = list(findings)
    lost = [finding for finding in found if finding.code in _LOST]
    if not lost or len(of_one_broker(roots)) != 1:
        return found
    facts = read_topic_facts(roots)
    there = _partitions(facts, roots)
    return [_told(finding, there, facts, roots, len(lost)) if finding.code in _LOST else finding for finding in found]


def read_only_finding(root: str, facts: TopicFacts) -> list[Finding]:
    """Return a list with one INFO finding if the file system of the log directory `root` is mounted read-only. If
    `facts` assign partitions to the directory, it gives their number and names the first 20. The list is empty if the
    file system is writable or cannot be examined.
    """
    if not is_mounted_read_only(root):
        return []
    own = directory_id_of(root)
    keys = sorted(key for key, each in facts.assigned.items() if own is not None and each == own)
    detail = "the file system is mounted read-only: a broker that starts takes the directory offline"
    return [
        Finding.of(FindingCode.LOG_DIRECTORY_READ_ONLY, None, None, f"{detail}{_with(keys, facts)}", root)
    ]


def _partitions(facts: TopicFacts, roots: Sequence[str]) -> list[tuple[str, int]]:
    """Return the broker's partitions that must be in directories other than `roots`, sorted. If one of `roots` has no
    directory id, all assigned partitions may be in it, so none of them is included.
    """
    known = {directory_id_of(root) for root in roots}
    unassigned = facts.unassigned - facts.live_partitions()
    assigned = () if None in known else (key for key, each in facts.assigned.items() if each not in known)
    return sorted({*assigned, *unassigned})


def _told(
    finding: Finding, there: Sequence[tuple[str, int]], facts: TopicFacts, roots: Sequence[str], count: int
) -> Finding:
    if facts.source is None:
        what = "which partitions were in it is not known: no metadata log is in the other directories"
    elif not there and facts.problem is not None:
        what = f"which partitions were in it is not known: {facts.source} is damaged or cannot be read"
    elif not there and None in map(directory_id_of, roots):
        what = "which partitions were in it is not known: one of the other directories has no directory id"
    elif not there:
        what = f"{facts.source} places no partition of this broker in it"
    else:
        where = "in it" if count == 1 else f"in the {count} directories that are missing"
        partitions = f"{counted(len(there), 'partition')} of this broker {'was' if len(there) == 1 else 'were'}"
        what = f"by {facts.source}, {partitions} {where}{_listed(there, facts)}"
    return replace(finding, detail=f"{finding.detail}; {_start(finding, roots)}; {what}")


def _with(keys: Sequence[tuple[str, int]], facts: TopicFacts) -> str:
    return f", with {counted(len(keys), 'partition')}{_listed(keys, facts)}" if keys else ""


def _names(keys: Sequence[tuple[str, int]]) -> str:
    named = ", ".join(f"{topic}-{number}" for topic, number in keys[:_NAMED])
    return named if len(keys) <= _NAMED else f"{named} and {len(keys) - _NAMED} more"


def _listed(keys: Sequence[tuple[str, int]], facts: TopicFacts) -> str:
    """Return the names of partitions, after a colon, and which of them have no replica on another broker and so cannot
    be fetched again. If all have none, that comes before the names: a screen cuts a long sentence at its end.
    """
    alone = [key for key in keys if len(facts.replicas.get(key, ())) == 1]
    if alone and len(alone) == len(keys):
        return f", and no other broker has a replica of {'it' if len(keys) == 1 else 'any'}: {_names(keys)}"
    return f": {_names(keys)}{f'; no other broker has a replica of {_names(alone)}' if alone else ''}"


def _start(finding: Finding, roots: Sequence[str]) -> str:
    """Return a sentence about a broker's start without the directory of `finding`. A broker takes an unreadable
    directory offline, and starts unless its metadata log is in it. If the directory is missing or has no
    `meta.properties`, a broker with ZooKeeper starts and a broker with KRaft does not. A `meta.properties` of version 0
    in `roots` means ZooKeeper. Reads these files.
    """
    versions = {meta.version for root in roots if (meta := meta_properties_of(root)) is not None}
    if finding.code is FindingCode.UNREADABLE:
        return "a broker takes it offline and starts with the others, unless its metadata log is in it"
    if 0 in versions:
        return "a broker with ZooKeeper starts on it, and begins the logs that were there again, empty"
    return "a broker with KRaft does not start: it finds no meta.properties there"
