"""DescribeConfigs from the cluster's metadata, if it is available (`ConfigHelper`)."""

from __future__ import annotations

from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code
from kafkalog.server.handlers.metadata import missing_code
from kafkalog.server.wire import Fields, Request

__all__ = ["ConfigsHandler"]

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_KEPT_KINDS = {_TOPIC: "topic", _CLIENT_METRICS: "client_metrics", _GROUP: "group"}
"""`ConfigResource.Type` -> name in the metadata image. Broker settings in it are not those of this server."""
_SOURCES = {_TOPIC: 1, _CLIENT_METRICS: 7, _GROUP: 8}
"""`DescribeConfigsResponse.ConfigSource`."""
_UNKNOWN_TYPE = 0
_FIRST_WITH_KINDS = 1


class ConfigsHandler:
    """Answers requests about configurations from the cluster's metadata, which does not have the broker's own
    settings.
    """

    def __init__(self, catalog: Served) -> None:
        self._catalog = catalog

    def describe_configs(self, request: Request) -> Fields:
        """Answer `DescribeConfigs`: the requested settings (null: all) of topics, groups and client metrics, sorted by
        name; none for a broker. A resource that is named twice is in the response once. A topic that is not served, or
        a resource of an unknown kind, has an error code.
        """
        asked = {(each["resource_type"], each["resource_name"]): each for each in request.body["resources"]}
        return {"results": [self._one(each) for each in asked.values()]}

    def _one(self, asked: Fields) -> Fields:
        kind, name, keys = asked["resource_type"], asked["resource_name"], asked["configuration_keys"]
        answer: Fields = {"error_code": Code.NONE, "error_message": None, "resource_type": kind, "resource_name": name,
                          "configs": []}  # fmt: skip
        if kind in (_BROKER, _BROKER_LOGGER):
            return answer
        if kind not in _KEPT_KINDS:
            message = f"resources of kind {kind} are unknown"
            return {**answer, "error_code": Code.INVALID_REQUEST, "error_message": message}
        if kind == _TOPIC and name not in self._catalog.topics:
            return {**answer, "error_code": missing_code(self._catalog, name)}
        wanted = None if keys is None else frozenset(keys)
        settings = self._catalog.cluster.configs.get(f"{_KEPT_KINDS[kind]}:{name}", {})
        answer["configs"] = [
            {"name": key, "value": value, "read_only": True, "config_source": _SOURCES[kind],
             "is_sensitive": False, "synonyms": [], "config_type": _UNKNOWN_TYPE, "documentation": None}
            for key, value in sorted(settings.items()) if wanted is None or key in wanted
        ]  # fmt: skip
        return answer

    def list_config_resources(self, request: Request) -> Fields:
        """Answer `ListConfigResources`: type and name of each resource that `DescribeConfigs` can describe: topics,
        this broker, and resources with settings in the cluster's metadata.

        Only the requested types are listed, in the order of the request, with their names sorted; an unknown type has
        no entries. An empty list of types means all of them; in version 0 only client metrics are listed.
        """
        kinds = request.body.get("resource_types", [_CLIENT_METRICS])
        if request.version >= _FIRST_WITH_KINDS and not kinds:
            kinds = [_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP]
        found = [{"resource_type": kind, "resource_name": name}
                 for kind in dict.fromkeys(kinds) for name in self._names(kind)]  # fmt: skip
        return {"error_code": Code.NONE, "config_resources": found}

    def _names(self, kind: int) -> list[str]:
        if kind == _TOPIC:
            return sorted(self._catalog.topics)
        if kind in (_BROKER, _BROKER_LOGGER):
            return [str(self._catalog.cluster.node_id)]
        if kind not in _KEPT_KINDS:
            return []
        prefix = f"{_KEPT_KINDS[kind]}:"
        return sorted(each.removeprefix(prefix) for each in self._catalog.cluster.configs if each.startswith(prefix))
