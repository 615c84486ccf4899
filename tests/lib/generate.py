"""Random requests over the whole Placement API.

``Generator.any_request`` draws from every route and method, at any
microversion.  ``chaos_rate`` is how often something in a request is made wrong: 0
gives requests that an API user could mean, 1 gives mostly broken ones.
Everything is drawn from one ``random.Random``, so a seed repeats a sequence.
"""

import random
import uuid
from typing import Any
from urllib.parse import quote

import chaos
from request import ConsumerGeneration, Generation, Request

STANDARD_CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB", "PCPU", "SRIOV_NET_VF", "VGPU"]
CUSTOM_CLASSES = ["CUSTOM_GPU", "CUSTOM_FPGA", "CUSTOM_NET_MBPS"]
STANDARD_TRAITS = ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "HW_NUMA_ROOT", "COMPUTE_NODE"]
CUSTOM_TRAITS = ["CUSTOM_GOLD", "CUSTOM_RACK_1", "CUSTOM_PHYSNET_A"]
SHARING = "MISC_SHARES_VIA_AGGREGATE"
VERSION_MAX = 39
# The microversions in which the API changed in a way that clients see; they are drawn more often.
EDGES = [0, 1, 3, 6, 7, 8, 11, 12, 13, 18, 19, 22, 24, 25, 27, 28, 29, 31, 33, 34, 36]
EDGES += [37, 38, 39]


class Pools:
    """The names that one sequence of requests uses, and which of them it believes to exist."""

    def __init__(self, rng: random.Random, scope: str, size: int = 6) -> None:
        def ids(count: int) -> list[str]:
            return [
                str(uuid.UUID(int=rng.getrandbits(128), version=4))
                for _ in range(count)
            ]

        self.scope = scope
        self.providers = ids(size)
        self.aggregates = ids(3)
        self.consumers = ids(max(4, size - 1))
        self.projects = [f"project-{scope}-{n}" for n in range(2)]
        self.users = [f"user-{scope}-{n}" for n in range(2)]
        self.types = ["INSTANCE", "MIGRATION", f"T{scope.upper()}"]
        self.classes = STANDARD_CLASSES + CUSTOM_CLASSES
        self.traits = STANDARD_TRAITS + CUSTOM_TRAITS + [SHARING]
        # What is believed to exist, as observe() learned it. A wrong belief only makes a request that is refused.
        self.existing: set[str] = set()
        self.inventories: dict[str, set[str]] = {}

    def name(self, provider: str) -> str:
        return f"host-{self.scope}-{self.providers.index(provider)}"

    def observe(self, request: Request, status: int) -> None:
        """Learn from a write that succeeded what exists now."""
        if status >= 300:
            return
        parts = request.path.split("?")[0].strip("/").split("/")
        body = request.body if isinstance(request.body, dict) else {}
        if parts[0] == "resource_providers":
            if len(parts) == 1 and request.method == "POST":
                self.existing.add(str(body.get("uuid")))
            elif len(parts) == 2 and request.method == "DELETE":
                self.existing.discard(parts[1])
                self.inventories.pop(parts[1], None)
            elif len(parts) == 3 and parts[2] == "inventories":
                if request.method == "PUT" and isinstance(
                    body.get("inventories"), dict
                ):
                    self.inventories[parts[1]] = set(body["inventories"])
                elif request.method == "DELETE":
                    self.inventories.pop(parts[1], None)
                elif request.method == "POST":
                    self.inventories.setdefault(parts[1], set()).add(
                        str(body.get("resource_class"))
                    )
        elif parts[0] == "reshaper" and isinstance(body.get("inventories"), dict):
            for provider, record in body["inventories"].items():
                self.inventories[provider] = set(record.get("inventories", {}))


