"""Two servers that get the same requests."""

import pathlib
from typing import Any
from urllib.parse import quote, urlsplit

import launch
import normal
import servers
import wire
from request import Generations, Request

NEWEST = "1.39"


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
        return self.connection.reliable(data, request.method)

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


class Pair:
    """The left one is the reference; what it answers is the expectation."""

    def __init__(self, left: Side, right: Side) -> None:
        self.left = left
        self.right = right
        self.generations = Generations()

    def reset(self) -> None:
        """Both empty again; restarted when cleaning was not enough."""
        self.generations = Generations()
        for side in (self.left, self.right):
            if not side.clean():
                side.start()
                if not side.clean():
                    raise SystemExit(f"{side.url} does not become empty")

    def send(self, request: Request) -> tuple[wire.Response, wire.Response]:
        data = request.encode(self.generations)
        answers = self._at_once(data, request.method)
        if answers is None:
            answers = [
                side.connection.reliable(data, request.method)
                for side in (self.left, self.right)
            ]
        reply = normal.json_of(answers[0])
        self.generations.learn(request, answers[0].status, reply)
        return answers[0], answers[1]

    def _at_once(self, data: bytes, method: str) -> list[wire.Response] | None:
        """Both work at the same time; None when a connection was not open."""
        connections = [self.left.connection, self.right.connection]
        if any(c.socket is None or not c.idle() for c in connections):
            return None
        for connection in connections:
            connection.send(data)
        return [connection.receive(method) for connection in connections]

    def stop(self) -> None:
        self.left.stop()
        self.right.stop()
