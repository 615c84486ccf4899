"""Reads random figures from the page's tables, beside what they have to be."""

import json
import random
import time
from collections import Counter

from figures import FORCED_DOWN, UP, Fleet, Host, largest_free, request_of, total

CONDITIONS = ("up", "disabled", "down", "forced down", "no report")
BOUNDS = ((0.05, "< 5 %"), (0.25, "5–25 %"), (0.5, "25–50 %"), (0.75, "50–75 %"), (0.95, "75–95 %"))

# Formats numbers with the page's own functions, which round: so what is compared is what a reader sees.
FORMAT = """const { whole, fine, percent, amount } = window.texts;
const formats = { whole, fine, amount, ratio: (a, b) => percent(a / b), times: (a, b) => (b > 0 ? `${fine(a / b)}×` : '–') };
return arguments[0].map(([name, ...values]) => (name === 'as' ? values[0] : formats[name](...values)));"""

# Goes to a page by its link, and calls back when it is shown.
GO = """const [hash, done] = arguments;
const go = () => {
  addEventListener('hashchange', () => setTimeout(done, 0), { once: true });
  location.hash = hash;
};
if (location.hash !== hash) go();
else {
  addEventListener('hashchange', () => setTimeout(go, 0), { once: true });
  location.hash = '#/builds';
}"""

TABLE = """const tables = [...document.querySelectorAll('main table')].filter((table) => table.caption.textContent === arguments[0]);
return tables.map((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent)));"""


