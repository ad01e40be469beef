"""The page of `kafkalog report` in a real browser: nothing asked for, nothing complained of, all of it in reach."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from testkit.made.odd_names import TOPIC, hostile_directory
from testkit.recorded.broker_dirs import unpacked
from testkit.recorded.fixture_data import recovery_cases, unpack_replicas
from testkit.running.browser import SHIFT, Browser, Page, chromium
from testkit.running.command import kafkalog

pytestmark = pytest.mark.interop

SIZES = pytest.mark.parametrize(("width", "height"), [(1280, 900), (768, 1024), (375, 812)])
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])
STAGE = "document.getElementById('stage')"
TEXT = "document.getElementById('view-text').textContent"


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    with chromium() as found:
        yield found


class Opened:
    """Opens pages; in the end none of them may have complained, or have asked for anything."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.pages: list[Page] = []

    def open(self, path: Path, *, width: int = 1280, height: int = 900, theme: str = "light") -> Page:
        self.pages.append(self._browser.open(path, width=width, height=height, theme=theme))
        return self.pages[-1]


@pytest.fixture
def browser(started: Browser) -> Iterator[Opened]:
    opened = Opened(started)
    yield opened
    for page in opened.pages:
        assert page.requests() == []
        assert page.complaints() == []
        page.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of a damaged directory, of three brokers' volumes and of a clean broker, and of one after a recovery."""
    root = tmp_path_factory.mktemp("reports")
    damaged = recovery_cases(["bit_flip"])[0].unpack_before(root / "damaged")
    recovered = recovery_cases(["random_mix"])[0].unpack_before(root / "recovered")
    assert kafkalog("recover", "--yes", "--mode", "salvage", recovered).code == 2
    unpack_replicas(root / "volumes")
    examined = {
        "damaged": [damaged],
        "volumes": [root / "volumes" / f"broker-{number}" for number in (1, 2, 3)],
        "clean": [unpacked("4.1.1/txn")],
        "torn": [unpacked("4.3.0/torn")],
        "recovered": [recovered],
        "hostile": [hostile_directory(root)],
    }
    found = {}
    for name, paths in examined.items():
        found[name] = root / f"{name}.html"
        assert kafkalog("report", *paths, "-o", found[name]).code in (0, 1)
    return found


NAMES = pytest.mark.parametrize("name", ["damaged", "volumes", "clean", "torn", "recovered", "hostile"])


def overflow(page: Page) -> list[str]:
    """Elements that reach beyond the right edge, those apart that scroll by themselves."""
    found: list[str] = page.value(
        "[...document.querySelectorAll('body *')].filter((each) => each.getBoundingClientRect().right > innerWidth + 1"
        " && !each.closest('.wide, pre, .defs, .skip')).map((each) => each.outerHTML.slice(0, 120))"
    )
    return found


@NAMES
@SIZES
@THEMES
def test_it_fits_asks_for_nothing_and_complains_of_nothing(
    browser: Opened, pages: dict[str, Path], name: str, width: int, height: int, theme: str
) -> None:
    page = browser.open(pages[name], width=width, height=height, theme=theme)
    for everything in (False, True):
        if everything:
            page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert page.value("document.documentElement.scrollWidth") <= width
        assert overflow(page) == []


@THEMES
def test_colors_are_those_of_the_system_until_the_reader_chooses(
    browser: Opened, pages: dict[str, Path], theme: str
) -> None:
    page = browser.open(pages["damaged"], theme=theme)
    paper = "getComputedStyle(document.body).backgroundColor"
    colors = {"light": "rgb(246, 247, 248)", "dark": "rgb(20, 23, 27)"}
    button = "document.getElementById('theme')"
    assert page.value(paper) == colors[theme]
    for chosen in ("light", "dark"):
        page.value(f"{button}.click()")
        assert page.value(paper) == colors[chosen]
        assert chosen in page.value(f"{button}.textContent")
    page.value(f"{button}.click()")
    assert page.value(paper) == colors[theme]


