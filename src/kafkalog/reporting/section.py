"""Section of the page: its entry in the index, and its content."""

from __future__ import annotations

from msgspec import Struct

from kafkalog.reporting.markup import Content, Markup, element

__all__ = ["Section", "section"]


class Section(Struct, frozen=True, kw_only=True):
    """One section of the page with its entry in the index."""

    anchor: str
    title: str
    note: str
    """a few words beside the title about the amount"""
    markup: Markup


def section(anchor: str, title: str, note: str, *content: Content, is_open: bool = True) -> Section:
    """Return a section of the page that the reader can collapse; `is_open` says whether it is open at first. `anchor`
    becomes its HTML id, and `note` is shown beside the title.
    """
    heading = element(
        "summary",
        element("h2", title, id=f"{anchor}-title"),
        element("span", note, class_="note"),
    )
    body = element("div", *content, class_="body")
    inner = element("details", heading, body, open=is_open)
    return Section(
        anchor=anchor,
        title=title,
        note=note,
        markup=element("section", inner, id=anchor, aria_labelledby=f"{anchor}-title"),
    )
