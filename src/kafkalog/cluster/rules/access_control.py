"""Names of the codes in access control entries, as `kafka-acls.sh` prints them.

The codes in `AccessControlEntryRecord` are those of `ResourceType`, `PatternType`, `AclOperation` and
`AclPermissionType`.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["named"]

_FIRST = ("UNKNOWN", "ANY")
_NAMES = {
    "resource_type": (*_FIRST, "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"),
    "pattern_type": (*_FIRST, "MATCH", "LITERAL", "PREFIXED"),
    "operation": (
        *_FIRST, "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
    ),
    "permission_type": (*_FIRST, "DENY", "ALLOW"),
}  # fmt: skip


def named(entry: Mapping[str, object], field: str) -> object:
    """Return the name of the code in a field of an entry; the code itself if it is unknown."""
    code, names = entry[field], _NAMES[field]
    return names[code] if isinstance(code, int) and 0 <= code < len(names) else code
