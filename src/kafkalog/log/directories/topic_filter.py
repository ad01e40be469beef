"""Convert a list of topics in one text, the notation of Kafka's old consumers (`TopicFilter`)."""

from __future__ import annotations

__all__ = ["topic_filter"]


def topic_filter(text: str) -> str:
    """Return the regular expression that `TopicFilter` makes of a text: commas become `|`, spaces are removed, and so
    are quotes at both ends.
    """
    return text.strip().replace(",", "|").replace(" ", "").strip("\"'")
