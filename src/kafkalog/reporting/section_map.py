"""Health map of the report: a bar to scale for each segment, and one view that zooms into a range of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import PartitionFacts, ReportFacts
from kafkalog.inspect.stretches import Kind, SegmentMap, Stretch
from kafkalog.reporting.markup import Content, Markup, code, element
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import shortened, size_text

__all__ = ["PATTERNS", "map_data", "map_section"]

_WIDTH = 1000
_FEW = 6
_VISIBLE = 5
"""Width of the smallest damage that is drawn, of 1000 per segment, so that all damage is visible."""
PATTERNS = {
    Kind.SOUND: "",
    Kind.AFTER: "M0 8L8 0M-2 2L2 -2M6 10L10 6",
    Kind.ZEROS: "M1.5 2h2M5.5 6h2",
    Kind.TORN: "M2 0V8M6 0V8",
    Kind.MISPLACED: "M0 2H8M0 6H8",
    Kind.NONSENSE: "M0 0L8 8M0 8L8 0",
    Kind.CORRUPT: "M-2 6L2 10M0 0L8 8M6 -2L10 2",
    Kind.UNREAD: "M0 0H4V4H0Z M4 4H8V8H4Z",
}


def map_section(facts: ReportFacts) -> Section | None:
    """Return the section with a bar for each drawn segment; partitions with damage come first. None if there are no
    segments.
    """
    maps = facts.examined.maps
    if not facts.examined.segments:
        return None
    damaged = facts.examined.damaged_segments
    note = f"{counted(damaged, 'segment')} not sound" if damaged else "every segment is sound"
    hurt: list[Content] = []
    sound: list[Content] = []
    number = 0
    for path, several in groupby(maps, key=lambda each: each[0].path):
        found = list(several)
        groups = sound if all(segment_map.is_sound for _partition, segment_map in found) else hurt
        groups.append(_partition(path, found, number))
        number += len(found)
    return section(
        "map",
        "Health map",
        note,
        element(
            "p",
            "Every segment byte by byte, to scale within its partition; damage is drawn wide enough to be "
            "seen. Select a bar to look at it closely.",
        ),
        _defs(),
        _legend(),
        _view() if maps else None,
        element("div", *hurt, *_together(sound), class_="partitions"),
        _left_out(facts),
    )


def _together(sound: list[Content]) -> list[Content]:
    """Fold partitions whose drawn segments are all sound into one line that opens; returns them unchanged if there are
    few.
    """
    if len(sound) <= _FEW:
        return sound
    words = f"{len(sound):,} partitions in which every segment that is drawn is sound"
    return [element("details", element("summary", words), element("div", *sound, class_="body partitions"))]


def _left_out(facts: ReportFacts) -> Markup | None:
    examined = facts.examined
    words = []
    if examined.damaged_not_drawn:
        words.append(f"{counted(examined.damaged_not_drawn, 'more segment')} that are not sound are not drawn")
    if examined.clean_not_drawn:
        words.append(f"{counted(examined.clean_not_drawn, 'segment')} that are sound are not drawn")
    return element("p", f"{' and '.join(words)}: the page would become too large.", class_="note") if words else None


def _defs() -> Markup:
    """Return an SVG element that draws nothing and defines the pattern and color for each kind of stretch."""
    patterns = [
        element(
            "pattern",
            element("rect", width=8, height=8, class_=f"f-{kind}"),
            element("path", d=lines, class_=f"l-{kind}") if lines else None,
            id=f"p-{kind}",
            width=8,
            height=8,
            patternUnits="userSpaceOnUse",
        )
        for kind, lines in PATTERNS.items()
    ]
    return element("svg", element("defs", *patterns), class_="defs", width=0, height=0, aria_hidden="true")


def _legend() -> Markup:
    entries = [
        element(
            "li",
            element(
                "svg", element("rect", width=28, height=18, class_=f"k-{kind}"), width=28, height=18, aria_hidden="true"
            ),
            element("b", str(kind)),
            " ",
            kind.words,
        )
        for kind in Kind
    ]
    return element("ul", *entries, class_="legend", aria_label="Legend")


def _view() -> Markup:
    """Return the HTML of the zoom view, hidden and empty; the page's script fills and shows it."""
    buttons = [
        ("previous", "◀ Segment", "Previous segment"),
        ("next", "Segment ▶", "Next segment"),
        ("damage", "Next damage", "Go to the next damage"),
        ("in", "+", "Zoom in"),
        ("out", "−", "Zoom out"),
        ("whole", "Whole", "Show the whole segment"),
    ]
    controls = [
        element("button", text, type="button", data_do=name, aria_label=label, title=label)
        for name, text, label in buttons
    ]
    fields = [
        element("label", "from byte ", element("input", type="text", inputmode="numeric", id="from", size=12)),
        element("label", "to ", element("input", type="text", inputmode="numeric", id="to", size=12)),
    ]
    form = element("form", *fields, element("button", "Show", type="submit"), id="range")
    keys = (
        "Keys: ← → from stretch to stretch, Shift with them moves the view, + and − zoom, 0 shows all, "
        "Page Up and Page Down go to other segments. The mouse wheel and two fingers zoom too."
    )
    return element(
        "div",
        element("p", element("strong", "", id="view-title"), " ", element("span", "", id="view-file", class_="path")),
        element("div", *controls, form, class_="controls"),
        element(
            "div",
            "",
            id="stage",
            tabindex=0,
            role="application",
            aria_label="Bytes of the segment",
            aria_describedby="view-keys view-text",
        ),
        element("p", "", id="view-text", aria_live="polite"),
        element("p", keys, id="view-keys", class_="note"),
        id="view",
        class_="view",
        hidden=True,
    )


