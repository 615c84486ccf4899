"""Readers of the change stream that read nothing, and hundreds of them."""

import socket
import time
import uuid

from case import Case, Site

FOLLOWERS = 100
# This includes what a connection costs that follows nothing.
MEMORY_MIB = 30
TIMEOUT_MS = 3000
# Readers that take nothing have small receive buffers, so that what they do not take waits in the server.
SMALL_BUFFER = 4096


def _follow(site: Site, after: int, buffer_bytes: int | None = None) -> socket.socket:
    """A connection that asks for the change stream; its receive buffer has a size, or the system's own one."""
    link = socket.socket()
    if buffer_bytes is not None:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    link.settimeout(30)
    link.connect(("127.0.0.1", site.placement))
    request = f"GET /placewright/v1/changes?after={after} HTTP/1.1\r\nHost: a\r\nX-Auth-Token: admin\r\n\r\n"
    link.sendall(request.encode())
    return link


def _fill(site: Site, rounds: int) -> None:
    """Entries of some kilobytes each, some megabytes together."""
    caller = site.caller(port=site.placement)
    traits = [f"CUSTOM_{number:04}_{'X' * 200}" for number in range(200)]
    for trait in traits:
        answer = caller("PUT", f"/traits/{trait}")
        assert answer.status in (201, 204), answer
    provider = str(uuid.uuid4())
    answer = caller("POST", "/resource_providers", {"uuid": provider, "name": provider})
    assert answer.status == 200, answer
    generation = answer.json()["generation"]
    for number in range(rounds):
        chosen = traits if number % 2 else traits[:1]
        body = {"resource_provider_generation": generation, "traits": chosen}
        answer = caller("PUT", f"/resource_providers/{provider}/traits", body)
        assert answer.status == 200, answer
        generation = answer.json()["resource_provider_generation"]
    caller.close()


def _read_all(site: Site) -> tuple[int, int]:
    """Reads the whole stream: how many events it has, and the last one's number.

    If a number is not the next one, it is returned, negative.
    """
    link = _follow(site, 0)
    writer = site.caller(port=site.placement)
    writer("POST", "/resource_providers", {"name": "the last one"})
    data, found, last, is_read = b"", 0, 0, False
    end = time.monotonic() + 60
    while not is_read and time.monotonic() < end:
        *lines, data = (data + link.recv(1 << 16)).split(b"\n")
        for line in lines:
            is_read = is_read or b"the last one" in line
            if line.startswith(b"id: "):
                number = int(line[4:])
                if number != last + 1:
                    return found, -number
                found, last = found + 1, number
    link.close()
    return found, last


def run(case: Case) -> None:
    rounds = 500 if case.short else 2000
    options = {
        "placement_write_timeout_ms": TIMEOUT_MS * 20,
        "placement_followers_max": FOLLOWERS,
        # Few entries are in memory, so that most come from the journal.
        "store_recent_bytes": 1 << 20,
    }
    with case.up(hosts=0, **options) as site:
        _fill(site, rounds)
        found, last = _read_all(site)
        case.check("a reader that reads gets every entry in order", last > rounds, f"{found}, {last}")
        before = site.memory_mib()
        caller = site.caller(port=site.placement)
        links = [_follow(site, 0, SMALL_BUFFER) for _ in range(FOLLOWERS)]
        _wait_for_followers(site, FOLLOWERS)
        # After three seconds the buffers of all readers are full, and the memory stays as it is.
        most = before
        for _ in range(30):
            time.sleep(0.1)
            caller("GET", "/resource_providers")
            most = max(most, site.memory_mib())
        grown = most - before
        case.check(
            f"{FOLLOWERS} readers that take nothing cost {MEMORY_MIB} MiB at most",
            grown <= MEMORY_MIB,
            f"{grown:.1f} MiB",
        )
        print(f"   {FOLLOWERS} readers that take nothing: {grown:.1f} MiB", flush=True)
        extra = caller("GET", "/placewright/v1/changes?after=0")
        text = extra.body.decode("utf-8", "replace")
        ok = extra.status == 503 and "placement.followers_max allows" in text
        case.check("one more reader is refused, with the limit and its option", ok, extra)
        answer = caller("PUT", "/traits/CUSTOM_MEANWHILE")
        case.check("writes go on", answer.status == 201 and answer.seconds < 1, answer)
        for link in links:
            link.close()
    with case.up(hosts=0, placement_write_timeout_ms=TIMEOUT_MS, placement_followers_max=5) as site:
        _fill(site, 200)
        caller = site.caller(port=site.placement, timeout=20)
        links = [_follow(site, 0, SMALL_BUFFER) for _ in range(5)]
        _wait_for_followers(site, 5)
        refused = caller("GET", "/placewright/v1/changes").status
        case.check("they have all the room", refused == 503, refused)
        end = time.monotonic() + TIMEOUT_MS / 1000 * 4
        while time.monotonic() < end and _followers(site):
            time.sleep(0.2)
        left = _followers(site)
        case.check("readers that take nothing in time make room", left == 0, left)
        for link in links:
            link.close()


def _wait_for_followers(site: Site, followers: int) -> None:
    end = time.monotonic() + 10
    while _followers(site) < followers and time.monotonic() < end:
        time.sleep(0.02)


def _followers(site: Site) -> int:
    text = site.caller(port=site.health)("GET", "/metrics").body.decode()
    rows = [row for row in text.splitlines() if row.startswith("placewright_change_followers")]
    return int(float(rows[0].split()[-1])) if rows else -1
