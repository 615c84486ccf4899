"""A request to Placement as a value: built once, sent to any server."""

import dataclasses
import json
import shlex
from typing import Any


class Generation:
    """Stands in a body for the generation that a provider has when the request is sent."""

    def __init__(self, provider: str, offset: int = 0) -> None:
        self.provider = provider
        self.offset = offset

    def __repr__(self) -> str:
        return f"<generation of {self.provider[:8]}>"


class ConsumerGeneration:
    """Stands in a body for the generation that a consumer has when the request is sent."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer

    def __repr__(self) -> str:
        return f"<generation of consumer {self.consumer[:8]}>"


class Generations:
    """What is known of the generations on a server, learned from its answers."""

    def __init__(self) -> None:
        self.providers: dict[str, int] = {}
        self.consumers: dict[str, int] = {}

    def resolve(self, value: Any) -> Any:
        """The number that such a value stands for now; None for a consumer that is new."""
        if isinstance(value, Generation):
            return self.providers.get(value.provider, 0) + value.offset
        if isinstance(value, ConsumerGeneration):
            return self.consumers.get(value.consumer)
        raise TypeError(type(value).__name__)

    def learn(self, request: "Request", status: int, reply: Any) -> None:
        """Take note of what an answer says, or implies, about generations."""
        if status not in (200, 201, 204):
            return
        parts = request.path.split("?")[0].strip("/").split("/")
        if parts[0] == "resource_providers":
            self._learn_provider(request, parts, reply)
        elif parts[0] == "allocations" and len(parts) == 2:
            consumer = parts[1]
            if request.method == "DELETE":
                self.consumers.pop(consumer, None)
            elif request.method == "PUT":
                self._learn_allocations(consumer, request.body)
            elif isinstance(reply, dict):
                if "consumer_generation" in reply:
                    self.consumers[consumer] = reply["consumer_generation"]
                allocations = reply.get("allocations")
                if isinstance(allocations, dict):
                    for provider, held in allocations.items():
                        self.providers[provider] = held["generation"]
        elif parts[0] in ("allocations", "reshaper") and request.method == "POST":
            body = request.body if isinstance(request.body, dict) else {}
            if parts[0] == "reshaper":
                for provider in body.get("inventories", {}):
                    self.bump(provider)
                body = body.get("allocations", {})
            for consumer, written in body.items():
                self._learn_allocations(consumer, written)

    def _learn_provider(self, request: "Request", parts: list[str], reply: Any) -> None:
        if isinstance(reply, dict):
            if len(parts) > 1 and "resource_provider_generation" in reply:
                self.providers[parts[1]] = reply["resource_provider_generation"]
            for row in [reply, *reply.get("resource_providers", [])]:
                if isinstance(row, dict) and "uuid" in row and "generation" in row:
                    self.providers[row["uuid"]] = row["generation"]
        elif request.method == "DELETE" and len(parts) > 2:
            self.bump(parts[1])

    def _learn_allocations(self, consumer: str, body: Any) -> None:
        """Take note of a consumer's allocations that were accepted."""
        generation = self.consumers.get(consumer)
        self.consumers[consumer] = 1 if generation is None else generation + 1
        allocations = body.get("allocations") if isinstance(body, dict) else None
        if isinstance(allocations, dict):
            providers = list(allocations)
            if not providers:
                self.consumers.pop(consumer, None)
        elif isinstance(allocations, list):
            providers = [
                item["resource_provider"]["uuid"]
                for item in allocations
                if isinstance(item, dict)
                and isinstance(item.get("resource_provider"), dict)
                and "uuid" in item["resource_provider"]
            ]
        else:
            providers = []
        for provider in providers:
            self.bump(provider)

    def bump(self, provider: str) -> None:
        """Take note that a write raised the generation of a provider by one."""
        self.providers[provider] = self.providers.get(provider, 0) + 1


@dataclasses.dataclass
class Request:
    """A request. ``body`` is a JSON value, raw bytes, or None for no body at all."""

    method: str
    path: str
    version: str | None = None
    body: Any = None
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    token: str | None = "admin"
    roles: str | None = None
    content_type: str | None = "application/json"

    @property
    def route(self) -> str:
        """The path with ids taken out, for counting."""
        parts = self.path.split("?")[0].split("/")
        for index in range(2, len(parts)):
            if index == 2 or (index == 4 and parts[3] == "inventories"):
                parts[index] = "{}"
        return "/".join(parts[:5])

    def body_bytes(self, generations: Generations) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body, default=generations.resolve).encode()

    def all_headers(self) -> list[tuple[str, str]]:
        headers = []
        if self.token is not None:
            headers.append(("X-Auth-Token", self.token))
        if self.roles is not None:
            headers.append(("X-Roles", self.roles))
        if self.version is not None:
            headers.append(("OpenStack-API-Version", f"placement {self.version}"))
        if self.body is not None and self.content_type is not None:
            headers.append(("Content-Type", self.content_type))
        return headers + list(self.headers.items())

    def encode(self, generations: Generations) -> bytes:
        body = self.body_bytes(generations)
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: 127.0.0.1"]
        headers = self.all_headers()
        lines += [f"{name}: {value}" for name, value in headers]
        if not any(name.lower() == "content-length" for name, _ in headers):
            if body is not None:
                lines.append(f"Content-Length: {len(body)}")
            elif self.method in ("POST", "PUT"):
                lines.append("Content-Length: 0")
        head = "\r\n".join([*lines, "", ""])
        return head.encode("utf-8", "surrogateescape") + (body or b"")

    def resolved(self, generations: Generations) -> "Request":
        """The same request, with numbers in place of the generations."""
        if self.body is None or isinstance(self.body, bytes):
            return self
        body = json.loads(self.body_bytes(generations))
        return dataclasses.replace(self, body=body)

    def curl(self, base: str, generations: Generations) -> str:
        """A command for a shell; ``base`` is a word of that shell, like "$1"."""
        words = ["curl", "-si", "-X", self.method]
        for name, value in self.all_headers():
            words += ["-H", f"{name}: {value}"]
        body = self.body_bytes(generations)
        if body is not None:
            words += ["--data-binary", body.decode("utf-8", "backslashreplace")]
        return f"{shlex.join(words)} {base}{shlex.quote(self.path)}"
