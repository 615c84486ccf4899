"""Connections that send nothing or next to nothing, on each port, and too few file descriptors."""

import contextlib
import http.client
import pathlib
import socket
import threading
import time
from collections.abc import Iterator

from case import Case, Site
from crowd import Crowd, raise_descriptors
from ports import free_port

# Within how many seconds a caller among the crowd must be answered.
SOON_S = 1.0
# The preface of HTTP/2 with an empty frame of settings.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


def ask(port: int, path: str = "/healthz") -> tuple[int | None, float]:
    """The status and the time of a request on a new connection."""
    began = time.perf_counter()
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        link.request("GET", path)
        status = link.getresponse().status
    except (OSError, http.client.HTTPException):
        status = None
    finally:
        link.close()
    return status, time.perf_counter() - began


def greet(port: int) -> tuple[bool, float]:
    """Whether a gRPC port greets a new caller, and how long that took."""
    began = time.perf_counter()
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as link:
            link.sendall(GREETING)
            # The answer has to begin with a frame of settings: its type is the fourth byte.
            ok = link.recv(9)[3:4] == b"\x04"
    except OSError:
        ok = False
    return ok, time.perf_counter() - began


def exchange(port: int, data: bytes) -> bytes:
    """Sends bytes on a new connection; what arrives first, or the error."""
    with socket.create_connection(("127.0.0.1", port), 10) as link:
        link.sendall(data)
        try:
            return link.recv(65536)
        except OSError as error:
            return repr(error).encode()


def shared_token(case: Case) -> pathlib.Path:
    """A file with a token: with it, roles on loopback take gRPC without certificates."""
    token = case.folder / "token"
    token.write_text("0123456789abcdef")
    return token


@contextlib.contextmanager
def kept_in_use(port: int) -> Iterator[list[object]]:
    """A connection that is used again and again; yields the list of what went wrong on it."""
    wrong: list[object] = []
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    over = threading.Event()

    def use() -> None:
        # If the client opened it again by itself, nobody would notice that the server had closed it.
        link.connect()
        link.auto_open = 0
        while not over.wait(0.02):
            began = time.perf_counter()
            try:
                link.request("GET", "/")
                link.getresponse().read()
            except (OSError, http.client.HTTPException) as error:
                wrong.append(repr(error))
                return
            if time.perf_counter() - began > SOON_S:
                wrong.append(time.perf_counter() - began)

    thread = threading.Thread(target=use)
    thread.start()
    try:
        yield wrong
    finally:
        over.set()
        thread.join()
        link.close()


def check_port(case: Case, site: Site, health: int, control: int, name: str, port: int) -> None:
    is_grpc = port == control
    with kept_in_use(site.placement if is_grpc else port) as wrong:
        time.sleep(0.1)
        with Crowd(port, 1200 if case.short else 6000, reopened_per_s=200) as crowd:
            time.sleep(0.5)
            answer, took = greet(port) if is_grpc else ask(port)
            ok = answer in (True, 200)
            what = f"a crowd on {name}: "
            case.check(what + "a newcomer is served", ok and took < SOON_S, (ok, took, crowd))
            status, took = ask(health)
            case.check(what + "health answers", status == 200 and took < SOON_S, (status, took))
            for other in (site.placement, site.compute, site.scheduler):
                status, took = ask(other)
                ok = status == 200 and took < SOON_S
                case.check(what + f"port {other} answers", ok, (status, took))
    case.check(what + "a kept connection in use stays", not wrong, wrong[:3])


def check_times(case: Case) -> None:
    times = {
        "placement_first_byte_timeout_ms": 1000,
        "placement_head_timeout_ms": 1500,
    }
    with case.up(hosts=0, **times) as site:
        began = time.monotonic()
        silent = socket.create_connection(("127.0.0.1", site.placement), 15)
        dripping = socket.create_connection(("127.0.0.1", site.placement), 15)
        dripping.sendall(b"GET / HTTP/1.1\r\nX: ")
        received = silent.recv(1)
        took = time.monotonic() - began
        case.check("who says nothing is cut soon", received == b"" and took < 4, took)
        with contextlib.suppress(OSError):
            while time.monotonic() < began + 10:
                dripping.sendall(b"x")
                time.sleep(0.05)
        took = time.monotonic() - began
        case.check("who drips is cut too", took < 6, took)
        for name, head in {
            "without a host": b"GET / HTTP/1.1\r\n\r\n",
            "with two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        }.items():
            for port in (site.placement, site.compute, site.scheduler):
                answer = exchange(port, head)
                ok = answer.startswith(b"HTTP/1.1 400")
                case.check(f"a request {name} is refused by port {port}", ok, answer[:100])
        for port in (site.placement, site.compute, site.scheduler):
            status, _ = ask(port, "/metrics")
            case.check(f"port {port} shows no metrics", status == 404, status)


def check_descriptors(case: Case) -> None:
    """Fewer descriptors than connections: no port takes the descriptors of another, and nothing spins."""
    health, control = free_port(), free_port()
    options = {
        "health_listen": f"127.0.0.1:{health}",
        "control_listen": f"127.0.0.1:{control}",
        "control_token_file": shared_token(case),
    }
    with case.up(hosts=0, descriptors=256, **options) as site, contextlib.ExitStack() as crowds:
        for port in (site.placement, site.compute, site.scheduler, control):
            crowds.enter_context(Crowd(port, 300, drips=False, reopened_per_s=0))
        time.sleep(1)
        before, began = site.cpu_seconds(), time.monotonic()
        time.sleep(3)
        share = (site.cpu_seconds() - before) / (time.monotonic() - began)
        case.check("few descriptors: nothing spins", share < 0.15, f"{share:.0%} of a core")
        for port in (site.placement, site.compute, site.scheduler):
            status, took = ask(port)
            case.check(f"few descriptors: port {port} answers", status == 200 and took < 2, (status, took))
        status, took = ask(health)
        case.check("few descriptors: health answers", status == 200 and took < SOON_S, (status, took))
        ok, took = greet(control)
        case.check("few descriptors: control greets cells", ok and took < 2, took)
        answer = site.caller(port=site.placement)(
            "POST", "/resource_providers", {"name": f"host-{time.time()}"}
        )
        case.check("few descriptors: the store works", answer.status == 200, answer)


def run(case: Case) -> None:
    raise_descriptors()
    health, control = free_port(), free_port()
    options: dict[str, object] = {
        "health_listen": f"127.0.0.1:{health}",
        "control_listen": f"127.0.0.1:{control}",
        "control_token_file": shared_token(case),
    }
    if case.short:
        options |= {"placement_connections_max": 400, "placement_connections_per_peer_max": 200}
        options |= {"control_connections_max": 400, "control_connections_per_peer_max": 200}
    with case.up(hosts=0, **options) as site:
        ports = {
            "placement": site.placement,
            "compute": site.compute,
            "scheduler": site.scheduler,
            "control": control,
        }
        for name, port in ports.items():
            check_port(case, site, health, control, name, port)
    check_times(case)
    check_descriptors(case)
