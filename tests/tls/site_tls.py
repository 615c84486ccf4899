"""A running control with TLS, and its clients."""

import contextlib
import http.client
import pathlib
import signal
import socket
import ssl
import urllib.request
from collections.abc import Iterator

import launch
import servers
from authority import Authority, Identity
from ports import free_port
from tally import Tally

NAMES = "DNS:localhost,IP:127.0.0.1"
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
# How often the program looks at its files.
LOOK_MS = 100


class Site:
    """What the tests share: a folder, an authority, a server's certificate."""

    def __init__(self, folder: pathlib.Path, tally: Tally) -> None:
        self.folder = folder
        self.tally = tally
        self.ca = Authority(folder, "ca")
        self.other = Authority(folder, "other")
        self.identity = self.ca.issue("server", NAMES)
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key"
        self.identity.put(self.certificate, self.key)
        self.clients = folder / "clients.pem"
        self.clients.write_text(self.ca.pem.read_text())
        self.number = 0

    def check(self, name: str, ok: bool, detail: object = "") -> bool:
        return self.tally.check(name, ok, str(detail))

    def command(self, port: int, health: int, store: pathlib.Path, more: tuple[str, ...]) -> list[str]:
        return [
            *(str(launch.program()), "control", "--config", "/dev/null"),
            *("--placement-listen", f"127.0.0.1:{port}", "--health-listen", f"127.0.0.1:{health}"),
            *("--store-path", str(store), "--placement-tls-certificate", str(self.certificate)),
            *("--placement-tls-key", str(self.key), "--tls-reload-check-ms", str(LOOK_MS)),
            *more,
        ]

    @contextlib.contextmanager
    def control(self, *more: str) -> Iterator["Control"]:
        self.identity.put(self.certificate, self.key)
        self.number += 1
        store = self.folder / f"store-{self.number}"
        port, health = free_port(), free_port()
        control = Control(self.command(port, health, store, more), port, health, store)
        control.server.start()
        try:
            yield control
        finally:
            control.server.stop()


class Control:
    def __init__(self, command: list[str], port: int, health: int, store: pathlib.Path) -> None:
        self.port = port
        self.health = health
        self.store = store
        self.command = command
        self.log_path = store.with_suffix(".log")
        self.server = servers.Server(command, port, str(self.log_path), start_timeout=60, stop_timeout=40)

    def log(self) -> str:
        return self.log_path.read_text()

    def hang_up(self) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGHUP)

    def metrics(self, name: str) -> dict[str, float]:
        """The series of a metric, by their labels."""
        url = f"http://127.0.0.1:{self.health}/metrics"
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        found = {}
        for line in text.splitlines():
            if line.startswith(f"placewright_{name}") and not line.startswith("#"):
                labels, value = line.rsplit(" ", 1)
                found[labels.removeprefix(f"placewright_{name}")] = float(value)
        return found


def trusting(ca: Authority, own: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca.pem))
    if own:
        context.load_cert_chain(own.certificate, own.key)
    return context


class Link:
    """A connection that is kept, with or without TLS."""

    def __init__(self, port: int, context: ssl.SSLContext | None, timeout: float = 30) -> None:
        if context:
            self.http: http.client.HTTPConnection = http.client.HTTPSConnection(
                "localhost", port, timeout=timeout, context=context
            )
        else:
            self.http = http.client.HTTPConnection("localhost", port, timeout=timeout)

    def ask(self, method: str = "GET", path: str = "/resource_providers", body: str | None = None) -> "Answer":
        headers = dict(HEADERS)
        if body is not None:
            headers["Content-Type"] = "application/json"
        self.http.request(method, path, body, headers)
        response = self.http.getresponse()
        return Answer(response.status, response.read().decode(), response.headers)

    def serial(self) -> str:
        """The serial number of the server's certificate."""
        if self.http.sock is None:
            self.http.connect()
        sock = self.http.sock
        assert isinstance(sock, ssl.SSLSocket)
        return str((sock.getpeercert() or {})["serialNumber"])

    def close(self) -> None:
        self.http.close()


class Answer:
    def __init__(self, status: int, body: str, headers: http.client.HTTPMessage) -> None:
        self.status = status
        self.body = body
        self.headers = headers


def ask(port: int, context: ssl.SSLContext | None, path: str = "/resource_providers") -> Answer:
    """A request on a connection of its own."""
    link = Link(port, context)
    try:
        return link.ask(path=path)
    finally:
        link.close()


def refusal(port: int, context: ssl.SSLContext) -> str:
    """Why a client is not let in; an empty text if it is let in."""
    try:
        answer = ask(port, context)
    except (ssl.SSLError, ConnectionError, http.client.HTTPException) as error:
        return repr(error)
    return "" if answer.status == 200 else f"status {answer.status}"


def raw(port: int, data: bytes, timeout: float = 10, source: str = "127.0.0.1") -> socket.socket:
    """A connection that has sent some bytes."""
    link = socket.create_connection(("127.0.0.1", port), timeout, source_address=(source, 0))
    link.sendall(data)
    return link
