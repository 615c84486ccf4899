"""An owner of servers who boots, moves and deletes, and knows what was acknowledged."""

import random
import threading
from collections import Counter
from typing import Any

import wire
from compute import Compute, Unexpected

# As many servers as an owner has at most.
SERVERS_MAX = 40
# The wait before another try when nobody answers.
PAUSE_S = 0.02


class Owner:
    """Works until it has to stop. Then ``check`` compares what it knows with the servers that exist."""

    def __init__(self, seed: str, index: int, port: int, flavors: list[str]) -> None:
        self.rng = random.Random(f"{seed}/owner/{index}")
        self.index = index
        self.port = port
        self.flavors = flavors
        self.number = 0
        # Names by server, of those whose creation was acknowledged.
        self.servers: dict[str, str] = {}
        # Servers whose deletion was acknowledged.
        self.deleted: set[str] = set()
        # Names of servers whose creation was not answered, and servers whose deletion was not.
        self.maybe_created: set[str] = set()
        self.maybe_deleted: set[str] = set()
        # The last move of each server, if that was acknowledged.
        self.moved: dict[str, str] = {}
        self.figures: Counter[str] = Counter()

    def work(self, stop: threading.Event, complaints: list[str]) -> None:
        client = Compute(self.port)
        while not stop.is_set():
            try:
                self._step(client)
            except (wire.WireError, OSError):
                client.connection.close()
                stop.wait(PAUSE_S)
            except Unexpected as error:
                complaints.append(f"owner {self.index}: {error}")
                stop.wait(PAUSE_S)
        client.connection.close()

    def _step(self, client: Compute) -> None:
        known = [s for s in self.servers if s not in self.maybe_deleted]
        kind = self.rng.random()
        if not known or (kind < 0.55 and len(known) < SERVERS_MAX):
            self._create(client)
        elif kind < 0.7:
            self._delete(client, self.rng.choice(known))
        else:
            self._move(client, self.rng.choice(known))

    def _create(self, client: Compute) -> None:
        self.number += 1
        name = f"owner{self.index}-{self.number}"
        self.maybe_created.add(name)
        status, body = client.create(name, self.rng.choice(self.flavors))
        self.maybe_created.discard(name)
        if status == 202:
            self.servers[body["server"]["id"]] = name
            self.figures["creations acknowledged"] += 1
        elif status != 503:
            raise Unexpected(f"creation of {name}: {status} {body}")

    def _delete(self, client: Compute, server: str) -> None:
        self.maybe_deleted.add(server)
        status, body = client("DELETE", f"/servers/{server}")
        self.maybe_deleted.discard(server)
        if status == 204:
            del self.servers[server]
            self.deleted.add(server)
            self.figures["deletions acknowledged"] += 1
        elif status not in (409, 503):
            raise Unexpected(f"deletion of {server}: {status} {body}")

    def _actions(self) -> list[tuple[str, Any]]:
        """What may be done with a server. An action that is listed twice is drawn twice as often."""
        return [
            ("migrate", None),
            ("resize", {"flavorRef": self.rng.choice(self.flavors)}),
            ("os-migrateLive", {"host": None, "block_migration": "auto"}),
            ("confirmResize", None),
            ("confirmResize", None),
            ("revertResize", None),
        ]

    def _move(self, client: Compute, server: str) -> None:
        # An action that does not suit the server's state is refused with 409, one for which there is no host with 400.
        action, body = self.rng.choice(self._actions())
        before = self.moved.pop(server, None)
        status, answer = client.act(server, action, body)
        if status not in (202, 204) and before:
            self.moved[server] = before
        if status in (202, 204):
            self.moved[server] = action
            self.figures["moves acknowledged"] += 1
        elif status not in (400, 409, 503):
            raise Unexpected(f"{action} of {server}: {status} {answer}")

    def check(self, found: dict[str, dict[str, Any]]) -> list[str]:
        """What is wrong with the servers that exist, once none is between two states."""
        wrong = []
        by_name: dict[str, list[str]] = {}
        for server, shown in found.items():
            by_name.setdefault(shown["name"], []).append(server)
        for name in self.maybe_created:
            there = by_name.get(name, [])
            if len(there) > 1:
                wrong.append(f"one unanswered request made several servers: {there}")
            self.servers.update((server, name) for server in there)
            self.figures["unanswered creations, found"] += len(there)
            self.figures["unanswered creations, absent"] += not there
        self.maybe_created.clear()
        for server in self.maybe_deleted:
            if server not in found:
                self.servers.pop(server, None)
                self.deleted.add(server)
            self.figures["unanswered deletions"] += 1
        self.maybe_deleted.clear()
        for server, name in self.servers.items():
            if server not in found:
                wrong.append(f"lost: {server} ({name}), whose creation was acknowledged")
            elif found[server]["status"] == "ERROR" and not found[server].get("fault"):
                wrong.append(f"in ERROR without a fault: {server} ({name})")
            else:
                wrong += self._check_move(server, found[server]["status"])
        self.moved.clear()
        wrong += [f"there again: {s}, deleted" for s in self.deleted if s in found]
        return wrong

    def _check_move(self, server: str, status: str) -> list[str]:
        """An acknowledged move was carried out, or failed and was undone."""
        move = self.moved.get(server)
        if move in ("confirmResize", "revertResize") and status == "VERIFY_RESIZE":
            return [f"lost: {move} of {server}, which was acknowledged"]
        if move in ("resize", "migrate") and status != "VERIFY_RESIZE":
            self.figures[f"last {move} undone: {status}"] += 1
        elif move:
            self.figures[f"last {move} done: {status}"] += 1
        return []
