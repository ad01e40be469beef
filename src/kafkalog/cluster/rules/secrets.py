"""Values that are printed only on request: credentials and passwords. They are replaced by Kafka's word for hidden
values.

These are SCRAM credentials, delegation tokens and configurations of type PASSWORD; Kafka prints `Password.HIDDEN`.
"""

from __future__ import annotations

import re
from typing import Any

from kafkalog.codec.messages.field import Field

__all__ = ["HIDDEN", "hide_fields", "is_secret_config"]

HIDDEN = "[hidden]"
_SECRET_CONFIG = re.compile(
    r"password|passwd|secret|jaas|credential|token|keystore\.key|keystore\.certificate|truststore\.certificates|scram",
    re.IGNORECASE,
)
_SECRET_FIELDS = frozenset({"salt", "stored_key", "server_key", "token_id"})


def is_secret_config(name: str) -> bool:
    """Whether the value of a configuration may be a secret; doubtful names count as secret."""
    return _SECRET_CONFIG.search(name) is not None


def hide_fields(field: Field, value: Any) -> Any:
    """Hook for `messages.json_of`: return `[hidden]` for a field with credentials, the value itself for other fields
    and for None.
    """
    return HIDDEN if field.name in _SECRET_FIELDS and value is not None else value
