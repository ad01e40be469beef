"""Print tables, in one style on a terminal, in a pipe and in a file."""

from __future__ import annotations

import enum
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence

import click
from msgspec import Struct

from kafkalog.cli.output import LineWriter
from kafkalog.cli.width import terminal_width
from kafkalog.words import wrapping
from kafkalog.words.escapes import escape_controls
from kafkalog.words.times import moment_text, span_text

__all__ = ["MANY", "Column", "Kind", "print_table", "size_text", "text_width"]

MANY = 200
"""More partitions than these are told in a paragraph, and only those that are not sound are listed."""
_GAP = 2
_EXACT_BYTES = 10 * 1024
_WRAPPED = 20
_NARROW = 12
"""Text is not wrapped to less: of a column that may wrap early, and of any other."""
_WORD = 32
"""Words up to this length are not broken."""
_WIDEST = 200
"""No column is padded to more where nothing limits a line."""

Cells = list[list[str]]


class Kind(enum.Enum):
    """Conversion of a column's values to text."""

    AUTOMATIC = enum.auto()
    """as they are; to the right where all are numbers"""
    BYTES = enum.auto()
    """a size in bytes, shown in a unit that suits it"""
    TIME = enum.auto()
    """milliseconds since 1970, shown to the second in UTC"""
    SPAN = enum.auto()
    """a length of time in milliseconds, shown in a unit that suits it"""


class Column(Struct, frozen=True):
    """A column of a table."""

    name: str
    kind: Kind = Kind.AUTOMATIC
    drop: int = 0
    """0: always shown; else the column with the highest number goes first where the width does not suffice"""
    wraps: bool = False
    """its text may be wrapped before any column is left out"""
    if_any: bool = False
    """shown only if any of its cells holds something"""
    alarms: bool = False
    """what it says, unless that is "ok" or nothing, is red on a terminal"""


def size_text(size: int) -> str:
    """Return a size in bytes as text: `123 B` below 10 KiB (`_EXACT_BYTES`), else three digits and a binary unit:
    `1.25 MiB`. From 999.5 of a unit on, the next larger unit is used (`0.98 MiB`). PiB is the largest; from 1000 PiB
    the text has more digits.
    """
    if abs(size) < _EXACT_BYTES:
        return f"{size} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        value /= 1024
        if abs(value) < 999.5 or unit == "PiB":
            break
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def print_table(
    title: str,
    columns: Sequence[str | Column],
    rows: Iterable[Sequence[object]],
    totals: Sequence[object] | None = None,
    *,
    fits: bool = False,
) -> None:
    """Print a table with a title on standard output. If this command has already printed a table, a blank line comes
    first. If there are no rows, print only `TITLE: none`. `totals` is a last row, which is shown only if `rows` has at
    least two. Columns with `if_any` are left out if they have no value.

    On a terminal, or if COLUMNS is set, columns are wrapped or dropped so that the table fits this width; a line names
    the dropped ones. If that is not enough, each row becomes lines of a column name and a value. With `fits`, a table
    in a pipe is fitted too, to `text_width` columns.
    """
    wanted = [Column(column) if isinstance(column, str) else column for column in columns]
    values = [list(row) for row in rows]
    with LineWriter() as writer:
        if _is_another():
            writer.write("")
        if not values:
            writer.write(f"{title}: none")
            return
        right = [
            column.kind in (Kind.BYTES, Kind.SPAN) or all(_numeric(row[i]) for row in values)
            for i, column in enumerate(wanted)
        ]
        if totals is not None and len(values) > 1:
            values.append(list(totals))
        cells = [[_text(cell, column.kind) for cell, column in zip(row, wanted, strict=True)] for row in values]
        shown = [i for i, column in enumerate(wanted) if not column.if_any or any(row[i] for row in cells)]
        wanted, right = [wanted[i] for i in shown], [right[i] for i in shown]
        cells = [[row[i] for i in shown] for row in cells]
        width = text_width() if fits else _width()
        for line in title.split("\n"):
            for part in [line] if width is None else wrapping.wrapped(line, width):
                writer.write(part)
        for line in _drawn(wanted, right, cells, width):
            writer.write(line)


def _is_another() -> bool:
    """Return whether this command has already noted a table in the click context, and note one. Return False and note
    nothing outside of a command.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return False
    before: bool = context.meta.get(__name__, False)
    context.meta[__name__] = True
    return before


def _width() -> int | None:
    return terminal_width(sys.stdout)


def text_width() -> int:
    """Return the width for sentences, in columns: the width of the terminal or of COLUMNS, else 80."""
    return _width() or wrapping.WIDTH


def _text(value: object, kind: Kind) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        if kind is Kind.BYTES:
            return size_text(value)
        if kind is Kind.TIME:
            return moment_text(value)
        if kind is Kind.SPAN:
            return span_text(value)
    return escape_controls(str(value))


def _numeric(cell: object) -> bool:
    return cell is None or cell == "" or isinstance(cell, int | float)


def _cells_wide(text: str) -> int:
    """Return the width of a text in terminal columns; a wide character (Chinese, emoji) takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # only where it makes a difference

    return cell_len(text)


