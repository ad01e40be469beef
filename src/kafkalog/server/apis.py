"""Kinds of requests and the versions that are answered (`ApiKeys`, `ApiMessageType`).

A served request is served in every version of Kafka's newest release. Requests that would write are answered with an
error. They are listed all the same, since clients would otherwise report that the broker is too old.
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
    """versions that are understood"""

    def is_flexible(self, version: int) -> bool:
        """Return whether `version` has compact lengths and tagged fields."""
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
    """Return the kind of request for `key`; None if no supported release has it."""
    return _all().get(key)


def offered(served: Container[str]) -> list[Api]:
    """Return the kinds of requests listed to clients, by key: those in `served` and those refused with an error of
    their own.
    """
    return [api for _, api in sorted(_all().items()) if api.name in served or api.name in _REFUSED_AND_OFFERED]
