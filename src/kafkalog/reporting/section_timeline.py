"""Section "Appends over time": a row of bars for each topic, from the timestamps of batch headers."""

from __future__ import annotations

from kafkalog.codec.common.wording import counted
from kafkalog.inspect.facts import ReportFacts
from kafkalog.inspect.timeline import Series
from kafkalog.reporting.markup import Content, Markup, code, element, table
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import duration_text, seconds_text, size_text

__all__ = ["timeline_data", "timeline_section"]

_ROWS = 12
_HEIGHT = 100


def timeline_section(facts: ReportFacts) -> Section | None:
    """Return the section with the bytes or records that were appended over time, as bars by topic; None if no batch has
    a timestamp.
    """
    series = facts.examined.series
    if series is None:
        return None
    rows = _rows(series)
    content: list[Content] = [
        element(
            "p",
            f"Appended from {seconds_text(series.start)} to {seconds_text(series.end)}, by the largest "
            f"timestamp of each batch; a bar stands for {duration_text(series.width)}. Each row has a scale of its "
            "own.",
        ),
        element(
            "fieldset",
            element("legend", "Show"),
            element("label", element("input", type="radio", name="unit", value="bytes", checked=True), " bytes"),
            element("label", element("input", type="radio", name="unit", value="records"), " records"),
        ),
        element(
            "div",
            *[_row(name, buckets, number) for number, (name, buckets) in enumerate(rows)],
            class_="rows",
            id="time-rows",
        ),
        element("p", "", id="time-text", aria_live="polite", class_="note"),
        element("details", element("summary", "The same as a table, all topics together"), _table(series)),
    ]
    notes = []
    if len(series.topics) > _ROWS:
        notes.append(f"{len(series.topics) - _ROWS + 1:,} topics are one row, 'all others'.")
    if series.outside:
        notes.append(f"{counted(series.outside, 'record')} with times far outside this range are not drawn.")
    if series.untimed:
        notes.append(f"{counted(series.untimed, 'record')} have no timestamp.")
    if notes:
        content.append(element("p", " ".join(notes), class_="note"))
    note = f"{counted(len(series.topics), 'topic')} over {duration_text(max(series.end - series.start, 0))}"
    return section("time", "Appends over time", note, *content)


def _rows(series: Series) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return (topic, buckets) for at most `_ROWS` rows, in the order of `series`; a bucket is (records, bytes).
    The topic with an empty name is called `other topics`. If there are more topics than rows, the last row is the sum
    of the remaining ones, called `all others`.
    """
    found = [(name or "other topics", buckets) for name, buckets in series.topics.items()]
    if len(found) <= _ROWS:
        return found
    rest = found[_ROWS - 1 :]
    summed = [
        (sum(records for records, _size in column), sum(size for _records, size in column))
        for column in zip(*(buckets for _name, buckets in rest), strict=True)
    ]
    return [*found[: _ROWS - 1], ("all others", summed)]


def _row(name: str, buckets: list[tuple[int, int]], number: int) -> Markup:
    records = sum(each for each, _size in buckets)
    size = sum(each for _records, each in buckets)
    chart = element(
        "svg",
        element("path", d=_bars([each for _records, each in buckets]), class_="of-bytes"),
        element("path", d=_bars([each for each, _size in buckets]), class_="of-records"),
        viewBox=f"0 0 {len(buckets)} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: {size_text(size)}, {records:,} records",
        data_row=number,
    )
    return element(
        "div",
        element("div", code(name), " ", element("span", f"{size_text(size)}, {records:,} records", class_="note")),
        chart,
        class_="row",
    )


def _bars(values: list[int]) -> str:
    """Return the SVG path of adjacent bars, one per value, scaled to the largest value. Values above 0 are always
    visible; 0 has no bar.
    """
    largest = max(values, default=0)
    parts = []
    for number, value in enumerate(values):
        if value:
            height = max(value * _HEIGHT / largest, 2)
            parts.append(f"M{number + 0.08:.2f} {_HEIGHT}V{_HEIGHT - height:.1f}h.84V{_HEIGHT}z")
    return "".join(parts)


def _table(series: Series) -> Markup:
    columns = list(zip(*series.topics.values(), strict=True))
    rows = []
    for number, column in enumerate(columns):
        records = sum(each for each, _size in column)
        if any(size for _records, size in column):
            begin = series.start + number * series.width
            rows.append([seconds_text(begin), records, sum(size for _records, size in column)])
    return table("Appends", ["from", "records", "bytes"], rows, numeric=[1, 2])


def timeline_data(facts: ReportFacts) -> dict[str, object] | None:
    """Return the data with which the page's script describes a bar of the timeline: `start` (ms since 1970), `width` of
    a bucket in ms, and `rows` with `name` and `buckets`, each (records, bytes). The rows are those of the chart, see
    `_rows`. None if no batch has a timestamp.
    """
    series = facts.examined.series
    if series is None:
        return None
    return {
        "start": series.start,
        "width": series.width,
        "rows": [{"name": name, "buckets": buckets} for name, buckets in _rows(series)],
    }
