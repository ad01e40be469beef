"""The page of results: the rows that matter, and a picture of them, from the table of all rows.

    .venv/bin/python benchmarks/results_page.py          # says whether RESULTS.md and results.svg follow ALL_ROWS.md
    .venv/bin/python benchmarks/results_page.py --write
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALL, PAGE, PICTURE = HERE / "ALL_ROWS.md", HERE / "RESULTS.md", HERE / "results.svg"
MARK = "<!-- rows -->"
PLAIN = "text, 100 B, none, 140 a batch, by Kafka"
ROWS: tuple[tuple[str, str, str], ...] = (
    ("Into Arrow, plain", "decode to Arrow", PLAIN),
    ("Into Arrow, plain, as views", "decode to Arrow, views", PLAIN),
    ("Into Arrow, 1 KB values", "decode to Arrow", "json, 1 KB, none, 16 a batch, by Kafka"),
    ("Into Arrow, 10 KB values", "decode to Arrow", "json, 10 KB, none, 10 a batch, by Kafka"),
    ("Into Arrow, lz4", "decode to Arrow", "json, 100 B, lz4, 140 a batch, by Kafka"),
    ("Into Arrow, zstd", "decode to Arrow", "json, 100 B, zstd, 140 a batch, by Kafka"),
    ("Into Arrow, snappy", "decode to Arrow", "json, 100 B, snappy, 140 a batch, by Kafka"),
    ("Into Arrow, gzip", "decode to Arrow", "json, 100 B, gzip, 140 a batch, by Kafka"),
    ("Into Arrow, magic 1", "decode to Arrow", f"{PLAIN}, magic 1"),
    ("Python objects, records()", "records()", PLAIN),
    ("Verify, by checksum", "kafkalog.verify(deep=False)", PLAIN),
    ("Recover a segment", "recover a segment, indexes rebuilt", PLAIN),
    ("Recover 512 MiB, whole process", "recover 512 MiB, whole process", PLAIN),
    ("Dump as JSON, whole process", "dump --json into a file", "json, 100 B, none, 140 a batch, by Kafka"),
    ("Build batches", "build batches from columns", PLAIN),
)
PEERS = ("kafkalog", "Java", "Kafka", "kafka-dump-log", "aiokafka", "kafka-python")
COLORS = {"kafkalog": "#0b6e4f", "aiokafka": "#b0b7c3", "kafka-python": "#d5d9e0"}
OF_KAFKA = "#6b7280"
UNITS = {"": 1.0, " M": 1e6}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: who did how much in a second, as medians."""

    label: str
    unit: str
    rates: Mapping[str, float]

    def ratio(self, peer: str) -> float:
        """How many times as fast as a peer."""
        return self.rates["kafkalog"] / self.rates[peer]


def _rate(text: str) -> float:
    found = re.match(r"([\d.]+)( M)? \(", text)
    if found is None:
        raise ValueError(text)
    return float(found[1]) * UNITS[found[2] or ""]


def rows(table: str) -> Iterator[Row]:
    """The rows that matter, in their order; `KeyError` for one that the table lacks."""
    cells: dict[tuple[str, str], list[str]] = {}
    for line in table.splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        if len(parts) == 6:
            cells.setdefault((parts[0], parts[1]), parts)
    for label, work, corpus in ROWS:
        _, _, own, peers, _, _ = cells[work, corpus]
        unit = re.search(r"\) (\w+)/s", own)
        rates = {"kafkalog": _rate(own)}
        for peer in peers.split("; "):
            name = next((each for each in PEERS if peer.startswith(f"{each} ")), None)
            if name is not None:
                rates[name] = _rate(peer.removeprefix(name).strip())
        yield Row(label, "" if unit is None else unit[1], rates)


def _number(rate: float) -> str:
    return f"{rate / 1e6:.2f} M" if rate >= 100_000 else f"{rate:,.2f}" if rate < 100 else f"{rate:,.0f}"


def table_of(found: list[Row]) -> str:
    """As Markdown."""
    lines = ["| work | kafkalog, a second | beside Kafka's own code | beside aiokafka | beside kafka-python |",
             "|---|---:|---:|---:|---:|"]  # fmt: skip
    for row in found:
        of_kafka = next((peer for peer in ("Java", "Kafka", "kafka-dump-log") if peer in row.rates), None)
        ratios = [f"{row.ratio(peer):.2f} ×" if peer in row.rates else "" for peer in (of_kafka or "", *PEERS[4:])]
        lines.append(f"| {row.label} | {_number(row.rates['kafkalog'])} {row.unit} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def picture_of(found: list[Row]) -> str:
    """Bars for each row, ours beside each peer; each row has its own scale, whose end is its fastest."""
    left, width, bar, gap = 250, 420, 9, 12
    parts, y = [], 34
    for row in found:
        fastest = max(row.rates.values())
        shown = [peer for peer in PEERS if peer in row.rates]
        middle = y + (len(shown) * (bar + 1)) / 2 + 3
        parts.append(f'<text x="{left - 10}" y="{middle:.0f}" text-anchor="end">{escape(row.label)}</text>')
        for peer in shown:
            length = max(row.rates[peer] / fastest * width, 1)
            color = COLORS.get(peer, OF_KAFKA)
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar}" fill="{color}"/>')
            end, rate = left + length + 5, _number(row.rates[peer])
            parts.append(f'<text class="n" x="{end:.1f}" y="{y + bar - 1}">{rate}</text>')
            y += bar + 1
        y += gap
    legend, x = [], left
    for name, color in (("kafkalog", COLORS["kafkalog"]), ("Kafka's own code (Java)", OF_KAFKA),
                        ("aiokafka", COLORS["aiokafka"]), ("kafka-python", COLORS["kafka-python"])):  # fmt: skip
        legend.append(f'<rect x="{x}" y="10" width="10" height="10" fill="{color}"/>')
        legend.append(f'<text x="{x + 14}" y="19">{escape(name)}</text>')
        x += 30 + 7 * len(name)
    style = "text{font:12px sans-serif;fill:#374151}.n{font-size:9px;fill:#6b7280}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {y}" role="img" '
        f'aria-label="Rates beside other programs; the table has the same numbers"><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(legend)}{"".join(parts)}</svg>\n'
    )


def page(text: str, table: str) -> str:
    """The page with its rows between the marks."""
    before, _, after = text.split(MARK)
    return f"{before}{MARK}\n\n{table}\n\n{MARK}{after}"


def main(write: bool) -> int:
    """Whether both files follow the table; with `write` they do."""
    found = list(rows(ALL.read_text(encoding="utf-8")))
    wanted = {PAGE: page(PAGE.read_text(encoding="utf-8"), table_of(found)), PICTURE: picture_of(found)}
    for path, text in wanted.items():
        if write:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} does not follow {ALL.name}: run this with --write", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
