"""Claims and other changes with very many entries: nobody may wait while they are decided."""

import json
import time
import uuid

from case import Bystanders, Caller, Case, Site
from fleet import ADMIN, host, in_threads, load, request, send_all

# How long a bystander may wait, in seconds, and how much the process may grow.
WAIT_MAX = 0.25
GROWTH_MAX_MIB = 256
ENTRIES_MAX = 10_000


def consumer(number: int) -> str:
    return str(uuid.UUID(int=0xC000_0000_0000 + number))


def allocations_as_list(entries: int, providers: int) -> bytes:
    """Allocations in the form of microversion 1.0."""
    entry = '{"resource_provider": {"uuid": "%s"}, "resources": {"VCPU": 1, "DISK_GB": 1}}'
    items = (entry % host(number % providers) for number in range(entries))
    return ('{"allocations": [' + ", ".join(items) + "]}").encode()


def claim(providers: range, **more: object) -> dict:
    """A claim of a new consumer on these providers."""
    held = {host(number): {"resources": {"VCPU": 1}} for number in providers}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "X"}
    return {"allocations": held, **owner, **more}


def send(site: Site, path: str, body: object, version: str = "1.39", method: str = "PUT"):
    caller = Caller(site.placement, ADMIN, timeout=120)
    answer = caller(method, path, body, {"OpenStack-API-Version": f"placement {version}"})
    caller.close()
    return answer


def as_bytes(body: object) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def too_many(case: Case, site: Site) -> None:
    """Bodies with more entries than anybody needs are refused, and named."""
    uuids = [str(uuid.UUID(int=number)) for number in range(150_000)]
    inventory = {"total": 1}
    names = {f"CUSTOM_{number}": inventory for number in range(100_000)}
    allocations = {f"{consumer(n)}": claim(range(1)) for n in range(ENTRIES_MAX + 1)}
    provider = f"/resource_providers/{host(0)}"
    long_list = allocations_as_list(50_000, 50_000)
    longer_list = allocations_as_list(100_000, 50_000)
    bodies = {
        "allocations in 14 MB": ("PUT", f"/allocations/{consumer(0)}", longer_list, "1.0"),
        "allocations in 14 MB, once more": ("PUT", f"/allocations/{consumer(1)}", longer_list, "1.0"),
        "allocations in a list": ("PUT", f"/allocations/{consumer(0)}", long_list, "1.0"),
        "allocations": ("PUT", f"/allocations/{consumer(0)}", claim(range(20_000)), "1.39"),
        "consumers": ("POST", "/allocations", allocations, "1.39"),
        "aggregates": ("PUT", f"{provider}/aggregates", uuids, "1.1"),
        "numbers": ("POST", "/allocations", b"[" + b"0," * 4_000_000 + b"0]", "1.39"),
        "lists": ("POST", "/allocations", b"[" + b"[]," * 2_500_000 + b"0]", "1.39"),
        "traits": (
            *("PUT", f"{provider}/traits"),
            {"resource_provider_generation": 1, "traits": [f"CUSTOM_{n}" for n in range(100_000)]},
            "1.39",
        ),
        "inventories": (
            *("PUT", f"{provider}/inventories"),
            {"resource_provider_generation": 1, "inventories": names},
            "1.39",
        ),
    }
    sent = {
        what: (method, path, as_bytes(body), version)
        for what, (method, path, body, version) in bodies.items()
    }
    before = site.memory_mib()
    most = before
    began = time.monotonic()
    with Bystanders(site) as bystanders:
        items = list(sent.items())
        for start in range(0, len(items), 2):
            pair = items[start : start + 2]
            jobs = [lambda row=row: send(site, row[1], row[2], row[3], row[0]) for _, row in pair]
            for (what, _), answer in zip(pair, in_threads(jobs), strict=True):
                limits = (b"placement.entries_max", b"placement.body_bytes_max")
                named = any(limit in answer.body for limit in limits)
                # The server may close the connection instead of reading the whole body.
                unread = answer.status is None and "14 MB" in what
                case.check(f"too many {what}", unread or (answer.status == 413 and named), answer)
            most = max(most, site.memory_mib())
    print(f"   {len(sent)} large bodies: {time.monotonic() - began:.1f} s; {bystanders}")
    case.check("others go on", bystanders.longest() < WAIT_MAX, bystanders)
    case.check("memory", most - before < GROWTH_MAX_MIB, f"{before:.0f} to {most:.0f} MiB")


