"""What a report's page holds, by Python's own HTML parser, which fails on a tag that is not closed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "link", "input", "br", "hr"}


@dataclass
class Node:
    """One element; `text` is what stands in it, that of elements in it too."""

    name: str
    attributes: dict[str, str | None]
    children: list[Node] = field(default_factory=list)
    pieces: list[str | Node] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.pieces)

    def all(self, name: str, **attributes: str) -> list[Node]:
        """Elements below this one of a name and with some attributes (`class_` holds one of several classes)."""
        found = []
        for child in self.children:
            wanted = all(
                value in (child.attributes.get("class") or "").split()
                if key == "class_"
                else child.attributes.get(key.replace("_", "-")) == value
                for key, value in attributes.items()
            )
            if child.name == name and wanted:
                found.append(child)
            found += child.all(name, **attributes)
        return found

    def one(self, name: str, **attributes: str) -> Node:
        (found,) = self.all(name, **attributes)
        return found

    def rows(self) -> list[list[str]]:
        """Of a table: the text of its cells."""
        return [[cell.text for cell in row.children] for row in self.one("tbody").all("tr")]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.top = Node("", {})
        self.open = [self.top]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        assert len(node.attributes) == len(attrs), f"an attribute of <{tag}> is there twice"
        self.open[-1].children.append(node)
        self.open[-1].pieces.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].pieces.append(data)


def parsed(page: str) -> Node:
    """The whole page; every element must be closed in its turn."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert parser.open == [parser.top]
    return parser.top


def table_named(page: Node, caption: str) -> Node:
    """The table with this caption."""
    (found,) = [each for each in page.all("table") if each.one("caption").text == caption]
    return found


def data_of(page: Node) -> Any:
    """What the page's script draws from."""
    return json.loads(page.one("script", id="data").text)
