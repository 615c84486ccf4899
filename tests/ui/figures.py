"""What the page has to show, computed from the public APIs alone. Nothing here reads the page or its stream."""

import dataclasses
import uuid
from collections import Counter

UP, DISABLED, DOWN, FORCED_DOWN, UNREPORTED = range(5)
SHARING = "MISC_SHARES_VIA_AGGREGATE"


@dataclasses.dataclass
class Host:
    uuid: str
    host: str
    node: str
    condition: int
    zone: str | None
    cell: str | None
    aggregates: list[str]
    traits: list[str]
    consumers: set
    # By resource class: capacity, what physically exists, and what is used, over the host's tree.
    amounts: dict[str, list[int]]
    # Of each provider, the root first: name, and by class capacity and used.
    providers: list[tuple[str, dict[str, tuple[int, int]]]]
    all_traits: set


def capacity_of(inventory: dict) -> int:
    return int((inventory["total"] - inventory["reserved"]) * inventory["allocation_ratio"])


def reported(ask) -> dict[str, dict]:
    """What the scheduler knows of hosts, by UUID."""
    found, after = {}, ""
    while True:
        page = ask.get("scheduler", f"/v1/hosts?limit=1000{after}")
        found |= {row["uuid"]: row for row in page["hosts"]}
        if not page["next"]:
            return found
        after = f"&after={page['next']}"


def conditions(told: dict[str, dict]) -> dict[str, tuple]:
    return {uuid: (row["up"], row["enabled"], row["forced_down"]) for uuid, row in told.items()}


class Fleet:
    """All hosts as the APIs of placement and the scheduler have them now."""

    def __init__(self, ask) -> None:
        aggregates = ask.get("scheduler", "/v1/aggregates")["aggregates"]
        counts = Counter(row["name"] for row in aggregates)
        # Aggregates of one name are told apart by their UUIDs.
        self.names = {row["uuid"]: row["name"] if counts[row["name"]] == 1 else f"{row['name']} {row['uuid']}" for row in aggregates}
        self.levels = ask.get("scheduler", "/v1/topology")["levels"]
        told = reported(ask)
        self.hosts: list[Host] = []
        trees: dict[str, list[dict]] = {}
        for provider in ask.get("placement", "/resource_providers")["resource_providers"]:
            trees.setdefault(provider["root_provider_uuid"], []).append(provider)
        for root, providers in trees.items():
            host = self.read(ask, root, providers, told.get(root))
            if host:
                self.hosts.append(host)

    def read(self, ask, root: str, providers: list[dict], told: dict | None) -> Host | None:
        providers.sort(key=lambda provider: provider["uuid"] != root)
        traits = ask.get("placement", f"/resource_providers/{root}/traits")["traits"]
        if SHARING in traits:
            return None
        aggregates = ask.get("placement", f"/resource_providers/{root}/aggregates")["aggregates"]
        amounts, consumers, rows, all_traits = {}, set(), [], set(traits)
        for provider in providers:
            path = f"/resource_providers/{provider['uuid']}"
            inventories = ask.get("placement", f"{path}/inventories")["inventories"]
            usages = ask.get("placement", f"{path}/usages")["usages"]
            consumers |= set(ask.get("placement", f"{path}/allocations")["allocations"])
            if provider["uuid"] != root:
                all_traits |= set(ask.get("placement", f"{path}/traits")["traits"])
            rows.append((provider["name"], {name: (capacity_of(row), usages.get(name, 0)) for name, row in inventories.items()}))
            for name, row in inventories.items():
                sums = amounts.setdefault(name, [0, 0, 0])
                for index, more in enumerate((capacity_of(row), row["total"] - row["reserved"], usages.get(name, 0))):
                    sums[index] += more
        names = (providers[0]["name"],) * 2
        condition = UNREPORTED
        if told:
            names = (told["host"], told["node"])
            condition = FORCED_DOWN if told["forced_down"] else DOWN if not told["up"] else UP if told["enabled"] else DISABLED
        zone, cell = (told["zone"], told["cell"]) if told else (None, None)
        return Host(root, *names, condition, zone, cell, aggregates, traits, consumers, amounts, rows, all_traits)

    def group_of(self, host: Host, by: str) -> str:
        if by == "none":
            return "all hosts"
        if by == "zone":
            return host.zone or "without a zone"
        if by == "cell":
            # `up` numbers its cells.
            return f"cell{int(host.cell[-12:])}" if host.cell else "without a cell"
        if by == "aggregate":
            # The page names them in the order in which they come; so they are compared in a fixed one.
            return " + ".join(sorted(self.names.get(name) or name for name in host.aggregates)) or "in no aggregate"
        level = next(level for level in self.levels if level["name"] == by)
        place = [name for name in host.aggregates if name in level["aggregates"]]
        return self.names.get(place[0]) or place[0] if place else f"in no {by}"

    def groups(self, by: str, hosts: list[Host] | None = None) -> dict[str, list[Host]]:
        found: dict[str, list[Host]] = {}
        for host in self.hosts if hosts is None else hosts:
            found.setdefault(self.group_of(host, by), []).append(host)
        return found

    def is_clear(self, by: str) -> bool:
        """Whether each host is in one place of a level at most: else it is the page's choice in which it is shown."""
        places = {level["name"]: set(level["aggregates"]) for level in self.levels}
        return by not in places or all(len(places[by] & set(host.aggregates)) <= 1 for host in self.hosts)

    def classes(self, hosts: list[Host] | None = None) -> list[str]:
        found = {name for host in (self.hosts if hosts is None else hosts) for name in host.amounts}
        known = ["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"]
        return sorted(found, key=lambda name: (known.index(name) if name in known else len(known), name))


def total(hosts: list[Host], name: str) -> tuple[int, int, int]:
    """Capacity, what physically exists, and used."""
    sums = [0, 0, 0]
    for host in hosts:
        for index, more in enumerate(host.amounts.get(name, (0, 0, 0))):
            sums[index] += more
    return tuple(sums)


def largest_free(hosts: list[Host], name: str) -> int:
    free = [host.amounts[name][0] - host.amounts[name][2] for host in hosts if host.condition == UP and name in host.amounts]
    return max([0, *free])


def request_of(flavor: dict) -> dict:
    """A flavor of the compute API as the scheduler's API takes it."""
    return {
        "flavor": {
            "name": flavor["name"], "vcpus": flavor["vcpus"], "memory_mb": flavor["ram"], "root_gb": flavor["disk"],
            "ephemeral_gb": flavor["OS-FLV-EXT-DATA:ephemeral"], "swap_mb": int(flavor["swap"] or 0),
            "extra_specs": flavor.get("extra_specs", {}),
        }
    }


def new_uuid() -> str:
    return str(uuid.uuid4())
