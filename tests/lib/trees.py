"""Random clouds: hosts with NUMA nodes and devices, sharing providers, claims.

``World`` draws one and gives the requests that build it, in an order in which
any of them may be left out and the others still make sense.
"""

import random
from typing import Any

from generate import SHARING, Generator, Pools, query_string
from request import Generation, Request

ROOT_CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB"]
NODE_CLASSES = ["VCPU", "MEMORY_MB", "PCPU"]
DEVICE_CLASSES = ["SRIOV_NET_VF", "CUSTOM_NET_MBPS", "CUSTOM_GPU"]
SHARED_CLASSES = ["DISK_GB", "CUSTOM_FPGA"]
BUILD_VERSION = "1.39"


class World:
    """One cloud of at most a dozen providers."""

    def __init__(self, rng: random.Random, scope: str) -> None:
        self.rng = rng
        self.pools = Pools(rng, scope, size=rng.choice([4, 7, 10, 13]))
        self.generator = Generator(rng, self.pools, chaos_rate=0.0)
        self.classes_of: dict[str, list[str]] = {}
        self.traits_of: dict[str, list[str]] = {}
        self.aggregates_of: dict[str, list[str]] = {}
        self.parents: dict[str, str | None] = {}
        self.unused = list(self.pools.providers)
        self.requests: list[Request] = []
        for _ in range(rng.choice([0, 1, 1, 2])):
            self._sharing()
        shapes = [self._flat, self._numa, self._numa, self._devices, self._deep]
        shape = rng.choice(shapes)
        while self.unused:
            # Hosts of one cloud are often alike.
            shape = shape if rng.random() < 0.5 else rng.choice(shapes)
            shape()
        self._names()
        for provider in self.parents:
            self._fill(provider)
        self._claims()

    @property
    def shared_classes(self) -> set[str]:
        """The classes of all sharing providers of this world."""
        return {
            name
            for provider, traits in self.traits_of.items()
            if SHARING in traits
            for name in self.classes_of[provider]
        }

    def _add(self, parent: str | None, classes: list[str], most: int = 3) -> str | None:
        """Creates a provider with one to ``most`` of the classes; None if all providers of this world exist."""
        if not self.unused:
            return None
        provider = self.unused.pop(0)
        body: dict[str, Any] = {"uuid": provider, "name": self.pools.name(provider)}
        if parent is not None:
            body["parent_provider_uuid"] = parent
        self.requests.append(
            Request("POST", "/resource_providers", BUILD_VERSION, body)
        )
        self.pools.existing.add(provider)
        self.parents[provider] = parent
        siblings = [p for p, above in self.parents.items() if above == parent]
        if len(siblings) > 1 and self.rng.random() < 0.7:
            self.classes_of[provider] = list(self.classes_of[siblings[-2]])
        else:
            self.classes_of[provider] = self.generator.some(classes, most, 1)
        self.traits_of[provider] = []
        return provider

    def _sharing(self) -> None:
        provider = self._add(None, SHARED_CLASSES, 2)
        if provider is not None:
            self.traits_of[provider].append(SHARING)

    def _flat(self) -> None:
        self._add(None, ROOT_CLASSES + ["CUSTOM_GPU"])

    def _numa(self) -> None:
        root = self._add(None, ROOT_CLASSES, 2)
        for _ in range(self.rng.randint(1, 2)):
            node = self._add(root, NODE_CLASSES, 3)
            if node is not None and self.rng.random() < 0.5:
                for _ in range(self.rng.randint(1, 2)):
                    self._add(node, DEVICE_CLASSES, 2)

    def _devices(self) -> None:
        root = self._add(None, ROOT_CLASSES)
        for _ in range(self.rng.randint(1, 3)):
            self._add(root, DEVICE_CLASSES, 2)

    def _deep(self) -> None:
        above = self._add(None, ROOT_CLASSES, 1)
        for _ in range(self.rng.randint(1, 3)):
            if above is not None and self.unused:
                above = self._add(above, ROOT_CLASSES + DEVICE_CLASSES, 2)

    def _names(self) -> None:
        """Creates the custom classes and traits, before everything else."""
        used = {name for names in self.classes_of.values() for name in names}
        for name in sorted(used):
            if name.startswith("CUSTOM_"):
                self.requests.insert(
                    0, Request("PUT", f"/resource_classes/{name}", BUILD_VERSION)
                )
        for name in self.pools.traits:
            if name.startswith("CUSTOM_"):
                self.requests.insert(
                    0, Request("PUT", f"/traits/{name}", BUILD_VERSION)
                )

    def _fill(self, provider: str) -> None:
        rng, generator = self.rng, self.generator
        path = f"/resource_providers/{provider}"
        if self.classes_of[provider]:
            self.pools.inventories[provider] = set(self.classes_of[provider])
            inventories = {
                name: self._inventory() for name in self.classes_of[provider]
            }
            self._put(provider, f"{path}/inventories", "inventories", inventories)
        ordinary = [name for name in self.pools.traits if name != SHARING]
        self.traits_of[provider] += generator.some(ordinary, 2)
        if rng.random() < 0.04 and SHARING not in self.traits_of[provider]:
            self.traits_of[provider].append(SHARING)
        if self.traits_of[provider]:
            self._put(provider, f"{path}/traits", "traits", self.traits_of[provider])
        sharing = SHARING in self.traits_of[provider]
        aggregates = generator.some(self.pools.aggregates, 2, 1 if sharing else 0)
        self.aggregates_of[provider] = aggregates
        if aggregates:
            self._put(provider, f"{path}/aggregates", "aggregates", aggregates)

    def _put(self, provider: str, path: str, key: str, value: Any) -> None:
        body = {
            key: value,
            "resource_provider_generation": Generation(provider),
        }
        self.requests.append(Request("PUT", path, BUILD_VERSION, body))

    def _inventory(self) -> dict[str, Any]:
        """Mostly room for some small claims."""
        if self.rng.random() < 0.3:
            return self.generator.inventory()
        record: dict[str, Any] = {"total": self.rng.choice([2, 4, 8, 16, 64])}
        if self.rng.random() < 0.2:
            record["reserved"] = 1
        return record

    def _claims(self) -> None:
        for consumer in self.pools.consumers:
            if self.rng.random() < 0.5:
                # Of a body in microversion 1.38 nothing differs in 1.39.
                body = self.generator.allocation_body(38, consumer)
                self.requests.append(
                    Request("PUT", f"/allocations/{consumer}", BUILD_VERSION, body)
                )

    def queries(self, count: int) -> list[Request]:
        """Questions about this world, mostly about candidates."""
        used = sorted({n for names in self.classes_of.values() for n in names})
        found = []
        for _ in range(count):
            draw = self.rng.random()
            if draw < 0.12:
                found.append(self.generator.provider_list())
            elif draw < 0.16:
                found.append(self.generator.provider_detail())
            else:
                found.append(self._candidates(used))
        return found

    def _candidates(self, used: list[str]) -> Request:
        generator, rng = self.generator, self.rng
        version = generator.version(10)
        minor = max(10, generator.minor(version))
        if rng.random() < 0.75 and used:
            query = AimedQuery(self, minor).query()
        else:
            classes = used if used and rng.random() < 0.9 else None
            query = generator.candidates_query(minor, classes)
        return Request(
            "GET", "/allocation_candidates" + query_string(rng, query), version
        )