class Views:
    def __init__(self, browser, ask, data: dict, rng: random.Random) -> None:
        self.browser, self.ask, self.data, self.rng = browser, ask, data, rng

    def prepare(self) -> None:
        """Takes hold of the page's own modules, and notes what it asks."""
        self.browser.driver.execute_async_script(
            """const done = arguments[0];
            Promise.all([import('/ui/texts.js'), import('/ui/fleet_data.js')]).then(([texts, { fleet }]) => {
              const { fetch } = window;
              Object.assign(window, { texts, shownFleet: fleet, asked: [] });
              window.fetch = (url, options) => {
                window.asked.push([String(url), options?.body ?? null]);
                return fetch(url, options);
              };
              done();
            });"""
        )
        session = self.ask.get("ui", "/ui/api/session")
        self.owner = {"project_id": session["project"], "user_id": session["user"]}

    def has_marker(self, marker: str, marked: int) -> bool:
        shape = self.browser.run("return window.shownFleet.byUuid.get(arguments[0])?.shape", marker)
        return bool(shape) and shape[0][1] == marked and self.browser.run("return window.shownFleet.names === window.shownFleet.newestNames")

    def go(self, path: str, **query) -> str:
        words = "&".join(f"{key}={value}" for key, value in query.items() if value != "")
        link = f"#/{path}{'?' if words else ''}{words}"
        self.browser.driver.execute_async_script(GO, link)
        return link

    def rows(self, caption: str) -> list[list[str]]:
        return [row for table in self.browser.run(TABLE, caption) for row in table]

    def formatted(self, rows: list[list[tuple]]) -> list[list[str]]:
        texts = iter(self.browser.run(FORMAT, [list(cell) for row in rows for cell in row]))
        return [[next(texts) for _ in row] for row in rows]

    def stay(self) -> str:
        """Opens a random view whose choices need no knowledge of the fleet, to be compared after further changes."""
        rng = self.rng
        by, name = rng.choice(("none", "zone", "cell", "aggregate")), rng.choice(("VCPU", "MEMORY_MB", "DISK_GB"))
        filters = {"state": rng.choice("0124")}
        self.read_again, path, query = rng.choice((
            (lambda fleet: self.read_groups(fleet, by, name), "fleet", {"group": by, "by": name}),
            (lambda fleet: self.read_hosts(fleet, name, filters), "fleet", {"by": name, **filters}),
            (lambda fleet: self.read_hosts(fleet, "count", {}), "fleet", {"by": "count"}),
            (lambda fleet: self.read_legend(fleet, name), "fleet", {"by": name}),
            (lambda fleet: self.read_free(fleet, by), "capacity", {"group": by}),
            (self.read_spread, "capacity", {}),
            (self.read_headroom, "capacity", {}),
        ))
        link = self.go(path, **query)
        if path == "fleet":
            self.open_table()
        return f"{link}, open through changes"

    def check_open(self, fleet: Fleet, link: str) -> tuple[str, bool, str]:
        """Whether the view that stayed open comes to what the APIs say. What costs much is counted every 10 s only,
        and by a debug build more seldom."""
        end = time.monotonic() + (90 if self.read_again == self.read_headroom else 5)
        while True:
            shown, expected = self.read_again(fleet)
            if shown == expected:
                return link, True, ""
            if time.monotonic() > end:
                return link, False, "\n".join(differences(shown, expected))
            time.sleep(0.2)

    def check(self, fleet: Fleet) -> tuple[str, bool, str]:
        """One random view: what was looked at, whether it is as expected, and what differs."""
        views = (
            (self.fleet_groups, 5), (self.fleet_hosts, 6), (self.fleet_legend, 3), (self.host, 3), (self.capacity_groups, 4),
            (self.capacity_spread, 2), (self.capacity_headroom, 1), (self.why_flavor, 3), (self.why_size, 3), (self.why_server, 3),
        )
        kinds, weights = zip(*views)
        link, shown, expected = self.rng.choices(kinds, weights)[0](fleet)
        if shown == expected:
            return link, True, ""
        return link, False, "\n".join(differences(shown, expected))

    def grouping(self, fleet: Fleet) -> str:
        among = ["none", "zone", "cell", "aggregate", *{level["name"] for level in fleet.levels}]
        return self.rng.choice([by for by in among if fleet.is_clear(by)])

    def open_table(self) -> None:
        self.browser.run("document.querySelector('#tables').open = true")
        self.browser.until(lambda: self.browser.run("return document.querySelector('#tables').children.length > 1"))

    def fleet_groups(self, fleet: Fleet):
        by, name = self.grouping(fleet), self.rng.choice(fleet.classes())
        link = self.go("fleet", group=by, by=name)
        self.open_table()
        return link, *self.read_groups(fleet, by, name)

    def read_groups(self, fleet: Fleet, by: str, name: str):
        rows = []
        for group, hosts in fleet.groups(by).items():
            capacity, _, used = total(hosts, name)
            up = sum(host.condition == UP for host in hosts)
            rows.append([("as", group), ("whole", len(hosts)), ("whole", up), ("amount", name, used), ("amount", name, capacity), ("ratio", used, capacity)])
        return by_group(self.rows("Group"), by), sorted(self.formatted(rows))

    def value(self, host: Host, by: str) -> list[tuple]:
        if by == "state":
            return [("as", CONDITIONS[host.condition])]
        if by == "count":
            return [("whole", len(host.consumers))]
        if by not in host.amounts:
            return [("as", "–")]
        capacity, _, used = host.amounts[by]
        return [("ratio", used, capacity), ("amount", by, used), ("amount", by, capacity)]

    def fleet_hosts(self, fleet: Fleet):
        rng, host = self.rng, self.rng.choice(fleet.hosts)
        by = rng.choice([*fleet.classes(), "state", "count"])
        filters = {
            "state": str(host.condition), "trait": rng.choice([*host.traits, ""]), "agg": rng.choice([*host.aggregates, ""]),
            "q": rng.choice((host.host[:7], host.uuid[:2], host.node[-3:])),
        }
        filters = dict(rng.sample(sorted(filters.items()), rng.randint(0, 2)))
        link = self.go("fleet", by=by, **filters)
        self.open_table()
        return link, *self.read_hosts(fleet, by, filters)

    def read_hosts(self, fleet: Fleet, by: str, filters: dict):
        shown = [host for host in fleet.hosts if passes(host, filters)]
        rows = self.formatted([[("as", host.host), ("as", CONDITIONS[host.condition]), ("whole", len(host.consumers)), *self.value(host, by)] for host in shown])
        expected = []
        for name, condition, count, *value in rows:
            text = value[0] if len(value) == 1 else f"{value[0]} ({value[1]} / {value[2]})"
            expected.append([name, condition, text, count])
        count = self.browser.text("#shown")
        return [count, *sorted(self.rows("Hosts"))], [f"{len(shown)} of {len(fleet.hosts)} hosts", *sorted(expected)]

    def fleet_legend(self, fleet: Fleet):
        by = self.rng.choice([*fleet.classes(), "state"])
        return self.go("fleet", by=by), *self.read_legend(fleet, by)

    def read_legend(self, fleet: Fleet, by: str):
        shown = self.browser.run("return [...document.querySelectorAll('#legend li')].map((entry) => entry.textContent)")
        found = Counter()
        for host in fleet.hosts:
            found[legend(host, by)] += 1
        return sorted(shown), sorted(f"{text}: {number}" for text, number in found.items())

    def host(self, fleet: Fleet):
        host = self.rng.choice(fleet.hosts)
        link = self.go("fleet", host=host.uuid)
        self.browser.until(lambda: "Providers" in self.browser.text("main"))
        rows = []
        for index, (_, amounts) in enumerate(host.providers):
            for name, (capacity, used) in amounts.items():
                rows.append([("as", name), ("amount", name, used), ("amount", name, capacity), ("ratio", used, capacity)])
        shown = [row[-4:] for row in self.rows("Providers")]
        traits = self.browser.run("return [...document.querySelectorAll('main .chips li')].map((entry) => entry.textContent)")
        return link, [traits, *sorted(shown)], [sorted(host.all_traits), *sorted(self.formatted(rows))]

    def capacity_groups(self, fleet: Fleet):
        by = self.grouping(fleet)
        return self.go("capacity", group=by), *self.read_free(fleet, by)

    def read_free(self, fleet: Fleet, by: str):
        classes = fleet.classes()[:8]
        rows = []
        for group, hosts in fleet.groups(by).items():
            row = [("as", group), ("whole", len(hosts))]
            for name in classes:
                capacity, _, used = total(hosts, name)
                is_there = any(name in host.amounts for host in hosts)
                row += [("amount", name, capacity - used), ("amount", name, capacity)] if is_there else [("as", "–"), ("as", None)]
            rows.append(row)
        expected = []
        for group, count, *cells in self.formatted(rows):
            pairs = zip(cells[::2], cells[1::2])
            expected.append([group, count, *(free if of is None else f"{free} / {of}" for free, of in pairs)])
        return by_group(self.rows("Free by group"), by), sorted(expected)

    def capacity_spread(self, fleet: Fleet):
        return self.go("capacity"), *self.read_spread(fleet)

    def read_spread(self, fleet: Fleet):
        rows = []
        for name in fleet.classes():
            capacity, physical, used = total(fleet.hosts, name)
            largest = largest_free(fleet.hosts, name)
            rows.append([("as", name), ("amount", name, capacity - used), ("amount", name, largest), ("times", capacity, physical)])
        return self.rows("Where the free room lies"), self.formatted(rows)

    def flavors(self) -> list[dict]:
        return self.ask.get("compute", "/v2.1/flavors/detail?limit=1000")["flavors"]

    def capacity_headroom(self, fleet: Fleet):
        return self.go("capacity"), *self.read_headroom(fleet)

    def read_headroom(self, fleet: Fleet):
        rows = []
        for flavor in self.flavors():
            status, fits = self.ask.patiently("scheduler", "POST", "/v1/capacity", {"request": request_of(flavor)})
            text = f"{fits['count']:,}{'+' if fits['more'] else ''}" if status == 200 else str(fits)
            rows.append([("as", flavor["name"]), *(("whole", flavor[key]) for key in ("vcpus", "ram", "disk")), ("as", text), ("as", binding(fleet, flavor))])
        caption = "How many more of each flavor"
        self.browser.until(lambda: self.browser.run(TABLE, caption) and "counting" not in self.browser.text("main"), 30)
        return self.rows(caption), self.formatted(rows)

    def why_flavor(self, fleet: Fleet):
        flavor = self.rng.choice(self.flavors())
        link = self.go("why", flavor=flavor["id"])
        return link, *self.asked_why(request_of(flavor))

    def why_size(self, fleet: Fleet):
        rng = self.rng
        host = rng.choice(fleet.hosts)
        free = {name: capacity - used for name, (capacity, _, used) in host.amounts.items()}
        most = [max(1, free.get(name, 8)) for name in ("VCPU", "MEMORY_MB", "DISK_GB")]
        vcpus, ram, disk = (rng.choice((1, amount, amount + 1, rng.randint(1, amount * 2))) for amount in most)
        extra = {}
        if rng.random() < 0.4:
            extra[f"trait:{rng.choice(('CUSTOM_GOLD', 'CUSTOM_SILVER', 'HW_CPU_X86_AVX2'))}"] = rng.choice(("required", "forbidden"))
        words = "+".join(f"{key}%3D{value}" for key, value in extra.items())
        zone = rng.choice(("", "", "zone-1", "nova"))
        link = self.go("why", vcpus=vcpus, ram=ram, disk=disk, extra=words, zone=zone)
        flavor = {"name": "", "vcpus": vcpus, "memory_mb": ram, "root_gb": disk, "ephemeral_gb": 0, "swap_mb": 0, "extra_specs": extra}
        return link, *self.asked_why({"flavor": flavor, **({"availability_zone": zone} if zone else {})})

    def asked_why(self, request: dict):
        """The page's answer to a request beside the API's to the same request for an instance of the same name."""
        browser = self.browser
        browser.run("window.asked = window.asked.slice(-50)")
        browser.until(lambda: browser.text("#fits") and "counting" not in browser.text("#fits"), 30)
        asked = [json.loads(body) for url, body in browser.run("return window.asked") if url.endswith("/destinations")]
        body = {"request": {**request, **self.owner}, "instances": asked[-1]["instances"], "claim": False, "explain": True}
        status, answer = self.ask("scheduler", "POST", "/v1/destinations", body)
        _, fits = self.ask.patiently("scheduler", "POST", "/v1/capacity", {"request": request})
        shown = {"asked": asked[-1], "fits": browser.text("#fits").split(".")[0]}
        expected = {"asked": body, "fits": fits_text(fits)}
        if status == 200:
            selection = answer["selections"][0]
            shown |= {"goes": browser.text("#would-go"), "ranking": self.rows("The best hosts")}
            selected = selection["selected"]
            expected |= {"goes": f"It would go to {selected['host'] if selected else 'no host'}.", "ranking": self.ranking(selection["explanation"]["ranking"])}
        else:
            explanation = answer["errors"][0].get("explanation")
            shown |= {"why": browser.text("main .note.warn"), "funnel": self.rows("What each constraint left")}
            expected |= {"why": answer["errors"][0]["detail"], "funnel": self.formatted(funnel(explanation))}
        return shown, expected

    def ranking(self, ranking: list[dict]) -> list[list[str]]:
        names = list(dict.fromkeys(weight["weigher"] for host in ranking for weight in host["weights"]))
        rows = []
        for rank, host in enumerate(ranking, 1):
            shares = {weight["weigher"]: weight["share"] for weight in host["weights"]}
            score = host.get("score", 0)
            rows.append([("as", str(rank)), ("as", host["host"] or host["provider"]), ("fine", score), ("as", ""), *(("fine", shares.get(name, 0)) for name in names)])
        return self.formatted(rows)

    def why_server(self, fleet: Fleet):
        among = self.ask.get("compute", "/v2.1/servers/detail?all_tenants=1&limit=1000")["servers"]
        server = self.rng.choice([server for server in among if server["status"] != "DELETED"])
        link = self.go("why", server=server["id"])
        host = server["OS-EXT-SRV-ATTR:host"]
        self.browser.until(lambda: self.browser.text("#server-is") and (not host or "Loading" not in self.browser.text("#as-decided")))
        shown, expected = {"is": self.browser.text("#server-is")}, {"is": f"It is on {host}." if host else "It is on no host."}
        if host:
            decided = self.ask.get("scheduler", f"/v1/decisions/{server['id']}")["decisions"]
            text = self.browser.text("#as-decided")
            expected["words"], shown["words"] = [], []
            for decision in decided:
                words = [decision["host"] or decision["provider"], f"Alternates: {decision['alternates']:,}."]
                if decision["search"]:
                    search = decision["search"]
                    words.append(f"{search['known_hosts']:,} hosts were known (after entry {search['sequence']} of the journal).")
                expected["words"] += words
                shown["words"] += [word if word in text else text for word in words]
            expected["ranking"] = [
                row for decision in decided if decision["search"] and any(host["weights"] for host in decision["search"]["ranking"])
                for row in self.ranking(decision["search"]["ranking"])
            ]
            shown["ranking"] = self.rows("The best hosts then")
        return link, shown, expected


