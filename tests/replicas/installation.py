"""Replicas on an engine, as a test drives them: started by ``cluster``, killed, stopped, started again."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import servers
from etcd import Etcd
from layout import COMPUTE, ENGINE_MEMBERS, PLACEMENT, PORTS_EACH, Layout
from ports import free_block

HERE = pathlib.Path(__file__).resolve().parent
START_S = 180
# A replica says so in its log when it begins to lead. The greatest epoch is the present one.
LEADS = re.compile(r"this replica leads\b.*?\bepoch=(\d+)|\bepoch=(\d+).*?this replica leads")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Installation:
    """What ``cluster`` runs in ``folder``."""

    def __init__(
        self,
        engine: str,
        replicas: int,
        folder: pathlib.Path,
        prefix: str | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.engine = engine
        self.replicas = replicas
        self.folder = folder
        port = free_block(PORTS_EACH * max(replicas, ENGINE_MEMBERS))
        self.layout = Layout(port, prefix)
        self.command = [
            *(sys.executable, str(HERE / "cluster")),
            *(engine, str(replicas), str(folder), str(port)),
            *(["--namespaces", prefix] if prefix else []),
        ]
        self.environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen | None = None
        self.output = folder / "cluster.out"
        # How far each replica's log was read; the greatest epoch in them, and who leads in it.
        self.read_to: dict[int, int] = {}
        self.newest = (-1, -1)

    def start(self) -> None:
        parent = os.getpid()

        def in_child() -> None:
            servers.die_with_parent(signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        self.folder.mkdir(parents=True, exist_ok=True)
        self.output.write_text("")
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                preexec_fn=in_child,
            )
        self._wait_for_ready(1)

    def _ready_count(self) -> int:
        return self.output.read_text().splitlines().count("ready")

    def _wait_for_ready(self, count: int) -> None:
        end = time.monotonic() + START_S
        while self._ready_count() < count:
            if self.process.poll() is not None or time.monotonic() > end:
                raise servers.ServerError(f"the cluster is not ready:\n{self.output.read_text()}")
            time.sleep(0.02)

    def start_ended(self) -> None:
        """Start again whatever does not run, and wait until all answer."""
        count = self._ready_count()
        self.process.send_signal(signal.SIGHUP)
        self._wait_for_ready(count + 1)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def addresses(self, service: int = PLACEMENT) -> list[tuple[str, int]]:
        """Where the replicas serve."""
        numbers = range(self.replicas)
        return [
            (self.layout.replica_address(n), self.layout.replica_port(n, service)) for n in numbers
        ]

    def compute_port(self, number: int) -> int:
        return self.layout.replica_port(number, COMPUTE)

    def pid(self, name: str) -> int | None:
        """The process id of ``replica-0`` or ``engine-0``, if it runs."""
        try:
            return int((self.folder / f"{name}.pid").read_text())
        except FileNotFoundError:
            return None

    def send(self, name: str, signum: int) -> None:
        pid = self.pid(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def leader(self) -> int | None:
        """The replica that leads, as the logs tell."""
        for number in range(self.replicas):
            path = self.folder / f"replica-{number}.log"
            if not path.exists():
                continue
            with open(path, "rb") as log:
                log.seek(self.read_to.get(number, 0))
                data = log.read()
            # The last line may not be whole yet.
            whole = data[: data.rfind(b"\n") + 1]
            self.read_to[number] = self.read_to.get(number, 0) + len(whole)
            text = COLOURS.sub("", whole.decode("utf-8", "replace"))
            for match in LEADS.finditer(text):
                self.newest = max(self.newest, (int(match[1] or match[2]), number))
        return self.newest[1] if self.newest[0] >= 0 else None

    def engine_leader(self) -> int | None:
        """The engine's member that leads."""
        if self.engine == "postgresql":
            return int((self.folder / "primary").read_text())
        if self.engine == "etcd":
            return Etcd(self.folder, self.layout).leader()
        return None

    def change_program(self, number: int, program: pathlib.Path) -> None:
        """Let the next start of a replica be one of another program."""
        link = self.folder / f"replica-{number}.program"
        made = link.with_suffix(".new")
        made.symlink_to(program)
        made.rename(link)

    def log_tails(self, lines: int = 6) -> str:
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            text = path.read_text(errors="replace").splitlines()[-lines:]
            parts.append("\n".join([f"{path.name}:", *text]))
        return "\n".join([self.output.read_text()[-1500:], *parts])


@contextlib.contextmanager
def running(
    engine: str,
    replicas: int,
    folder: pathlib.Path,
    prefix: str | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[Installation]:
    """A started installation, stopped at the end."""
    site = Installation(engine, replicas, folder, prefix, environment)
    try:
        site.start()
        yield site
    finally:
        site.stop()
