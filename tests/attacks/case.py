"""What the attacks share: installations to attack, callers, and bystanders who must not notice."""

import contextlib
import http.client
import json
import os
import pathlib
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

import launch
import servers
from ports import free_port
from tally import Tally

# With ``noauth2`` a token is USER:PROJECT of a member, or ``admin``.
ADMIN = "admin"
ATTACKER = "mallory:evil"
BYSTANDER = "alice:good"
IMAGE = "70ace000-0000-4000-8000-000000000001"


class Answer:
    """An answer of a server. Its status is None if there was no answer."""

    def __init__(self, status: int | None, body: bytes, seconds: float, error: str = "") -> None:
        self.status = status
        self.body = body
        self.seconds = seconds
        self.error = error

    def json(self) -> Any:
        return json.loads(self.body)

    def __str__(self) -> str:
        text = self.body[:300].decode("utf-8", "replace")
        return f"{self.status} after {self.seconds:.3f} s: {self.error or text}"


class Caller:
    """A client with a token, on one kept connection to one port."""

    def __init__(self, port: int, token: str = ADMIN, timeout: float = 60) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.token = token

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Send a request. ``body`` is bytes that are sent as they are, or a value that becomes JSON."""
        all_headers = {
            "X-Auth-Token": self.token,
            "Accept": "application/json",
            "OpenStack-API-Version": "compute 2.96, placement 1.39",
        }
        if self.token != ADMIN:
            all_headers["X-Roles"] = "member,reader"
        if body is not None:
            all_headers["Content-Type"] = "application/json"
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        all_headers.update(headers or {})
        began = time.perf_counter()
        try:
            self.connection.request(method, path, body, all_headers)
            response = self.connection.getresponse()
            content = response.read()
            return Answer(response.status, content, time.perf_counter() - began)
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return Answer(None, b"", time.perf_counter() - began, repr(error))

    def close(self) -> None:
        self.connection.close()


class Site:
    """One running ``placewright up`` with simulated hosts."""

    def __init__(self, folder: pathlib.Path, hosts: int, options: dict[str, object]) -> None:
        # A port for health and metrics only.
        self.health = free_port()
        self.folder = folder
        self.placement, self.compute, self.scheduler = (free_port() for _ in range(3))
        words = [str(launch.program()), "up", "--config", "/dev/null"]
        words += ["--folder", str(folder / "state"), "--hosts", str(hosts)]
        values = {
            "placement-listen": f"127.0.0.1:{self.placement}",
            "compute-listen": f"127.0.0.1:{self.compute}",
            "scheduler-listen": f"127.0.0.1:{self.scheduler}",
            "control-listen": f"127.0.0.1:{free_port()}",
            "health-listen": f"127.0.0.1:{self.health}",
            "auth-strategy": "noauth2",
            **options,
        }
        for name, value in values.items():
            words += [f"--{name}", str(value)]
        self.hosts = hosts
        folder.mkdir(parents=True, exist_ok=True)
        self.server = servers.Server(
            words, self.placement, str(folder / "up.log"), start_timeout=120
        )

    def start(self) -> None:
        self.server.start()
        caller = Caller(self.compute)
        end = time.monotonic() + 60
        while self.hosts:
            answer = caller("GET", "/v2.1/os-hypervisors/detail")
            up = [h for h in answer.json()["hypervisors"] if h["state"] == "up"]
            if len(up) >= self.hosts:
                break
            if time.monotonic() > end:
                raise servers.ServerError(f"{len(up)} of {self.hosts} hosts are up")
            time.sleep(0.1)
        caller.close()

    @property
    def pid(self) -> int:
        return self.server.process.pid

    def memory_mib(self) -> float:
        """The resident memory of the process."""
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) / 1024
        return 0.0

    def cpu_seconds(self) -> float:
        """The processor time of the process: its fields ``utime`` and ``stime`` in proc(5)."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def caller(self, token: str = ADMIN, port: int | None = None, timeout: float = 60) -> Caller:
        """A caller of the compute API, unless another port is named."""
        return Caller(port or self.compute, token, timeout)

    def flavor(self, name: str = "small", vcpus: int = 1, ram: int = 64) -> str:
        """Make a flavor; returns its id. It has a disk, because members may not boot images without one."""
        body = {"flavor": {"id": name, "name": name, "vcpus": vcpus, "ram": ram, "disk": 1}}
        self.caller()("POST", "/v2.1/flavors", body)
        return name


