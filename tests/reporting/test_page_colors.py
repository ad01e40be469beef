"""The colors of a report's page, as they are declared: WCAG 2.2 AA in light and dark, and told apart by every eye."""

from __future__ import annotations

import itertools
import re

import pytest

from kafkalog.inspect.stretches import Kind
from kafkalog.reporting.page import stylesheet
from kafkalog.reporting.section_map import PATTERNS

TEXT, GRAPHICS = 4.5, 3.0
"""Least contrast: 1.4.3 for text, 1.4.11 for what has to be seen besides."""


def declared(selector: str) -> dict[str, str]:
    """Custom properties of the first rule with this selector."""
    (body,) = re.findall(re.escape(selector) + r" \{(.*?)\}", stylesheet(), re.DOTALL)[:1]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", body))


LIGHT = declared(":root")
DARK = {**LIGHT, **declared(':root[data-theme="dark"]')}
THEMES = pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])


def channels(color: str) -> list[float]:
    """Linear red, green and blue, 0 to 1 (IEC 61966-2-1)."""
    values = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]


def luminance(color: str) -> float:
    red, green, blue = channels(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """WCAG 2.2's contrast ratio."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.478, abs=0.001)


def test_dark_declares_every_color_anew() -> None:
    assert set(declared(':root[data-theme="dark"]')) == set(LIGHT)
    assert declared(':root:not([data-theme="light"])') == declared(':root[data-theme="dark"]')


@THEMES
@pytest.mark.parametrize("ink", ["ink", "muted", "accent", "ok", "warn", "bad"])
@pytest.mark.parametrize("paper", ["bg", "panel", "sunken"])
def test_text_can_be_read(colors: dict[str, str], ink: str, paper: str) -> None:
    assert contrast(colors[ink], colors[paper]) >= TEXT


@THEMES
@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("paper", ["panel", "sunken"])
def test_every_kind_is_seen(colors: dict[str, str], kind: Kind, paper: str) -> None:
    seen = [colors[f"k-{kind}"], *([colors[f"l-{kind}"]] if PATTERNS[kind] else [])]
    assert max(contrast(color, colors[paper]) for color in seen) >= GRAPHICS


@THEMES
def test_controls_and_bars_are_seen(colors: dict[str, str]) -> None:
    assert contrast(colors["control"], colors["panel"]) >= GRAPHICS
    assert contrast(colors["bar"], colors["sunken"]) >= GRAPHICS


@THEMES
@pytest.mark.parametrize("kind", [kind for kind in Kind if PATTERNS[kind]])
def test_a_pattern_is_seen_on_its_own_color(colors: dict[str, str], kind: Kind) -> None:
    assert contrast(colors[f"k-{kind}"], colors[f"l-{kind}"]) >= 2.2


def test_no_kind_is_told_by_its_color_alone() -> None:
    assert len(set(PATTERNS.values())) == len(Kind)
    assert [kind for kind in Kind if not PATTERNS[kind]] == [Kind.SOUND]
    assert len({str(kind) for kind in Kind} | {kind.words for kind in Kind}) == 2 * len(Kind)


# What is left of a color for eyes without one kind of cone, in linear RGB; G. M. Machado, M. M. Oliveira and
# L. A. F. Fernandes, "A physiologically-based model for simulation of color vision deficiency", 2009, severity 1.
MISSING_CONES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


@THEMES
@pytest.mark.parametrize("eyes", sorted(MISSING_CONES))
def test_sound_and_damaged_differ_for_every_eye(colors: dict[str, str], eyes: str) -> None:
    def seen(color: str) -> list[float]:
        values = channels(color)
        linear = [sum(a * b for a, b in zip(row, values, strict=True)) for row in MISSING_CONES[eyes]]
        return [min(max(each, 0.0), 1.0) ** (1 / 2.4) for each in linear]

    for kind in (Kind.CORRUPT, Kind.TORN, Kind.NONSENSE):
        one, other = seen(colors[f"k-{Kind.SOUND}"]), seen(colors[f"k-{kind}"])
        assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 0.15, kind


def test_kinds_in_the_legend_are_those_that_are_drawn() -> None:
    used = set(re.findall(r"\.k-([A-Z]) \{", stylesheet()))
    assert used == {str(kind) for kind in Kind}
    assert all(f".f-{kind} " in stylesheet() for kind in Kind)
    assert all(f".l-{kind} " in stylesheet() for kind, lines in PATTERNS.items() if lines)
    assert not [pair for pair in itertools.combinations(Kind, 2) if LIGHT[f"k-{pair[0]}"] == LIGHT[f"k-{pair[1]}"]]
