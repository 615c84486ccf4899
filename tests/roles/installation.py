"""An installation whose roles are processes of their own: control, cells, agents.

One agent process simulates all hosts of a cell.  Every process can be killed and
started again on the same files.
"""

import json
import pathlib
import subprocess
import time
import urllib.request

import launch
import servers
from compute import Compute

# How long hosts may take until they are up.
HOSTS_S = 60


class Role(servers.Server):
    """A process that is ready when its port takes connections, or at once if it has no port."""

    def __init__(self, name: str, command: list[str], port: int | None, log: str) -> None:
        super().__init__(command, port or 0, log, start_timeout=60)
        self.name = name
        self.kills = 0

    def _answers(self) -> bool:
        return self.port == 0 or not servers.port_is_free(self.port)

    def kill(self) -> None:
        self.kills += 1
        super().kill()

    def run_with(self, program: pathlib.Path) -> None:
        """End the process as an operator would, and go on with another program."""
        self.stop()
        self.command[0] = str(program)
        self.start()


class Installation:
    """Control, ``cells`` cells, and an agent process for each cell.

    ``programs`` names another program for roles of a kind: control, cell or agent.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        cells: int,
        hosts: int,
        programs: dict[str, pathlib.Path] | None = None,
    ) -> None:
        self.hosts = hosts
        self.compute = launch.free_port()
        self.placement = launch.free_port()
        self.scheduler = launch.free_port()
        control_port = launch.free_port()
        ports = [launch.free_port() for _ in range(cells)]
        self.roles: list[Role] = []

        def role(name: str, port: int | None, options: dict[str, object]) -> Role:
            kind = name.partition("-")[0]
            program = (programs or {}).get(kind) or launch.program()
            words = [str(program), kind, "--config", "/dev/null"]
            for option, value in options.items():
                words += [f"--{option}", str(value)]
            made = Role(name, words, port, str(folder / f"{name}.log"))
            self.roles.append(made)
            return made

        known = [
            f"cell-{number}={self.uuid(number)}@127.0.0.1:{port}"
            for number, port in enumerate(ports)
        ]
        self.control = role(
            "control",
            self.compute,
            {
                "store-path": folder / "control",
                "compute-listen": f"127.0.0.1:{self.compute}",
                "placement-listen": f"127.0.0.1:{self.placement}",
                "scheduler-listen": f"127.0.0.1:{self.scheduler}",
                "control-listen": f"127.0.0.1:{control_port}",
                "control-cells": ",".join(known),
                "control-resend-ms": 1000,
            },
        )
        self.cells = [
            role(
                f"cell-{number}",
                port,
                {
                    "cell-uuid": self.uuid(number),
                    "cell-listen": f"127.0.0.1:{port}",
                    "cell-placement": f"127.0.0.1:{control_port}",
                    "cell-store-path": folder / f"cell-{number}",
                    "cell-resend-ms": 1000,
                },
            )
            for number, port in enumerate(ports)
        ]
        self.agents = [
            role(
                f"agent-{number}",
                None,
                {
                    "agent-hosts": hosts * cells,
                    "agent-part": f"{number + 1}/{cells}",
                    "agent-cell": f"127.0.0.1:{port}",
                    "agent-placement-url": f"http://127.0.0.1:{self.placement}",
                    "agent-state-path": folder / f"agent-{number}",
                    "agent-times-ms": "spawn=~50,destroy=~20",
                },
            )
            for number, port in enumerate(ports)
        ]

    @staticmethod
    def uuid(cell: int) -> str:
        return f"ce110000-0000-4000-8000-{cell + 1:012}"

    def start(self) -> None:
        for role in self.roles:
            role.start()
        self.wait_for_hosts()

    def stop(self) -> None:
        for role in reversed(self.roles):
            role.stop()

    def wait_for_hosts(self) -> None:
        end = time.monotonic() + HOSTS_S
        wanted = self.hosts * len(self.cells)
        while True:
            client = Compute(self.compute)
            up = [h for h in client.hypervisors() if h["state"] == "up"]
            client.connection.close()
            if len(up) >= wanted:
                return
            if time.monotonic() > end:
                raise servers.ServerError(f"{len(up)} of {wanted} hosts are up")
            time.sleep(0.2)

    def hosts_of(self, cell: int) -> set[str]:
        """The names of a cell's hosts, as the scheduler knows them."""
        url = f"http://127.0.0.1:{self.scheduler}/v1/hosts?limit=10000"
        request = urllib.request.Request(url, headers={"X-Auth-Token": "admin"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            hosts = json.load(answer)["hosts"]
        return {host["host"] for host in hosts if host["cell"] == self.uuid(cell)}

    def audit(self) -> tuple[bool, str]:
        """Whether ``placewright audit`` finds nothing, and what it says."""
        done = subprocess.run(
            [
                *(self.control.command[0], "audit"),
                *("--url", f"http://127.0.0.1:{self.placement}"),
            ],
            capture_output=True,
            text=True,
        )
        return done.returncode == 0, done.stdout + done.stderr

    def audit_patiently(self, seconds: float) -> tuple[bool, str]:
        """Repeats ``audit`` until it finds nothing, because what is under way may need a moment."""
        end = time.monotonic() + seconds
        while True:
            clean, text = self.audit()
            if clean or time.monotonic() > end:
                return clean, text
            time.sleep(0.5)
