#!/usr/bin/env python3
"""What a tenant's page is sent while another tenant and the operator work, and what other origins can do with the page.

- Chromium has a tenant's page open through a proxy that records every byte sent to it, while another tenant builds and
  deletes and the operator moves servers, the tenant's own among them. Then the tenant asks every route of every service that
  the page reaches, with the other's ids. In no byte is a name, host, id or number of others. The same search finds them in
  what an operator's page is sent.
- Everything stored with a name has markup as its name. The operator's pages and the tenant's show it as text.
- The policy of the page refuses scripts, requests, forms and frames, each by a try; other origins cannot frame it, load its
  files or send requests that have an effect.

The last line is "N passed, N failed".
"""

import argparse
import http.client
import pathlib
import re
import sys
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lib")]

import launch  # noqa: E402
from browser import Browser  # noqa: E402
from caller import Caller  # noqa: E402
from foreign import Foreign, Others  # noqa: E402
from installation import EVIL, running, settle  # noqa: E402
from origins import Origins  # noqa: E402
from recorder import Recorder  # noqa: E402
from tally import Tally  # noqa: E402

CRATES = HERE.parent.parent / "crates"
PAGES = ("overview", "fleet", "why", "capacity", "builds", "cells", "servers", "host/{host}", "fleet?host={host}", "why?server={server}", "fleet?group=aggregate", "time")
# Requests of the page to its own API, and what no service knows.
OWN_PATHS = (
    "fleet", "fleet?after=1.1", "metrics", "session", "installation", "health/metrics", "control/v1", "compute/../scheduler/v1/hosts",
    "compute/%2e%2e/scheduler/v1/hosts", "compute//scheduler/v1/hosts", "scheduler//v1/hosts", "ui/api/fleet", "fleet/", "fleet%2f",
    "past", "past/", "past//fleet", "past/1/fleet", "past/2/fleet",
)


def routes() -> list[tuple[str, str]]:
    """Each path that answers GET, by service, from the tables of routes."""
    found = []
    for service, prefix in (("compute", "/v2.1"), ("identity", "/v3")):
        text = (CRATES / f"api-{service}/src/routes.rs").read_text()
        for path, methods in re.findall(r'^    "(/[^"]*)" \{([^}]*)\}', text[text.index("TABLE"):], re.M):
            if "GET" in methods:
                found.append((service, prefix + path))
    text = (CRATES / "api-image/src/routes.rs").read_text()
    found += [("image", path) for path in re.findall(r'Self::\w+ => "(/[^"]*)"', text)]
    text = (CRATES / "api-network/src/resources.rs").read_text()
    names = re.findall(r'"([\w-]+)",\s*"\w+"', text[text.index("COLLECTIONS"):text.index("];")])
    found += [("network", f"/v2.0/{name}{item}") for name in names for item in ("", "/{server_id}")]
    found += [("network", "/v2.0/quotas/{project_id}/details")]
    pages = (CRATES / "api-placement/src/pages.rs").read_text()
    found += [("placement", path) for path in sorted(set(re.findall(r'=> "(/placewright[^"]*)"', pages)))]
    resources = (
        "", "/resource_providers", "/resource_providers/{host}", "/allocations/{server_id}", "/usages?project_id={project_id}", "/traits",
        "/resource_classes", "/allocation_candidates?resources=VCPU:1",
        *(f"/resource_providers/{{host}}/{what}" for what in ("inventories", "inventories/VCPU", "usages", "aggregates", "allocations", "traits")),
    )
    found += [("placement", path) for path in resources]
    found += [("scheduler", f"/v1{path}") for path in ("", "/hosts", "/hosts/{host}", "/decisions/{server_id}", "/aggregates", "/topology")]
    return found


