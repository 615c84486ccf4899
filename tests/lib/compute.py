"""The compute API over one kept-open connection, as strict as lib/wire.py."""

import json
from collections.abc import Iterator
from typing import Any

import wire

# Lists show servers of cells that are down from 2.69 on.
VERSION = "2.79"
IMAGE = "70ace000-0000-4000-8000-000000000001"
# The statuses in which a server stays until somebody requests something.
SETTLED = {"ACTIVE", "ERROR", "SHUTOFF", "VERIFY_RESIZE", "SHELVED_OFFLOADED"}


class Unexpected(Exception):
    """The API refused what it has to accept, or failed."""


class Compute:
    """A client of one installation."""

    def __init__(self, port: int, timeout: float = 60) -> None:
        self.connection = wire.Connection("127.0.0.1", port, timeout=timeout)
        self.slowest = 0.0

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the body of the response. 5xx is an error, except 503: nothing was done, try later."""
        content = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} /v2.1{path} HTTP/1.1",
            "Host: 127.0.0.1",
            "X-Auth-Token: admin",
            f"OpenStack-API-Version: compute {VERSION}",
            "Accept: application/json",
        ]
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        data = "\r\n".join([*head, "", ""]).encode() + content
        response = self.connection.exchange(data, method)
        self.slowest = max(self.slowest, response.seconds)
        if response.status >= 500 and response.status != 503:
            raise Unexpected(f"{method} {path}: {response.status} {response.body!r}")
        return response.status, json.loads(response.body) if response.body else None

    def must(self, method: str, path: str, body: Any = None) -> Any:
        """The body of the response; a refusal is an error."""
        status, answer = self(method, path, body)
        if status >= 300:
            raise Unexpected(f"{method} {path}: {status} {answer}")
        return answer

    def flavor(self, name: str, vcpus: int, ram: int, disk: int = 0) -> str:
        body = {"name": name, "vcpus": vcpus, "ram": ram, "disk": disk}
        return self.must("POST", "/flavors", {"flavor": body})["flavor"]["id"]

    def create(self, name: str, flavor: str) -> tuple[int, Any]:
        body = {"name": name, "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"}
        return self("POST", "/servers", {"server": body})

    def act(self, server: str, action: str, body: Any = None) -> tuple[int, Any]:
        return self("POST", f"/servers/{server}/action", {action: body})

    def servers(self, query: str = "", limit: int = 1000) -> Iterator[dict[str, Any]]:
        """All servers in detail, page by page; each once, whatever is deleted meanwhile."""
        base = f"/servers/detail?limit={limit}&{query}".rstrip("&")
        path = base
        markers: list[str] = []
        yielded: set[str] = set()
        while True:
            status, page = self("GET", path)
            if status == 400 and markers:
                # The server of the marker was deleted: go on after the server before it.
                markers.pop()
            elif status >= 300:
                raise Unexpected(f"GET {path}: {status} {page}")
            else:
                yield from (server for server in page["servers"] if server["id"] not in yielded)
                if not page.get("servers_links"):
                    return
                markers += (server["id"] for server in page["servers"])
                yielded.update(markers)
            path = f"{base}&marker={markers[-1]}" if markers else base

    def hypervisors(self) -> list[dict[str, Any]]:
        return self.must("GET", "/os-hypervisors/detail")["hypervisors"]


def is_settled(server: dict[str, Any]) -> bool:
    task = server.get("OS-EXT-STS:task_state")
    return server["status"] in SETTLED and task is None


def describe_server(server: dict[str, Any]) -> str:
    """A server in one line, for messages about failures."""
    fault = (server.get("fault") or {}).get("message", "")
    parts = [
        server["id"],
        server.get("name", ""),
        server["status"],
        str(server.get("OS-EXT-STS:task_state")),
        str(server.get("OS-EXT-SRV-ATTR:host")),
        fault,
    ]
    return " ".join(part for part in parts if part)