def passes(host: Host, filters: dict) -> bool:
    text = filters.get("q", "").lower()
    return (
        host.condition == int(filters.get("state", host.condition))
        and (not filters.get("trait") or filters["trait"] in host.traits)
        and (not filters.get("agg") or filters["agg"] in host.aggregates)
        and (text in host.host.lower() or text in host.node.lower() or text in host.uuid)
    )


def legend(host: Host, by: str) -> str:
    if by == "state" or UP < host.condition <= FORCED_DOWN:
        return CONDITIONS[host.condition]
    capacity, _, used = host.amounts.get(by, (0, 0, 0))
    if capacity == 0:
        return "–"
    return next((text for bound, text in BOUNDS if used / capacity < bound), "≥ 95 %")


def by_group(rows: list[list[str]], by: str) -> list[list[str]]:
    """Rows in a fixed order. A host in several aggregates is named after all of them, in the order in which they come."""
    if by == "aggregate":
        rows = [[" + ".join(sorted(group.split(" + "))), *rest] for group, *rest in rows]
    return sorted(rows)


def binding(fleet: Fleet, flavor: dict) -> str:
    """The class of which the least would be left over all hosts that are up."""
    up = [host for host in fleet.hosts if host.condition == UP]
    wanted = {"VCPU": flavor["vcpus"], "MEMORY_MB": flavor["ram"], "DISK_GB": flavor["disk"]}
    rests = []
    for name in fleet.classes(up):
        if wanted.get(name):
            capacity, _, used = total(up, name)
            rests.append(((capacity - used) / wanted[name], name))
    return min(rests, key=lambda rest: rest[0])[1] if rests else "–"


