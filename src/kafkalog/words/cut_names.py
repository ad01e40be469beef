"""Text about names of deleted, stray and future directories, in which the topic's name may be cut off."""

from __future__ import annotations

__all__ = ["cut_name_text"]


def cut_name_text(topic_id: str | None) -> str:
    """Text after such a name: the topic id, which tells topics apart, and that the name may be cut."""
    whose = f"topic id {topic_id}" if topic_id is not None else "it has no topic id"
    return f"{whose}; such names end at 255 bytes, so the topic's may be longer"
