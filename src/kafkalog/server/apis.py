"""Which requests there are, and in which versions they are answered (`ApiKeys`, `ApiMessageType`).

What is served is served in every version that Kafka's newest release has for it.  Requests that would write are
answered too, each with a refusal; they are offered to clients, or these would report that the broker is too old.
"""

from __future__ import annotations

from collections.abc import Container
from functools import cache

from msgspec import Struct

from kafkalog.codec.messages.message import Message
from kafkalog.codec.messages.published import apis, newest

__all__ = ["API_VERSIONS", "PRODUCE", "Api", "api", "offered"]

PRODUCE, FETCH, API_VERSIONS, SASL_HANDSHAKE = 0, 1, 18, 17
_REFUSED_AND_OFFERED = (
    "Produce", "CreateTopics", "DeleteTopics", "DeleteRecords", "InitProducerId", "AddPartitionsToTxn",
    "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "DescribeAcls", "CreateAcls", "DeleteAcls", "AlterConfigs",
    "AlterReplicaLogDirs", "CreatePartitions", "DeleteGroups", "ElectLeaders", "IncrementalAlterConfigs",
    "AlterPartitionReassignments", "OffsetDelete", "AlterClientQuotas", "AlterUserScramCredentials", "UpdateFeatures",
    "CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "UnregisterBroker",
)  # fmt: skip


class Api(Struct, frozen=True, kw_only=True):
    """A kind of request."""

    key: int
    name: str
    request: Message
    response: Message
    versions: range
    """that are understood"""

    def is_flexible(self, version: int) -> bool:
        """Whether lengths of that version are varints, and structs have tags."""
        return version in self.request.flexible


@cache
def _all() -> dict[int, Api]:
    found = {}
    for key, name in apis().items():
        request, response = newest(f"{name}Request"), newest(f"{name}Response")
        versions = request.versions
        if request.latest_is_unstable:
            versions = range(versions.start, versions.stop - 1)
        if versions:
            found[key] = Api(key=key, name=name, request=request, response=response, versions=versions)
    return found


def api(key: int) -> Api | None:
    """The kind of request of a key; None for one that no release of this protocol has any more."""
    return _all().get(key)


def offered(served: Container[str]) -> list[Api]:
    """What clients are told of, by key: what is served, and what is refused in answers of its own."""
    return [each for _, each in sorted(_all().items()) if each.name in served or each.name in _REFUSED_AND_OFFERED]
