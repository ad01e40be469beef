"""ApiVersions: supported requests (`ApiVersionsResponse`)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkalog.cluster.kraft.cluster_facts import ClusterFacts
from kafkalog.server.apis import PRODUCE, Api
from kafkalog.server.error_codes import Code
from kafkalog.server.wire import Fields, Request

__all__ = ["api_versions"]

_OLDEST_PRODUCE = 0
"""Kafka 4 reports 0 although it supports only 3 and later, because librdkafka derives the supported compression from
it.
"""


_NOBODY = -1


def api_versions(request: Request, cluster: ClusterFacts, told: Sequence[Api]) -> Fields:
    """Answer `ApiVersions`: the key of each request in `told` and the range of versions that are answered. The range of
    Produce begins with 0 instead (`_OLDEST_PRODUCE`).

    If the request's own version is unknown, the response has UNSUPPORTED_VERSION and only the versions of
    `ApiVersions`. From version 5 on, a client may name the cluster and node that it expects. The response has
    REBOOTSTRAP_REQUIRED and no versions if this server is another one, INVALID_REQUEST and no versions if only one of
    them is named.
    """
    keys = [
        {
            "api_key": api.key,
            "min_version": _OLDEST_PRODUCE if api.key == PRODUCE else api.versions.start,
            "max_version": api.versions.stop - 1,
        }
        for api in told
    ]
    if request.unsupported:
        own = [key for key in keys if key["api_key"] == request.api.key]
        return {"error_code": Code.UNSUPPORTED_VERSION, "api_keys": own}
    wanted, node = request.body.get("cluster_id"), request.body.get("node_id", _NOBODY)
    if (wanted is None) is not (node == _NOBODY):
        return {"error_code": Code.INVALID_REQUEST, "api_keys": []}
    if wanted is not None and (wanted, node) != (cluster.id, cluster.node_id):
        return {"error_code": Code.REBOOTSTRAP_REQUIRED, "api_keys": []}
    return {"error_code": Code.NONE, "api_keys": keys}
