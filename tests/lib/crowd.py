"""Crowds of connections that send nothing, or almost nothing."""

import contextlib
import errno
import resource
import select
import socket
import threading
import time

# What a dripping connection sends, byte by byte.
DRIPS = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: " + b"x" * 10_000


def raise_descriptors() -> int:
    """Raises this process's limit of open files as far as it may; returns the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        # A process of the administrator may exceed its hard limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 17, 1 << 17))
        return 1 << 17
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Crowd:
    """Keeps ``count`` connections to a port open, from several addresses.

    Every other connection drips: it sends one byte a second. Connections that the server closes are opened
    again, ``reopened_per_s`` a second at most.
    """

    def __init__(
        self, port: int, count: int, sources: int = 8, drips: bool = True, reopened_per_s: int = 300
    ) -> None:
        self.port = port
        self.count = count
        self.sources = [f"127.0.0.{last}" for last in range(2, 2 + sources)]
        self.drips = drips
        self.reopened_per_s = reopened_per_s
        # The connections by descriptor, each with its number in the order of opening.
        self.links: dict[int, tuple[socket.socket, int]] = {}
        self.bytes_sent: dict[int, int] = {}
        self.opened = self.closed = self.failed = 0
        # Set once all connections were opened for the first time.
        self.full = threading.Event()
        # Set when the crowd is to end.
        self.over = threading.Event()
        self.poll = select.epoll()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _open(self) -> bool:
        link = socket.socket()
        link.setblocking(False)
        source = self.sources[self.opened % len(self.sources)]
        try:
            # With this option the system chooses the local port only once it knows the other side. So a port
            # has to be unused for this pair of addresses only, and many connections find one.
            link.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            link.bind((source, 0))
            error = link.connect_ex(("127.0.0.1", self.port))
        except OSError as problem:
            error = problem.errno
        self.opened += 1
        if error not in (0, errno.EINPROGRESS):
            link.close()
            self.failed += 1
            return False
        self.links[link.fileno()] = (link, self.opened)
        self.poll.register(link.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        return True

    def _close(self, number: int) -> None:
        link, _ = self.links.pop(number)
        self.bytes_sent.pop(number, None)
        self.poll.unregister(number)
        link.close()
        self.closed += 1

    def _close_ended(self, wait_s: float) -> None:
        for number, _ in self.poll.poll(wait_s, 1000):
            link, _ = self.links[number]
            try:
                if link.recv(4096):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            self._close(number)

    def _drip(self) -> None:
        for number, (link, index) in list(self.links.items()):
            if index % 2 and number in self.links:
                sent = self.bytes_sent.get(number, 0)
                with contextlib.suppress(OSError):
                    link.send(DRIPS[sent : sent + 1])
                    self.bytes_sent[number] = sent + 1

    def _run(self) -> None:
        dripped = refilled = time.monotonic()
        while not self.over.is_set():
            now = time.monotonic()
            if not self.full.is_set():
                missing = min(self.count - self.opened, 200)
                if missing <= 0:
                    self.full.set()
            else:
                missing = min(self.count - len(self.links), int((now - refilled) * self.reopened_per_s))
            if missing > 0:
                refilled = now
                for _ in range(missing):
                    if not self._open():
                        break
            self._close_ended(0.01)
            if self.drips and now - dripped > 1:
                dripped = now
                self._drip()
        for link, _ in self.links.values():
            link.close()
        self.poll.close()

    def __enter__(self) -> "Crowd":
        self.thread.start()
        self.full.wait(120)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(30)

    def __str__(self) -> str:
        return (
            f"{len(self.links)} connections open, {self.opened} opened, {self.closed} closed by the"
            f" server, {self.failed} not opened"
        )
