"""Takes the pictures of docs/screenshots: `make screenshots`.

A testbed of 16 agents is broken a little, by hand as it were, and played again; a thousand agents are simulated; three
algorithms stand beside each other. Everything runs on this machine and leaves the tree as it was, but for the pictures.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from browsers import CHROMIUM, Visit, chromium, visit
from dashboards import served
from playwright.sync_api import Browser, expect

sys.path.insert(0, str(Path(__file__).parent.parent))
from evidence import until

from agentd.cli.watching.testbed_behind import RunDirectorySurroundings
from agentd.runs.fault_log import read_faults
from agentd.runs.status import read_status

AGENTD = [sys.executable, "-m", "agentd"]
OUT = Path(__file__).parent.parent.parent / "docs" / "screenshots"
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
COLOURS = 255
ARMS = "0.6,0.57,0.54,0.51"
"""Close to each other: agents are of several minds for long."""


def agentd(*words: str) -> None:
    subprocess.run([*AGENTD, *words], check=True, stdout=subprocess.DEVNULL)


def rounds_of(run: Path) -> int:
    status = read_status(run)
    return status.round(but=(3,)) if status is not None else 0


def broken_testbed(place: Path) -> Path:
    """A run with faults at known places of its axis."""
    run = place / "sealed-16"
    shape = [
        "--agents",
        "16",
        "--edge-probability",
        "0.25",
        "--rounds",
        "1500",
        "--arms",
        ARMS,
        "--byzantine",
        "1",
    ]
    agentd("up", *shape, "--round-timeout", "2", "--run-dir", str(run), "--detach")
    for least, words in (
        (300, ("kill", "3")),
        (500, ("partition", "0-7|8-15")),
        (800, ("heal",)),
        (900, ("restart", "3")),
        (1100, ("loss", "5", "--rate", "0.3")),
    ):
        until(lambda least=least: rounds_of(run) >= least)  # type: ignore[misc]
        agentd("chaos", *words, "--run-dir", str(run))
    until(lambda: not RunDirectorySurroundings(run).is_running())
    return run


def in_the_partition(run: Path) -> int:
    """The moment of the story that lies a little after the cut."""
    cut = next(fault["round"] for fault in read_faults(run) if fault.get("verb") == "partition")
    return round((cut + 60) / 1500 * 239)


def keep(seen: Visit, name: str) -> None:
    """Write a picture down, with few colours, so that it stays small."""
    seen.page.evaluate("document.activeElement.blur()")
    taken = seen.page.screenshot(animations="disabled")
    OUT.mkdir(exist_ok=True)
    try:
        from PIL import Image
    except ImportError:
        (OUT / f"{name}.png").write_bytes(taken)
        return
    few = Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
    few.save(OUT / f"{name}.png", optimize=True)


def of_one_run(browser: Browser, run: Path) -> None:
    for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
        for scheme in ("light", "dark"):
            with served([run], None) as page, visit(browser, page.origin, viewport=size, color_scheme=scheme) as seen:
                expect(seen.page.locator("#player")).to_be_visible(timeout=60_000)
                seen.page.locator("#find").fill("7")
                seen.page.locator("#find").press("Enter")
                expect(seen.page.locator("#agent-body h3")).not_to_have_count(0)
                seen.page.locator("#slider").fill(str(in_the_partition(run)))
                seen.page.evaluate("scrollTo(0, 0)")
                keep(seen, f"run-{name}-{scheme}")


def of_charts(browser: Browser, run: Path) -> None:
    with served([run], None) as page, visit(browser, page.origin, viewport=DESKTOP) as seen:
        expect(seen.page.locator("#charts article")).not_to_have_count(0)
        expect(seen.page.locator("#player")).to_be_visible(timeout=60_000)
        seen.page.locator("[data-chart=regret] button").click()
        seen.page.locator("#charts-title").evaluate("(each) => each.scrollIntoView()")
        seen.page.evaluate("scrollBy(0, -70)")
        keep(seen, "charts")


def of_many(browser: Browser, place: Path) -> None:
    run = place / "sealed-1000"
    shape = ("--agents", "1000", "--edge-probability", "0.008", "--rounds", "400", "--seed", "4")
    agentd("simulate", *shape, "--run-dir", str(run))
    with served([run], None) as page, visit(browser, page.origin, viewport=DESKTOP, color_scheme="dark") as seen:
        expect(seen.page.locator("#player")).to_be_visible(timeout=60_000)
        seen.page.locator("#slider").fill("9")
        keep(seen, "thousand-agents")


def compared(browser: Browser, place: Path) -> None:
    runs = []
    for algorithm in ("sealed", "private-ucb", "ucb1"):
        runs.append(place / algorithm)
        shape = ("--agents", "30", "--edge-probability", "0.2", "--rounds", "600", "--seed", "5")
        agentd("simulate", *shape, "--algorithm", algorithm, "--run-dir", str(runs[-1]))
    with served(runs, None) as page, visit(browser, page.origin, viewport=DESKTOP) as seen:
        expect(seen.page.locator("#compare-charts path.line")).not_to_have_count(0)
        keep(seen, "compare")


def main() -> None:
    """Take all of them."""
    if CHROMIUM is None:
        sys.exit("error: there is no Chromium here; install it: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        place = Path(name)
        run = broken_testbed(place)
        of_one_run(browser, run)
        of_charts(browser, run)
        of_many(browser, place)
        compared(browser, place)


if __name__ == "__main__":
    main()
