"""Random clouds: hosts with NUMA nodes and devices, sharing providers, claims.

``World`` draws one and gives the requests that build it, in an order in which
any of them may be left out and the others still make sense.
"""

import random
from typing import Any

from generate import SHARING, Generator, Pools, query_string
from request import Request

ROOT_CLASSES = ["VCPU", "MEMORY_MB", "DISK_GB"]
NODE_CLASSES = ["VCPU", "MEMORY_MB", "PCPU"]
DEVICE_CLASSES = ["SRIOV_NET_VF", "CUSTOM_NET_MBPS", "CUSTOM_GPU"]
SHARED_CLASSES = ["DISK_GB", "CUSTOM_FPGA"]
BUILD_VERSION = "1.39"


class World:
    """One cloud of at most a dozen providers."""

    def __init__(self, rng: random.Random, scope: str) -> None:
        self.rng = rng
        self.pools = Pools(rng, scope, size=rng.choice([4, 6, 8, 10, 12]))
        self.generator = Generator(rng, self.pools, chaos_rate=0.0)
        self.classes_of: dict[str, list[str]] = {}
        self.traits_of: dict[str, list[str]] = {}
        self.parents: dict[str, str | None] = {}
        self.free = list(self.pools.providers)
        self.requests: list[Request] = []
        for _ in range(rng.choice([0, 1, 1, 2])):
            self._sharing()
        while self.free:
            rng.choice([self._flat, self._numa, self._devices, self._deep])()
        self._names()
        for provider in self.parents:
            self._fill(provider)
        self._claims()

    @property
    def shared_classes(self) -> set[str]:
        """Classes that a sharing provider of this world can give."""
        return {
            name
            for provider, traits in self.traits_of.items()
            if SHARING in traits
            for name in self.classes_of[provider]
        }

    def _add(self, parent: str | None, classes: list[str], most: int = 3) -> str | None:
        if not self.free:
            return None
        provider = self.free.pop(0)
        body: dict[str, Any] = {"uuid": provider, "name": self.pools.name(provider)}
        if parent is not None:
            body["parent_provider_uuid"] = parent
        self.requests.append(
            Request("POST", "/resource_providers", BUILD_VERSION, body)
        )
        self.pools.existing.add(provider)
        self.parents[provider] = parent
        self.classes_of[provider] = self.generator.some(classes, most)
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
            if above is not None and self.free:
                above = self._add(above, ROOT_CLASSES + DEVICE_CLASSES, 2)

    def _names(self) -> None:
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
                name: generator.inventory() for name in self.classes_of[provider]
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
        if aggregates:
            self._put(provider, f"{path}/aggregates", "aggregates", aggregates)

    def _put(self, provider: str, path: str, key: str, value: Any) -> None:
        body = {
            key: value,
            "resource_provider_generation": self.generator.generation(provider),
        }
        self.requests.append(Request("PUT", path, BUILD_VERSION, body))

    def _claims(self) -> None:
        for consumer in self.pools.consumers:
            if self.rng.random() < 0.6:
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
        classes = used if used and rng.random() < 0.9 else None
        query = generator.candidates_query(max(10, generator.minor(version)), classes)
        return Request(
            "GET", "/allocation_candidates" + query_string(rng, query), version
        )
