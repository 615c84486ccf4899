"""An installation as a new user has it: `placewright up`, nothing configured but its ports."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))

import launch  # noqa: E402
import servers  # noqa: E402
from ports import free_port  # noqa: E402

SERVICES = ["identity", "compute", "placement", "scheduler", "image", "network", "control", "health"]
START_S = 60


class Installation:
    """A folder and the process on it."""

    def __init__(self, folder: pathlib.Path, options: list[str] | None = None) -> None:
        self.folder = folder
        self.ports = {service: free_port() for service in SERVICES}
        self.words = [str(launch.program()), "up", "--config", "/dev/null"]
        self.words += ["--folder", str(folder / "state"), "--hosts", "3", "--cells", "1"]
        for service, port in self.ports.items():
            self.words += [f"--{service}-listen", f"127.0.0.1:{port}"]
        self.words += options or []
        self.clouds = folder / "state" / "clouds.yaml"
        self.log = folder / "up.log"
        self.server: servers.Server | None = None

    @property
    def auth_url(self) -> str:
        return f"http://127.0.0.1:{self.ports['identity']}/v3"

    def start(self) -> None:
        self.log.unlink(missing_ok=True)
        self.server = servers.Server(self.words, self.ports["compute"], str(self.log))
        self.server.start(wait=False)
        end = time.monotonic() + START_S
        while "Placewright is up" not in self.log.read_text():
            if self.server.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"placewright up did not come up:\n{self.log.read_text()}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self.server:
            self.server.stop()

    def password(self, cloud: str) -> str:
        """The password of a user in clouds.yaml, which is written in one known form."""
        _, _, rest = self.clouds.read_text().partition(f"  {cloud}:\n")
        return next(line.split(": ")[1] for line in rest.splitlines() if "password:" in line)

    def openstack(self, *words: str, cloud: str = "placewright", **more: str) -> "Outcome":
        """Run a command of the client with the clouds.yaml as it is, and nothing else."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        env |= {"OS_CLIENT_CONFIG_FILE": str(self.clouds), "OS_CLOUD": cloud} | more
        # Imported here, because not everything that uses an installation runs where the client is installed.
        import openstack_client

        return Outcome(words, openstack_client.run(list(words), env=env, limit_s=120))


class Outcome:
    """What a command printed, and how it ended."""

    def __init__(self, words: tuple[str, ...], ended: subprocess.CompletedProcess) -> None:
        # Tokens and secrets are longer than any other word.
        shown = [word if len(word) < 40 else "…" for word in words]
        self.name = "openstack " + " ".join(shown)
        self.ok = ended.returncode == 0
        self.text = ended.stdout.strip()
        self.errors = ended.stderr.strip()

    @property
    def json(self) -> object:
        return json.loads(self.text)


@contextlib.contextmanager
def running(name: str, options: list[str] | None = None) -> Iterator[Installation]:
    """A started installation in a folder of its own, which is removed at the end."""
    with launch.scratch(name) as folder:
        installation = Installation(folder, options)
        installation.start()
        try:
            yield installation
        finally:
            installation.stop()
