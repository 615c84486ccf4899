"""An etcd cluster of three members, of which the first one leads at the start."""

import json
import os
import pathlib
import shutil
import signal
import urllib.request

import servers
from layout import ENGINE_CLIENTS, ENGINE_HEALTH, ENGINE_MEMBERS, ENGINE_PEERS, Layout
from processes import Process, wait_until

# How long members may take until each takes requests; an election takes 1 to 2 s.
START_S = 60


class Etcd:
    """Three members. Those that end stay ended until ``start_ended``."""

    def __init__(self, folder: pathlib.Path, layout: Layout) -> None:
        self.layout = layout
        self.members = [
            Process(f"engine-{number}", self._command(folder, number), folder)
            for number in range(ENGINE_MEMBERS)
        ]

    @staticmethod
    def missing() -> str | None:
        """What is missing on this machine."""
        return None if shutil.which("etcd") else "the program etcd is not installed (Debian: etcd-server)"

    def _url(self, number: int, purpose: int) -> str:
        port = self.layout.engine_port(number, purpose)
        return f"http://{self.layout.engine_address()}:{port}"

    def _command(self, folder: pathlib.Path, number: int) -> list[str]:
        every = ",".join(
            f"engine-{other}={self._url(other, ENGINE_PEERS)}" for other in range(ENGINE_MEMBERS)
        )
        command = [
            # Variables that begin with ETCD_ would override options.
            *("env", *(f"--unset={name}" for name in os.environ if name.startswith("ETCD_"))),
            *("etcd", "--name", f"engine-{number}", "--data-dir", str(folder / f"engine-{number}")),
            *("--listen-client-urls", self._url(number, ENGINE_CLIENTS)),
            *("--advertise-client-urls", self._url(number, ENGINE_CLIENTS)),
            *("--listen-peer-urls", self._url(number, ENGINE_PEERS)),
            *("--initial-advertise-peer-urls", self._url(number, ENGINE_PEERS)),
            *("--listen-metrics-urls", self._url(number, ENGINE_HEALTH)),
            *("--initial-cluster", every, "--initial-cluster-state", "new"),
            *("--initial-cluster-token", f"placewright-{self.layout.port}"),
            *("--snapshot-count", "5000", "--logger", "zap", "--log-level", "warn"),
        ]
        return self.layout.inside(self.layout.engine_namespace(), command)

    def store_url(self) -> str:
        address = self.layout.engine_address()
        ports = [self.layout.engine_port(n, ENGINE_CLIENTS) for n in range(ENGINE_MEMBERS)]
        return f"etcd://{','.join(f'{address}:{port}' for port in ports)}/placewright"

    def start(self) -> None:
        for member in self.members:
            member.start()
        self.wait_until_healthy()
        self._let_lead(0)

    def start_ended(self) -> list[str]:
        ended = [member for member in self.members if not member.runs()]
        for member in ended:
            member.start()
        return [member.name for member in ended]

    def wait_until_healthy(self) -> None:
        for number, member in enumerate(self.members):
            wait_until(f"{member.name} takes requests", START_S, lambda: self._is_healthy(number))

    def _is_healthy(self, number: int) -> bool:
        ended = self.members[number].notice_end()
        if ended:
            member = self.members[number]
            raise servers.ServerError(f"{member.name} ended: {ended}\n{member.log_tail()}")
        return self._ask(number, ENGINE_HEALTH, "health", None).get("health") == "true"

    def leader(self) -> int | None:
        """The number of the member that leads, if one says so."""
        for number in range(ENGINE_MEMBERS):
            status = self._ask(number, ENGINE_CLIENTS, "v3/maintenance/status", {})
            if status and status.get("leader") == status["header"]["member_id"]:
                return number
        return None

    def _ask(self, number: int, purpose: int, path: str, body: dict | None) -> dict:
        """What a member says; nothing if it does not answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url(number, purpose)}/{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return {}

    def _let_lead(self, number: int) -> None:
        """Move the leadership to a member."""
        wanted = self._ask(number, ENGINE_CLIENTS, "v3/maintenance/status", {})
        present = self.leader()
        if not wanted or present is None or present == number:
            return
        body = {"targetID": wanted["header"]["member_id"]}
        self._ask(present, ENGINE_CLIENTS, "v3/maintenance/transfer-leadership", body)
        wait_until(f"engine-{number} leads", START_S, lambda: self.leader() == number)

    def look(self) -> None:
        """Nothing to do: the members elect a leader themselves."""

    def stop(self) -> None:
        for member in self.members:
            member.send(signal.SIGCONT)
            member.send(signal.SIGTERM)
        for member in self.members:
            member.wait_for_end(10)
