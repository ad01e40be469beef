"""DescribeConfigs: what the cluster's metadata says of topics, where it is at hand (`ConfigHelper`)."""

from __future__ import annotations

from kafkalog.server.catalog import Catalog
from kafkalog.server.error_codes import Code
from kafkalog.server.handlers.metadata import missing_code
from kafkalog.server.wire import Fields, Request

__all__ = ["ConfigsHandler"]

_TOPIC, _BROKER = 2, 4
_DYNAMIC_TOPIC_CONFIG = 1
_UNKNOWN_TYPE = 0


class ConfigsHandler:
    """Answers from the KRaft image; a broker's own settings are in no file here."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def describe_configs(self, request: Request) -> Fields:
        """`DescribeConfigs`: those that were set for a topic; of a broker none."""
        return {"results": [self._one(each) for each in request.body["resources"]]}

    def _one(self, asked: Fields) -> Fields:
        kind, name, keys = asked["resource_type"], asked["resource_name"], asked["configuration_keys"]
        answer: Fields = {"error_code": Code.NONE, "error_message": None, "resource_type": kind, "resource_name": name,
                          "configs": []}  # fmt: skip
        if kind == _BROKER:
            return answer
        if kind != _TOPIC:
            return {**answer, "error_code": Code.INVALID_REQUEST, "error_message": "only topics have settings here"}
        if name not in self._catalog.topics:
            return {**answer, "error_code": missing_code(name)}
        settings = self._catalog.cluster.configs.get(f"topic:{name}", {})
        answer["configs"] = [
            {"name": key, "value": value, "read_only": True, "config_source": _DYNAMIC_TOPIC_CONFIG,
             "is_sensitive": False, "synonyms": [], "config_type": _UNKNOWN_TYPE, "documentation": None}
            for key, value in sorted(settings.items()) if keys is None or key in keys
        ]  # fmt: skip
        return answer
