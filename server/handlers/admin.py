"""What administrators ask: log directories, quotas, credentials of users, reassignments (`KafkaApis`).

Answered from the directories and the cluster's metadata, where that is at hand.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from kafkalog.server.catalog import Catalog, Entity
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.wire import Fields, Request

__all__ = ["AdminHandler"]

_UNKNOWN_BYTES = -1
_EXACT, _DEFAULT, _ANY = 0, 1, 2
"""`ClientQuotaFilterComponent`: an entity of this name, the default of its kind, one that has either."""


class AdminHandler:
    """Answers from the catalog alone."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def describe_log_dirs(self, request: Request) -> Fields:
        """`DescribeLogDirs`: the served logs of each directory, with their bytes."""
        asked = request.body["topics"]
        wanted = None if asked is None else {
            (topic["topic"], number) for topic in asked for number in topic["partitions"]
        }  # fmt: skip
        found: dict[str, dict[str, list[Fields]]] = {}
        for name, topic in self._catalog.topics.items():
            for number, log in topic.partitions.items():
                topics = found.setdefault(os.path.dirname(os.path.abspath(log.listed.path)), {})
                if wanted is None or (name, number) in wanted:
                    topics.setdefault(name, []).append({
                        "partition_index": number, "partition_size": log.listed.size, "offset_lag": 0,
                        "is_future_key": False,
                    })  # fmt: skip
        results = [
            {"error_code": Code.NONE, "log_dir": path,
             "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
             "total_bytes": _UNKNOWN_BYTES, "usable_bytes": _UNKNOWN_BYTES}
            for path, topics in sorted(found.items())
        ]  # fmt: skip
        return {"error_code": Code.NONE, "results": results}

    @staticmethod
    def list_partition_reassignments(_request: Request) -> Fields:
        """`ListPartitionReassignments`: none is under way where nobody copies anything."""
        return {"error_code": Code.NONE, "error_message": None, "topics": []}

    def describe_client_quotas(self, request: Request) -> Fields:
        """`DescribeClientQuotas`: those that every component of the filter takes (`ClientQuotasImage.describe`)."""
        tests = {each["entity_type"]: _test(each) for each in request.body["components"]}
        strict = request.body["strict"]
        entries = [
            {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
             "values": [{"key": key, "value": value} for key, value in sorted(values.items())]}
            for entity, values in self._catalog.cluster.quotas.items() if _takes(tests, entity, strict=strict)
        ]  # fmt: skip
        return {"error_code": Code.NONE, "error_message": None, "entries": entries}

    def describe_user_scram_credentials(self, request: Request) -> Fields:
        """`DescribeUserScramCredentials`: mechanisms and iterations, never what is secret (`ScramImage.describe`)."""
        known: dict[str, list[Fields]] = {}
        for user, mechanism, iterations in self._catalog.cluster.scram:
            known.setdefault(user, []).append({"mechanism": mechanism, "iterations": iterations})
        asked = request.body["users"]
        users = sorted(known) if not asked else list(dict.fromkeys(each["name"] for each in asked))
        results = [
            {"user": user, "error_code": Code.NONE if user in known else Code.RESOURCE_NOT_FOUND,
             "error_message": None if user in known else f"there are no SCRAM credentials of {brief(user)}",
             "credential_infos": known.get(user, [])}
            for user in users
        ]  # fmt: skip
        return {"error_code": Code.NONE, "error_message": None, "results": results}


def _test(component: Fields) -> Callable[[str | None], bool]:
    kind, match = component["match_type"], component["match"]
    if kind == _EXACT:
        return lambda name: name is not None and name == match
    if kind == _DEFAULT:
        return lambda name: name is None
    return lambda _: kind == _ANY


def _takes(tests: dict[str, Callable[[str | None], bool]], entity: Iterable[tuple[str, str | None]], *,
           strict: bool) -> bool:  # fmt: skip
    parts: Entity = tuple(entity)
    names = dict(parts)
    fits = all(kind in names and test(names[kind]) for kind, test in tests.items())
    return fits and (not strict or len(names) == len(tests))
