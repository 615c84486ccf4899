"""Costly requests of every API at once, and how long they hold the threads for sockets."""

import contextlib
import multiprocessing
import re
import threading
import time
from collections.abc import Callable, Iterator

import priority
from case import ADMIN, ATTACKER, Bystanders, Caller, Case, Site

# Other programs may take a processor away for a while. Only what repeats is the server's own fault.
TRIES = 3
LONGEST_S = 0.010
HEALTH_S = 0.050


def longest_poll(site: Site) -> float:
    """How long a thread for sockets was held at most, in seconds."""
    port = site.health
    text = Caller(port)("GET", "/metrics").body.decode()
    found = re.search(r"^placewright_http_poll_longest_seconds ([0-9.e-]+)", text, re.MULTILINE)
    return float(found[1]) if found else float("inf")


def make_providers(site: Site, count: int) -> None:
    caller = Caller(site.placement)
    for number in range(count):
        uuid = f"00000000-0000-4000-8000-{number:012}"
        caller("POST", "/resource_providers", {"name": f"p{number}", "uuid": uuid})
        inventories = {"VCPU": {"total": 64}, "MEMORY_MB": {"total": 65536}}
        body = {"resource_provider_generation": 0, "inventories": inventories}
        caller("PUT", f"/resource_providers/{uuid}/inventories", body)


def requests(site: Site) -> list[tuple[int, str, str, str, object]]:
    provider = "00000000-0000-4000-8000-000000000000"
    allocations = {f"{provider[:-12]}{n:012}": {"resources": {"VCPU": 1}} for n in range(1000)}
    wide = "&".join(f"resources{n}=VCPU:1" for n in range(8)) + "&group_policy=isolate"
    return [
        (site.placement, ADMIN, "GET", "/resource_providers", None),
        (site.placement, ADMIN, "GET", "/allocation_candidates?resources=VCPU:1", None),
        (site.placement, ADMIN, "GET", f"/allocation_candidates?{wide}&limit=1000", None),
        (site.placement, ADMIN, "GET", "/placewright/v1/explain?resources=VCPU:3000", None),
        (site.placement, ADMIN, "PUT", "/allocations/00000000-0000-4000-8000-0000000000aa", {
            "allocations": allocations, "project_id": "p", "user_id": "u",
            "consumer_generation": None, "consumer_type": "INSTANCE"}),
        (site.scheduler, ADMIN, "GET", "/v1/hosts?limit=10000", None),
        (site.compute, ATTACKER, "GET", "/v2.1/servers/detail?name=(.*a){12}&limit=1000", None),
        (site.compute, ATTACKER, "GET", "/v2.1/flavors/detail", None),
        (site.compute, ATTACKER, "POST", "/v2.1/servers", {"server": {
            "name": "a" * 200, "flavorRef": "small", "networks": "none", "max_count": 1000,
            "imageRef": "70ace000-0000-4000-8000-000000000001"}}),
    ]


def flood(site: Site, seconds: float) -> list[str]:
    """Sends all requests at once; returns the answers with 5xx other than 503, and the missing ones."""
    end = time.monotonic() + seconds
    wrong: list[str] = []

    def ask(port: int, token: str, method: str, path: str, body: object) -> None:
        caller = Caller(port, token)
        while time.monotonic() < end:
            answer = caller(method, path, body)
            if answer.status is None or answer.status >= 500 and answer.status != 503:
                wrong.append(f"{method} {path[:60]}: {answer}")

    rows = [row for row in requests(site) for _ in range(2)]
    threads = [threading.Thread(target=ask, args=row) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def flood_behind(site: Site, seconds: float, wrong: multiprocessing.Queue) -> None:
    """As `flood`, in a process that runs only when no other wants a processor.

    Otherwise it would interrupt the server within its polls, which a flood from another machine does not.
    """
    priority.give_way()
    wrong.put(flood(site, seconds))


@contextlib.contextmanager
def flooding(site: Site, seconds: float) -> Iterator[Callable[[], list[str]]]:
    """Floods the site meanwhile; yields what waits for the end, and returns the wrong answers."""
    wrong: multiprocessing.Queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=flood_behind, args=(site, seconds, wrong))
    process.start()
    try:
        yield lambda: wrong.get(timeout=seconds + 120)
    finally:
        process.join()


def run(case: Case) -> None:
    providers, seconds = (500, 3) if case.short else (3000, 10)
    held = []
    for _ in range(TRIES):
        with case.up(hosts=30) as site:
            site.flavor("small")
            make_providers(site, providers)
            with flooding(site, seconds) as end, Bystanders(site) as bystanders:
                wrong = end()
            held.append(longest_poll(site))
            if not case.check("costly requests are all answered", not wrong, "\n".join(wrong[:5])):
                return
            waited = bystanders.longest("health")
            print(f"        longest poll {held[-1] * 1e3:.1f} ms; {bystanders}")
            if held[-1] <= LONGEST_S and waited <= HEALTH_S:
                break
    case.check("no poll takes more than 10 ms", min(held) <= LONGEST_S, held)
    case.check("health answers within 50 ms meanwhile", waited <= HEALTH_S, f"{waited:.3f} s")
