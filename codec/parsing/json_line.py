"""Decode JSON as a KRaft node reads it from `quorum-state` (`FileQuorumStateStore`): one value, in the first line."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["json_of_first_line", "short_of"]

_MOST = 2**31 - 1
_LINE_END = re.compile("[\r\n]")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def json_of_first_line(data: bytes) -> Any:
    """Return the JSON value at the start of the first line, as `ObjectMapper.readTree` does. Text after the value, and
    the other lines, are ignored. Raises `ValueError` if the line does not begin with a complete value (for example, if
    it begins with a byte order mark), or if the file is not UTF-8. Raises `RecursionError` if values are nested too
    deeply.
    """
    line = _LINE_END.split(data.decode(), maxsplit=1)[0]
    return _DECODER.raw_decode(line.lstrip(" \t"))[0]


def short_of(value: Any) -> int:
    """Return a JSON number as a signed 16-bit integer (`JsonNode.shortValue`). An integer keeps its lowest 16 bits. A
    float first becomes an integer: its fraction is dropped, and it is limited to the range of 32 bits. Return 0 for
    anything else, also for a bool.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    if isinstance(value, float):
        value = max(-_MOST - 1, min(value, _MOST))
    return (int(value) + 0x8000) % 0x10000 - 0x8000
