"""POST /servers for a thousand servers with as much in it as fits, and the other bodies of a member."""

import base64
import json
import os
import threading
import time
from typing import Any

from case import ATTACKER, IMAGE, Answer, Bystanders, Case, Site

# How much the process may grow.
MIB_MAX = 256
# How long a bystander may wait.
WAIT_MAX_S = 0.25

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x@y"


def server(count: int = 1, hints: Any = None, **fields: Any) -> dict[str, Any]:
    """The body of a request for ``count`` servers."""
    wish = {"name": "a", "flavorRef": "small", "imageRef": IMAGE, "networks": "none", **fields}
    if count > 1:
        wish["max_count"] = wish["min_count"] = count
    body: dict[str, Any] = {"server": wish}
    if hints is not None:
        body["os:scheduler_hints"] = hints
    return body


def too_much() -> dict[str, bytes | dict[str, Any]]:
    """Bodies that are larger than anybody needs."""
    long = "x" * (1 << 20)
    boot = {"boot_index": 0, "source_type": "volume", "destination_type": "volume"}
    return {
        "a block device with a UUID of 1 MB": server(
            1000, block_device_mapping_v2=[{**boot, "uuid": long}]
        ),
        "a block device with a UUID of 200 KB": server(
            1000, block_device_mapping_v2=[{**boot, "uuid": long[:200_000]}]
        ),
        "5,000 block devices": server(1000, block_device_mapping_v2=[boot] * 5000),
        "a block device of nested lists": server(
            1000, block_device_mapping_v2=[{**boot, "uuid": [[[["x"] * 9000]]]}]
        ),
        "an unknown hint of 1 MB": server(1000, {"unknown": long}),
        "an unknown hint of 200 KB": server(1000, {"unknown": long[:200_000]}),
        "10,000 unknown hints": server(1000, {f"hint-{n}": "x" for n in range(10_000)}),
        "a hint with 20,000 values": server(1000, {"unknown": list(range(20_000))}),
        "3,000 servers to be apart from": server(
            1000, {"different_host": [f"{n:032x}" for n in range(3000)]}
        ),
        "5,000 security groups": server(
            1000, security_groups=[{"name": f"g{n}"} for n in range(5000)]
        ),
        "1,000 networks": server(
            1000, networks=[{"uuid": f"{n:032x}"} for n in range(1000)]
        ),
        "1,000 certificates": server(
            1000, trusted_image_certificates=[f"c{n}" for n in range(1000)]
        ),
        "a certificate of 200 KB": server(1000, trusted_image_certificates=[long[:200_000]]),
        "user data of 128 KB": server(
            1000, user_data=base64.b64encode(os.urandom(96_000)).decode()
        ),
        "a thousand servers of 200 KB with what is allowed": server(
            1000,
            user_data=base64.b64encode(os.urandom(49_000)).decode(),
            metadata={f"k{n}": "\x7f" * 255 for n in range(128)},
            block_device_mapping_v2=[
                {**boot, "boot_index": n, "uuid": "u" * 255, "tag": "t" * 200} for n in range(100)
            ],
        ),
        "nested as deep as it goes": b'{"server": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "32 MB of blanks": b" " * (32 << 20),
    }


def run(case: Case) -> None:
    with case.up(hosts=30) as site:
        site.flavor("small")
        refused(case, site)
        the_most_that_is_accepted(case, site)
        many_at_once(case, site)
        things_without_end(case, site)


def is_ready(site: Site) -> bool:
    return site.caller(port=site.placement)("GET", "/readyz").status == 200


def refused(case: Case, site: Site) -> None:
    caller = site.caller(ATTACKER)
    before = site.memory_mib()
    most = before
    with Bystanders(site) as others:
        for name, body in too_much().items():
            answer = caller("POST", "/v2.1/servers", body)
            # Whoever sends more than is allowed may find the connection closed instead.
            is_refused = answer.status in (400, 413) or answer.status is None
            case.check(f"{name}: refused", is_refused, answer)
            most = max(most, site.memory_mib())
        answer = caller("POST", "/v2.1/servers", server(user_data="x" * 300_000))
        named = b"compute.server_body_bytes_max" in answer.body
        case.check("a body that is too long names the limit", named, answer)
    grown = most - before
    case.check(f"grew by {grown:.0f} MiB, at most {MIB_MAX}", grown <= MIB_MAX)
    longest = others.longest()
    case.check(f"others waited {longest * 1e3:.0f} ms at most", longest <= WAIT_MAX_S, others)
    case.check("nobody else was refused", not others.wrong, others.wrong[:3])
    case.check("the store is ready", is_ready(site))


