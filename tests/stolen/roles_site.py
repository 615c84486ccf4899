"""An installation whose roles are processes of their own and know each other by certificates."""

import json
import pathlib
import subprocess
import time
import urllib.request
from typing import Any

import launch
import servers
from compute import Compute

# Agents by name: their cell. An agent NAME has hosts NAME-….
AGENTS = {"a": "c1", "b": "c1", "c": "c2"}
CELLS = ("c1", "c2")
HOSTS = 2
HOSTS_S = 120


class Role(servers.Server):
    """A process that is ready when its port takes connections, or at once if it has no port."""

    def _answers(self) -> bool:
        return self.port == 0 or not servers.port_is_free(self.port)

    def log(self) -> str:
        return pathlib.Path(self.log_path).read_text(errors="replace")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Runs a command of the program."""
    command = [str(launch.program()), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def must(*words: object) -> str:
    done = run(*words)
    if done.returncode:
        raise servers.ServerError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


class Site:
    """An installation of control, two cells and three agents."""

    def __init__(self, folder: pathlib.Path, life: str = "7d") -> None:
        self.folder = folder
        self.life = life
        self.pki = folder / "pki"
        self.compute, self.placement, self.scheduler, self.asks = (
            launch.free_port() for _ in range(4)
        )
        self.ports = {cell: launch.free_port() for cell in CELLS}
        self.uuids = {
            cell: f"ce110000-0000-4000-8000-{number:012}" for number, cell in enumerate(CELLS, 1)
        }
        self.roles: dict[str, Role] = {}
        must("pki", "init", "--pki", self.pki, "--installation", "site")
        self.issue(self.pki / "control", "--role", "control")
        for cell in CELLS:
            self.issue(self.identity(cell), "--role", "cell", "--cell", cell)
        for agent, cell in AGENTS.items():
            names = ("--role", "agent", "--cell", cell, "--host", f"{agent}-*")
            self.issue(self.identity(agent), *names)

    def identity(self, name: str) -> pathlib.Path:
        return self.folder / "identity" / name

    def issue(self, out: pathlib.Path, *names: object, life: str = "") -> pathlib.Path:
        life = life or self.life
        must("pki", "issue", "--pki", self.pki, "--out", out, "--life", life, *names)
        return out

    def start_role(self, name: str, kind: str, port: int, options: dict[str, object], *more: object) -> Role:
        words = [str(launch.program()), kind, "--config", "/dev/null", *map(str, more)]
        for option, value in options.items():
            words += [f"--{option}", str(value)]
        made = Role(words, port, str(self.folder / f"{name}.log"), start_timeout=120)
        self.roles[name] = made
        made.start()
        return made

    def start(self) -> None:
        known = [f"{cell}={self.uuids[cell]}@127.0.0.1:{self.ports[cell]}" for cell in CELLS]
        options = {
            "store-path": self.folder / "control",
            "compute-listen": f"127.0.0.1:{self.compute}",
            "placement-listen": f"127.0.0.1:{self.placement}",
            "scheduler-listen": f"127.0.0.1:{self.scheduler}",
            # Loopback needs no certificate; another address does.
            "control-listen": f"127.0.0.1:{self.asks}",
            "control-authority-path": self.pki,
            "control-cells": ",".join(known),
        }
        self.start_role("control", "control", self.compute, options)
        for cell in CELLS:
            options = {
                "cell-uuid": self.uuids[cell],
                "cell-listen": f"127.0.0.1:{self.ports[cell]}",
                "cell-placement": f"127.0.0.1:{self.asks}",
                "cell-store-path": self.folder / cell,
                "cell-identity-path": self.identity(cell),
                "cell-host-timeout-ms": 5000,
            }
            self.start_role(cell, "cell", self.ports[cell], options)
        for agent in AGENTS:
            self.start_agent(agent, AGENTS[agent])
        self.wait_for_hosts(HOSTS * len(AGENTS))

    def start_agent(self, name: str, cell: str, *more: object) -> Role:
        options = {
            "agent-hosts": HOSTS,
            "agent-prefix": f"{name}-",
            "agent-cell": f"127.0.0.1:{self.ports[cell]}",
            "agent-placement-url": f"http://127.0.0.1:{self.placement}",
            "agent-state-path": self.folder / f"agent-{name}",
            "agent-identity-path": self.identity(name),
            "agent-heartbeat-ms": 1000,
            "agent-times-ms": "spawn=~50,destroy=~20",
        }
        return self.start_role(name, "agent", 0, options, *more)

    def stop(self) -> None:
        for role in reversed(self.roles.values()):
            role.stop()

    def logs(self) -> str:
        return "\n".join(f"--- {name}\n{role.log_tail()}" for name, role in self.roles.items())

    def hosts(self) -> dict[str, str]:
        """The UUID of each host that is up, by name."""
        client = Compute(self.compute)
        rows = client.hypervisors()
        client.connection.close()
        return {row["hypervisor_hostname"]: row["id"] for row in rows if row["state"] == "up"}

    def wait_for_hosts(self, count: int) -> None:
        end = time.monotonic() + HOSTS_S
        while len(found := self.hosts()) < count:
            if time.monotonic() > end:
                raise servers.ServerError(f"{found} of {count} hosts are up\n{self.logs()}")
            time.sleep(0.2)

    def get(self, port: int, path: str) -> Any:
        head = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=head)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def state(self) -> dict[str, Any]:
        """Everything that a call could have changed, for comparisons."""
        client = Compute(self.compute)
        shown = list(client.servers())
        client.connection.close()
        rows = self.get(self.placement, "/resource_providers")["resource_providers"]
        held = {
            row["uuid"]: self.get(self.placement, f"/resource_providers/{row['uuid']}/allocations")
            for row in rows
        }
        known = self.get(self.scheduler, "/v1/hosts?limit=10000")["hosts"]
        names = sorted((host["host"], host["cell"]) for host in known)
        ends = {}
        for store in ("control", *CELLS):
            stats = must("journal", "stats", "--store", self.folder / store, "--json")
            ends[store] = json.loads(stats)["end"]
        return {
            "servers": sorted(json.dumps(server, sort_keys=True) for server in shown),
            "providers": sorted((row["uuid"], row["generation"]) for row in rows),
            "allocations": held,
            "hosts": names,
            "up": sorted(self.hosts()),
            "journals": ends,
        }

    def boot(self, count: int) -> list[dict[str, Any]]:
        """Creates servers, and waits until they are built."""
        client = Compute(self.compute)
        flavor = client.flavor(f"f{time.monotonic_ns()}", 1, 64)
        made = []
        for number in range(count):
            status, body = client.create(f"s{number}", flavor)
            assert status == 202, (status, body)
            made.append(body["server"]["id"])
        end = time.monotonic() + 90
        while True:
            rows = [client.must("GET", f"/servers/{one}")["server"] for one in made]
            if all(row["status"] in ("ACTIVE", "ERROR") for row in rows):
                client.connection.close()
                return rows
            if time.monotonic() > end:
                raise servers.ServerError(f"{rows}\n{self.logs()}")
            time.sleep(0.1)
