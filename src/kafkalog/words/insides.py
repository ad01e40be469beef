"""Sentences for results whose batches were not opened."""

from __future__ import annotations

__all__ = ["NOT_EXAMINED"]

NOT_EXAMINED = "the insides of batches were not examined; `kafkalog verify` examines them"
"""printed where a result would otherwise seem to cover what was not opened"""
