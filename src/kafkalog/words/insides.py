"""What is said where batches were not opened."""

from __future__ import annotations

__all__ = ["NOT_EXAMINED"]

NOT_EXAMINED = "the insides of batches were not examined; `kafkalog verify` examines them"
"""Said where what was not opened would otherwise be vouched for."""
