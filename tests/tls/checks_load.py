"""Handshakes that go on slowly or come in bulk, and restarts."""

import contextlib
import http.client
import socket
import ssl
import statistics
import threading
import time

import servers
from site_tls import Link, Site, ask, raw, trusting

# The beginning of a record with a handshake's message, and no more.
HALF = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def seconds_until_closed(link: socket.socket, longest: float) -> float | None:
    """How long it takes until the server closes a connection; None if it takes longer than ``longest``."""
    began = time.monotonic()
    link.settimeout(longest)
    with contextlib.suppress(ConnectionError):
        try:
            while link.recv(4096):
                pass
        except TimeoutError:
            return None
    return time.monotonic() - began


def slow(site: Site) -> None:
    """Handshakes that stop are ended, and keep nobody out"""
    limits = ("--tls-handshakes-max", "8", "--tls-handshakes-per-peer-max", "4", "--tls-handshake-timeout-ms", "4000")
    with site.control(*limits, "--placement-first-byte-timeout-ms", "2000") as control:
        silent = raw(control.port, b"")
        after = seconds_until_closed(silent, 10)
        site.check("a connection that says nothing is closed", after is not None and after < 6, after)
        half = raw(control.port, HALF)
        after = seconds_until_closed(half, 15)
        site.check("a handshake that stops is closed in time", after is not None and 3 < after < 10, after)
        # All handshakes that are allowed at a time are taken, from several addresses.
        crowd = [raw(control.port, HALF, source=f"127.0.0.{10 + number % 5}") for number in range(60)]
        time.sleep(0.3)
        began = time.monotonic()
        plain = ask(control.port, None).status
        site.check("HTTP is served meanwhile", plain == 200 and time.monotonic() - began < 2, plain)
        times = []
        for _ in range(3):
            began = time.monotonic()
            with trusting(site.ca).wrap_socket(raw(control.port, b"", 30, "127.0.0.99"), server_hostname="localhost"):
                times.append(time.monotonic() - began)
        site.check("and a handshake of somebody else gets its place", max(times) < 8, times)
        print(f"        others shook hands in {', '.join(f'{one:.2f} s' for one in times)} among 60 that stood still")
        for link in crowd:
            link.close()
        failures = control.metrics("tls_handshake_failures_total")
        site.check("both are counted", any("timeout" in labels for labels in failures) and any("displaced" in labels for labels in failures), failures)


def flood(site: Site) -> None:
    """Handshakes in bulk do not hold up connections that are past theirs"""
    over = threading.Event()
    counts = [0] * 12

    def attack(number: int, port: int, context: ssl.SSLContext) -> None:
        while not over.is_set():
            with contextlib.suppress(OSError), context.wrap_socket(
                raw(port, b"", 30, f"127.0.1.{number}"), server_hostname="localhost"
            ):
                counts[number] += 1

    with site.control() as control:
        site.ca.issue("slow-key", "DNS:localhost,IP:127.0.0.1", kind="rsa").put(site.certificate, site.key)
        control.hang_up()
        kept = Link(control.port, trusting(site.ca))
        kept.ask()

        def times(seconds: float) -> list[float]:
            taken, end = [], time.monotonic() + seconds
            while time.monotonic() < end:
                began = time.monotonic()
                kept.ask()
                taken.append(time.monotonic() - began)
            return taken

        quiet = times(2)
        threads = [
            threading.Thread(target=attack, args=(number, control.port, trusting(site.ca)))
            for number in range(1, len(counts))
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        busy = times(5)
        over.set()
        for thread in threads:
            thread.join()
        rate = sum(counts) / (time.monotonic() - began)
        site.check("kept connections are answered within a second", max(busy) < 1.0, max(busy))
        print(
            f"        median of a request {statistics.median(quiet) * 1e3:.1f} ms alone,"
            f" {statistics.median(busy) * 1e3:.1f} ms beside {rate:.0f} handshakes a second"
        )


def restart(site: Site) -> None:
    """The listening socket goes to the next process, and nobody is refused"""
    with site.control() as control:
        failures: list[str] = []
        count = 0
        over = threading.Event()
        context = trusting(site.ca)

        def work() -> None:
            nonlocal count
            while not over.is_set():
                try:
                    if ask(control.port, context).status != 200:
                        failures.append("status")
                except (OSError, http.client.HTTPException) as error:
                    failures.append(repr(error))
                count += 1

        plain = Link(control.port, None)
        plain.ask()
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        first = control.server.process
        assert first is not None
        successor = servers.Server(
            [*control.command, "--control-take-over"], control.port, str(control.log_path), start_timeout=60
        )
        time.sleep(0.5)
        successor.start()
        first.wait(60)
        control.server.process = None
        time.sleep(1)
        over.set()
        for thread in threads:
            thread.join()
        status = plain.ask().status
        successor.stop()
        # Other failures, such as a connection that is closed as its request comes, are counted below.
        refused = [one for one in failures if "Refused" in one]
        site.check("no connection is refused", not refused, failures[:5])
        site.check("each new connection gets its answer", not failures, failures[:5])
        site.check("a kept connection without TLS goes on", status == 200, status)
        print(f"        {count} connections with a handshake and a request meanwhile")


CHECKS = {"slow": slow, "flood": flood, "restart": restart}
