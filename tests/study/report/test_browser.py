"""The page in a browser: on narrow and wide screens, light and dark, by keyboard and for those who do not see it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.study.report.studies import study, sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright", reason="playwright drives the browser: pip install -e '.[dev]'")
pytest.importorskip("vl_convert", reason="vl-convert-python draws the plots: pip install 'portakern[report]'")
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in BROWSERS if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"no browser: apt-get install {BROWSERS[0]}")

WIDTHS = (400, 800, 1400)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = study()
    rows = sweep({"numba:cpu": {64: 1.0, 128: 4.0, 256: 16.0}, "cpp:cpu": {64: 2.0, 128: 4.0, 256: 8.0}})
    path = tmp_path_factory.mktemp("report") / "page.html"
    replace(made, rows=(*made.rows, *rows)).to_html(path)
    return path


@pytest.fixture
def opened(browser: Browser, file: Path) -> Iterator[Any]:
    """``opened(width, scheme)``: the page, which must not complain or ask for anything while it is looked at."""
    pages: list[Page] = []
    said: list[str] = []

    def open_(width: int = 1400, scheme: Any = "light") -> Page:
        # Pages do not scroll smoothly, so that places that are asked for one after the other are of one moment.
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        pages.append(page)
        return page

    yield open_
    for page in pages:
        page.close()
    assert said == []


OUTSIDE = """() => {
  const width = document.documentElement.clientWidth;
  const scrolls = e => e && e !== document.documentElement
    && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter(e => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement))
    .map(e => `${e.tagName} ${e.className.baseVal ?? e.className}: ${e.textContent.trim().slice(0, 40)}`);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_is_accessible(opened: Any, width: int, scheme: str):
    from axe_playwright_python.sync_playwright import Axe

    page = opened(width, scheme)
    assert page.evaluate(OUTSIDE) == []
    page.locator("#ties button").first.click()  # what is lit must have contrast, too
    page.evaluate("document.querySelectorAll('details:not(.assembly)').forEach(d => { d.open = true; })")
    found = Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:200], v["nodes"][0]["failureSummary"]) for v in found] == []
    shown = page.locator(".wide:visible, .narrow:visible")
    assert shown.count() == page.locator("figure.times").count()  # one of the two drawings of each


def test_axe_would_say_so(opened: Any):
    from axe_playwright_python.sync_playwright import Axe

    page = opened()
    page.evaluate("document.querySelector('#count').style.color = '#ccd'")
    assert [v["id"] for v in Axe().run(page).response["violations"]] == ["color-contrast"]


def targets(page: Page) -> list[str]:
    return page.locator("#table tbody:visible .target").all_inner_texts()


def test_rows_are_sorted_by_heads_and_by_the_list(opened: Any):
    page = opened()
    before = targets(page)
    page.get_by_role("button", name="Time, ").click()
    times = page.locator("#table tbody").evaluate_all("rows => rows.map(r => r.dataset.time ?? '')")
    known = [float(t) for t in times if t]
    assert known == sorted(known) and len(known) == 7 and times[7:] == [""] * 4  # without a time at the end
    page.get_by_role("button", name="Time, ").click()
    times = page.locator("#table tbody").evaluate_all("rows => rows.map(r => r.dataset.time ?? '')")
    assert [float(t) for t in times[:7]] == sorted(known, reverse=True) and times[7:] == [""] * 4
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.get_by_label("Sort by").select_option("number")
    page.locator("#direction").click()
    assert targets(page) == before


def test_what_is_filtered_out_is_faint_in_the_plots(opened: Any):
    page = opened()
    page.get_by_label("Filter").fill("sm_90a softmax")
    assert targets(page) == ["cuda:sm_90a"] and page.locator("#count").inner_text() == "1 of 11 rows"
    assert page.locator(".plot g[data-row='0']:not(.off)").count() == 0
    assert page.locator(".plot g[data-row='1']:not(.off)").count() > 0
    page.get_by_label("Filter").fill("")
    page.get_by_label("timed (").uncheck()
    assert "numba:cpu" not in targets(page) and "hip:gfx942" in targets(page)


def test_a_mark_leads_to_its_row(opened: Any):
    page = opened()
    page.locator(".facets .plot g[data-row='3']").click()
    assert page.locator("tbody.found .target").inner_text() == "hip:gfx942"


def test_two_texts_are_chosen_and_their_lines_lit_by_keyboard(opened: Any):
    page = opened()
    page.get_by_label("Left").select_option(label="hip:gfx942")
    page.get_by_label("Right").select_option(label="pallas:v6e")
    assert page.locator(".listing:visible h3").all_inner_texts() == ["hip:gfx942", "pallas:v6e"]
    tie = page.get_by_role("button", name="exp")
    tie.focus()
    page.keyboard.press("Enter")
    assert tie.get_attribute("aria-pressed") == "true"
    for listing in page.locator(".listing:visible").all():
        lit = listing.locator(".l.lit")
        assert lit.count() > 0 and all("exp" in text for text in lit.all_inner_texts())
        code, first = listing.locator(".code").bounding_box(), lit.first.bounding_box()
        assert code["y"] <= first["y"] <= code["y"] + code["height"]  # scrolled to where it is seen
    assert "pk.exp" in page.locator("#origin").inner_text() or "softmax" in page.locator("#origin").inner_text()
    page.keyboard.press("Enter")
    assert page.locator(".l.lit").count() == 0


def test_every_control_is_reached_by_tab(opened: Any):
    page = opened(800)
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.tie || "
                                  "document.activeElement.className || document.activeElement.tagName"))
    assert reached >= {"filter", "sort", "direction", "left", "right", "0", "4", "code", "SUMMARY"}


def test_assembly_is_unpacked_and_instructions_stand_under_their_lines(opened: Any):
    page = opened()
    page.get_by_label("Left").select_option(label="cuda:sm_90a")
    page.get_by_text("Assembly, ").first.click()
    page.wait_for_function("document.querySelector('.assembly pre').textContent.includes('cvt.f32.bf16')")
    assert page.locator(".made:visible").count() == 0
    page.get_by_label("instructions under their lines").check()
    assert page.locator(".made:visible").count() == 2


def test_on_paper_everything_is_open_and_black(opened: Any):
    page = opened(800, "light")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".more details:not([open])").count() == 0
    assert not page.locator("#tools").is_visible() and page.locator(".command code").first.is_visible()
    assert page.pdf()[:4] == b"%PDF"


def test_without_scripts_all_texts_and_rows_are_there(browser: Browser, file: Path):
    page = browser.new_page(java_script_enabled=False)
    page.goto(file.as_uri())
    assert page.locator(".listing:visible").count() == 5 and page.locator("#table tbody:visible").count() == 11
    assert not page.locator("#tools").is_visible()
    page.close()
