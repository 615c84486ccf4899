"""A replay with its page: in the browser while it runs, and afterwards."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))

from installation import running  # noqa: E402
from ports import free_port  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

DATA = HERE.parents[1] / "crates/trace/data"
TASKS = 150
# The last of these tasks ends after ten seconds.
SPEED = 20_000
ENDED = "The replay has ended: every task was placed, or refused with a reason."


def with_bench(program: pathlib.Path) -> pathlib.Path:
    """This program, or the one of the debug build: `packaging/build` makes no placewright-bench, which replays, beside it."""
    if program.with_name("placewright-bench").exists():
        return program
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parents[1] / "target"))
    return target / "debug/placewright"


class Replay:
    """`placewright replay --page` against an installation that has the machines of the trace."""

    def __init__(self, program: pathlib.Path, site, folder: pathlib.Path, token: str) -> None:
        self.out = folder / "replay"
        arguments = [str(with_bench(program)), "replay", "--nodes", str(DATA / "nodes.csv"), "--tasks", str(DATA / "tasks.csv")]
        arguments += ["--limit", str(TASKS), "--speed", str(SPEED), "--out", str(self.out)]
        arguments += ["--url", f"http://127.0.0.1:{site.ports['compute']}", "--placement-url", f"http://127.0.0.1:{site.ports['placement']}"]
        arguments += ["--page", f"127.0.0.1:{free_port()}"]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PLACEWRIGHT_")}
        environment["OS_TOKEN"] = token
        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
        self.said: list[str] = []
        self.url = ""
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("the page of this replay: "):
                self.url = line.split(": ", 1)[1].strip()
                break
        else:
            raise RuntimeError(f"the replay ended: {''.join(self.said)}")
        # Else it would wait for a reader of its lines.
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def report(self) -> dict:
        return json.loads((self.out / "report.json").read_text())

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)


def page_of_a_replay(walk, program: pathlib.Path, folder: pathlib.Path) -> None:
    folder.mkdir()
    with running(program, folder, DATA / "nodes.csv") as site:
        token = site.sign_in("admin", site.password("placewright"), "admin")
        replay = Replay(program, site, folder, token)
        try:
            while_it_runs(walk, replay)
            afterwards(walk, replay)
            whom_it_answers(walk, site, replay, token)
            replay.process.send_signal(signal.SIGTERM)
            code = replay.process.wait(30)
            walk.check("a replay ends with its own result after SIGTERM", code == 0, "".join(replay.said))
        finally:
            replay.end()


def while_it_runs(walk, replay: Replay) -> None:
    browser = walk.browser
    browser.open(replay.url)
    walk.check("the page of a replay asks nobody to sign in", browser.until_text("The replay is running.", "#trace-state"))
    names = browser.run("return [...document.querySelectorAll('nav a')].map((a) => a.textContent)")
    walk.check("a replay has one page, and nobody to sign out", names == ["Trace"] and not browser.all("#sign-out"), str(names))
    walk.check("Trace says what is replayed", browser.until_text(f"of {TASKS} tasks", "#trace-figures") and browser.until_text("tasks.csv", "main"))
    points = "return [...document.querySelectorAll('#trace-fill polyline')].map((line) => line.getAttribute('points').split(' ').length)"
    walk.check("Trace has a line for each resource", browser.until(lambda: len(browser.run(points)) == 3), str(browser.run(points)))
    before = browser.run(points)[0]
    walk.check("the lines grow by themselves", browser.until(lambda: browser.run(points)[0] > before))
    browser.run("document.querySelector('#trace-fill summary').focus()")
    browser.key(Keys.ENTER)
    rows = "return document.querySelectorAll('#trace-fill tbody tr').length"
    walk.check("the picture is a table, too, by keyboard", browser.until(lambda: browser.run(rows) >= 2))
    browser.run("document.querySelector('#trace-fill .scroll').focus()")
    walk.check("new rows come", browser.until(lambda: "running" in browser.text("#trace-state") and browser.run(rows) >= 5), browser.text("#trace-state"))
    focused = browser.run("return document.activeElement.className")
    walk.check("the table keeps the focus", focused == "scroll", focused)
    walk.accessible("trace of a running replay")
    walk.quiet("trace of a running replay")


def afterwards(walk, replay: Replay) -> None:
    browser = walk.browser
    walk.check("Trace says that the replay has ended", browser.until_text(ENDED, "#trace-state", 60))
    report = replay.report()
    placed = f"{report['placed']} ("
    walk.check("Trace has the result", browser.until_text(placed, "#trace-result") and browser.until_text("Boots a second", "#trace-result"))
    highest = report["allocated"][0]["used_max"] / report["allocated"][0]["total"]
    shown = browser.run("return document.querySelector('#trace-result tbody tr').cells[4].textContent")
    walk.check("the highest use is that of the report", abs(float(shown.split()[0]) - 100 * highest) < 0.06, f"{shown} {highest}")
    deleted = browser.run("return [...document.querySelectorAll('#trace-tasks tbody tr')].at(-1)?.cells[4].textContent")
    walk.check("the table of tasks ends with the last sample", deleted == str(report["deleted"]), f"{deleted} {report['deleted']}")
    asked = "return performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith('/ui/api/replay')).length"
    before = browser.run(asked)
    time.sleep(2.5)
    walk.check("nothing is asked any more", before > 0 and browser.run(asked) == before)
    walk.check("the replay says that its page stays", any(line.startswith("the page stays at") for line in replay.said), "".join(replay.said))
    for scheme in ("dark", "light"):
        browser.prefer(scheme)
        walk.accessible(f"trace of a replay that has ended, {scheme}")
    walk.picture("trace")
    for width in (360, 3840):
        browser.resize(width, 800)
        wide = browser.run("return document.documentElement.scrollWidth")
        walk.check(f"the page of a replay fits into {width} px", wide <= width, f"{wide} px")
    browser.resize(1400, 900)
    browser.open(replay.url.split("#")[0])
    walk.check("the result is there after a reload, without a fragment", browser.until_text(ENDED, "#trace-state") and browser.driver.current_url.endswith("#/trace"))
    browser.go("#/fleet")
    walk.check("there is no other page", browser.until(lambda: browser.driver.current_url.endswith("#/trace")))
    walk.quiet("trace of a replay that has ended")


def whom_it_answers(walk, site, replay: Replay, token: str) -> None:
    own = urllib.parse.urlsplit(replay.url).netloc
    status, text = replay.get("/ui/api/replay", {"Host": own})
    walk.check("the page tells no token and no address", status == 200 and token not in text and "127.0.0.1" not in text, text[:300])
    for host in ("evil.example", f"evil.example:{own.split(':')[1]}", "127.0.0.1"):
        answers = [replay.get(path, {"Host": host})[0] for path in ("/ui/", "/ui/api/replay")]
        walk.check(f"{host} is no name of the page", answers == [403, 403], str(answers))
    browser = walk.browser
    browser.open(site.page)
    read = browser.driver.execute_async_script(
        """const [page, done] = arguments;
        fetch(page).then(() => done('read'), () => done('refused'));""",
        f"http://{own}/ui/api/replay",
    )
    walk.check("a page of another origin reads nothing of a replay", read == "refused", read)
    # The policy of that page forbids the request, and says so.
    browser.console()
