"""A list of topics to include or exclude as one text, as Kafka's old consumers took it (`TopicFilter`)."""

from __future__ import annotations

__all__ = ["topic_filter"]


def topic_filter(text: str) -> str:
    """Return the regular expression that `TopicFilter` makes of a text: commas become alternatives; quotes and spaces
    are removed.
    """
    return text.strip().replace(",", "|").replace(" ", "").strip("\"'")