class Bystanders:
    """Callers who do what everybody does, one request after the other, and note how long each took.

    They request health, their servers, the flavors, and allocation candidates, each kind of request on a
    connection of its own.
    """

    def __init__(self, site: Site, token: str = BYSTANDER, pause: float = 0.005) -> None:
        self.site = site
        self.token = token
        self.pause = pause
        self.took: dict[str, list[float]] = {}
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self._ask, args=row, daemon=True) for row in self._rows()
        ]

    def _rows(self) -> list[tuple[str, int, str, str, str]]:
        site = self.site
        return [
            ("health", site.health, ADMIN, "GET", "/healthz"),
            ("list of servers", site.compute, self.token, "GET", "/v2.1/servers?limit=10"),
            ("flavors", site.compute, self.token, "GET", "/v2.1/flavors"),
            (
                "candidates",
                *(site.placement, ADMIN, "GET"),
                "/allocation_candidates?resources=VCPU:1&limit=10",
            ),
        ]

    def _ask(self, name: str, port: int, token: str, method: str, path: str) -> None:
        caller = Caller(port, token, timeout=120)
        took = self.took.setdefault(name, [])
        while not self.over.is_set():
            answer = caller(method, path)
            took.append(answer.seconds)
            if answer.status != 200:
                self.wrong.append(f"{name}: {answer}")
            time.sleep(self.pause)
        caller.close()

    def __enter__(self) -> "Bystanders":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join(timeout=150)

    def longest(self, name: str | None = None) -> float:
        """The longest wait in seconds, of one kind of request or of all."""
        rows = [self.took.get(name, [])] if name else list(self.took.values())
        return max((max(row) for row in rows if row), default=0.0)

    def quantile(self, share: float, name: str | None = None) -> float:
        rows = [self.took.get(name, [])] if name else list(self.took.values())
        every = sorted(seconds for row in rows for seconds in row)
        return every[min(int(len(every) * share), len(every) - 1)] if every else 0.0

    def __str__(self) -> str:
        parts = [
            f"{name} {len(row)}, p50 {statistics.median(row) * 1e3:.1f} ms,"
            f" longest {max(row) * 1e3:.1f} ms"
            for name, row in self.took.items()
            if row
        ]
        return "; ".join(parts + self.wrong[:5])


class Case:
    """What an attack gets to work with: a folder, servers to attack, and the count of its checks."""

    def __init__(self, folder: pathlib.Path, tally: Tally, short: bool) -> None:
        self.folder = folder
        self.tally = tally
        self.short = short
        self._sites = 0

    @contextlib.contextmanager
    def up(
        self, hosts: int = 30, descriptors: int | None = None, **options: object
    ) -> Iterator[Site]:
        """A running installation; options as ``placement_connections_max=100``.

        ``descriptors`` is how many files it may have open at most.
        """
        self._sites += 1
        folder = self.folder / f"site-{self._sites}"
        site = Site(folder, hosts, {k.replace("_", "-"): v for k, v in options.items()})
        if descriptors is not None:
            limit = f'ulimit -n {descriptors} && exec "$0" "$@"'
            site.server.command = ["sh", "-c", limit, *site.server.command]
        try:
            site.start()
            yield site
        except BaseException:
            print(site.server.log_tail(), flush=True)
            raise
        finally:
            site.server.stop()

    def check(self, name: str, ok: bool, detail: object = "") -> bool:
        return self.tally.check(name, ok, str(detail))
