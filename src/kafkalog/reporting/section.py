"""A section of the page: its name in the index, and what it holds."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.reporting.markup import Content, Markup, element

__all__ = ["Section", "section"]


class Section(Struct, frozen=True):
    """One entry of the index."""

    anchor: str
    title: str
    note: str
    """a few words beside the title: how much there is"""
    markup: Markup


def section(anchor: str, title: str, note: str, *content: Content, is_open: bool = True) -> Section:
    """A section that collapses; open at first where `is_open`."""
    heading = element(
        "summary",
        element("h2", title, id=f"{anchor}-title"),
        element("span", note, class_="note"),
    )
    body = element("div", *content, class_="body")
    inner = element("details", heading, body, open=is_open)
    return Section(anchor, title, note, element("section", inner, id=anchor, aria_labelledby=f"{anchor}-title"))
