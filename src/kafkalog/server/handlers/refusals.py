"""Error responses for requests that are not served.

Kafka builds these by hand for each request (`getErrorResponse`). Here they follow from the two schemas: whatever the
request names is repeated in the response, with an error code for each. The codes are those of a broker whose ACLs
permit no writes, so that clients do not retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafkalog.codec.messages.field import Field
from kafkalog.server.error_codes import Code
from kafkalog.server.wire import Fields, Request

__all__ = ["READ_ONLY", "refusal"]

READ_ONLY = "kafkalog serves these logs read-only"
_CODES = {
    "Produce": Code.TOPIC_AUTHORIZATION_FAILED,
    "CreateTopics": Code.TOPIC_AUTHORIZATION_FAILED,
    "DeleteTopics": Code.TOPIC_AUTHORIZATION_FAILED,
    "DeleteRecords": Code.TOPIC_AUTHORIZATION_FAILED,
    "CreatePartitions": Code.TOPIC_AUTHORIZATION_FAILED,
    "AddPartitionsToTxn": Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "AddOffsetsToTxn": Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "EndTxn": Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "TxnOffsetCommit": Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "DeleteGroups": Code.GROUP_AUTHORIZATION_FAILED,
    "OffsetDelete": Code.GROUP_AUTHORIZATION_FAILED,
    "DescribeAcls": Code.SECURITY_DISABLED,
    "CreateAcls": Code.SECURITY_DISABLED,
    "DeleteAcls": Code.SECURITY_DISABLED,
    "CreateDelegationToken": Code.DELEGATION_TOKEN_AUTH_DISABLED,
    "RenewDelegationToken": Code.DELEGATION_TOKEN_AUTH_DISABLED,
    "ExpireDelegationToken": Code.DELEGATION_TOKEN_AUTH_DISABLED,
    "DescribeDelegationToken": Code.DELEGATION_TOKEN_AUTH_DISABLED,
}
_UNKNOWN = -1
_NAMES_OF_ONE_THING = (
    {"responses", "topics", "topic_data", "results", "resources", "topic_names", "topic_results", "creations",
     "filters", "filter_results", "dirs", "topic_partitions", "replica_election_results", "entries", "markers",
     "transactions",
     "results_by_topic_v3_and_below", "v3_and_below_topics", "results_by_transaction", "groups", "groups_names",
     "member_identities", "group_ids", "feature_updates",
     "transactional_ids", "transaction_states"},
    {"partitions", "partition_responses", "partition_data", "partition_results", "partition_result",
     "partition_indexes", "results_by_partition"},
    {"index", "partition_index", "partition_id", "partition"},
    {"name", "topic", "topic_name", "group_id"},
    {"transactional_id"},
)  # fmt: skip
"""Names that mean the same in requests and responses."""


def refusal(request: Request, code: Code | None = None) -> Fields:
    """Return the fields of a response that refuses a request: the error code for each of the request's elements, and a
    message that the server is read-only. If `code` is None, it is the code with which a broker answers if its ACLs
    forbid this request, mostly CLUSTER_AUTHORIZATION_FAILED.
    """
    if code is None:
        code = _CODES.get(request.api.name, Code.CLUSTER_AUTHORIZATION_FAILED)
        if request.api.name == "InitProducerId" and request.body["transactional_id"] is not None:
            code = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return _struct(request.api.response.fields, request.version, _rearranged(request), code)


def _rearranged(request: Request) -> Fields:
    """Return the body of a request in the form from which its response is built. For `AlterReplicaLogDirs` the body is
    a list `results` of the topics of all directories. For `AlterUserScramCredentials` it is a list `results` with one
    `user` for each deletion, followed by one for each upsertion. Other bodies are returned unchanged.
    """
    body = request.body
    if request.api.name == "AlterReplicaLogDirs":
        return {"results": [topic for each in body["dirs"] for topic in each["topics"]]}
    if request.api.name == "AlterUserScramCredentials":
        return {"results": [{"user": each["name"]} for each in [*body["deletions"], *body["upsertions"]]]}
    return body


def _struct(fields: Iterable[Field], version: int, asked: Mapping[str, Any], code: Code) -> Fields:
    found: Fields = {}
    for field in fields:
        if not field.in_version(version):
            continue
        if field.name.endswith("error_code"):
            found[field.name] = code
        elif field.name in ("error_message", "status_text"):
            found[field.name] = READ_ONLY if version in field.nullable or field.type == "string" else None
        elif field.array:
            found[field.name] = _array(field, version, asked, code)
        elif field.type == "struct":
            found[field.name] = None if version in field.nullable else _struct(field.fields, version, asked, code)
        else:
            found[field.name] = _same(field, version, asked)
    return found


def _array(field: Field, version: int, asked: Mapping[str, Any], code: Code) -> list[Any]:
    """Return an array field of a refusal: one element with the error code for each element of the request under this
    field name or a synonym. Empty if the request has no such list, or the field has no structs.
    """
    given = _under(field.name, asked)
    if not isinstance(given, list) or field.type != "struct":
        return []
    elements = []
    for each in given:
        inner = each if isinstance(each, dict) else _one(field, each)
        elements.append(_struct(field.fields, version, inner, code))
    return elements


def _one(field: Field, value: object) -> dict[str, object]:
    """Return {field name: value} for a request element that is a plain name or number. The field is the first one of
    the response's struct whose type matches; an empty dictionary if there is none.
    """
    kind = str if isinstance(value, str) else int
    for each in field.fields:
        if (each.type in ("string", "uuid")) == (kind is str) and each.name not in ("error_code", "error_message"):
            return {each.name: value}
    return {}


def _under(name: str, asked: Mapping[str, Any]) -> Any:
    if name in asked:
        return asked[name]
    for names in _NAMES_OF_ONE_THING:
        if name in names:
            return next((asked[each] for each in asked if each in names), None)
    return None


def _same(field: Field, version: int, asked: Mapping[str, Any]) -> Any:
    given = _under(field.name, asked)
    default = field.default(version)
    if given is not None and type(given) is type(default if default is not None else given):
        return given
    if default == 0 and field.type in ("int64", "int32") and field.name != "throttle_time_ms":
        return _UNKNOWN
    return default
