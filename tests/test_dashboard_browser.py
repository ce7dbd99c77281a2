"""The dashboard in a real browser: every page in light, dark and narrow, charts, the graph, news, and hostile texts."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import engram
from dashboard_seed import EVIL, fill, fill_with_evil
from engram.server import dashboard
from engram.server.app import Served, create
from engram.server.limits import Limits

playwright = pytest.importorskip("playwright.sync_api")
uvicorn = pytest.importorskip("uvicorn")

BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
MAPS = "Applying inline style violates"
"""Plotly brings styles for maps, which are refused; there are no maps here."""
LOOKS = [
    "?agent=alice",
    "timeline?agent=alice",
    "debugger?agent=alice&q=which+database+is+in+staging&recency=2",
    "decisions?agent=alice&context=api-auth-timeout",
    "failures?agent=alice",
    "graph?agent=alice",
    "agents?agent=alice",
    "life?agent=alice",
    "grants?agent=alice",
    "audit?agent=alice",
    "quarantine?agent=alice",
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        known = [*BROWSERS, driver.chromium.executable_path]
        path = next((each for each in known if Path(each).exists()), None)
        if path is None:
            pytest.skip("there is no Chromium on this machine; the pages are tested without one in test_dashboard.py")
        opened = driver.chromium.launch(executable_path=path, args=OPTIONS)
        yield opened
        opened.close()


@dataclass
class Site:
    """A server on a port of this machine."""

    brain: engram.Engram
    served: Served
    url: str
    artifacts: Path

    def path(self, page: str) -> str:
        return f"{self.url}/dashboard/{page}"


@contextmanager
def site(path: Path, artifacts: Path) -> Iterator[Site]:
    with engram.open(path, embedder="hashing", durable=False) as brain:
        served = create(brain, limits=Limits(rate=0), poll_seconds=0.05)
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(served.asgi, log_level="error", lifespan="on"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield Site(brain, served, f"http://127.0.0.1:{listener.getsockname()[1]}", artifacts)
        finally:
            served.stopping.set()
            server.should_exit = True
            thread.join(20)


def artifacts(folder: Path) -> Path:
    """Where pictures go: where `ENGRAM_ARTIFACTS` said when the tests began, or beside the database."""
    goal = Path(KEPT) if KEPT else folder
    goal.mkdir(parents=True, exist_ok=True)
    return goal


KEPT = os.environ.get("ENGRAM_ARTIFACTS", "")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("dashboard")
    with site(folder / "team.db", artifacts(folder / "pictures")) as opened:
        fill(opened.brain)
        yield opened


@dataclass
class Window:
    """A page in the browser, and everything that went wrong in it."""

    page: Any
    troubles: list[str] = field(default_factory=list)


@contextmanager
def window(browser: Any, where: Site, **options: Any) -> Iterator[Window]:
    """A signed-in window; any error, dialog or refused script in it fails the test."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
    page = context.new_page()
    page.set_default_timeout(20_000)
    found = Window(page)
    page.on("pageerror", lambda error: found.troubles.append(f"error: {error}"))
    page.on("dialog", lambda dialog: _dismiss(found, dialog))
    page.on("console", lambda line: _note(found, line))
    page.goto(f"{where.url}/?token={dashboard.invitation(where.served.api)}")
    try:
        yield found
        assert found.troubles == []
    finally:
        context.close()


def _dismiss(found: Window, dialog: Any) -> None:
    found.troubles.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def _note(found: Window, line: Any) -> None:
    if line.type == "error" and not line.text.startswith(MAPS):
        found.troubles.append(line.text)


def fits(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


SIZES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
}


@pytest.mark.parametrize("size", SIZES)
def test_every_page_is_drawn(browser: Any, team: Site, size: str) -> None:
    with window(browser, team, **SIZES[size]) as seen:
        page = seen.page
        for look in LOOKS:
            page.goto(team.path(look))
            assert page.locator("h1").count() == 1
            assert fits(page), look
            if look.startswith(("?", "decisions")):
                page.wait_for_selector("html[data-charts=drawn]")
                assert page.locator(".plot .main-svg").count() >= 2
            if look.startswith("graph"):
                page.wait_for_selector("#drawing[data-drawn=yes]")
            name = look.partition("?")[0] or "overview"
            page.screenshot(path=team.artifacts / f"{size}-{name}.png", full_page=True)
        for look, link in (("timeline", "article.memory .said a"), ("failures", "tbody th a")):
            page.goto(team.path(f"{look}?agent=alice"))
            page.locator(link).first.click()
            page.wait_for_selector("h1")
            assert fits(page)
            page.screenshot(path=team.artifacts / f"{size}-one-of-{look}.png", full_page=True)


def test_the_door_takes_a_key(browser: Any, team: Site) -> None:
    from engram.access import Keys

    token = Keys(team.brain.store, team.brain.redactor, team.brain.sources).create("a browser", agents="alice")[1]
    context = browser.new_context()
    page = context.new_page()
    page.goto(team.path("decisions?agent=alice"))
    page.screenshot(path=team.artifacts / "sign-in.png")
    page.locator("#key").fill("wrong")
    page.keyboard.press("Enter")
    assert page.get_by_role("alert").inner_text().startswith("This key is not known")
    page.locator("#key").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("nav a")
    assert page.locator("h1").inner_text().startswith("Decisions")
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_selector("#key")
    context.close()


