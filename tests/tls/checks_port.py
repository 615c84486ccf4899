"""What a port speaks: HTTP, HTTPS, or both; which versions and ciphers."""

import contextlib
import json
import socket
import ssl
import subprocess
import time
import uuid

import launch
from ports import free_port
from site_tls import Link, Site, ask, raw, refusal, trusting


def one_port(site: Site) -> None:
    """HTTP and HTTPS on one port, and what requests tell of it"""
    compute = free_port()
    more = (
        *("--compute-listen", f"127.0.0.1:{compute}"),
        *("--compute-tls-certificate", str(site.certificate), "--compute-tls-key", str(site.key)),
    )
    with site.control(*more) as control:
        context = trusting(site.ca)
        plain, secure = Link(control.port, None), Link(control.port, context)
        site.check("HTTP is served", plain.ask().status == 200)
        site.check("HTTPS is served on the same port", secure.ask().status == 200)
        sock = secure.http.sock
        assert isinstance(sock, ssl.SSLSocket)
        site.check("over TLS 1.3", sock.version() == "TLSv1.3", sock.version())
        for link, scheme in ((plain, "http"), (secure, "https")):
            body = json.dumps({"name": str(uuid.uuid4())})
            response = link.ask("POST", "/resource_providers", body)
            location = response.headers.get("Location", "")
            site.check(f"Location begins with {scheme}://", location.startswith(f"{scheme}://"), location)
            versions = ask(compute, context if scheme == "https" else None, "/").body
            site.check(f"links of the compute API begin with {scheme}://", f'"{scheme}://' in versions, versions)
        offering = trusting(site.ca)
        offering.set_alpn_protocols(["h2", "http/1.1"])
        with offering.wrap_socket(raw(control.port, b""), server_hostname="localhost") as link:
            chosen = link.selected_alpn_protocol()
        site.check("http/1.1 is chosen by ALPN", chosen == "http/1.1", chosen)
        large = Link(control.port, context).ask("POST", "/resource_providers", "x" * (1 << 20))
        site.check("a large body arrives over TLS", large.status == 400 and "JSON" in large.body, large.body)
        log = control.log()
        site.check("the access log has the version", 'tls="TLSv1.3"' in log, log[-2000:])
        shaken = control.metrics("tls_handshakes_total")
        site.check("handshakes are counted", sum(shaken.values()) >= 3, shaken)
        expiry = control.metrics("tls_certificate_expiry_timestamp_seconds")
        site.check("the certificate's end is a metric", len(expiry) == 2 and min(expiry.values()) > time.time(), expiry)


def tls_only(site: Site) -> None:
    """A port that takes TLS only refuses HTTP with an answer"""
    with site.control("--placement-tls-plain", "refuse") as control:
        site.check("HTTPS is served", ask(control.port, trusting(site.ca)).status == 200)
        answer = ask(control.port, None)
        site.check("HTTP gets 400", answer.status == 400, answer.status)
        site.check("which says why, as text", "https://" in answer.body and "text/plain" in answer.headers["Content-Type"], answer.body)
        big = Link(control.port, None).ask("PUT", "/resource_providers", "x" * 200_000)
        site.check("also with a large body", big.status == 400, big.status)
        refused = control.metrics("tls_plain_refused_total")
        site.check("and is counted", sum(refused.values()) >= 2, refused)
        log = control.log()
        site.check("the log says https://", f"placement=https://127.0.0.1:{control.port}" in log, log[:2000])


def weak(site: Site) -> None:
    """Weak versions and ciphers are refused"""
    with site.control() as control:
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            context = trusting(site.ca)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            why = refusal(control.port, context)
            site.check(f"{version.name} is refused", why != "", why)
        for ciphers, good in (
            ("ECDHE+AESGCM", True),
            ("ECDHE+CHACHA20", True),
            ("ECDHE+AES:!AESGCM:!AESCCM", False),
            ("kRSA", False),
            ("DHE", False),
        ):
            context = trusting(site.ca)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers)
            why = refusal(control.port, context)
            site.check(f"TLS 1.2 with {ciphers}: {'let in' if good else 'refused'}", (why == "") == good, why)
        for data in (b"\x16\x03\x01\x00\x05hello", b"\x16\x02", b"\x16" + bytes(5000), b"\x80\x2e\x01"):
            with raw(control.port, data) as link:
                # The server may have closed the connection already.
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    while link.recv(4096):
                        pass
        site.check("and what is no TLS breaks nothing", ask(control.port, trusting(site.ca)).status == 200)
        failures = control.metrics("tls_handshake_failures_total")
        reasons = {"version", "no_common_cipher", "malformed"}
        site.check("failures are counted by reason", all(any(one in labels for labels in failures) for one in reasons), failures)


def config_check(site: Site) -> None:
    """`placewright config check` names what is wrong"""
    site.identity.put(site.certificate, site.key)
    other = site.ca.issue("unrelated", "DNS:unrelated")

    def check(*more: str) -> tuple[int, str]:
        done = subprocess.run(
            [str(launch.program()), "config", "check", "--config", "/dev/null", "--strict", *more],
            capture_output=True, text=True, check=False,
        )
        return done.returncode, done.stdout + done.stderr

    good = ("--placement-tls-certificate", str(site.certificate), "--placement-tls-key", str(site.key))
    code, printed = check(*good)
    site.check("right files pass", code == 0, printed)
    for name, more, words in (
        ("a missing file", (*good[:3], "/nonexistent"), "/nonexistent: cannot read it"),
        ("another certificate's key", (*good[:3], str(other.key)), "not the key of the certificate"),
        ("a key without a certificate", good[2:], "placement.tls_key"),
        ("no authority of clients", (*good, "--placement-tls-client-certificates", "required"), "tls_client_ca"),
        ("refusing HTTP without HTTPS", ("--compute-tls-plain", "refuse"), "compute.tls_plain"),
    ):
        code, printed = check(*more)
        site.check(f"{name} is an error", code == 2 and words in printed, printed)
    site.key.chmod(0o644)
    code, printed = check(*good)
    site.check("a key that everybody may read is a warning", "chmod o-rwx" in printed and code == 2, printed)
    site.key.chmod(0o600)
    site.ca.issue("late", "DNS:localhost", ends=86400).put(site.certificate, site.key)
    code, printed = check(*good)
    site.check("a certificate that soon expires is a warning", "it expires at" in printed, printed)
    site.identity.put(site.certificate, site.key)


CHECKS = {"one-port": one_port, "tls-only": tls_only, "weak": weak, "config-check": config_check}
