#!/usr/bin/env python3
"""How the page bears 100,000 hosts and 2,000 changes a second, in Chromium, served by `control` with a store of its own.

`placewright-bench pages --changes` starts the server, loads the hosts and changes them; `placewright topology apply` puts
them into racks and rooms. Prints each figure beside its bar; exit code 1 when one is missed. The hour of the bar:
`--seconds 3600`.
"""

import argparse
import contextlib
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from browser import Browser  # noqa: E402

RACK, ROOM = 40, 4000
FIRST_PICTURE_S, FRAMES_A_SECOND, TAB_MB = 2.0, 20.0, 500


@contextlib.contextmanager
def served(programs: pathlib.Path, hosts: int, changes: int, folder: str):
    """The address of the page of a server whose hosts change."""
    bench = subprocess.Popen(
        [programs / "placewright-bench", "pages", f"--hosts={hosts}", f"--changes={changes}", f"--directory={folder}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        said = bench.stdout.readline()
        print(said.strip(), flush=True)
        listeners = dict(re.findall(r"(\w+) (http://\S+)", said))
        if not listeners:
            raise SystemExit("the server did not start")
        apply_topology(programs, hosts, pathlib.Path(folder), listeners)
        yield listeners["page"]
    finally:
        bench.terminate()
        bench.wait(60)


def apply_topology(programs: pathlib.Path, hosts: int, folder: pathlib.Path, listeners: dict) -> None:
    table = folder / "hosts.csv"
    rows = (f"bench-{number},rack-{number // RACK:04},room-{number // ROOM:02}" for number in range(hosts))
    table.write_text("\n".join(["host,rack,room", *rows]) + "\n")
    urls = ["--scheduler-url", listeners["scheduler"], "--url", listeners["placement"]]
    command = [programs / "placewright", "topology", "apply", table, *urls, "--token", "admin"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def tab_mb(browser: Browser) -> float:
    """The memory of the tab's process, with its share of what it shares with others, in megabytes."""
    sizes = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_text()
            if "--type=renderer" in command and browser.profile in command:
                rollup = (process / "smaps_rollup").read_text()
                sizes.append(int(re.search(r"^Pss:\s+(\d+)", rollup, re.M).group(1)) * 1024 / 1e6)
    if not sizes:
        raise SystemExit("the tab's process is gone")
    return max(sizes)


PAN = """const done = arguments[0];
const tiles = placewrightTiles;
const times = [];
let step = 0;
const frame = (now) => {
  times.push(now);
  tiles.move(Math.sin(step / 9) * 14, Math.cos(step / 7) * 9);
  step += 1;
  if (step < 120) requestAnimationFrame(frame);
  else done(times);
};
requestAnimationFrame(frame);"""


def rate(times: list[float]) -> float:
    gaps = [after - before for before, after in zip(times, times[1:])]
    return 1000 / statistics.median(gaps)


def measure(browser: Browser, page: str, hosts: int, seconds: float) -> list[tuple]:
    browser.driver.set_script_timeout(120)
    browser.open(page)
    browser.until(lambda: browser.all("input[name=token]"))
    waited = browser.driver.execute_async_script(
        """const done = arguments[1];
        const begun = performance.now();
        document.querySelector('button[type=submit]').click();
        const look = () => (globalThis.placewrightTiles?.at?.size >= arguments[0] && placewrightTiles.frames.length > 0
          ? requestAnimationFrame(() => done(performance.now() - begun)) : setTimeout(look, 5));
        look();""",
        hosts,
    )
    figures = [("first picture of all hosts, s", waited / 1000, FIRST_PICTURE_S, True)]
    time.sleep(1)
    for what in ("everything in sight", "from nearer", "single tiles"):
        frames = rate(browser.driver.execute_async_script(PAN))
        figures.append((f"panning, {what}, frames a second at p50", frames, FRAMES_A_SECOND, False))
        browser.run("placewrightTiles.zoom(4)")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(60, max(0, end - time.monotonic())))
        print(f"the tab has {tab_mb(browser):.0f} MB", flush=True)
    figures.append((f"memory of the tab after {seconds:.0f} s, MB", tab_mb(browser), TAB_MB, True))
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=2_000, help="changes a second")
    parser.add_argument("--seconds", type=float, default=60, help="how long the page stays open before its memory is read")
    parser.add_argument("--programs", type=pathlib.Path, default=HERE.parent.parent / "target/release", help="the folder with placewright and placewright-bench (default: the release build)")
    parser.add_argument("--folder", help="where the store is made (default: the system's folder for temporary files)")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        with served(options.programs.resolve(), options.hosts, options.changes, folder) as page:
            browser = Browser()
            try:
                figures = measure(browser, page, options.hosts, options.seconds)
            finally:
                browser.end()
    for what, value, bar, is_most in figures:
        is_met = value <= bar if is_most else value >= bar
        missed += not is_met
        print(f"{'met   ' if is_met else 'MISSED'}  {what}: {value:.2f} (bar: {'at most' if is_most else 'at least'} {bar})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
