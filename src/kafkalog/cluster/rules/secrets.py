"""What must not be printed unless it is asked for: credentials and passwords, in Kafka's own word for hiding them.

SCRAM credentials, delegation tokens and configurations of type PASSWORD; `Password.HIDDEN` is what Kafka prints.
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
    """Whether the value of a configuration of that name may be a secret; rather too often than not."""
    return _SECRET_CONFIG.search(name) is not None


def hide_fields(field: Field, value: Any) -> Any:
    """A hook for `messages.json_of` that hides credentials of typed records."""
    return HIDDEN if field.name in _SECRET_FIELDS and value is not None else value
