"""Queries and lists with the largest answers: nobody may wait while they are searched and sent."""

import socket
import time

from case import Bystanders, Caller, Case, Site
from fleet import ADMIN, connect, in_threads, load, request

# How long a bystander may wait, in seconds.
WAIT_MAX = 0.25
GROWTH_MAX_MIB = 256
GROUPS_MAX = 128


def groups(count: int, more: str = "") -> str:
    """A query with ``count`` suffixed groups."""
    suffixed = "&".join(f"resources_{number}=VCPU:1" for number in range(count))
    return f"/allocation_candidates?{suffixed}&group_policy=none{more}"


def get(site: Site, path: str):
    caller = Caller(site.placement, ADMIN, timeout=120)
    answer = caller("GET", path)
    caller.close()
    return answer


def costly_queries() -> dict[str, tuple[str, set[int]]]:
    """The costliest queries, with the statuses that their answers may have."""
    resources = "resources=VCPU:1,MEMORY_MB:1"
    names = [
        "HW_CPU_X86_AVX",
        "HW_CPU_X86_AVX2",
        "HW_CPU_X86_SSE",
        "HW_CPU_X86_SSE2",
        "STORAGE_DISK_SSD",
    ]
    forbidden = ",".join(f"!{names[number % 5]}" for number in range(3_000))
    repeated = "&".join(f"required=!{names[number % 5]}" for number in range(990))
    one_of = "&".join(f"required=in:{names[n % 5]},{names[n // 5 % 5]}" for n in range(900))
    members = "&".join(
        f"member_of=!{number:08x}-0000-4000-8000-000000000000" for number in range(900)
    )
    classes = ",".join(f"C{number}:1" for number in range(8_000))
    subtrees = "&".join(f"same_subtree=_{n % 100},_{n // 100 + 1}" for n in range(800))
    candidates = "/allocation_candidates?"
    return {
        "all candidates": (candidates + resources, {200}),
        "all candidates, old form": (candidates + resources + "&x", {400}),
        "groups": (groups(GROUPS_MAX), {200, 400}),
        "groups, each its provider": (groups(GROUPS_MAX).replace("none", "isolate"), {200}),
        "forbidden traits": (f"{candidates}{resources}&required={forbidden}", {200}),
        "a trait again and again": (f"{candidates}{resources}&{repeated}", {200}),
        "choices of traits": (f"{candidates}{resources}&{one_of}", {200}),
        "aggregates": (f"{candidates}{resources}&{members}", {200}),
        "classes": (f"{candidates}resources={classes}", {400}),
        "subtrees": (groups(100, f"&{subtrees}"), {200, 400}),
        "all providers": ("/resource_providers", {200}),
        "providers by traits": (f"/resource_providers?{repeated}", {200}),
        "why": (f"/placewright/v1/explain?{resources}", {200}),
        "why, of many groups": (
            groups(GROUPS_MAX).replace("/allocation_candidates", "/placewright/v1/explain"),
            {200, 400},
        ),
        "why, of many traits": (f"/placewright/v1/explain?{resources}&{one_of}", {200, 400}),
        "why, of aggregates": (f"/placewright/v1/explain?{resources}&{members}", {200, 400}),
        "traits": ("/traits", {200}),
        "usages": ("/usages?project_id=p", {200}),
    }


def too_large(case: Case, site: Site) -> None:
    answer = get(site, groups(400))
    named = answer.status == 400 and b"placement.groups_max" in answer.body
    case.check("400 groups are refused, and the limit is named", named, answer)


def one_by_one(case: Case, site: Site) -> None:
    """One query after the other, each sent twice at the same time. Prints how long each takes."""
    before = site.memory_mib()
    most = before
    for what, (path, statuses) in costly_queries().items():
        with Bystanders(site) as bystanders:
            answers = in_threads([lambda path=path: get(site, path)] * 2)
            most = max(most, site.memory_mib())
        answer = answers[0]
        took = max(answer.seconds for answer in answers)
        size = len(answer.body) / (1 << 20)
        longest = bystanders.longest()
        print(f"   {what}: {answer.status}, {took:.3f} s, {size:.1f} MiB; {longest:.3f} s")
        fine = all(answer.status in statuses for answer in answers)
        case.check(f"{what} is answered", fine, answer)
        case.check(f"others go on beside {what}", bystanders.longest() < WAIT_MAX, bystanders)
    case.check("memory", most - before < GROWTH_MAX_MIB, f"{before:.0f} to {most:.0f} MiB")


def slow_readers(case: Case, site: Site) -> None:
    """Clients that request large answers and read nothing of them make the server occupy little memory."""
    readers: list[socket.socket] = []
    before = site.memory_mib()
    most = before
    paths = ["/resource_providers", "/allocation_candidates?resources=VCPU:1"]
    with Bystanders(site) as bystanders:
        for number in range(64):
            reader = connect(site.placement, receive_bytes=4_096)
            # Another limit each time, so that no answer comes from a cache.
            separator = "?" if "?" not in paths[number % 2] else "&"
            more = "" if number % 2 == 0 else f"{separator}limit={100_000 + number}"
            reader.sendall(request("GET", paths[number % 2] + more))
            readers.append(reader)
            most = max(most, site.memory_mib())
        end = time.monotonic() + (2 if case.short else 6)
        while time.monotonic() < end:
            most = max(most, site.memory_mib())
            time.sleep(0.05)
    for reader in readers:
        reader.close()
    grown = most - before
    print(f"   64 slow readers: {grown:.0f} MiB more; {bystanders}")
    case.check("others go on beside slow readers", bystanders.longest() < WAIT_MAX, bystanders)
    wrong = [one for one in bystanders.wrong if one.startswith(("health", "candidates"))]
    case.check("others are answered", not wrong, wrong[:3])
    case.check("memory of slow readers", grown < GROWTH_MAX_MIB, f"{grown:.0f} MiB")


def forms(case: Case, site: Site, hosts: int) -> None:
    """A large answer is complete, over HTTP/1.1 and HTTP/1.0."""
    path = "/allocation_candidates?resources=VCPU:1"
    answer = get(site, path)
    body = answer.json()
    found = len(body["allocation_requests"])
    case.check("all candidates are there", found >= hosts, found)
    case.check("and their summaries", len(body["provider_summaries"]) >= hosts, "fewer")
    part = get(site, path + "&limit=1000").json()["allocation_requests"]
    same = part == body["allocation_requests"][:1000]
    case.check("the first of all are those of a limit", same, "not the same")
    with connect(site.placement) as old_client:
        old_client.sendall(request("GET", path).replace(b"HTTP/1.1", b"HTTP/1.0"))
        text = b""
        while data := old_client.recv(1 << 20):
            text += data
    head, _, rest = text.partition(b"\r\n\r\n")
    case.check("an old client gets it too", rest == answer.body, head.decode())
    listed = get(site, "/resource_providers").json()["resource_providers"]
    case.check("all providers are there", len(listed) >= hosts, len(listed))


def run(case: Case) -> None:
    hosts = 3_000 if case.short else 20_000
    with case.up(hosts=2) as site:
        began = time.monotonic()
        counts = load(site.placement, hosts)
        print(f"   {hosts} providers in {time.monotonic() - began:.1f} s")
        case.check("the providers are there", set(counts) <= {"200", "201"}, counts)
        too_large(case, site)
        forms(case, site, hosts)
        one_by_one(case, site)
        slow_readers(case, site)
