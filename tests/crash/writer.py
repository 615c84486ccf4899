"""A writer that knows, at any moment, what the server must hold of its consumers and providers.

Each writer has consumers and providers that nobody else writes.  Before it
sends a write it notes the state before and the state after.  When the answer
does not come, because the server was killed, exactly one of the two must be
found afterwards, in every part.
"""

import copy
import dataclasses
import json
import random
import uuid
from typing import Any

import wire
from request import Generations, Request

NEWEST = "1.39"
TRAITS = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE", "HW_NUMA_ROOT"]
CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB"]
ROOM = 100_000_000

State = dict[str, Any]


class Unexpected(Exception):
    """The server refused what it has to accept, or failed."""


@dataclasses.dataclass
class Pending:
    """A write that was sent; ``number`` counts the writer's writes."""

    number: int
    request: Request
    after: State


def ids(rng: random.Random, count: int) -> list[str]:
    return [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(count)]


class Client:
    """Placement over one connection."""

    def __init__(self, port: int) -> None:
        self.connection = wire.Connection("127.0.0.1", port, timeout=60)

    def __call__(self, request: Request) -> tuple[int, Any]:
        data = request.encode(Generations())
        response = self.connection.exchange(data, request.method)
        if response.status >= 500:
            raise Unexpected(f"{request.method} {request.path}: {response.body!r}")
        return response.status, json.loads(response.body) if response.body else None

    def get(self, path: str) -> tuple[int, Any]:
        return self(Request("GET", path, NEWEST))

    def must(self, request: Request) -> Any:
        status, body = self(request)
        if status >= 300:
            raise Unexpected(f"{request.method} {request.path}: {status} {body}")
        return body


def inventory(total: int) -> dict[str, Any]:
    return {
        "total": total,
        "reserved": 0,
        "min_unit": 1,
        "max_unit": total,
        "step_size": 1,
        "allocation_ratio": 1.0,
    }


