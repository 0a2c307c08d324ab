"""The page in a real browser, clicked through: finished runs, several runs, a hostile one, and a live testbed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import Visit, chromium, needs_chromium, visit
from dashboards import served
from evidence import until
from playwright.sync_api import Browser, expect
from test_dashboard_page import EVIL, hostile, simulated

pytestmark = [pytest.mark.long, needs_chromium, pytest.mark.timeout(600)]

AGENTD = [sys.executable, "-m", "agentd"]
LIVE_AGENTS = 8


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    names = ("one", "two", "three")
    return [simulated(place / name, "--seed", str(seed)) for seed, name in enumerate(names)]


def require_accessible(visited: Visit) -> None:
    """No fault that keeps somebody out."""
    found = Axe().run(visited.page, options={"resultTypes": ["violations"]}).response["violations"]
    grave = [fault for fault in found if fault["impact"] in ("serious", "critical")]
    assert not grave, json.dumps([(fault["id"], [node["html"][:200] for node in fault["nodes"]]) for fault in grave])


def edges_of(run: Path) -> int:
    graph = json.loads((run / "topology.json").read_text())
    return len(graph.get("links", graph.get("edges")))


def test_a_finished_run_is_shown_and_played_again(browser: Browser, runs: list[Path]) -> None:
    with served(runs[:1]) as page, visit(browser, page.origin) as seen:
        assert seen.number("nodes") == 6
        assert seen.number("edges") == edges_of(runs[0])
        expect(seen.page.locator("#player")).to_be_visible()
        moment = seen.page.locator("#moment")
        expect(moment).to_have_text("round 60 of 60")
        seen.page.locator("#slider").fill("0")
        expect(moment).to_have_text("round 1 of 60")
        seen.page.locator("#slider").press("ArrowRight")
        expect(moment).to_have_text("round 2 of 60")
        seen.page.locator("#speed").select_option("8")
        seen.page.get_by_role("button", name="Play").click()
        expect(moment).to_have_text("round 60 of 60", timeout=30_000)
        expect(seen.page.locator("#charts article")).not_to_have_count(0)
        seen.require_clean(page.origin)


def test_three_runs_are_three_curves_on_one_axis(browser: Browser, runs: list[Path]) -> None:
    with served(runs) as page, visit(browser, page.origin) as seen:
        curves = seen.page.locator("#compare-charts [data-chart=regret] path.line")
        expect(curves).to_have_count(3)
        expect(seen.page.locator("#differences th[scope=row]", has_text=re.compile("^seed$"))).to_have_count(1)
        seen.page.get_by_role("button", name="One run").click()
        seen.page.locator("#run-choice").select_option("2")
        expect(seen.page.locator("#title")).to_contain_text("three")
        seen.require_clean(page.origin)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 390])
def test_nobody_is_kept_out(browser: Browser, runs: list[Path], scheme: str, width: int) -> None:
    size = {"width": width, "height": 844}
    with served(runs) as page, visit(browser, page.origin + "/#token=x", viewport=size, color_scheme=scheme) as seen:
        require_accessible(seen)
        seen.page.get_by_role("button", name="One run").click()
        seen.page.locator("#find").fill("3")
        seen.page.locator("#find").press("Enter")
        expect(seen.page.locator("#agent-title")).to_have_text("Agent 3")
        expect(seen.page.locator("#agent-body h3")).not_to_have_count(0)
        seen.page.locator("#charts details summary").first.click()
        require_accessible(seen)
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        seen.require_clean(page.origin)


def test_the_keyboard_reaches_every_control(browser: Browser, runs: list[Path]) -> None:
    with served(runs) as page, visit(browser, page.origin + "/#token=x") as seen:
        seen.page.get_by_role("button", name="One run").click()
        seen.page.locator("#find").fill("0")
        seen.page.locator("#find").press("Enter")
        expect(seen.page.locator("#actions [data-do=kill]")).to_be_enabled()
        wanted = seen.page.evaluate(
            """() => { const all = [...document.querySelectorAll("button, input, select, canvas, summary, svg.plot, a")]
                 .filter((each) => each.checkVisibility() && !each.disabled);
               all.forEach((each, place) => { each.dataset.place = place; }); return all.length; }"""
        )
        seen.page.evaluate("document.activeElement.blur()")
        reached = set()
        for _ in range(3 * wanted):
            seen.page.keyboard.press("Tab")
            reached.add(seen.page.evaluate("document.activeElement?.dataset?.place ?? null"))
        missing = set(map(str, range(wanted))) - reached
        assert not missing, seen.page.evaluate(
            "(all) => all.map((one) => document.querySelector(`[data-place='${one}']`).outerHTML.slice(0, 120))",
            sorted(missing),
        )
        graph = seen.page.locator("#graph")
        graph.focus()
        graph.press("End")
        expect(seen.page.locator("#agent-title")).to_have_text("Agent 5")
        graph.press("Home")
        graph.press(" ")
        expect(seen.page.locator("#chosen")).to_have_text("Selected: 0")
        graph.press("Escape")
        chart = seen.page.locator("#charts svg.plot").first
        chart.focus()
        chart.press("End")
        expect(seen.page.locator("#charts .reading").first).to_contain_text("60")


def test_a_hostile_run_directory_is_shown_as_text(browser: Browser, runs: list[Path], tmp_path: Path) -> None:
    with served([hostile(tmp_path / "evil", runs)]) as page, visit(browser, page.origin) as seen:
        expect(seen.page.locator("#faults li").last).to_contain_text("<img src=x")
        seen.page.locator("#find").fill("0")
        seen.page.locator("#find").press("Enter")
        expect(seen.page.locator("#agent-body .log")).to_contain_text("<script>alert(2)</script>")
        expect(seen.page.locator("#settings")).to_contain_text("<img src=x")
        assert seen.page.locator("main img, main script, main iframe").count() == 0
        assert "\x1b" not in (seen.page.locator("body").text_content() or "")
        assert EVIL not in (seen.page.locator("body").text_content() or "")
        seen.require_clean(page.origin)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A testbed that runs for long, and the address of its page with the token."""
    place = tmp_path / "live"
    shape = ["--agents", str(LIVE_AGENTS), "--edge-probability", "0.6", "--rounds", "1000000"]
    subprocess.run([*AGENTD, "up", *shape, "--run-dir", str(place), "--detach"], check=True, capture_output=True)
    page = subprocess.Popen(
        [*AGENTD, "dashboard", str(place), "--listen", "127.0.0.1:0", "--allow-chaos"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert page.stdout is not None
        yield place, page.stdout.readline().split()[1]
    finally:
        page.terminate()
        page.communicate()
        subprocess.run([*AGENTD, "down", str(place)], check=True, capture_output=True)


MARKED_S = """(dead) => new Promise((done) => {
  const began = performance.now(), graph = document.getElementById("graph");
  const look = () => graph.dataset.dead === dead ? done((performance.now() - began) / 1000) : setTimeout(look, 20);
  look(); })"""


def test_a_live_testbed_is_broken_and_healed_by_hand(browser: Browser, live: tuple[Path, str]) -> None:
    place, url = live
    with visit(browser, url) as seen:
        page = seen.page
        expect(page.locator("#state")).to_have_text("Live")
        assert seen.number("nodes") == LIVE_AGENTS
        assert seen.number("edges") == edges_of(place)
        regret = page.locator("#charts [data-chart=regret] path.line").last
        expect(regret).to_be_visible(timeout=60_000)
        before = page.locator("#tiles dd").first.text_content()
        line = regret.get_attribute("d")
        until(lambda: regret.get_attribute("d") != line)
        assert page.locator("#tiles dd").first.text_content() != before

        took = []
        for agent in range(3):  # the best of three: the machine may be busy with other tests
            choose(seen, agent)
            page.locator("[data-do=kill]").click()
            took.append(page.evaluate(MARKED_S, "1"))
            page.locator("[data-do=restart]").click()
            expect(page.locator("#graph")).to_have_attribute("data-dead", "0", timeout=60_000)
        assert min(took) < 3.0, took

        lasso_left_half(seen)
        page.locator("[data-do=partition]").click()
        until(lambda: seen.number("cut") > 0)
        page.locator("[data-do=heal]").click()
        until(lambda: seen.number("cut") == 0)

        page.get_by_role("button", name="Clear").click()
        choose(seen, 4)
        for verb, mark in (("pause", "paused"), ("lie", "liar"), ("delay", "disturbed")):
            page.locator(f"[data-do={verb}]").click()
            until(lambda mark=mark: mark in state_of(seen, 4))  # type: ignore[misc]
        page.locator("[data-do=resume]").click()
        page.locator("[data-do=honest]").click()
        page.locator("[data-do=heal]").click()
        until(lambda: not {"paused", "liar", "disturbed"} & set(state_of(seen, 4).split(", ")))
        what = [json.loads(text)["verb"] for text in (place / "faults.jsonl").read_text().splitlines()]
        assert {"kill", "restart", "partition", "heal", "pause", "resume", "lie", "honest", "delay"} <= set(what)
        seen.require_clean(url.split("/#")[0])


def choose(seen: Visit, agent: int) -> None:
    seen.page.locator("#find").fill(str(agent))
    seen.page.locator("#find").press("Enter")
    expect(seen.page.locator("#agent-title")).to_have_text(f"Agent {agent}")


def state_of(seen: Visit, agent: int) -> str:
    """How the panel says that an agent is, looked at anew."""
    choose(seen, agent)
    return seen.page.locator("#agent-body .facts dd").first.text_content() or ""


def lasso_left_half(seen: Visit) -> None:
    seen.page.get_by_role("button", name="Lasso").click()
    box = seen.page.locator("#graph").bounding_box()
    assert box is not None
    left, top, right, bottom = box["x"] + 2, box["y"] + 2, box["x"] + box["width"] / 2, box["y"] + box["height"] - 2
    mouse = seen.page.mouse
    mouse.move(left, top)
    mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top)):
        mouse.move(x, y, steps=5)
    mouse.up()
    expect(seen.page.locator("#chosen")).to_contain_text("Selected:")
    seen.page.get_by_role("button", name="Lasso").click()


