"""1,000 wrong passwords a second against one name: others sign in within 250 ms.

The guesses come from one address.  Others, whose passwords were never checked before, sign in from the same address
and from another one.  The user whose password is guessed signs in from another address.  The last line is
"N passed, N failed".
"""

import argparse
import asyncio
import json
import sys
import time

import installation
from api import Api, password_of

sys.path.insert(0, str(installation.launch.TESTS / "lib"))
from tally import Tally  # noqa: E402

GUESSES_A_SECOND = 1000
CONNECTIONS = 20
LIMIT_MS = 250
USERS = 40
ATTACKER, ELSEWHERE = "127.0.0.1", "127.0.0.2"


def request(name: str, password: str) -> bytes:
    """The bytes of a request that signs in."""
    body = json.dumps({"auth": {"identity": password_of(name, password)}}).encode()
    head = f"POST /v3/auth/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection:
    """A kept connection from an address."""

    def __init__(self, port: int, source: str) -> None:
        self.port = port
        self.source = source

    async def open(self) -> "Connection":
        opened = asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.source, 0))
        self.reader, self.writer = await opened
        return self

    async def send(self, sent: bytes) -> int:
        """Send a request, and return the status of the answer."""
        self.writer.write(sent)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        for line in head.split("\r\n"):
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                await self.reader.readexactly(int(value))
        return int(head.split()[1])


class Attack:
    """Guesses at one name, at an even pace."""

    def __init__(self, port: int, name: str) -> None:
        self.port = port
        self.name = name
        self.statuses: dict[int, int] = {}
        self.began = time.monotonic()
        self.sent = 0

    async def guess(self, worker: int) -> None:
        connection = await Connection(self.port, ATTACKER).open()
        pause = CONNECTIONS / GUESSES_A_SECOND
        due = time.monotonic() + pause * worker / CONNECTIONS
        number = 0
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += pause
            number += 1
            self.sent += 1
            status = await connection.send(request(self.name, f"guess {worker} {number}"))
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def rate(self) -> float:
        return sum(self.statuses.values()) / (time.monotonic() - self.began)


async def attack_and_measure(port: int, users: list[str], victim: tuple[str, str], tally: Tally) -> None:
    attack = Attack(port, victim[0])
    guessing = [asyncio.create_task(attack.guess(worker)) for worker in range(CONNECTIONS)]
    await asyncio.sleep(2)
    took: dict[str, list[float]] = {ATTACKER: [], ELSEWHERE: []}
    wrong = 0
    for index, name in enumerate(users):
        source = (ATTACKER, ELSEWHERE)[index % 2]
        connection = await Connection(port, source).open()
        began = time.monotonic()
        wrong += await connection.send(request(name, f"password of {name}")) != 201
        took[source].append((time.monotonic() - began) * 1000)
    connection = await Connection(port, ELSEWHERE).open()
    began = time.monotonic()
    of_victim = await connection.send(request(*victim))
    victim_ms = (time.monotonic() - began) * 1000
    rate = attack.rate()
    for task in guessing:
        task.cancel()
    print(f"{rate:.0f} guesses a second were answered: {attack.statuses}")
    tally.check(f"{GUESSES_A_SECOND} guesses a second are sent", rate >= 0.95 * GUESSES_A_SECOND, f"{rate:.0f}")
    tally.check("no guess signs in", 201 not in attack.statuses, str(attack.statuses))
    tally.check(f"all {len(users)} others sign in", wrong == 0, f"{wrong} did not")
    for source, what in ((ATTACKER, "from the same address"), (ELSEWHERE, "from another address")):
        times = sorted(took[source])
        print(f"others {what}: {times[len(times) // 2]:.0f} ms median, {times[-1]:.0f} ms at most")
        tally.check(f"others sign in {what} within {LIMIT_MS} ms", times[-1] <= LIMIT_MS, f"{times[-1]:.0f} ms")
    print(f"the user whose password is guessed, from another address: {victim_ms:.0f} ms")
    within = of_victim == 201 and victim_ms <= LIMIT_MS
    tally.check("the user itself signs in from another address", within, f"{of_victim}, {victim_ms:.0f} ms")


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    tally = Tally()
    with installation.running("first-hour-guesses") as cloud:
        api = Api(cloud.auth_url)
        api.token = api.sign_in("admin", cloud.password("placewright"), "admin")
        users = [f"user{number}" for number in range(USERS)]
        for name in users:
            api.create("user", name=name, password=f"password of {name}")
        victim = ("demo", cloud.password("demo"))
        asyncio.run(attack_and_measure(cloud.ports["identity"], users, victim, tally))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