def _partition(path: str, maps: Sequence[tuple[PartitionFacts, SegmentMap]], number: int) -> Markup:
    partition = maps[0][0]
    largest = max(segment_map.segment.size for _partition, segment_map in maps)
    hurt = any(not segment_map.is_sound for _partition, segment_map in maps)
    drawn = len(maps)
    more = partition.segments - drawn
    summary = element(
        "summary",
        element("strong", code(partition.name)),
        " ",
        element("span", f"{counted(partition.segments, 'segment')}, {size_text(partition.size)}", class_="note"),
        _chips(stretch for _partition, segment_map in maps for stretch in segment_map.stretches),
        element("span", path, class_="path"),
    )
    bars = [_bar(segment_map, number + position, largest) for position, (_partition, segment_map) in enumerate(maps)]
    body = element("ol", *bars, class_="bars")
    note = element("p", f"{counted(more, 'more segment')} not drawn.", class_="note") if more else None
    return element("details", summary, body, note, open=hurt)


def _chips(stretches: object) -> list[Content]:
    """Return labels with the number of stretches of each kind other than sound, worst kind first; empty if all are
    sound.
    """
    counts: Counter[Kind] = Counter()
    for stretch in stretches:  # type: ignore[attr-defined]
        counts[stretch.kind] += 1
    return [
        [" ", element("span", f"{kind} {kind.words} {counts[kind]:,}", class_=f"chip c-{kind}")]
        for kind in reversed(Kind)
        if kind is not Kind.SOUND and counts[kind]
    ]


def _bar(segment_map: SegmentMap, number: int, largest: int) -> Markup:
    segment = segment_map.segment
    scale = _WIDTH / largest if largest else 0.0
    width = max(round(segment.size * scale), 6)
    words = ", ".join(
        f"{count} {kind.words}"
        for kind, count in Counter(stretch.kind for stretch in segment_map.stretches).items()
        if kind is not Kind.SOUND
    )
    label = f"segment {segment.base_offset}, {size_text(segment.size)}, {words or 'sound'}"
    bar = element(
        "svg", *_rects(segment_map, width), viewBox=f"0 0 {_WIDTH} 16", preserveAspectRatio="none", aria_hidden="true"
    )
    button = element(
        "button",
        element("span", str(segment.base_offset), class_="base"),
        bar,
        element("span", size_text(segment.size), class_="size"),
        type="button",
        class_="bar",
        data_segment=number,
        aria_label=label,
    )
    return element("li", button)


def _rects(segment_map: SegmentMap, width: int) -> list[Markup]:
    """Return the SVG rectangles of a segment's bar, which is `width` units wide. Adjacent stretches of one kind are one
    rectangle. Damage is drawn above sound batches and is always wide enough to be visible; at its end, the bar may
    therefore be wider than `width`. An empty segment is one thin rectangle.
    """
    size = segment_map.segment.size
    if not size:
        return [element("rect", x=0, y=7, width=width, height=2, class_="k-Z")]
    runs: list[list[Stretch]] = []
    for stretch in segment_map.stretches:
        if runs and runs[-1][0].kind is stretch.kind:
            runs[-1].append(stretch)
        else:
            runs.append([stretch])
    runs.sort(key=lambda run: run[0].kind.rank)
    rects = []
    for run in runs:
        begin, end = run[0].start / size * width, run[-1].end / size * width
        least = _VISIBLE if run[0].kind not in (Kind.SOUND, Kind.AFTER) else 0.5
        span = max(end - begin, least)
        begin = min(begin, _WIDTH - span)
        rects.append(element("rect", x=f"{begin:.1f}", y=0, width=f"{span:.1f}", height=16, class_=f"k-{run[0].kind}"))
    return rects


def map_data(facts: ReportFacts) -> dict[str, object]:
    """Return the data with which the page's script draws the maps: `kinds` (names by letter), `segments`, and `details`
    (descriptions, the first of which is empty). A segment has `name`, `file`, `base`, `size` and `rows`, one row for
    each stretch: [kind, start, end, batches, records, first offset, last offset, number of its description in
    `details`, number of stretches that were joined]. Offsets are strings, or None if unknown.
    """
    details: dict[str, int] = {"": 0}
    segments = []
    for partition, segment_map in facts.examined.maps:
        rows = [
            [
                str(stretch.kind),
                stretch.start,
                stretch.end,
                stretch.batches,
                stretch.records,
                _number(stretch.first_offset),
                _number(stretch.last_offset),
                details.setdefault(shortened(stretch.detail, 300), len(details)),
                stretch.places,
            ]
            for stretch in segment_map.stretches
        ]
        segments.append(
            {
                "name": partition.name,
                "file": segment_map.segment.path,
                "base": str(segment_map.segment.base_offset),
                "size": segment_map.segment.size,
                "rows": rows,
            }
        )
    return {"kinds": {str(kind): kind.words for kind in Kind}, "segments": segments, "details": list(details)}


def _number(offset: int | None) -> str | None:
    """An offset as text, because a script's numbers are not exact from 2^53 on; None for None."""
    return None if offset is None else str(offset)
