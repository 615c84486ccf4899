"""Bodies that do not end, and long lists that nobody reads: the memory that both occupy has a limit."""

import json
import socket
import time

from attack_listing import fill
from case import ATTACKER, Bystanders, Case, Site
from crowd import raise_descriptors

# How much the process may grow.
MIB_MAX = 256
# How long a bystander may wait.
WAIT_MAX_S = 0.25
BODY_BYTES = 256 << 10
# Not that of the bystanders: where there are few file descriptors, one address may have only some 1,000 connections.
ATTACKERS_ADDRESS = "127.0.0.2"


def head(site: Site, method: str, path: str, length: int | None = None) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{site.compute}",
        f"X-Auth-Token: {ATTACKER}",
        "X-Roles: member,reader",
        "OpenStack-API-Version: compute 2.96",
    ]
    if length is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


def run(case: Case) -> None:
    raise_descriptors()
    with case.up(hosts=30) as site:
        fill(site)
        bodies(case, site, 800 if case.short else 1500)
        lists(case, site, 60 if case.short else 200)


def check_held(case: Case, site: Site, name: str, links: list[socket.socket], seconds: float) -> None:
    """Leaves the connections as they are, and checks how much the process grows and how long others wait."""
    before = site.memory_mib()
    most = before
    with Bystanders(site) as others:
        for link in links:
            link.setblocking(False)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            most = max(most, site.memory_mib())
            time.sleep(0.05)
    grown = most - before
    case.check(f"{name}: grew by {grown:.0f} MiB, at most {MIB_MAX}", grown <= MIB_MAX)
    longest = others.longest()
    case.check(f"{name}: others waited {longest * 1e3:.0f} ms at most", longest <= WAIT_MAX_S, others)
    case.check(f"{name}: nobody else was refused", not others.wrong, others.wrong[:3])


def bodies(case: Case, site: Site, count: int) -> None:
    """Bodies of the greatest length that is allowed, sent but for their last byte."""
    body = json.dumps({"server": {"name": "x" * BODY_BYTES}}).encode()[:BODY_BYTES]
    data = head(site, "POST", "/v2.1/servers", BODY_BYTES) + body[:-1]
    before = site.memory_mib()
    links = []
    for _ in range(count):
        link = socket.create_connection(("127.0.0.1", site.compute), 10, (ATTACKERS_ADDRESS, 0))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(data))
        link.settimeout(0.05)
        try:
            link.sendall(data)
        except OSError:
            # The server does not take the whole body, and so occupies less memory for it.
            pass
        links.append(link)
        if site.memory_mib() - before > 4 * MIB_MAX:
            break
    grown = site.memory_mib() - before
    name = f"{len(links)} bodies that do not end"
    case.check(f"{name}: {grown:.0f} MiB so far, at most {MIB_MAX}", grown <= MIB_MAX)
    check_held(case, site, name, links, 3)
    answer = site.caller("bob:good")("POST", "/v2.1/servers", {"server": {"name": "x" * 100_000}})
    case.check(f"{name}: another's body is read", answer.status == 400, answer)
    for link in links:
        link.close()


def lists(case: Case, site: Site, count: int) -> None:
    """Lists of 8 MiB, of which the clients read nothing."""
    links = []
    before = site.memory_mib()
    for _ in range(count):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.bind((ATTACKERS_ADDRESS, 0))
        link.connect(("127.0.0.1", site.compute))
        link.sendall(head(site, "GET", "/v2.1/servers/detail?limit=1000"))
        links.append(link)
    name = f"{count} lists that nobody takes"
    check_held(case, site, name, links, 10 if case.short else 20)
    grown = site.memory_mib() - before
    case.check(f"{name}: {grown:.0f} MiB at the end, at most {MIB_MAX}", grown <= MIB_MAX)
    refused = 0
    for link in links:
        try:
            refused += b" 503 " in link.recv(16)
        except OSError:
            pass
    case.check(f"{name}: {refused} of them are refused", refused > 0)
    answer = site.caller("admin")("GET", "/v2.1/servers/detail?limit=1000&all_tenants=1")
    case.check(f"{name}: another one has his list", answer.status == 200, answer)
    for link in links:
        link.close()