def _drawn(columns: Sequence[Column], right: Sequence[bool], rows: Cells, width: int | None) -> Iterable[str]:
    natural = [max(_cells_wide(row[i]) for row in rows) for i in range(len(columns))]
    heads = [_cells_wide(column.name) for column in columns]
    full = [max(pair) for pair in zip(natural, heads, strict=True)]
    kept = list(range(len(columns)))
    if width is None:  # a cell that is longer than any screen is wide pushes the others aside in its own row only
        yield from _lines(columns, right, rows, [min(each, _WIDEST) for each in full], kept, folds=False)
        return
    if _taken(full, kept) <= width:
        yield from _lines(columns, right, rows, full, kept)
        return
    words = [
        _longest_word((row[i] for row in rows), _WORD) if not right[i] and natural[i] > _NARROW else 0
        for i, column in enumerate(columns)
    ]
    while True:
        widths = _fitted(columns, natural, words, right, kept, width)
        if widths is not None:
            yield from _lines(columns, right, rows, widths, kept)
            left_out = [column.name for i, column in enumerate(columns) if i not in kept]
            if left_out:
                every = f"COLUMNS={_taken(full, range(len(columns)))} shows all"
                text = f"Not shown, because the table is too wide: {', '.join(left_out)} ({every})."
                yield from textwrap.wrap(text, max(width, _NARROW))
            return
        droppable = [i for i in kept if columns[i].drop]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda i: (columns[i].drop, i)))
    yield from _below_each_other(columns, rows, width)


def _longest_word(texts: Iterable[str], limit: int | None = None) -> int:
    """Return the length of the longest word in the texts that is not longer than `limit` (None: no limit); 0 if there
    is none.
    """
    wide = (_cells_wide(word) for text in texts for word in text.split(" "))
    return max((each for each in wide if limit is None or each <= limit), default=0)


def _taken(widths: Sequence[int], kept: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + _GAP * (len(kept) - 1)


def _fitted(
    columns: Sequence[Column],
    natural: Sequence[int],
    words: Sequence[int],
    right: Sequence[bool],
    kept: Sequence[int],
    width: int,
) -> list[int] | None:
    """Return a width for each column, also for those that are not shown. The columns with the indexes `kept`, which are
    shown, fit into `width` with these widths; None if they cannot fit. Columns that wrap are narrowed, and headings may
    take several lines. If no shown column can be dropped, other text columns are narrowed as well.

    For each column, `natural` has the width of the widest cell, and `right` whether the column is right-aligned.
    `words` has the length of the longest word that must not be broken.
    """
    heads = [_longest_word([column.name]) for column in columns]
    widths = [max(pair) for pair in zip(natural, heads, strict=True)]
    last_resort = not any(columns[i].drop for i in kept)
    for may_wrap, floor in ((True, _WRAPPED), (False, _NARROW)):
        for i in sorted(kept, key=lambda i: -widths[i]):
            over = _taken(widths, kept) - width
            if over <= 0:
                break
            if not right[i] and (columns[i].wraps or (not may_wrap and last_resort)):
                least = max(floor, heads[i], words[i])
                widths[i] = max(widths[i] - over, min(widths[i], least))
    over = _taken(widths, kept) - width
    if over > 0:
        return None
    for i in kept:  # what is left over lets heads stand on one line
        more = min(-over, max(0, _cells_wide(columns[i].name) - widths[i]))
        widths[i], over = widths[i] + more, over + more
    return widths


def _lines(
    columns: Sequence[Column],
    right: Sequence[bool],
    rows: Cells,
    widths: Sequence[int],
    kept: Sequence[int],
    *,
    folds: bool = True,
) -> Iterable[str]:
    heads = [_wrapped(columns[i].name, widths[i]) for i in kept]
    height = max(map(len, heads))
    heads = [[""] * (height - len(head)) + head for head in heads]
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for row in range(height):
        line = _joined([head[row] for head in heads], right, widths, kept)
        yield f"\x1b[1m{line}\x1b[0m" if color else line
    for cells in rows:
        parts = [_wrapped(cells[i], widths[i]) if folds else [cells[i]] for i in kept]
        for row in range(max(map(len, parts))):
            texts = [each[row] if row < len(each) else "" for each in parts]
            marked = [color and columns[i].alarms and cells[i] not in ("", "ok") for i in kept]
            yield _joined(texts, right, widths, kept, marked)


def _joined(
    texts: Sequence[str],
    right: Sequence[bool],
    widths: Sequence[int],
    kept: Sequence[int],
    marked: Sequence[bool] = (),
) -> str:
    cells = []
    for place, (text, i) in enumerate(zip(texts, kept, strict=True)):
        blank = " " * (widths[i] - _cells_wide(text))
        shown = f"\x1b[31m{text}\x1b[0m" if marked and marked[place] and text else text
        cells.append(blank + shown if right[i] else shown + blank)
    return (" " * _GAP).join(cells).rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    if _cells_wide(text) <= width:
        return [text]
    lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
    return [part for line in lines for part in _folded(line, width)]


def _folded(text: str, width: int) -> Iterable[str]:
    """Yield a line in parts of at most `width` terminal columns, which must be at least 2; an empty text yields one
    empty part.
    """
    while _cells_wide(text) > width:
        end = width
        while end > 1 and _cells_wide(text[:end]) > width:
            end -= 1
        yield text[:end]
        text = text[end:]
    yield text


def _below_each_other(columns: Sequence[Column], rows: Cells, width: int) -> Iterable[str]:
    """Yield rows for a terminal that is too narrow for a table. A row becomes lines of a column name and a value, with
    a blank line between rows. Empty cells are omitted; long values are wrapped.
    """
    names = max(_cells_wide(each.name) for each in columns)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for column, cell in zip(columns, row, strict=True):
            if not cell:
                continue
            room = max(width - names - _GAP, _NARROW)
            first, *more = _wrapped(cell, room)
            yield f"{column.name.ljust(names)}{' ' * _GAP}{first}".rstrip()
            yield from (" " * (names + _GAP) + each for each in more)
