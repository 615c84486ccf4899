"""An installation whose cells are several replicas each, with their journals in etcd.

One control, and one agent process for each cell, know all addresses of it.
"""

import pathlib
import signal
import time
import urllib.request

import launch
import servers
from installation import Installation, Role
from replica import make_key

# What a process that stands by says at /readyz.
STANDBY = b"standing by"


class CellReplica(Role):
    """One process of a cell. It can be suspended, and says whether it works as the cell."""

    def __init__(self, name: str, command: list[str], port: int, metrics_port: int, log: str) -> None:
        super().__init__(name, command, port, log)
        self.metrics_port = metrics_port
        self.suspensions = 0

    def leads(self) -> bool:
        url = f"http://127.0.0.1:{self.metrics_port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return not answer.read().startswith(STANDBY)
        except OSError:
            return False

    def at_work(self) -> tuple[int, bool]:
        """How many connections of agents it had since its start; and whether it works as the cell, with an agent
        and control connected."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return 0, False
        names = ("leading", "followers", "connections_total")
        values = {name: 0 for name in names}
        for line in lines:
            name, _, value = line.removeprefix("placewright_cell_").partition(" ")
            if name in values:
                values[name] = int(float(value))
        works = values["leading"] > 0 and values["followers"] > 0
        return values["connections_total"], works

    def suspend(self) -> None:
        self.suspensions += 1
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class CellSite(Installation):
    """Control, ``cells`` cells of ``replicas`` processes each, and an agent process for each cell."""

    def __init__(self, folder: pathlib.Path, cells: int, replicas: int, hosts: int, etcd) -> None:
        self.hosts = hosts
        self.compute = launch.free_port()
        self.placement = launch.free_port()
        self.scheduler = launch.free_port()
        self.folder = folder
        self.program = str(launch.program())
        make_key(pathlib.Path(self.program), folder)
        self.key = folder / "secrets.key"
        control_port = launch.free_port()
        ports = [[launch.free_port() for _ in range(replicas)] for _ in range(cells)]
        self.control = self._control(control_port, ports)
        # Replicas by cell.
        self.cells = [
            [
                self._replica(cell, number, port, control_port, etcd)
                for number, port in enumerate(of_cell)
            ]
            for cell, of_cell in enumerate(ports)
        ]
        self.agents = [self._agent(cell, cells, of_cell) for cell, of_cell in enumerate(ports)]
        self.replicas = [replica for of_cell in self.cells for replica in of_cell]
        self.roles = [self.control, *self.replicas, *self.agents]

    def _words(self, kind: str, options: dict[str, object]) -> list[str]:
        words = [self.program, kind, "--config", "/dev/null"]
        for option, value in options.items():
            words += [f"--{option}", str(value)]
        return words

    def _log(self, name: str) -> str:
        return str(self.folder / f"{name}.log")

    def _control(self, port: int, ports: list[list[int]]) -> Role:
        known = [
            f"cell-{cell}={self.uuid(cell)}@{'+'.join(f'127.0.0.1:{p}' for p in of_cell)}"
            for cell, of_cell in enumerate(ports)
        ]
        options = {
            "store-path": self.folder / "control",
            "compute-listen": f"127.0.0.1:{self.compute}",
            "placement-listen": f"127.0.0.1:{self.placement}",
            "scheduler-listen": f"127.0.0.1:{self.scheduler}",
            "control-listen": f"127.0.0.1:{port}",
            "control-cells": ",".join(known),
            "control-resend-ms": 1000,
        }
        return Role("control", self._words("control", options), self.compute, self._log("control"))

    def _replica(self, cell: int, number: int, port: int, control_port: int, etcd) -> CellReplica:
        name = f"cell-{cell}-{number}"
        metrics_port = launch.free_port()
        options = {
            "cell-uuid": self.uuid(cell),
            "cell-listen": f"127.0.0.1:{port}",
            "cell-replica-address": f"127.0.0.1:{port}",
            "cell-metrics-listen": f"127.0.0.1:{metrics_port}",
            "cell-placement": f"127.0.0.1:{control_port}",
            "cell-store-path": self.folder / name,
            "cell-store-url": f"{etcd.store_url()}-cell-{cell}",
            "cell-resend-ms": 1000,
            "secrets-key-file": self.key,
        }
        return CellReplica(name, self._words("cell", options), port, metrics_port, self._log(name))

    def _agent(self, cell: int, cells: int, ports: list[int]) -> Role:
        name = f"agent-{cell}"
        options = {
            "agent-hosts": self.hosts * cells,
            "agent-part": f"{cell + 1}/{cells}",
            "agent-cell": ",".join(f"127.0.0.1:{port}" for port in ports),
            "agent-placement-url": f"http://127.0.0.1:{self.placement}",
            "agent-state-path": self.folder / name,
            "agent-times-ms": "spawn=~50,destroy=~20",
        }
        return Role(name, self._words("agent", options), None, self._log(name))

    def wait_until_led(self, seconds: float) -> None:
        """Wait until each cell has a replica that works as the cell."""
        end = time.monotonic() + seconds
        for cell, replicas in enumerate(self.cells):
            while not any(replica.leads() for replica in replicas):
                if time.monotonic() > end:
                    raise servers.ServerError(f"cell {cell}: no replica leads after {seconds:g} s")
                time.sleep(0.05)
