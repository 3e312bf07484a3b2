"""The site in a browser: every page on a phone and on a desk, light and dark, for those who do not see it and by its search."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.study.report.test_browser import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest.importorskip("mkdocs", reason="mkdocs builds the site: pip install 'portakern[docs]'")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no browser is here")]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)], cwd=ROOT, check=True, timeout=300)
    (folder / "404.html").unlink()  # a server's, with addresses that a folder does not have
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_pages_fit_and_are_accessible(site: Path, browser: Browser, width: int, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found: list[tuple[str, str, str]] = []
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        root = "document.documentElement"
        assert page.evaluate(f"{root}.scrollWidth <= {root}.clientWidth"), f"{file.name} is wider than {width} pixels"
        found += [(file.name, v["id"], v["nodes"][0]["html"][:200]) for v in Axe().run(page).response["violations"]]
    page.close()
    assert found == []


def test_its_search_finds_a_page(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").click()
    page.keyboard.type("rooflines")
    page.locator(".md-search-result__link").first.wait_for(timeout=10_000)
    page.close()