class AimedQuery:
    """A candidates query that one tree of the world can probably satisfy.

    The query is made from what the providers of that tree have, so that most of
    the constraints hold; now and then one does not.
    """

    def __init__(self, world: World, minor: int) -> None:
        self.world = world
        self.rng = world.rng
        self.minor = minor
        roots = [p for p, parent in world.parents.items() if parent is None]
        self.root = self.rng.choice(roots)
        self.tree = [p for p in world.parents if self._root_of(p) == self.root]
        self.suppliers = [p for p in self.tree if world.classes_of[p]]
        # The provider whose classes the last suffixed group requests; the next group often requests the same.
        self.last_supplier: str | None = None

    def _root_of(self, provider: str) -> str:
        parent = self.world.parents[provider]
        return provider if parent is None else self._root_of(parent)

    def _amount(self) -> int:
        return self.rng.choice([1, 1, 1, 1, 2, 2, 3, 4])

    def query(self) -> list[tuple[str, str]]:
        rng = self.rng
        query: list[tuple[str, str]] = []
        suffixes = self._suffixes()
        if not suffixes or rng.random() < 0.4:
            query += self._plain_group()
        for suffix in suffixes:
            query += self._suffixed_group(suffix)
        if not query:
            query = [("resources", f"VCPU:{self._amount()}")]
        named = [s for s in suffixes if any(n == "resources" + s for n, _ in query)]
        query += self._relations(named)
        if self.minor >= 16 and rng.random() < 0.12:
            query.append(("limit", str(rng.choice([1, 2, 3, 5, 1000]))))
        return query

    def _suffixes(self) -> list[str]:
        if self.minor < 25 or self.rng.random() < 0.35:
            return []
        names = ["1", "2", "3"] if self.minor < 33 else ["1", "2", "_NET", "-a", "Z9"]
        return self.rng.sample(names, self.rng.choice([1, 2, 2, 3]))

    def _plain_group(self) -> list[tuple[str, str]]:
        """Classes from anywhere in the tree, and from what is shared."""
        rng, world = self.rng, self.world
        found = sorted(
            {name for p in self.suppliers for name in world.classes_of[p]}
            | (world.shared_classes if rng.random() < 0.7 else set())
        )
        if not found:
            return []
        chosen = rng.sample(found, min(len(found), rng.randint(1, 3)))
        wanted = ",".join(f"{name}:{self._amount()}" for name in chosen)
        supplier = rng.choice(self.suppliers or self.tree)
        return [("resources", wanted), *self._constraints("", supplier)]

    def _suffixed_group(self, suffix: str) -> list[tuple[str, str]]:
        """Classes of one provider of the tree, or of one that shares."""
        rng, world = self.rng, self.world
        suppliers = list(self.suppliers)
        if rng.random() < 0.1 or not suppliers:
            suppliers = [p for p in world.parents if world.classes_of[p]]
        if not suppliers:
            return []
        if self.last_supplier is None or rng.random() < 0.5:
            self.last_supplier = rng.choice(suppliers)
        supplier = self.last_supplier
        classes = world.classes_of[supplier]
        chosen = rng.sample(classes, min(len(classes), rng.choice([1, 1, 2])))
        wanted = ",".join(f"{name}:{self._amount()}" for name in chosen)
        return [("resources" + suffix, wanted), *self._constraints(suffix, supplier)]

    def _constraints(self, suffix: str, supplier: str) -> list[tuple[str, str]]:
        rng, world, minor = self.rng, self.world, self.minor
        query = []
        # A query has several suffixed groups, so each of them gets fewer constraints.
        often = 0.5 if suffix else 1
        if minor >= 17 and rng.random() < 0.25 * often:
            query += self._traits("required" + suffix, supplier)
        places = [*world.aggregates_of.get(supplier, ())]
        places += world.aggregates_of.get(self.root, ())
        if minor >= 21 and places and rng.random() < 0.2 * often:
            value = rng.choice(places)
            if rng.random() < 0.5:
                value = "in:" + ",".join([value, rng.choice(world.pools.aggregates)])
            if minor >= 32 and rng.random() < 0.25:
                value = "!" + rng.choice(world.pools.aggregates)
            query.append(("member_of" + suffix, value))
        if minor >= 31 and rng.random() < 0.12 * often:
            query.append(("in_tree" + suffix, rng.choice(self.tree)))
        return query

    def _traits(self, name: str, supplier: str) -> list[tuple[str, str]]:
        rng, pool = self.rng, self.world.pools.traits
        have = self.world.traits_of[supplier]
        words = rng.sample(have, 1) if have and rng.random() < 0.7 else []
        if self.minor >= 22 and (not words or rng.random() < 0.4):
            lacking = [t for t in pool if t not in have]
            words.append("!" + rng.choice(lacking or pool))
        query = [(name, ",".join(words))] if words else []
        if self.minor >= 39 and not name.startswith("root") and rng.random() < 0.4:
            any_of = [rng.choice(have or pool), *rng.sample(pool, 2)]
            query.append((name, "in:" + ",".join(any_of)))
        return query

    def _relations(self, named: list[str]) -> list[tuple[str, str]]:
        """What holds between groups, and for the root."""
        rng, minor = self.rng, self.minor
        query = []
        if minor >= 36 and named and rng.random() < 0.35:
            together = rng.sample(named, rng.randint(1, len(named)))
            if rng.random() < 0.5:
                bare = self._traits("required_BARE", rng.choice(self.tree))
                query += bare
                together += ["_BARE"] * bool(bare)
                named = [*named, *(["_BARE"] * bool(bare))]
            if len(together) > 1:
                query.append(("same_subtree", ",".join(together)))
        if len(named) > 1 or (named and rng.random() < 0.3):
            query.append(("group_policy", rng.choice(["none", "none", "isolate"])))
        if minor >= 35 and rng.random() < 0.1:
            query += self._traits("root_required", self.root)
        return query
