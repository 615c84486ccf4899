"""The objects of recorded histories: a provider with four consumers, what clients ask of it, and what they are told.

What is written here is what ``crates/linearizability`` reads (``provider.rs`` there is the model).
"""

import json
import random
import uuid
from typing import Any

NEWEST = "1.39"
# Before 1.28 a claim names no generation of its consumer, and replaces whatever there is.
WITHOUT_GENERATION = "1.27"
CONSUMERS = 4
# A provider with so many operations, or so many without an answer, is replaced by a new one, because a
# long history with many unknown outcomes is slow to check.
OPERATIONS_MAX = 600
UNKNOWN_MAX = 6

# What a 503 says when the write has had no effect for certain.
NO_EFFECT = ("too many requests are waiting", "another replica leads")

WEIGHTS = {
    "show": 4,
    "show_inventory": 10,
    "show_usage": 20,
    "show_allocation": 16,
    "set_inventory": 8,
    "claim": 26,
    "move": 4,
    "release": 8,
    "delete_inventory": 1,
    "delete": 1,
    "create": 2,
}
READS = {"show", "show_inventory", "show_usage", "show_allocation"}


class Provider:
    """One object. What is known of its generations may be out of date, as in any client."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.uuid = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        self.consumers = [
            str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(CONSUMERS)
        ]
        self.exists = False
        self.generation = 0
        self.generations: list[int | None] = [None] * CONSUMERS
        self.operations = 0
        self.unknown = 0

    def is_used_up(self) -> bool:
        return self.operations >= OPERATIONS_MAX or self.unknown >= UNKNOWN_MAX

    def draw(self, rng: random.Random) -> dict[str, Any]:
        """An operation, as the model has it."""
        if not self.exists:
            return {"do": "create"}
        do = rng.choices(list(WEIGHTS), WEIGHTS.values())[0]
        consumer = rng.randrange(CONSUMERS)
        held = self.generations[consumer]
        if do == "set_inventory":
            return {"do": do, "total": rng.randint(15, 40), "generation": self.generation}
        if do == "claim":
            expected: Any = "new" if held is None else {"is": held}
            if rng.random() < 0.3:
                expected = "anything"
            return {"do": do, "consumer": consumer, "amount": rng.randint(1, 12), "expected": expected}
        if do == "move":
            to = (consumer + rng.randint(1, CONSUMERS - 1)) % CONSUMERS
            if held is None:
                return {"do": "show_allocation", "consumer": consumer}
            amount = rng.randint(1, 12)
            return {"do": do, "from": consumer, "to": to, "amount": amount, "generation": held}
        if do in ("release", "show_allocation"):
            return {"do": do, "consumer": consumer}
        return {"do": do}

    def request(self, operation: dict[str, Any]) -> tuple[str, str, str, Any]:
        """Method, path, microversion and body of an operation."""
        do = operation["do"]
        own = f"/resource_providers/{self.uuid}"
        if do == "create":
            body = {"uuid": self.uuid, "name": f"{self.name}-{self.uuid}"}
            return "POST", "/resource_providers", NEWEST, body
        if do in ("show", "delete"):
            return ("GET" if do == "show" else "DELETE"), own, NEWEST, None
        if do == "show_inventory":
            return "GET", f"{own}/inventories", NEWEST, None
        if do == "delete_inventory":
            return "DELETE", f"{own}/inventories/VCPU", NEWEST, None
        if do == "show_usage":
            return "GET", f"{own}/usages", NEWEST, None
        if do == "set_inventory":
            record = {"total": operation["total"], "max_unit": operation["total"]}
            body = {
                "resource_provider_generation": operation["generation"],
                "inventories": {"VCPU": record},
            }
            return "PUT", f"{own}/inventories", NEWEST, body
        if do == "move":
            bodies = {
                self.consumers[operation["from"]]: self._allocations(0, operation["generation"]),
                self.consumers[operation["to"]]: self._allocations(operation["amount"], None),
            }
            return "POST", "/allocations", NEWEST, bodies
        path = f"/allocations/{self.consumers[operation['consumer']]}"
        if do == "claim":
            return "PUT", path, *self._claim(operation)
        return ("DELETE" if do == "release" else "GET"), path, NEWEST, None

    def _claim(self, operation: dict[str, Any]) -> tuple[str, Any]:
        expected = operation["expected"]
        if expected == "anything":
            body = self._allocations(operation["amount"], None)
            for name in ("consumer_generation", "consumer_type"):
                del body[name]
            return WITHOUT_GENERATION, body
        generation = None if expected == "new" else expected["is"]
        return NEWEST, self._allocations(operation["amount"], generation)

    def _allocations(self, amount: int, generation: int | None) -> dict[str, Any]:
        return {
            "allocations": {self.uuid: {"resources": {"VCPU": amount}}} if amount else {},
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
            "project_id": "p",
            "user_id": "u",
        }

    def output(self, operation: dict[str, Any], status: int, body: Any) -> dict[str, Any] | None:
        """What the answer says, as the model has it; None if the outcome is not known.

        Takes note of generations.
        """
        do = operation["do"]
        if status == 409:
            if do == "create":
                self.exists = True
            return {"is": "refused"}
        if status == 404 or (status == 400 and do in ("claim", "move")):
            if do not in ("release", "delete_inventory"):
                self.exists = False
            return {"is": "missing"}
        if status in (200, 201, 204):
            return self._done(operation, body)
        if status == 503:
            return None
        raise ValueError(f"{operation}: status {status}: {body}")

    def _done(self, operation: dict[str, Any], body: Any) -> dict[str, Any]:
        do = operation["do"]
        if do in ("create", "show"):
            self.exists = True
            self.generation = body["generation"]
            return {"is": "generation", "generation": body["generation"]}
        if do in ("set_inventory", "show_inventory"):
            self.generation = body["resource_provider_generation"]
            total = body["inventories"].get("VCPU", {}).get("total")
            return {"is": "inventory", "generation": self.generation, "total": total}
        if do == "show_usage":
            self.generation = body["resource_provider_generation"]
            used = body["usages"].get("VCPU")
            return {"is": "usage", "generation": self.generation, "used": used}
        if do == "show_allocation":
            return self._allocation(operation["consumer"], body)
        if do == "delete":
            self.exists = False
        if do in ("claim", "move", "delete_inventory"):
            self.generation += 1
        if do == "claim":
            consumer = operation["consumer"]
            self.generations[consumer] = (self.generations[consumer] or 0) + 1
        if do == "move":
            self.generations[operation["from"]] = None
            self.generations[operation["to"]] = 1
        if do == "release":
            self.generations[operation["consumer"]] = None
        return {"is": "done"}

    def _allocation(self, consumer: int, body: Any) -> dict[str, Any]:
        held = body["allocations"].get(self.uuid)
        if held is None:
            self.generations[consumer] = None
            return {
                "is": "allocation",
                "amount": 0,
                "generation": None,
                "provider_generation": None,
            }
        self.generation = held["generation"]
        self.generations[consumer] = body["consumer_generation"]
        return {
            "is": "allocation",
            "amount": held["resources"]["VCPU"],
            "generation": body["consumer_generation"],
            "provider_generation": held["generation"],
        }


def encode(method: str, path: str, version: str, body: Any) -> bytes:
    """The request's bytes."""
    data = b"" if body is None else json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: test\r\nX-Auth-Token: admin\r\n"
        f"OpenStack-API-Version: placement {version}\r\n"
    )
    if data or method in ("PUT", "POST"):
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    return f"{head}\r\n".encode() + data


def has_no_effect(body: bytes) -> bool:
    """Whether a 503 says for certain that the write has had no effect."""
    text = body.decode("utf-8", "replace")
    return any(words in text for words in NO_EFFECT)
