"""Network namespaces for replicas and their engine, and cuts between two of them.

    hub (this process)  10.77.0.1   a bridge, and the clients
    PREFIX-engine       10.77.0.2   all members of the engine
    PREFIX-replica-i    10.77.0.10+i

A cut between two of them lets packets vanish in both directions, as a broken cable does: each gets a
wrong address of the other's network card.  Nobody is told, and what others send arrives.
Needs root and `ip` (Debian: iproute2).
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable

import servers
from layout import ENGINE_HOST, FIRST_REPLICA_HOST, HUB_HOST, SUBNET

CLONE_NEWNET = 0x40000000
# The address of a network card that nobody has.
NOBODY = "02:00:00:00:de:ad"


def missing() -> str | None:
    """What is missing to make namespaces."""
    if shutil.which("ip") is None:
        return "the program ip is not installed (Debian: iproute2)"
    name = f"pw{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except servers.ServerError as error:
        return f"network namespaces cannot be made, for which this has to be root: {error}"
    return None


def _ip(*words: str, check: bool = True) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise servers.ServerError(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Network:
    """The namespaces. This process moves into one of its own, in which what it starts later is too."""

    def __init__(self, replicas: int) -> None:
        self.prefix = f"pw{os.getpid()}"
        self.hosts = {"engine": ENGINE_HOST}
        self.hosts |= {f"replica-{number}": FIRST_REPLICA_HOST + number for number in range(replicas)}
        self.cuts: list[tuple[str, str]] = []

    def __enter__(self) -> "Network":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            raise servers.ServerError(f"unshare: {os.strerror(ctypes.get_errno())}")
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "hub", "type", "bridge")
        _ip("address", "add", f"{SUBNET}.{HUB_HOST}/24", "dev", "hub")
        _ip("link", "set", "hub", "up")
        for name, host in self.hosts.items():
            self._add(name, host)
        return self

    def _add(self, name: str, host: int) -> None:
        namespace = f"{self.prefix}-{name}"
        _ip("netns", "add", namespace)
        outer = f"to-{name}"
        _ip(*f"link add {outer} type veth peer name eth0 netns {namespace}".split())
        _ip("link", "set", outer, "master", "hub", "up")
        _ip(*f"-n {namespace} address add {SUBNET}.{host}/24 dev eth0".split())
        _ip(*f"-n {namespace} link set lo up".split())
        _ip(*f"-n {namespace} link set eth0 up".split())

    def __exit__(self, *_: object) -> None:
        for name in self.hosts:
            _ip("netns", "delete", f"{self.prefix}-{name}", check=False)

    def cut(self, name: str, others: Iterable[str]) -> None:
        """Cut one off from others."""
        for other in others:
            for here, there in ((name, other), (other, name)):
                address = f"{SUBNET}.{self.hosts[there]}"
                words = f"neigh replace {address} lladdr {NOBODY} dev eth0 nud permanent"
                _ip("-n", f"{self.prefix}-{here}", *words.split())
            self.cuts.append((name, other))

    def mend(self) -> None:
        """Undo all cuts."""
        for name, other in self.cuts:
            for here, there in ((name, other), (other, name)):
                address = f"{SUBNET}.{self.hosts[there]}"
                _ip("-n", f"{self.prefix}-{here}", "neigh", "del", address, "dev", "eth0")
        self.cuts.clear()
