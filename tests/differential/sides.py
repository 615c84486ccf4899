"""Two servers that get the same requests."""

import pathlib
import uuid
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlsplit

import launch
import normal
import servers
import wire
from request import Generations, Request

NEWEST = "1.39"
# A provider that both servers have all the time, for heal().
HEALER = "deadbeef-0000-4000-8000-000000000000"
HEALER_CLASS = "CUSTOM_HEALER"
# A microversion below 1.28, at which a write needs no consumer generation.
HEALING = "1.12"


class Side:
    """One server: started here from a command line, or running at a URL."""

    def __init__(self, name: str, where: str, state: pathlib.Path) -> None:
        self.name = name
        self.where = where
        self.state = state
        self.server: servers.Server | None = None
        self.starts = 0
        self.start()

    def start(self) -> None:
        if self.where.startswith("http://"):
            url = self.where
        else:
            self.stop()
            self.starts += 1
            self.server = launch.make_server(
                self.where, self.state / f"{self.name}-{self.starts}"
            )
            try:
                self.server.start()
            except servers.ServerError as error:
                raise SystemExit(f"{self.name}: {error}\n{self.server.log_tail()}")
            url = self.server.url
        parts = urlsplit(url)
        self.url = url
        self.connection = wire.Connection(parts.hostname, parts.port or 80, 60)

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def ask(self, request: Request) -> wire.Response:
        data = request.encode(Generations())
        return self.connection.exchange_with_retry(data, request.method)

    def _json(self, path: str) -> Any:
        return normal.json_of(self.ask(Request("GET", path, NEWEST)))

    def _delete(self, path: str) -> bool:
        return self.ask(Request("DELETE", path, NEWEST)).status == 204

    def clean(self) -> bool:
        """Delete everything that requests made; False when something stays."""
        left = [
            p["uuid"] for p in self._json("/resource_providers")["resource_providers"]
        ]
        while left:
            for provider in left:
                path = f"/resource_providers/{provider}"
                for consumer in self._json(f"{path}/allocations")["allocations"]:
                    self._delete(f"/allocations/{consumer}")
            rest = [p for p in left if not self._delete(f"/resource_providers/{p}")]
            if len(rest) == len(left):
                return False
            left = rest
        done = [
            self._delete(f"/traits/{quote(name, safe='')}")
            for name in self._json("/traits?name=startswith:CUSTOM_")["traits"]
        ]
        done += [
            self._delete(f"/resource_classes/{quote(row['name'], safe='')}")
            for row in self._json("/resource_classes")["resource_classes"]
            if row["name"].startswith("CUSTOM_")
        ]
        return all(done)

    def make_healer(self) -> None:
        """One provider with room for the claims of heal()."""
        path = f"/resource_providers/{HEALER}"
        inventories = {
            "resource_provider_generation": 0,
            "inventories": {HEALER_CLASS: {"total": 1000}},
        }
        for request in (
            Request("PUT", f"/resource_classes/{HEALER_CLASS}", NEWEST),
            Request(
                "POST",
                "/resource_providers",
                NEWEST,
                {"name": "healer", "uuid": HEALER},
            ),
            Request("PUT", f"{path}/inventories", NEWEST, inventories),
        ):
            if self.ask(request).status >= 300:
                raise SystemExit(f"{self.url}: {request.method} {request.path}")


class Pair:
    """Two servers. The left one is the reference: its answers are the expectation."""

    def __init__(self, left: Side, right: Side) -> None:
        self.left = left
        self.right = right
        self.generations = Generations()
        self.renamed: dict[bytes, bytes] = {}

    def reset(self, consumers: Iterable[str] = ()) -> None:
        """Make both servers empty again; restart a server if deleting is not enough.

        Some writes leave the record of a consumer without allocations, which
        no request can delete.  So ``consumers`` get new UUIDs on the wire from
        now on: a history that is played again meets no record of its earlier run.
        """
        self.generations = Generations()
        self.renamed = {}
        for consumer in consumers:
            other = str(uuid.uuid4())
            for form in (str, str.upper, lambda text: text.replace("-", "")):
                self.renamed[form(consumer).encode()] = form(other).encode()
        for side in (self.left, self.right):
            if not side.clean():
                side.start()
                if not side.clean():
                    raise SystemExit(f"{side.url} does not become empty")
            side.make_healer()

    def send(self, request: Request) -> tuple[wire.Response, wire.Response]:
        data = request.encode(self.generations)
        for consumer, other in self.renamed.items():
            data = data.replace(consumer, other)
        answers = self._at_once(data, request.method)
        if answers is None:
            answers = [
                side.connection.exchange_with_retry(data, request.method)
                for side in (self.left, self.right)
            ]
        reply = normal.json_of(answers[0])
        self.generations.learn(request, answers[0].status, reply)
        return answers[0], answers[1]

    def _at_once(self, data: bytes, method: str) -> list[wire.Response] | None:
        """Both work at the same time; None when a connection was not open."""
        connections = [self.left.connection, self.right.connection]
        if any(c.socket is None or not c.is_idle() for c in connections):
            return None
        for connection in connections:
            connection.send(data)
        return [connection.receive(method) for connection in connections]

    def heal(self, consumer: str) -> None:
        """Make a consumer that has no allocations unknown to both servers.

        The reference keeps the record of a consumer after a refused or an empty
        write, and then requires its generation in the next write; Placewright does
        not, on purpose.  A claim that is deleted again removes the record, and so
        the difference.
        """
        name = self.renamed.get(consumer.encode(), consumer.encode()).decode()
        path = f"/allocations/{name}"
        if normal.json_of(self.left.ask(Request("GET", path, NEWEST)))["allocations"]:
            return
        body = {
            "allocations": {HEALER: {"resources": {HEALER_CLASS: 1}}},
            "project_id": "healer",
            "user_id": "healer",
        }
        for side in (self.left, self.right):
            side.ask(Request("PUT", path, HEALING, body))
            side.ask(Request("DELETE", path, HEALING))
        self.generations.consumers.pop(consumer, None)

    def stop(self) -> None:
        self.left.stop()
        self.right.stop()
