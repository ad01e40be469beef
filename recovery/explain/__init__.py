"""Every byte of a file with its field, its value and its meaning, and where the bytes stop making sense."""

from kafkalog.recovery.explain.explaining import explain, is_explained
from kafkalog.recovery.explain.explanation import ExplainedPart, Explanation, PartRole

__all__ = ["ExplainedPart", "Explanation", "PartRole", "explain", "is_explained"]
