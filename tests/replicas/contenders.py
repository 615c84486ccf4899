"""The hosts and the clients of ``parallel``: hosts that are nearly full, and clients that claim them all at once."""

import collections
import dataclasses
import http.client
import json
import multiprocessing
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import installation
import servers
import wire
from layout import PLACEMENT, SCHEDULER
from objects import NEWEST

MEMORY_MB = 131_072
FULL = 0.95
INSTANCE = {"vcpus": 1, "memory_mb": 1024, "root_gb": 1}
# A client gives an instance back when it has claimed so many others.
KEPT = 20
# One of so many requests is for a member of a server group. So many members come from each client, and stay.
GROUP_EVERY = 4
GROUP_MEMBERS = 2
CELL = "c1a5e0de-0000-4000-8000-000000000001"
# Processes that make and read hosts, and hosts that are filled with one request.
PREPARING = 4
FILLED_TOGETHER = 100
# How long until every replica knows all hosts.
KNOWN_S = 120
RESULT = re.compile(r'placewright_claims_total\{result="(\w+)"\} (\d+)')

Address = tuple[str, int]


def host_uuid(number: int) -> str:
    return f"7a9d7a9d-0000-4000-8000-{number:012}"


def filler_uuid(number: int) -> str:
    """The consumer that fills a host."""
    return f"f1110000-0000-4000-8000-{number:012}"


