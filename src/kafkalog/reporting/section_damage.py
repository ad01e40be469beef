"""Section "Damage": each finding with its place, its sentence, what to do, and the bytes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kafkalog.codec.common.finding_codes import advice_for
from kafkalog.codec.common.findings import Finding
from kafkalog.codec.common.wording import counted
from kafkalog.inspect.annotated import AnnotatedBytes
from kafkalog.inspect.facts import Damage, ReportFacts
from kafkalog.reporting.markup import Content, Markup, code, element, prose, table
from kafkalog.reporting.section import Section, section
from kafkalog.reporting.wording import seconds_text, shortened
from kafkalog.words.fields import explain_command

__all__ = ["damage_section", "hex_text"]

_OPEN = 3
_IN_A_ROW = 8


def damage_section(facts: ReportFacts) -> Section | None:
    """Return the section with errors and warnings; None if there are none. If some findings are not shown one by one,
    the section also has a table that counts all of them by severity and code.
    """
    if not facts.findings:
        return None
    errors = len(facts.errors)
    warnings = len(facts.findings) - errors
    note = ", ".join(
        text
        for text in (counted(errors, "error") if errors else "", counted(warnings, "warning") if warnings else "")
        if text
    )
    content: list[Content] = []
    told = sum(damage.count for damage in facts.damages)
    if len(facts.findings) > len(facts.damages):
        content.append(
            element(
                "p",
                f"{len(facts.damages)} of {len(facts.findings):,} findings are shown one by one: of "
                "each code in each file the first five, errors first.",
            )
        )
        counts = Counter((str(finding.severity), str(finding.code)) for finding in facts.findings)
        rows: list[list[Content]] = [
            [severity, code(name), count] for (severity, name), count in sorted(counts.items())
        ]
        content.append(table("All findings by code", ["severity", "code", "findings"], rows, numeric=[2]))
        if told < len(facts.findings):
            words = (
                f"{len(facts.findings) - told:,} findings are only counted here; `kafkalog verify --json` lists all."
            )
            content.append(element("p", prose(words)))
    content += [_article(damage, number < _OPEN) for number, damage in enumerate(facts.damages)]
    if facts.informations:
        content.append(
            element(
                "p",
                f"{counted(facts.informations, 'more finding')} of severity info, such as gaps that "
                "compaction leaves, are left out.",
                class_="note",
            )
        )
    return section("damage", "Damage", note, *content)


def _article(damage: Damage, is_open: bool) -> Markup:
    finding = damage.finding
    place = [code(finding.file)] if finding.file is not None else []
    where: list[Content] = [*place]
    if finding.position is not None:
        where += [" at byte ", element("strong", finding.position)]
    for number, words in enumerate(finding.offsets_and_times):
        where += [", ", element("strong", words) if number == 0 else words]
    summary = element(
        "summary",
        element("span", str(finding.severity), class_=f"chip s-{finding.severity}"),
        " ",
        element("span", str(finding.code), class_="code"),
        " ",
        element("span", where, class_="where"),
        element("span", _sentence(finding.detail), class_="note"),
    )
    more = None
    if damage.count > 1:
        more = element("p", f"{counted(damage.count - 1, 'more finding')} of this code in this file.", class_="note")
    body = [
        element("p", element("strong", "What to do: "), prose(advice_for(damage.finding.code))),
        _explained(finding),
        more,
        None if damage.around is None else _bytes(damage.around, finding.position or 0),
    ]
    return element("details", summary, element("div", *body, class_="body"), open=is_open, class_="finding")


def _explained(finding: Finding) -> Markup | None:
    command = explain_command(finding)
    return None if command is None else element("p", element("strong", "Every byte there: "), code(command))


def _sentence(text: str) -> str:
    text = shortened(text)
    return f"{text[:1].upper()}{text[1:]}." if text and not text.endswith(".") else text


def hex_text(data: bytes) -> str:
    """Hexadecimal digits of bytes, in pairs."""
    return data.hex(" ")


def _bytes(around: AnnotatedBytes, position: int) -> Markup:
    rows: list[list[Content]] = list(_plain(around.before, position - len(around.before), "before"))
    for field in around.fields:
        value = "cut short" if field.value is None else str(field.value)
        is_time = field.name.endswith("timestamp") and field.value is not None and field.value >= 0
        time = seconds_text(field.value) if is_time else ""
        meaning = f"{time}; {field.meaning}" if time else field.meaning
        rows.append([str(field.position), _hex(field.data), element("span", field.name, class_="code"), value, meaning])
    rows += _plain(around.after, around.after_position, "after")
    caption = f"Bytes there, read as {around.layout}"
    return table(caption, ["byte", "hexadecimal", "field", "value", "meaning"], rows, numeric=[0, 3])


def _plain(data: bytes, position: int, where: str) -> Iterator[list[Content]]:
    """Rows with bytes that no field of the layout covers."""
    for start in range(0, len(data), _IN_A_ROW):
        part = data[start : start + _IN_A_ROW]
        yield [str(position + start), _hex(part), element("em", where), "", _text(part)]


def _hex(data: bytes) -> Markup:
    return element("code", hex_text(data), class_="hex")


def _text(data: bytes) -> Markup:
    """Printable characters of bytes, with a dot for others."""
    return element("code", "".join(chr(each) if 0x20 <= each < 0x7F else "·" for each in data), class_="hex")
