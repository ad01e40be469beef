"""A white or black list of topics as one text, as Kafka's old consumers took it (`TopicFilter`)."""

from __future__ import annotations

__all__ = ["topic_filter"]


def topic_filter(text: str) -> str:
    """A regular expression as `TopicFilter` reads it: commas are alternatives, quotes and blanks go."""
    return text.strip().replace(",", "|").replace(" ", "").strip("\"'")
