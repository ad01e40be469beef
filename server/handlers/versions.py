"""ApiVersions: which requests are understood (`ApiVersionsResponse`)."""

from __future__ import annotations

from kafkalog.server.apis import PRODUCE, offered
from kafkalog.server.error_codes import Code
from kafkalog.server.wire import Fields, Request

__all__ = ["api_versions"]

_OLDEST_PRODUCE = 0
"""As Kafka 4 says it, which understands 3 and later: librdkafka looks here for what a broker can compress."""


def api_versions(request: Request) -> Fields:
    """All that is answered; of a request in an unknown version with an error, in version 0."""
    keys = [
        {
            "api_key": each.key,
            "min_version": _OLDEST_PRODUCE if each.key == PRODUCE else each.versions.start,
            "max_version": each.versions.stop - 1,
        }
        for each in offered()
    ]
    if request.unsupported:
        own = [each for each in keys if each["api_key"] == request.api.key]
        return {"error_code": Code.UNSUPPORTED_VERSION, "api_keys": own}
    return {"error_code": Code.NONE, "api_keys": keys}