def test_a_search_in_the_debugger_and_other_weights(browser: Any, team: Site) -> None:
    with window(browser, team) as seen:
        page = seen.page
        page.goto(team.path("debugger?agent=alice"))
        page.get_by_label("Query").fill("which database is in staging?")
        page.keyboard.press("Enter")
        page.wait_for_selector("table.cards tbody tr")
        assert "PostgreSQL 15" in page.locator("table.cards tbody tr").first.inner_text()
        page.locator("form summary").click()
        page.locator("#w-recency").fill("9")
        page.get_by_role("button", name="Recall").click()
        page.wait_for_selector("text=The two rankings")
        assert page.locator(".compare ol").count() == 2
        page.locator("details.inline summary").first.click()
        assert page.locator("details.inline dl").first.is_visible()


def test_the_chain_is_verified_by_a_button(browser: Any, team: Site) -> None:
    with window(browser, team) as seen:
        page = seen.page
        page.goto(team.path("audit?agent=alice"))
        page.get_by_role("button", name="Verify the chain").click()
        page.wait_for_selector("text=whole")


def test_the_graph_is_reached_by_keyboard(browser: Any, team: Site) -> None:
    with window(browser, team) as seen:
        page = seen.page
        page.goto(team.path("graph?agent=alice"))
        page.wait_for_selector("#drawing[data-drawn=yes]")
        assert page.locator("#drawing circle").count() == page.locator("#concepts a").count() >= 8
        page.locator("#concepts a").first.focus()
        page.wait_for_selector("#drawing a.here")
        assert page.locator("#drawing line.near").count() >= 1
        page.keyboard.press("Enter")
        page.wait_for_url("**around=**")


def test_all_can_be_done_by_keyboard_and_the_focus_is_seen(browser: Any, team: Site) -> None:
    with window(browser, team) as seen:
        page = seen.page
        page.goto(team.path("timeline?agent=alice"))
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#main"
        page.keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_colours_are_changed_and_kept(browser: Any, team: Site) -> None:
    with window(browser, team, color_scheme="light") as seen:
        page, back = seen.page, "getComputedStyle(document.body).backgroundColor"
        page.goto(team.path("agents?agent=alice"))
        light = page.evaluate(back)
        page.locator("#theme").click()
        dark = page.evaluate(back)
        page.reload()
        assert page.evaluate(back) == dark != light


def test_the_slider_asks_for_what_was_valid_then(browser: Any, team: Site) -> None:
    with window(browser, team) as seen:
        page = seen.page
        page.goto(team.path("timeline?agent=alice"))
        slider = page.locator("#slider")
        assert slider.is_visible()
        slider.focus()
        page.keyboard.press("Home")
        page.wait_for_url("**as_of=2**")
        assert page.get_by_text("No memory passes").count() + page.locator("article.memory").count() >= 1


def test_what_happens_shows_up_by_itself(browser: Any, team: Site) -> None:
    with window(browser, team) as seen:
        page = seen.page
        page.goto(team.path("timeline?agent=bob"))
        page.wait_for_selector("#live:not([hidden])")
        team.brain.agent("bob").remember("Something has just happened")
        page.wait_for_selector("text=Something has just happened")
        page.locator("#agent").focus()


def test_hostile_texts_are_shown_as_they_are(browser: Any, tmp_path: Path) -> None:
    with site(tmp_path / "evil.db", artifacts(tmp_path / "pictures")) as evil:
        names = fill_with_evil(evil.brain)
        with window(browser, evil) as seen:
            page = seen.page
            for name in names:
                for look in LOOKS:
                    where = look.replace("agent=alice", "")
                    page.goto(evil.path(f"{where}{'' if where.endswith('?') else '&'}"))
                    page.goto(page.url + "agent=" + page.evaluate("encodeURIComponent", name))
                    assert page.locator("h1").count() == 1, look
                    if look.startswith(("?", "decisions")):
                        page.wait_for_selector("html[data-charts=drawn]")
                    if look.startswith("graph"):
                        page.wait_for_selector("#drawing[data-drawn=yes]")
                    assert page.locator("script:not([src]), main img, iframe, main b, main u").count() == 0
                page.goto(evil.path("timeline?agent=" + page.evaluate("encodeURIComponent", name)))
                first = page.locator("article.memory .said a", has_text="alert(1)").first
                assert "<script>alert(1)</script>" in first.inner_text()
                first.click()
                page.wait_for_selector("blockquote.whole")
                assert EVIL[:30] in page.locator("main").inner_text()
                page.screenshot(path=evil.artifacts / f"evil-{names.index(name)}.png", full_page=True)
                page.goto(evil.path("failures?agent=" + page.evaluate("encodeURIComponent", name)))
                page.locator("tbody th a").first.click()
                page.wait_for_selector("html[data-charts=drawn]")
