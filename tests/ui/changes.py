"""Random changes to an installation: hosts and their trees, servers, traits, aggregates, moves."""

import random
import threading
import time
import uuid

from caller import Caller

RATIOS = (1.0, 1.1, 1.5, 2.3, 4.0, 16.0)
TRAITS = ("CUSTOM_GOLD", "CUSTOM_SILVER", "HW_CPU_X86_AVX2", "COMPUTE_STATUS_DISABLED")
SHARING = "MISC_SHARES_VIA_AGGREGATE"
CELL = "ce110000-0000-4000-8000-000000000001"


class Gate:
    """Lets writers through, or holds them all between two changes."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.inside, self.is_closed, self.is_over = 0, False, False

    def __enter__(self):
        with self.condition:
            self.condition.wait_for(lambda: not self.is_closed or self.is_over)
            self.inside += 1

    def __exit__(self, *_) -> None:
        with self.condition:
            self.inside -= 1
            self.condition.notify_all()

    def close(self) -> None:
        with self.condition:
            self.is_closed = True
            self.condition.wait_for(lambda: self.inside == 0)

    def open(self) -> None:
        with self.condition:
            self.is_closed = False
            self.condition.notify_all()


class Writer(threading.Thread):
    """Changes things of its own at random, one after another. What is refused is left as it is."""

    def __init__(self, site, data: dict, gate: Gate, seed: int) -> None:
        super().__init__(daemon=True)
        self.ask, self.data, self.gate = Caller(site, data["admin"]), data, gate
        self.rng, self.number, self.changes = random.Random(seed), seed, 0
        # By UUID: the root, and the providers below it.
        self.hosts: dict[str, list[str]] = {}
        self.gone: list[str] = []
        self.consumers: list[str] = []
        self.servers: list[str] = []
        self.error: Exception | None = None

    def run(self) -> None:
        kinds = (
            (self.make_host, 5), (self.drop_host, 2), (self.report, 6), (self.inventory, 10), (self.claim, 30),
            (self.give_back, 12), (self.move_claim, 8), (self.traits, 6), (self.aggregates, 6), (self.name_aggregate, 3),
            (self.rename, 3), (self.build, 10), (self.delete, 5), (self.move, 6), (self.service, 4), (self.levels, 2),
        )
        names, weights = zip(*kinds)
        try:
            while not self.gate.is_over:
                with self.gate:
                    for _ in range(self.rng.randint(1, 6)):
                        self.rng.choices(names, weights)[0]()
                        self.changes += 1
                time.sleep(self.rng.random() * 0.02)
        except Exception as error:  # noqa: BLE001  (told by the main thread)
            self.error = error

    def pick(self, among):
        among = list(among)
        return self.rng.choice(among) if among else None

    def generation(self, provider: str):
        status, answer = self.ask("placement", "GET", f"/resource_providers/{provider}")
        return answer["generation"] if status == 200 else None

    def amounts(self, is_root: bool) -> dict:
        rng = self.rng
        found = {}
        for name, most in (("VCPU", 64), ("MEMORY_MB", 300_000), ("DISK_GB", 3_000), ("CUSTOM_LICENCE", 9)):
            if name == "CUSTOM_LICENCE" and rng.random() < 0.7 or not is_root and name == "DISK_GB":
                continue
            total = rng.randint(most // 4, most)
            found[name] = {"total": total, "reserved": rng.randint(0, total // 5), "allocation_ratio": rng.choice(RATIOS)}
        return found

    def make_host(self) -> None:
        if len(self.hosts) >= 12:
            return
        # A host that comes again may have the UUID of one that went, in another slot.
        root = self.gone.pop() if self.gone and self.rng.random() < 0.6 else str(uuid.uuid4())
        self.ask("placement", "PUT", "/resource_classes/CUSTOM_LICENCE")
        for name in TRAITS[:2]:
            self.ask("placement", "PUT", f"/traits/{name}")
        name = f"loose-{self.number}-{root[:8]}"
        status, _ = self.ask("placement", "POST", "/resource_providers", {"name": name, "uuid": root})
        if status != 200:
            return
        self.hosts[root] = [root]
        for node in range(self.rng.choice((0, 0, 0, 1, 2))):
            child = str(uuid.uuid4())
            body = {"name": f"{name}-node-{node}", "uuid": child, "parent_provider_uuid": root}
            self.ask("placement", "POST", "/resource_providers", body)
            self.hosts[root].append(child)
        for provider in self.hosts[root]:
            self.set_inventory(provider, provider == root)
        if self.rng.random() < 0.7:
            self.tell(root, name)

    def drop_host(self) -> None:
        root = self.pick(self.hosts)
        if root is None:
            return
        for provider in self.hosts[root]:
            _, answer = self.ask("placement", "GET", f"/resource_providers/{provider}/allocations")
            for consumer in answer.get("allocations", {}):
                self.ask("placement", "DELETE", f"/allocations/{consumer}")
        if self.rng.random() < 0.5:
            self.ask("scheduler", "POST", f"/v1/hosts/{root}/state", self.update("gone"))
        for provider in reversed(self.hosts[root]):
            self.ask("placement", "DELETE", f"/resource_providers/{provider}")
        if self.generation(root) is None:
            del self.hosts[root]
            self.gone.append(root)

    def update(self, what) -> dict:
        return {"incarnation": time.time_ns(), "sequence": 1, "update": what}

    def tell(self, root: str, name: str) -> None:
        facts = {"names": {"service_host": name, "node": name, "cell": CELL}}
        self.ask("scheduler", "POST", f"/v1/hosts/{root}/state", self.update({"full": {"facts": facts}}))

    def report(self) -> None:
        root = self.pick(self.hosts)
        if root is None:
            return
        incarnation = time.time_ns()
        facts = {"names": {"service_host": f"told-{root[:6]}", "node": f"node-{root[:6]}", "cell": CELL}}
        told = [{"full": {"facts": facts}}]
        told += self.rng.choice(([], [{"disabled": "work"}], [{"forced_down": True}], ["gone"]))
        for sequence, what in enumerate(told, 1):
            body = {"incarnation": incarnation, "sequence": sequence, "update": what}
            self.ask("scheduler", "POST", f"/v1/hosts/{root}/state", body)

    def set_inventory(self, provider: str, is_root: bool) -> None:
        generation = self.generation(provider)
        body = {"resource_provider_generation": generation, "inventories": self.amounts(is_root)}
        self.ask("placement", "PUT", f"/resource_providers/{provider}/inventories", body)

    def inventory(self) -> None:
        root = self.pick(self.hosts)
        if root:
            provider = self.pick(self.hosts[root])
            self.set_inventory(provider, provider == root)

    def wanted(self) -> dict:
        root = self.pick(self.hosts)
        among = self.hosts[root] if root else [self.pick(self.data["hosts"])["uuid"]]
        amounts = {"VCPU": self.rng.randint(1, 6), "MEMORY_MB": self.rng.randint(1, 9_000)}
        return {provider: {"resources": amounts} for provider in self.rng.sample(among, self.rng.randint(1, len(among)))}

    def claim(self) -> None:
        consumer = str(uuid.uuid4())
        body = {"allocations": self.wanted(), "consumer_generation": None, "consumer_type": "INSTANCE", "project_id": "loose", "user_id": "loose"}
        status, _ = self.ask("placement", "PUT", f"/allocations/{consumer}", body)
        if status == 204:
            self.consumers.append(consumer)

    def give_back(self) -> None:
        if self.consumers:
            consumer = self.consumers.pop(self.rng.randrange(len(self.consumers)))
            self.ask("placement", "DELETE", f"/allocations/{consumer}")

    def move_claim(self) -> None:
        consumer = self.pick(self.consumers)
        if consumer is None:
            return
        _, known = self.ask("placement", "GET", f"/allocations/{consumer}")
        if not known.get("allocations"):
            return
        body = {
            "allocations": self.wanted(), "consumer_generation": known["consumer_generation"], "consumer_type": "INSTANCE",
            "project_id": "loose", "user_id": "loose",
        }
        self.ask("placement", "PUT", f"/allocations/{consumer}", body)

    def some_root(self) -> str:
        return self.pick(self.hosts) or self.pick(self.data["hosts"])["uuid"]

    def traits(self) -> None:
        root = self.pick(self.hosts)
        if root is None:
            return
        among = [*TRAITS[:3], *([SHARING] if self.rng.random() < 0.1 else [])]
        traits = self.rng.sample(among, self.rng.randint(0, len(among)))
        body = {"traits": traits, "resource_provider_generation": self.generation(root)}
        self.ask("placement", "PUT", f"/resource_providers/{root}/traits", body)

    def aggregates(self) -> None:
        root = self.some_root()
        aggregates = self.rng.sample(self.data["aggregates"], self.rng.randint(0, 2))
        body = {"aggregates": aggregates, "resource_provider_generation": self.generation(root)}
        self.ask("placement", "PUT", f"/resource_providers/{root}/aggregates", body)

    def name_aggregate(self) -> None:
        aggregate = self.pick(self.data["aggregates"])
        # Racks of different rooms may have the same name.
        body = {"name": f"group-{self.rng.choice((1, 2, self.rng.randrange(10**6)))}"}
        if self.rng.random() < 0.3:
            body["zone"] = f"zone-{self.rng.randrange(3)}"
        self.ask("scheduler", "PUT", f"/v1/aggregates/{aggregate}", body)

    def levels(self) -> None:
        among = self.rng.sample(self.data["aggregates"], 6)
        levels = [{"name": self.rng.choice(("rack", "shelf")), "aggregates": among[:4]}, {"name": "room", "aggregates": among[4:]}]
        self.ask("scheduler", "PUT", "/v1/topology", {"levels": levels})

    def rename(self) -> None:
        root = self.pick(self.hosts)
        if root:
            self.ask("placement", "PUT", f"/resource_providers/{root}", {"name": f"named-{self.rng.randrange(10**9)}"})

    def build(self) -> None:
        if len(self.servers) > 40:
            return self.delete()
        flavor = self.rng.choice(("S", "M", "L"))
        server = {"name": f"busy-{self.number}", "flavorRef": flavor, "imageRef": self.data["image"], "networks": "none"}
        status, answer = self.ask("compute", "POST", "/v2.1/servers", {"server": server})
        if status == 202:
            self.servers.append(answer["server"]["id"])

    def delete(self) -> None:
        if self.servers:
            server = self.servers.pop(self.rng.randrange(len(self.servers)))
            self.ask("compute", "DELETE", f"/v2.1/servers/{server}")

    def move(self) -> None:
        server = self.pick(self.servers)
        if server is None:
            return
        kinds = ({"migrate": None}, {"os-migrateLive": {"host": None, "block_migration": "auto"}}, {"resize": {"flavorRef": "M"}}, {"confirmResize": None}, {"revertResize": None})
        self.ask("compute", "POST", f"/v2.1/servers/{server}/action", self.rng.choice(kinds))

    def service(self) -> None:
        services = self.ask.get("compute", "/v2.1/os-services")["services"]
        service = self.pick([row for row in services if row["host"].startswith("host-")])
        bodies = ({"status": "disabled"}, {"status": "enabled"}, {"status": "enabled"}, {"forced_down": True}, {"forced_down": False})
        self.ask("compute", "PUT", f"/v2.1/os-services/{service['id']}", self.rng.choice(bodies))
