"""Wrong passwords and made-up tokens at full speed: users who are known, and new ones, are let in.

The attackers hold 64 connections from 127.0.0.1. The users come from other addresses of loopback, but for one
known user who comes from the attackers' address, as behind a proxy.
"""

import base64
import contextlib
import http.client
import json
import multiprocessing
import pathlib
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from case import Answer, Caller, Case
from ports import free_port

KEYSTONE = pathlib.Path(__file__).resolve().parent.parent / "lib/keystone.py"
# The password "secret", as htpasswd -B -C 10 writes it: a check takes 0.05 to 0.4 s.
HASH = "$2b$10$09VO4hvu9NVVE6WL5md66uVjapUyqq/EP7Na42xFE/TmX0CoAyeSi"
CONNECTIONS = 64
KNOWN_MAX_S = 0.25
NEW_MAX_S = 2.0
SHORT_S = 6
LONG_S = 20


def basic(user: str, password: str) -> bytes:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Authorization: Basic {pair}\r\n".encode()


def wrong_password(number: int, guess: int) -> bytes:
    name = ("known", "new1", "new2", f"nobody{guess % 50}")[guess % 4]
    return basic(name, f"{number}-{guess}")


def made_up_token(number: int, guess: int) -> bytes:
    return f"X-Auth-Token: made-up-{number}-{guess}\r\n".encode()


def _attack(
    port: int, number: int, header: Callable[[int, int], bytes], until: float, seen: Counter
) -> None:
    guess = 0
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), 20) as link:
                while time.monotonic() < until:
                    guess += 1
                    link.sendall(
                        b"GET /traits HTTP/1.1\r\nHost: a\r\n" + header(number, guess) + b"\r\n"
                    )
                    head = link.recv(65536)
                    if not head:
                        break
                    seen[head[9:12].decode()] += 1
        except OSError:
            seen["no answer"] += 1
            time.sleep(0.05)


def _attackers(port: int, header: Callable[[int, int], bytes], seconds: float, results) -> None:
    """A process of its own, so that it takes no time of the process that measures."""
    seen: Counter = Counter()
    until = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_attack, args=(port, number, header, until, seen))
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(dict(seen))


@contextlib.contextmanager
def attackers(
    port: int, header: Callable[[int, int], bytes], seconds: float
) -> Iterator[Callable[[], dict[str, int]]]:
    """Attacks meanwhile; yields a function that waits for the end and returns the number of answers by status."""
    results: multiprocessing.Queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=_attackers, args=(port, header, seconds, results))
    process.start()
    try:
        yield lambda: results.get(timeout=seconds + 60)
        process.join(timeout=30)
    finally:
        if process.is_alive():
            process.kill()
            process.join()


def caller_from(source: str, port: int, header: bytes) -> Callable[[], Answer]:
    caller = Caller(port, timeout=60)
    caller.connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=60, source_address=(source, 0)
    )
    name, _, value = header.decode().strip().partition(": ")

    def call() -> Answer:
        return caller("GET", "/traits", headers={name: value})

    return call