def test_sections_collapse_and_a_link_opens_its_own(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"])
    opened = "[...document.querySelectorAll('main > section > details')].filter((each) => each.open).length"
    assert page.value(opened) > 3
    page.value("document.getElementById('fold').click()")
    page.wait(f"{opened} === 0")
    page.wait("document.getElementById('fold').textContent === 'Expand all'")
    page.value("document.querySelector('nav a[href=\"#inventory\"]').click()")
    page.wait(f"{opened} === 1")
    assert page.value("document.querySelector('#inventory > details').open")
    page.value("document.getElementById('fold').click()")
    page.value("document.getElementById('fold').click()")
    total = page.value("document.querySelectorAll('main > section > details').length")
    page.wait(f"{opened} === {total}")


def test_tab_reaches_every_control_in_order(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"])
    page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.value(
        "window.wanted = [...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
        ".filter((each) => each.getClientRects().length && (each.type !== 'radio' || each.checked));"
        "document.activeElement.blur(); window.scrollTo(0, 0); undefined"
    )
    total = page.value("wanted.length")
    assert total > 40
    reached = []
    for _ in range(total):
        page.press("Tab")
        reached.append(page.value("wanted.indexOf(document.activeElement)"))
    assert reached == list(range(total))


def test_odd_names_are_shown_and_do_nothing(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["hostile"])
    assert page.value("document.querySelectorAll('img, b.x, main script').length") == 0
    assert TOPIC in page.value("document.getElementById('view-title').textContent")
    assert page.value("document.querySelectorAll('script').length") == 2


def test_what_has_the_focus_is_seen(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"])
    page.press("Tab")
    page.press("Tab")
    assert page.value("document.activeElement.id") == "fold"
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert float(page.value("parseFloat(getComputedStyle(document.activeElement).outlineWidth)")) >= 2


def seen(page: Page) -> tuple[float, float]:
    """First byte of the view, and the one after the last."""
    low, high = page.value(f"[Number({STAGE}.dataset.low), Number({STAGE}.dataset.high)]")
    return low, high


def test_zoom_and_choice_by_keyboard(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"])
    page.value(f"{STAGE}.focus()")
    whole = seen(page)
    assert whole[0] == 0
    assert "C corruption: bytes 279 to 578" in page.value(TEXT)
    page.press("+")
    inside = seen(page)
    assert inside[1] - inside[0] == pytest.approx((whole[1] - whole[0]) / 2)
    assert inside[0] <= 279
    page.press("ArrowRight", SHIFT)
    assert seen(page)[0] > inside[0]
    page.press("-")
    page.press("0")
    assert seen(page) == whole
    page.press("ArrowRight")
    assert "A sound, after damage: bytes 578" in page.value(TEXT)
    page.press("Home")
    assert "bytes 0 to" in page.value(TEXT)
    page.press("End")
    assert f"to {whole[1]:,.0f}" in page.value(TEXT)
    title = "document.getElementById('view-title').textContent"
    before = page.value(title)
    page.press("PageDown")
    assert page.value(title) != before
    page.press("PageUp")
    assert page.value(title) == before
    for _ in range(60):
        page.press("+")
    low, high = seen(page)
    assert 8 <= high - low < 9


def test_zoom_by_mouse_wheel_and_drag(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"])
    page.value(f"{STAGE}.focus(); {STAGE}.scrollIntoView({{block: 'center'}})")
    box = page.value(f"(() => {{ const b = {STAGE}.getBoundingClientRect(); return [b.left, b.top, b.width]; }})()")
    whole = seen(page)
    x, y = box[0] + box[2] / 4, box[1] + 40
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-600)
    page.wait(f"Number({STAGE}.dataset.high) < {whole[1]}")
    low, high = seen(page)
    assert low < whole[1] / 4 < high
    page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    page.mouse("mouseMoved", x - 80, y, button="left", buttons=1)
    page.mouse("mouseReleased", x - 80, y, button="left", clickCount=1)
    page.wait(f"Number({STAGE}.dataset.low) > {low}")
    page.press("0")
    page.mouse("mouseMoved", box[0] + box[2] * 0.02, y)
    page.wait(f"{TEXT}.includes('S sound batches: bytes 0 to')")


def test_zoom_by_two_fingers(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"], width=375, height=812)
    page.value(f"{STAGE}.scrollIntoView({{block: 'center'}})")
    left, top, width = page.value(
        f"(() => {{ const b = {STAGE}.getBoundingClientRect(); return [b.left, b.top, b.width]; }})()"
    )
    whole = seen(page)
    middle, y = left + width / 2, top + 40
    page.touch("touchStart", (middle - 20, y), (middle + 20, y))
    for spread in (30, 45, 60, 90):
        page.touch("touchMove", (middle - spread, y), (middle + spread, y))
    page.touch("touchEnd")
    page.wait(f"Number({STAGE}.dataset.high) - Number({STAGE}.dataset.low) < {whole[1] * 0.6}")


def test_a_bar_opens_its_segment_and_a_range_can_be_typed(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["torn"])
    page.value("document.querySelector('.bar[data-segment=\"3\"]').click()")
    assert page.value("document.querySelector('.bar[aria-current]').dataset.segment") == "3"
    assert page.value("document.activeElement.id") == "stage"
    page.value(
        "document.getElementById('from').value = '100'; document.getElementById('to').value = '300';"
        "document.querySelector('#range button').click()"
    )
    assert seen(page) == (100, 300)
    page.value("document.getElementById('to').value = 'x'; document.querySelector('#range button').click()")
    assert seen(page) == (100, 300)
    assert "two positions" in page.value(TEXT)


def test_next_damage_goes_through_all_of_it(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["torn"])
    damaged = page.value(
        "JSON.parse(document.getElementById('data').textContent).map.segments"
        ".flatMap((each) => each.rows).filter((row) => !'SA'.includes(row[0])).length"
    )
    told = {page.value(TEXT)}
    for _ in range(damaged - 1):
        page.value("document.querySelector('[data-do=damage]').click()")
        told.add(page.value(TEXT))
    assert len(told) == damaged > 5
    assert all(": bytes " in each for each in told)


def test_appends_are_shown_as_records_or_bytes(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["torn"])
    shown = "getComputedStyle(document.querySelector('.of-records')).display"
    assert page.value(shown) == "none"
    page.value("document.querySelector('input[value=records]').click()")
    assert page.value(shown) == "inline"
    page.value("document.querySelector('input[value=bytes]').click()")
    assert page.value(shown) == "none"
    page.value("document.getElementById('time-rows').scrollIntoView({block: 'center'})")
    left, top = page.value(
        "(() => { const b = document.querySelector('#time-rows svg').getBoundingClientRect();"
        "return [b.left + 3, b.top + 10]; })()"
    )
    page.mouse("mouseMoved", left, top)
    page.wait("document.getElementById('time-text').textContent.includes(' records, ')")


def test_patterns_and_colors_are_really_drawn(browser: Opened, pages: dict[str, Path], tmp_path: Path) -> None:
    page = browser.open(pages["damaged"])
    fills = page.value("[...document.querySelectorAll('.legend rect')].map((each) => getComputedStyle(each).fill)")
    assert len(set(fills)) == len(fills) == 8
    assert sum("url(" in each for each in fills) == 7
    page.value("document.querySelector('.legend').scrollIntoView({block: 'center'})")
    picture = tmp_path / "legend.png"
    page.screenshot(picture)
    assert picture.stat().st_size > 10_000


def test_it_prints_with_everything_open_and_black_on_white(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"], theme="dark")
    page.value("document.getElementById('fold').click()")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.value("window.dispatchEvent(new Event('beforeprint'))")
    assert page.value("document.querySelectorAll('details:not([open])').length") == 0
    assert page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.value("getComputedStyle(document.querySelector('.tools')).display") == "none"
    page.value("window.dispatchEvent(new Event('afterprint'))")
    assert page.value("document.querySelectorAll('details:not([open])').length") > 0
    assert len(page.call("Page.printToPDF", printBackground=True)["data"]) > 10_000


def test_headings_and_names_are_there_for_those_who_listen(browser: Opened, pages: dict[str, Path]) -> None:
    page = browser.open(pages["damaged"])
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node["role"]["value"] in ("button", "link", "textbox", "radio", "application")
    ]
    assert len(named) > 20
    assert all(name for _role, name in named)
    levels = page.value("[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
