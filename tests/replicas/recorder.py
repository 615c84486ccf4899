"""Sixteen clients on all replicas, and a record of everything that they asked and were told.

Each client sends its next request to a replica drawn at random.  A request that got no
answer, or a 503, may have had its effect, may have it later, or never: it is recorded
without an answer.  One whose connection was refused was never sent, and is not recorded.
"""

import json
import pathlib
import random
import subprocess
import threading
import time
from typing import Any

import wire
from builds import ROOT, program_of
from objects import READS, Provider, encode, has_no_effect

CLIENTS = 16
# How many providers are in use at a time: few, so that clients meet on each of them.
PROVIDERS = 10
# The longest that a client waits for an answer.
TIMEOUT_S = 6.0
# For how long a client leaves a replica alone that failed, and rests after a failure.
AVOIDED_S = 0.3
REST_S = 0.05


class Recorder:
    """Records until it is stopped."""

    def __init__(
        self,
        addresses: list[tuple[str, int]],
        path: pathlib.Path,
        seed: str,
        clients: int = CLIENTS,
        pause_s: float = 0.0,
    ) -> None:
        self.addresses = addresses
        self.path = path
        self.seed = seed
        self.pause_s = pause_s
        self.rng = random.Random(f"{seed}/objects")
        self.lock = threading.Lock()
        self.made = 0
        self.providers = [self._new_provider() for _ in range(PROVIDERS)]
        self.over = threading.Event()
        # Lines of each client; when each acknowledged write was called and answered, and at which replica.
        self.lines: list[list[str]] = [[] for _ in range(clients)]
        self.writes: list[list[tuple[int, int, int]]] = [[] for _ in range(clients)]
        self.broken: list[str] = []
        self.unknown = 0
        self.threads = [
            threading.Thread(target=self._run, args=(client,), daemon=True)
            for client in range(clients)
        ]

    def _new_provider(self) -> Provider:
        self.made += 1
        return Provider(f"p{self.made:05}", self.rng)

    def _pick(self, rng: random.Random) -> Provider:
        place = rng.randrange(PROVIDERS)
        with self.lock:
            if self.providers[place].is_used_up():
                self.providers[place] = self._new_provider()
            provider = self.providers[place]
            provider.operations += 1
        return provider

    def __enter__(self) -> "Recorder":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(timeout=4 * TIMEOUT_S)
        with open(self.path, "w") as out:
            for lines in self.lines:
                out.writelines(lines)

    def count(self) -> int:
        """How many operations are recorded so far."""
        return sum(len(lines) for lines in self.lines)

    def renew(self) -> None:
        """Go on with new providers, so that what follows is checked by itself."""
        with self.lock:
            self.providers = [self._new_provider() for _ in range(PROVIDERS)]

    def first_write_after(self, moment_ns: int, without: int | None) -> float | None:
        """The seconds from a moment to the first answer to a write that was called after it.

        One of the replicas may be left out.
        """
        answered = [
            answer
            for writes in self.writes
            for _, answer, replica in _tail(writes, moment_ns)
            if replica != without
        ]
        return (min(answered) - moment_ns) / 1e9 if answered else None

    def wait_for_write_after(
        self, moment_ns: int, without: int | None, seconds: float
    ) -> float | None:
        """As ``first_write_after``; waits for it."""
        end = time.monotonic() + seconds
        while True:
            found = self.first_write_after(moment_ns, without)
            if found is not None or time.monotonic() > end:
                return found
            time.sleep(0.02)

    def _run(self, client: int) -> None:
        rng = random.Random(f"{self.seed}/client/{client}")
        connections = [wire.Connection(host, port, TIMEOUT_S) for host, port in self.addresses]
        avoided = [0.0] * len(connections)
        try:
            while not self.over.is_set():
                now = time.monotonic()
                usable = [n for n, until in enumerate(avoided) if until <= now]
                if not usable:
                    self.over.wait(REST_S)
                    continue
                number = rng.choice(usable)
                if not self._operate(client, rng, connections[number], number):
                    avoided[number] = time.monotonic() + AVOIDED_S
                    self.over.wait(REST_S)
                elif self.pause_s:
                    self.over.wait(rng.uniform(0, 2 * self.pause_s))
        except Exception as error:  # noqa: BLE001  a client that ends must not go unnoticed
            self.broken.append(f"client {client}: {type(error).__name__}: {error}")
        finally:
            for connection in connections:
                connection.close()

    def _operate(
        self, client: int, rng: random.Random, connection: wire.Connection, replica: int
    ) -> bool:
        """One operation; whether the replica answered it."""
        try:
            _connect(connection)
        except OSError:
            return False
        provider = self._pick(rng)
        operation = provider.draw(rng)
        method, path, version, body = provider.request(operation)
        data = encode(method, path, version, body)
        called = time.monotonic_ns()
        output = None
        is_without_effect = False
        try:
            response = connection.exchange(data, method)
            answered = time.monotonic_ns()
        except (wire.WireError, OSError):
            response = None
        if response is not None:
            if response.status == 503:
                is_without_effect = has_no_effect(response.body)
            else:
                value = json.loads(response.body) if response.body else None
                output = provider.output(operation, response.status, value)
        is_read = operation["do"] in READS
        if output is None:
            if not is_read and not is_without_effect:
                self.unknown += 1
                provider.unknown += 1
                self._write_down(client, provider, operation, called, None, None)
            return False
        self._write_down(client, provider, operation, called, answered, output)
        if not is_read and output["is"] not in ("refused", "missing"):
            self.writes[client].append((called, answered, replica))
        return True

    def _write_down(
        self,
        client: int,
        provider: Provider,
        operation: Any,
        called: int,
        answered: int | None,
        output: Any,
    ) -> None:
        line = {
            **{"object": provider.name, "client": client, "call": called, "answered": answered},
            **{"input": operation, "output": output},
        }
        self.lines[client].append(json.dumps(line, separators=(",", ":")) + "\n")


def _tail(
    writes: list[tuple[int, int, int]], moment_ns: int
) -> list[tuple[int, int, int]]:
    """The newest writes, back to the first one that was called before the moment."""
    for index in range(len(writes) - 1, -1, -1):
        if writes[index][0] <= moment_ns:
            return writes[index + 1 :]
    return list(writes)


def _connect(connection: wire.Connection) -> None:
    """Open the connection if it is not open, so that a refused one is told from a request without an answer."""
    if connection.socket is not None and not connection.is_idle():
        connection.close()
    if connection.socket is None:
        connection.send(b"")


def checker() -> pathlib.Path:
    """The program that checks histories; built if it is not there."""
    try:
        return program_of("PLACEWRIGHT_LINEARIZABILITY_BIN", "placewright-linearizability")
    except SystemExit:
        command = ["cargo", "build", "--quiet", "--package", "placewright-linearizability"]
        subprocess.run(command, cwd=ROOT, check=True)
        return program_of("PLACEWRIGHT_LINEARIZABILITY_BIN", "placewright-linearizability")


def check(path: pathlib.Path) -> tuple[bool, str]:
    """Whether a recorded history is linearizable, and what the checker says."""
    done = subprocess.run([checker(), path], capture_output=True, text=True, check=False)
    return done.returncode == 0, (done.stdout + done.stderr)[:6000].strip()