def the_most_that_is_accepted(case: Case, site: Site) -> None:
    """A thousand servers of 60 KB each are accepted, and need little more memory than one: they share the data."""
    data = base64.b64encode(os.urandom(45_000)).decode()
    caller = site.caller(ATTACKER)
    before = site.memory_mib()
    most = before
    with Bystanders(site) as others:
        answer = caller("POST", "/v2.1/servers", server(1000, user_data=data))
        case.check("a thousand servers of 60 KB are accepted", answer.status == 202, answer)
        end = time.monotonic() + (10 if case.short else 20)
        while time.monotonic() < end:
            most = max(most, site.memory_mib())
            time.sleep(0.1)
    grown = most - before
    case.check(f"grew by {grown:.0f} MiB, at most {MIB_MAX}", grown <= MIB_MAX)
    longest = others.longest()
    case.check(f"others waited {longest * 1e3:.0f} ms at most", longest <= WAIT_MAX_S, others)
    case.check("nobody else was refused", not others.wrong, others.wrong[:3])
    case.check("the store is ready", is_ready(site))
    listed = caller("GET", "/v2.1/servers/detail?limit=5")
    case.check("they are listed", len(listed.json()["servers"]) == 5, listed)
    answer = caller("POST", "/v2.1/servers", server(1000, user_data=data))
    named = b"compute.project_bytes_max" in answer.body
    case.check("a project's servers come to an end", answer.status == 403 and named, answer)


def many_at_once(case: Case, site: Site) -> None:
    """Thousands of servers without any conditions: the search for their hosts must not delay others."""
    answers: list[Answer] = []

    def ask() -> None:
        answers.append(site.caller("trudy:wicked")("POST", "/v2.1/servers", server(1000)))

    before = site.memory_mib()
    threads = [threading.Thread(target=ask) for _ in range(4 if case.short else 8)]
    with Bystanders(site) as others:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(5 if case.short else 15)
    refused = [answer for answer in answers if answer.status != 202]
    case.check(f"{len(threads)} times a thousand are accepted", not refused, refused[:1])
    longest, grown = others.longest(), site.memory_mib() - before
    case.check(f"others waited {longest * 1e3:.0f} ms at most", longest <= WAIT_MAX_S, others)
    case.check(f"grew by {grown:.0f} MiB, at most {MIB_MAX}", grown <= MIB_MAX)
    case.check("nobody else was refused", not others.wrong, others.wrong[:3])
    case.check("the store is ready", is_ready(site))


def things_without_end(case: Case, site: Site) -> None:
    """Objects that cost nothing but memory, made until the next one is refused."""
    caller = site.caller(ATTACKER)
    last = None
    for number in range(1, 1200):
        body = {"server_group": {"name": f"g{number}", "policy": "affinity"}}
        last = caller("POST", "/v2.1/os-server-groups", body)
        if last.status != 200:
            break
    named = last is not None and b"compute.server_groups_max" in last.body
    case.check("server groups come to an end", named and last.status == 403, last)
    for number in range(1, 700):
        body = {"keypair": {"name": f"k{number}", "public_key": KEY}}
        last = caller("POST", "/v2.1/os-keypairs", body)
        if last.status != 201:
            break
    named = b"compute.keypairs_max" in last.body
    case.check("key pairs come to an end", named and last.status == 403, last)
    body = {"keypair": {"name": "long", "public_key": KEY + "x" * 60_000}}
    answer = caller("POST", "/v2.1/os-keypairs", body)
    case.check("a key of 60 KB is refused", answer.status == 400, answer)
    other = site.caller("bob:good")
    answer = other("POST", "/v2.1/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
    case.check("others make theirs", answer.status == 201, answer)
    content = json.dumps({"metadata": {f"k{n}": "v" for n in range(20_000)}})
    servers = caller("GET", "/v2.1/servers?limit=1").json()["servers"]
    for listed in servers:
        path = f"/v2.1/servers/{listed['id']}"
        for method, name in (("POST", "metadata"), ("PUT", "metadata")):
            answer = caller(method, f"{path}/{name}", content.encode())
            is_refused = answer.status in (400, 403, 413)
            case.check(f"20,000 items by {method}: refused", is_refused, answer)
        answer = caller("PUT", f"{path}/tags", {"tags": [f"t{n}" for n in range(9000)]})
        case.check("9,000 tags: refused", answer.status == 400, answer)
