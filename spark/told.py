"""What a query should know and does not end at: through Python's `warnings`, and through `logging` for who keeps that.

Spark shows neither of a worker's, but writes its standard error to the executor's log.
"""

from __future__ import annotations

import logging
import warnings

__all__ = ["LOGGER", "tell"]

LOGGER = logging.getLogger("kafkalog.spark")


def tell(sentence: str, category: type[Warning] = RuntimeWarning) -> None:
    """One sentence to both."""
    LOGGER.warning(sentence)
    warnings.warn(sentence, category, stacklevel=3)
