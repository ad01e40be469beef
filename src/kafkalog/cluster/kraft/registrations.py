"""Search for brokers that the metadata names as replicas or leaders although they are not registered."""

from __future__ import annotations

from kafkalog.cluster.kraft.metadata_image import MetadataImage
from kafkalog.codec.common.findings import Finding, FindingCode, Severity
from kafkalog.codec.common.wording import counted, first_of

__all__ = ["unregistered_brokers"]

_NO_LEADER = -1
_NAMED = 3


def unregistered_brokers(image: MetadataImage, path: str) -> list[Finding]:
    """Return findings about brokers that are replicas or leaders but are not registered. `path` is the file that the
    findings name. First come errors about brokers that lead or are in sync, then warnings about other replicas, both
    sorted by id. A broker gets at most one of each kind.

    Other replicas are only warnings, because an unregistered broker remains a replica until its partitions are
    reassigned (`handleBrokerUnregistered` removes it only from the ISR).
    """
    replicas: dict[int, list[str]] = {}
    in_sync: dict[int, list[str]] = {}
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            leading = {*partition.isr, partition.leader} - {_NO_LEADER}
            for broker in {*partition.replicas, *leading} - image.brokers.keys():
                (in_sync if broker in leading else replicas).setdefault(broker, []).append(f"{topic.name}-{number}")
    findings = []
    for known, what, severity in (
        (in_sync, "leads or is in sync for", Severity.ERROR),
        (replicas, "is a replica of", Severity.WARNING),
    ):
        for broker, names in sorted(known.items()):
            listed = first_of(sorted(names), _NAMED)
            count = counted(len(names), "partition")
            detail = f"broker {broker} {what} {count} ({listed}), and no such broker is registered"
            findings.append(Finding(FindingCode.METADATA_INCONSISTENT, severity, None, None, detail, path))
    return findings