def attack_and_measure(
    case: Case,
    what: str,
    port: int,
    header: Callable[[int, int], bytes],
    known: bytes,
    new: list[bytes],
) -> None:
    """Lets the known user in, then attacks, and measures how long the known and new users wait meanwhile."""
    seconds = SHORT_S if case.short else LONG_S
    users = {"from elsewhere": "127.0.0.2", "from the attackers' address": "127.0.0.1"}
    callers = {where: caller_from(source, port, known) for where, source in users.items()}
    for where, call in callers.items():
        answer = call()
        case.check(f"{what}: the known user {where} is let in", answer.status == 200, answer)
    took: dict[str, list[float]] = {where: [] for where in users}
    wrong = []
    with attackers(port, header, seconds) as wait_for_attackers:
        began = time.monotonic()
        time.sleep(1)
        for number, new_header in enumerate(new):
            answer = caller_from(f"127.0.0.{10 + number}", port, new_header)()
            case.check(
                f"{what}: a new user is let in within {NEW_MAX_S} s",
                answer.status == 200 and answer.seconds <= NEW_MAX_S,
                answer,
            )
            print(f"        the new user waited {answer.seconds:.3f} s", flush=True)
        while time.monotonic() < began + seconds - 0.5:
            for where, call in callers.items():
                answer = call()
                took[where].append(answer.seconds)
                if answer.status != 200:
                    wrong.append(f"{where}: {answer}")
            time.sleep(0.005)
        seen = wait_for_attackers()
    for where, row in took.items():
        longest = max(row, default=99.0)
        case.check(
            f"{what}: the known user {where} waits {KNOWN_MAX_S * 1e3:.0f} ms at most",
            longest <= KNOWN_MAX_S and not wrong,
            f"{longest:.3f} s; {wrong[:3]}",
        )
        ordered = sorted(row) or [longest]
        print(
            f"        {len(row)} requests, p50 {ordered[len(ordered) // 2] * 1e3:.1f} ms,"
            f" longest {longest * 1e3:.1f} ms",
            flush=True,
        )
    print(f"        the attackers saw {seen}", flush=True)
    let_in = [status for status in seen if status.startswith("2")]
    case.check(f"{what}: no attacker is let in", not let_in, seen)


def passwords(case: Case) -> None:
    users = case.folder / "users"
    names = ("known", "new1", "new2")
    users.write_text("".join(f"{name}:{HASH}\n" for name in names))
    users.chmod(0o600)
    options = {"auth_strategy": "http_basic", "http_basic_user_file": users}
    with case.up(hosts=0, **options) as site:
        new = [basic(name, "secret") for name in names[1:]]
        known = basic("known", "secret")
        before = site.cpu_seconds()
        attack_and_measure(case, "passwords", site.placement, wrong_password, known, new)
        print(f"        {site.cpu_seconds() - before:.1f} s of processor", flush=True)


def questions(port: int) -> int | None:
    """How often Keystone was asked to check a token; None while it does not run."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        link.request("GET", "/questions")
        return json.loads(link.getresponse().read())["questions"]
    except OSError:
        return None
    finally:
        link.close()


def tokens(case: Case) -> None:
    port = free_port()
    process = subprocess.Popen([sys.executable, str(KEYSTONE), str(port), "20"])
    secret = case.folder / "keystone-password"
    secret.write_text("sesame\n")
    secret.chmod(0o600)
    options = {
        "auth_strategy": "keystone",
        "keystone_auth_url": f"http://127.0.0.1:{port}",
        "keystone_username": "placement",
        "keystone_password_file": secret,
        # So short that Keystone is asked about the known token again while the attack goes on.
        "keystone_cache_seconds": 2,
    }
    try:
        end = time.monotonic() + 30
        while questions(port) is None and time.monotonic() < end:
            time.sleep(0.1)
        with case.up(hosts=0, **options) as site:
            known = b"X-Auth-Token: good-known\r\n"
            new = [f"X-Auth-Token: good-{number}\r\n".encode() for number in range(2)]
            attack_and_measure(case, "tokens", site.placement, made_up_token, known, new)
            asked = questions(port) or 0
            seconds = SHORT_S if case.short else LONG_S
            # The burst, one under way on each connection, ten a second, and the valid tokens again and again.
            most = 256 + 64 + 12 * seconds + 100
            case.check(f"tokens: Keystone is asked {most} times at most", 0 < asked <= most, asked)
    finally:
        process.terminate()
        process.wait(timeout=10)


def heads(case: Case) -> None:
    """Headers with the caller's identity that are as long as a whole head may be."""
    with case.up(hosts=0) as site:
        call = site.caller(port=site.placement)
        for name, value in (
            ("X-Roles", ",".join(["r"] * 30_000)),
            ("X-Auth-Token", "a" * 60_000),
            ("X-Project-Id", "p" * 60_000),
            ("X-Service-Roles", ",".join(["r"] * 30_000)),
        ):
            answer = call("GET", "/traits", headers={name: value})
            case.check(f"a huge {name} is refused", answer.status == 431, answer)


def run(case: Case) -> None:
    passwords(case)
    tokens(case)
    heads(case)
