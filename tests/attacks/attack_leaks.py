"""What a member can learn of others' servers and groups, and of the hosts."""

import re
import time
import uuid
from typing import Any

from case import ADMIN, ATTACKER, BYSTANDER, IMAGE, Answer, Caller, Case, Site

UNKNOWN = "00000000-1111-4222-8333-444444444444"


def flavor(site: Site, name: str, vcpus: int = 1) -> None:
    """Makes a flavor with a disk: without one, members may not boot from images."""
    body = {"flavor": {"id": name, "name": name, "vcpus": vcpus, "ram": 64, "disk": 1}}
    site.caller()("POST", "/v2.1/flavors", body)


def boot(caller: Caller, name: str, flavor: str = "small", hints: Any = None) -> str:
    body: dict[str, Any] = {
        "server": {"name": name, "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"}
    }
    if hints:
        body["os:scheduler_hints"] = hints
    answer = caller("POST", "/v2.1/servers", body)
    if answer.status != 202:
        raise AssertionError(f"no server: {answer}")
    return str(answer.json()["server"]["id"])


def wait_until_built(caller: Caller, server: str) -> dict[str, Any]:
    end = time.monotonic() + 30
    while True:
        shown = caller("GET", f"/v2.1/servers/{server}").json()["server"]
        if shown["status"] != "BUILD" or time.monotonic() > end:
            return dict(shown)
        time.sleep(0.05)


def are_alike(one: Answer, other: Answer, id_one: str, id_other: str) -> bool:
    """Whether two answers differ in nothing but the id that was asked for."""
    texts = [
        re.sub(rb'"created":"[^"]*"', b"", answer.body).replace(known.encode(), b"ID")
        for answer, known in ((one, id_one), (other, id_other))
    ]
    return one.status == other.status and texts[0] == texts[1]


def run(case: Case) -> None:
    with case.up(hosts=30) as site:
        flavor(site, "small")
        flavor(site, "huge", 4000)
        foreign_ids(case, site)
        foreign_lists(case, site)
        hints(case, site)
        hosts(case, site)


def foreign_ids(case: Case, site: Site) -> None:
    alice, mallory = site.caller(BYSTANDER), site.caller(ATTACKER)
    server = boot(alice, "secret")
    wait_until_built(alice, server)
    answer = alice(
        "POST", "/v2.1/os-server-groups", {"server_group": {"name": "g", "policy": "affinity"}}
    )
    group = answer.json()["server_group"]["id"]
    requests: list[tuple[str, str, Any]] = [
        ("GET", "/servers/{}", None),
        ("PUT", "/servers/{}", {"server": {"name": "x"}}),
        ("DELETE", "/servers/{}", None),
        ("GET", "/servers/{}/metadata", None),
        ("POST", "/servers/{}/metadata", {"metadata": {"a": "b"}}),
        ("GET", "/servers/{}/metadata/a", None),
        ("GET", "/servers/{}/tags", None),
        ("PUT", "/servers/{}/tags/a", None),
        ("GET", "/servers/{}/ips", None),
        ("GET", "/servers/{}/os-interface", None),
        ("GET", "/servers/{}/os-volume_attachments", None),
        ("GET", "/servers/{}/os-security-groups", None),
        ("GET", "/servers/{}/os-instance-actions", None),
        ("GET", f"/servers/{{}}/os-instance-actions/req-{UNKNOWN}", None),
        ("GET", "/servers/{}/migrations", None),
        *(
            ("POST", "/servers/{}/action", body)
            for body in (
                {"resize": {"flavorRef": "huge"}},
                {"confirmResize": None},
                {"revertResize": None},
                {"migrate": None},
                {"os-migrateLive": {"host": None, "block_migration": "auto"}},
                {"evacuate": {}},
                {"shelve": None},
                {"shelveOffload": None},
                {"unshelve": None},
                {"rebuild": {"imageRef": IMAGE}},
                {"lock": None},
                {"unlock": None},
                {"forceDelete": None},
                {"os-stop": None},
            )
        ),
        ("GET", "/servers?marker={}", None),
        ("GET", "/servers?marker={}&sort_key=display_name", None),
        ("GET", "/servers/detail?marker={}&sort_key=display_name&sort_dir=asc", None),
    ]
    for method, path, body in requests:
        one = mallory(method, "/v2.1" + path.format(server), body)
        other = mallory(method, "/v2.1" + path.format(UNKNOWN), body)
        what = f"{method} {path} {next(iter(body)) if body else ''}".strip()
        case.check(f"{what} of others is as unknown", are_alike(one, other, server, UNKNOWN), one)
    for method in ("GET", "DELETE"):
        one = mallory(method, f"/v2.1/os-server-groups/{group}")
        other = mallory(method, f"/v2.1/os-server-groups/{UNKNOWN}")
        ok = are_alike(one, other, group, UNKNOWN) and one.status == 404
        case.check(f"{method} of others' group is as unknown", ok, one)
    case.check("it is still there", alice("GET", f"/v2.1/servers/{server}").status == 200)


