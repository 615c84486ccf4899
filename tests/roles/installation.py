"""An installation whose roles are processes of their own: control, cells, agents.

One agent process simulates all hosts of a cell.  Every process can be killed and
started again on the same files.
"""

import pathlib
import subprocess
import time

import launch
import servers
from compute import Compute

# The longest wait for hosts to be there.
HOSTS_S = 60


class Role(servers.Server):
    """A process that is ready when its port takes connections, or at once without one."""

    def __init__(self, name: str, command: list[str], port: int | None, log: str) -> None:
        super().__init__(command, port or 0, log, start_timeout=60)
        self.name = name
        self.kills = 0

    def _answers(self) -> bool:
        return self.port == 0 or not launch_port_is_free(self.port)

    def kill(self) -> None:
        self.kills += 1
        super().kill()


def launch_port_is_free(port: int) -> bool:
    return servers.port_is_free(port)


class Installation:
    """Control, so many cells, and an agent process for each cell."""

    def __init__(
        self, folder: pathlib.Path, cells: int, hosts: int, builds: list[str]
    ) -> None:
        self.hosts = hosts
        self.compute = launch.free_port()
        self.placement = launch.free_port()
        self.asks = launch.free_port()
        ports = [launch.free_port() for _ in range(cells)]
        program = str(launch.program())
        self.roles: list[Role] = []

        def role(name: str, port: int | None, *arguments: str) -> Role:
            log = str(folder / f"{name}.log")
            made = Role(name, [program, *arguments], port, log)
            self.roles.append(made)
            return made

        config = folder / "control.toml"
        config.write_text(self._config(folder, ports))
        self.control = role("control", self.compute, "control", "--config", str(config))
        self.cells = []
        for number, port in enumerate(ports):
            self.cells.append(role(f"cell-{number}", port, *self._cell(folder, number, port)))
        self.agents = [
            role(f"agent-{number}", None, *self._agent(folder, number, port, builds))
            for number, port in enumerate(ports)
        ]
        self.config = config

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
            there = [h for h in client.hypervisors() if h["state"] == "up"]
            client.connection.close()
            if len(there) >= wanted:
                return
            if time.monotonic() > end:
                raise servers.ServerError(f"{len(there)} of {wanted} hosts are up")
            time.sleep(0.2)

    def audit(self) -> tuple[bool, str]:
        """Whether ``placewright audit`` finds nothing, and what it says."""
        done = subprocess.run(
            [str(launch.program()), *self._audit()], capture_output=True, text=True
        )
        return done.returncode == 0, done.stdout + done.stderr

    def audit_patiently(self, seconds: float) -> tuple[bool, str]:
        """The same; what is under way right now may need a moment."""
        end = time.monotonic() + seconds
        while True:
            clean, text = self.audit()
            if clean or time.monotonic() > end:
                return clean, text
            time.sleep(0.5)