class Caller:
    """A client with one connection."""

    def __init__(self, address: Address) -> None:
        self.host = f"{address[0]}:{address[1]}"
        self.connection = wire.Connection(*address)

    def call(self, method: str, path: str, body: Any = None) -> wire.Response:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nX-Auth-Token: admin\r\n"
            f"OpenStack-API-Version: placement {NEWEST}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        return self.connection.exchange(head.encode() + data, method)

    def expect(self, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer that has to be a success."""
        answer = self.call(method, path, body)
        if answer.status >= 300:
            raise servers.ServerError(f"{method} {path}: {answer.status} {answer.body[:500]!r}")
        return json.loads(answer.body) if answer.body else None


@dataclasses.dataclass
class Part:
    """Some of the hosts, for one process."""

    placement: Address
    scheduler: Address
    numbers: list[int]

    def make(self) -> None:
        placement, scheduler = Caller(self.placement), Caller(self.scheduler)
        for number in self.numbers:
            host = host_uuid(number)
            placement.expect("POST", "/resource_providers", {"name": f"node-{number}", "uuid": host})
            amounts = {"VCPU": 1024, "MEMORY_MB": MEMORY_MB, "DISK_GB": 100_000}
            inventories = {name: {"total": total} for name, total in amounts.items()}
            body = {"resource_provider_generation": 0, "inventories": inventories}
            placement.expect("PUT", f"/resource_providers/{host}/inventories", body)
            names = {"service_host": f"host-{number}", "node": f"node-{number}", "cell": CELL}
            update = {"full": {"facts": {"names": names}}}
            body = {"incarnation": 1, "sequence": 1, "update": update}
            scheduler.expect("POST", f"/v1/hosts/{host}/state", body)
        for first in range(0, len(self.numbers), FILLED_TOGETHER):
            some = self.numbers[first : first + FILLED_TOGETHER]
            placement.expect("POST", "/allocations", dict(map(filler, some)))

    def read(self) -> tuple[dict[str, list[str]], list[str]]:
        """The consumers of each host without the one that fills it, and the hosts that hold too much."""
        placement = Caller(self.placement)
        held, too_full = {}, []
        for number in self.numbers:
            host = host_uuid(number)
            found = placement.expect("GET", f"/resource_providers/{host}/allocations")["allocations"]
            memory = sum(one["resources"]["MEMORY_MB"] for one in found.values())
            if memory > MEMORY_MB:
                too_full.append(f"host {host}: {memory} of {MEMORY_MB} MB")
            if set(found) != {filler_uuid(number)}:
                held[host] = [one for one in found if one != filler_uuid(number)]
        return held, too_full


def filler(number: int) -> tuple[str, dict[str, Any]]:
    """What fills a host, as `POST /allocations` has it."""
    return filler_uuid(number), {
        "allocations": {host_uuid(number): {"resources": {"MEMORY_MB": int(MEMORY_MB * FULL)}}},
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        "project_id": "fill",
        "user_id": "fill",
    }


def in_parts(site: installation.Installation, hosts: int, work: Callable[[Part], Any]) -> list[Any]:
    """The results of several processes, each for a part of the hosts."""
    count = site.replicas
    parts = [
        Part(
            site.addresses(PLACEMENT)[n % count],
            site.addresses(SCHEDULER)[n % count],
            list(range(1 + n, hosts + 1, PREPARING)),
        )
        for n in range(PREPARING)
    ]
    with multiprocessing.Pool(PREPARING) as pool:
        return pool.map(work, parts, chunksize=1)


def fill(site: installation.Installation, hosts: int) -> None:
    """Make the hosts. Each is told to one replica, and every replica has to know it."""
    in_parts(site, hosts, Part.make)
    end = time.monotonic() + KNOWN_S
    for address in site.addresses(SCHEDULER):
        caller = Caller(address)
        while True:
            body = caller.expect("GET", "/v1/hosts?limit=10000")
            up = sum(host["up"] for host in body["hosts"])
            if up == min(hosts, 10_000):
                break
            if time.monotonic() > end:
                raise servers.ServerError(f"{up} of {hosts} hosts are up at {address}")
            time.sleep(0.2)


def held_by_host(site: installation.Installation, hosts: int) -> tuple[dict[str, list[str]], list[str]]:
    """The consumers of each host that has some, and what is wrong with hosts that hold more than they have."""
    held, too_full = {}, []
    for some_held, some_too_full in in_parts(site, hosts, Part.read):
        held.update(some_held)
        too_full += some_too_full
    return held, too_full


def metric_of(address: Address, result: str) -> float:
    """How many claims had this result at a replica."""
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"connection": "close"})
        text = connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise servers.ServerError(f"no metrics at {address}: {error}") from error
    finally:
        connection.close()
    return sum(float(number) for name, number in RESULT.findall(text) if name == result)


@dataclasses.dataclass
class Claimed:
    """An instance that holds a host."""

    instance: str
    host: str
    group: str | None


@dataclasses.dataclass
class Found:
    """What a client did."""

    decisions: int
    seconds: float
    processor_seconds: float
    held: list[Claimed]
    milliseconds: list[float]
    # Answers that were no success, by what they say.
    refused: collections.Counter


@dataclasses.dataclass
class Worker:
    """A client of one replica, in a process of its own. ``part`` numbers the parts of a run."""

    address: Address
    part: int
    seconds: float

    def run(self) -> Found:
        caller = Caller(self.address)
        held: list[Claimed] = []
        leaving: collections.deque[Claimed] = collections.deque()
        milliseconds, refused = [], collections.Counter()
        began, used = time.monotonic(), time.process_time()
        end = began + self.seconds
        while time.monotonic() < end:
            count = len(milliseconds)
            group = self.group_of(count) if count % GROUP_EVERY == 0 else None
            instance = str(uuid.uuid4())
            answer = caller.call("POST", "/v1/destinations", request(instance, group))
            milliseconds.append(answer.seconds * 1000)
            if answer.status != 200:
                refused[f"{answer.status} {answer.body[:200].decode(errors='replace')}"] += 1
                continue
            selected = json.loads(answer.body)["selections"][0]["selected"]
            (held if group else leaving).append(Claimed(instance, selected["provider"], group))
            if len(leaving) > KEPT:
                caller.expect("DELETE", f"/v1/claims/{leaving.popleft().instance}")
        return Found(
            decisions=len(milliseconds) - refused.total(),
            seconds=time.monotonic() - began,
            processor_seconds=time.process_time() - used,
            held=[*held, *leaving],
            milliseconds=milliseconds,
            refused=refused,
        )

    def group_of(self, count: int) -> str:
        """The server group of a client's request: the same one for all clients at about the same time."""
        number = count // GROUP_EVERY // GROUP_MEMBERS
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.part} {number}"))


def request(instance: str, group: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"flavor": INSTANCE, "project_id": "p", "user_id": "u"}
    if group:
        spec["instance_group"] = {"uuid": group, "policy": "anti-affinity"}
    return {"request": spec, "instances": [instance], "claim": True}
