"""What systemd does for a service, as far as sockets are concerned.

The class holds listening sockets (sd_listen_fds(3)), keeps descriptors that the service stores (``FDSTORE=1`` in
sd_notify(3)), and passes all of them to the next process.
"""

import array
import contextlib
import fcntl
import os
import pathlib
import select
import socket
import threading
import time


class Service:
    """A service of ``Type=notify`` with ``FileDescriptorStoreMax=``."""

    def __init__(self, command: list[str], log: pathlib.Path, folder: pathlib.Path) -> None:
        self.command = command
        self.log = log
        self.notify = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.notify))
        self.socket.settimeout(0.1)
        self.listening: list[socket.socket] = []
        self.stored: list[tuple[str, int]] = []
        self.most_stored = 0
        self.ready = threading.Event()
        self.over = threading.Event()
        self.lock = threading.Lock()
        self.pid: int | None = None
        self.thread = threading.Thread(target=self._receive, daemon=True)
        self.thread.start()

    def listen(self, port: int) -> None:
        """A socket unit's ``ListenStream=``."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(4096)
        self.listening.append(listener)

    def _receive(self) -> None:
        size = array.array("i").itemsize
        while not self.over.is_set():
            try:
                text, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(8 * size))
            except TimeoutError:
                continue
            except OSError:
                return
            descriptors = array.array("i")
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    descriptors.frombytes(data[: len(data) - len(data) % size])
            self._handle(dict(line.partition("=")[::2] for line in text.decode().splitlines()), descriptors)

    def _handle(self, message: dict[str, str], descriptors: "array.array[int]") -> None:
        name = message.get("FDNAME", "stored")
        with self.lock:
            if message.get("FDSTOREREMOVE") == "1":
                for known, number in self.stored:
                    if known == name:
                        os.close(number)
                self.stored = [one for one in self.stored if one[0] != name]
            if message.get("FDSTORE") == "1":
                self.stored += [(name, number) for number in descriptors]
                self.most_stored = max(self.most_stored, len(self.stored))
        if message.get("READY") == "1":
            self.ready.set()

    def _drop_closed(self) -> None:
        """Drops the stored descriptors whose other end is closed, as systemd does."""
        poll = select.poll()
        for _, number in self.stored:
            poll.register(number, 0)
        gone = {number for number, event in poll.poll(0) if event & (select.POLLHUP | select.POLLERR)}
        # A listening socket is no connection that was closed.
        self.stored = [
            one for one in self.stored if one[1] not in gone or os.close(one[1]) is not None
        ]

    def start(self) -> None:
        self.ready.clear()
        with self.lock:
            self._drop_closed()
            passed = [("socket", one.fileno()) for one in self.listening] + self.stored
            # Copies with high numbers, so that none has a number that another one gets in the process.
            first = 3 + len(passed) + 1000
            copies = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, first) for _, number in passed]
        names = ":".join(name for name, _ in passed)
        environment = dict(os.environ, NOTIFY_SOCKET=str(self.notify), LISTEN_FDNAMES=names)
        environment["LISTEN_FDS"] = str(len(passed))
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        actions = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, copy, 3 + place) for place, copy in enumerate(copies)]
        # Only the new process knows its own number.
        words = ["sh", "-c", 'LISTEN_PID=$$ exec "$0" "$@"', *self.command]
        self.pid = os.posix_spawn("/bin/sh", words, environment, file_actions=actions)
        for number in (*copies, log):
            os.close(number)

    def wait_until_ready(self, timeout: float = 300) -> None:
        end = time.monotonic() + timeout
        while not self.ready.wait(0.005):
            if self.pid is None or os.waitpid(self.pid, os.WNOHANG)[0]:
                raise RuntimeError("the service ended before it was ready")
            if time.monotonic() > end:
                raise RuntimeError("the service does not get ready")

    def signal(self, number: int) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Waits for the end of the process; returns the exit code."""
        if self.pid is None:
            return 0
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            self.wait()
        self.over.set()
        self.thread.join()
        self.socket.close()
        for one in self.listening:
            one.close()
        for _, number in self.stored:
            os.close(number)
