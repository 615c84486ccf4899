"""A running control under claims, its backups, and what is restored from them."""

import json
import pathlib
import re
import subprocess
import urllib.request

import launch
import servers
from ports import free_port

CONNECTIONS = 64


class Failed(Exception):
    """A command of placewright did not do what it has to."""


def placewright(*words: object, code: int = 0) -> str:
    """Runs a command, which has to end with this exit code; returns what it prints."""
    command = [str(launch.program()), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != code:
        raise Failed(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + (done.stderr if code else "")


class Backup:
    """A backup that was made."""

    def __init__(self, store: pathlib.Path, target: pathlib.Path, *options: object) -> None:
        output = placewright("journal", "backup", *options, store, target)
        form = (
            r"(.+): up to entry (\d+), with everything acknowledged before (\S+); "
            r"reaches back to entry (\d+); ([\d.]+) MiB in ([\d.]+) s"
        )
        found = re.fullmatch(form, output.strip())
        if not found:
            raise Failed(f"journal backup printed {output}")
        self.file = pathlib.Path(found[1])
        self.end, self.made_at, self.first = int(found[2]), found[3], int(found[4])
        self.mebibytes, self.seconds = float(found[5]), float(found[6])

    def restore(self, store: pathlib.Path, until: object = None) -> tuple[int, str]:
        """The entry and the digest that the restored store ends with, as the command says."""
        options = () if until is None else ("--until", until)
        output = placewright("journal", "restore", self.file, store, *options)
        found = re.fullmatch(
            r".+: restored to entry (\d+)(?: of \S+)?, digest ([0-9a-f]{32})", output.strip()
        )
        if not found:
            raise Failed(f"journal restore printed {output}")
        return int(found[1]), found[2]


def digests(store: pathlib.Path, sequences: list[int]) -> dict[int, str]:
    """The digests of the states after these entries, as the store's journal has them."""
    at = [f"--at={sequence}" for sequence in sequences]
    lines = placewright("journal", "digest", "--store", store, *at).splitlines()
    return {int(sequence): digest for sequence, digest in map(str.split, lines)}


class Control(servers.Server):
    """`placewright control` on a store."""

    def __init__(self, store: pathlib.Path, *options: str) -> None:
        self.store = store
        port = free_port()
        command = [
            *(str(launch.program()), "control", "--config", "/dev/null", "--store-path", str(store)),
            *("--placement-listen", f"127.0.0.1:{port}", "--log-filter", "warn"),
            *options,
        ]
        super().__init__(command, port, f"{store}.log", start_timeout=300, stop_timeout=60)

    def __enter__(self) -> "Control":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _bench(self, *options: object) -> list[str]:
        words = ["http", "--url", self.url, "--connections", CONNECTIONS, "--json", *options]
        return [str(launch.bench_program()), *map(str, words)]

    def fill(self, hosts: int) -> None:
        self._run("--phases", "load", "--hosts", hosts)

    def claims(self, seconds: float) -> float:
        """Claims for some seconds as fast as possible; returns how many claims a second succeeded."""
        return self._run("--phases", "claims", "--seconds", seconds)

    def claim(self, count: int) -> float:
        return self._run("--phases", "claims", "--seconds", 86_400, "--requests", count)

    def start_claims(self, seconds: float = 86_400) -> subprocess.Popen:
        command = self._bench("--phases", "claims", "--seconds", seconds)
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def _run(self, *options: object) -> float:
        done = subprocess.run(self._bench(*options), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"placewright-bench: {done.stdout}{done.stderr}")
        return rate(done.stdout)

    def add(self, name: str, uuid: str) -> None:
        """Makes a resource provider, and waits for the acknowledgement."""
        body = json.dumps({"name": name, "uuid": uuid}).encode()
        self._ask("/resource_providers", body)

    def has(self, name: str) -> bool:
        return bool(self._ask(f"/resource_providers?name={name}")["resource_providers"])

    def _ask(self, path: str, body: bytes | None = None) -> dict:
        headers = {
            "X-Auth-Token": "admin",
            "Content-Type": "application/json",
            "OpenStack-API-Version": "placement 1.39",
        }
        request = urllib.request.Request(f"{self.url}{path}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def rate(printed: str) -> float:
    (phase,) = json.loads(printed)
    if phase["failed"]:
        raise Failed(f"{phase['failed']} requests failed: {phase.get('first_error')}")
    return phase["requests_per_second"]