def fits_text(fits: dict) -> str:
    if "count" not in fits:
        return f"This cannot be shown: {fits['errors'][0]['detail']}"
    return "None fits" if fits["count"] == 0 else f"{'At least ' if fits['more'] else ''}{fits['count']:,} more fit"


def funnel(explanation: dict | None) -> list[list[tuple]]:
    """What each constraint left of the hosts."""
    if not explanation or "hosts" not in explanation:
        return []
    placement = explanation.get("placement") or {}
    left, rows = placement.get("roots", explanation["hosts"]), []
    for constraint in placement.get("constraints", []):
        left -= constraint["removed"]
        name = f"{constraint['constraint']} ({constraint['group']})" if constraint.get("group") else constraint["constraint"]
        rows.append([("as", name), ("whole", constraint["removed"]), ("whole", left)])
    for row in explanation.get("filters", []):
        rows.append([("as", row["filter"]), ("whole", row["removed"]), ("whole", row["left"])])
    return rows


def differences(shown, expected) -> list[str]:
    if isinstance(shown, dict):
        return [line for key in expected if shown[key] != expected[key] for line in (f"{key}:", *differences(shown[key], expected[key]))]
    if not isinstance(shown, list):
        return [f"page: {shown!r}", f"APIs: {expected!r}"]
    lines = [f"page alone: {row!r}" for row in shown if row not in expected] + [f"APIs alone: {row!r}" for row in expected if row not in shown]
    return lines[:12] or [f"another order: {shown!r}"]
