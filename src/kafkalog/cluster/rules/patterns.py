"""Regular expressions for topic names, matched in linear time by RE2, as brokers do.

Clients of the new group protocol send RE2's syntax. Old consumers registered Java's (`Pattern`, `String.matches`).
Constructs that mean the same in both are passed to RE2 unchanged, constructs with another spelling are translated, and
all others are refused.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["PatternError", "from_java", "matching"]

_LONGEST = 4096
_CLASSES = {"Lower": "Ll", "Upper": "Lu", "Alpha": "L", "Digit": "Nd"}
"""Unicode classes for Java's ASCII classes; both are equal for the characters of topic names."""
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\p\{(?P<kind>\w+)\}|\\u(?P<code>[0-9a-fA-F]{4})|\\(?P<escaped>.)"
    r"|(?P<count>\{\d{1,4}(?:,\d{0,4})?\})|(?P<other>.)",
    re.DOTALL,
)
_SAME_ESCAPES = frozenset("dDwWsStnrfavxbBA")


class PatternError(ValueError):
    """The pattern is invalid, or no library that can evaluate it is installed."""


@lru_cache(maxsize=32)
def matching(pattern: str, names: tuple[str, ...]) -> frozenset[str]:
    """Return the names that an RE2 pattern matches as a whole. Results are cached.

    Raises `PatternError` if the pattern is invalid or too long, if a name is not valid Unicode, or if pyarrow is not
    installed.
    """
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
        flags = pc.match_substring_regex(topics, f"^(?:{pattern})$").to_pylist()
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise PatternError(f"{pattern!r} is not a pattern: {error}") from None
    return frozenset(name for name, matches in zip(names, flags, strict=True) if matches)


def from_java(pattern: str) -> str:
    """Translate a Java pattern to RE2's syntax. Raises `PatternError` for a construct that cannot be translated. Other
    constructs that RE2 does not support remain in the result, and `matching` refuses them.
    """
    translated: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if token["quoted"] is not None:
            text = "".join(f"\\x{{{ord(each):x}}}" for each in token["quoted"])
        elif token["kind"] is not None:
            if token["kind"] not in _CLASSES:
                raise PatternError(f"{pattern!r}: {text} is not followed")
            text = f"\\p{{{_CLASSES[token['kind']]}}}"
        elif token["code"] is not None:
            text = f"\\x{{{token['code']}}}"
        elif token["escaped"] is not None:
            if token["escaped"].isalnum() and token["escaped"] not in _SAME_ESCAPES:
                raise PatternError(f"{pattern!r}: {text} is not followed")
        elif text == "[" or (in_class and text == "&" and translated[-1] == "&"):
            if in_class:
                raise PatternError(f"{pattern!r}: classes within classes are not followed")
            in_class = True
        elif text == "]" and in_class:
            in_class = translated[-1] == "[" or translated[-2:] == ["[", "^"]  # the first is one of the class
        elif text == "{" and not in_class:
            raise PatternError(f"{pattern!r}: a brace that counts nothing")
        translated.append(text)
    return "".join(translated)
