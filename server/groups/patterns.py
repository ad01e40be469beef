"""Which topics match a pattern of RE2, as brokers have it; its time is linear, whatever a client thinks of."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["PatternError", "matching"]

_LONGEST = 4096


class PatternError(ValueError):
    """It is not a pattern, or nothing is installed that could tell."""


@lru_cache(maxsize=32)
def matching(pattern: str, names: tuple[str, ...]) -> frozenset[str]:
    """Of the names those that match as a whole."""
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ImportError:
        raise PatternError("patterns need pyarrow: pip install kafkalog[serve]") from None
    if len(pattern) > _LONGEST:
        raise PatternError(f"a pattern of more than {_LONGEST} characters")
    try:
        topics = pa.array(names, pa.string())
        pc.match_substring_regex(topics, pattern)  # by itself it must be one too
        found = pc.match_substring_regex(topics, f"^(?:{pattern})$").to_pylist()
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise PatternError(f"{pattern!r} is not a pattern: {error}") from None
    return frozenset(name for name, matches in zip(names, found, strict=True) if matches)
