"""HTML from Python values: all text is escaped except `Markup`; control and direction characters are escaped too."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import TypeAlias

from kafkalog.words.escapes import escape_controls

__all__ = ["Content", "Markup", "code", "data_block", "element", "join", "prose", "table"]

Content: TypeAlias = "str | int | Markup | Iterable[Content] | None"
_LONG = 24
_VOID = frozenset({"br", "hr", "input", "link", "meta", "wbr"})
_NO_END_OF_SCRIPT = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Markup(str):
    """A string that is HTML already, so that it is not escaped again."""

    __slots__ = ()


def join(content: Content) -> Markup:
    """Return content as one piece of HTML. Strings are escaped, integers get thousands separators, iterables are
    joined, `Markup` is unchanged, and None is empty.
    """
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(escape_controls(content)))
    if isinstance(content, int):
        return Markup(f"{content:,}")
    return Markup("".join(join(each) for each in content))


def element(name: str, /, *content: Content, **attributes: str | int | bool | None) -> Markup:
    """Return `<name attributes>content</name>`, or only the start tag of a void element. Content and attribute values
    are escaped. In attribute names, trailing `_` are dropped (`class_`) and others become `-`. An attribute with the
    value True has no value in the HTML; False and None omit it.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        words.append(attribute if value is True else f'{attribute}="{html.escape(escape_controls(str(value)))}"')
    start = f"<{' '.join(words)}>"
    return Markup(start if name in _VOID else f"{start}{join(content)}</{name}>")


def code(text: str) -> Markup:
    """A path, name or command as code: isolated, so that its letters never change the text direction around it."""
    return element("code", text)


def prose(text: str) -> Markup:
    """One of our sentences; text between backquotes becomes code."""
    return join([element("code", part) if number % 2 else part for number, part in enumerate(text.split("`"))])


def table(
    caption: str, columns: Iterable[str], rows: Iterable[Iterable[Content]], *, numeric: Iterable[int] = ()
) -> Markup:
    """Return an HTML table in a region that scrolls if the table is wider than the page; cells are escaped. `numeric`
    has the column numbers (from 0) that are aligned to the right.
    """
    right = frozenset(numeric)
    head = element(
        "tr",
        [
            element("th", cell, scope="col", class_="n" if number in right else None)
            for number, cell in enumerate(columns)
        ],
    )
    body = [
        element(
            "tr",
            [
                element("td", cell, class_="n" if number in right else _class_of(cell))
                for number, cell in enumerate(row)
            ],
        )
        for row in rows
    ]
    inner = element("table", element("caption", caption), element("thead", head), element("tbody", body))
    return element("div", inner, class_="wide", tabindex=0, role="region", aria_label=caption)


def _class_of(content: Content) -> str | None:
    """Return the CSS class of a table cell: `long` for long text, which keeps its column from becoming narrow, `short`
    for short text, which stays on one line. None for content that is not plain text.
    """
    if not isinstance(content, str) or isinstance(content, Markup):
        return None
    return "long" if len(content) > _LONG else "short"


def data_block(name: str, value: object) -> Markup:
    """JSON for the page's script, in which nothing can end a script or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True).translate(_NO_END_OF_SCRIPT)
    return Markup(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')
