"""Lists of servers with queries that cost as much as can be."""

import threading
import urllib.parse

from case import ATTACKER, IMAGE, Answer, Bystanders, Case, Site

WAIT_MAX_S = 0.25
PATTERN = "([a-q][^u-z]{13}x|$)"
SERVERS = 1000


def query(*pairs: tuple[str, str]) -> str:
    return "?" + urllib.parse.urlencode(pairs)


QUERIES = {
    "600 patterns": query(*[("name", PATTERN)] * 600),
    "60 patterns": query(*[("name", PATTERN)] * 60),
    "one pattern": query(("name", PATTERN)),
    "a pattern that finds nothing": query(("name", "([a-q][^u-z]{40}x)")),
    "a pattern of many choices": query(("name", "(a|b|c|d|e|f)*(ab|cd|ef)*(x|y)z")),
    "a pattern of many repetitions": query(("name", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)[xy]q")),
    "a pattern of all letters": query(("name", r"\w{40}\W")),
    "a pattern of 4,000 characters": query(("name", "(a|b)" * 800)),
    "a huge pattern": query(("name", "((a{100}){100}){100}")),
    "a deep pattern": query(("name", "(" * 100 + "a" + ")" * 100)),
    "all sort keys": query(
        *[
            ("sort_key", key)
            for key in (
                "display_name",
                "display_description",
                "vm_state",
                "task_state",
                "hostname",
                "image_ref",
                "instance_type_id",
                "key_name",
                "launch_index",
                "updated_at",
            )
        ]
        * 3
    ),
    "many filters": query(
        ("tags", ",".join(f"t{n}" for n in range(300))),
        ("not-tags-any", ",".join(f"t{n}" for n in range(300))),
        ("flavor", "small"),
        ("image", IMAGE),
        ("key_name", "k"),
        ("name", PATTERN),
    ),
    "600 statuses": query(*[("status", "ACTIVE")] * 600),
}


def fill(site: Site) -> None:
    """Makes servers of the attacker with long names. No host can take them, so that none is built meanwhile."""
    site.flavor("huge", 4000)
    name = ("abcdefgh" * 31)[:245]
    body = {
        "server": {
            "name": name,
            "flavorRef": "huge",
            "imageRef": IMAGE,
            "networks": "none",
            "min_count": SERVERS,
            "max_count": SERVERS,
            "description": "d" * 255,
            "metadata": {f"k{n}": "v" * 255 for n in range(100)},
        }
    }
    answer = site.caller(ATTACKER)("POST", "/v2.1/servers", body)
    if answer.status != 202:
        raise AssertionError(f"the servers were not made: {answer}")


def run(case: Case) -> None:
    with case.up(hosts=30) as site:
        fill(site)
        for name, text in QUERIES.items():
            for path in ("/v2.1/servers", "/v2.1/servers/detail"):
                attack(case, site, f"{name} of {path}", path + text)
        pages(case, site)


def attack(case: Case, site: Site, name: str, path: str) -> None:
    """Four callers, or two in short, request the list at once."""
    answers: list[Answer] = []

    def ask() -> None:
        answers.append(site.caller(ATTACKER)("GET", path))

    before = site.memory_mib()
    with Bystanders(site) as others:
        threads = [threading.Thread(target=ask) for _ in range(2 if case.short else 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    longest, took = others.longest(), max(answer.seconds for answer in answers)
    ok = all(answer.status in (200, 400) for answer in answers)
    case.check(f"{name}: answered or refused", ok, answers[0])
    text = f"{name}: {took:.2f} s, others waited {longest * 1e3:.0f} ms at most"
    case.check(text, longest <= WAIT_MAX_S and not others.wrong, others)
    grown = site.memory_mib() - before
    case.check(f"{name}: grew by {grown:.0f} MiB", grown <= 256)


def pages(case: Case, site: Site) -> None:
    """Pages are limited in size, and their links lead to all servers."""
    caller = site.caller(ATTACKER)
    path = "/v2.1/servers/detail?limit=1000"
    found = 0
    for _ in range(100):
        answer = caller("GET", path)
        if not case.check("a page is answered", answer.status == 200, answer):
            return
        case.check("a page has at most 9 MiB", len(answer.body) < 9 << 20, len(answer.body))
        page = answer.json()
        found += len(page["servers"])
        links = page.get("servers_links")
        if not links:
            break
        address = urllib.parse.urlsplit(links[0]["href"])
        path = f"{address.path}?{address.query}"
    case.check(f"{found} servers are found over all pages", found == SERVERS)