def as_many_as_allowed(case: Case, site: Site, hosts: int) -> None:
    """The largest requests that are carried out delay nobody either."""
    entries = min(hosts, ENTRIES_MAX)
    first_new_consumer = 5_000_000
    first_listed_consumer = first_new_consumer + 50
    claims_of_many = {
        f"{consumer(first_new_consumer + 100 + n)}": claim(range(n % hosts, n % hosts + 1))
        for n in range(ENTRIES_MAX)
    }
    large_claim = json.dumps(claim(range(entries))).encode()
    empty_claim = json.dumps({**claim(range(0)), "consumer_generation": 1}).encode()
    many_consumers = json.dumps(claims_of_many).encode()
    list_form = allocations_as_list(ENTRIES_MAX // 2, entries)
    rounds = 2 if case.short else 6
    before = site.memory_mib()
    with Bystanders(site) as bystanders:
        for number in range(rounds):
            path = f"/allocations/{consumer(first_new_consumer + number)}"
            listed_path = f"/allocations/{consumer(first_listed_consumer + number)}"
            answers = in_threads(
                [
                    lambda: send(site, path, large_claim),
                    lambda: send(site, listed_path, list_form, "1.0"),
                ]
            )
            answers.append(send(site, path, empty_claim))
            case.check(
                "claims on many providers",
                all(answer.status == 204 for answer in answers),
                [str(answer) for answer in answers],
            )
            # Only once: afterwards these consumers exist.
            is_first = number == 0
            answer = send(site, "/allocations", many_consumers, method="POST") if is_first else answers[0]
            case.check("a claim of many consumers", answer.status == 204, answer)
            answer = send(site, listed_path, None, method="GET")
            case.check("what a consumer holds is told", answer.status == 200, answer)
    grown = site.memory_mib() - before
    print(f"   as many as allowed: {bystanders}; {grown:.0f} MiB more")
    case.check("others go on beside them", bystanders.longest() < WAIT_MAX, bystanders)
    case.check("memory beside them", grown < GROWTH_MAX_MIB, f"{grown:.0f} MiB")


def names_go(case: Case, site: Site) -> None:
    """Names of projects, users and aggregates that nobody has any more take no memory."""
    count = 1_000 if case.short else 5_000
    rounds = 3 if case.short else 8

    def one_round(number: int) -> None:
        def name(kind: str, index: int) -> str:
            return f"{kind}-{number}-{index}-".ljust(250, "x")

        lists: list[list[bytes]] = [[] for _ in range(8)]
        for index in range(count):
            path = f"/allocations/{consumer(1_000_000 + index)}"
            body = claim(range(1), project_id=name("p", index), user_id=name("u", index))
            lists[index % 8] += [request("PUT", path, body), request("DELETE", path)]
        counts = send_all(site.placement, lists)
        case.check("consumers come and go", counts == {"204": 2 * count}, counts)
        aggregates = [str(uuid.UUID(int=number << 64 | index)) for index in range(ENTRIES_MAX)]
        answer = send(site, f"/resource_providers/{host(1)}/aggregates", aggregates, "1.1")
        case.check("aggregates come and go", answer.status == 200, answer)

    # What the first round adds is needed in any case.
    one_round(0)
    before = site.memory_mib()
    for number in range(1, rounds):
        one_round(number)
    grown = site.memory_mib() - before
    # Two names of 250 bytes for each consumer, and about 200 bytes for each aggregate.
    kept = (count * 500 + ENTRIES_MAX * 200) * (rounds - 1) / (1 << 20)
    print(f"   names: {grown:.0f} MiB more; kept for ever they would take over {kept:.0f} MiB")
    if not case.short:
        case.check("names go", grown < kept / 2 + 16, f"{grown:.0f} MiB more")


def run(case: Case) -> None:
    hosts = 3_000 if case.short else 20_000
    with case.up(hosts=2) as site:
        began = time.monotonic()
        counts = load(site.placement, hosts)
        print(f"   {hosts} providers in {time.monotonic() - began:.1f} s")
        case.check("the providers are there", set(counts) <= {"200", "201"}, counts)
        too_many(case, site)
        as_many_as_allowed(case, site, hosts)
        names_go(case, site)