FRAMES_PER_S = """() => new Promise((done) => {
  const graph = document.getElementById("graph"), from = Number(graph.dataset.frames), began = performance.now();
  setTimeout(() => done((Number(graph.dataset.frames) - from) / ((performance.now() - began) / 1000)), 1500); })"""


IDLE_PER_S = """() => new Promise((done) => {
  let frames = 0; const began = performance.now();
  const step = () => performance.now() - began < 1000 ? (frames++, requestAnimationFrame(step)) : done(frames);
  requestAnimationFrame(step); })"""


def test_a_thousand_agents_are_played_fluently(browser: Browser, tmp_path: Path) -> None:
    run = simulated(
        tmp_path / "big", "--agents", "1000", "--edge-probability", "0.01", "--rounds", "500", "--seed", "3"
    )
    with served([run]) as page, visit(browser, page.origin) as seen:
        expect(seen.page.locator("#player")).to_be_visible(timeout=60_000)
        assert seen.number("nodes") == 1000
        seen.page.locator("#speed").select_option("8")  # a new moment in every frame, which is the hardest
        rates, idle = [], []
        for _ in range(3):
            idle.append(float(seen.page.evaluate(IDLE_PER_S)))
            seen.page.locator("#slider").fill("0")
            seen.page.get_by_role("button", name="Play").click()
            rates.append(float(seen.page.evaluate(FRAMES_PER_S)))
            expect(seen.page.get_by_role("button", name="Play")).to_be_visible(timeout=60_000)
        weight = seen.page.evaluate(
            "performance.getEntries().filter((each) => each.encodedBodySize !== undefined)"
            ".reduce((sum, each) => sum + each.encodedBodySize, 0)"
        )
        paint_ms = seen.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"frames/s {rates}, of an idle page {idle}, weight {weight} bytes, first paint {paint_ms:.0f} ms")
        # On a machine so busy that a page with nothing to draw is not fluent either, this one is nearly as fluent.
        assert max(rates) >= min(20.0, 0.6 * max(idle)), idle
        assert weight <= 3_000_000
        assert paint_ms <= 2_000
        seen.require_clean(page.origin)
