#!/usr/bin/env python3
"""The page at /ui/ in Chromium, against `placewright up` with racks, flavors and servers of two projects.

Signs in as an operator and as a tenant, opens each page and uses each control, breaks the connection, and looks for errors
in the browser's console. Then the page of a replay, against an installation of its own. axe-core looks at each page, if npm
can fetch it (into tests/ui/.out). The last line is "N passed, N failed".
"""

import argparse
import pathlib
import sys
import time
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]

import launch  # noqa: E402
from browser import Browser, axe_source, violations  # noqa: E402
from installation import EVIL, fill, running, settle  # noqa: E402
from replay import page_of_a_replay  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from tally import Tally  # noqa: E402

OUT = HERE / ".out"
PAGES = ("overview", "fleet", "why", "capacity", "builds", "cells", "time", "trace")


class Walk:
    def __init__(self, site, tally: Tally, pictures: pathlib.Path | None) -> None:
        self.site, self.tally, self.pictures = site, tally, pictures
        self.browser = Browser()
        self.axe = axe_source(OUT)

    def check(self, name: str, ok: bool, detail: str = "") -> None:
        if not ok and not detail:
            detail = self.browser.text()[:1500]
            OUT.mkdir(exist_ok=True)
            self.browser.picture(OUT / f"failed-{self.tally.failed}.png")
        self.tally.check(name, ok, detail)

    def quiet(self, name: str, *expected: str) -> None:
        """The console has nothing but answers that the test asked for."""
        said = [line for line in self.browser.console() if not any(part in line for part in expected)]
        self.check(f"{name}: nothing in the console", not said, "\n".join(said))

    def accessible(self, name: str) -> None:
        if self.axe is None:
            return
        found = violations(self.browser, self.axe)
        self.check(f"{name}: axe-core finds nothing", not found, "\n".join(found))

    def picture(self, name: str) -> None:
        if self.pictures:
            self.pictures.mkdir(parents=True, exist_ok=True)
            self.browser.picture(self.pictures / f"{name}.png")

    def signing_in(self) -> None:
        browser = self.browser
        browser.open(self.site.page)
        self.check("the form to sign in is there", browser.until_text("With a user of this installation"))
        self.accessible("sign in")
        browser.sign_in("admin", "wrong")
        self.check("a wrong password is refused", browser.until_text("The name or the password is wrong."))
        self.quiet("sign in", "401")
        browser.sign_in("admin", self.site.password("placewright"))
        self.check("an operator signs in", browser.until_text("admin · admin", "#who"))
        self.check("the stream is live", browser.until_text("live", "#live"))
        stored = browser.run("return [document.cookie, localStorage.length, sessionStorage.length].join()")
        self.check("nothing is stored in the browser", stored == ",0,0", stored)

    def overview(self) -> None:
        browser = self.browser
        browser.go("#/overview")
        self.check("Overview counts the hosts", browser.until_text("48 up"))
        self.check("Overview says what is wrong", browser.until_text("Servers in error: 1", "#wrong"))
        self.check("Overview says why", browser.until_text("nobody has resources=VCPU:4000"))
        self.check("Overview has the fullest racks", browser.until_text("rack-01"))
        if self.pictures:
            time.sleep(6)
        self.picture("overview")

    def fleet(self, hosts: list[dict]) -> None:
        browser = self.browser
        browser.go("#/fleet")
        self.check("Fleet shows all hosts", browser.until_text("48 of 48 hosts", "#shown"))
        blocks = browser.run("return placewrightTiles.blocks.map((block) => block.name)")
        self.check("Fleet has a block for each rack", blocks == [f"rack-{n:02}" for n in range(1, 9)], str(blocks))
        for value, count in (("room", 2), ("cell", 3), ("zone", 1), ("none", 1), ("aggregate", 8)):
            browser.choose("Group by", value)
            found = browser.until(lambda: len(browser.run("return placewrightTiles.blocks")) == count)
            self.check(f"Fleet is grouped by {value}", found and f"group={value}" in browser.driver.current_url)
        browser.choose("Group by", "rack")
        for value, legend in (("MEMORY_MB", "%"), ("state", "up: 48"), ("age", "under 15 s"), ("VCPU", "%")):
            browser.choose("Colour by", value)
            self.check(f"Fleet is coloured by {value}", browser.until_text(legend, "#legend"))
        browser.choose("Colour by", "count")
        self.check("Fleet is coloured by count", browser.until(lambda: ":" in browser.text("#legend") and "%" not in browser.text("#legend")))
        browser.fill("#search", hosts[3]["host"] + Keys.ENTER)
        self.check("Fleet is filtered by text", browser.until_text("1 of 48 hosts", "#shown"))
        browser.go("#/fleet")
        browser.until_text("48 of 48 hosts", "#shown")
        browser.choose("Condition", "2")
        self.check("Fleet is filtered by condition", browser.until_text("0 of 48 hosts", "#shown"))
        browser.go("#/fleet")
        browser.until_text("48 of 48 hosts", "#shown")
        rack = browser.run("return [...document.querySelectorAll('option')].find((o) => o.textContent === 'rack-02').value")
        browser.choose("Aggregate", rack)
        self.check("Fleet is filtered by aggregate", browser.until_text("6 of 48 hosts", "#shown"))
        browser.go("#/fleet")
        browser.until_text("48 of 48 hosts", "#shown")
        scale = "return placewrightTiles.view.scale"
        before = browser.run(scale)
        browser.find("#zoom-in").click()
        closer = browser.run(scale)
        browser.find("#zoom-out").click()
        browser.find("#zoom-all").click()
        self.check("Fleet zooms", closer > before and abs(browser.run(scale) - before) < 0.01, f"{before} {closer}")
        self.keyboard()
        self.tables()
        self.live(hosts)

    def keyboard(self) -> None:
        browser = self.browser
        browser.run("document.querySelector('canvas').focus()")
        browser.key(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        browser.key("+")
        browser.key("0")
        browser.key(Keys.ENTER)
        self.check("a host is chosen and opened by keyboard", browser.until_text("Providers") and "host=" in browser.driver.current_url)
        self.check("a host has its tree and state", browser.until_text("128 GiB"))
        if self.pictures:
            browser.resize(1280, 800)
            browser.go("#/fleet?by=MEMORY_MB&host=" + browser.driver.current_url.split("host=")[1])
            browser.until_text("Servers here")
            time.sleep(1)
            self.picture("fleet")
            browser.resize(1400, 900)
        browser.find("#close").click()
        self.check("a host is closed", browser.until(lambda: not browser.all("#host-name")))
        x, y = browser.run(
            """const t = placewrightTiles; const b = t.blocks[0]; const r = t.canvas.getBoundingClientRect();
            return [r.left + t.view.x + (b.x + 0.5) * t.view.scale, r.top + t.view.y + (b.y + 0.5) * t.view.scale]"""
        )
        mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, **mouse})
        self.check("a host is opened by a click", browser.until(lambda: browser.all("#host-name")))
        link = browser.driver.current_url
        browser.go("#/overview")
        browser.until_text("How full")
        browser.go("#" + link.split("#")[1])
        self.check("the link to a host leads to it", browser.until(lambda: browser.all("#host-name")))
        browser.run("document.querySelector('#close').previousSibling.click()")
        self.check("a host has a page of its own", browser.until_text("Host ", "h1"))
        browser.go("#/fleet")

    def tables(self) -> None:
        browser = self.browser
        browser.until(lambda: browser.all("#tables"))
        browser.find("#tables summary").click()
        self.check("the table has what the picture has", browser.until_text("rack-08", "#tables") and browser.until(lambda: len(browser.all("#tables tbody tr")) == 8 + 48))
        self.accessible("fleet with its table")

    def live(self, hosts: list[dict]) -> None:
        """A host is disabled by somebody else, and the page shows that by itself."""
        browser = self.browser
        browser.go("#/fleet?by=state")
        browser.until_text("up: 48", "#legend")
        version = {"OpenStack-API-Version": "compute 2.96"}
        _, _, services = self.site.ask("compute", "GET", "/v2.1/os-services", token=self.data["admin"], headers=version)
        service = next(row for row in services["services"] if row["host"] == hosts[0]["host"])
        path = f"/v2.1/os-services/{service['id']}"
        off = {"status": "disabled", "disabled_reason": "<b>work</b>"}
        self.site.ask("compute", "PUT", path, off, self.data["admin"], version)
        self.check("a change shows by itself", browser.until_text("disabled: 1", "#legend"))
        browser.go("#/fleet?state=1")
        browser.until_text("1 of 48 hosts", "#shown")
        self.site.ask("compute", "PUT", path, {"status": "enabled"}, self.data["admin"], version)
        self.check("a host leaves a filter by condition by itself", browser.until_text("0 of 48 hosts", "#shown"))
        self.site.ask("compute", "PUT", path, off, self.data["admin"], version)
        self.check("a host comes into a filter by condition by itself", browser.until_text("1 of 48 hosts", "#shown"))
        rack = "5a000000-0000-4000-8000-000000000001"
        self.site.ask("scheduler", "PUT", f"/v1/aggregates/{rack}", {"name": "made-later"}, self.data["admin"])
        version = {"OpenStack-API-Version": "placement 1.39"}
        path = f"/resource_providers/{hosts[0]['uuid']}"
        _, _, provider = self.site.ask("placement", "GET", path, token=self.data["admin"], headers=version)
        _, _, known = self.site.ask("placement", "GET", f"{path}/aggregates", token=self.data["admin"], headers=version)
        body = {"aggregates": [*known["aggregates"], rack], "resource_provider_generation": provider["generation"]}
        self.site.ask("placement", "PUT", f"{path}/aggregates", body, self.data["admin"], version)
        self.check("a name made later is shown", browser.until_text("made-later", "main"))
        version = {"OpenStack-API-Version": "compute 2.96"}
        path = f"/v2.1/os-services/{service['id']}"
        browser.go(f"#/host/{hosts[0]['uuid']}")
        self.check("a stored reason with markup stays a text", browser.until_text("<b>work</b>") and not browser.all("main b"))
        self.site.ask("compute", "PUT", path, {"status": "enabled"}, self.data["admin"], version)

    def why(self) -> None:
        browser, ids = self.browser, self.data["ids"]
        browser.go("#/why")
        browser.until(lambda: browser.all("#fits-form select"))
        browser.choose("Flavor", "L")
        browser.find("#fits-form button").click()
        self.check("Why says where a flavor would go", browser.until_text("It would go to", "#would-go"))
        self.check("Why says how many more fit", browser.until_text("more fit", "#fits"))
        said = browser.text("#fits").split()[0].replace(",", "")
        body = {"request": {"flavor": {"name": "L", "vcpus": 16, "memory_mb": 32768, "root_gb": 80}}}
        _, _, fits = self.site.ask("scheduler", "POST", "/v1/capacity", body, self.data["admin"])
        self.check("the number is that of the API", said == str(fits["count"]), f"{said} {fits}")
        self.check("each weigher has its part", browser.until(lambda: len(browser.all(".stack-bar")) == 10))
        self.picture("why")
        self.quiet("why")
        browser.go("#/why?flavor=giant")
        self.check("what does not fit is explained", browser.until_text("The nearest misses") or "resources=VCPU:4000" in browser.text())
        self.check("none fits", browser.until_text("None fits.", "#fits"))
        self.quiet("what does not fit", "409")
        browser.go("#/why?vcpus=2&ram=512&disk=0&extra=trait:CUSTOM_NONE%3Drequired")
        self.check("a size of one's own with extra specs", browser.until_text("None fits.") or browser.until_text("trait"))
        self.quiet("extra specs", "409", "400")
        browser.go("#/why")
        browser.until(lambda: browser.all("#server-form input"))
        browser.fill("#server-form input[name=server]", "db-1" + Keys.ENTER)
        self.check("a server is found by its name", browser.until_text("It is on host-", "#server-is"))
        self.check("a server has what was done with it", browser.until_text("compute_create_try_1"))
        self.check("a server has the decision as it was made", browser.until_text("Built on host-", "#as-decided") and browser.until_text("were known", "#as-decided"))
        browser.go(f"#/why?server={ids['db']}&with={self.data['hosts'][5]['host']}")
        self.check("a server is compared with a host", browser.until_text("Compare with hosts") and browser.until_text(self.data["hosts"][5]["host"]))
        browser.go(f"#/why?server={ids['too-large']}")
        self.check("a server that found no host has the reason", browser.until_text("No valid host was found") and browser.until_text("What each constraint left"))
        self.quiet("a server that found no host", "409")
        browser.go(f"#/why?server={ids[EVIL]}")
        self.check("a server's name with markup stays a text", browser.until_text("<img src=x onerror") and not browser.all("main img") and not browser.run("return window.owned"))
        browser.go("#/why?server=no-such-server")
        self.check("a server that does not exist", browser.until_text("There is no such server."))
        browser.go("#/why?server=" + urllib.parse.quote("(((a+)+)+)+$"))
        self.check("a name is no expression", browser.until_text("There is no such server."))
        self.quiet("servers", "404")

    def why_not_there(self) -> None:
        """A rack was disabled when a server was built, and is not any more: the page says why the server is not there."""
        browser, admin = self.browser, self.data["admin"]
        version = {"OpenStack-API-Version": "compute 2.96"}
        names = [host["host"] for host in self.data["hosts"][12:18]]
        _, _, services = self.site.ask("compute", "GET", "/v2.1/os-services", token=admin, headers=version)
        paths = [f"/v2.1/os-services/{row['id']}" for row in services["services"] if row["host"] in names]
        for path in paths:
            self.site.ask("compute", "PUT", path, {"status": "disabled", "disabled_reason": "new switches"}, admin, version)
        server = {"name": "reporting-1", "flavorRef": "L", "imageRef": self.data["image"], "networks": "none"}
        _, _, answer = self.site.ask("compute", "POST", "/v2.1/servers", {"server": server}, admin, version)
        path = f"/v2.1/servers/{answer['server']['id']}"
        is_built = browser.until(lambda: self.site.ask("compute", "GET", path, None, admin, version)[2]["server"]["status"] == "ACTIVE")
        for service in paths:
            self.site.ask("compute", "PUT", service, {"status": "enabled"}, admin, version)
        self.check("a server is built while a rack is disabled", is_built and len(paths) == 6, f"{len(paths)} services")
        browser.find("nav a[href='#/overview']").click()
        browser.find("nav a[href='#/why']").click()
        has_focus = browser.until(lambda: browser.run("return document.activeElement?.id === 'why-server'"))
        self.check("the name of a server can be typed at once", has_focus)
        browser.driver.switch_to.active_element.send_keys("reporting-1" + Keys.ENTER)
        browser.until(lambda: browser.all("#ask-groups"))
        self.check("Why offers the reasons by rack", browser.text("#ask-groups") == "Why not another rack?", browser.text("#ask-groups"))
        browser.find("#ask-groups").click()
        browser.until_text("rack-08", "#groups-then")
        rows = {name: rest for name, *rest in (row.split("\t") for row in browser.text("#groups-then tbody").splitlines())}
        self.check("each rack has its reason as of then", len(rows) == 8 and rows.get("rack-03") == ["6", "0", "–", "all 6: disabled"], str(rows))
        self.check("the chosen rack is named", sum("It was chosen." in row for row in rows.values()) == 1, str(rows))
        self.accessible("why with its racks")
        browser.go("#/why?server=reporting-1&with=rack-03,rack-99")
        said = browser.until_text(names[5], "#groups-then")
        self.check("a rack that is named has its hosts with the reason of each", said and browser.text("#groups-then").count("disabled") >= 7)
        self.check("what is neither host nor group is said to be unknown", browser.until_text("No host and no group has this name."))
        self.quiet("why not there")
        self.site.ask("compute", "DELETE", path, None, admin, version)

    def capacity(self) -> None:
        browser = self.browser
        browser.go("#/capacity")
        self.check("Capacity counts each flavor", browser.until(lambda: "counting" not in browser.text("main") and "giant" in browser.text("main"), 30))
        self.check("Capacity has the free room by rack", browser.until_text("rack-08"))
        browser.choose("Group by", "cell")
        self.check("Capacity by cell", browser.until_text("cell3") and "group=cell" in browser.driver.current_url)
        self.picture("capacity")

    def builds(self) -> None:
        self.browser.go("#/builds")
        self.check("Builds has what failed, with the reason", self.browser.until_text("nobody has resources=VCPU:4000"))

    def cells(self) -> None:
        browser = self.browser
        browser.go("#/cells")
        self.check("Cells has this process", browser.until_text("Applied entry") and browser.until_text("alone"))
        self.check("Cells has the cells", browser.until_text("cell2"))
        browser.find("#audit").click()
        self.check("an audit is made", browser.until_text("Everything adds up.", seconds=30))
        self.picture("cells")

    def past(self) -> None:
        """Looks back at the fleet, and at why a server is where it is, before and after a claim."""
        browser, admin = self.browser, self.data["admin"]
        _, _, held = self.site.ask("ui", "GET", "/ui/api/past", token=admin)
        before = held["newest"]["sequence"]
        self.check("an entry has a time", bool(held["newest"]["at"]), str(held))
        # A custom class, so that nothing else changes its use.
        version = {"OpenStack-API-Version": "placement 1.39"}
        uuid = self.data["hosts"][3]["uuid"]
        self.site.ask("placement", "PUT", "/resource_classes/CUSTOM_THEN", token=admin, headers=version)
        path = f"/resource_providers/{uuid}"
        _, _, provider = self.site.ask("placement", "GET", path, token=admin, headers=version)
        inventory = {"resource_provider_generation": provider["generation"], "resource_class": "CUSTOM_THEN", "total": 8}
        status, _, answer = self.site.ask("placement", "POST", f"{path}/inventories", inventory, admin, version)
        self.check("a host gets more", status == 201, f"{status} {answer}")
        browser.go("#/time")
        self.check("Time shows the newest state", browser.until_text("48 hosts.", "#then") and browser.until_text("Held: entry", "#held"))
        sums = "return [...document.querySelectorAll('#sums tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join(' '))"
        self.check("Time has the sums of then and now", browser.until(lambda: "CUSTOM_THEN 0 0 8 8" in browser.run(sums)))
        self.picture("time")
        browser.find("#tables summary").click()
        self.check("Time has a table of the hosts", browser.until(lambda: len(browser.all("#tables tbody tr")) == 8 + 48))
        self.accessible("time with its table")
        newest = int(browser.run("return document.querySelector('#entry').value"))
        browser.run("document.querySelector('#slider').focus()")
        browser.key(Keys.ARROW_LEFT)
        self.check("the slider goes back by keyboard", browser.until_text(f"after entry {newest - 1}:", "#then"))
        focused = browser.run("return document.activeElement.id")
        self.check("the slider keeps the focus, and the address follows", focused == "slider" and f"at={newest - 1}" in browser.driver.current_url)
        browser.fill("#entry", str(before) + Keys.ENTER)
        self.check("an entry is chosen by its number", browser.until_text(f"after entry {before}:", "#then"))
        self.check("the fleet is that of then", browser.until(lambda: "CUSTOM_THEN – 0 – 8" in browser.run(sums)))
        browser.choose("Group by", "cell")
        self.check("Time is grouped by cell", browser.until_text("cell3", "#tables") and "group=cell" in browser.driver.current_url)
        browser.choose("Colour by", "state")
        self.check("Time is coloured by condition", browser.until_text("up: ", "#legend"))
        browser.run("document.querySelector('canvas').focus()")
        browser.key(Keys.ARROW_RIGHT, Keys.ENTER)
        self.check("a host of then is chosen by keyboard", browser.until_text("VCPU", "#chosen-host"))
        browser.fill("#server-form input[name=server]", "db-1" + Keys.ENTER)
        self.check("Time says why a server was there", browser.until_text("It was on host-", "#why-then") and browser.until_text("Built on host-", "#why-then"))
        self.quiet("time")
        browser.go(f"#/time?at=2&server={self.data['ids']['db']}")
        self.check("the link leads to then, before there was the server", browser.until_text("there was no server", "#why-then") and browser.until_text("after entry 2:", "#then"))
        browser.go("#/time?at=999999999")
        self.check("an entry that does not exist gets the range", browser.until_text("the journal has the states after the entries 1 to", "#problem"))
        browser.find("#newest").click()
        self.check("Time goes to the newest entry", browser.until_text("48 hosts.", "#then") and not browser.text("#problem"))
        self.quiet("time of other entries", "404")
        self.site.ask("placement", "DELETE", f"{path}/inventories/CUSTOM_THEN", token=admin, headers=version)

    def trace(self) -> None:
        self.browser.go("#/trace")
        self.check("Trace says how to begin a replay", self.browser.until_text("placewright replay --nodes nodes.csv --tasks tasks.csv --page"))

    def every_page(self) -> None:
        """What holds for each page: its title, axe-core, both themes, and widths from a phone to 4K."""
        browser = self.browser
        for page in PAGES:
            browser.go(f"#/{page}")
            browser.until(lambda: browser.all("main h1"))
            time.sleep(0.3)
            self.accessible(page)
            browser.prefer("dark")
            self.accessible(f"{page}, dark")
            if page == "fleet" and self.pictures:
                browser.go("#/fleet?by=MEMORY_MB&group=room")
                time.sleep(1)
                self.picture("fleet-dark")
            browser.prefer("light")
            for width in (360, 3840):
                browser.resize(width, 800)
                wide = browser.run("return document.documentElement.scrollWidth")
                self.check(f"{page} fits into {width} px", wide <= width, f"{wide} px")
            browser.resize(1400, 900)
        self.quiet("every page")

    def break_of_the_connection(self) -> None:
        browser = self.browser
        browser.go("#/fleet")
        browser.until_text("48 of 48 hosts", "#shown")
        browser.console()
        self.site.kill()
        self.check("a break shows", browser.until_text("no connection", "#live"))
        self.site.start()
        self.check("the page comes back by itself", browser.until_text("live", "#live", 40) and browser.until_text("48 of 48 hosts", "#shown", 40))
        self.quiet("break", "ERR_", "503")

    def tenant(self) -> None:
        browser = self.browser
        browser.find("#sign-out").click()
        self.check("an operator signs out", browser.until_text("Sign in"))
        browser.sign_in("demo", self.site.password("demo"))
        self.check("a tenant sees its own servers", browser.until_text("tenant-server-1"))
        self.check("a tenant sees what is left", browser.until_text("What is left for your project"))
        text = browser.text()
        foreign = [name for name in ("web-", "db-1", "host-0", "rack-", "cell1", "Fleet", "Time", "too-large") if name in text]
        self.check("a tenant sees nothing of others", not foreign, str(foreign))
        browser.go("#/fleet")
        self.check("a tenant has no other page", browser.until(lambda: "#/servers" in browser.driver.current_url))
        self.accessible("servers")
        self.picture("servers")
        self.quiet("tenant")

    def foreign_pages(self) -> None:
        """Another origin cannot frame the page, read it, or send requests in its name."""
        browser = self.browser
        port = self.site.ports["health"]
        browser.open(f"http://127.0.0.1:{port}/healthz")
        browser.console()
        done = browser.driver.execute_async_script(
            """const [page, done] = arguments;
            const frame = document.createElement('iframe');
            frame.src = page;
            document.body.append(frame);
            frame.onload = async () => {
              const read = await fetch(page + 'api/installation').then(() => 'read', () => 'refused');
              const sent = await fetch(page + 'api/placement/resource_providers', { method: 'POST', mode: 'no-cors',
                headers: { 'Content-Type': 'text/plain' }, body: '{"name":"forged"}' }).then((a) => a.status, () => 'failed');
              let framed = 'nothing';
              try { framed = frame.contentDocument ? 'own' : 'nothing'; } catch { framed = 'nothing'; }
              done([read, String(sent), framed]);
            };""",
            self.site.page,
        )
        self.check("another origin reads nothing", done[0] == "refused", str(done))
        said = "\n".join(browser.console())
        self.check("another origin cannot frame the page", "frame-ancestors" in said or "X-Frame-Options" in said, said)
        _, _, providers = self.site.ask("placement", "GET", "/resource_providers?name=forged", token=self.data["admin"])
        self.check("a forged request changes nothing", providers.get("resource_providers") == [], str(providers))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=None, help="the placewright binary (default: the release build)")
    parser.add_argument("--pictures", type=pathlib.Path, help="a folder for pictures of the pages")
    options = parser.parse_args()
    tally = Tally()
    program = options.program or launch.program()
    with launch.scratch("ui") as folder, running(program, folder, 48) as site:
        data = settle(site)
        if options.pictures:
            fill(site, data)
        walk = Walk(site, tally, options.pictures)
        walk.data = data
        try:
            walk.signing_in()
            walk.overview()
            walk.quiet("overview")
            walk.fleet(data["hosts"])
            walk.quiet("fleet")
            walk.why()
            walk.why_not_there()
            for step in (walk.capacity, walk.builds, walk.cells, walk.past, walk.trace):
                step()
                walk.quiet(step.__name__)
            walk.every_page()
            walk.break_of_the_connection()
            walk.tenant()
            walk.foreign_pages()
            page_of_a_replay(walk, program, folder / "replay")
        finally:
            walk.browser.end()
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