class Generator:
    """Draws requests for one set of names."""

    def __init__(
        self, rng: random.Random, pools: Pools, chaos_rate: float = 0.2
    ) -> None:
        self.rng = rng
        self.pools = pools
        self.chaos_rate = chaos_rate
        self.choices, self.weights = zip(*self._kinds())

    def _kinds(self):
        return [
            (self.provider_create, 8),
            (self.provider_update, 4),
            (self.provider_delete, 2),
            (self.provider_get, 3),
            (self.provider_list, 6),
            (self.inventories_put, 8),
            (self.inventory_post, 4),
            (self.inventory_put, 4),
            (self.inventory_delete, 2),
            (self.inventories_delete, 1),
            (self.provider_detail, 8),
            (self.traits_put, 5),
            (self.traits_delete, 1),
            (self.aggregates_put, 5),
            (self.allocations_put, 10),
            (self.allocations_post, 5),
            (self.allocations_get, 4),
            (self.allocations_delete, 2),
            (self.candidates, 12),
            (self.reshape, 3),
            (self.usages, 3),
            (self.class_request, 5),
            (self.trait_request, 5),
            (self.traits_list, 2),
            (self.odd_route, 2),
        ]

    def any_request(self) -> Request:
        kind = self.rng.choices(self.choices, self.weights)[0]
        request = kind()
        if self.rng.random() < self.chaos_rate:
            chaos.disturb(self.rng, request, self.pools)
        return request

    # What requests are made of.

    def version(self, least: int = 0) -> str | None:
        """A microversion for a call that exists since 1.``least``; now and then an earlier one, or none."""
        rng = self.rng
        draw = rng.random()
        if draw < 0.04:
            return rng.choice([None, "latest"])
        if draw < 0.06:
            least = 0
        if draw < 0.35:
            return f"1.{VERSION_MAX}"
        edges = [edge for edge in EDGES if edge >= least]
        minor = rng.choice(edges) if draw < 0.75 else rng.randint(least, VERSION_MAX)
        return f"1.{minor}"

    def minor(self, version: str | None) -> int:
        """The number after ``1.``; without a version the service takes 1.0."""
        if version is None:
            return 0
        return VERSION_MAX if version == "latest" else int(version.split(".")[1])

    def provider(self) -> str:
        """A provider that probably exists."""
        pools, rng = self.pools, self.rng
        if pools.existing and rng.random() < 0.93:
            known = [p for p in pools.providers if p in pools.existing]
            if known:
                return rng.choice(known)
        return rng.choice(pools.providers)

    def consumer(self) -> str:
        return self.rng.choice(self.pools.consumers)

    def resource_class(self) -> str:
        return self.rng.choice(self.pools.classes)

    def some(self, pool: list[str], most: int, least: int = 0) -> list[str]:
        """From ``least`` to ``most`` different members of a list."""
        return self.rng.sample(pool, min(len(pool), self.rng.randint(least, most)))

    def generation(self, provider: str) -> Any:
        """The generation that the provider will have when the request is sent; now and then a wrong one."""
        draw = self.rng.random()
        if draw < 0.94:
            return Generation(provider)
        return Generation(provider, self.rng.choice([-1, 1]))

    def consumer_generation(self, consumer: str) -> Any:
        draw = self.rng.random()
        if draw < 0.9:
            return ConsumerGeneration(consumer)
        return self.rng.choice([None, 0, 1, 2])

    def inventory(self) -> dict:
        rng = self.rng
        record: dict[str, Any] = {"total": rng.choice([1, 2, 4, 8, 10, 64, 1000])}
        if rng.random() < 0.3:
            record["reserved"] = rng.choice([0, 1, 2, record["total"]])
        if rng.random() < 0.2:
            record["min_unit"] = rng.choice([1, 1, 2, 5])
        if rng.random() < 0.3:
            record["max_unit"] = rng.choice([1, 2, 4, 100, 2147483647])
        if rng.random() < 0.2:
            record["step_size"] = rng.choice([1, 2, 3, 5])
        if rng.random() < 0.3:
            record["allocation_ratio"] = rng.choice([1, 1.0, 1.5, 2.0, 16.0, 0.5, 0.3])
        return record

    def amount(self) -> int:
        return self.rng.choice([1, 1, 1, 2, 2, 3, 4, 6, 10, 100])

    def provider_path(self, provider: str) -> str:
        return f"/resource_providers/{provider}"

    # Resource providers.

    def provider_create(self) -> Request:
        rng, pools = self.rng, self.pools
        version = self.version()
        absent = [p for p in pools.providers if p not in pools.existing]
        provider = rng.choice(absent if absent and rng.random() < 0.9 else pools.providers)
        body = {"name": pools.name(provider), "uuid": provider}
        if pools.existing and self.minor(version) >= 14 and rng.random() < 0.55:
            body["parent_provider_uuid"] = self.provider()
        elif rng.random() < 0.02:
            body["parent_provider_uuid"] = None
        return Request("POST", "/resource_providers", version, body)

    def provider_update(self) -> Request:
        rng = self.rng
        version = self.version()
        provider = self.provider()
        body: dict[str, Any] = {"name": self.pools.name(provider)}
        if rng.random() < 0.3:
            body["name"] = rng.choice(
                [f"new-{provider[:8]}", self.pools.name(self.provider())]
            )
        if self.minor(version) >= 14 and rng.random() < 0.7:
            body["parent_provider_uuid"] = rng.choice(
                [self.provider(), self.provider(), None, provider]
            )
        return Request("PUT", self.provider_path(provider), version, body)

    def provider_delete(self) -> Request:
        return Request("DELETE", self.provider_path(self.provider()), self.version())

    def provider_get(self) -> Request:
        return Request("GET", self.provider_path(self.provider()), self.version())

    def provider_list(self) -> Request:
        rng, pools = self.rng, self.pools
        version = self.version()
        minor = self.minor(version)
        query = []
        if rng.random() < 0.15:
            query.append(("name", pools.name(self.provider())))
        if rng.random() < 0.15:
            query.append(("uuid", self.provider()))
        if minor >= 3 and rng.random() < 0.35:
            query += self.member_of("", minor)
        if minor >= 4 and rng.random() < 0.4:
            query.append(("resources", self.resources()))
        if minor >= 14 and rng.random() < 0.2:
            query.append(("in_tree", self.provider()))
        if minor >= 18 and rng.random() < 0.4:
            query += self.required("", minor)
        return Request("GET", "/resource_providers" + query_string(rng, query), version)

    def provider_detail(self) -> Request:
        what = self.rng.choice(
            ["inventories", "usages", "aggregates", "allocations", "traits"]
            + ["inventories/" + self.resource_class()]
        )
        least = {"aggregates": 1, "traits": 6}.get(what, 0)
        return Request(
            "GET", f"{self.provider_path(self.provider())}/{what}", self.version(least)
        )

    # Inventories, traits and aggregates of a provider.

    def inventories_put(self) -> Request:
        provider = self.provider()
        classes = self.some(self.pools.classes, 4, 0 if self.rng.random() < 0.1 else 1)
        body = {
            "resource_provider_generation": self.generation(provider),
            "inventories": {name: self.inventory() for name in classes},
        }
        return Request(
            "PUT", f"{self.provider_path(provider)}/inventories", self.version(), body
        )

    def inventory_post(self) -> Request:
        provider = self.provider()
        body = {"resource_class": self.resource_class(), **self.inventory()}
        if self.rng.random() < 0.2:
            body["resource_provider_generation"] = self.generation(provider)
        return Request(
            "POST", f"{self.provider_path(provider)}/inventories", self.version(), body
        )

    def _class_in_inventory(self, provider: str) -> str:
        """A class of which the provider probably has inventory."""
        held = sorted(self.pools.inventories.get(provider, ()))
        if held and self.rng.random() < 0.85:
            return self.rng.choice(held)
        return self.resource_class()

    def inventory_put(self) -> Request:
        provider = self.provider()
        body = {
            "resource_provider_generation": self.generation(provider),
            **self.inventory(),
        }
        path = f"{self.provider_path(provider)}/inventories/{quote(self._class_in_inventory(provider))}"
        return Request("PUT", path, self.version(), body)

    def inventory_delete(self) -> Request:
        provider = self.provider()
        path = f"{self.provider_path(provider)}/inventories/{quote(self._class_in_inventory(provider))}"
        return Request("DELETE", path, self.version())

    def inventories_delete(self) -> Request:
        path = f"{self.provider_path(self.provider())}/inventories"
        return Request("DELETE", path, self.version(5))

    def traits_put(self) -> Request:
        provider = self.provider()
        body = {
            "resource_provider_generation": self.generation(provider),
            "traits": self.some(self.pools.traits, 4),
        }
        return Request("PUT", f"{self.provider_path(provider)}/traits", self.version(6), body)

    def traits_delete(self) -> Request:
        return Request(
            "DELETE", f"{self.provider_path(self.provider())}/traits", self.version(6)
        )

    def aggregates_put(self) -> Request:
        provider = self.provider()
        version = self.version(1)
        body: Any = self.some(self.pools.aggregates, 3)
        if self.minor(version) >= 19:
            body = {
                "aggregates": body,
                "resource_provider_generation": self.generation(provider),
            }
        return Request("PUT", f"{self.provider_path(provider)}/aggregates", version, body)

    # Allocations.

    def _wanted(self, most: int = 2) -> dict[str, dict[str, int]]:
        """Amounts by provider, of classes that it probably has."""
        wanted: dict[str, dict[str, int]] = {}
        for _ in range(self.rng.randint(1, most)):
            provider = self.provider()
            wanted[provider] = {
                self._class_in_inventory(provider): self.amount() for _ in range(self.rng.randint(1, 2))
            }
        return wanted

    def _owner(self, minor: int, consumer: str) -> dict[str, Any]:
        rng, pools = self.rng, self.pools
        owner: dict[str, Any] = {}
        if minor >= 8:
            owner["project_id"] = rng.choice(pools.projects)
            owner["user_id"] = rng.choice(pools.users)
        if minor >= 28:
            owner["consumer_generation"] = self.consumer_generation(consumer)
        if minor >= 38:
            owner["consumer_type"] = rng.choice(pools.types)
        return owner

    def allocation_body(self, minor: int, consumer: str) -> dict[str, Any]:
        rng = self.rng
        wanted = self._wanted()
        allocations: Any
        if minor < 12:
            allocations = [
                {"resource_provider": {"uuid": rp}, "resources": resources}
                for rp, resources in wanted.items()
            ]
        else:
            allocations = {rp: {"resources": r} for rp, r in wanted.items()}
            for rp in allocations:
                if rng.random() < 0.1:
                    allocations[rp]["generation"] = rng.choice([Generation(rp), 0, 99])
            if rng.random() < 0.15:
                allocations = {}
        body = {"allocations": allocations, **self._owner(minor, consumer)}
        if minor >= 34 and allocations and rng.random() < 0.2:
            # The suffix of a group. The empty one is taken out again, because mappings need not name it.
            body["mappings"] = {rng.choice(["", "1", "_A"]): list(allocations)}
            body["mappings"].pop("", None)
            if not body["mappings"]:
                del body["mappings"]
        return body

    def allocations_put(self) -> Request:
        version = self.version()
        consumer = self.consumer()
        body = self.allocation_body(self.minor(version), consumer)
        return Request("PUT", f"/allocations/{consumer}", version, body)

    def allocations_post(self) -> Request:
        version = self.version(13)
        minor = max(12, self.minor(version))
        consumers = self.some(self.pools.consumers, 3, 1)
        body = {c: self.allocation_body(minor, c) for c in consumers}
        return Request("POST", "/allocations", version, body)

    def allocations_get(self) -> Request:
        return Request("GET", f"/allocations/{self.consumer()}", self.version())

    def allocations_delete(self) -> Request:
        return Request("DELETE", f"/allocations/{self.consumer()}", self.version())

    def reshape(self) -> Request:
        rng = self.rng
        version = self.version(30)
        minor = max(30, self.minor(version))
        providers = {self.provider() for _ in range(rng.randint(1, 2))}
        classes = self.some(self.pools.classes, 4, 1)
        inventories = {
            rp: {
                "resource_provider_generation": self.generation(rp),
                "inventories": {name: self.inventory() for name in classes},
            }
            for rp in sorted(providers)
        }
        consumers = self.some(self.pools.consumers, 2)
        body = {
            "inventories": inventories,
            "allocations": {c: self.allocation_body(minor, c) for c in consumers},
        }
        request = Request("POST", "/reshaper", version, body)
        request.roles = rng.choice(["service", "admin,service", "admin", None])
        return request

    def usages(self) -> Request:
        rng, pools = self.rng, self.pools
        version = self.version(9)
        query = [("project_id", rng.choice(pools.projects))]
        if rng.random() < 0.4:
            query.append(("user_id", rng.choice(pools.users)))
        if self.minor(version) >= 38 and rng.random() < 0.6:
            query.append(
                ("consumer_type", rng.choice(pools.types + ["all", "unknown"]))
            )
        return Request("GET", "/usages" + query_string(rng, query), version)

    # Resource classes and traits.

    def class_request(self) -> Request:
        rng = self.rng
        name = rng.choice(CUSTOM_CLASSES + ["CUSTOM_NEW", "VCPU"])
        kind = rng.choice(["list", "get", "create", "put", "put", "delete"])
        if kind == "list":
            return Request("GET", "/resource_classes", self.version(2))
        if kind == "create":
            return Request("POST", "/resource_classes", self.version(2), {"name": name})
        path = f"/resource_classes/{name}"
        if kind == "put":
            version = self.version(2)
            body = {"name": rng.choice(CUSTOM_CLASSES + ["CUSTOM_NEWER"])}
            return Request(
                "PUT", path, version, body if self.minor(version) < 7 else None
            )
        return Request("GET" if kind == "get" else "DELETE", path, self.version(2))

    def trait_request(self) -> Request:
        rng = self.rng
        name = rng.choice(self.pools.traits + ["CUSTOM_NEW"])
        method = rng.choice(["GET", "PUT", "PUT", "DELETE"])
        return Request(method, f"/traits/{name}", self.version(6))

    def traits_list(self) -> Request:
        rng = self.rng
        query = []
        if rng.random() < 0.7:
            names = self.some(self.pools.traits, 3, 1)
            query.append(
                ("name", rng.choice(["in:" + ",".join(names), "startswith:CUSTOM_"]))
            )
        if rng.random() < 0.6:
            query.append(
                ("associated", rng.choice(["true", "false", "1", "0", "TRUE"]))
            )
        return Request("GET", "/traits" + query_string(rng, query), self.version(6))

    # Candidates, and the queries that they share with the list of providers.

    def resources(self, classes: list[str] | None = None) -> str:
        names = self.some(classes or self.pools.classes, 2, 1)
        return ",".join(f"{name}:{self.amount()}" for name in names)

    def required(self, suffix: str, minor: int) -> list[tuple[str, str]]:
        rng, traits = self.rng, self.pools.traits
        words = self.some(traits, 2, 1)
        if minor >= 22:
            words = [("!" if rng.random() < 0.35 else "") + w for w in words]
        query = [("required" + suffix, ",".join(words))]
        if minor >= 39 and rng.random() < 0.5:
            value = "in:" + ",".join(self.some(traits, 3, 1))
            query = query + [("required" + suffix, value)]
            if rng.random() < 0.5:
                query = query[1:]
        return query

    def member_of(self, suffix: str, minor: int) -> list[tuple[str, str]]:
        rng, aggregates = self.rng, self.pools.aggregates
        query = []
        for _ in range(rng.choice([1, 1, 2]) if minor >= 24 else 1):
            draw = rng.random()
            if draw < 0.5:
                value = "in:" + ",".join(self.some(aggregates, 2, 1))
            else:
                value = rng.choice(aggregates)
            if minor >= 32 and rng.random() < 0.3:
                value = "!" + value
            query.append(("member_of" + suffix, value))
        return query

    def group(
        self, suffix: str, minor: int, classes: list[str] | None = None
    ) -> list[tuple[str, str]]:
        rng = self.rng
        query = [("resources" + suffix, self.resources(classes))]
        if minor >= 17 and rng.random() < 0.35:
            query += self.required(suffix, minor)
        if minor >= 21 and rng.random() < 0.25:
            query += self.member_of(suffix, minor)
        if minor >= 31 and rng.random() < 0.1:
            query.append(("in_tree" + suffix, self.provider()))
        return query

    def candidates_query(
        self, minor: int, classes: list[str] | None = None
    ) -> list[tuple[str, str]]:
        rng = self.rng
        query = []
        suffixes: list[str] = []
        if minor >= 25 and rng.random() < 0.6:
            names = ["1", "2", "3", "10"]
            if minor >= 33:
                names += ["_NET", "-a", "_gpu-1", "Z9"]
            suffixes = self.some(names, 3, 1)
        if not suffixes or rng.random() < 0.55:
            query += self.group("", minor, classes)
        for suffix in suffixes:
            query += self.group(suffix, minor, classes)
        named = list(suffixes)
        if minor >= 36 and suffixes and rng.random() < 0.3:
            query += self.required("_RESLESS", minor)
            named.append("_RESLESS")
            query.append(("same_subtree", ",".join(["_RESLESS", rng.choice(suffixes)])))
        elif minor >= 36 and len(named) > 1 and rng.random() < 0.4:
            query.append(("same_subtree", ",".join(self.some(named, 3, 2))))
        if len(named) > 1 or (named and rng.random() < 0.3):
            query.append(("group_policy", rng.choice(["none", "none", "isolate"])))
        if minor >= 35 and rng.random() < 0.2:
            query += [("root_" + k, v) for k, v in self.required("", min(minor, 38))]
        if minor >= 16 and rng.random() < 0.15:
            query.append(("limit", str(rng.choice([1, 1, 2, 3, 5, 1000]))))
        if rng.random() < 0.1:
            rng.shuffle(query)
        return query

    def candidates(self) -> Request:
        version = self.version(10)
        query = self.candidates_query(max(10, self.minor(version)))
        return Request(
            "GET", "/allocation_candidates" + query_string(self.rng, query), version
        )

    def odd_route(self) -> Request:
        rng = self.rng
        path = rng.choice(
            ["/", "", "/nope", "/resource_providers/", "/allocations", "/reshaper"]
            + ["/usages", "/traits", "/resource_classes", "/allocation_candidates"]
            + [
                self.provider_path(self.provider()) + tail
                for tail in ("/", "/nope", "/traits")
            ]
        )
        method = rng.choice(
            ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS"]
        )
        return Request(method, path or "/", self.version())


def query_string(rng: random.Random, query: list[tuple[str, str]]) -> str:
    """The query as clients write it: some leave ``:`` and ``,`` as they are."""
    if not query:
        return ""
    safe = rng.choice(["", ":,", ":,!"])
    return "?" + "&".join(
        f"{quote(name, safe='')}={quote(value, safe=safe)}" for name, value in query
    )