def foreign_lists(case: Case, site: Site) -> None:
    """Lists are not sorted by what members may not see, and have nothing of others."""
    mallory = site.caller(ATTACKER)
    for key in ("host", "node"):
        answer = mallory("GET", f"/v2.1/servers?sort_key={key}")
        case.check(f"sort_key={key} is refused", answer.status == 403, answer)
        answer = site.caller()("GET", f"/v2.1/servers?sort_key={key}&all_tenants=1")
        case.check(f"sort_key={key} is an administrator's", answer.status == 200, answer)
    answer = mallory("GET", "/v2.1/servers?all_tenants=1")
    case.check("others' servers are not listed", answer.status == 403, answer)
    answer = mallory("GET", "/v2.1/os-keypairs?user_id=alice")
    case.check("others' key pairs are not listed", answer.status == 403, answer)


def hints(case: Case, site: Site) -> None:
    """A hint about somebody else's server has the same effect as a hint about a server that does not exist."""
    alice, mallory = site.caller(BYSTANDER), site.caller(ATTACKER)
    foreign = boot(alice, "there")
    wait_until_built(alice, foreign)
    for hint in ("same_host", "different_host"):
        outcomes = []
        for hinted in (foreign, foreign.replace("-", "").upper(), UNKNOWN):
            shown = wait_until_built(mallory, boot(mallory, "spy", hints={hint: [hinted]}))
            fault = shown.get("fault", {})
            outcomes.append((shown["status"], fault.get("message"), fault.get("details")))
        case.check(f"{hint} of others is as unknown", len(set(outcomes)) == 1, outcomes)
    group = site.caller(BYSTANDER)(
        "POST", "/v2.1/os-server-groups", {"server_group": {"name": "h", "policy": "affinity"}}
    ).json()["server_group"]["id"]
    bodies = []
    for known in (group, str(uuid.UUID(int=77))):
        wish = {"name": "x", "flavorRef": "small", "imageRef": IMAGE, "networks": "none"}
        body = {"server": wish, "os:scheduler_hints": {"group": known}}
        bodies.append((known, mallory("POST", "/v2.1/servers", body)))
    (one, first), (other, second) = bodies
    case.check("others' group is as unknown", are_alike(first, second, one, other), first)


def hosts(case: Case, site: Site) -> None:
    """A member finds no name, UUID or number of hosts in what it is shown."""
    admin, mallory = site.caller(ADMIN), site.caller(ATTACKER)
    rows = admin("GET", "/v2.1/os-hypervisors/detail").json()["hypervisors"]
    names = {str(row["hypervisor_hostname"]) for row in rows} | {str(row["id"]) for row in rows}
    failed = boot(mallory, "large", "huge")
    shown = wait_until_built(mallory, failed)
    message = shown["fault"]["message"]
    case.check(
        "a fault says whose wish left nothing, without a figure",
        message == "No valid host was found. No host does for its flavor.",
        shown["fault"],
    )
    case.check("a fault has no details", "details" not in shown["fault"], shown["fault"])
    seen = admin("GET", f"/v2.1/servers/{failed}").json()["server"]["fault"]
    ok = "details" in seen and "hosts" in seen["details"]
    case.check("an administrator sees them", ok, seen)
    running = boot(mallory, "runs")
    wait_until_built(mallory, running)
    texts: dict[str, str] = {}
    for server in (failed, running):
        base = f"/v2.1/servers/{server}"
        actions = mallory("GET", f"{base}/os-instance-actions")
        texts[f"actions of {server}"] = actions.body.decode()
        for action in actions.json()["instanceActions"]:
            path = f"{base}/os-instance-actions/{action['request_id']}"
            texts[path] = mallory("GET", path).body.decode()
        texts[base] = mallory("GET", base).body.decode()
    for path in (
        "/v2.1/servers/detail",
        "/v2.1/os-availability-zone",
        "/v2.1/os-server-groups",
        "/v2.1/limits",
        "/v2.1/flavors/detail",
    ):
        texts[path] = mallory("GET", path).body.decode()
    for path, text in texts.items():
        named = [name for name in names if name in text]
        case.check(f"{path} names no host", not named and "have room" not in text, named[:3])
    for path in (
        "/v2.1/os-hypervisors",
        "/v2.1/os-services",
        "/v2.1/os-aggregates",
        "/v2.1/os-migrations",
        "/v2.1/os-availability-zone/detail",
        f"/v2.1/servers/{running}/migrations",
    ):
        answer = mallory("GET", path)
        case.check(f"{path} is for administrators", answer.status == 403, answer)
