"""Every byte of a file with its field, its value and its meaning, and where the bytes stop making sense."""

from kafkalog.recovery.explain.explaining import explain, is_explained
from kafkalog.recovery.explain.explanation import Explanation, Part, Role

__all__ = ["Explanation", "Part", "Role", "explain", "is_explained"]
