"""Explain every byte of a file: its field, value and meaning, and the place from which the bytes cannot be parsed."""

from kafkalog.recovery.explain.explaining import explain, is_explained
from kafkalog.recovery.explain.explanation import ExplainedPart, Explanation, PartRole

__all__ = ["ExplainedPart", "Explanation", "PartRole", "explain", "is_explained"]
