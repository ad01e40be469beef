"""Log directories, quotas, SCRAM users and reassignments (`KafkaApis`).

Answered from the directories, and from the cluster's metadata if it is available.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable

from kafkalog.cluster.kraft.cluster_facts import Entity
from kafkalog.server.catalog import Served
from kafkalog.server.error_codes import Code, brief
from kafkalog.server.wire import Fields, Request

__all__ = ["AdminHandler"]

_UNKNOWN_BYTES = -1
_EXACT, _DEFAULT, _ANY = 0, 1, 2
"""`ClientQuotaFilterComponent`: a given name, the default, or either."""


class AdminHandler:
    """Answers requests of administrators from the catalog. Errors are codes in the response."""

    def __init__(self, catalog: Served) -> None:
        self._catalog = catalog

    def describe_log_dirs(self, request: Request) -> Fields:
        """Answer `DescribeLogDirs`: one entry for each directory with served logs, sorted by path. An entry has those
        requested partitions that are in this directory, with their sizes in bytes; it may have none. If `topics` is
        null, all partitions are requested. The size of the disk is unknown (-1).
        """
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
        """Answer `ListPartitionReassignments`: always empty, since nothing is copied."""
        return {"error_code": Code.NONE, "error_message": None, "topics": []}

    def describe_client_quotas(self, request: Request) -> Fields:
        """Answer `DescribeClientQuotas`: the quotas whose entity matches all components of the filter
        (`ClientQuotasImage.describe`).

        With `strict` the entity may have no other components. For an invalid filter the response has an error code and
        message, and `entries` is null.
        """
        code, message = _wrong(request.body["components"])
        if code is not Code.NONE:
            return {"error_code": code, "error_message": message, "entries": None}
        tests = {each["entity_type"]: _test(each) for each in request.body["components"]}
        strict = request.body["strict"]
        entries = [
            {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
             "values": [{"key": key, "value": value} for key, value in sorted(values.items())]}
            for entity, values in self._catalog.cluster.quotas.items() if _takes(tests, entity, strict=strict)
        ]  # fmt: skip
        return {"error_code": Code.NONE, "error_message": "", "entries": entries}

    def describe_user_scram_credentials(self, request: Request) -> Fields:
        """Answer `DescribeUserScramCredentials`: mechanisms and iterations of the named users in the order of the
        request, or of all users, sorted, if none is named (`ScramImage.describe`). Secrets are never included.

        A user that is named twice has one entry, with the error DUPLICATE_RESOURCE. An unknown user has
        RESOURCE_NOT_FOUND.
        """
        known: dict[str, list[Fields]] = {}
        for user, mechanism, iterations in self._catalog.cluster.scram:
            known.setdefault(user, []).append({"mechanism": mechanism, "iterations": iterations})
        asked = request.body["users"]
        named = Counter(each["name"] for each in asked or ())
        results = []
        for user in sorted(known) if not asked else named:
            code, message = Code.NONE, None
            if named[user] > 1:
                code = Code.DUPLICATE_RESOURCE
                message = (
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {brief(user)}"
                )
            elif user not in known:
                code = Code.RESOURCE_NOT_FOUND
                message = f"Attempt to describe a user credential that does not exist: {brief(user)}"
            results.append({"user": user, "error_code": code, "error_message": message,
                            "credential_infos": known.get(user, []) if code is Code.NONE else []})  # fmt: skip
        return {"error_code": Code.NONE, "error_message": "", "results": results}


def _wrong(components: Iterable[Fields]) -> tuple[Code, str]:
    """Return the error code and message for an invalid filter of client quotas; NONE and '' if it is valid
    (`ClientQuotasImage.describe`).
    """
    seen: set[str] = set()
    for component in components:
        kind, match = component["entity_type"], component["match"]
        if not kind:
            return Code.INVALID_REQUEST, "Invalid empty entity type."
        if kind in seen:
            return Code.INVALID_REQUEST, f"Entity type {brief(kind)} cannot appear more than once in the filter."
        seen.add(kind)
        if kind not in ("user", "client-id", "ip"):
            return Code.UNSUPPORTED_VERSION, f"Unsupported entity type {brief(kind)}"
        name = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _ANY: "SPECIFIED"}.get(component["match_type"])
        if name is None:
            return Code.INVALID_REQUEST, f"Unknown match type {component['match_type']}"
        if name == "EXACT" and match is None:
            return Code.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."
        if name != "EXACT" and match is not None:
            return Code.INVALID_REQUEST, f"Request specified MATCH_TYPE_{name}, but also specified a match string."
    if "ip" in seen and len(seen) > 1:
        return (
            Code.INVALID_REQUEST,
            (
                "Invalid entity filter component combination. IP filter component should not be used with user or "
                "clientId filter component."
            ),
        )
    return Code.NONE, ""


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