class Safe:
    def __init__(self, site, data: dict, tally: Tally) -> None:
        self.site, self.data, self.tally = site, data, tally
        self.operator = Caller(site, data["admin"])
        self.foreign, self.others = Foreign(self.operator), Others(site, data)
        self.own = set()
        self.browser = Browser()
        self.browser.driver.set_script_timeout(60)

    def open(self, recorder: Recorder, name: str, cloud: str) -> None:
        self.browser.open(f"http://127.0.0.1:{recorder.port}/ui/")
        self.browser.sign_in(name, self.site.password(cloud))
        if not self.browser.until_text("Sign out"):
            raise RuntimeError(f"{name} cannot sign in")

    def settle(self) -> None:
        self.others.settle(self.foreign)
        tenant = Caller(self.site, self.data["demo"])
        # One that fits nowhere has a fault, which must not say more than that.
        server = {"name": "tenant-too-large", "flavorRef": "giant", "imageRef": self.data["image"], "networks": "none"}
        self.others.made("compute", "/v2.1/servers", {"server": server}, tenant)
        self.own = {row["id"] for row in tenant.get("compute", "/v2.1/servers")["servers"]}
        self.foreign.learn(self.own)
        # What everybody may see: the names of public flavors and images, zones, and the roles.
        for text in ("S", "M", "L", "giant"):
            self.foreign.texts.pop(text, None)

    def tenants_page(self, rounds: int) -> None:
        """The tenant's page is open while others work."""
        recorder, foreign = Recorder(self.site.ports["ui"]), self.foreign
        self.open(recorder, "demo", "demo")
        moved = self.data["ids"]["tenant-server"]
        for number in range(rounds):
            self.others.work(foreign, moved if number % 2 else None)
            self.browser.go(f"#/{PAGES[number % len(PAGES)].format(host=self.data['hosts'][0]['uuid'], server=self.others.ids['server_id'])}")
            foreign.learn(self.own)
            time.sleep(0.2)
        # The page asks again after five seconds.
        time.sleep(6)
        foreign.learn(self.own)
        self.tally.check("a tenant's page shows its own servers", self.browser.until_text("tenant-server-1") and self.browser.until_text("tenant-too-large"))
        text = recorder.text()
        self.tally.check("a tenant's page is sent its own servers", "tenant-server-1" in text)
        found = foreign.found_in(text)
        self.tally.check(f"{len(text)} bytes of a tenant's page have nothing of {len(foreign.texts)} secrets", not found, "\n".join(found[:10]))
        shown = foreign.found_in(self.browser.run("return document.documentElement.outerHTML"))
        self.tally.check("a tenant's page shows nothing of others", not shown, "\n".join(shown[:10]))
        self.markup("a tenant's page")
        recorder.end()

    def operators_page(self) -> None:
        """The same search finds them where they are; and markup in stored names stays text."""
        recorder = Recorder(self.site.ports["ui"])
        self.store_markup()
        self.browser.find("#sign-out").click()
        self.open(recorder, "admin", "placewright")
        self.browser.until_text("live", "#live")
        for page in PAGES[:6] + PAGES[7:]:
            self.browser.go(f"#/{page.format(host=self.marked, server=self.others.ids['server_id'])}")
            time.sleep(0.7)
            self.markup(page.split("{")[0])
        self.browser.go("#/fleet?group=aggregate")
        self.tally.check("the markup is there, as text", self.browser.until_text("<img src=x onerror") or "onerror" in self.browser.run("return JSON.stringify(placewrightTiles.blocks.map((block) => block.name))"))
        self.foreign.learn(self.own)
        kinds = {what for secret, what in self.foreign.texts.items() if secret in recorder.text()}
        wanted = {"server", "provider", "project", "user", "cell", "aggregate", "flavor", "migration"}
        self.tally.check("the search finds others in what an operator's page is sent", wanted <= kinds, f"{wanted - kinds}")
        recorder.end()

    def store_markup(self) -> None:
        """Gives everything that may have such a name the name EVIL."""
        ask = self.operator
        self.marked, aggregate = str(uuid.uuid4()), str(uuid.uuid4())
        ask("placement", "POST", "/resource_providers", {"name": EVIL, "uuid": self.marked})
        ask("placement", "PUT", f"/resource_providers/{self.marked}/inventories", {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}})
        facts = {"names": {"service_host": EVIL, "node": EVIL, "cell": "ce110000-0000-4000-8000-000000000001"}}
        told = {"incarnation": time.time_ns(), "sequence": 1, "update": {"full": {"facts": facts}}}
        ask("scheduler", "POST", f"/v1/hosts/{self.marked}/state", told)
        ask("scheduler", "POST", f"/v1/hosts/{self.marked}/state", {**told, "sequence": 2, "update": {"disabled": EVIL}})
        ask("scheduler", "PUT", f"/v1/aggregates/{aggregate}", {"name": EVIL, "zone": EVIL})
        generation = ask.get("placement", f"/resource_providers/{self.marked}")["generation"]
        body = {"aggregates": [aggregate], "resource_provider_generation": generation}
        ask("placement", "PUT", f"/resource_providers/{self.marked}/aggregates", body)
        levels = ask.get("scheduler", "/v1/topology")["levels"]
        ask("scheduler", "PUT", "/v1/topology", {"levels": [{"name": EVIL, "aggregates": [aggregate]}, *levels]})
        stored = ask.get("scheduler", "/v1/topology")["levels"][0]["name"]
        self.tally.check("a level with markup is stored", stored == EVIL, stored)
        ask("compute", "POST", "/v2.1/flavors", {"flavor": {"id": "evil", "name": EVIL, "vcpus": 1, "ram": 64, "disk": 1}})

    def markup(self, name: str) -> None:
        wrong = self.browser.run(
            """const bad = [...document.querySelectorAll('main img, main script, iframe, object, embed, base, main b, body script')];
            const handled = [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some(({ name, value }) =>
              name.startsWith('on') || /^\\s*javascript:/i.test(value)));
            return [...bad, ...handled].map((one) => one.outerHTML.slice(0, 200)).concat(window.owned ? ['owned'] : []);"""
        )
        self.tally.check(f"{name}: stored markup makes no element", not wrong, "\n".join(wrong))

    def every_route(self) -> None:
        """A tenant asks everything that there is, by others' ids, by its own and by none that exist."""
        services = self.operator.get("ui", "/ui/api/installation")["services"]
        mine = {"server_id": self.data["ids"]["tenant-server"]}
        host = self.data["hosts"][0]["uuid"]
        fill = {
            "host": host, "hypervisor_id": host, "service_id": host, "aggregate_id": "1", "migration_id": "1", "name": "zeta-key",
            "key": "zeta-key", "tag": "zeta", "alias": "os-hypervisors", "quota_class": "default", "domain_id": "default",
            "endpoint_id": "1", "region_id": "1", "credential_id": "1", "implied_id": "1", "request_id": "req-1", "member_id": "1",
            "name}": "images", **self.others.ids,
        }
        self.foreign.learn(self.own)
        asked, wrong, open_to_all = 0, [], []
        tenant = Caller(self.site, self.data["demo"])
        for service, path in routes():
            if service not in services:
                continue
            for ids in ({}, mine):
                filled = re.sub(r"\{(\w+)\}", lambda found: ({**fill, **ids}).get(found[1], "1"), path)
                asked += 1
                wrong += self.look(tenant, f"/ui/api/{service}{filled}")
                status = self.status_without_token(f"/ui/api/{service}{filled}")
                if status not in (401, 404, 405):
                    open_to_all.append((status, f"{service}{filled}"))
        for path in OWN_PATHS:
            asked += 1
            wrong += self.look(tenant, f"/ui/api/{path}")
        for query in ("all_tenants=1", "host=host-00001", "project_id={}".format(self.others.ids["project_id"]), "node=host-00001", "name=zeta", "sort_key=host", "limit=1&all_tenants=1"):
            asked += 1
            wrong += self.look(tenant, f"/ui/api/compute/v2.1/servers/detail?{query}")
        self.tally.check(f"{asked} requests of a tenant bring nothing of others", not wrong, "\n".join(wrong[:20]))
        # Versions of the APIs are told to everybody, and so is the installation's way to sign in.
        secret = [f"{status} {path}" for status, path in open_to_all if not re.search(r"/(v1|v2.0|v2.1|v3|versions|openapi.json|capabilities)?/?$", path)]
        self.tally.check("nobody gets an answer without a token", not secret, "\n".join(secret))

    def look(self, tenant: Caller, path: str) -> list[str]:
        status, answer = self.raw(path, {"X-Auth-Token": tenant.token, "OpenStack-API-Version": "compute 2.96"})
        return [f"{status} {path}: {found}" for found in self.foreign.found_in(answer, said=path)]

    def raw(self, path: str, headers: dict, method: str = "GET", body: str | None = None) -> tuple[int, str]:
        """The status and all text of an answer, with its headers. A stream is read for a second."""
        connection = http.client.HTTPConnection("127.0.0.1", self.site.ports["ui"], timeout=1.5)
        text = ""
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = str(answer.headers)
            return answer.status, text + answer.read().decode(errors="replace")
        except TimeoutError:
            return 0, text
        finally:
            connection.close()

    def status_without_token(self, path: str) -> int:
        return self.raw(path, {})[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=None, help="the placewright binary (default: the release build)")
    parser.add_argument("--rounds", type=int, default=24, help="how often others do something while the tenant's page is open")
    options = parser.parse_args()
    tally = Tally()
    with launch.scratch("safe") as folder, running(options.program or launch.program(), folder, 12) as site:
        data = settle(site)
        safe = Safe(site, data, tally)
        try:
            safe.settle()
            safe.tenants_page(options.rounds)
            safe.every_route()
            safe.operators_page()
            Origins(safe.browser, site, data, tally, safe.raw).run()
        finally:
            safe.browser.end()
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
