#!/usr/bin/env python3
"""How the page bears 100,000 hosts and 2,000 changes a second, in Chromium.

The hosts come from a stand-in that serves the page's own files and writes the stream of docs/ui.md; so this measures the
page, not the service. Prints each figure beside its bar; exit code 1 when one is missed.
"""

import argparse
import http.server
import json
import pathlib
import random
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from browser import Browser  # noqa: E402

FILES = HERE.parent.parent / "crates/ui/page"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
RACK = 40
FIRST_PICTURE_S, FRAMES_A_SECOND, TAB_MB = 2.0, 20.0, 500


def name(number: int) -> str:
    return f"40000000-0000-0000-0000-{number:012}"


def first_events(hosts: int) -> list[bytes]:
    """All hosts, 1,024 to an event, as the service writes them."""
    racks = [[name(10_000_000 + rack)] for rack in range(hosts // RACK + 1)]
    values = {
        "cells": [[name(20_000_000 + cell), f"cell{cell}"] for cell in range(10)],
        "zones": [f"zone-{zone}" for zone in range(4)],
        "aggregates": racks,
        "traits": [["HW_CPU_X86_AVX2"]],
        "shapes": [[["VCPU", 128, 36, 4], ["MEMORY_MB", 131072, 131072, 0], ["DISK_GB", 2000, 2000, 0]]],
    }
    events = []
    for begin in range(0, hosts, 1024):
        slots = range(begin, min(begin + 1024, hosts))
        data = {
            **(values if begin == 0 else {}),
            "hosts": [[s, name(s), f"host-{s:06}", 0, s % 10, s % 4, s // RACK, 0, 0] for s in slots],
            "live": [live(s) for s in slots],
            "gone": [],
        }
        events.append(f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode())
    events.append(b"id: 1.1\nevent: end\ndata: {}\n\n")
    return events


def live(slot: int) -> list[int]:
    cpus = random.randrange(129)
    return [slot, 2 if slot % 997 == 0 else 0, 0, cpus // 4, cpus, cpus * 1024, cpus * 15]


class Handler(http.server.BaseHTTPRequestHandler):
    hosts, changes, events = 0, 0, []

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:  # noqa: N802
        path = self.path.split("?")[0]
        may = {key: True for key in ("fleet", "capacity", "destinations", "status")}
        answers = {
            "/ui/api/installation": {"sign_in": "noauth2", "services": ["scheduler"]},
            "/ui/api/session": {"user": "admin", "project": "admin", "roles": [], "may": may},
            "/ui/api/scheduler/v1/aggregates": {"aggregates": [{"uuid": name(10_000_000 + r), "name": f"rack-{r:04}"} for r in range(self.hosts // RACK + 1)]},
            "/ui/api/scheduler/v1/topology": {"levels": [{"name": "rack", "aggregates": [name(10_000_000 + r) for r in range(self.hosts // RACK + 1)]}]},
        }
        if path == "/ui/api/fleet":
            return self.stream()
        if path in answers:
            return self.send(json.dumps(answers[path]).encode(), "application/json")
        file = FILES / (path[4:] or "index.html")
        if file.is_file():
            return self.send(file.read_bytes(), TYPES[file.suffix])
        return self.send(b"", "text/plain")

    def send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        version = 1
        try:
            for event in self.events:
                self.wfile.write(event)
            while True:
                time.sleep(0.5)
                version += 1
                rows = [live(random.randrange(self.hosts)) for _ in range(self.changes // 2)]
                data = json.dumps({"hosts": [], "live": rows, "gone": []}, separators=(",", ":"))
                self.wfile.write(f"data: {data}\n\nid: 1.{version}\nevent: end\ndata: {{}}\n\n".encode())
        except OSError:
            pass


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=2_000, help="changes a second")
    parser.add_argument("--seconds", type=float, default=20, help="how long the page stays open before its memory is read")
    options = parser.parse_args()
    Handler.hosts, Handler.changes, Handler.events = options.hosts, options.changes, first_events(options.hosts)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = Browser()
    browser.driver.set_script_timeout(120)
    missed = 0
    try:
        browser.open(f"http://127.0.0.1:{server.server_port}/ui/#/fleet")
        browser.until(lambda: browser.all("input[name=token]"))
        waited = browser.driver.execute_async_script(
            """const done = arguments[1];
            const begun = performance.now();
            document.querySelector('button[type=submit]').click();
            const look = () => (globalThis.placewrightTiles?.at?.size >= arguments[0] && placewrightTiles.frames.length > 0
              ? requestAnimationFrame(() => done(performance.now() - begun)) : setTimeout(look, 5));
            look();""",
            options.hosts,
        )
        figures = [("first picture of all hosts, s", waited / 1000, FIRST_PICTURE_S, True)]
        time.sleep(1)
        figures.append(("panning, everything in sight, frames a second at p50", rate(browser.driver.execute_async_script(PAN)), FRAMES_A_SECOND, False))
        browser.run("placewrightTiles.zoom(4)")
        figures.append(("panning, from nearer, frames a second at p50", rate(browser.driver.execute_async_script(PAN)), FRAMES_A_SECOND, False))
        browser.run("placewrightTiles.zoom(4)")
        figures.append(("panning, single tiles, frames a second at p50", rate(browser.driver.execute_async_script(PAN)), FRAMES_A_SECOND, False))
        time.sleep(options.seconds)
        browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        heap = browser.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"] / 1e6
        figures.append((f"memory of the scripts after {options.seconds:.0f} s, MB", heap, TAB_MB, True))
        for what, value, bar, is_most in figures:
            ok = value <= bar if is_most else value >= bar
            missed += not ok
            print(f"{'ok    ' if ok else 'MISSED'}  {what}: {value:.2f} (bar: {'at most' if is_most else 'at least'} {bar})")
    finally:
        browser.end()
        server.shutdown()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
