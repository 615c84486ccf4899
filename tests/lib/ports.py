"""Ports for servers that a test starts, and may start again on the same port.

A port that the system gives (bind to 0, close, start the server) may be taken in between:
by another test, or by any connection that somebody opens, because both come from the same
range.  So ports are taken from below that range, and each is held by a lock on a file for
as long as this process lives.  The Rust tests do the same (crates/journal-testing/src/ports.rs).
"""

import fcntl
import os
import pathlib
import socket
import tempfile

FIRST = 20_000
# Where the range begins from which the system gives ports, if the system does not say so.
SYSTEM_FIRST = 32_768

_held = []
_next = None


def _system_first() -> int:
    try:
        text = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        return int(text.split()[0])
    except (OSError, ValueError):
        return SYSTEM_FIRST


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _hold(folder: pathlib.Path, port: int) -> bool:
    try:
        lock = open(folder / str(port), "w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    _held.append(lock)
    return True


def free_port() -> int:
    """A port that nobody else gets while this process lives."""
    global _next
    folder = pathlib.Path(tempfile.gettempdir()) / "placewright-ports"
    folder.mkdir(mode=0o777, exist_ok=True)
    count = max(_system_first() - FIRST, 1_000)
    if _next is None:
        # Processes that start together begin at different places.
        _next = os.getpid() * 61 % count
    for _ in range(count):
        port = FIRST + _next % count
        _next += 1
        if _hold(folder, port):
            if _is_free(port):
                return port
            _held.pop().close()
    raise RuntimeError("no port is free")


def free_block(count: int) -> int:
    """The first of so many ports in a row that nobody else gets while this process lives."""
    first = last = free_port()
    while last - first < count - 1:
        port = free_port()
        if port != last + 1:
            first = port
        last = port
    return first