class Writer:
    """Writes until the connection breaks; then compares what the server holds with what it has to hold."""

    def __init__(self, seed: str, index: int, shared: list[str]) -> None:
        self.rng = random.Random(f"{seed}/writer/{index}")
        self.index = index
        self.shared = shared
        self.consumers = ids(self.rng, 4)
        self.providers = ids(self.rng, 3)
        # A root provider, its child, and a consumer whose claim reshapes move between the two.
        self.root, self.child, self.moved = ids(self.rng, 3)
        self.state: State = {
            name: None
            for name in [*self.consumers, *self.providers]
            + [self.root, self.child, self.moved]
        }
        self.number = 0
        self.pending: Pending | None = None
        self.acknowledged = 0
        self.refused: dict[str, int] = {}
        self.seen: list[tuple[int, int]] = []

    # One write after another.

    def setup(self, client: Client) -> None:
        """Writes what reshapes need, before the server is killed for the first time."""
        for provider, parent in ((self.root, None), (self.child, self.root)):
            self._write(client, *self._create(provider, parent))
        records = {"VCPU": inventory(1000)}
        self._write(client, *self._put(client, self.root, "inventories", records))
        allocations = {self.root: {"resources": {"VCPU": 7}}}
        self._write(client, *self._claim([(self.moved, allocations)], many=False))

    def work(self, client: Client, others: list["Writer"]) -> None:
        """Writes and reads until the server is gone."""
        actions = [self._claim_many] * 5 + [self._claim_one] * 3
        actions += [self._release] * 2 + [self._reshape] * 3
        actions += [self._provider_write] * 5
        while True:
            if self.rng.random() < 0.1:
                self._note_write_of(client, self.rng.choice(others))
            write = self.rng.choice(actions)(client)
            if write is not None:
                self._write(client, *write)

    def _write(self, client: Client, request: Request, after: State) -> None:
        self.pending = Pending(self.number + 1, request, after)
        status, body = client(request)
        self.pending = None
        if status < 300:
            self.number += 1
            self.acknowledged += 1
            self.state = after
        elif status == 409 and "concurrent" in str(body):
            # Two writers changed one provider. That is allowed, and the refused write must leave no trace.
            self.refused["409"] = self.refused.get("409", 0) + 1
        else:
            raise Unexpected(
                f"{request.method} {request.path} {request.body}: {status} {body}"
            )

    def _note_write_of(self, client: Client, other: "Writer") -> None:
        """Remember which write of another writer an answer showed."""
        status, body = client.get(f"/allocations/{self.rng.choice(other.consumers)}")
        if status == 200 and body["allocations"]:
            _, number = body["project_id"].split("-")
            self.seen.append((other.index, int(number)))

    # Each of these gives a request and the state after it.

    def _changed(self, changes: dict[str, Any]) -> State:
        return {**self.state, **changes}

    def _claim(
        self, wanted: list[tuple[str, dict]], many: bool
    ) -> tuple[Request, State]:
        stamp = f"{self.index}-{self.number + 1}"
        bodies: dict[str, Any] = {}
        changes: dict[str, Any] = {}
        for consumer, allocations in wanted:
            held = self.state[consumer]
            generation = held["generation"] if held else None
            owner = {"project_id": stamp, "user_id": "u", "consumer_type": "INSTANCE"}
            bodies[consumer] = {
                "allocations": allocations,
                "consumer_generation": generation,
                **owner,
            }
            changes[consumer] = allocations and {
                "allocations": {rp: a["resources"] for rp, a in allocations.items()},
                "generation": (generation or 0) + 1,
                **owner,
            }
            changes[consumer] = changes[consumer] or None
        if many:
            request = Request("POST", "/allocations", NEWEST, bodies)
        else:
            consumer = wanted[0][0]
            request = Request(
                "PUT", f"/allocations/{consumer}", NEWEST, bodies[consumer]
            )
        return request, self._changed(changes)

    def _allocations(self) -> dict[str, dict]:
        providers = self.rng.sample(self.shared, self.rng.randint(1, 3))
        return {
            provider: {
                "resources": {
                    name: self.rng.randint(1, 50)
                    for name in self.rng.sample(CLASSES, self.rng.randint(1, 2))
                }
            }
            for provider in providers
        }

    def _claim_many(self, client: Client) -> tuple[Request, State]:
        chosen = self.rng.sample(self.consumers, self.rng.randint(2, 4))
        wanted = []
        for consumer in chosen:
            is_released = self.state[consumer] is not None and self.rng.random() < 0.3
            wanted.append((consumer, {} if is_released else self._allocations()))
        return self._claim(wanted, many=True)

    def _claim_one(self, client: Client) -> tuple[Request, State]:
        consumer = self.rng.choice(self.consumers)
        return self._claim([(consumer, self._allocations())], many=False)

    def _release(self, client: Client) -> tuple[Request, State] | None:
        held = [c for c in self.consumers if self.state[c]]
        if not held:
            return None
        consumer = self.rng.choice(held)
        request = Request("DELETE", f"/allocations/{consumer}", NEWEST)
        return request, self._changed({consumer: None})

    def _create(self, provider: str, parent: str | None) -> tuple[Request, State]:
        name = f"{provider}-{self.number}"
        body = {"uuid": provider, "name": name, "parent_provider_uuid": parent}
        made = {
            "name": name,
            "parent": parent,
            "inventories": {},
            "traits": [],
            "aggregates": [],
        }
        request = Request("POST", "/resource_providers", NEWEST, body)
        return request, self._changed({provider: made})

    def _put(
        self, client: Client, provider: str, key: str, value: Any
    ) -> tuple[Request, State]:
        generation = client.must(
            Request("GET", f"/resource_providers/{provider}", NEWEST)
        )["generation"]
        body = {key: value, "resource_provider_generation": generation}
        request = Request("PUT", f"/resource_providers/{provider}/{key}", NEWEST, body)
        record = copy.deepcopy(self.state[provider])
        record[key] = sorted(value) if isinstance(value, list) else value
        return request, self._changed({provider: record})

    def _provider_write(self, client: Client) -> tuple[Request, State]:
        provider = self.rng.choice(self.providers)
        record = self.state[provider]
        if record is None:
            return self._create(provider, None)
        draw = self.rng.random()
        if draw < 0.15:
            request = Request("DELETE", f"/resource_providers/{provider}", NEWEST)
            return request, self._changed({provider: None})
        if draw < 0.3:
            renamed = {**record, "name": f"{provider}-{self.number}"}
            body = {"name": renamed["name"], "parent_provider_uuid": None}
            path = f"/resource_providers/{provider}"
            return Request("PUT", path, NEWEST, body), self._changed(
                {provider: renamed}
            )
        if draw < 0.6:
            chosen = self.rng.sample(CLASSES, self.rng.randint(1, 3))
            records = {name: inventory(self.rng.randint(1, 1000)) for name in chosen}
            return self._put(client, provider, "inventories", records)
        if draw < 0.8:
            return self._put(client, provider, "traits", self.rng.sample(TRAITS, 2))
        return self._put(client, provider, "aggregates", ids(self.rng, 2))

    def _reshape(self, client: Client) -> tuple[Request, State]:
        """Move the inventory and the claim on it to the other provider."""
        pair = [self.root, self.child]
        if not self.state[self.root]["inventories"]:
            pair.reverse()
        source, target = pair
        records = {"VCPU": inventory(self.rng.randint(100, 1000))}
        allocations = {target: {"resources": {"VCPU": self.rng.randint(1, 90)}}}
        claim, after = self._claim([(self.moved, allocations)], many=False)
        inventories = {}
        for provider, new in ((source, {}), (target, records)):
            found = client.must(
                Request("GET", f"/resource_providers/{provider}", NEWEST)
            )
            inventories[provider] = {
                "resource_provider_generation": found["generation"],
                "inventories": new,
            }
            after[provider] = {**self.state[provider], "inventories": new}
        body = {"inventories": inventories, "allocations": {self.moved: claim.body}}
        request = Request("POST", "/reshaper", NEWEST, body)
        request.roles = "admin,service"
        return request, after

    # After a restart.

    def found(self, client: Client) -> State:
        """What the server holds of this writer's consumers and providers."""
        found: State = {}
        for name in self.state:
            if name in (*self.consumers, self.moved):
                found[name] = self._found_consumer(client, name)
            else:
                found[name] = self._found_provider(client, name)
        return found

    def _found_consumer(self, client: Client, consumer: str) -> Any:
        _, body = client.get(f"/allocations/{consumer}")
        if not body["allocations"]:
            return None
        return {
            "allocations": {
                rp: held["resources"] for rp, held in body["allocations"].items()
            },
            "generation": body["consumer_generation"],
            "project_id": body["project_id"],
            "user_id": body["user_id"],
            "consumer_type": body["consumer_type"],
        }

    def _found_provider(self, client: Client, provider: str) -> Any:
        path = f"/resource_providers/{provider}"
        status, body = client.get(path)
        if status == 404:
            return None
        return {
            "name": body["name"],
            "parent": body["parent_provider_uuid"],
            "inventories": client.get(f"{path}/inventories")[1]["inventories"],
            "traits": sorted(client.get(f"{path}/traits")[1]["traits"]),
            "aggregates": sorted(client.get(f"{path}/aggregates")[1]["aggregates"]),
        }

    def adopt(self, found: State) -> str:
        """Take what was found as the state. Gives what became of the unanswered write.

        That is 'none' if there was no such write, 'whole', 'absent', or a complaint.
        """
        pending, self.pending = self.pending, None
        if found == self.state:
            return "absent" if pending else "none"
        if pending and found == pending.after:
            self.number = pending.number
            self.state = found
            return "whole"
        lines = []
        for name, value in found.items():
            allowed = [self.state[name]] + ([pending.after[name]] if pending else [])
            if value not in allowed:
                lines.append(f"{name}: found {value}, allowed {allowed}")
        if not lines:
            lines.append("a write that was not answered is there in part")
        if pending:
            lines.append(f"unanswered: {pending.request.method} {pending.request.path}")
        self.state = found
        return "\n".join([f"writer {self.index}", *lines])
